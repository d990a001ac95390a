package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// damageStore holds two series with all kinds of rows.
func damageStore(t *testing.T) *Store {
	s, _ := newStore(t)
	for n := uint64(1); n <= 6; n++ {
		put(t, s, map[bool]string{true: "odd", false: "even"}[n%2 == 1], n)
	}
	if _, err := s.Advance(ctx, code(3), fresh, Change{To: done,
		Parts: []Part{{"answer", []byte("seal")}}}); err != nil {
		t.Fatal(err)
	}
	_, err := s.build(ctx, Keys{Series: "odd", Origins: []Code{code(1)}}, func(slot Slot) (Draft, error) {
		return Draft{Code: code(7), Counters: []Counter{{code(1), 2, 100}, {code(1), 3, 50}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := checkSound(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFsck_Damage does each kind of damage, sees fsck find it, and mends it again.
func TestFsck_Damage(t *testing.T) {
	s := damageStore(t)
	type row struct{ key, value []byte } // nil value: delete
	alter := func(key []byte, at int) row {
		v, err := get(s.db, key)
		if err != nil {
			t.Fatalf("%s: %v", describeKey(key), err)
		}
		if at < 0 {
			at += len(v)
		}
		v[at] ^= 1
		return row{key, v}
	}
	entry := func(id uint64, change func(*entryRow)) row {
		e, err := s.entryByID(id)
		if err != nil {
			t.Fatal(err)
		}
		change(&e)
		return row{entryKey(id), e.encode()}
	}
	series := func(name string, change func(*Reach)) row {
		r, err := s.series(name)
		if err != nil {
			t.Fatal(err)
		}
		change(&r)
		return row{seriesKey(name), r.encode()}
	}
	relink := func(position uint64, change func(*link)) row {
		key := journalKey(1, position)
		v, err := get(s.db, key)
		if err != nil {
			t.Fatal(err)
		}
		l, err := decodeLink(v)
		if err != nil {
			t.Fatal(err)
		}
		change(&l)
		return row{key, l.encode()}
	}
	due := dueKey("settle", 1e9, 1)
	is := func(id int, what string) string {
		return fmt.Sprintf("entry %d: number .* is not as the journal has it: %s$", id, what)
	}
	for name, tt := range map[string]struct {
		says string
		rows []row
	}{
		"entry deleted":            {is(3, "the record, a part of it, a row that leads to it"), []row{{entryKey(3), nil}}},
		"entry altered":            {is(3, "the record"), []row{alter(entryKey(3), -1)}},
		"entry of another version": {`entry 3: is unreadable`, []row{alter(entryKey(3), 0)}},
		"entry set back": {is(3, "the record"), []row{entry(3, func(e *entryRow) {
			e.Revision,
				e.Changed, e.State = 1, 2, fresh
		})}},
		"entry slipped in": {is(99, "the record, a row that leads to it"),
			[]row{{entryKey(99), (&entryRow{Entry: Entry{Code: code(99), Number: 9, SequenceID: 1, Revision: 1},
				Appended: 9, Changed: 9}).encode()}}},
		"entry renumbered":     {is(3, "the record"), []row{entry(3, func(e *entryRow) { e.Number = 8 })}},
		"part deleted":         {is(2, "a part of it"), []row{{partKey(2, "form"), nil}}},
		"part altered":         {is(3, "a part of it"), []row{alter(partKey(3, "answer"), 0)}},
		"part added":           {is(2, "a part of it"), []row{{partKey(2, "more"), []byte{}}}},
		"part of nothing":      {`entry 99: no record has this id, and rows belong to it: a part of it$`, []row{{partKey(99, "form"), []byte{1}}}},
		"code deleted":         {is(2, "a row that leads to it"), []row{{codeKey(code(2)), nil}}},
		"code moved":           {is(3, "a row that leads to it"), []row{alter(codeKey(code(2)), 7)}},
		"code of nothing":      {`entry 77: no record has this id, and rows belong to it: a row that leads to it$`, []row{{codeKey(code(77)), be.AppendUint64(nil, 77)}}},
		"key deleted":          {is(2, "a row that leads to it"), []row{{idemKey(idem(2).Key), nil}}},
		"key's digest altered": {is(2, "a row that leads to it"), []row{alter(idemKey(idem(2).Key), -1)}},
		"key of nothing": {`entry 77: no record has this id, and rows belong to it: a row that leads to it$`, []row{{idemKey(idem(500).Key),
			make([]byte, 40)[:0:40]}, {idemKey(idem(500).Key), append(be.AppendUint64(nil, 77), make([]byte, 32)...)}}},
		"due deleted": {is(1, "a row that leads to it"), []row{{due, nil}}},
		"due added": {is(3, "a row that leads to it"),
			[]row{{dueKey("settle", 3e9, 3), []byte{}}}},
		"day deleted": {is(2, "a row that leads to it"), []row{{dayKey(2, 2), nil}}},
		"day added": {is(3, "a row that leads to it"),
			[]row{{dayKey(2, 3), []byte{}}}},
		"day of nothing":  {`entry 77: no record has this id, and rows belong to it: a row that leads to it$`, []row{{dayKey(2, 77), []byte{}}}},
		"counter deleted": {`counter of .* line 2 is missing`, []row{{counterKey(code(1), 2), nil}}},
		"counter altered": {`counter of .* line 2 is altered`, []row{alter(counterKey(code(1), 2), 7)}},
		"counter added": {`1 rows that no change has set`, []row{{counterKey(code(1), 9),
			make([]byte, 16)}}},
		"link deleted in between": {`follows position 1`, []row{{journalKey(1, 2), nil}}},
		"link deleted at the end": {`ends at number 4, position 5; its journal at 3, 4`,
			[]row{{journalKey(1, 5), nil}}},
		"link altered":      {`does not continue the chain`, []row{relink(2, func(l *link) { l.At++ })}},
		"last link altered": {`the hashes differ`, []row{relink(5, func(l *link) { l.At++ })}},
		"gap": {`number 5 of series "odd" follows 3: a gap`,
			[]row{relink(5, func(l *link) { l.Number = 5 }), entry(7, func(e *entryRow) { e.Number = 5 }),
				series("odd", func(r *Reach) { r.Last = 5 })}},
		"duplicate": {`number 3 of series "odd" was used before: a duplicate`,
			[]row{relink(5, func(l *link) { l.Number = 3 }), entry(7, func(e *entryRow) { e.Number = 3 }),
				series("odd", func(r *Reach) { r.Last = 3 })}},
		"unknown operation": {`operation 9`, []row{relink(4, func(l *link) { l.Op = 9 })}},
		"series deleted":    {`belongs to no series`, []row{{seriesKey("odd"), nil}}},
		"series set back": {`acknowledged records are missing`,
			[]row{series("odd", func(r *Reach) { r.Last = 2 })}},
		"series ahead": {`ends at number 9, position 5; its journal at 4, 5`,
			[]row{series("odd", func(r *Reach) { r.Last = 9 })}},
		"two series, one sequence": {`has the sequence 1 of series`,
			[]row{series("new", func(r *Reach) { r.Sequence = 1 })}},
		"series garbled":      {`series "odd": is unreadable`, []row{{seriesKey("odd"), []byte{1, 2}}}},
		"layout altered":      {`meta "layout": is`, []row{alter(keyLayout, 3)}},
		"row of no table":     {`unknown table .*: belongs to no table`, []row{{[]byte{77, 1}, []byte{}}}},
		"strange journal key": {`strange key`, []row{{[]byte{tableJournal, 1}, []byte{}}}},
		"garbled link":        {`position 3: is unreadable`, []row{{journalKey(1, 3), []byte{9}}}},
		"everything of a table": {is(2, "a row that leads to it"), []row{{codeKey(code(1)), nil}, {codeKey(code(2)), nil},
			{codeKey(code(3)), nil}}},
		"last record taken out": {`ends at number 4, position 5; its journal at 3, 4`,
			[]row{{journalKey(1, 5), nil}, {entryKey(7), nil}, {codeKey(code(7)), nil}}},
		"origin's counter set back": {`missing or older`, []row{{counterKey(code(1), 3),
			append(be.AppendUint64(nil, 50), make([]byte, 8)...)}}},
	} {
		t.Run(name, func(t *testing.T) {
			undo := s.db.NewBatch()
			for _, r := range tt.rows {
				switch old, err := get(s.db, r.key); {
				case err == nil:
					set(undo, r.key, old)
				case errors.Is(err, ErrNotFound):
					if err := undo.Delete(r.key, nil); err != nil {
						t.Fatal(err)
					}
				default:
					t.Fatal(err)
				}
			}
			for _, r := range tt.rows {
				if r.value == nil {
					if err := s.db.Delete(r.key, pebble.NoSync); err != nil {
						t.Fatal(err)
					}
				} else if err := s.db.Set(r.key, r.value, pebble.NoSync); err != nil {
					t.Fatal(err)
				}
			}
			report, err := s.Fsck(ctx)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, p := range report.Problems {
				found = found || regexp.MustCompile(tt.says).MatchString(p.String())
			}
			if !found {
				t.Errorf("wanted %q, got %q", tt.says, report.Problems)
			}
			if err := undo.Commit(pebble.NoSync); err != nil {
				t.Fatal(err)
			}
			if err := checkSound(s); err != nil {
				t.Errorf("after mending: %v", err)
			}
		})
	}
	sound(t, s)
}

func TestFsck_Report(t *testing.T) {
	s := damageStore(t)
	report, err := s.Fsck(ctx)
	if err != nil || report.Documents != 7 || report.Series != 2 || report.Last["odd"] != 4 ||
		report.Last["even"] != 3 {
		t.Errorf("%+v, %v", report, err)
	}
	sound(t, s)
}

func TestFsck_Cancelled(t *testing.T) {
	s, _ := newStore(t)
	for n := range uint64(300) {
		put(t, s, "a", n)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Fsck(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	sound(t, s)
}

// TestOpen_DamagedEnd: a journal that does not end as its series say is refused at once, without a walk.
func TestOpen_DamagedEnd(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	if err := s.db.Delete(journalKey(1, 1), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(options(fs)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if report, err := Check(ctx, options(fs)); err != nil || len(report.Problems) == 0 {
		t.Errorf("Check: %+v, %v", report, err)
	}
}

// TestDamage_StopsWriting: once the disk has returned damaged blocks, nothing more is issued.
func TestDamage_StopsWriting(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	sound(t, s)
	list, err := fs.List("box/store")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		if regexp.MustCompile(`\.sst$`).MatchString(name) {
			b := readFile(t, fs, "box/store/"+name)
			for i := range len(b) - 200 { // all but the footer: the table still opens
				b[i] ^= 0xff
			}
			writeFile(t, fs, "box/store/"+name, b)
		}
	}
	s, err = Open(options(fs))
	if err == nil {
		_, err = s.Get(code(1))
		if err == nil {
			t.Fatal("read damaged data")
		}
		_, err = s.build(ctx, Keys{Series: "b"}, func(slot Slot) (Draft, error) { return draft(code(2), slot), nil })
		if closing := s.Close(); closing != nil {
			t.Error(closing)
		}
	}
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

// TestReads_Damaged: a reader of a row that makes no sense is told; it never takes the record for missing, nor a queue for
// empty.
func TestReads_Damaged(t *testing.T) {
	far := time.Unix(1e9, 0)
	reads := map[string]func(*Store) error{
		"Get":     func(s *Store) error { _, err := s.Get(code(2)); return err },
		"Due":     func(s *Store) error { _, err := s.Due("settle", far, 9); return err },
		"Page":    func(s *Store) error { _, err := s.Page(0, 9); return err },
		"ByID":    func(s *Store) error { _, err := s.ByID([]uint64{1, 2}); return err },
		"Day":     func(s *Store) error { _, err := s.Day(2, 0, 9); return err },
		"Records": func(s *Store) error { return s.Records(0, func(Entry) error { return nil }) },
		"Advance": func(s *Store) error { _, err := s.Advance(ctx, code(2), fresh, Change{To: fresh}); return err },
	}
	for row, c := range map[string]struct {
		key   []byte
		value []byte
		told  []string
	}{
		"record": {entryKey(2), []byte{1, 2}, slices.Collect(maps.Keys(reads))},
		"queue":  {append(duePrefix("settle"), 1, 2), nil, []string{"Due"}},
	} {
		s, _ := newStore(t)
		put(t, s, "a", 1)
		put(t, s, "a", 2)
		if err := s.db.Set(c.key, c.value, pebble.Sync); err != nil {
			t.Fatal(err)
		}
		for _, name := range c.told {
			if err := reads[name](s); !errors.Is(err, ErrCorrupt) {
				t.Errorf("a damaged row of a %s: %s says %v", row, name, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRows_Decode(t *testing.T) {
	e := entryRow{Entry: Entry{Code: code(1), ID: 5, Number: 6, SequenceID: 7, State: 8, Revision: 9, Head: []byte("h"),
		Due: &Due{"q", time.Unix(-1, 5).UTC()}}, Appended: 10, Changed: 11, Parts: 12, Idempotency: idem(1)}
	l := link{Op: opAppend, At: -5, ID: 5, Code: code(1), Number: 6, From: 1, State: 2, Revision: 3,
		Parts: []partDigest{{"a", [32]byte{1}}}, Counters: []count{{Counter{code(2), 3, -4}, 5}}}
	r := Reach{1, 2, 3, [32]byte{4}}
	for name, tt := range map[string]struct {
		row    []byte
		decode func([]byte) ([]byte, error)
		open   int // cuts behind this length are the head's own
	}{
		"entry": {e.encode(), func(b []byte) ([]byte, error) { e, err := decodeEntry(5, b); return e.encode(), err },
			len(e.encode()) - 1},
		"link": {l.encode(), func(b []byte) ([]byte, error) { l, err := decodeLink(b); return l.encode(), err },
			len(l.encode())},
		"series": {r.encode(), func(b []byte) ([]byte, error) { r, err := decodeSeries(b); return r.encode(), err },
			len(r.encode())},
	} {
		if back, err := tt.decode(tt.row); err != nil || string(back) != string(tt.row) {
			t.Errorf("%s does not come back: %v", name, err)
		}
		for cut := range tt.open {
			if _, err := tt.decode(tt.row[:cut]); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s cut at %d: %v", name, cut, err)
			}
		}
	}
}

func FuzzRows(f *testing.F) {
	f.Add((&entryRow{Idempotency: idem(1)}).encode())
	f.Add((&link{Parts: []partDigest{{"a", [32]byte{1}}}}).encode())
	f.Add((&Reach{}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := decodeEntry(1, b); err == nil && string(e.encode()) != string(b) {
			t.Errorf("entry %x comes back as %x", b, e.encode())
		}
		if l, err := decodeLink(b); err == nil && string(l.encode()) != string(b) {
			t.Errorf("link %x comes back as %x", b, l.encode())
		}
		if r, err := decodeSeries(b); err == nil && string(r.encode()) != string(b) {
			t.Errorf("series %x comes back as %x", b, r.encode())
		}
		parseDueKey(b)
	})
}
