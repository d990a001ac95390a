package documents_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/storage"
)

// TestTally: documents are counted at the hour of their issue in El Salvador, by outcome, whenever the tally is read; a
// new day begins at zero.
func TestTally(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	issue := func(at time.Time, chaos simulator.Chaos, alone bool) {
		t.Helper()
		w.Clock.Set(at)
		if err := w.Sim.Chaos(chaos); err != nil {
			t.Fatal(err)
		}
		req := enginetest.Sale("", 1130)
		req.TestContingency = alone
		if _, err := w.Engine.Issue(context.Background(), req); err != nil {
			t.Fatal(err)
		}
	}
	day := time.Date(2027, 3, 1, 0, 0, 0, 0, dte.Zone)
	look := func(date string, n int, want map[int]documents.Hour) {
		t.Helper()
		for _, counter := range []*documents.Register{w.Engine.Documents(),
			documents.New(w.Store, func() func() { return func() {} }, enginetest.TestIssuer(), nil)} {
			got, err := counter.Today(t.Context(), w.Now())
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
	issue(day.Add(-time.Second), simulator.Chaos{}, false)
	look("2027-02-28", 1, map[int]documents.Hour{23: {Normal: 1}})
	issue(day, simulator.Chaos{}, false)
	issue(day.Add(9*time.Hour), simulator.Chaos{}, false)
	issue(day.Add(9*time.Hour+59*time.Minute), simulator.Chaos{Reject: 1}, false)
	look("2027-03-01", 3, map[int]documents.Hour{0: {Normal: 1}, 9: {Normal: 1, Rejected: 1}})
	issue(day.Add(18*time.Hour), simulator.Chaos{}, true)
	look("2027-03-01", 4, map[int]documents.Hour{0: {Normal: 1}, 9: {Normal: 1, Rejected: 1}, 18: {Contingency: 1}})
	w.Clock.Set(day.AddDate(0, 0, 1))
	look("2027-03-02", 0, nil)
}

// TestToday_Large: a call whose time is over says that the day is not counted; a document that is being settled is
// counted once MH has decided.
func TestToday_Large(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	w.Clock.Set(time.Date(2027, 3, 1, 12, 0, 0, 0, dte.Zone))
	data, _ := json.Marshal(record.Head{Document: "01", Date: "2027-03-01", Form: record.FormNormal, Total: "1.00",
		CreatedAt: w.Now()})
	const many = 1000
	var last storage.Code
	for i := range many + 1 {
		state := record.Accepted
		if i == many {
			state = record.Signed
		}
		binary.BigEndian.PutUint64(last[:], uint64(i+1))
		_, err := w.Store.Append(context.Background(), storage.Keys{Series: "s"}, storage.Draft{Code: last,
			State: state, Head: data, Days: []uint32{20270301}})
		if err != nil {
			t.Fatal(err)
		}
	}
	r := w.Engine.Documents()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := r.Today(over, w.Now()); err != nil || !got.Partial || got.Hours != [24]documents.Hour{} {
		t.Fatalf("%+v %v", got, err)
	}
	for range 2 {
		got, err := r.Today(t.Context(), w.Now())
		if err != nil || got.Documents["01"] != many || got.Hours[12].Normal != many || got.Partial {
			t.Fatalf("%+v %v, want %d", got, err, many)
		}
	}
	entry, err := w.Store.Advance(context.Background(), last, record.Signed, storage.Change{To: record.Rejected})
	if err != nil {
		t.Fatal(err)
	}
	r.Touch(entry.ID)
	if got, err := r.Today(t.Context(), w.Now()); err != nil || got.Hours[12] != (documents.Hour{Normal: many,
		Rejected: 1}) {
		t.Fatalf("%+v %v", got.Hours[12], err)
	}
}
