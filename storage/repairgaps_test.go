package storage

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// TestMend_EndUnknown: where nothing tells a series' last number, at most as many numbers are gone as changes are
// missing; where it is told, it counts.
func TestMend_EndUnknown(t *testing.T) {
	for last, want := range map[uint64]Lead{0: {"a", 0, 8, 3}, 6: {"a", 0, 6, 3}, 1: {"a", 0, 5, 3}} {
		s, _ := newStore(t)
		var sequence uint32
		for n := uint64(1); n <= 5; n++ {
			sequence = put(t, s, "a", n).SequenceID
		}
		if err := s.db.Delete(seriesKey("a"), pebble.Sync); err != nil {
			t.Fatal(err)
		}
		known, _, err := mend(s.db, copyState{Series: map[uint32]place{sequence: {Reach{sequence, last, 8, [32]byte{}},
			"a"}}}, "a test")
		if err != nil || !slices.Equal(known, []Lead{want}) {
			t.Errorf("with %d as its last number: %+v, %v", last, known, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
