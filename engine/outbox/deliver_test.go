package outbox_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

func TestDeliver_Accepted(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		r := b.Issue(enginetest.SaleTo("a", "ana@example.com"))
		b.Issue(enginetest.SaleTo("b", ""))
		time.Sleep(time.Second)
		got := p.Taken()
		if len(got) != 1 || got[0].To[0] != "ana@example.com" || got[0].Id != "<"+strings.ToLower(r.Code)+
			"@tienda.example>" {
			t.Fatalf("mailed %+v", got)
		}
		if got[0].Subject != "[PRUEBAS] Comprobante de crédito fiscal "+r.ControlNumber+" de Abarrotes La Ceiba" {
			t.Error(got[0].Subject)
		}
		if f := got[0].Files[r.Code+".pdf"]; !strings.HasPrefix(string(f), "%PDF-") {
			t.Errorf("the PDF is %.20q", f)
		}
		file, err := dte.Parse(got[0].Files[r.Code+".json"])
		if err != nil || file.Get("firmaElectronica").Text() != string(r.JWS) ||
			file.Get("selloRecibido").Text() != r.Sello {
			t.Errorf("the legal file: %v %.300s", err, got[0].Files[r.Code+".json"])
		}
		if !strings.HasPrefix(string(got[0].Files[r.Code+".json"]), strings.TrimSuffix(string(r.JSON), "}")) {
			t.Error("the document inside the legal file is not what was signed")
		}
		time.Sleep(24 * time.Hour)
		if n := len(p.Taken()); n != 1 {
			t.Errorf("mailed %d times", n)
		}
		b.Audit()
	})
}

// The acceptance and the owed deliveries are one batch: a crash between them and the mail loses nothing.
func TestDeliver_Crash(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		p.Set(func() { p.Down = true })
		r := b.Issue(enginetest.SaleTo("a", "ana@example.com"))
		b.Crash()
		p.Set(func() { p.Down = false })
		time.Sleep(10 * time.Minute)
		if n := len(p.Of(r.Code)); n != 1 {
			t.Fatalf("mailed %d times", n)
		}
		// The server accepts a message and the answer is lost: the message is sent again under the same ID.
		p.Set(func() { p.Mute = true })
		r = b.Issue(enginetest.SaleTo("b", "ana@example.com"))
		time.Sleep(time.Second)
		p.Set(func() { p.Mute = false })
		b.Crash()
		time.Sleep(10 * time.Minute)
		got := p.Of(r.Code)
		if len(got) != 2 || got[0].Id != got[1].Id {
			t.Fatalf("mailed %+v", got)
		}
		b.Audit()
	})
}

// The mail server is away for two days, some receivers do not exist, some servers postpone: each document is delivered
// once or reported, none is lost.
func TestDeliver_TwoDaysDown(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		p.Set(func() { p.Down, p.Replies = true, map[string]int{"gone@example.com": 550, "grey@example.com": 451} })
		var codes []string
		for i := range 40 {
			codes = append(codes, b.Issue(enginetest.SaleTo(fmt.Sprint(i), fmt.Sprintf("c%d@example.com", i))).Code)
			if i == 20 {
				time.Sleep(20 * time.Hour)
				b.Crash()
			}
		}
		gone, grey := b.Issue(
			enginetest.SaleTo("gone", "gone@example.com"),
		), b.Issue(
			enginetest.SaleTo("grey", "grey@example.com"),
		)
		time.Sleep(28 * time.Hour)
		u := b.Undelivered()
		if u.Mail != 42 || u.MailTrouble == "" || time.Since(u.MailOldest) < 47*time.Hour || u.GivenUp != 0 {
			t.Errorf("after two days: %+v", u)
		}
		b.ShowsDelivery(u)
		if p.Dials > 2000 {
			t.Errorf("the server was called %d times", p.Dials)
		}
		p.Set(func() { p.Down = false })
		time.Sleep(outbox.PauseMost + time.Second)
		for _, code := range codes {
			if n := len(p.Of(code)); n != 1 {
				t.Errorf("%s was mailed %d times", code, n)
			}
		}
		if u = b.Undelivered(); u.Mail != 1 || u.MailTrouble != "" || u.GivenUp != 1 ||
			u.Failures[0].Code != gone.Code || u.Failures[0].To != "gone@example.com" {
			t.Errorf("with the server back: %+v", u)
		}
		b.ShowsDelivery(u)
		p.Set(func() { p.Replies = nil })
		time.Sleep(6 * time.Hour)
		if n := len(p.Of(grey.Code)); n != 1 {
			t.Errorf("what was put off was mailed %d times", n)
		}
	})
}

