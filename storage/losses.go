package storage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// This file settles a store that was rebuilt from other media, or that knows less than a Witness. Until then, the store
// gives no numbers, unless only a Witness outside of the box knows more.

// Restoration is a row of a store that was rebuilt from other media. While the row exists, the store gives no numbers;
// Settle deletes the row. The row is JSON.
type Restoration struct {
	Taken    int64    `json:"taken"` // Unix ns; see TakenAt
	At       int64    `json:"at"`    // Unix ns, when the store was made
	Made     string   `json:"made"`  // what the store was made from, in words
	MarkLost bool     `json:"mark_lost,omitempty"`
	From     [16]byte `json:"from"` // the identity of the store that this store was made from
	// Doubt is the largest number of changes that may be missing after the readable end of the copy, or of the mark.
	Doubt uint64 `json:"doubt,omitempty"`
	Known []Lead `json:"known,omitempty"` // the series whose end is missing
	Lacks string `json:"lacks,omitempty"` // what the copy lacks, in words; see Sources
}

// TakenAt returns the time before which nothing is missing.
func (r *Restoration) TakenAt() time.Time { return time.Unix(0, r.Taken).UTC() }

// A store's identity is 8 bytes that never change and 8 bytes that change with each restoration. A mark of the same
// family (equal first 8 bytes) shows how far the numbers got; the sequence ids of the series are equal only if the
// whole identity is equal.
func sameFamily(a, b [16]byte) bool { return [8]byte(a[:8]) == [8]byte(b[:8]) }

// beRestored gives a store a new identity and stops numbering until the store is settled. former names the stores that
// this store was made from.
func beRestored(db *pebble.DB, id []byte, row Restoration, former ...[16]byte) error {
	b := db.NewBatch()
	return errors.Join(addFormer(b, db, append(former, row.From)...), newIdentity(b, db, id),
		b.Delete(keyRead, nil), // the last ReadDaily may have read another medium
		setJSON(b, keyRestored, row, nil), setWitnesses(b, db, inBox, nil, nil), b.Commit(pebble.Sync))
}

// Owed is what must be settled before a store gives numbers again; see Settle.
type Owed struct {
	Since    time.Time // documents issued after this time may be missing
	Made     string    // what the store was rebuilt from, in words; empty: not rebuilt
	MarkLost bool      // the mark is lost: nothing bounds the last numbers
	Why      []string  // why documents or changes may be missing, in sentences
	Series   []Next
	Missing  []Missing // missing in every source
}

type Next struct {
	Series string
	Here   uint64 // last number in the store
	Known  uint64 // the highest number that any medium knows
	To     uint64 // Settle moves the series to at least To; the next number is To + 1
	Open   bool   // nothing bounds the last number: a person must name it
	lost   []Span // numbers whose document is missing everywhere, whole or in part
	// changes: changes of existing documents are missing everywhere.
	changes bool
}

// Loss is a loss in one series that a person accepts. Without Numbers, only changes of documents are lost.
type Loss struct {
	Series  string
	Numbers []Span
}

// Lost returns the loss in a series that a person must accept, in the form of ParseLoss; empty: no loss. N stands for
// an unknown last number.
func (n Next) Lost() string {
	var words []string
	for _, s := range n.lost {
		if s.From == s.To {
			words = append(words, fmt.Sprint(s.From))
			continue
		}
		words = append(words, fmt.Sprintf("%d-%d", s.From, s.To))
	}
	switch {
	case n.Open && n.Known > n.Here:
		words[len(words)-1] = fmt.Sprintf("%d-N", n.lost[len(n.lost)-1].From)
	case n.Open:
		words = append(words, fmt.Sprintf("%d-N", n.Here+1))
	case words == nil && n.changes:
		words = []string{NoNumbers}
	}
	if words == nil {
		return ""
	}
	return n.Series + ": " + strings.Join(words, ", ")
}

// Whole returns the complete known loss of a series.
func (n Next) Whole() Loss { return Loss{n.Series, slices.Clone(n.lost)} }

const (
	// NoNumbers, in the text of a Loss, stands for no numbers.
	NoNumbers = "none"
	// Others, in the text of a Loss, stands for the series that may have begun although no medium knows them.
	Others = "others"
)

