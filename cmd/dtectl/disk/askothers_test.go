package disk

import (
	"context"
	"errors"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/engine/archive"
	"dtegate/storage"
)

// TestPartsOf: the archive is asked once for each document, and no more once it has failed three times in a row. A
// document in cold storage is no such failure. Its first error and each failure are returned.
func TestPartsOf(t *testing.T) {
	asked := ""
	part := partsOf(func(_ context.Context, e storage.Entry) ([]byte, error) {
		asked += string(e.Code[:1])
		switch e.Code[0] {
		case 'c', 'd', 'e', 'f':
			return nil, errors.New("no answer")
		case '1', '2':
			return nil, archive.ErrCold
		}
		return e.Code[:1], nil
	})
	for _, c := range []struct {
		code, want string
		fails      bool
	}{{"a", "a", false}, {"a", "a", false}, {"b", "b", false}, {"a", "a", false}, {"1", "", true},
		{"1", "", false}, {"2", "", false}, {"a", "a", false},
		{"c", "", true}, {"c", "", false}, {"a", "a", false}, {"d", "", true}, {"e", "", true}, {"2", "", false},
		{"f", "", true}, {"a", "", false}} {
		got, err := part(t.Context(), storage.Entry{Code: storage.Code{c.code[0]}}, "normal")
		if string(got) != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %q, %v", c.code, got, err)
		}
	}
	if asked != "aba12acade2f" {
		t.Errorf("asked for %s", asked)
	}
}

// TestClockAccept: the accepted time is the store's last time, whether that was ahead or behind. Since when the archive
// must be asked stays: since the earliest doubt or, without a doubt, since the last time.
func TestClockAccept(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	last, doubt := now.AddDate(2, 0, 0), now.AddDate(0, -2, 0)
	for _, c := range []struct{ last, unsure, want time.Time }{{last, time.Time{}, last}, {doubt, time.Time{}, doubt},
		{last, doubt, doubt}} {
		b := barebox.New(t, "127.0.0.1:1")
		s := b.Store()
		b.Must(s.Beat(c.last, c.unsure), s.Close())
		output(b, func() error { return new(ClockAccept).Run(b.Config) })
		s = b.Store()
		at, unsure, err := s.LastBeat()
		if b.Must(err, s.Close()); at.Before(now) || at.After(now.Add(time.Hour)) || !unsure.Equal(c.want) {
			t.Errorf("%v, unsure since %v: is %v, unsure since %v", c.last, c.unsure, at, unsure)
		}
	}
}