func TestDeliver_GivenUp(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		p.Set(func() { p.Replies["grey@example.com"] = 451 })
		r := b.Issue(enginetest.SaleTo("grey", "grey@example.com"))
		time.Sleep(5*24*time.Hour - time.Minute)
		u := b.Undelivered()
		if u.Mail != 1 || u.GivenUp != 0 {
			t.Errorf("within five days: %+v", u)
		}
		time.Sleep(24 * time.Hour)
		u = b.Undelivered()
		if u.Mail != 0 || u.GivenUp != 1 || u.Failures[0].Code != r.Code || !strings.Contains(u.Failures[0].Error,
			"given up") {
			t.Fatalf("after six days: %+v", u)
		}
		resent, err := b.Engine.Outbox().
			Resend(context.Background(), enginetest.CodeOf(r), "other@example.com", enginetest.TestCaller(1))
		if err != nil || !resent.Sent || resent.To != "other@example.com" {
			t.Fatalf("%+v %v", resent, err)
		}
		time.Sleep(time.Second)
		if u = b.Undelivered(); u.GivenUp != 0 {
			t.Errorf("after a resend: %+v", u)
		}
		got := metrictest.Values(t, b.Engine)
		if got["dte_mail_total/given_up"] != 1 || got["dte_mail_total/sent"] != 1 || got["dte_mail_total/later"] == 0 {
			t.Errorf("counted: %v", got)
		}
		// A letter that is postponed is tried after a minute, and then after as long again as it has waited.
		before := p.Attempts("grey@example.com")
		if _, err := b.Engine.Outbox().Resend(context.Background(), enginetest.CodeOf(r), "", enginetest.TestCaller(1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Minute)
		if n := p.Attempts("grey@example.com") - before; n != 8 {
			t.Errorf("in 100 minutes a letter is tried %d times", n)
		}
		p.Set(func() { p.Replies = nil })
		time.Sleep(6 * time.Hour)
		b.Audit()
	})
}

// TestDeliver_OnTime: a postponed message is sent when it is due, whatever else the outbox does, and not earlier.
func TestDeliver_OnTime(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		p.Set(func() { p.Replies["grey@example.com"] = 451 })
		r := b.Issue(enginetest.SaleTo("grey", "grey@example.com"))
		time.Sleep(time.Second)
		for range 3 {
			entry, err := b.Store.Get(storage.Code(enginetest.CodeOf(r)))
			if err != nil || entry.Due == nil {
				t.Fatalf("%+v, %v", entry, err)
			}
			for time.Now().Before(entry.Due.At.Add(-100 * time.Second)) {
				time.Sleep(time.Minute)
			}
			b.Issue(enginetest.SaleTo("", "ana@example.com")) // the outbox wakes up, at another second of the minute
			time.Sleep(time.Until(entry.Due.At) - time.Second)
			before := p.Attempts("grey@example.com")
			time.Sleep(2 * time.Second)
			if n := p.Attempts("grey@example.com"); n != before+1 {
				t.Errorf("at %v it was tried %d times", entry.Due.At, n-before)
			}
		}
	})
}

