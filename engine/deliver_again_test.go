package engine

import (
	"context"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

func (b *box) settled(n int, err error) int {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// Given-up deliveries are tried again when an operator requests it, or are taken off the list.
func TestDeliver_Again(t *testing.T) {
	withMail(t, func(b *box, p *postOffice) {
		ctx := context.Background()
		p.set(func() { p.replies = map[string]int{"gone@example.com": 550, "other@example.com": 550} })
		one, two := b.issue(saleTo("a", "gone@example.com")), b.issue(saleTo("b", "gone@example.com"))
		if resent, err := b.engine.Outbox().Resend(ctx, codeOf(one), "other@example.com", testCaller(1)); err != nil ||
			resent.Sent {
			t.Fatalf("%+v %v", resent, err)
		}
		time.Sleep(time.Minute)
		list, err := b.engine.Outbox().GivenUp(2)
		if u := b.undelivered(); err != nil || u.GivenUp != 3 || len(u.Failures) != 3 || len(list) != 2 {
			t.Fatalf("%+v, %+v %v", u, list, err)
		}
		// Nothing has changed: it comes back, under the same names.
		if n := b.settled(b.engine.Outbox().Retry(ctx, codeOf(one), false)); n != 2 {
			t.Errorf("%d retried", n)
		}
		time.Sleep(time.Minute)
		if u := b.undelivered(); u.GivenUp != 3 || u.Mail != 0 {
			t.Fatalf("%+v", u)
		}
		p.set(func() { p.replies = nil })
		if n := b.settled(b.engine.Outbox().Retry(ctx, codeOf(one), false)); n != 2 {
			t.Errorf("%d retried", n)
		}
		b.crash()
		time.Sleep(time.Minute)
		ids := make(map[string]bool) // messages that were under way at the crash are sent twice, under the same ID
		for _, m := range p.of(one.Code) {
			ids[m.id] = true
		}
		if len(ids) != 2 || b.undelivered().GivenUp != 1 {
			t.Fatalf("mailed %v, %+v", ids, b.undelivered())
		}
		if n := b.settled(b.engine.Outbox().Retry(ctx, codeOf(one), false)); n != 0 {
			t.Errorf("%d retried of what was delivered", n)
		}
		if n := b.settled(b.engine.Outbox().Forget(ctx, codeOf(two))); n != 1 || b.undelivered().GivenUp != 0 {
			t.Errorf("%d forgotten, %+v", n, b.undelivered())
		}
		if n := b.settled(b.engine.Outbox().Forget(ctx, codeOf(two))); n != 0 {
			t.Errorf("%d forgotten again", n)
		}
		b.crash()
		time.Sleep(24 * time.Hour)
		if u := b.undelivered(); u.GivenUp != 0 || len(p.of(two.Code)) != 0 {
			t.Errorf("%+v, mailed %d times", u, len(p.of(two.Code)))
		}
		_, err = b.engine.Outbox().Retry(ctx, codeOf(&record.View{Code: "00000000-0000-4000-8000-000000000000"}), true)
		refused(t, err, refusal.CodeNotFound, "")
		b.audit()
	})
}

// A letter that an operator has forgotten, and a letter of a branch whose archive has lost a file.
func TestDeliver_AgainArchive(t *testing.T) {
	shelf := newBucket()
	withDelivery(t, shelf, func(b *box, p *postOffice) {
		ctx := context.Background()
		p.set(func() { p.replies["gone@example.com"] = 550 })
		r := b.issue(saleTo("a", ""))
		if resent, err := b.engine.Outbox().Resend(ctx, codeOf(r), "gone@example.com", testCaller(1)); err != nil ||
			resent.Sent || !resent.Refused {
			t.Fatalf("%+v %v", resent, err)
		}
		time.Sleep(time.Minute)
		if n := b.settled(b.engine.Outbox().Forget(ctx, codeOf(r))); n != 1 || b.undelivered().GivenUp != 0 {
			t.Errorf("%d forgotten, %+v", n, b.undelivered())
		}
		printed := shelf.get(r.PDFURL)
		shelf.mu.Lock()
		delete(shelf.objects, r.JSONURL)
		shelf.mu.Unlock()
		shelf.put(r.PDFURL, "%PDF as it was printed then", "then")
		entry, err := b.store.Get(storage.Code(codeOf(r)))
		if err != nil {
			t.Fatal(err)
		}
		h, err := record.DecodeHead(entry)
		if err != nil {
			t.Fatal(err)
		}
		h.Delivery.Archive.Held[1].Sum = "then" // today the branch would print it differently
		if _, err := b.engine.move(ctx, entry, storage.Change{To: entry.State}, h); err != nil {
			t.Fatal(err)
		}
		if n := b.settled(b.engine.Outbox().Retry(ctx, codeOf(r), false)); n != 0 {
			t.Errorf("%d retried of what was archived", n)
		}
		if n := b.settled(b.engine.Outbox().Retry(ctx, codeOf(r), true)); n != 1 {
			t.Errorf("%d retried", n)
		}
		time.Sleep(time.Minute)
		file, err := b.engine.Outbox().Archivo(ctx, codeOf(r), testCaller(1))
		if err != nil || string(shelf.get(r.JSONURL)) != string(file) ||
			string(shelf.get(r.PDFURL)) == string(printed) || b.undelivered().GivenUp != 0 {
			t.Errorf("%v, the archive holds %.50s and %.50s, %+v", err, shelf.get(r.JSONURL), shelf.get(r.PDFURL),
				b.undelivered())
		}
	})
}

// TestDeliver_AgainCutShort: the operator's request ends while given-up deliveries are settled. Without an error all
// are settled; after an error the rest is still on the list, and the next request settles it.
func TestDeliver_AgainCutShort(t *testing.T) {
	withMail(t, func(b *box, p *postOffice) {
		for name, settle := range map[string]func(context.Context, dte.Code) (int, error){
			"retry": func(ctx context.Context, code dte.Code) (int, error) {
				return b.engine.Outbox().Retry(ctx, code,
					false)
			},
			"forget": b.engine.Outbox().Forget,
		} {
			p.set(func() { p.replies = map[string]int{"gone@example.com": 550, "other@example.com": 550} })
			r := b.issue(saleTo(name, "gone@example.com"))
			if resent, err := b.engine.Outbox().Resend(context.Background(), codeOf(r), "other@example.com",
				testCaller(1)); err != nil || resent.Sent {
				t.Fatalf("%+v %v", resent, err)
			}
			time.Sleep(time.Minute)
			if u := b.undelivered(); u.GivenUp != 2 {
				t.Fatalf("%+v", u)
			}
			p.set(func() { p.replies = nil })
			for failed := 0; ; failed++ {
				_, err := settle(endingAfter(failed), codeOf(r))
				left := b.undelivered().GivenUp
				if err == nil && (left != 0 || failed < 2) || left > 0 && failed > 50 {
					t.Fatalf("%s, cut short after %d looks: %d are on the list, %v", name, failed, left, err)
				}
				if err == nil {
					break
				}
			}
			time.Sleep(time.Hour)
			if n := len(p.of(r.Code)); (n == 2) != (name == "retry") || n > 2 {
				t.Errorf("%s: mailed %d times", name, n)
			}
		}
		b.audit()
	})
}
