package engine_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
	"dtegate/storage/storetest"
)

// losses are moments at which a branch has records in its queues. Each ends with the branch in that state; early is its
// disk at an earlier moment.
var losses = map[string]func(b *enginetest.Box, p *enginetest.PostOffice, archive *enginetest.Bucket) (early enginetest.Rows){
	"sold and away": func(b *enginetest.Box, p *enginetest.PostOffice, archive *enginetest.Bucket) enginetest.Rows {
		taken := []*record.View{b.Issue(enginetest.SaleTo("taken 1", "")), b.Issue(enginetest.SaleTo("taken 2", ""))}
		original := b.Issue(enginetest.Voucher("original", enginetest.Item(1, "1", "100")))
		time.Sleep(time.Minute)
		p.Set(func() { p.Down = true })
		archive.Answering(503)
		for i := range 2 {
			r := b.Issue(enginetest.SaleTo(fmt.Sprint("mailed ", i), "cliente@example.com"))
			go func() {
				_, _ = b.Engine.Outbox().
					Resend(context.Background(), enginetest.CodeOf(r), "otro@example.com", enginetest.TestCaller(1))
			}()
		}
		time.Sleep(10 * time.Second)
		b.Chaos(simulator.Chaos{LostAnswers: 9, Only: "invalidations"})
		for _, r := range taken {
			_, _ = b.Engine.Invalidate(context.Background(), enginetest.Invalidation(r, 2, "")) // pending
		}
		b.Chaos(simulator.Chaos{Silence: true})
		early := b.Rows()
		for i := range 2 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_, _ = b.Engine.Issue(ctx, enginetest.SaleTo(fmt.Sprint("signed ", i), "")) // the till is gone
			cancel()
		}
		b.Cable.Set(enginetest.Refusing)
		b.Chaos(simulator.Chaos{})
		for i := range 2 {
			b.Issue(enginetest.SaleTo(fmt.Sprint("away ", i), ""))
			b.Issue(enginetest.NoteOn("05", fmt.Sprint("note ", i), original, enginetest.Item(1, "1", "10")))
		}
		return early
	},
	"an event without an answer": func(b *enginetest.Box, _ *enginetest.PostOffice, _ *enginetest.Bucket) enginetest.Rows {
		early := soldOffline(b)
		b.Chaos(simulator.Chaos{LostAnswers: 1, Only: "events"})
		endAfter(b, "after /fesv/contingencia")
		return early
	},
	"an event that is sealed": func(b *enginetest.Box, _ *enginetest.PostOffice, _ *enginetest.Bucket) enginetest.Rows {
		soldOffline(b)
		b.Chaos(simulator.Chaos{LostAnswers: 1, Only: "events"})
		endAfter(b, "after /fesv/contingencia")
		early := b.Rows()
		due, err := b.Store.Due(record.QueueEvent, record.Whenever, 1)
		if err != nil || len(due) != 1 {
			b.T.Fatalf("%d events: %v", len(due), err)
		}
		if _, err := record.Move(context.Background(), b.Store, due[0].Code, record.EventSigned,
			storage.Change{To: record.EventAccepted, Due: due[0].Due}); err != nil {
			b.T.Fatal(err)
		}
		return early
	},
	"a lot at MH": func(b *enginetest.Box, _ *enginetest.PostOffice, _ *enginetest.Bucket) enginetest.Rows {
		early := soldOffline(b)
		endAfter(b, "after /fesv/recepcionlote/")
		return early
	},
	"deferred after silence": func(b *enginetest.Box, _ *enginetest.PostOffice, _ *enginetest.Bucket) enginetest.Rows {
		b.Chaos(simulator.Chaos{Silence: true})
		for i := range 2 {
			go func() { _, _ = b.Engine.Issue(context.Background(), enginetest.SaleTo(fmt.Sprint("slow ", i), "")) }()
		}
		time.Sleep(3 * time.Second)
		early := b.Rows()
		b.Until("both are deferred", func(o *engine.Backlog) bool { return o.Waiting[record.QueueReport] == 2 })
		return early
	},
	"the second time away": func(b *enginetest.Box, _ *enginetest.PostOffice, _ *enginetest.Bucket) enginetest.Rows {
		early := soldOffline(b)
		b.Cable.Set(enginetest.Plugged)
		time.Sleep(2 * time.Hour)
		soldOffline(b)
		return early
	},
	"refused afterwards": func(b *enginetest.Box, _ *enginetest.PostOffice, _ *enginetest.Bucket) enginetest.Rows {
		early := soldOffline(b)
		b.Chaos(simulator.Chaos{Reject: 2})
		b.Cable.Set(enginetest.Plugged)
		b.Until("MH refuses", func(o *engine.Backlog) bool { return o.Waiting[record.QueueCorrect] == 2 })
		return early
	},
}