// ParseLoss reads "SERIES: 17-19, 25" or "SERIES: none".
func ParseLoss(text string) (l Loss, err error) {
	series, rest, ok := strings.Cut(text, ":")
	l.Series = strings.TrimSpace(series)
	bad := fmt.Errorf("%q is not of the form \"SERIES: 17-19, 25\" or \"SERIES: %s\"", text, NoNumbers)
	if !ok || l.Series == "" {
		return l, bad
	}
	if strings.TrimSpace(rest) == NoNumbers {
		return l, nil
	}
	for word := range strings.SplitSeq(rest, ",") {
		first, last, span := strings.Cut(strings.TrimSpace(word), "-")
		if !span {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 63)
		to, wrong := strconv.ParseUint(last, 10, 63)
		if err != nil || wrong != nil || from == 0 || from > to {
			return l, bad
		}
		l.Numbers = append(l.Numbers, Span{from, to})
	}
	return l, nil
}

// accepts reports whether a loss names every lost number of a series.
func (l Loss) accepts(n Next) bool {
	named := slices.SortedFunc(slices.Values(l.Numbers), Span.compare)
	return !slices.ContainsFunc(n.lost, func(s Span) bool { return len(s.without(named)) > 0 })
}

// to returns the highest number that a loss names.
func (l Loss) to() (n uint64) {
	for _, s := range l.Numbers {
		n = max(n, s.To)
	}
	return n
}

// Possible returns the series that may have begun since a time.
type Possible func(since time.Time) []string

// owed compares a store with every source that knows more of its history. behind are the media of the box that know
// more; mark is nil if the mark cannot be read. The result is nil if nothing must be settled.
func owed(r pebble.Reader, row *Restoration, behind []Witness, mark *Head, possible Possible) (*Owed, error) {
	witnesses, err := readJSON[[]Witness](r, keyBehind)
	if err != nil {
		return nil, err
	}
	if witnesses = append(slices.DeleteFunc(witnesses, inBox), behind...); row == nil && len(witnesses) == 0 {
		return nil, nil
	}
	series, err := readAllSeries(r)
	h, bad := readHoles(r)
	if err = errors.Join(err, bad); err != nil {
		return nil, err
	}
	here := storeHead([16]byte{}, r, series)
	heads := []*Head{here}
	o := &Owed{}
	changes := make(map[string]bool)
	if row != nil {
		o.Since, o.Made, o.MarkLost, here.Slack = row.TakenAt(), row.Made, row.MarkLost, row.Doubt
		o.Missing = h.missing(series, row.Known)
		if row.Lacks != "" {
			o.Why = append(o.Why, "the copy is not complete: "+row.Lacks)
		}
		if row.Doubt > 0 {
			o.Why = append(o.Why,
				fmt.Sprintf("the end of the copy or of the mark cannot be read: up to %d changes may have been there",
					row.Doubt))
		}
		last := make(map[string]uint64)
		for _, k := range row.Known {
			last[k.Series] = k.There
		}
		heads = append(heads, numbersHead([16]byte{}, last, 0))
		if mark != nil {
			found := *mark
			if row.MarkLost { // the mark was lost or is old: its numbers count, but bound nothing
				found.Slack = 0
			}
			heads = append(heads, &found)
		}
	} else if o.Since, err = lastMoment(r); err != nil {
		return nil, err
	}
	for _, w := range witnesses {
		o.Why = append(o.Why, w.String())
		last, slack := make(map[string]uint64), uint64(1)
		if w.Outside {
			slack = 0
		}
		for _, a := range w.Series {
			last[a.Series] = max(a.Here, a.There)
			changes[a.Series] = changes[a.Series] || a.Changes > 0 || w.Diverged
		}
		o.MarkLost = o.MarkLost || w.endless()
		heads = append(heads, numbersHead([16]byte{}, last, slack))
	}
	var begun []string
	if possible != nil && (row != nil || slices.ContainsFunc(witnesses,
		func(w Witness) bool { return w.Medium != WitnessCopy })) {
		begun = possible(o.Since)
	}
	lost := make(map[string]Missing)
	for _, m := range o.Missing {
		lost[m.Series] = m
	}
	known, slack := Plan(begun, heads...)
	unknown := false
	for _, name := range slices.Sorted(maps.Keys(known)) {
		n := Next{Series: name, Here: series[name].Last, Known: known[name], To: known[name] + slack}
		_, there := series[name]
		n.Open = (o.MarkLost || row != nil && row.Lacks != "") && (there || n.Known > 0)
		for _, s := range lost[name].Numbers {
			if s.From <= n.Here {
				n.lost = append(n.lost, s)
			}
		}
		n.lost = append(n.lost, lost[name].Partial...)
		slices.SortFunc(n.lost, Span.compare)
		if n.Known > n.Here {
			n.lost = append(n.lost, Span{n.Here + 1, n.Known})
		}
		n.changes = lost[name].Changes > 0 || changes[name]
		unknown = unknown || !there && n.Known == 0
		o.Series = append(o.Series, n)
	}
	if unknown && (o.MarkLost || row != nil && row.Lacks != "") {
		o.Series = append(o.Series, Next{Series: Others, Open: true})
	}
	return o, nil
}

