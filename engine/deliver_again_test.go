package engine_test

import (
	"context"
	"testing"
	"time"

	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/storage"
)

// A letter that an operator has forgotten, and a letter of a branch whose archive has lost a file.
func TestDeliver_AgainArchive(t *testing.T) {
	shelf := enginetest.NewBucket()
	enginetest.WithDelivery(t, shelf, func(b *enginetest.Box, p *enginetest.PostOffice) {
		ctx := context.Background()
		p.Set(func() { p.Replies["gone@example.com"] = 550 })
		r := b.Issue(enginetest.SaleTo("a", "ana@example.com"))
		if resent, err := b.Engine.Outbox().Resend(ctx, enginetest.CodeOf(r), "gone@example.com", enginetest.TestCaller(1)); err != nil ||
			resent.Sent ||
			!resent.Refused {
			t.Fatalf("%+v %v", resent, err)
		}
		time.Sleep(time.Minute)
		if n := b.Settled(b.Engine.Outbox().Forget(ctx, enginetest.CodeOf(r))); n != 1 || b.Undelivered().GivenUp != 0 {
			t.Errorf("%d forgotten, %+v", n, b.Undelivered())
		}
		printed := shelf.Get(r.PDFURL)
		shelf.Mu.Lock()
		delete(shelf.Objects, r.JSONURL)
		shelf.Mu.Unlock()
		shelf.Put(r.PDFURL, "%PDF as it was printed then", "then")
		entry, err := b.Store.Get(storage.Code(enginetest.CodeOf(r)))
		if err != nil {
			t.Fatal(err)
		}
		h, err := record.DecodeHead(entry)
		if err != nil {
			t.Fatal(err)
		}
		h.Delivery.Archive.Held[1].Sum = "then" // today the branch would print it differently
		if _, err := b.Engine.Move(ctx, entry, storage.Change{To: entry.State}, h); err != nil {
			t.Fatal(err)
		}
		if n := b.Settled(b.Engine.Outbox().Retry(ctx, enginetest.CodeOf(r), false)); n != 0 {
			t.Errorf("%d retried of what was archived", n)
		}
		if n := b.Settled(b.Engine.Outbox().Retry(ctx, enginetest.CodeOf(r), true)); n != 1 {
			t.Errorf("%d retried", n)
		}
		time.Sleep(time.Minute)
		file, err := b.Engine.Outbox().Archivo(ctx, enginetest.CodeOf(r), enginetest.TestCaller(1))
		if err != nil || string(shelf.Get(r.JSONURL)) != string(file) ||
			string(shelf.Get(r.PDFURL)) == string(printed) || b.Undelivered().GivenUp != 0 {
			t.Errorf("%v, the archive holds %.50s and %.50s, %+v", err, shelf.Get(r.JSONURL), shelf.Get(r.PDFURL),
				b.Undelivered())
		}
		if n := p.Attempts("ana@example.com"); n != 1 {
			t.Errorf("the document was mailed %d times", n)
		}
	})
}
