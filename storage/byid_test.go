package storage

import (
	"slices"
	"testing"
)

// TestByID returns the records of the ids that exist, in the order of the question.
func TestByID(t *testing.T) {
	s, _ := newStore(t)
	var ids []uint64
	for n := uint64(1); n <= 5; n++ {
		ids = append(ids, put(t, s, "a", n).ID)
	}
	slices.Reverse(ids)
	got, err := s.ByID(slices.Insert(slices.Clone(ids), 2, 1_000_000))
	if err != nil || len(got) != 5 {
		t.Fatalf("%d records, %v", len(got), err)
	}
	for i, e := range got {
		want, err := s.Get(code(5 - uint64(i)))
		if err != nil || e.ID != ids[i] || e.Code != want.Code || e.Number != want.Number || e.Series != "a" ||
			string(e.Head) != string(want.Head) {
			t.Errorf("%+v, want %+v, %v", e, want, err)
		}
	}
	sound(t, s)
}
