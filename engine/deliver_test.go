package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

func TestDeliver_Accepted(t *testing.T) {
	withMail(t, func(b *box, p *postOffice) {
		r := b.issue(saleTo("a", "ana@example.com"))
		b.issue(saleTo("b", ""))
		time.Sleep(time.Second)
		got := p.taken()
		if len(got) != 1 || got[0].to[0] != "ana@example.com" || got[0].id != "<"+strings.ToLower(r.Code)+
			"@tienda.example>" {
			t.Fatalf("mailed %+v", got)
		}
		if got[0].subject != "[PRUEBAS] Comprobante de crédito fiscal "+r.ControlNumber+" de Abarrotes La Ceiba" {
			t.Error(got[0].subject)
		}
		if f := got[0].files[r.Code+".pdf"]; !strings.HasPrefix(string(f), "%PDF-") {
			t.Errorf("the PDF is %.20q", f)
		}
		file, err := dte.Parse(got[0].files[r.Code+".json"])
		if err != nil || file.Get("firmaElectronica").Text() != string(r.JWS) ||
			file.Get("selloRecibido").Text() != r.Sello {
			t.Errorf("the legal file: %v %.300s", err, got[0].files[r.Code+".json"])
		}
		if !strings.HasPrefix(string(got[0].files[r.Code+".json"]), strings.TrimSuffix(string(r.JSON), "}")) {
			t.Error("the document inside the legal file is not what was signed")
		}
		time.Sleep(24 * time.Hour)
		if n := len(p.taken()); n != 1 {
			t.Errorf("mailed %d times", n)
		}
		b.audit()
	})
}

// The acceptance and the owed deliveries are one batch: a crash between them and the mail loses nothing.
func TestDeliver_Crash(t *testing.T) {
	withMail(t, func(b *box, p *postOffice) {
		p.set(func() { p.down = true })
		r := b.issue(saleTo("a", "ana@example.com"))
		b.crash()
		p.set(func() { p.down = false })
		time.Sleep(10 * time.Minute)
		if n := len(p.of(r.Code)); n != 1 {
			t.Fatalf("mailed %d times", n)
		}
		// The server accepts a message and the answer is lost: the message is sent again under the same ID.
		p.set(func() { p.mute = true })
		r = b.issue(saleTo("b", "ana@example.com"))
		time.Sleep(time.Second)
		p.set(func() { p.mute = false })
		b.crash()
		time.Sleep(10 * time.Minute)
		got := p.of(r.Code)
		if len(got) != 2 || got[0].id != got[1].id {
			t.Fatalf("mailed %+v", got)
		}
		b.audit()
	})
}

// The mail server is away for two days, some receivers do not exist, some servers postpone: each document is delivered
// once or reported, none is lost.
func TestDeliver_TwoDaysDown(t *testing.T) {
	withMail(t, func(b *box, p *postOffice) {
		p.set(func() { p.down, p.replies = true, map[string]int{"gone@example.com": 550, "grey@example.com": 451} })
		var codes []string
		for i := range 40 {
			codes = append(codes, b.issue(saleTo(fmt.Sprint(i), fmt.Sprintf("c%d@example.com", i))).Code)
			if i == 20 {
				time.Sleep(20 * time.Hour)
				b.crash()
			}
		}
		gone, grey := b.issue(saleTo("gone", "gone@example.com")), b.issue(saleTo("grey", "grey@example.com"))
		time.Sleep(28 * time.Hour)
		u := b.undelivered()
		if u.Mail != 42 || u.MailTrouble == "" || time.Since(u.MailOldest) < 47*time.Hour || u.GivenUp != 0 {
			t.Errorf("after two days: %+v", u)
		}
		b.showsDelivery(u)
		if p.dials > 2000 {
			t.Errorf("the server was called %d times", p.dials)
		}
		p.set(func() { p.down = false })
		time.Sleep(outbox.PauseMost + time.Second)
		for _, code := range codes {
			if n := len(p.of(code)); n != 1 {
				t.Errorf("%s was mailed %d times", code, n)
			}
		}
		if u = b.undelivered(); u.Mail != 1 || u.MailTrouble != "" || u.GivenUp != 1 ||
			u.Failures[0].Code != gone.Code || u.Failures[0].To != "gone@example.com" {
			t.Errorf("with the server back: %+v", u)
		}
		b.showsDelivery(u)
		p.set(func() { p.replies = nil })
		time.Sleep(6 * time.Hour)
		if n := len(p.of(grey.Code)); n != 1 {
			t.Errorf("what was put off was mailed %d times", n)
		}
	})
}