// A server that refuses this box causes an alert and loses nothing, however long the repair takes.
func TestDeliver_Setup(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		b.Close()
		b.Delivery.GiveUpAfter = time.Hour
		b.Start()
		p.Set(func() { p.Sender = 530 })
		for i := range 20 { // so many that most are due while the server is left alone
			b.Issue(enginetest.SaleTo(fmt.Sprint(i), "ana@example.com"))
		}
		time.Sleep(6 * time.Hour)
		if u := b.Undelivered(); u.Mail != 20 || u.GivenUp != 0 || !strings.Contains(u.MailTrouble, "530") {
			t.Errorf("after six hours: %+v", u)
		}
		for result, n := range metrictest.Values(t, b.Engine) {
			if name, of := strings.CutPrefix(result, "dte_mail_total/"); of && (n > 0) != (name == "setup") {
				t.Errorf("%v messages are counted as %s", n, name)
			}
		}
		p.Set(func() { p.Sender = 0 })
		time.Sleep(outbox.PauseMost + time.Second)
		if n := len(p.Taken()); n != 20 {
			t.Errorf("mailed %d times", n)
		}
		b.Audit()
	})
}

// A new message at which the server hangs up does not delay the messages that have waited for the server for hours.
func TestDeliver_BreaksServer(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		p.Set(func() { p.Down, p.Replies = true, map[string]int{"breaks@example.com": -1} })
		for i := range 6 {
			b.Issue(enginetest.SaleTo(fmt.Sprint(i), "ana@example.com"))
		}
		time.Sleep(10 * time.Hour)
		b.Issue(enginetest.SaleTo("breaks", "breaks@example.com"))
		time.Sleep(outbox.PauseMost)
		p.Set(func() { p.Down = false })
		time.Sleep(8 * outbox.PauseMost)
		if n, tried := len(p.Taken()), p.Attempts("breaks@example.com"); n != 6 || tried == 0 {
			t.Errorf("%d of 6 are mailed, the seventh was tried %d times", n, tried)
		}
	})
}

// The configuration loses its mail server and its archive: waiting messages are given up in the end, documents for the
// archive are not, and the branch does not busy-loop. The archive comes back.
func TestDeliver_NoServer(t *testing.T) {
	shelf := enginetest.NewBucket()
	enginetest.WithDelivery(t, shelf, func(b *enginetest.Box, p *enginetest.PostOffice) {
		p.Set(func() { p.Down = true })
		shelf.Answering(503)
		r := b.Issue(enginetest.SaleTo("a", "ana@example.com"))
		time.Sleep(time.Minute)
		b.Close()
		kept := b.Delivery.Archive
		b.Delivery.Mail, b.Delivery.Archive = nil, nil
		b.Start()
		shelf.Answering(0)
		ctx, code := context.Background(), enginetest.CodeOf(r)
		_, err := b.Engine.Outbox().Resend(ctx, code, "", enginetest.TestCaller(1))
		enginetest.Refused(t, err, refusal.CodeUnavailable, "")
		_, err = b.Engine.Outbox().CheckArchive(ctx, &outbox.ArchiveCheck{})
		enginetest.Refused(t, err, refusal.CodeUnavailable, "")
		if link, err := b.Engine.Outbox().Link(ctx, code, enginetest.TestCaller(1), "letter", time.Minute); link != "" ||
			err != nil {
			t.Errorf("a link to no archive: %s %v", link, err)
		}
		time.Sleep(6 * 24 * time.Hour)
		if u := b.Undelivered(); u.Mail != 0 || u.GivenUp != 0 || u.Archive != 1 { // given up once the archive has it
			t.Errorf("after six days: %+v", u)
		}
		b.Close()
		b.Delivery.Archive = kept
		b.Start()
		time.Sleep(6 * time.Hour)
		if u := b.Undelivered(); u.Archive != 0 || u.GivenUp != 1 || len(shelf.Get(r.PDFURL)) == 0 {
			t.Errorf("with the archive back: %+v", u)
		}
	})
}

