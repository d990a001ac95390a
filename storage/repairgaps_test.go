package storage

import (
	"reflect"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// TestMend_EndUnknown: if a medium names a series' end without its last number, at most as many numbers are gone as
// changes are missing. If the medium names the number, it counts. A row of the store's own that ends earlier changes
// neither.
func TestMend_EndUnknown(t *testing.T) {
	for last, there := range map[uint64]uint64{0: 8, 6: 6, 1: 5} {
		for _, own := range []bool{false, true} {
			s, _ := newStore(t)
			var sequence uint32
			for n := uint64(1); n <= 5; n++ {
				sequence = put(t, s, "a", n).SequenceID
			}
			if !own {
				if err := s.db.Delete(seriesKey("a"), pebble.Sync); err != nil {
					t.Fatal(err)
				}
			}
			end := Reach{Sequence: sequence, Last: last, Position: 8}
			known, _, err := mend(s.db, copyState{Series: map[uint32]place{sequence: {end, "a"}}}, "a test")
			if len(known) == 1 {
				known[0].End.Last = last // the higher of both rows
			}
			if err != nil || !slices.Equal(known, []Lead{{Series: "a", There: there, Changes: 3, End: end}}) {
				t.Errorf("with %d as its last number, own row %v: %+v, %v", last, own, known, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestAccepted: what a person has accepted as lost is accepted again, and nothing more. Nor less: what a medium has filled
// is not on the second copy, which must begin again.
func TestAccepted(t *testing.T) {
	s, _ := newStore(t)
	for from, row := range map[uint64]lostRow{5: {To: 9}, 20: {To: 20}, 0: {Partial: []partialRecord{{ID: 3}, {ID: 4}}}} {
		if err := s.db.Set(lostKey(1, from), row.encode(), pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	type hole struct {
		sequence uint32
		from, to uint64
	}
	for name, c := range map[string]struct {
		holes   []hole
		partial []uint64
		want    bool
	}{
		"nothing":                   {},
		"the same":                  {[]hole{{1, 5, 9}, {1, 20, 20}}, []uint64{3, 4}, true},
		"less":                      {[]hole{{1, 5, 7}}, []uint64{4}, false},
		"the rest of a hole":        {[]hole{{1, 7, 9}}, nil, false},
		"two pieces of a hole":      {[]hole{{1, 5, 6}, {1, 8, 9}}, nil, false},
		"a change more":             {[]hole{{1, 5, 10}}, nil, false},
		"a change before":           {[]hole{{1, 4, 9}}, nil, false},
		"between the holes":         {[]hole{{1, 10, 10}}, nil, false},
		"from one to the other":     {[]hole{{1, 5, 20}}, nil, false},
		"of another series":         {[]hole{{2, 5, 9}}, nil, false},
		"one is accepted, one not":  {[]hole{{1, 5, 9}, {1, 30, 30}}, nil, false},
		"another incomplete record": {[]hole{{1, 5, 9}}, []uint64{3, 5}, false},
	} {
		now := &holes{partial: make(map[uint64]bool)}
		for _, h := range c.holes {
			now.rows = append(now.rows, lostRow{To: h.to, sequence: h.sequence, position: h.from})
		}
		for _, id := range c.partial {
			now.partial[id] = true
		}
		if got := (&assembly{own: &folder{db: s.db}, db: s.db}).accepted(now); got != c.want {
			t.Errorf("%s: accepted %v", name, got)
		}
		if got := (&assembly{own: &folder{}}).accepted(now); got != now.none() {
			t.Errorf("%s, beside a store that cannot be read: accepted %v", name, got)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestHoles_Missing: a number whose record is there, but not whole, is not missing too.
func TestHoles_Missing(t *testing.T) {
	h := &holes{rows: []lostRow{{Partial: []partialRecord{{Number: 7}, {Number: 4}}, sequence: 1},
		{Numbers: Span{3, 5}, To: 12, sequence: 1, position: 10}}}
	got := h.missing(map[string]Reach{"a": {Sequence: 1, Last: 5}}, []Lead{{Series: "a", There: 8, Changes: 3}})
	want := []Missing{{Series: "a", Numbers: []Span{{3, 3}, {5, 5}, {6, 6}, {8, 8}}, Partial: []Span{{4, 4}, {7, 7}},
		Changes: 6}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}
