package storage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dtegate/storage/disktest"
)

// modelRecord is a record as plain Go values.
type modelRecord struct {
	entry Entry
	parts map[string]string
}

// model is what the store should be: maps and loops, nothing clever. It crashes between calls, when everything that it
// holds has been acknowledged.
type model struct {
	t        *testing.T
	fs       *disktest.Disk
	s        *Store
	records  map[Code]*modelRecord
	last     map[string]uint64
	keys     map[[32]byte]Code
	counters map[Counter]int64 // by Origin and Line, Value 0
	lastID   uint64
	next     uint64
}

func (m *model) pick(r *rapid.T) Code {
	if len(m.records) == 0 {
		return code(1 << 40)
	}
	codes := slices.SortedFunc(maps.Keys(m.records), func(a, b Code) int {
		return cmp.Compare(m.records[a].entry.ID,
			m.records[b].entry.ID)
	})
	if rapid.IntRange(0, 9).Draw(r, "unknown") == 0 {
		return code(1 << 40)
	}
	return rapid.SampledFrom(codes).Draw(r, "code")
}

var (
	seriesNames = rapid.SampledFrom([]string{"a", "b", "\x00", "a\x00", "ñandú"})
	queues      = rapid.SampledFrom([]string{"settle", "report", "s"})
	seconds     = rapid.Int64Range(-3, 20)
	days        = rapid.SliceOfNDistinct(rapid.Uint32Range(0, 4), 0, 2, rapid.ID[uint32])
	contents    = rapid.SliceOfN(rapid.Byte(), 0, 40)
)

func drawDue(r *rapid.T) *Due {
	if rapid.Bool().Draw(r, "due") {
		return &Due{queues.Draw(r, "queue"), time.Unix(seconds.Draw(r, "at"), 0)}
	}
	return nil
}

func drawParts(r *rapid.T) (parts []Part) {
	for i := range rapid.IntRange(0, 2).Draw(r, "parts") {
		name := fmt.Sprint(rapid.SampledFrom([]string{"form", "answer", "\x00", "z"}).Draw(r, "part"), i)
		parts = append(parts, Part{name, contents.Draw(r, "data")})
	}
	return parts
}

func (m *model) Append(r *rapid.T) {
	keys := Keys{Series: seriesNames.Draw(r, "series")}
	if rapid.Bool().Draw(r, "keyed") {
		keys.Idempotency = idem(rapid.Uint64Range(0, 30).Draw(r, "key"))
	}
	m.next++
	d := Draft{Code: code(m.next), State: State(rapid.IntRange(0, 3).Draw(r, "state")), Head: contents.Draw(r, "head"),
		Parts: drawParts(r), Due: drawDue(r), Days: days.Draw(r, "days")}
	if rapid.IntRange(0, 7).Draw(r, "old code") == 0 {
		d.Code = m.pick(r)
	}
	if origin := m.pick(r); rapid.Bool().Draw(r, "draws on") && origin != d.Code {
		keys.Origins = []Code{origin}
		d.Counters = []Counter{{origin, uint32(rapid.IntRange(0, 2).Draw(r, "line")), rapid.Int64().Draw(r, "value")}}
	}
	var buildErr error
	if rapid.IntRange(0, 5).Draw(r, "refuse") == 0 {
		buildErr = errRefused
	}
	var want error
	switch {
	case keys.Idempotency != nil && m.keys[keys.Idempotency.Key] != (Code{}):
		want = ErrKeyTaken
	case buildErr != nil:
		want = buildErr
	case m.records[d.Code] != nil:
		want = ErrCodeTaken
	}
	built := Slot{}
	e, err := m.s.build(ctx, keys, func(slot Slot) (Draft, error) {
		built = slot
		if slot.Number != m.last[keys.Series]+1 || slot.ID <= m.lastID {
			r.Fatalf("slot %+v after number %d, id %d", slot, m.last[keys.Series], m.lastID)
		}
		return d, buildErr
	})
	if !errors.Is(err, want) {
		r.Fatalf("got %v, want %v", err, want)
	}
	if want != nil {
		return
	}
	m.last[keys.Series]++
	m.lastID = e.ID
	rec := &modelRecord{parts: make(map[string]string), entry: Entry{Code: d.Code, ID: built.ID, Number: built.Number,
		SequenceID: built.SequenceID, Series: keys.Series, State: d.State, Revision: 1, Head: d.Head, Due: d.Due,
		Days: d.Days}}
	for _, p := range d.Parts {
		rec.parts[p.Name] = string(p.Data)
	}
	m.records[d.Code] = rec
	if keys.Idempotency != nil {
		m.keys[keys.Idempotency.Key] = d.Code
	}
	for _, c := range d.Counters {
		m.counters[Counter{c.Origin, c.Line, 0}] = c.Value
	}
	m.same(r, e, rec)
}