// soldOffline sells without MH, connects the branch again, and returns its earlier disk.
func soldOffline(b *enginetest.Box) enginetest.Rows {
	b.T.Helper()
	b.Cable.Set(enginetest.Refusing)
	for i := range 4 {
		b.Issue(enginetest.SaleTo(fmt.Sprint("offline ", time.Now(), i), ""))
	}
	early := b.Rows()
	time.Sleep(10 * time.Minute)
	return early
}

// endAfter connects the branch, and cuts it off for good after it has sent a request.
func endAfter(b *enginetest.Box, point string) {
	b.T.Helper()
	wire, reached := b.Wire, make(chan struct{})
	b.At(func(at string) {
		if at == point {
			wire.Sever()
			b.At(nil)
			close(reached)
		}
	})
	b.Cable.Set(enginetest.Plugged)
	select {
	case <-reached:
	case <-time.After(2 * time.Hour):
		b.T.Fatalf("the branch never came to %q", point)
	}
	b.Stop()
	<-b.Done
}

// pieces lists what can be lost: of each state in each queue, one record and all its pieces.
func pieces(b *enginetest.Box, early enginetest.Rows) (list []enginetest.Piece) {
	b.T.Helper()
	seen, now := make(map[string]bool), b.Rows()
	err := b.Store.Records(0, func(entry storage.Entry) error {
		kind := fmt.Sprint(enginetest.Piece{Entry: entry}, strings.Split(entry.Series, "/")[1])
		if seen[kind] {
			return nil
		}
		seen[kind] = true
		list = append(list, enginetest.Piece{Entry: entry, Name: enginetest.EntryRow})
		if old := early[entry.ID]; old != nil && !bytes.Equal(old, now[entry.ID]) {
			list = append(list, enginetest.Piece{Entry: entry, Name: enginetest.OldRow})
		}
		parts, err := b.Store.Parts(entry.Code)
		for _, part := range parts {
			list = append(list, enginetest.Piece{Entry: entry, Name: part.Name})
		}
		return err
	})
	if err != nil {
		b.T.Fatal(err)
	}
	return list
}

// repair mends the store of a branch that has ended, from the rest of it and from backups. A person accepts the losses.
func repair(b *enginetest.Box, backups ...string) {
	b.T.Helper()
	ctx := context.Background()
	said, err := storage.Assemble(ctx, storage.Sources{Backups: backups}, b.Storage(), nil)
	if err != nil {
		b.T.Fatal(err)
	}
	if said.Whole {
		return
	}
	s, err := storage.Open(b.Storage())
	if err != nil {
		b.T.Fatal(err)
	}
	err = storetest.Settle(ctx, s, 0, "repaired")
	if err = errors.Join(err, s.Close()); err != nil {
		b.T.Fatal(err)
	}
}