func TestDeliver_GivenUp(t *testing.T) {
	withMail(t, func(b *box, p *postOffice) {
		p.set(func() { p.replies["grey@example.com"] = 451 })
		r := b.issue(saleTo("grey", "grey@example.com"))
		time.Sleep(6 * 24 * time.Hour)
		u := b.undelivered()
		if u.Mail != 0 || u.GivenUp != 1 || u.Failures[0].Code != r.Code || !strings.Contains(u.Failures[0].Error,
			"given up") {
			t.Fatalf("after six days: %+v", u)
		}
		resent, err := b.engine.Outbox().Resend(context.Background(), codeOf(r), "other@example.com", testCaller(1))
		if err != nil || !resent.Sent || resent.To != "other@example.com" {
			t.Fatalf("%+v %v", resent, err)
		}
		time.Sleep(time.Second)
		if u = b.undelivered(); u.GivenUp != 0 {
			t.Errorf("after a resend: %+v", u)
		}
		b.audit()
	})
}

// TestDeliver_OnTime: a postponed message is sent when it is due, whatever else the outbox does, and not earlier.
func TestDeliver_OnTime(t *testing.T) {
	withMail(t, func(b *box, p *postOffice) {
		p.set(func() { p.replies["grey@example.com"] = 451 })
		r := b.issue(saleTo("grey", "grey@example.com"))
		time.Sleep(time.Second)
		for range 3 {
			entry, err := b.store.Get(storage.Code(codeOf(r)))
			if err != nil || entry.Due == nil {
				t.Fatalf("%+v, %v", entry, err)
			}
			for time.Now().Before(entry.Due.At.Add(-100 * time.Second)) {
				time.Sleep(time.Minute)
			}
			b.issue(saleTo("", "ana@example.com")) // the outbox wakes up, at another second of the minute
			time.Sleep(time.Until(entry.Due.At) - time.Second)
			before := p.attempts("grey@example.com")
			time.Sleep(2 * time.Second)
			if n := p.attempts("grey@example.com"); n != before+1 {
				t.Errorf("at %v it was tried %d times", entry.Due.At, n-before)
			}
		}
	})
}

// A server that refuses this box causes an alert and loses nothing, however long the repair takes.
func TestDeliver_Setup(t *testing.T) {
	withMail(t, func(b *box, p *postOffice) {
		b.close()
		b.delivery.GiveUpAfter = time.Hour
		b.start()
		p.set(func() { p.sender = 530 })
		for i := range 20 { // so many that most are due while the server is left alone
			b.issue(saleTo(fmt.Sprint(i), "ana@example.com"))
		}
		time.Sleep(6 * time.Hour)
		if u := b.undelivered(); u.Mail != 20 || u.GivenUp != 0 || !strings.Contains(u.MailTrouble, "530") {
			t.Errorf("after six hours: %+v", u)
		}
		p.set(func() { p.sender = 0 })
		time.Sleep(outbox.PauseMost + time.Second)
		if n := len(p.taken()); n != 20 {
			t.Errorf("mailed %d times", n)
		}
		b.audit()
	})
}

// The configuration loses its mail server: waiting messages are given up in the end, and the branch does not busy-loop.
func TestDeliver_NoServer(t *testing.T) {
	withMail(t, func(b *box, p *postOffice) {
		p.set(func() { p.down = true })
		b.issue(saleTo("a", "ana@example.com"))
		time.Sleep(time.Minute)
		b.close()
		b.delivery.Mail = nil
		b.start()
		time.Sleep(6 * 24 * time.Hour)
		if u := b.undelivered(); u.Mail != 0 || u.GivenUp != 1 {
			t.Errorf("after six days: %+v", u)
		}
	})
}