func TestDeliver_Resend(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		ctx := context.Background()
		nobody := b.Issue(enginetest.SaleTo("a", ""))
		_, err := b.Engine.Outbox().Resend(ctx, enginetest.CodeOf(nobody), "", enginetest.TestCaller(1))
		enginetest.Refused(t, err, refusal.CodeNoRecipient, "")
		_, err = b.Engine.Outbox().
			Resend(ctx, enginetest.CodeOf(nobody), "a@example.com\r\nBcc: b@example.com", enginetest.TestCaller(1))
		enginetest.Refused(t, err, refusal.CodeValidation, "email")
		other := enginetest.TestCaller(1)
		other.Point.BranchID++
		_, err = b.Engine.Outbox().Resend(ctx, enginetest.CodeOf(nobody), "a@example.com", other)
		enginetest.Refused(t, err, refusal.CodeNotFound, "")
		b.Chaos(simulator.Chaos{Reject: 1})
		rejected := b.Issue(enginetest.SaleTo("b", "ana@example.com"))
		_, err = b.Engine.Outbox().Resend(ctx, enginetest.CodeOf(rejected), "", enginetest.TestCaller(1))
		enginetest.Refused(t, err, refusal.CodeNotProcessed, "")

		r := b.Issue(enginetest.SaleTo("c", "ana@example.com"))
		time.Sleep(time.Second)
		resent, err := b.Engine.Outbox().Resend(ctx, enginetest.CodeOf(r), "", enginetest.TestCaller(1))
		if want := (outbox.Resent{Code: r.Code, To: "ana@example.com", Tipo: "CREDITO_FISCAL", Estado: r.Estado,
			Sent: true}); err != nil || *resent != want || len(p.Of(r.Code)) != 2 ||
			p.Of(r.Code)[0].Id == p.Of(r.Code)[1].Id {
			t.Fatalf("%+v %v %+v", resent, err, p.Of(r.Code))
		}
		resent, err = b.Engine.Outbox().Resend(ctx, enginetest.CodeOf(r), "ANA@Example.com", enginetest.TestCaller(1))
		if got := p.Of(r.Code); err != nil || resent.To != "ana@example.com" || len(got) != 3 ||
			got[2].To[0] != "ana@example.com" {
			t.Errorf("the receiver's address in another spelling: %+v %v %+v", resent, err, got)
		}
		// The server is away: the till is told at once, and the outbox tries again.
		p.Set(func() { p.Down = true })
		resent, err = b.Engine.Outbox().Resend(ctx, enginetest.CodeOf(r), "eva@example.com", enginetest.TestCaller(1))
		if err != nil || resent.Sent || resent.Refused {
			t.Fatalf("%+v %v", resent, err)
		}
		b.Crash()
		p.Set(func() { p.Down = false })
		time.Sleep(10 * time.Minute)
		if got := p.Of(r.Code); len(got) != 4 || got[3].To[0] != "eva@example.com" {
			t.Fatalf("mailed %+v", got)
		}
		// The server takes its time: the till waits five seconds, and the message is sent once.
		hold, began := make(chan struct{}), time.Now()
		p.Set(func() { p.Hold = hold })
		resent, err = b.Engine.Outbox().Resend(ctx, enginetest.CodeOf(r), "", enginetest.TestCaller(1))
		if err != nil || resent.Sent || resent.Refused || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %+v %v", time.Since(began), resent, err)
		}
		close(hold)
		time.Sleep(time.Hour)
		if got := p.Of(r.Code); len(got) != 5 || b.Undelivered().Mail != 0 {
			t.Errorf("mailed %d times, %+v", len(got), b.Undelivered())
		}
		b.Audit()
	})
}

// TestDeliver_AtOnce: however many messages are due, four are sent at once.
func TestDeliver_AtOnce(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		p.Set(func() { p.Replies["ana@example.com"] = 451 })
		for i := range 10 {
			b.Issue(enginetest.SaleTo(fmt.Sprint(i), "ana@example.com"))
		}
		time.Sleep(time.Second)
		hold := make(chan struct{})
		p.Set(func() { p.Replies, p.Hold = nil, hold })
		time.Sleep(2 * time.Minute)
		if n := len(p.Taken()); n != 4 {
			t.Errorf("%d are sent at once", n)
		}
		close(hold)
		time.Sleep(time.Second)
		if n := len(p.Taken()); n != 10 {
			t.Errorf("%d are sent", n)
		}
	})
}

