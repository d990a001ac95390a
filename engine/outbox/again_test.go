package outbox_test

import (
	"context"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// Given-up deliveries are tried again when an operator requests it, or are taken off the list.
func TestDeliver_Again(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		ctx := context.Background()
		p.Set(func() { p.Replies = map[string]int{"gone@example.com": 550, "other@example.com": 550} })
		one, two := b.Issue(
			enginetest.SaleTo("a", "gone@example.com"),
		), b.Issue(
			enginetest.SaleTo("b", "gone@example.com"),
		)
		if resent, err := b.Engine.Outbox().Resend(ctx, enginetest.CodeOf(one), "other@example.com", enginetest.TestCaller(1)); err != nil ||
			resent.Sent {
			t.Fatalf("%+v %v", resent, err)
		}
		time.Sleep(time.Minute)
		list, err := b.Engine.Outbox().GivenUp(2)
		if u := b.Undelivered(); err != nil || u.GivenUp != 3 || len(u.Failures) != 3 || len(list) != 2 ||
			u.Failures[0].Token == 0 || u.Failures[1].Token == 0 || u.Failures[2].Token == 0 {
			t.Fatalf("%+v, %+v %v", u, list, err)
		}
		// Nothing has changed: it comes back, under the same names.
		if n := b.Settled(b.Engine.Outbox().Retry(ctx, enginetest.CodeOf(one), false)); n != 2 {
			t.Errorf("%d retried", n)
		}
		time.Sleep(time.Minute)
		if u := b.Undelivered(); u.GivenUp != 3 || u.Mail != 0 {
			t.Fatalf("%+v", u)
		}
		p.Set(func() { p.Replies = nil })
		if n := b.Settled(b.Engine.Outbox().Retry(ctx, enginetest.CodeOf(one), false)); n != 2 {
			t.Errorf("%d retried", n)
		}
		b.Crash()
		time.Sleep(time.Minute)
		ids := make(map[string]bool) // messages that were under way at the crash are sent twice, under the same ID
		for _, m := range p.Of(one.Code) {
			ids[m.Id] = true
		}
		if len(ids) != 2 || b.Undelivered().GivenUp != 1 {
			t.Fatalf("mailed %v, %+v", ids, b.Undelivered())
		}
		if n := b.Settled(b.Engine.Outbox().Retry(ctx, enginetest.CodeOf(one), false)); n != 0 {
			t.Errorf("%d retried of what was delivered", n)
		}
		if n := b.Settled(b.Engine.Outbox().Forget(ctx, enginetest.CodeOf(two))); n != 1 ||
			b.Undelivered().GivenUp != 0 {
			t.Errorf("%d forgotten, %+v", n, b.Undelivered())
		}
		if n := b.Settled(b.Engine.Outbox().Forget(ctx, enginetest.CodeOf(two))); n != 0 {
			t.Errorf("%d forgotten again", n)
		}
		b.Crash()
		time.Sleep(24 * time.Hour)
		if u := b.Undelivered(); u.GivenUp != 0 || len(p.Of(two.Code)) != 0 {
			t.Errorf("%+v, mailed %d times", u, len(p.Of(two.Code)))
		}
		_, err = b.Engine.Outbox().
			Retry(ctx, enginetest.CodeOf(&record.View{Code: "00000000-0000-4000-8000-000000000000"}), true)
		enginetest.Refused(t, err, refusal.CodeNotFound, "")
		b.Audit()
	})
}

// TestDeliver_AgainElsewhere: a message about a document that arrives takes every failed message about it off the list,
// that to its receiver and those to others, and no message about another document.
func TestDeliver_AgainElsewhere(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		ctx := context.Background()
		p.Set(func() {
			p.Replies = map[string]int{"gone@example.com": 550, "other@example.com": 550, "third@example.com": 550}
		})
		send := func(r *record.View, to string) {
			if _, err := b.Engine.Outbox().Resend(ctx, enginetest.CodeOf(r), to, enginetest.TestCaller(1)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		own, foreign := b.Issue(enginetest.SaleTo("a", "gone@example.com")), b.Issue(enginetest.SaleTo("b", "gone@example.com"))
		without := b.Issue(enginetest.SaleTo("c", "")) // only letters about it fail
		for _, r := range []*record.View{own, foreign, without} {
			send(r, "other@example.com")
			send(r, "third@example.com")
		}
		for i, want := range []int{8, 5, 3} {
			if u := b.Undelivered(); u.GivenUp != want {
				t.Fatalf("after %d messages that arrived: %+v", i, u)
			}
			send([]*record.View{own, without, foreign}[i], "ana@example.com")
		}
		if u := b.Undelivered(); u.GivenUp != 0 {
			t.Errorf("%+v", u)
		}
		b.Audit()
	})
}

