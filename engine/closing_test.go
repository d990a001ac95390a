package engine_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/storage"
	"dtegate/storage/disktest"
)

// TestCloseDay_CrashEverywhere cuts the power at every write of a closing: afterwards the day is closed once, with
// number 1, and a closing answered before is the stored one.
func TestCloseDay_CrashEverywhere(t *testing.T) {
	for _, unsynced := range []int{0, 50, 100} {
		for point, more := int64(1), true; more; point++ {
			w := crashWorld(t, scenario{})
			var after *disktest.Disk
			var count atomic.Int64
			var armed atomic.Bool
			disk := w.Fs
			w.Open(disk, errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if armed.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && count.Add(1) == point {
					after = disk.Crash(unsynced, rand.New(rand.NewPCG(uint64(point), 1)))
				}
				return nil
			})))
			if _, err := w.Engine.Issue(context.Background(), enginetest.Sale("one", 1130)); err != nil {
				t.Fatal(err)
			}
			armed.Store(true)
			first := closeDay(w, true)
			if more = after != nil; more {
				if err := w.Store.Close(); err != nil {
					t.Fatal(err)
				}
				if err := w.Reopen(after); err != nil {
					t.Fatal(err)
				}
			}
			// The answer came after the crash: only its number is certain to be the same.
			if z := closeDay(w, false); z.Number != 1 || z.Net != first.Net || z.Kind != "Z" || z.Later != 0 {
				t.Errorf("crash at write %d: %+v", point, z)
			}
			kept := closeDay(w, false)
			if again := closeDay(w, false); asText(t, again) != asText(t, kept) {
				t.Errorf("crash at write %d: %+v, then %+v", point, kept, again)
			}
			if !more && asText(t, kept) != asText(t, first) {
				t.Errorf("without a crash: %+v, then %+v", first, kept)
			}
			w.Close()
		}
	}
}

func asText(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// closeDay closes the day of start; fresh: it must be open.
func closeDay(w *enginetest.World, fresh bool) *documents.Closing {
	w.T.Helper()
	z, made, err := w.Engine.CloseDay(context.Background(), dte.Date(enginetest.Start), enginetest.TestCaller(1))
	if err != nil || fresh && !made {
		w.T.Fatalf("%+v, made %v: %v", z, made, err)
	}
	return z
}

// TestCloseDay_Unanswered: a sale that MH has not answered is in its day's closing: a Z never changes. Afterwards each
// point of sale of the branch is counted for every other.
func TestCloseDay_Unanswered(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	ctx, cancel := context.WithCancel(context.Background())
	w.Wire.At = func(point string) {
		if strings.Contains(point, "recepciondte") {
			cancel()
		}
	}
	if _, err := w.Engine.Issue(ctx, enginetest.Sale("one", 1130)); err == nil {
		t.Fatal("the sale was answered")
	}
	z := closeDay(w, true)
	if z.Net.Sales != "11.30" || len(z.Groups) != 1 || z.Groups[0].Estado != record.EstadoContingency {
		t.Errorf("%+v", z)
	}
	for range 2 { // before MH answers, and after it
		if kept := closeDay(w, false); kept.Later != 0 {
			t.Errorf("%d documents came later", kept.Later)
		}
		if err := w.Engine.Recover(context.Background(), w.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	for caller := 1; caller <= 2; caller++ { // a point of sale counts the same whoever of the branch asks
		for point := int64(1); point <= 2; point++ {
			for _, asX := range []bool{true, false} {
				x, err := w.Engine.Documents().Closing(context.Background(), dte.Date(enginetest.Start), asX, point,
					enginetest.TestCaller(caller), w.Now())
				sold := point == 1
				if err != nil || x.PointID != point || (x.Net == z.Net) != sold || (len(x.Groups) == 1) != sold ||
					(x.Kind == "Z") != (sold && !asX) || (sold || point == int64(caller)) && x.PointOfSale !=
					enginetest.TestCaller(int(point)).Point.PointOfSale ||
					x.Kind == "X" && sold && x.Groups[0].Estado != record.EstadoProcessed {
					t.Errorf("%d asks %d, only for an X %v: %+v, %v", caller, point, asX, x, err)
				}
			}
		}
	}
	other := enginetest.Sale("two", 500)
	other.Caller = enginetest.TestCaller(2)
	w.Issued(other, record.EstadoProcessed)
	if kept := closeDay(w, false); kept.Later != 0 {
		t.Errorf("%d documents of another point of sale came later", kept.Later)
	}
}

// TestCloseDay_Lost: a sale whose record was set aside is issued again, therefore no sum of its day includes it.
func TestCloseDay_Lost(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	ctx, cancel := context.WithCancel(context.Background())
	w.Wire.At = func(point string) {
		if strings.Contains(point, "recepciondte") {
			cancel()
		}
	}
	if _, err := w.Engine.Issue(ctx, enginetest.Sale("one", 1130)); err == nil {
		t.Fatal("the sale was answered")
	}
	due, err := w.Store.Due(record.QueueSettle, record.Whenever, 1)
	if err != nil || len(due) != 1 {
		t.Fatalf("%+v, %v", due, err)
	}
	if _, err := w.Store.Advance(context.Background(), due[0].Code, record.Signed, storage.Change{To: record.Signed,
		Due: &storage.Due{Queue: record.QueueLost, At: w.Now()}}); err != nil {
		t.Fatal(err)
	}
	if z := closeDay(w, true); z.Net.Sales != "0.00" || len(z.Groups) != 1 || z.Groups[0].Count != 1 ||
		z.Groups[0].Estado != record.EstadoRejected {
		t.Errorf("%+v", z)
	}
}