// An invalidation uses the document's place in the queue for a while.
func TestDeliver_Invalidated(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		p.Set(func() { p.Down = true })
		r := b.Issue(enginetest.SaleTo("a", "ana@example.com"))
		b.Chaos(simulator.Chaos{LostAnswers: 1})
		if _, err := b.Engine.Invalidate(context.Background(), enginetest.Invalidation(r, 2, "")); err == nil {
			t.Fatal("the answer was to be lost")
		}
		b.Crash()
		p.Set(func() { p.Down = false })
		time.Sleep(time.Hour)
		if got := b.Document(r.Code).Estado; got != record.EstadoInvalidated {
			t.Fatalf("the document is %s", got)
		}
		if got := p.Of(r.Code); len(got) != 1 || !strings.Contains(got[0].Subject, "INVALIDADO") {
			t.Fatalf("mailed %+v", got)
		}
		if u := b.Undelivered(); u.Mail != 0 {
			t.Errorf("%+v", u)
		}
	})
}

// A message is under way when the invalidation begins: its result does not remove the invalidation from the queue.
func TestDeliver_WhileInvalidating(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		hold := make(chan struct{})
		p.Set(func() { p.Hold = hold })
		r := b.Issue(enginetest.SaleTo("a", "ana@example.com"))
		time.Sleep(time.Second)
		b.Chaos(simulator.Chaos{LostAnswers: 1})
		if _, err := b.Engine.Invalidate(context.Background(), enginetest.Invalidation(r, 2, "")); err == nil {
			t.Fatal("the answer was to be lost")
		}
		close(hold)
		time.Sleep(time.Hour)
		if got := b.Document(r.Code).Estado; got != record.EstadoInvalidated {
			t.Errorf("the document is %s", got)
		}
		if n := len(p.Of(r.Code)); n != 1 {
			t.Errorf("mailed %d times", n)
		}
		b.Crash()
		if u := b.Undelivered(); u.Mail != 0 {
			t.Errorf("%+v", u)
		}
	})
}

// In contingency nothing is mailed before the seal, unless the branch wants it: then it is mailed twice.
func TestDeliver_Contingency(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		t.Run(fmt.Sprint(wanted), func(t *testing.T) {
			enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
				b.Close()
				b.Delivery.Contingency = wanted
				b.Start()
				b.Cable.Set(enginetest.Refusing)
				r := b.Issue(enginetest.SaleTo("a", "ana@example.com"))
				time.Sleep(time.Hour)
				if n := len(p.Of(r.Code)); (n == 1) != wanted || n > 1 {
					t.Fatalf("mailed %d times before the seal", n)
				}
				if wanted {
					file := p.Of(r.Code)[0].Files[r.Code+".json"]
					if v, err := dte.Parse(file); err != nil || v.Get("selloRecibido").Kind() != dte.KindNull {
						t.Errorf("the legal file before the seal: %v %.300s", err, file)
					}
				}
				p.Set(func() { p.Replies["gone@example.com"] = 550 })
				gone := b.Issue(enginetest.SaleTo("b", "gone@example.com"))
				time.Sleep(time.Minute)
				if u := b.Undelivered(); (u.GivenUp == 1) != wanted || wanted && (u.Failures[0].Token != gone.TokenID ||
					u.Failures[0].Code != gone.Code || u.Failures[0].To != "gone@example.com" || gone.TokenID == 0) {
					t.Errorf("refused before the seal: %+v", u)
				}
				b.Cable.Set(enginetest.Plugged)
				time.Sleep(time.Hour)
				got := p.Of(r.Code)
				last := got[len(got)-1]
				file, err := dte.Parse(last.Files[r.Code+".json"])
				if err != nil || file.Get("selloRecibido").Text() == "" || strings.Contains(last.Subject,
					"contingencia") {
					t.Errorf("the last message is %s, %v", last.Subject, err)
				}
				if wanted && !strings.Contains(got[0].Subject, "contingencia") || len(got) != map[bool]int{false: 1,
					true: 2}[wanted] {
					t.Errorf("mailed %+v", got)
				}
			})
		})
	}
}

