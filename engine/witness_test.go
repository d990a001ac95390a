package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
	"dtegate/storage/disktest"
)

// putBack puts the disk of an earlier moment back, store and mark together, as a snapshot of the box does: nothing on
// the box knows what was issued since.
func (b *box) putBack(fs *disktest.Disk) {
	b.t.Helper()
	b.close()
	b.fs = fs
	b.start()
}

func (b *box) snapshot() *disktest.Disk {
	return b.fs.Crash(100, fork(b.rand))
}

// MH says that it holds a number under another code: one sale is refused, and nothing more is numbered until people
// have said where the series goes on.
func TestWitness_MH(t *testing.T) {
	inBubble(t, func(b *box) {
		b.chaos(simulator.Chaos{})
		b.issue(sale("1", 100))
		old := b.snapshot()
		for _, key := range []string{"2", "3", "4"} {
			b.issue(sale(key, 200))
		}
		b.putBack(old)
		if r := b.issue(sale("5", 300)); r.Estado != record.EstadoRejected {
			b.t.Errorf("a number that MH holds makes %s", r.Estado)
		}
		_, err := b.engine.Issue(context.Background(), sale("6", 300))
		refused(b.t, err, refusal.CodeStoreBehind, "")
		if r := b.issue(sale("1", 100)); r.Estado != record.EstadoProcessed {
			b.t.Errorf("what was answered is answered %s", r.Estado)
		}
		series := b.series("01")
		b.close()
		b.start() // a restart forgets nothing, and MH need not be there
		b.cable.set(refusing)
		_, err = b.engine.Issue(context.Background(), sale("6", 300))
		refused(b.t, err, refusal.CodeStoreBehind, "")
		held, err := b.store.Held()
		if err != nil || len(held) != 1 || held[0].Series[0].Series != series ||
			held[0].Series[0].There != 2 || !strings.Contains(held[0].Path, "numeroControl") {
			b.t.Errorf("the store holds %+v, %v", held, err)
		}
		b.cable.set(plugged)
		b.close()
		s, err := storage.Open(b.storage())
		if err == nil {
			err = s.SkipTo(context.Background(), series, 4, "an old copy was put back")
		}
		if err != nil {
			b.t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.t.Fatal(err)
		}
		b.start()
		if r := b.issue(sale("6", 300)); r.Estado != record.EstadoProcessed || r.SequenceNumber != "5" {
			b.t.Errorf("reconciled, a sale is %s, number %s", r.Estado, r.SequenceNumber)
		}
	})
}

func (b *box) series(document string) string {
	p := testCaller(1).Point
	return "00/" + document + "/" + p.Establishment + "/" + p.PointOfSale + "/2026"
}

// The archive lists documents that were sealed after the snapshot that was put back: nothing is numbered. Documents of
// the same issuer's other points of sale, and those that the store knows, stop nothing.
func TestWitness_Archive(t *testing.T) {
	shelf := newBucket()
	withDelivery(t, shelf, func(b *box, _ *postOffice) {
		b.chaos(simulator.Chaos{})
		b.issue(sale("1", 100))
		time.Sleep(time.Minute)
		points := []record.Point{testCaller(1).Point}
		ask := func() error {
			b.t.Helper()
			if err := b.engine.NumberGuard().AskArchive(context.Background(), points, time.Now().Add(-72*time.Hour),
				time.Now()); err != nil {
				b.t.Fatal(err)
			}
			return b.engine.NumberGuard().Behind()
		}
		if err := ask(); err != nil {
			b.t.Errorf("the store knows all: %v", err)
		}
		old := b.snapshot()
		b.issue(sale("2", 200))
		b.issue(sale("3", 200))
		time.Sleep(time.Minute)
		if n := shelf.count(); n != 6 {
			b.t.Fatalf("%d objects", n)
		}
		b.putBack(old)
		mine := points
		points = []record.Point{{Establishment: "M009", PointOfSale: "P001"}}
		if err := ask(); err != nil {
			b.t.Errorf("they are another branch's: %v", err)
		}
		points = mine
		err := ask()
		refused(b.t, err, refusal.CodeStoreBehind, "")
		if want := "el archivo conoce el 3 de " + b.series("01") + ", aquí el 1"; err == nil ||
			!strings.Contains(err.Error(), want) {
			b.t.Errorf("%v, want %s", err, want)
		}
		var told *refusal.Error
		if want := "the archive knows number 3 of " + b.series("01") + ", the store 1"; !errors.As(err, &told) ||
			!strings.Contains(told.English, want) {
			b.t.Errorf("%+v, want %s", told, want)
		}
		_, err = b.engine.Issue(context.Background(), sale("4", 300))
		refused(b.t, err, refusal.CodeStoreBehind, "")
		shelf.answering(503)
		if err := b.engine.NumberGuard().AskArchive(context.Background(), points, time.Now(), time.Now()); err == nil {
			b.t.Error("an archive that does not answer knows nothing more")
		}
		shelf.answering(0)
	})
}
