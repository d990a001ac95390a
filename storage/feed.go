package storage

import (
	"fmt"
	"math"
	"sync"
)

// Announcement is a change that a reader of Changes gets once, and in order.
type Announcement struct {
	Sequence uint64 // from 1, growing; gaps are possible
	Code     Code
	State    State // what the change led to
}

// feed gives out sequence numbers to announcements and wakes who waits for one.
type feed struct {
	ids
	mu   sync.Mutex
	next chan struct{} // closed at the next announcement
}

func newFeed(last uint64) *feed {
	return &feed{ids: ids{next: last + 1, busy: make(map[uint64]struct{})}, next: make(chan struct{})}
}

// ring says that a number is durable or will never be.
func (f *feed) ring(sequence uint64) {
	f.drop(sequence)
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.next)
	f.next = make(chan struct{})
}

// Announced returns a channel that is closed when there may be an announcement after those that Changes returns now.
func (s *Store) Announced() <-chan struct{} {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	return s.feed.next
}

// LastAnnounced is the greatest sequence number that Changes may have returned until now; 0 before the first.
func (s *Store) LastAnnounced() uint64 { return s.feed.floor() - 1 }

// Changes returns the announcements after a sequence number, in order, at most limit. They are durable, and no announcement
// will appear between them later. Therefore a reader that remembers the last number misses none and sees none twice.
func (s *Store) Changes(after uint64, limit int) ([]Announcement, error) {
	if err := s.enter(); err != nil {
		return nil, fmt.Errorf("reading changes: %w", err)
	}
	defer s.leave()
	if after == math.MaxUint64 {
		return nil, nil
	}
	upper := s.feed.floor()
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
	if err != nil {
		return nil, fmt.Errorf("reading changes: %w", err)
	}
	for i, id := range ids {
		e, err := s.entryByID(id)
		if err != nil {
			return nil, fmt.Errorf("reading changes: %w", err)
		}
		found[i].Code = e.Code
	}
	return found, nil
}

func feedValue(id uint64, state State) []byte {
	return append(be.AppendUint64(make([]byte, 0, 9), id), byte(state))
}

func parseFeed(value []byte) (id uint64, state State, ok bool) {
	if len(value) != 9 {
		return 0, 0, false
	}
	return be.Uint64(value), State(value[8]), true
}