func TestDeliver_Resend(t *testing.T) {
	withMail(t, func(b *box, p *postOffice) {
		ctx := context.Background()
		nobody := b.issue(saleTo("a", ""))
		_, err := b.engine.Outbox().Resend(ctx, codeOf(nobody), "", testCaller(1))
		refused(t, err, refusal.CodeNoRecipient, "")
		_, err = b.engine.Outbox().Resend(ctx, codeOf(nobody), "a@example.com\r\nBcc: b@example.com", testCaller(1))
		refused(t, err, refusal.CodeValidation, "email")
		other := testCaller(1)
		other.Point.BranchID++
		_, err = b.engine.Outbox().Resend(ctx, codeOf(nobody), "a@example.com", other)
		refused(t, err, refusal.CodeNotFound, "")
		b.chaos(simulator.Chaos{Reject: 1})
		rejected := b.issue(saleTo("b", "ana@example.com"))
		_, err = b.engine.Outbox().Resend(ctx, codeOf(rejected), "", testCaller(1))
		refused(t, err, refusal.CodeNotProcessed, "")

		r := b.issue(saleTo("c", "ana@example.com"))
		time.Sleep(time.Second)
		resent, err := b.engine.Outbox().Resend(ctx, codeOf(r), "", testCaller(1))
		if err != nil || !resent.Sent || resent.To != "ana@example.com" || len(p.of(r.Code)) != 2 ||
			p.of(r.Code)[0].id == p.of(r.Code)[1].id {
			t.Fatalf("%+v %v %+v", resent, err, p.of(r.Code))
		}
		// The server is away: the till is told at once, and the outbox tries again.
		p.set(func() { p.down = true })
		resent, err = b.engine.Outbox().Resend(ctx, codeOf(r), "eva@example.com", testCaller(1))
		if err != nil || resent.Sent || resent.Refused {
			t.Fatalf("%+v %v", resent, err)
		}
		b.crash()
		p.set(func() { p.down = false })
		time.Sleep(10 * time.Minute)
		if got := p.of(r.Code); len(got) != 3 || got[2].to[0] != "eva@example.com" {
			t.Fatalf("mailed %+v", got)
		}
		b.audit()
	})
}

// An invalidation uses the document's place in the queue for a while.
func TestDeliver_Invalidated(t *testing.T) {
	withMail(t, func(b *box, p *postOffice) {
		p.set(func() { p.down = true })
		r := b.issue(saleTo("a", "ana@example.com"))
		b.chaos(simulator.Chaos{LostAnswers: 1})
		if _, err := b.engine.Invalidate(context.Background(), invalidation(r, 2, "")); err == nil {
			t.Fatal("the answer was to be lost")
		}
		b.crash()
		p.set(func() { p.down = false })
		time.Sleep(time.Hour)
		if got := b.document(r.Code).Estado; got != record.EstadoInvalidated {
			t.Fatalf("the document is %s", got)
		}
		if got := p.of(r.Code); len(got) != 1 || !strings.Contains(got[0].subject, "INVALIDADO") {
			t.Fatalf("mailed %+v", got)
		}
		if u := b.undelivered(); u.Mail != 0 {
			t.Errorf("%+v", u)
		}
	})
}

// A message is under way when the invalidation begins: its result does not remove the invalidation from the queue.
func TestDeliver_WhileInvalidating(t *testing.T) {
	withMail(t, func(b *box, p *postOffice) {
		hold := make(chan struct{})
		p.set(func() { p.hold = hold })
		r := b.issue(saleTo("a", "ana@example.com"))
		time.Sleep(time.Second)
		b.chaos(simulator.Chaos{LostAnswers: 1})
		if _, err := b.engine.Invalidate(context.Background(), invalidation(r, 2, "")); err == nil {
			t.Fatal("the answer was to be lost")
		}
		close(hold)
		time.Sleep(time.Hour)
		if got := b.document(r.Code).Estado; got != record.EstadoInvalidated {
			t.Errorf("the document is %s", got)
		}
		if n := len(p.of(r.Code)); n != 1 {
			t.Errorf("mailed %d times", n)
		}
		b.crash()
		if u := b.undelivered(); u.Mail != 0 {
			t.Errorf("%+v", u)
		}
	})
}

