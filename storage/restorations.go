package storage

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Gap is a time that the store has lost: at the time To it was taken back to its state of the time From. It does not hold what
// happened between them (documents sealed, numbers spent).
type Gap struct{ From, To time.Time }

// maxGaps is how many gaps are kept; the oldest are forgotten first.
const maxGaps = 64

// Gaps are the restorations of this store, the oldest first. A store that was never restored from a backup or a second copy has
// none.
func (s *Store) Gaps() ([]Gap, error) {
	if err := s.enter(); err != nil {
		return nil, fmt.Errorf("reading restorations: %w", err)
	}
	defer s.leave()
	gaps, err := readGaps(s.db)
	if err != nil {
		return nil, fmt.Errorf("reading restorations: %w", err)
	}
	return gaps, nil
}

func readGaps(r pebble.Reader) ([]Gap, error) {
	row, err := get(r, keyGaps)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decodeGaps(row)
}

// The row "restorations": version u8 · (from i64 · to i64)…, Unix ns.
func encodeGaps(gaps []Gap) []byte {
	b := []byte{rowVersion}
	for _, g := range gaps {
		b = be.AppendUint64(be.AppendUint64(b, uint64(g.From.UnixNano())), uint64(g.To.UnixNano()))
	}
	return b
}

func decodeGaps(row []byte) (gaps []Gap, err error) {
	c := cursor{b: row}
	c.version()
	for len(c.b) >= 16 {
		gaps = append(gaps, Gap{time.Unix(0, int64(c.u64())).UTC(), time.Unix(0, int64(c.u64())).UTC()})
	}
	return gaps, c.end("restorations")
}

// endRestoration deletes the row that keeps the store from issuing, and keeps what it says as a gap, in one batch.
func (s *Store) endRestoration() error {
	row, err := restoration(s.db)
	if err != nil || row == nil {
		return errors.Join(err, s.db.Delete(keyRestored, pebble.Sync))
	}
	b := s.db.NewBatch()
	if err := appendGap(b, s.db, Gap{row.takenAt(), time.Unix(0, row.At).UTC()}); err != nil {
		return err
	}
	if err := b.Delete(keyRestored, nil); err != nil {
		return err
	}
	return b.Commit(pebble.Sync)
}

func appendGap(b *pebble.Batch, r pebble.Reader, g Gap) error {
	gaps, err := readGaps(r)
	if err != nil {
		return err
	}
	gaps = append(gaps, g)
	set(b, keyGaps, encodeGaps(gaps[max(0, len(gaps)-maxGaps):]))
	return nil
}

// addGap is for a store that gave up what another medium knows since its last change: nobody can say until when that was.
func (s *Store) addGap(b *pebble.Batch, lastChange time.Time) error {
	return appendGap(b, s.db, Gap{lastChange, s.o.Now().UTC()})
}
