package storage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
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
		return s.release(series, number)
	}
	b := s.newBatch(nil)
	lost := lostRow{From: row.Last + 1, To: number, Reason: reason}
	value := lost.encode()
	set(b, lostKey(row.Sequence, row.Position+1), value)
	row.Last = number
	s.link(b, series, &row, &link{Op: opSkip, Number: number, Entry: sha256.Sum256(value)})
	s.commit(b, &row, 0, func() {})
	s.mark.wait(row.Sequence, number)
	return s.release(series, number) // if we crash before, it is skipped to once more
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
	if (len(r.Missing) > 0 || r.Lacks != "") && !s.accepted.Load() {
		return fmt.Errorf("reconciling: %w: the second copy lacked documents of %d series; %s", ErrMissing, len(r.Missing), cmp.Or(r.Lacks, "no other source knows of more"))
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

// Missing is what a damaged second copy lacks of a series. The series continues after the highest number that the rest of the
// copy names. Therefore no number is used twice.
type Missing struct {
	Series  string
	Numbers []Span   // of which nothing is there
	Partial []uint64 // numbers whose record lacks some of its parts or of its changes
	Changes uint64   // changes that are lost, those that made the numbers above included
}

// Span are numbers from one to another, both included.
type Span struct{ From, To uint64 }

func (m Missing) String() string {
	var lost, words []string
	for _, n := range m.Numbers {
		if n.From == n.To {
			lost = append(lost, fmt.Sprintf("number %d is missing", n.From))
			continue
		}
		lost = append(lost, fmt.Sprintf("numbers %d to %d are missing", n.From, n.To))
	}
	for _, n := range m.Partial {
		lost = append(lost, fmt.Sprintf("number %d is not whole", n))
	}
	if len(lost) > 0 {
		words = append(words, strings.Join(lost, ", "))
	}
	if m.Changes == 1 {
		words = append(words, "1 change lost")
	} else if m.Changes > 0 {
		words = append(words, fmt.Sprintf("%d changes lost", m.Changes))
	}
	return m.Series + ": " + strings.Join(words, "; ")
}

// holeRow says, in the table of lost numbers, that links of a series' journal are missing from its key's position on:
//
//	version 2 · to u64, position · hash [32] of that link · numbers from u64, to u64 (0: none) · reason
type holeRow struct {
	From, To uint64 // positions
	Hash     [32]byte
	Numbers  Span
	Reason   string
}

// partialRow says, at position 0, which records of a series are not whole: version 3 · n × (id u64, number u64).
type partialRow []partialRecord

type partialRecord struct{ ID, Number uint64 }

const (
	holeVersion    = 2
	partialVersion = 3
)

func (g *holeRow) encode() []byte {
	b := append(be.AppendUint64([]byte{holeVersion}, g.To), g.Hash[:]...)
	return append(be.AppendUint64(be.AppendUint64(b, g.Numbers.From), g.Numbers.To), g.Reason...)
}

func decodeHole(from uint64, b []byte) (g holeRow, err error) {
	c := cursor{b: b}
	c.bad = c.u8() != holeVersion
	g.From, g.To = from, c.u64()
	copy(g.Hash[:], c.take(32))
	g.Numbers = Span{c.u64(), c.u64()}
	g.Reason = string(c.b)
	c.b = nil
	return g, c.end("hole")
}

func (p partialRow) encode() []byte {
	b := []byte{partialVersion}
	for _, r := range p {
		b = be.AppendUint64(be.AppendUint64(b, r.ID), r.Number)
	}
	return b
}

func decodePartial(b []byte) (p partialRow, err error) {
	c := cursor{b: b}
	c.bad = c.u8() != partialVersion
	for len(c.b) > 0 && !c.bad {
		p = append(p, partialRecord{c.u64(), c.u64()})
	}
	return p, c.end("partial records")
}

// holes are all rows of both kinds in a store; none in one that was never rebuilt from a damaged copy.
type holes struct {
	at      map[uint32]map[uint64]holeRow // by sequence and first position
	partial map[uint64]bool               // records, by id
	numbers map[uint32][]uint64           // of these, by sequence
}

func readHoles(r pebble.Reader) (*holes, error) {
	g := &holes{at: make(map[uint32]map[uint64]holeRow), partial: make(map[uint64]bool), numbers: make(map[uint32][]uint64)}
	err := scan(r, []byte{tableLost}, []byte{tableLost + 1}, func(key, value []byte) error {
		if len(key) != 13 || len(value) == 0 || value[0] == rowVersion {
			return nil
		}
		sequence, position := be.Uint32(key[1:]), be.Uint64(key[5:])
		if position == 0 {
			list, err := decodePartial(value)
			for _, p := range list {
				g.partial[p.ID] = true
				g.numbers[sequence] = append(g.numbers[sequence], p.Number)
			}
			return err
		}
		row, err := decodeHole(position, value)
		if g.at[sequence] == nil {
			g.at[sequence] = make(map[uint64]holeRow)
		}
		g.at[sequence][position] = row
		return err
	})
	return g, err
}

// known tells whether a row of the table is of these kinds.
func (h *holes) known(sequence uint32, position uint64) bool {
	_, ok := h.at[sequence][position]
	return ok || position == 0 && h.numbers[sequence] != nil
}

// missing tells it by series; known is how far the copy says that series got whose end is lost.
func (g *holes) missing(series map[string]seriesRow, known []knownSeries) (list []Missing) {
	ends := make(map[string]knownSeries)
	for _, k := range known {
		ends[k.Name] = k
	}
	names := slices.Sorted(maps.Keys(series))
	for _, k := range known {
		if _, ok := series[k.Name]; !ok {
			names = append(names, k.Name)
		}
	}
	for _, name := range names {
		row := series[name]
		m := Missing{Series: name, Partial: slices.Sorted(slices.Values(g.numbers[row.Sequence]))}
		for _, from := range slices.Sorted(maps.Keys(g.at[row.Sequence])) {
			hole := g.at[row.Sequence][from]
			m.Changes += hole.To - hole.From + 1
			m.Numbers = append(m.Numbers, hole.Numbers.without(m.Partial)...)
		}
		if k, ok := ends[name]; ok {
			m.Changes += k.Changes
			m.Numbers = append(m.Numbers, Span{row.Last + 1, k.Last}.without(m.Partial)...)
		}
		if m.Changes > 0 || len(m.Partial) > 0 {
			list = append(list, m)
		}
	}
	return list
}

// without returns the rest of the numbers when some, in order, are taken out.
func (n Span) without(out []uint64) (rest []Span) {
	if n.From == 0 {
		return nil
	}
	for _, o := range out {
		if o >= n.From && o <= n.To {
			if o > n.From {
				rest = append(rest, Span{n.From, o - 1})
			}
			n.From = o + 1
		}
	}
	if n.From <= n.To {
		rest = append(rest, n)
	}
	return rest
}

// knownSeries is a series whose end a copy lacks: its last number, and the changes behind the end that is there.
type knownSeries struct {
	Name          string
	Last, Changes uint64
}