// lostWorld plays a moment, loses its nth piece and lets the branch live for four days. It returns the number of
// pieces.
func lostWorld(t *testing.T, moment string, n int, again bool) (count int) {
	archive := enginetest.NewBucket()
	enginetest.WithDelivery(t, archive, func(b *enginetest.Box, p *enginetest.PostOffice) {
		b.Every = 5 * time.Minute
		b.Policy.LotSize, b.Policy.LotsInFlight = 2, 1
		b.Restart(nil)
		b.Chaos(simulator.Chaos{})
		early := losses[moment](b, p, archive)
		list := pieces(b, early)
		if count = len(list); n >= count {
			return
		}
		lost := list[n]
		sold := b.Sold()
		if again {
			if _, err := b.Store.Backup(context.Background(), "/backup", nil); err != nil {
				t.Fatal(err)
			}
		}
		b.Close()
		b.Lose(lost, early)
		repair(b)
		b.Cable.Set(enginetest.Refusing) // MH is away for another hour
		b.Start()
		time.Sleep(time.Hour)
		// only MH knows a lost document
		if n := b.Engine.CountBacklog().Waiting[record.QueueSettle]; n > 1 || n == 1 && lost.Name == enginetest.OldRow {
			t.Errorf("without MH %d documents are still to be settled", n)
		}
		b.Chaos(simulator.Chaos{})
		p.Set(func() { p.Down = false })
		archive.Answering(0)
		b.Cable.Set(enginetest.Plugged)
		time.Sleep(96 * time.Hour)
		goesOn(b, lost, sold)
		time.Sleep(time.Minute) // the last message is on its way
		if again {
			b.Close()
			repair(b, "/backup")
			b.Start()
			time.Sleep(24 * time.Hour)
			if o := b.Engine.CountBacklog(); o.Lost != 0 || len(o.LostRecords) != 0 {
				t.Errorf("the pieces are there again, and still lost: %+v", o.LostRecords)
			}
		}
		if t.Failed() {
			t.Logf("%s: lost was %v", moment, lost)
			count = 0
		}
	})
	return count
}

// goesOn checks what must hold days after a piece was lost: everything else is done, the branch sells, lists,
// invalidates and keeps books, and the lost record is shown.
func goesOn(b *enginetest.Box, lost enginetest.Piece, sold []storage.Code) {
	b.T.Helper()
	ctx := context.Background()
	owed := b.Engine.CountBacklog()
	for queue, n := range owed.Waiting {
		if n != 0 && queue != record.QueueCorrect {
			b.T.Errorf("%d records wait in queue %s", n, queue)
		}
	}
	if d := owed.Delivery; d.Mail != 0 || d.Archive != 0 || d.GivenUp != 0 {
		b.T.Errorf("to be delivered: %+v", d)
	}
	if owed.Contingency != nil || !owed.TechnicalReport.IsZero() {
		b.T.Errorf("in contingency: %+v, technical report %v", owed.Contingency, owed.TechnicalReport)
	}
	shown := slices.ContainsFunc(owed.LostRecords,
		func(l record.Lost) bool { return l.Code == dte.Code(lost.Entry.Code).String() && l.Why != "" })
	report, err := b.Store.Fsck(ctx)
	if err != nil || len(report.Problems) > 0 {
		b.T.Errorf("fsck: %+v %v", report.Problems, err)
	}
	held := maps.Collect(b.Sim.Accepted())
	for _, code := range sold {
		r, err := b.Engine.Documents().Document(ctx, dte.Code(code), enginetest.TestCaller(1))
		if code == lost.Entry.Code {
			if err != nil && !shown {
				b.T.Errorf("it is not shown: %v", err)
			}
			if err != nil {
				continue
			}
		}
		if err != nil {
			b.T.Errorf("reading %s: %v", dte.Code(code), err)
			continue
		}
		a, accepted := held[r.Code]
		switch {
		case accepted && (r.Sello != a.Sello || string(r.JSON) != string(a.Document)):
			b.T.Errorf("%s is %s %s, MH holds %s\n%s\n%s", r.Code, r.Estado, r.Sello, a.Sello, r.JSON, a.Document)
		case accepted && a.Invalidated != (r.Estado == record.EstadoInvalidated) && code != lost.Entry.Code:
			b.T.Errorf("%s is %s, MH has it invalidated: %v", r.Code, r.Estado, a.Invalidated)
		case !accepted && r.Estado != record.EstadoRejected && !shown:
			b.T.Errorf("%s is %s, and MH does not hold it", r.Code, r.Estado)
		}
	}
	for _, l := range owed.LostRecords {
		// a letter's document may be lost
		if l.Code != dte.Code(lost.Entry.Code).String() && l.Queue != record.QueueDeliver {
			b.T.Errorf("lost is shown to be %+v", l)
		}
	}
	named := slices.ContainsFunc(report.Missing, func(m storage.Missing) bool {
		return m.Series == lost.Entry.Series &&
			slices.Contains(m.Partial, storage.Span{From: lost.Entry.Number, To: lost.Entry.Number})
	})
	if !named || lost.Name == enginetest.EntryRow && !shown {
		b.T.Errorf("it is not shown: fsck %+v, status %+v", report.Missing, owed.LostRecords)
	}
	r := b.Issue(enginetest.SaleTo("after", "cliente@example.com"))
	if r.Estado != record.EstadoProcessed {
		b.T.Errorf("a sale after it is %s", r.Estado)
	}
	if again, err := b.Engine.Invalidate(ctx, enginetest.Invalidation(r, 2, "")); err != nil ||
		again.Estado != record.EstadoInvalidated {
		b.T.Errorf("an invalidation after it: %v", err)
	}
	if _, err := b.Engine.Documents().List(ctx, documents.Filter{From: "2026-11-01", To: "2026-11-30", Limit: 500},
		enginetest.TestCaller(1)); err != nil {
		b.T.Errorf("the list: %v", err)
	}
	if p, err := documents.NewMonthReader(b.Store).Page("2026-11", 0); err != nil || p.Next != 0 {
		b.T.Errorf("the books: %v", err)
	}
}

