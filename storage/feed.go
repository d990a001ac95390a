package storage

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// ErrCursor: no announcement of this store has the sequence number that Changes got. The number is from a lost history:
// the reader must start again.
var ErrCursor = errors.New("the cursor is not of this store's history")

// feedJump limits the random step of the sequence numbers when the store gets a new identity.
const feedJump = 1 << 40

// newIdentity gives a new identity to a store that was restored or that gave up another medium's history. The sequence
// number of the store's next announcement is higher by a random step, because numbers of the lost history must not be
// used again.
func newIdentity(b *pebble.Batch, db *pebble.DB, id []byte) error {
	last, err := lastID(db, tableFeed)
	if err != nil {
		return err
	}
	var step [8]byte
	_, _ = rand.Read(id[8:]) // crypto/rand never fails since Go 1.24
	_, _ = rand.Read(step[:])
	set(b, keyStore, id)
	return setJSON(b, keyFeed, last+1+be.Uint64(step[:])%feedJump, nil)
}

// Announcement is a change. A reader of Changes gets each announcement once, in order.
type Announcement struct {
	Sequence uint64 // from 1, growing; gaps are possible
	Code     Code
	State    State // the record's state after the change
}

// feed gives sequence numbers to announcements and wakes the readers that wait for the next announcement.
type feed struct {
	ids
	mu   sync.Mutex
	next chan struct{} // closed at the next announcement
}

// ring wakes the readers: the announcement with this sequence number is durable, or will never be written.
func (f *feed) ring(sequence uint64) {
	f.drop(sequence)
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.next)
	f.next = make(chan struct{})
}

// Announced returns a channel that is closed when there may be announcements that Changes does not return yet.
func (s *Store) Announced() <-chan struct{} {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	return s.feed.next
}

// Changes returns the announcements after a sequence number, in order, at most limit. They are durable, and no
// announcement will appear between them later. Therefore a reader that remembers the last number sees each announcement
// exactly once. ErrCursor if no announcement of this store has the number; 0 reads from the first.
func (s *Store) Changes(after uint64, limit int) ([]Announcement, error) {
	return use(s, "reading changes", func() ([]Announcement, error) {
		upper := s.feed.floor()
		if after > 0 {
			if _, err := get(s.db, feedKey(after)); errors.Is(err, ErrNotFound) || after >= upper {
				return nil, ErrCursor
			} else if err != nil {
				return nil, err
			}
		}
		var ids []uint64
		var found []Announcement
		err := scan(s.db, feedKey(after+1), feedKey(max(upper, after+1)), func(key, value []byte) error {
			if len(found) >= limit {
				return errStop
			}
			id, state, ok := parseFeed(value)
			if !ok {
				return fmt.Errorf("feed key %x: %w", key, ErrCorrupt)
			}
			ids = append(ids, id)
			found = append(found, Announcement{Sequence: be.Uint64(key[1:]), State: state})
			return nil
		})
		for i, id := range ids {
			if err == nil {
				var e entryRow
				e, err = s.entryByID(id)
				found[i].Code = e.Code
			}
		}
		return found, err
	})
}

func parseFeed(value []byte) (id uint64, state State, ok bool) {
	if len(value) != 9 {
		return 0, 0, false
	}
	return be.Uint64(value), State(value[8]), true
}
