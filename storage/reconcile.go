package storage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Skip moves a series forward: the next number is To + 1, and those up to To that have no record are lost.
type Skip struct {
	Series string
	To     uint64
}

// Lost are numbers of a series that have no record, with the reason. The journal has a link for them.
type Lost struct {
	Series   string
	From, To uint64 // inclusive
	At       time.Time
	Reason   string
}

// lostRow is the row behind a link of opSkip, whose Entry is its digest: version u8 · from u64 · to u64 · reason.
type lostRow struct {
	From, To uint64
	Reason   string
}

func (r *lostRow) encode() []byte {
	b := be.AppendUint64(be.AppendUint64([]byte{rowVersion}, r.From), r.To)
	return append(b, r.Reason...)
}

func decodeLost(b []byte) (r lostRow, err error) {
	c := cursor{b: b}
	c.version()
	r.From, r.To = c.u64(), c.u64()
	r.Reason = string(c.b)
	c.b = nil
	return r, c.end("lost numbers")
}

// SkipTo moves a series to a number, durably; the numbers up to it have no records. It also works in a store that is not
// reconciled yet (see Restored). The journal keeps the lost numbers and the reason, at most 1000 bytes. If the series is there
// already, that is no error; a series never moves back.
func (s *Store) SkipTo(ctx context.Context, series string, number uint64, reason string) error {
	if err := s.enter(); err != nil {
		return fmt.Errorf("skipping numbers: %w", err)
	}
	defer s.leave()
	if err := s.skipTo(ctx, series, number, reason); err != nil {
		return fmt.Errorf("moving series %q to number %d: %w", series, number, err)
	}
	return nil
}

func (s *Store) skipTo(ctx context.Context, series string, number uint64, reason string) error {
	if err := s.sound(); err != nil {
		return err
	}
	if err := checkName("series", series); err != nil {
		return err
	}
	if len(reason) > 1000 || number > math.MaxInt64 {
		return errors.New("the reason has more than 1000 bytes, or the number more than 63 bits")
	}
	held, err := s.locks.acquire(ctx, lockOfSeries(series))
	if err != nil {
		return err
	}
	defer held.release()
	row, err := s.series(series)
	switch {
	case err != nil:
		return err
	case number < row.Last:
		return fmt.Errorf("it is at %d already", row.Last)
	case number == row.Last:
		return nil
	}
	b := s.newBatch(nil)
	lost := lostRow{From: row.Last + 1, To: number, Reason: reason}
	value := lost.encode()
	set(b, lostKey(row.Sequence, row.Position+1), value)
	row.Last = number
	s.link(b, series, &row, &link{Op: opSkip, Number: number, Entry: sha256.Sum256(value)})
	s.commit(b, &row, 0, func() {})
	s.mark.wait(row.Sequence, number)
	return nil
}

// AcceptMark is the plan that trusts the mark. Number n is acknowledged when the mark holds n-1. Therefore each series moves
// one number beyond its number in the mark. possible lists series that the branch may have used and the store does not have:
// they move one beyond the highest number that the mark holds without a name. AcceptMark fails if the mark is lost too.
func (r *Restoration) AcceptMark(possible []string) ([]Skip, error) {
	if r.MarkLost {
		return nil, errors.New("the mark was lost with the store: it does not tell what was spent after the backup")
	}
	return r.plan(possible, func(b Behind) uint64 { return max(b.Last, b.Marked, b.Known) + 1 }), nil
}

// TrustCopy is the plan that takes a second copy as complete: it was live until the end, and the mark, if there is one, knows
// no more. If the copy is damaged, each series continues after the numbers that the copy names and after those that its
// unreadable end may hold.
func (r *Restoration) TrustCopy(possible []string) []Skip {
	if r.Doubt == 0 && r.MarkLost {
		possible = nil
	}
	return r.plan(possible, func(b Behind) uint64 {
		if r.MarkLost {
			return max(b.Last, b.Known) + r.Doubt
		}
		return max(b.Last, b.Known, b.Marked) + 1
	})
}

// Advance is the plan that moves every series n numbers forward; n is larger than the count of numbers spent since the backup.
func (r *Restoration) Advance(n uint64, possible []string) []Skip {
	return r.plan(possible, func(b Behind) uint64 { return max(b.Last+n, b.Known+n, b.Marked+1) })
}

func (r *Restoration) plan(possible []string, to func(Behind) uint64) []Skip {
	var skips []Skip
	known := make(map[string]bool)
	for _, b := range r.Series {
		known[b.Series] = true
		skips = append(skips, Skip{b.Series, to(b)})
	}
	for _, name := range possible {
		if !known[name] {
			known[name] = true
			skips = append(skips, Skip{name, to(Behind{Marked: r.Begun})})
		}
	}
	return skips
}

// begun is the series under which Reconcile keeps Begun, so that the highest number of the mark never sinks.
const begun = "begun after the backup"

// Reconcile settles a restored store: it moves every series as the plan says, and the store issues from then on. The plan must
// name every series of the store, with a number that is not below the series' end and is above the mark's number. A series that
// the plan does not name begins at 1. Therefore the plan should also name series that may have begun after the backup.
//
// An interrupted attempt can be repeated; it may lose a few more numbers. ErrMissing if documents are missing and AcceptMissing
// was not called.
func (s *Store) Reconcile(ctx context.Context, plan []Skip, reason string) error {
	if err := s.enter(); err != nil {
		return fmt.Errorf("reconciling: %w", err)
	}
	defer s.leave()
	s.reconciling.Lock()
	defer s.reconciling.Unlock()
	r := s.Restored()
	if r == nil {
		return errors.New("reconciling: the store is not a restored one")
	}
	if len(r.Missing) > 0 && !s.accepted.Load() {
		return fmt.Errorf("reconciling: %w: the second copy lacked documents of %d series", ErrMissing, len(r.Missing))
	}
	to := make(map[string]uint64)
	for _, k := range plan {
		to[k.Series] = max(to[k.Series], k.To)
	}
	var faults []error
	for _, b := range r.Series {
		least := max(b.Last, b.Known) + r.Doubt
		if !r.MarkLost {
			least = max(b.Last, b.Marked, b.Known) + 1
		}
		if to[b.Series] < least {
			faults = append(faults, fmt.Errorf("series %q must move to %d or further", b.Series, least))
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("reconciling: %w", errors.Join(faults...))
	}
	if r.Begun > to[begun] {
		to[begun] = r.Begun
	}
	for _, series := range slices.Sorted(maps.Keys(to)) {
		if err := s.skipTo(ctx, series, to[series], reason); err != nil {
			return fmt.Errorf("reconciling: moving series %q to %d: %w", series, to[series], err)
		}
	}
	if err := s.finishReconcile(); err != nil {
		return fmt.Errorf("reconciling: %w", err)
	}
	return nil
}

// finishReconcile makes the mark this store's own and ends the restoration. If we crash in between, the mark says what the store
// holds, and all of it is repeated.
func (s *Store) finishReconcile() error {
	series, err := readAllSeries(s.db)
	if err != nil {
		return err
	}
	id, err := get(s.db, keyStore)
	if err != nil || len(id) != 16 {
		return fmt.Errorf("reading the store's identity: %w", errors.Join(ErrCorrupt, err))
	}
	s.mark.renew([16]byte(id), series)
	if err := s.endRestoration(); err != nil {
		s.o.die("ending restoration: %v", err)
	}
	s.restored.Store(nil)
	return nil
}

// AcceptMissing lets Reconcile continue although documents are missing: a person has seen the list. It is valid until Close.
func (s *Store) AcceptMissing() { s.accepted.Store(true) }