// TestLost loses each piece of a record of each kind in each queue once, repairs the store without another medium, and
// lets the branch live. The suite plays every fifth piece of each moment; DTE_SOAK plays all, and gives the piece back
// afterwards.
func TestLost(t *testing.T) {
	every, soak := 5, os.Getenv("DTE_SOAK") != ""
	if soak {
		every = 1
	}
	for moment := range losses {
		t.Run(moment, func(t *testing.T) {
			for n, count := 0, 1; n < count; n += every {
				count = lostWorld(t, moment, n, soak)
			}
		})
	}
}

// TestLost_Unreadable: a record whose head makes no sense delays no other record, in any queue, and is shown.
func TestLost_Unreadable(t *testing.T) {
	for queue, state := range map[string]storage.State{record.QueueSettle: record.Signed,
		record.QueueReport: record.Deferred, record.QueueForward: record.Reported,
		record.QueueEvent: record.EventSigned, record.QueueLot: record.LotOpen, record.QueueCorrect: record.Rejected,
		record.QueueInvalidate: record.Accepted,
		record.QueueDeliver:    record.Accepted} {
		t.Run(queue, func(t *testing.T) {
			enginetest.WithMail(t, func(b *enginetest.Box, _ *enginetest.PostOffice) {
				code, err := dte.NewCode(rand.Reader)
				if err == nil {
					_, err = b.Store.Append(context.Background(), storage.Keys{Series: "00/rot"},
						storage.Draft{Code: storage.Code(code), State: state,
							Head: []byte("rot"), Due: &storage.Due{Queue: queue, At: time.Now()}})
				}
				if err != nil {
					t.Fatal(err)
				}
				b.Cable.Set(enginetest.Refusing)
				const n = 3
				for i := range n {
					b.Issue(enginetest.Sale(fmt.Sprint(i), 100))
				}
				b.PlugIn()
				time.Sleep(3 * time.Hour)
				if got := b.Sim.Received(); got.Documents != n || got.Events != 1 {
					t.Errorf("MH received %+v", got)
				}
				o := b.Engine.CountBacklog()
				for name, waits := range o.Waiting {
					if waits != 0 {
						t.Errorf("%d wait in %s", waits, name)
					}
				}
				if o.Lost != 1 || len(o.LostRecords) != 1 || o.LostRecords[0].Series != "00/rot" ||
					o.LostRecords[0].Why == "" {
					t.Errorf("lost are %d: %+v", o.Lost, o.LostRecords)
				}
			})
		})
	}
}