func (m *model) Advance(r *rapid.T) {
	c := m.pick(r)
	from := State(rapid.IntRange(0, 3).Draw(r, "from"))
	rec := m.records[c]
	if rec != nil && rapid.Bool().Draw(r, "right") {
		from = rec.entry.State
	}
	change := Change{To: State(rapid.IntRange(0, 3).Draw(r, "to")), Parts: drawParts(r), Due: drawDue(r),
		Days: days.Draw(r, "days")}
	if rapid.Bool().Draw(r, "with head") {
		change.Head = contents.Draw(r, "head")
	}
	overflow := false
	if rapid.Bool().Draw(r, "gives back") {
		n := Counter{m.pick(r), uint32(rapid.IntRange(0, 2).Draw(r, "line")), rapid.Int64().Draw(r, "difference")}
		change.Counters = []Counter{n}
		have := m.counters[Counter{n.Origin, n.Line, 0}]
		sum := new(big.Int).Add(big.NewInt(have), big.NewInt(n.Value))
		overflow = !sum.IsInt64()
	}
	e, err := m.s.Advance(ctx, c, from, change)
	var conflict *ConflictError
	switch {
	case rec == nil:
		if !errors.Is(err, ErrNotFound) {
			r.Fatalf("an unknown record: %v", err)
		}
		return
	case rec.entry.State != from:
		if !errors.As(err, &conflict) || conflict.Have != rec.entry.State {
			r.Fatalf("from the wrong state: %v", err)
		}
		return
	}
	for _, p := range change.Parts {
		if _, there := rec.parts[p.Name]; there {
			if !errors.Is(err, ErrPartExists) {
				r.Fatalf("part %q again: %v", p.Name, err)
			}
			return
		}
	}
	if (err != nil) != overflow {
		r.Fatalf("counters %v: %v", change.Counters, err)
	}
	if overflow {
		return
	}
	for _, n := range change.Counters {
		m.counters[Counter{n.Origin, n.Line, 0}] += n.Value
	}
	rec.entry.State, rec.entry.Due = change.To, change.Due
	rec.entry.Revision++
	if change.Head != nil {
		rec.entry.Head = change.Head
	}
	for _, day := range change.Days {
		if !slices.Contains(rec.entry.Days, day) {
			rec.entry.Days = append(rec.entry.Days, day)
		}
	}
	for _, p := range change.Parts {
		rec.parts[p.Name] = string(p.Data)
	}
	m.same(r, e, rec)
}

// Crash loses whatever is not synced, which must be nothing.
func (m *model) Crash(r *rapid.T) {
	percent := rapid.SampledFrom([]int{0, 50, 100}).Draw(r, "unsynced")
	disk := m.fs.Crash(percent, newRand(rapid.Uint64().Draw(r, "seed")))
	if err := m.s.Close(); err != nil {
		r.Fatal(err)
	}
	m.fs = disk
	m.open(r)
}

func (m *model) Reopen(r *rapid.T) {
	if err := m.s.Close(); err != nil {
		r.Fatal(err)
	}
	m.open(r)
}

func (m *model) open(r *rapid.T) {
	var err error
	if m.s, err = Open(options(m.fs)); err != nil {
		r.Fatal(err)
	}
}

func (m *model) Due(r *rapid.T) {
	queue, before := queues.Draw(r, "queue"), time.Unix(seconds.Draw(r, "before"), 0)
	got, err := m.s.Due(queue, before, 1000)
	if err != nil {
		r.Fatal(err)
	}
	want := 0
	for _, rec := range m.records {
		if d := rec.entry.Due; d != nil && d.Queue == queue && !d.At.After(before) {
			want++
		}
	}
	if len(got) != want {
		r.Fatalf("%d are due in %q, want %d", len(got), queue, want)
	}
	for i, e := range got {
		m.same(r, e, m.records[e.Code])
		if i > 0 && e.Due.At.Before(got[i-1].Due.At) {
			r.Fatal("due out of order")
		}
	}
}

