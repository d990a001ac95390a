package engine

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
	"dtegate/storage/disktest"
	"dtegate/storage/storetest"
)

// piece is what a disk loses of one record: a part, its row, or the row's last change.
type piece struct {
	entry storage.Entry
	name  string // of the part; entryRow, oldRow
}

const (
	entryRow = "(the record)"
	oldRow   = "(its last change)"
)

func (p piece) String() string {
	name, _, _ := strings.Cut(p.name, ":") // of an invalidation's event, without its code
	queue := "no queue"
	if p.entry.Due != nil {
		queue = p.entry.Due.Queue
	}
	return fmt.Sprintf("state %d in %s, %s", p.entry.State, queue, name)
}

// losses are moments at which a branch has records in its queues. Each ends with the branch in that state; early is its
// disk at an earlier moment.
var losses = map[string]func(b *box, p *postOffice, archive *bucket) (early rows){
	"sold and away": func(b *box, p *postOffice, archive *bucket) rows {
		taken := []*record.View{b.issue(saleTo("taken 1", "")), b.issue(saleTo("taken 2", ""))}
		original := b.issue(voucher("original", item(1, "1", "100")))
		time.Sleep(time.Minute)
		p.set(func() { p.down = true })
		archive.answering(503)
		for i := range 2 {
			r := b.issue(saleTo(fmt.Sprint("mailed ", i), "cliente@example.com"))
			go func() {
				_, _ = b.engine.Outbox().Resend(context.Background(), codeOf(r), "otro@example.com", testCaller(1))
			}()
		}
		time.Sleep(10 * time.Second)
		b.chaos(simulator.Chaos{LostAnswers: 9, Only: "invalidations"})
		for _, r := range taken {
			_, _ = b.engine.Invalidate(context.Background(), invalidation(r, 2, "")) // pending
		}
		b.chaos(simulator.Chaos{Silence: true})
		early := b.rows()
		for i := range 2 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_, _ = b.engine.Issue(ctx, saleTo(fmt.Sprint("signed ", i), "")) // the till is gone
			cancel()
		}
		b.cable.set(refusing)
		b.chaos(simulator.Chaos{})
		for i := range 2 {
			b.issue(saleTo(fmt.Sprint("away ", i), ""))
			b.issue(noteOn("05", fmt.Sprint("note ", i), original, item(1, "1", "10")))
		}
		return early
	},
	"an event without an answer": func(b *box, _ *postOffice, _ *bucket) rows {
		early := b.soldOffline()
		b.chaos(simulator.Chaos{LostAnswers: 1, Only: "events"})
		b.endAfter("after /fesv/contingencia")
		return early
	},
	"an event that is sealed": func(b *box, _ *postOffice, _ *bucket) rows {
		b.soldOffline()
		b.chaos(simulator.Chaos{LostAnswers: 1, Only: "events"})
		b.endAfter("after /fesv/contingencia")
		early := b.rows()
		due, err := b.store.Due(record.QueueEvent, record.Whenever, 1)
		if err != nil || len(due) != 1 {
			b.t.Fatalf("%d events: %v", len(due), err)
		}
		if _, err := record.Move(context.Background(), b.store, due[0].Code, record.EventSigned,
			storage.Change{To: record.EventAccepted, Due: due[0].Due}); err != nil {
			b.t.Fatal(err)
		}
		return early
	},
	"a lot at MH": func(b *box, _ *postOffice, _ *bucket) rows {
		early := b.soldOffline()
		b.endAfter("after /fesv/recepcionlote/")
		return early
	},
	"deferred after silence": func(b *box, _ *postOffice, _ *bucket) rows {
		b.chaos(simulator.Chaos{Silence: true})
		for i := range 2 {
			go func() { _, _ = b.engine.Issue(context.Background(), saleTo(fmt.Sprint("slow ", i), "")) }()
		}
		time.Sleep(3 * time.Second)
		early := b.rows()
		b.until("both are deferred", func(o *Backlog) bool { return o.Waiting[record.QueueReport] == 2 })
		return early
	},
	"the second time away": func(b *box, _ *postOffice, _ *bucket) rows {
		early := b.soldOffline()
		b.cable.set(plugged)
		time.Sleep(2 * time.Hour)
		b.soldOffline()
		return early
	},
	"refused afterwards": func(b *box, _ *postOffice, _ *bucket) rows {
		early := b.soldOffline()
		b.chaos(simulator.Chaos{Reject: 2})
		b.cable.set(plugged)
		b.until("MH refuses", func(o *Backlog) bool { return o.Waiting[record.QueueCorrect] == 2 })
		return early
	},
}

// soldOffline sells without MH, connects the branch again, and returns its earlier disk.
func (b *box) soldOffline() rows {
	b.t.Helper()
	b.cable.set(refusing)
	for i := range 4 {
		b.issue(saleTo(fmt.Sprint("offline ", time.Now(), i), ""))
	}
	early := b.rows()
	time.Sleep(10 * time.Minute)
	return early
}