// Owed returns what must be settled before the store can give numbers again, nil if nothing. possible may be nil.
// Error: ErrClosed.
func (s *Store) Owed(possible Possible) (*Owed, error) {
	return use(s, "reading what is owed", func() (*Owed, error) { return s.owed(possible) })
}

func (s *Store) owed(possible Possible) (*Owed, error) {
	row, err := readJSON[*Restoration](s.db, keyRestored)
	if err != nil {
		return nil, err
	}
	behind := s.Behind()
	mark, _ := readMark(s.o.FS, s.o.MarkPath, false)                 // nil if it cannot be read
	if s.mark == nil && mark != nil && row == nil && behind == nil { // read-only: Open has not compared mark and store
		j, err := newMarkJudge(s.db)
		if err != nil {
			return nil, err
		}
		if state := j.look(s.o.FS, s.o.MarkPath); state.Ahead != nil {
			behind = []Witness{*state.Ahead}
		}
	}
	return owed(s.db, row, behind, mark, possible)
}

// Settle moves every series to the highest number that any medium knows, or above; then the store gives numbers again.
// losses must name every lost number. If nothing bounds a series (Next.Open), losses must also have its last number, or
// an entry without numbers if none is lost. Settle also moves a series that only a loss names.
//
// If a medium of the box knows more than the store, the store gets a new identity; its second copy is then set aside
// and begun again. An interrupted Settle can be repeated; this may lose a few more numbers. ErrMissing lists the losses
// not named.
func (s *Store) Settle(ctx context.Context, possible Possible, losses []Loss, reason string) (*Owed, error) {
	return use(s, "settling", func() (*Owed, error) {
		s.reconciling.Lock()
		defer s.reconciling.Unlock()
		o, err := s.owed(possible)
		if err == nil && o == nil {
			err = errors.New("there is nothing to settle")
		}
		if err == nil {
			err = s.settle(ctx, o, losses, reason)
		}
		return o, err
	})
}

// Accept records in o the losses that a person accepts. It returns the losses of o that are not accepted, in
// ParseLoss's form.
func (o *Owed) Accept(losses []Loss) (rest []string) {
	by := make(map[string]Loss)
	for _, l := range losses {
		by[l.Series] = Loss{l.Series, append(by[l.Series].Numbers, l.Numbers...)}
	}
	others := by[Others].to()
	for i := range o.Series {
		n := &o.Series[i]
		l, named := by[n.Series]
		if n.Lost() != "" && (!named || !l.accepts(*n)) {
			rest = append(rest, n.Lost())
		}
		if n.To = max(n.To, l.to()); n.Here == 0 && n.Known == 0 {
			n.To = max(n.To, others)
		}
		delete(by, n.Series)
	}
	delete(by, Others)
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if to := by[name].to(); to > 0 {
			o.Series = append(o.Series, Next{Series: name, To: to})
		}
	}
	return rest
}

