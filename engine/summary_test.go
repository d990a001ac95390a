package engine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"dtegate/engine/authority/simulator"
	"dtegate/engine/dte"
	"dtegate/storage"
)

// TestTally: documents stand at the hour of their issue in El Salvador, by how they came out, whenever one looks; a new
// day begins at nought.
func TestTally(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	issue := func(at time.Time, key string, chaos simulator.Chaos, change func(*Request)) {
		t.Helper()
		w.clock.set(at)
		if err := w.sim.Chaos(chaos); err != nil {
			t.Fatal(err)
		}
		req := sale(key, 1130)
		if change != nil {
			change(&req)
		}
		if _, err := w.engine.Issue(context.Background(), req); err != nil {
			t.Fatal(err)
		}
	}
	day := time.Date(2027, 3, 1, 0, 0, 0, 0, dte.Zone)
	tally := NewTally(w.store, func() time.Time { return w.now() })
	look := func(date string, n int, want map[int]Hour) {
		t.Helper()
		for _, counter := range []*Tally{tally, NewTally(w.store, func() time.Time { return w.now() })} {
			got, err := counter.Today()
			if err != nil || got.Partial || got.Date != date || got.Documents["01"] != n {
				t.Fatalf("%+v %v", got, err)
			}
			for h := range got.Hours {
				if got.Hours[h] != want[h] {
					t.Errorf("%s, %d o'clock: %+v, want %+v", date, h, got.Hours[h], want[h])
				}
			}
		}
	}
	issue(day.Add(-time.Second), "before", simulator.Chaos{}, nil)
	look("2027-02-28", 1, map[int]Hour{23: {Normal: 1}})
	issue(day, "midnight", simulator.Chaos{}, nil)
	issue(day.Add(9*time.Hour), "nine", simulator.Chaos{}, nil)
	issue(day.Add(9*time.Hour+59*time.Minute), "refused", simulator.Chaos{Reject: 1}, nil)
	look("2027-03-01", 3, map[int]Hour{0: {Normal: 1}, 9: {Normal: 1, Rejected: 1}})
	issue(day.Add(18*time.Hour), "alone", simulator.Chaos{}, func(r *Request) { r.TestContingency = true })
	look("2027-03-01", 4, map[int]Hour{0: {Normal: 1}, 9: {Normal: 1, Rejected: 1}, 18: {Contingency: 1}})
	w.clock.set(day.AddDate(0, 0, 1))
	look("2027-03-02", 0, nil)
}

// dayStore is a store of documents of one day, n of each form, each with an event behind it; the last is not settled.
func dayStore(t testing.TB, n int, now func() time.Time) *storage.Store {
	t.Helper()
	o := storage.Options{Dir: "/data", MarkPath: "/mark", FS: vfs.NewMem(), Logger: quiet, Now: now}
	if err := storage.Create(o); err != nil {
		t.Fatal(err)
	}
	s, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range n {
		head, _ := json.Marshal(head{Document: "01", Date: dte.Date(now()), Form: formNormal, CreatedAt: now()})
		state := Accepted
		if i == n-1 {
			state = Signed
		}
		var code storage.Code
		binary.BigEndian.PutUint64(code[:], uint64(i+1))
		_, err := s.Append(context.Background(), storage.Keys{Series: "s"}, func(storage.Slot) (storage.Draft, error) {
			return storage.Draft{Code: code, State: state, Head: head}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestTally_Large: a call reads so many records and no more; what is being settled is counted once MH has decided.
func TestTally_Large(t *testing.T) {
	now := func() time.Time { return time.Date(2027, 3, 1, 12, 0, 0, 0, dte.Zone) }
	s := dayStore(t, tallyStep+5, now)
	tally := NewTally(s, now)
	for _, want := range []struct {
		n       int
		partial bool
	}{{tallyStep, true}, {tallyStep + 4, false}, {tallyStep + 4, false}} {
		got, err := tally.Today()
		if err != nil || got.Documents["01"] != want.n || got.Hours[12].Normal != want.n || got.Partial != want.partial {
			t.Fatalf("%+v %v, want %+v", got, err, want)
		}
	}
	var last storage.Code
	binary.BigEndian.PutUint64(last[:], tallyStep+5)
	if _, err := s.Advance(context.Background(), last, Signed, storage.Change{To: Rejected}); err != nil {
		t.Fatal(err)
	}
	if got, err := tally.Today(); err != nil || got.Hours[12] != (Hour{Normal: tallyStep + 4, Rejected: 1}) {
		t.Fatalf("%+v %v", got.Hours[12], err)
	}
}