// endAfter connects the branch, and cuts it off for good after it has sent a request.
func (b *box) endAfter(point string) {
	b.t.Helper()
	wire, reached := b.wire, make(chan struct{})
	b.at(func(at string) {
		if at == point {
			wire.sever()
			b.at(nil)
			close(reached)
		}
	})
	b.cable.set(plugged)
	select {
	case <-reached:
	case <-time.After(2 * time.Hour):
		b.t.Fatalf("the branch never came to %q", point)
	}
	b.stop()
	<-b.done
}

// pieces lists what can be lost: of each state in each queue, one record and all its pieces.
func (b *box) pieces(early rows) (list []piece) {
	b.t.Helper()
	seen, now := make(map[string]bool), b.rows()
	err := b.store.Records(0, func(entry storage.Entry) error {
		kind := fmt.Sprint(piece{entry: entry}, strings.Split(entry.Series, "/")[1])
		if seen[kind] {
			return nil
		}
		seen[kind] = true
		list = append(list, piece{entry: entry, name: entryRow})
		if old := early[entry.ID]; old != nil && !bytes.Equal(old, now[entry.ID]) {
			list = append(list, piece{entry: entry, name: oldRow})
		}
		parts, err := b.store.Parts(entry.Code)
		for _, part := range parts {
			list = append(list, piece{entry: entry, name: part.Name})
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// The rows of a record in the store's tables: see storage/rowkeys.go.
func entryKey(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte{4}, id) }
func partKey(id uint64, name string) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{5}, id), name...)
}

func openTables(t testing.TB, disk *disktest.Disk) *pebble.DB {
	t.Helper()
	o := &pebble.Options{FS: disk, FormatMajorVersion: pebble.FormatWALSyncChunks, Logger: noLogger{}}
	o.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	db, err := pebble.Open("/data", o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

type noLogger struct{}

func (noLogger) Infof(string, ...any)           {}
func (noLogger) Errorf(string, ...any)          {}
func (noLogger) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

// rows are the rows of records by id.
type rows map[uint64][]byte

// rows reads the rows of a branch's records as they are now.
func (b *box) rows() rows {
	b.t.Helper()
	db, list := openTables(b.t, b.fs.Copy()), make(rows)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{4}, UpperBound: []byte{5}})
	if err != nil {
		b.t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		list[binary.BigEndian.Uint64(it.Key()[1:])] = slices.Clone(it.Value())
	}
	if err := errors.Join(it.Close(), db.Close()); err != nil {
		b.t.Fatal(err)
	}
	return list
}

// lose removes a piece from the store of a branch that has ended.
func (b *box) lose(p piece, early rows) {
	b.t.Helper()
	db := openTables(b.t, b.fs)
	var err error
	switch p.name {
	case entryRow:
		err = db.Delete(entryKey(p.entry.ID), pebble.Sync)
	case oldRow:
		err = db.Set(entryKey(p.entry.ID), early[p.entry.ID], pebble.Sync)
	default:
		err = db.Delete(partKey(p.entry.ID, p.name), pebble.Sync)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		b.t.Fatal(err)
	}
}