func (s *Store) settle(ctx context.Context, o *Owed, losses []Loss, reason string) error {
	if rest := o.Accept(losses); len(rest) > 0 {
		return fmt.Errorf("%w: %s", ErrMissing, strings.Join(rest, "; "))
	}
	lastChange, err := latestChange(s.db)
	if err != nil {
		return err
	}
	for _, n := range o.Series {
		if n.Series == Others {
			continue
		}
		row, err := s.series(n.Series)
		if err == nil && n.To > row.Last {
			err = s.skipTo(ctx, n.Series, n.To, reason)
		}
		if err != nil {
			return fmt.Errorf("moving series %q to %d: %w", n.Series, n.To, err)
		}
	}
	for _, n := range o.Series { // after all moves: if we crash, a remaining witness makes Settle ask for every series
		if err := s.release(n.Series, n.To); err != nil {
			return err
		}
	}
	row, err := readJSON[*Restoration](s.db, keyRestored)
	if err != nil || row == nil && s.Behind() == nil {
		return err // if err is nil, only witnesses outside of the box know more: they have no history to settle
	}
	id, err := identity(s.db)
	series, bad := readAllSeries(s.db)
	if err = errors.Join(err, bad); err != nil {
		return err
	}
	b := s.db.NewBatch()
	gap := Gap{lastChange, s.o.Now().UTC()} // the other medium may have continued until now
	settled, bad := readJSON[[]Lead](s.db, keySettled)
	var former [][16]byte
	for _, w := range s.Behind() {
		if settled = append(settled, w.Series...); w.Store != id {
			former = append(former, w.Store)
		}
	}
	if row != nil {
		settled = append(settled, row.Known...)
		gap = Gap{row.TakenAt(), time.Unix(0, row.At).UTC()}
	} else {
		former = append(former, id)
		err = newIdentity(b, s.db, id[:])
	}
	if err = errors.Join(err, bad, appendGap(b, s.db, gap), addFormer(b, s.db, former...),
		setJSON(b, keySettled, settled[max(0, len(settled)-maxSettled):], nil)); err != nil {
		return errors.Join(err, b.Close())
	}
	s.o.dieOn(b.Commit(pebble.Sync), "settling the store")
	// If we crash from here on, the mark is of the store's family, and the next Settle repeats every step.
	s.mark.renew(id, series)
	s.holding.Lock()
	defer s.holding.Unlock()
	b = s.db.NewBatch()
	s.o.dieOn(errors.Join(b.Delete(keyRestored, nil), setWitnesses(b, s.db, inBox, nil, nil), b.Commit(pebble.Sync)),
		"settling the store")
	s.behind.Store(nil)
	s.restored.Store(nil)
	return nil
}

// Restored returns how this store was rebuilt; nil if it was not, or is settled. The caller must not change the result.
func (s *Store) Restored() *Restoration { return s.restored.Load() }

// Lost are numbers of a series without records, and the reason. The journal has a link for them.
type Lost struct {
	Series   string
	From, To uint64 // inclusive
	At       time.Time
	Reason   string
}

// SkipTo moves a series to a number, durably. The skipped numbers, this number included, have no records. SkipTo works
// even in a store that is not settled (see Restored). The journal keeps the lost numbers and the reason (at most 1000
// bytes). If the series is already at the number, SkipTo changes nothing; if it is beyond, SkipTo returns an error.
func (s *Store) SkipTo(ctx context.Context, series string, number uint64, reason string) error {
	return s.do("moving series", func() error { return s.skipTo(ctx, series, number, reason) })
}

func (s *Store) skipTo(ctx context.Context, series string, number uint64, reason string) error {
	if err := errors.Join(s.sound(), checkName("series", series)); err != nil {
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
		return fmt.Errorf("%q is at %d already, after %d", series, row.Last, number)
	case number == row.Last:
		return nil
	}
	b := s.newBatch(nil)
	lost := lostRow{Numbers: Span{row.Last + 1, number}, Reason: reason}
	value := lost.encode()
	set(b, lostKey(row.Sequence, row.Position+1), value)
	row.Last = number
	s.link(b, series, &row, &link{Op: opSkip, Number: number, Entry: sha256.Sum256(value)})
	s.commit(b, &row, 0, func() {})
	s.mark.wait(series, number)
	return nil
}

// Gap is a period that the store has lost: at the time To, the store was put back to its state at the time From. The
// changes between them (documents sealed, numbers spent) are missing.
type Gap struct{ From, To time.Time }

// maxGaps is how many gaps are kept, the latest ones.
const maxGaps = 64

// maxSettled is how many ends of series on other media are kept, the latest ones.
const maxSettled = 256

// Gaps returns the periods that this store has lost, the oldest first.
func (s *Store) Gaps() ([]Gap, error) {
	return use(s, "reading restorations", func() ([]Gap, error) { return readJSON[[]Gap](s.db, keyGaps) })
}

func appendGap(b *pebble.Batch, r pebble.Reader, g Gap) error {
	gaps, err := readJSON[[]Gap](r, keyGaps)
	if !slices.Contains(gaps, g) { // otherwise an interrupted Settle has noted it
		gaps = append(gaps, g)
	}
	return errors.Join(err, setJSON(b, keyGaps, gaps[max(0, len(gaps)-maxGaps):], nil))
}
