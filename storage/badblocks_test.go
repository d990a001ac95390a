package storage

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"dtegate/storage/disktest"
)

// A damaged block with a large row, such as the bundle of a rule, is found by this package, at once: Pebble would
// search many seconds for the turned bit, at every start. The store reports the block, and reads a whole one as before.
func TestBadBlocks_Large(t *testing.T) {
	large := make([]byte, 300<<10)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range large {
		large[i] = byte(r.Uint32())
	}
	s, disk := newStore(t)
	for n := uint64(1); n <= 4; n++ { // these fill the first blocks, which a start reads
		if _, err := s.build(ctx, Keys{Series: "a"}, func(slot Slot) (Draft, error) {
			d, data := draft(code(n), slot), large
			if n < 4 {
				data = large[n*9000 : (n+1)*9000]
			}
			d.Parts = append(d.Parts, Part{Name: "large", Data: data})
			return d, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Close(), openStore(t, disk).Close()); err != nil { // the rows of the log are in a table now
		t.Fatal(err)
	}
	table := ""
	for _, file := range disk.Files() {
		if strings.HasSuffix(file, ".sst") && size(t, disk, file) > int64(len(large)) {
			table = file
		}
	}
	at := int64(bytes.Index(readFile(t, disk, table), large[100_000:100_100]))
	if at < 0 {
		t.Fatal("the row is not in the table")
	}
	for _, rotten := range []*disktest.Disk{nil, disk.Copy()} {
		if rotten == nil {
			s = openStore(t, disk)
		} else if err := rotten.Flip(table, at*8); err != nil {
			t.Fatal(err)
		} else {
			s = openStore(t, rotten)
		}
		for range 2 {
			got, err := s.Part(code(4), "large")
			switch {
			case rotten == nil && (err != nil || !bytes.Equal(got, large) || s.Health() != nil):
				t.Errorf("the whole block: %v %v", err, s.Health())
			case rotten != nil && (!errors.Is(err, ErrCorrupt) || strings.Contains(err.Error(), "pebble:") ||
				!errors.Is(s.Health(), ErrCorrupt)):
				t.Errorf("the damaged block: %v %v", err, s.Health())
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