// In contingency nothing is mailed before the seal, unless the branch wants it: then it is mailed twice.
func TestDeliver_Contingency(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		t.Run(fmt.Sprint(wanted), func(t *testing.T) {
			withMail(t, func(b *box, p *postOffice) {
				b.close()
				b.delivery.Contingency = wanted
				b.start()
				b.cable.set(refusing)
				r := b.issue(saleTo("a", "ana@example.com"))
				time.Sleep(time.Hour)
				if n := len(p.of(r.Code)); (n == 1) != wanted || n > 1 {
					t.Fatalf("mailed %d times before the seal", n)
				}
				b.cable.set(plugged)
				time.Sleep(time.Hour)
				got := p.of(r.Code)
				last := got[len(got)-1]
				file, err := dte.Parse(last.files[r.Code+".json"])
				if err != nil || file.Get("selloRecibido").Text() == "" || strings.Contains(last.subject,
					"contingencia") {
					t.Errorf("the last message is %s, %v", last.subject, err)
				}
				if wanted && !strings.Contains(got[0].subject, "contingencia") || len(got) != map[bool]int{false: 1,
					true: 2}[wanted] {
					t.Errorf("mailed %+v", got)
				}
			})
		})
	}
}

func TestDeliver_Archive(t *testing.T) {
	shelf := newBucket()
	withDelivery(t, shelf, func(b *box, p *postOffice) {
		shelf.answering(503)
		p.set(func() { p.replies["grey@example.com"] = 451 })
		r := b.issue(saleTo("a", "grey@example.com"))
		time.Sleep(26 * time.Hour)
		u := b.undelivered()
		if u.Archive != 1 || u.ArchiveTrouble == "" || u.Mail != 1 || u.MailTrouble != "" {
			t.Errorf("with the store down: %+v", u)
		}
		b.showsDelivery(u)
		if link, err := b.engine.Outbox().Link(context.Background(), codeOf(r), testCaller(1), "letter",
			time.Minute); err != nil || link != "" {
			t.Errorf("a link to what is not there: %s %v", link, err)
		}
		b.crash()
		shelf.answering(0)
		time.Sleep(outbox.PauseMost + time.Second)
		file, err := b.engine.Outbox().Archivo(context.Background(), codeOf(r), testCaller(1))
		if err != nil || string(shelf.get(r.JSONURL)) != string(file) {
			t.Errorf("%s holds %.100s, %v", r.JSONURL, shelf.get(r.JSONURL), err)
		}
		printed, err := b.engine.Outbox().Printed(context.Background(), codeOf(r), testCaller(1), "letter", false)
		if err != nil || string(shelf.get(r.PDFURL)) != string(printed) {
			t.Errorf("%s does not hold the PDF: %v", r.PDFURL, err)
		}
		link, err := b.engine.Outbox().Link(context.Background(), codeOf(r), testCaller(1), "letter", time.Minute)
		if err != nil || !strings.HasPrefix(link, "http://s3.example/documentos/"+r.PDFURL+"?") {
			t.Errorf("the link is %s, %v", link, err)
		}
		if u = b.undelivered(); u.Archive != 0 || u.Mail != 1 {
			t.Errorf("with the store back: %+v", u)
		}
		// Another object is there: it is reported and not replaced.
		p.set(func() { p.replies = nil })
		shelf.answering(503)
		r = b.issue(saleTo("b", ""))
		shelf.put(r.JSONURL, "{}", "x")
		shelf.answering(0)
		time.Sleep(24 * time.Hour)
		if u = b.undelivered(); u.GivenUp != 1 || u.Failures[0].Step != "archive" || u.Failures[0].Code != r.Code ||
			string(shelf.get(r.JSONURL)) != "{}" {
			t.Errorf("with a stranger in its place: %+v", u)
		}
	})
}

// A store that refuses the branch, or is full, causes an alert and loses nothing: the archive catches up.
func TestDeliver_ArchiveRefuses(t *testing.T) {
	for _, status := range []int{403, 507} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			shelf := newBucket()
			withDelivery(t, shelf, func(b *box, _ *postOffice) {
				shelf.answering(status)
				var keys []string
				for i := range 5 {
					r := b.issue(saleTo(fmt.Sprint(i), ""))
					keys = append(keys, r.JSONURL, r.PDFURL)
				}
				time.Sleep(2 * 24 * time.Hour)
				if u := b.undelivered(); u.Archive != 5 || !strings.Contains(u.ArchiveTrouble, fmt.Sprint(status)) ||
					u.GivenUp != 0 {
					t.Errorf("after two days: %+v", u)
				}
				shelf.answering(0)
				time.Sleep(outbox.PauseMost + time.Second)
				for _, key := range keys {
					if len(shelf.get(key)) == 0 {
						t.Errorf("%s is not there", key)
					}
				}
				if u := b.undelivered(); u.Archive != 0 || u.ArchiveTrouble != "" {
					t.Errorf("%+v", u)
				}
			})
		})
	}
}