// TestLost_Form: the store has lost the only signed form of a sale that MH had not answered, and of one that MH sealed.
// MH decides about the first: if MH holds it, it is accepted, otherwise the sale must be made again. A note on the other
// is refused, and says which document the box lost; the day's closing counts it, without its details.
func TestLost_Form(t *testing.T) {
	for _, holds := range []bool{true, false} {
		enginetest.InBubble(t, func(b *enginetest.Box) {
			ctx, cancel := context.WithCancel(context.Background())
			original := b.Issue(enginetest.Voucher("original", enginetest.Item(1, "1", "100")))
			note := enginetest.NoteOn("05", "note", original, enginetest.Item(1, "1", "10"))
			b.Issue(note)
			b.Chaos(simulator.Chaos{LostAnswers: 9, Only: "documents"})
			point, wire := map[bool]string{true: "after /fesv/recepciondte", false: "before /fesv/recepciondte"}[holds], b.Wire
			b.At(func(at string) {
				if at == point {
					wire.Sever()
					cancel()
				}
			})
			sale := enginetest.SaleTo("signed", "")
			if _, err := b.Engine.Issue(ctx, sale); err == nil {
				t.Fatal("the sale was answered")
			}
			due, err := b.Store.Due(record.QueueSettle, record.Whenever, 2)
			if err != nil || len(due) != 1 {
				t.Fatalf("%d are signed: %v", len(due), err)
			}
			entry, err := b.Store.Get(storage.Code(enginetest.CodeOf(original)))
			if err != nil {
				t.Fatal(err)
			}
			b.Chaos(simulator.Chaos{})
			b.Close()
			for _, e := range []storage.Entry{due[0], entry} {
				b.Lose(enginetest.Piece{Entry: e, Name: record.FormNormal}, nil)
			}
			repair(b)
			b.Start()
			time.Sleep(time.Hour)
			_, err = b.Engine.Issue(context.Background(), sale)
			h, bad := record.DecodeHead(due[0])
			now, gone := b.Store.Get(due[0].Code)
			if bad != nil || gone != nil || (now.State == record.Accepted) != holds {
				t.Fatalf("it is in state %d: %v %v", now.State, bad, gone)
			}
			o := b.Engine.CountBacklog()
			if !holds {
				enginetest.Refused(t, err, refusal.CodeInternal, "")
				if !strings.Contains(err.Error(), h.ControlNumber) || !strings.Contains(err.Error(), "emita la venta otra vez") ||
					o.Lost != 1 || o.Waiting[record.QueueSettle] != 0 {
					t.Errorf("%v; %d lost, %v", err, o.Lost, o.Waiting)
				}
			} else if o.Lost != 0 || o.Waiting[record.QueueSettle] != 0 {
				t.Errorf("%d lost, %v", o.Lost, o.Waiting)
			}
			note.IdempotencyKey = "another"
			_, err = b.Engine.Issue(context.Background(), note)
			enginetest.Refused(t, err, refusal.CodeInternal, "")
			if !strings.Contains(err.Error(), original.ControlNumber) {
				t.Error(err)
			}
			x, err := b.Engine.Documents().Closing(context.Background(), dte.Date(b.Now()), true,
				enginetest.TestCaller(1).Point.ID, enginetest.TestCaller(1), b.Now())
			if err != nil || x.Unread != 2 || x.Net.Credits != "11.30" || x.Net.VAT != "-1.30" {
				t.Errorf("%+v %v", x, err)
			}
		})
	}
}
