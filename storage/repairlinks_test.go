package storage

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A medium offers a link for a place where the damaged store has none. The link is taken only when it continues the
// chain: no link of another history is taken, although it is sound by itself and the store has none at that place.
func TestHistories_Chain(t *testing.T) {
	const common, length = 3, 7
	s, disk := newStore(t)
	for n := uint64(1); n <= common; n++ {
		put(t, s, "a", n)
	}
	sound(t, s)
	history := func(first uint64) map[uint64][2][]byte {
		s := openStore(t, disk.Copy())
		for n := uint64(common + 1); n <= length; n++ {
			put(t, s, "a", first+n)
		}
		links := make(map[uint64][2][]byte)
		if err := scan(s.db, []byte{tableJournal}, []byte{tableJournal + 1}, func(key, value []byte) error {
			links[be.Uint64(key[5:])] = [2][]byte{bytes.Clone(key), bytes.Clone(value)}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		sound(t, s)
		return links
	}
	own, other := history(100), history(200)
	last := uint64(len(own))
	if last < length || len(other) != len(own) {
		t.Fatal(len(own), len(other))
	}
	// offer has a store without one link, perhaps without any after it, read a medium that has only this link.
	offer := func(lost uint64, end bool, link [2][]byte) (taken bool) {
		db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(),
			Logger: &pebbleLogger{&Options{Logger: slog.New(slog.DiscardHandler)}}})
		if err != nil {
			t.Fatal(err)
		}
		h := newHistories()
		h.begin()
		for position := range maps.Keys(own) {
			if position == lost || end && position > lost {
				continue
			}
			err = errors.Join(err, db.Set(own[position][0], own[position][1], nil))
		}
		err = errors.Join(err, h.link(db, link[0], link[1]))
		_, bad := h.end(db)
		if err = errors.Join(err, bad); err != nil {
			t.Fatal(err)
		}
		_, missing := get(db, link[0])
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		return missing == nil
	}
	strangers := 0
	for lost := uint64(1); lost <= last; lost++ {
		for _, end := range []bool{false, true} {
			if !offer(lost, end, own[lost]) {
				t.Errorf("its own link %d is not taken (nothing behind it: %v)", lost, end)
			}
			if bytes.Equal(own[lost][1], other[lost][1]) {
				continue
			}
			strangers++
			// The first link of another history continues the common ones: the chain cannot tell it while nothing
			// follows it.
			_, before := own[lost-1]
			parted := before && !bytes.Equal(own[lost-1][1], other[lost-1][1])
			if taken := offer(lost, end, other[lost]); taken && (parted || !end) {
				t.Errorf("link %d of another history is taken (nothing behind it: %v)", lost, end)
			}
		}
	}
	if strangers < 4 {
		t.Errorf("only %d links of another history", strangers)
	}
}
