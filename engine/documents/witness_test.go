package documents_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
	"dtegate/storage/storetest"
)

// MH says that it holds a number under another code: one sale is refused, and nothing more is numbered until people
// have said where the series goes on.
func TestWitness_MH(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Chaos(simulator.Chaos{})
		b.Issue(enginetest.Sale("1", 100))
		old := b.Snapshot()
		for _, key := range []string{"2", "3", "4"} {
			b.Issue(enginetest.Sale(key, 200))
		}
		b.PutBack(old)
		if r := b.Issue(enginetest.Sale("5", 300)); r.Estado != record.EstadoRejected {
			b.T.Errorf("a number that MH holds makes %s", r.Estado)
		}
		_, err := b.Engine.Issue(context.Background(), enginetest.Sale("6", 300))
		enginetest.Refused(b.T, err, refusal.CodeStoreBehind, "")
		if r := b.Issue(enginetest.Sale("1", 100)); r.Estado != record.EstadoProcessed {
			b.T.Errorf("what was answered is answered %s", r.Estado)
		}
		series := b.Series("01")
		b.Close()
		b.Start() // a restart forgets nothing, and MH need not be there
		b.Cable.Set(enginetest.Refusing)
		_, err = b.Engine.Issue(context.Background(), enginetest.Sale("6", 300))
		enginetest.Refused(b.T, err, refusal.CodeStoreBehind, "")
		held, err := b.Store.Held()
		if err != nil || len(held) != 1 || held[0].Series[0].Series != series ||
			held[0].Series[0].Here != 1 || held[0].Series[0].There != 2 || !strings.Contains(held[0].Path, "numeroControl") {
			b.T.Errorf("the store holds %+v, %v", held, err)
		}
		b.Cable.Set(enginetest.Plugged)
		b.Close()
		s, err := storage.Open(b.Storage())
		if err == nil {
			err = storetest.Settle(context.Background(), s, 2, "an old copy was put back")
		}
		if err != nil {
			b.T.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.T.Fatal(err)
		}
		b.Start()
		if r := b.Issue(enginetest.Sale("6", 300)); r.Estado != record.EstadoProcessed || r.SequenceNumber != "5" {
			b.T.Errorf("reconciled, a sale is %s, number %s", r.Estado, r.SequenceNumber)
		}
	})
}

// The archive lists documents that were sealed after the snapshot that was put back: nothing is numbered. Documents of
// the same issuer's other points of sale, and those that the store knows, stop nothing.
func TestWitness_Archive(t *testing.T) {
	shelf := enginetest.NewBucket()
	enginetest.WithDelivery(t, shelf, func(b *enginetest.Box, _ *enginetest.PostOffice) {
		b.Chaos(simulator.Chaos{})
		b.Issue(enginetest.Sale("1", 100))
		time.Sleep(time.Minute)
		points := []record.Point{enginetest.TestCaller(1).Point}
		answered := func() error {
			return b.Engine.NumberGuard().AskArchive(context.Background(), points, []string{"01"},
				time.Now().Add(-72*time.Hour), time.Now())
		}
		ask := func() error {
			b.T.Helper()
			if err := answered(); err != nil {
				b.T.Fatal(err)
			}
			return b.Engine.NumberGuard().Behind()
		}
		if err := ask(); err != nil {
			b.T.Errorf("the store knows all: %v", err)
		}
		old := b.Snapshot()
		b.Issue(enginetest.Sale("2", 200))
		b.Issue(enginetest.Sale("3", 200))
		time.Sleep(time.Minute)
		if n := shelf.Count(); n != 6 {
			b.T.Fatalf("%d objects", n)
		}
		b.PutBack(old)
		mine := points
		points = []record.Point{{Establishment: "M009", PointOfSale: "P001"}}
		if err := ask(); err != nil {
			b.T.Errorf("they are another branch's: %v", err)
		}
		points = mine
		read := 0
		shelf.Fail = func(string) bool { read++; return read > 1 } // after the first document that the store lacks
		if err := answered(); err == nil {
			b.T.Error("the archive has failed")
		}
		enginetest.Refused(b.T, b.Engine.NumberGuard().Behind(), refusal.CodeStoreBehind, "")
		shelf.Fail = nil
		err := ask()
		enginetest.Refused(b.T, err, refusal.CodeStoreBehind, "")
		if want := "el archivo conoce el 3 de " + b.Series("01") + ", aquí el 1"; err == nil ||
			!strings.Contains(err.Error(), want) {
			b.T.Errorf("%v, want %s", err, want)
		}
		var told *refusal.Error
		if want := "the archive knows number 3 of " + b.Series("01") + ", the store 1"; !errors.As(err, &told) ||
			!strings.Contains(told.English, want) {
			b.T.Errorf("%+v, want %s", told, want)
		}
		_, err = b.Engine.Issue(context.Background(), enginetest.Sale("4", 300))
		enginetest.Refused(b.T, err, refusal.CodeStoreBehind, "")
		shelf.Answering(503)
		if err := answered(); err == nil {
			b.T.Error("an archive that does not answer knows nothing more")
		}
		shelf.Answering(0)
	})
}