// Check runs after every action, in full now and then.
func (m *model) check(r *rapid.T) {
	for c, rec := range m.records {
		e, err := m.s.Get(c)
		if err != nil {
			r.Fatal(err)
		}
		m.same(r, e, rec)
	}
	for key, want := range m.keys {
		if c, _, err := m.s.Lookup(key); err != nil || c != want {
			r.Fatalf("key leads to %X, %v", c, err)
		}
	}
	for c, want := range m.counters {
		if v, err := m.s.Counter(c.Origin, c.Line); err != nil || v != want {
			r.Fatalf("counter %d, want %d, %v", v, want, err)
		}
	}
	id, count := uint64(0), 0
	var all []Entry
	err := m.s.Records(0, func(e Entry) error {
		if e.ID <= id {
			r.Fatal("records out of order")
		}
		id = e.ID
		count++
		all = append(all, e)
		m.same(r, e, m.records[e.Code])
		return nil
	})
	if err != nil || count != len(m.records) {
		r.Fatalf("%d records, want %d, %v", count, len(m.records), err)
	}
	for day := range uint32(5) {
		var want, got []uint64
		for _, e := range all {
			if slices.Contains(m.records[e.Code].entry.Days, day) {
				want = append(want, e.ID)
			}
		}
		limit := 1 + int(day)
		for after := uint64(0); ; {
			page, err := m.s.Day(day, after, limit)
			if err != nil || len(page) > limit {
				r.Fatalf("%d records of a day, at most %d: %v", len(page), limit, err)
			}
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				m.same(r, e, m.records[e.Code])
				got, after = append(got, e.ID), e.ID
			}
		}
		if !slices.Equal(got, want) {
			r.Fatalf("day %d has %v, want %v", day, got, want)
		}
	}
	slices.Reverse(all[len(all)/2:]) // in order, and not
	lists, err := m.s.PartsOf(all)
	if err != nil || len(lists) != len(all) {
		r.Fatalf("parts of %d records, want %d, %v", len(lists), len(all), err)
	}
	for i, e := range all {
		m.sameParts(r, lists[i], m.records[e.Code])
	}
}

func (m *model) same(r *rapid.T, got Entry, rec *modelRecord) {
	r.Helper()
	want := rec.entry
	due := got.Due == nil && want.Due == nil || got.Due != nil && want.Due != nil && got.Due.Queue == want.Due.Queue &&
		got.Due.At.Equal(want.Due.At)
	if got.Code != want.Code || got.ID != want.ID || got.Number != want.Number || got.SequenceID != want.SequenceID ||
		got.Series != want.Series || got.State != want.State || got.Revision != want.Revision ||
		!bytes.Equal(got.Head, want.Head) || !slices.Equal(got.Days, want.Days) || !due {
		r.Fatalf("got %+v, want %+v", got, want)
	}
	parts, err := m.s.Parts(got.Code)
	if err != nil {
		r.Fatal(err)
	}
	m.sameParts(r, parts, rec)
}

func (m *model) sameParts(r *rapid.T, parts []Part, rec *modelRecord) {
	r.Helper()
	if len(parts) != len(rec.parts) {
		r.Fatalf("%d parts, want %d", len(parts), len(rec.parts))
	}
	for _, p := range parts {
		if rec.parts[p.Name] != string(p.Data) {
			r.Fatalf("part %q is %x", p.Name, p.Data)
		}
	}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := &model{t: t, fs: disktest.New(disktest.Strict), records: make(map[Code]*modelRecord),
			last: make(map[string]uint64),
			keys: make(map[[32]byte]Code), counters: make(map[Counter]int64)}
		if err := Create(options(m.fs)); err != nil {
			r.Fatal(err)
		}
		m.open(r)
		steps := 0
		r.Repeat(map[string]func(*rapid.T){
			"append": m.Append, "append again": m.Append, "advance": m.Advance, "advance again": m.Advance,
			"due": m.Due, "crash": m.Crash, "reopen": m.Reopen,
			"": func(r *rapid.T) {
				if steps++; steps%8 == 0 {
					m.check(r)
				}
			},
		})
		m.check(r)
		report, err := m.s.Fsck(ctx)
		if err != nil || len(report.Problems) > 0 || report.Documents != len(m.records) || !maps.Equal(report.Last,
			m.last) {
			r.Fatalf("fsck %+v, %v; want %d records, %v", report, err, len(m.records), m.last)
		}
		if err := m.s.Close(); err != nil {
			r.Fatal(err)
		}
	})
}