func TestDeliver_Archive(t *testing.T) {
	shelf := enginetest.NewBucket()
	enginetest.WithDelivery(t, shelf, func(b *enginetest.Box, p *enginetest.PostOffice) {
		shelf.Answering(503)
		p.Set(func() { p.Replies["grey@example.com"] = 451 })
		r := b.Issue(enginetest.SaleTo("a", "grey@example.com"))
		time.Sleep(26 * time.Hour)
		u := b.Undelivered()
		if u.Archive != 1 || u.ArchiveTrouble == "" || u.Mail != 1 || u.MailTrouble != "" {
			t.Errorf("with the store down: %+v", u)
		}
		b.ShowsDelivery(u)
		beside := b.Issue(enginetest.SaleTo("beside", "ana@example.com")) // the archive's pause is none of the mail server's
		time.Sleep(time.Second)
		if n := len(p.Of(beside.Code)); n != 1 {
			t.Errorf("mailed %d times while the archive is away", n)
		}
		if link, err := b.Engine.Outbox().Link(context.Background(), enginetest.CodeOf(r), enginetest.TestCaller(1), "letter",
			time.Minute); err != nil ||
			link != "" {
			t.Errorf("a link to what is not there: %s %v", link, err)
		}
		b.Crash()
		shelf.Answering(0)
		time.Sleep(outbox.PauseMost + time.Second)
		file, err := b.Engine.Outbox().Archivo(context.Background(), enginetest.CodeOf(r), enginetest.TestCaller(1))
		if err != nil || string(shelf.Get(r.JSONURL)) != string(file) {
			t.Errorf("%s holds %.100s, %v", r.JSONURL, shelf.Get(r.JSONURL), err)
		}
		printed, err := b.Engine.Outbox().
			Printed(context.Background(), enginetest.CodeOf(r), enginetest.TestCaller(1), "letter", false)
		if err != nil || string(shelf.Get(r.PDFURL)) != string(printed) {
			t.Errorf("%s does not hold the PDF: %v", r.PDFURL, err)
		}
		link, err := b.Engine.Outbox().
			Link(context.Background(), enginetest.CodeOf(r), enginetest.TestCaller(1), "letter", time.Minute)
		if err != nil || !strings.HasPrefix(link, "http://s3.example/documentos/"+r.PDFURL+"?") {
			t.Errorf("the link is %s, %v", link, err)
		}
		link, err = b.Engine.Outbox().
			Link(context.Background(), enginetest.CodeOf(r), enginetest.TestCaller(1), "ticket80", time.Minute)
		if err != nil || link != "" {
			t.Errorf("the archive has no tickets: %s, %v", link, err)
		}
		if u = b.Undelivered(); u.Archive != 0 || u.Mail != 1 {
			t.Errorf("with the store back: %+v", u)
		}
		if _, err := b.Engine.Invalidate(context.Background(), enginetest.Invalidation(r, 2, "")); err != nil {
			t.Fatal(err)
		}
		if link, err := b.Engine.Outbox().Link(context.Background(), enginetest.CodeOf(r), enginetest.TestCaller(1), "letter",
			time.Minute); err != nil || link != "" {
			t.Errorf("a link to a PDF without the mark INVALIDADO: %s %v", link, err)
		}
		// Another object is there: it is reported and not replaced.
		p.Set(func() { p.Replies = nil })
		shelf.Answering(503)
		r = b.Issue(enginetest.SaleTo("b", ""))
		shelf.Put(r.JSONURL, "{}", "x")
		shelf.Answering(0)
		time.Sleep(24 * time.Hour)
		if u = b.Undelivered(); u.GivenUp != 1 || u.Failures[0].Step != "archive" || u.Failures[0].Code != r.Code ||
			u.Failures[0].Token != r.TokenID || r.TokenID == 0 ||
			string(shelf.Get(r.JSONURL)) != "{}" {
			t.Errorf("with a stranger in its place: %+v", u)
		}
		got := metrictest.Values(t, b.Engine)
		for result, want := range map[string]bool{"stored": true, "conflict": true, "setup": false, "invalid": false,
			"full": false} {
			if n := got["dte_archive_total/"+result]; (n > 0) != want {
				t.Errorf("%v attempts are counted as %s", n, result)
			}
		}
	})
}

