package storage

import (
	"errors"
	"testing"

	"dtegate/cmd/cmdtest/metrictest"
)

// Every mark that the next start would refuse is found while the store runs, and the store goes on; the same mark is
// good when it is put back.
func TestProveMark(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	old := readFile(t, fs, markPath)
	put(t, s, "a", 2)
	put(t, s, "a", 3)
	s.mark.wait("a", 3)
	if err := s.ProveMark(); err != nil {
		t.Fatal(err)
	}
	good, proved := readFile(t, fs, markPath), s.MarkProved()
	flipped := append([]byte(nil), good...)
	flipped[0]++
	flipped[firstSlot]++
	for name, content := range map[string][]byte{"gone": nil, "of yesterday": old, "unreadable": flipped, "empty": {}} {
		if err := fs.Remove(markPath); err != nil {
			t.Fatal(err)
		}
		if content != nil {
			writeFile(t, fs, markPath, content)
		}
		if err := s.ProveMark(); !errors.Is(err, ErrMark) {
			t.Errorf("%s: %v", name, err)
		}
		if at := s.MarkProved(); !at.Equal(proved) {
			t.Errorf("%s: proved at %v", name, at)
		}
		writeFile(t, fs, markPath, good)
		if err := s.ProveMark(); err != nil {
			t.Errorf("%s, and put back: %v", name, err)
		}
		proved = s.MarkProved()
	}
	if v := metrictest.Value(t, s, "dte_store_mark_proved_timestamp_seconds"); v != float64(proved.Unix()) {
		t.Errorf("the metric says %v", v)
	}
	sound(t, s)
}