// TestDeliver_AgainCutShort: the operator's request ends while given-up deliveries are settled. Without an error all
// are settled; after an error the rest is still on the list, and the next request settles it.
func TestDeliver_AgainCutShort(t *testing.T) {
	enginetest.WithMail(t, func(b *enginetest.Box, p *enginetest.PostOffice) {
		for name, settle := range map[string]func(context.Context, dte.Code) (int, error){
			"retry": func(ctx context.Context, code dte.Code) (int, error) {
				return b.Engine.Outbox().Retry(ctx, code,
					false)
			},
			"forget": b.Engine.Outbox().Forget,
		} {
			p.Set(func() { p.Replies = map[string]int{"gone@example.com": 550, "other@example.com": 550} })
			r := b.Issue(enginetest.SaleTo(name, "gone@example.com"))
			if resent, err := b.Engine.Outbox().Resend(context.Background(), enginetest.CodeOf(r), "other@example.com",
				enginetest.TestCaller(1)); err != nil || resent.Sent {
				t.Fatalf("%+v %v", resent, err)
			}
			time.Sleep(time.Minute)
			if u := b.Undelivered(); u.GivenUp != 2 {
				t.Fatalf("%+v", u)
			}
			p.Set(func() { p.Replies = nil })
			for failed := 0; ; failed++ {
				_, err := settle(enginetest.EndingAfter(failed), enginetest.CodeOf(r))
				left := b.Undelivered().GivenUp
				if err == nil && (left != 0 || failed < 2) || left > 0 && failed > 50 {
					t.Fatalf("%s, cut short after %d looks: %d are on the list, %v", name, failed, left, err)
				}
				if err == nil {
					break
				}
			}
			time.Sleep(time.Hour)
			if n := len(p.Of(r.Code)); (n == 2) != (name == "retry") || n > 2 {
				t.Errorf("%s: mailed %d times", name, n)
			}
		}
		b.Audit()
	})
}

// TestDeliver_AgainArchived: with archive, a retry writes again what the archive has lost, and mails nothing again; it
// counts what it began. Without archive, it leaves alone what succeeded.
func TestDeliver_AgainArchived(t *testing.T) {
	shelf := enginetest.NewBucket()
	enginetest.WithDelivery(t, shelf, func(b *enginetest.Box, p *enginetest.PostOffice) {
		r := b.Issue(enginetest.SaleTo("a", "ana@example.com"))
		time.Sleep(time.Minute)
		for archive, want := range map[bool]int{false: 0, true: 1} {
			whole := string(shelf.Get(r.JSONURL))
			shelf.Mu.Lock()
			delete(shelf.Objects, r.JSONURL)
			shelf.Mu.Unlock()
			shelf.Answering(503)
			n := b.Settled(b.Engine.Outbox().Retry(context.Background(), enginetest.CodeOf(r), archive))
			_, h, err := record.Read(b.Store, storage.Code(enginetest.CodeOf(r)))
			if err != nil || h.Delivery.Archive.Held[1].Sum == "" {
				t.Errorf("archive %v: the other file, which the archive still has, would be written anew: %v", archive, err)
			}
			shelf.Answering(0)
			time.Sleep(time.Hour)
			if again := string(shelf.Get(r.JSONURL)); n != want || (again == whole) != archive || len(p.Of(r.Code)) != 1 {
				t.Errorf("archive %v: %d retried, %d bytes of %d are there, mailed %d times", archive, n, len(again),
					len(whole), len(p.Of(r.Code)))
			}
			shelf.Put(r.JSONURL, whole, shelf.Sums[r.JSONURL])
		}
		b.Audit()
	})
}