// TestDeliver_ArchiveInvalidated: a document that was invalidated before the archive could take it is archived as MH
// sealed it, because a file of the archive never changes; what is printed from then on has the mark.
func TestDeliver_ArchiveInvalidated(t *testing.T) {
	shelf := enginetest.NewBucket()
	enginetest.WithDelivery(t, shelf, func(b *enginetest.Box, _ *enginetest.PostOffice) {
		ctx, caller := context.Background(), enginetest.TestCaller(1)
		shelf.Answering(503)
		r := b.Issue(enginetest.SaleTo("a", ""))
		sealed, err := b.Engine.Outbox().Printed(ctx, enginetest.CodeOf(r), caller, "letter", false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Engine.Invalidate(ctx, enginetest.Invalidation(r, 2, "")); err != nil {
			t.Fatal(err)
		}
		shelf.Answering(0)
		time.Sleep(outbox.PauseMost + time.Second)
		marked, err := b.Engine.Outbox().Printed(ctx, enginetest.CodeOf(r), caller, "letter", false)
		if got := shelf.Get(r.PDFURL); err != nil || string(got) != string(sealed) || string(got) == string(marked) {
			t.Errorf("archived %d bytes, printed %d before and %d after: %v", len(got), len(sealed), len(marked), err)
		}
		file, err := b.Engine.Outbox().Archivo(ctx, enginetest.CodeOf(r), caller)
		if err != nil || string(shelf.Get(r.JSONURL)) != string(file) {
			t.Errorf("%s holds %.100s, %v", r.JSONURL, shelf.Get(r.JSONURL), err)
		}
	})
}

// A store that refuses the branch, or is full, causes an alert and loses nothing: the archive catches up.
func TestDeliver_ArchiveRefuses(t *testing.T) {
	for status, counted := range map[int]string{403: "setup", 507: "full", 503: "later"} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			shelf := enginetest.NewBucket()
			enginetest.WithDelivery(t, shelf, func(b *enginetest.Box, _ *enginetest.PostOffice) {
				shelf.Answering(status)
				var keys []string
				for i := range 5 {
					r := b.Issue(enginetest.SaleTo(fmt.Sprint(i), ""))
					keys = append(keys, r.JSONURL, r.PDFURL)
				}
				time.Sleep(2 * 24 * time.Hour)
				if u := b.Undelivered(); u.Archive != 5 || !strings.Contains(u.ArchiveTrouble, fmt.Sprint(status)) ||
					u.GivenUp != 0 {
					t.Errorf("after two days: %+v", u)
				}
				for result, n := range metrictest.Values(t, b.Engine) {
					if name, of := strings.CutPrefix(result, "dte_archive_total/"); of && (n > 0) != (name == counted) {
						t.Errorf("%v attempts are counted as %s", n, name)
					}
				}
				shelf.Answering(0)
				time.Sleep(outbox.PauseMost + time.Second)
				for _, key := range keys {
					if len(shelf.Get(key)) == 0 {
						t.Errorf("%s is not there", key)
					}
				}
				if u := b.Undelivered(); u.Archive != 0 || u.ArchiveTrouble != "" {
					t.Errorf("%+v", u)
				}
			})
		})
	}
}

// A message at which the server hangs up, and that waited longest, does not keep the others from being sent.
func TestDeliver_BreaksServerFirst(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		p.Set(func() { p.Down, p.Replies = true, map[string]int{"breaks@example.com": -1} })
		b.Issue(enginetest.SaleTo("breaks", "breaks@example.com"))
		for i := range 6 {
			b.Issue(enginetest.SaleTo(fmt.Sprint(i), "ana@example.com"))
		}
		time.Sleep(10 * time.Hour)
		p.Set(func() { p.Down = false })
		time.Sleep(8 * outbox.PauseMost)
		if n, tried := len(p.Taken()), p.Attempts("breaks@example.com"); n != 6 || tried == 0 {
			t.Errorf("%d of 6 are mailed, the first was tried %d times", n, tried)
		}
	})
}