// repair mends the store of a branch that has ended, from the rest of it and from backups. A person accepts the losses.
func (b *box) repair(backups ...string) {
	b.t.Helper()
	ctx := context.Background()
	said, err := storage.Assemble(ctx, storage.Sources{Backups: backups}, b.storage(), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if said.Whole {
		return
	}
	s, err := storage.Open(b.storage())
	if err != nil {
		b.t.Fatal(err)
	}
	err = storetest.Settle(ctx, s, 0, "repaired")
	if err = errors.Join(err, s.Close()); err != nil {
		b.t.Fatal(err)
	}
}

// lostWorld plays a moment, loses its nth piece and lets the branch live for four days. It returns the number of
// pieces.
func lostWorld(t *testing.T, moment string, n int, again bool) (count int) {
	archive := newBucket()
	withDelivery(t, archive, func(b *box, p *postOffice) {
		b.every = 5 * time.Minute
		b.policy.LotSize, b.policy.LotsInFlight = 2, 1
		b.restart(nil)
		b.chaos(simulator.Chaos{})
		early := losses[moment](b, p, archive)
		list := b.pieces(early)
		if count = len(list); n >= count {
			return
		}
		lost := list[n]
		sold := b.sold()
		if again {
			if _, err := b.store.Backup(context.Background(), "/backup", nil); err != nil {
				t.Fatal(err)
			}
		}
		b.close()
		b.lose(lost, early)
		b.repair()
		b.cable.set(refusing) // MH is away for another hour
		b.start()
		time.Sleep(time.Hour)
		// only MH knows a lost document
		if n := b.engine.CountBacklog().Waiting[record.QueueSettle]; n > 1 || n == 1 && lost.name == oldRow {
			t.Errorf("without MH %d documents are still to be settled", n)
		}
		b.chaos(simulator.Chaos{})
		p.set(func() { p.down = false })
		archive.answering(0)
		b.cable.set(plugged)
		time.Sleep(96 * time.Hour)
		b.goesOn(lost, sold)
		time.Sleep(time.Minute) // the last message is on its way
		if again {
			b.close()
			b.repair("/backup")
			b.start()
			time.Sleep(24 * time.Hour)
			if o := b.engine.CountBacklog(); o.Lost != 0 || len(o.LostRecords) != 0 {
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

// sold returns the documents that the store has, by code.
func (b *box) sold() (codes []storage.Code) {
	b.t.Helper()
	err := b.store.Records(0, func(entry storage.Entry) error {
		if record.IsDocument(entry.State) {
			codes = append(codes, entry.Code)
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return codes
}

// goesOn checks what must hold days after a piece was lost: everything else is done, the branch sells, lists,
// invalidates and keeps books, and the lost record is shown.
func (b *box) goesOn(lost piece, sold []storage.Code) {
	b.t.Helper()
	ctx := context.Background()
	owed := b.engine.CountBacklog()
	for queue, n := range owed.Waiting {
		if n != 0 && queue != record.QueueCorrect {
			b.t.Errorf("%d records wait in queue %s", n, queue)
		}
	}
	if d := owed.Delivery; d.Mail != 0 || d.Archive != 0 || d.GivenUp != 0 {
		b.t.Errorf("to be delivered: %+v", d)
	}
	if owed.Contingency != nil || !owed.TechnicalReport.IsZero() {
		b.t.Errorf("in contingency: %+v, technical report %v", owed.Contingency, owed.TechnicalReport)
	}
	shown := slices.ContainsFunc(owed.LostRecords,
		func(l record.Lost) bool { return l.Code == dte.Code(lost.entry.Code).String() && l.Why != "" })
	report, err := b.store.Fsck(ctx)
	if err != nil || len(report.Problems) > 0 {
		b.t.Errorf("fsck: %+v %v", report.Problems, err)
	}
	held := maps.Collect(b.sim.Accepted())
	for _, code := range sold {
		r, err := b.engine.Documents().Document(ctx, dte.Code(code), testCaller(1))
		if code == lost.entry.Code {
			if err != nil && !shown {
				b.t.Errorf("it is not shown: %v", err)
			}
			if err != nil {
				continue
			}
		}
		if err != nil {
			b.t.Errorf("reading %s: %v", dte.Code(code), err)
			continue
		}
		a, accepted := held[r.Code]
		switch {
		case accepted && (r.Sello != a.Sello || string(r.JSON) != string(a.Document)):
			b.t.Errorf("%s is %s %s, MH holds %s\n%s\n%s", r.Code, r.Estado, r.Sello, a.Sello, r.JSON, a.Document)
		case accepted && a.Invalidated != (r.Estado == record.EstadoInvalidated) && code != lost.entry.Code:
			b.t.Errorf("%s is %s, MH has it invalidated: %v", r.Code, r.Estado, a.Invalidated)
		case !accepted && r.Estado != record.EstadoRejected && !shown:
			b.t.Errorf("%s is %s, and MH does not hold it", r.Code, r.Estado)
		}
	}
	for _, l := range owed.LostRecords {
		// a letter's document may be lost
		if l.Code != dte.Code(lost.entry.Code).String() && l.Queue != record.QueueDeliver {
			b.t.Errorf("lost is shown to be %+v", l)
		}
	}
	named := slices.ContainsFunc(report.Missing, func(m storage.Missing) bool {
		return m.Series == lost.entry.Series &&
			slices.Contains(m.Partial, storage.Span{From: lost.entry.Number, To: lost.entry.Number})
	})
	if !named || lost.name == entryRow && !shown {
		b.t.Errorf("it is not shown: fsck %+v, status %+v", report.Missing, owed.LostRecords)
	}
	r := b.issue(saleTo("after", "cliente@example.com"))
	if r.Estado != record.EstadoProcessed {
		b.t.Errorf("a sale after it is %s", r.Estado)
	}
	if again, err := b.engine.Invalidate(ctx, invalidation(r, 2, "")); err != nil ||
		again.Estado != record.EstadoInvalidated {
		b.t.Errorf("an invalidation after it: %v", err)
	}
	if _, err := b.engine.Documents().List(ctx, documents.Filter{From: "2026-11-01", To: "2026-11-30", Limit: 500},
		testCaller(1)); err != nil {
		b.t.Errorf("the list: %v", err)
	}
	if p, err := documents.NewMonthReader(b.store).Page("2026-11", 0); err != nil || p.Next != 0 {
		b.t.Errorf("the books: %v", err)
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
			withMail(t, func(b *box, _ *postOffice) {
				code, err := dte.NewCode(rand.Reader)
				if err == nil {
					_, err = b.store.Append(context.Background(), storage.Keys{Series: "00/rot"},
						storage.Draft{Code: storage.Code(code), State: state,
							Head: []byte("rot"), Due: &storage.Due{Queue: queue, At: time.Now()}})
				}
				if err != nil {
					t.Fatal(err)
				}
				b.cable.set(refusing)
				const n = 3
				for i := range n {
					b.issue(sale(fmt.Sprint(i), 100))
				}
				b.plugIn()
				time.Sleep(3 * time.Hour)
				if got := b.sim.Received(); got.Documents != n || got.Events != 1 {
					t.Errorf("MH received %+v", got)
				}
				o := b.engine.CountBacklog()
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