// A message whose answer was lost waits alone: the server took it, and takes others.
func TestDeliver_Doubtful(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		p.Set(func() { p.Mute = true })
		doubtful := b.Issue(enginetest.SaleTo("a", "ana@example.com"))
		time.Sleep(time.Second)
		p.Set(func() { p.Mute = false })
		if u := b.Undelivered(); u.Mail != 1 || u.MailTrouble != "" {
			t.Errorf("%+v", u)
		}
		next := b.Issue(enginetest.SaleTo("b", "eva@example.com"))
		time.Sleep(time.Second)
		if n := len(p.Of(next.Code)); n != 1 {
			t.Errorf("the next was mailed %d times", n)
		}
		time.Sleep(time.Hour)
		if n := len(p.Of(doubtful.Code)); n != 2 || b.Undelivered().Mail != 0 {
			t.Errorf("what was in doubt was mailed %d times", n)
		}
		b.Audit()
	})
}

// A letter about a document that MH refuses before the letter is sent is given up: the receiver gets no document that
// does not exist.
func TestDeliver_RejectedMeanwhile(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		b.Close()
		b.Delivery.Contingency = true
		b.Start()
		p.Set(func() { p.Down = true })
		b.Cable.Set(enginetest.Refusing)
		r := b.Issue(enginetest.SaleTo("a", "ana@example.com"))
		time.Sleep(time.Hour)
		b.Chaos(simulator.Chaos{Reject: 2})
		b.Cable.Set(enginetest.Plugged)
		time.Sleep(20 * time.Minute)
		if got := b.Document(r.Code).Estado; got != record.EstadoRejected {
			t.Fatalf("the document is %s", got)
		}
		p.Set(func() { p.Down = false })
		time.Sleep(time.Hour)
		u := b.Undelivered()
		if len(p.Of(r.Code)) != 0 || u.Mail != 0 || u.GivenUp != 1 || !strings.Contains(u.Failures[0].Error, "MH refused") {
			t.Errorf("mailed %d times, %+v", len(p.Of(r.Code)), u)
		}
	})
}

// TestDeliver_CorrectedMeanwhile: a letter to the receiver of a document that MH refused, and that was corrected, goes to
// the receiver of the corrected document, or to nobody.
func TestDeliver_CorrectedMeanwhile(t *testing.T) {
	for _, address := range []string{"eva@example.com", ""} {
		enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
			b.Close()
			b.Delivery.Contingency = true
			b.Start()
			p.Set(func() { p.Down = true })
			b.Cable.Set(enginetest.Refusing)
			sale := enginetest.Invoice("a", enginetest.Item(1, "1", "5"))
			correct := sale
			sale.Facts = sale.Facts.With("receptor", enginetest.Taxpayer.With("correo", dte.Str("ana@example.com")))
			if address != "" {
				correct.Facts = sale.Facts.With("receptor", enginetest.Taxpayer.With("correo", dte.Str(address)))
			}
			r := b.Issue(sale)
			code := enginetest.CodeOf(r)
			if _, err := b.Engine.Outbox().Resend(context.Background(), code, "", enginetest.TestCaller(1)); err != nil {
				t.Fatal(err)
			}
			b.Chaos(simulator.Chaos{Reject: 1})
			b.Cable.Set(enginetest.Plugged)
			time.Sleep(20 * time.Minute)
			if _, err := b.Engine.Correct(context.Background(), code, correct); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Minute)
			p.Set(func() { p.Down = false })
			time.Sleep(time.Hour)
			if _, err := b.Engine.Outbox().Retry(context.Background(), code, false); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			letters, u := p.Of(r.Code), b.Undelivered()
			if p.Attempts("ana@example.com") != 0 || (len(letters) == 3) != (address != "") ||
				(u.GivenUp == 2) != (address == "") {
				t.Errorf("to %q: %d letters, %d to the refused address; %+v", address, len(letters),
					p.Attempts("ana@example.com"), u)
			}
		})
	}
}
