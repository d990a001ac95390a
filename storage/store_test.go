package storage

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"

	"github.com/cockroachdb/pebble/v2"
)

func TestAppend(t *testing.T) {
	s, fs := newStore(t)
	var slots []Slot
	for n := uint64(1); n <= 3; n++ {
		e, err := s.build(ctx, Keys{Series: "a"}, func(slot Slot) (Draft, error) {
			slots = append(slots, slot)
			return draft(code(n), slot), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if e.Number != n || e.Revision != 1 || e.State != fresh || e.Series != "a" || e.SequenceID != 1 {
			t.Errorf("got %+v", e)
		}
	}
	if e := put(t, s, "b", 4); e.Number != 1 || e.SequenceID != 2 || e.ID != 4 {
		t.Errorf("the second series begins with %+v", e)
	}
	for i, slot := range slots {
		if want := (Slot{uint64(i + 1), uint64(i + 1), 1}); slot != want {
			t.Errorf("slot %d is %+v", i, slot)
		}
	}
	sound(t, s)

	s = openStore(t, fs)
	e, err := s.Get(code(2))
	if err != nil || e.Number != 2 || !bytes.Equal(e.Head, head(code(2), 2)) || e.Due == nil ||
		e.Due.Queue != "settle" || !e.Due.At.Equal(time.Unix(2, 0)) {
		t.Errorf("after reopening: %+v, %v", e, err)
	}
	if b, err := s.Part(code(2), "form"); err != nil || !bytes.Equal(b, form(code(2))) {
		t.Errorf("part: %x, %v", b, err)
	}
	if e := put(t, s, "a", 5); e.Number != 4 || e.ID != 5 {
		t.Errorf("numbering goes on with %+v", e)
	}
	sound(t, s)
}

func TestAppend_BuildRefuses(t *testing.T) {
	s, _ := newStore(t)
	put(t, s, "a", 1)
	refused := errors.New("discount above the line")
	e, err := s.build(ctx, Keys{Series: "a", Idempotency: idem(2)}, func(Slot) (Draft, error) {
		return Draft{},
			refused
	})
	if err != refused { //nolint:errorlint // as it is, not wrapped
		t.Errorf("got %+v, %v", e, err)
	}
	if _, _, err := s.Lookup(idem(2).Key); !errors.Is(err, ErrNotFound) {
		t.Errorf("the key of a refused record: %v", err)
	}
	if e := put(t, s, "a", 2); e.Number != 2 {
		t.Errorf("a refused record spent a number: next is %d", e.Number)
	}
	func() { // a panic in build lets go of the locks
		defer func() { _ = recover() }()
		_, _ = s.build(ctx, Keys{Series: "a"}, func(Slot) (Draft, error) { panic("in build") })
	}()
	if e := put(t, s, "a", 3); e.Number != 3 {
		t.Errorf("next is %d", e.Number)
	}
	sound(t, s)
}

func TestAppend_Refusals(t *testing.T) {
	s, _ := newStore(t)
	put(t, s, "a", 1)
	with := func(change func(*Keys, *Draft)) error {
		keys := Keys{Series: "a"}
		var d Draft
		change(&keys, &d)
		_, err := s.build(ctx, keys, func(slot Slot) (Draft, error) {
			d = draft(code(2), slot)
			change(&keys, &d)
			return d, nil
		})
		return err
	}
	for name, tt := range map[string]struct {
		want   error // nil: any
		change func(*Keys, *Draft)
	}{
		"taken key":         {ErrKeyTaken, func(k *Keys, _ *Draft) { k.Idempotency = idem(1) }},
		"taken code":        {ErrCodeTaken, func(_ *Keys, d *Draft) { d.Code = code(1) }},
		"no series":         {nil, func(k *Keys, _ *Draft) { k.Series = "" }},
		"part twice":        {ErrPartExists, func(_ *Keys, d *Draft) { d.Parts = []Part{{"a", nil}, {"a", nil}} }},
		"part without name": {nil, func(_ *Keys, d *Draft) { d.Parts = []Part{{"", nil}} }},
		"due without queue": {nil, func(_ *Keys, d *Draft) { d.Due = &Due{} }},
		"due out of range": {errDueRange, func(_ *Keys, d *Draft) {
			d.Due = &Due{"q", time.Date(9999, 1, 1, 0, 0,
				0, 0, time.UTC)}
		}},
		"counter without origin": {nil, func(_ *Keys, d *Draft) { d.Counters = []Counter{{code(1), 1, 1}} }},
		"counter twice": {nil, func(k *Keys, d *Draft) {
			k.Origins, d.Counters = []Code{code(1)}, []Counter{{code(1), 1, 1}, {code(1), 1, 2}}
		}},
		"its own origin": {nil, func(k *Keys, d *Draft) { k.Origins = []Code{code(2)} }},
	} {
		if err := with(tt.change); err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if e := put(t, s, "a", 3); e.Number != 2 {
		t.Errorf("refusals spent numbers: next is %d", e.Number)
	}
	sound(t, s)
}

func TestAdvance(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	put(t, s, "a", 2)
	e, err := s.Advance(ctx, code(1), fresh, Change{To: done, Head: []byte("settled"),
		Parts: []Part{{"answer", []byte("seal")}}})
	if err != nil || e.State != done || e.Revision != 2 || e.Due != nil || string(e.Head) != "settled" ||
		e.Number != 1 {
		t.Fatalf("got %+v, %v", e, err)
	}
	var conflict *ConflictError
	if _, err := s.Advance(ctx, code(1), fresh, Change{To: done}); !errors.As(err, &conflict) || conflict.Have != done {
		t.Errorf("a second time: %v", err)
	}
	if _, err := s.Advance(ctx, code(1), done, Change{To: done,
		Parts: []Part{{"answer", []byte("other")}}}); !errors.Is(err, ErrPartExists) {
		t.Errorf("a part again: %v", err)
	}
	if _, err := s.Advance(ctx, code(9), fresh, Change{To: done}); !errors.Is(err, ErrNotFound) {
		t.Errorf("an unknown record: %v", err)
	}
	for name, c := range map[string]Change{
		"part twice":        {Parts: []Part{{"a", nil}, {"a", nil}}},
		"part without name": {Parts: []Part{{"", nil}}},
		"due without queue": {Due: &Due{}},
		"due out of range":  {Due: &Due{"q", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}},
		"counter twice":     {Counters: []Counter{{code(1), 1, 1}, {code(1), 1, 2}}},
	} {
		c.To = done
		if _, err := s.Advance(ctx, code(2), fresh, c); err == nil {
			t.Errorf("%s: no error", name)
		}
		if e, err := s.Get(code(2)); err != nil || e.State != fresh || e.Revision != 1 {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	// The same state, another time; the head stays.
	at := time.Unix(500, 7)
	if _, err := s.Advance(ctx, code(2), fresh, Change{To: fresh, Due: &Due{"report", at}}); err != nil {
		t.Fatal(err)
	}
	sound(t, s)

	s = openStore(t, fs)
	e, err = s.Get(code(2))
	if err != nil || e.Revision != 2 || !e.Due.At.Equal(at) || !bytes.Equal(e.Head, head(code(2), 2)) {
		t.Errorf("got %+v, %v", e, err)
	}
	parts, err := s.Parts(code(1))
	if err != nil || len(parts) != 2 || parts[0].Name != "answer" || string(parts[0].Data) != "seal" ||
		!bytes.Equal(parts[1].Data, form(code(1))) {
		t.Errorf("parts %v, %v", parts, err)
	}
	if due, err := s.Due("settle", time.Unix(1e6, 0), 10); err != nil || len(due) != 0 {
		t.Errorf("still due: %v, %v", due, err)
	}
	if due, err := s.Due("report", at, 10); err != nil || len(due) != 1 || due[0].Code != code(2) {
		t.Errorf("due: %v, %v", due, err)
	}
	sound(t, s)
}

func TestDue(t *testing.T) {
	s, _ := newStore(t)
	times := []time.Time{time.Unix(30, 0), time.Unix(-10, 0), time.Unix(20, 1), time.Unix(20, 0)}
	for i, at := range times {
		_, err := s.build(ctx, Keys{Series: "a"}, func(Slot) (Draft, error) {
			return Draft{Code: code(uint64(i)), State: fresh, Due: &Due{"q", at}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "a", 9) // in another queue
	for _, tt := range []struct {
		before time.Time
		limit  int
		want   string
	}{
		{time.Unix(100, 0), 10, "[1 3 2 0]"},
		{time.Unix(100, 0), 2, "[1 3]"},
		{time.Unix(20, 0), 10, "[1 3]"}, // the time itself is due
		{time.Unix(-11, 0), 10, "[]"},
		{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), 10, "[1 3 2 0]"},
		{time.Time{}, 10, "[]"},
	} {
		entries, err := s.Due("q", tt.before, tt.limit)
		if err != nil {
			t.Fatal(err)
		}
		got := []uint64{}
		for _, e := range entries {
			got = append(got, e.Number-1)
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("before %v: %v, want %s", tt.before, got, tt.want)
		}
	}
	sound(t, s)
}

// A caller that asks an idle queue again and again hides no record from another that has just put it there.
func TestDue_Idle(t *testing.T) {
	s, _ := newStore(t)
	due := func(at int64) int {
		entries, err := s.Due("q", time.Unix(at, 0), 10)
		if err != nil {
			t.Error(err)
		}
		return len(entries)
	}
	over := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		for at := int64(0); ; at = (at + 1) % 1000 {
			select {
			case <-over:
				return
			default:
				due(at)
			}
		}
	})
	for i := range uint64(300) {
		at := int64(1000 - i) // each before all others
		_, err := s.build(ctx, Keys{Series: "a"}, func(Slot) (Draft, error) {
			return Draft{Code: code(i), State: fresh, Due: &Due{"q", time.Unix(at, 0)}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if due(at-1) != 0 || due(at) != 1 {
			t.Fatalf("record %d is not the first of its queue", i)
		}
	}
	close(over)
	asking.Wait()
	sound(t, s)
}

func TestCounters(t *testing.T) {
	s, _ := newStore(t)
	put(t, s, "a", 1)
	// Thirty credits of 1 from two series: each reads, adds and writes under the lock of the origin.
	var wait sync.WaitGroup
	for n := range uint64(30) {
		wait.Go(func() {
			keys := Keys{Series: fmt.Sprint("credit", n%2), Origins: []Code{code(1)}}
			_, err := s.build(ctx, keys, func(slot Slot) (Draft, error) {
				v, err := s.Counter(code(1), 7)
				return Draft{Code: code(100 + n), Counters: []Counter{{code(1), 7, v + 1}}}, err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if v, err := s.Counter(code(1), 7); err != nil || v != 30 {
		t.Errorf("counter is %d, %v: credits were lost", v, err)
	}
	if v, err := s.Counter(code(1), 8); err != nil || v != 0 {
		t.Errorf("an untouched counter is %d, %v", v, err)
	}
	sound(t, s)
}

func TestRecords(t *testing.T) {
	s, _ := newStore(t)
	for n := uint64(1); n <= recordsChunk+10; n++ {
		put(t, s, fmt.Sprint(n%3), n)
	}
	var last uint64
	count := 0
	err := s.Records(5, func(e Entry) error {
		if e.ID <= max(last, 5) || e.Code != code(e.ID) {
			t.Fatalf("record %d after %d", e.ID, last)
		}
		last = e.ID
		count++
		_, err := s.Get(e.Code) // the store may be used
		return err
	})
	if err != nil || count != recordsChunk+5 {
		t.Errorf("%d records, %v", count, err)
	}
	stop := errors.New("enough")
	if err := s.Records(0, func(Entry) error { return stop }); err != stop { //nolint:errorlint // as it is
		t.Errorf("got %v", err)
	}
	// A record that is being made holds back those behind it: a reader that remembers the last id misses none.
	_, err = s.build(ctx, Keys{Series: "slow"}, func(slot Slot) (Draft, error) {
		put(t, s, "fast", 1000)
		return draft(code(2000), slot), s.Records(last, func(e Entry) error { return fmt.Errorf("saw %d", e.ID) })
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	if err := s.Records(last, func(Entry) error { seen++; return nil }); err != nil || seen != 2 {
		t.Errorf("then %d, %v", seen, err)
	}
	sound(t, s)
}

func TestClose(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	sound(t, s)
	_, appendErr := s.build(ctx, Keys{Series: "a"}, nil)
	_, advanceErr := s.Advance(ctx, code(1), fresh, Change{})
	_, getErr := s.Get(code(1))
	_, partErr := s.Part(code(1), "form")
	_, partsErr := s.Parts(code(1))
	_, _, lookupErr := s.Lookup(idem(1).Key)
	_, dueErr := s.Due("settle", time.Unix(1, 0), 1)
	_, counterErr := s.Counter(code(1), 1)
	_, fsckErr := s.Fsck(ctx)
	for i, err := range []error{appendErr, advanceErr, getErr, partErr, partsErr, lookupErr, dueErr, counterErr,
		fsckErr, s.Records(0, nil)} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("call %d after Close: %v", i, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	// Close waits for a build, whose reads are refused from then on; nothing is stored by half.
	s = openStore(t, fs)
	closed := make(chan error)
	_, err := s.build(ctx, Keys{Series: "a"}, func(slot Slot) (Draft, error) {
		go func() { closed <- s.Close() }()
		for {
			if _, err := s.Get(code(1)); err != nil {
				return Draft{}, err
			}
		}
	})
	if !errors.Is(err, ErrClosed) || <-closed != nil {
		t.Errorf("closing during a build: %v", err)
	}
	sound(t, openStore(t, fs))
}

func TestPebble_Options(t *testing.T) {
	s, _ := newStore(t)
	if v := s.db.FormatMajorVersion(); v < pebble.FormatWALSyncChunks {
		t.Errorf("format %d loses rows behind one flipped bit", v)
	}
	sound(t, s)
}

func TestMetrics(t *testing.T) {
	s, _ := newStore(t)
	put(t, s, "a", 1)
	got := metrictest.Values(t, s)
	if got["dte_store_append_seconds"] != 1 {
		t.Error("the append was not counted")
	}
	for _, name := range []string{"dte_store_append_seconds", "dte_store_sync_seconds", "dte_store_disk_bytes",
		"dte_store_damaged"} {
		if _, shown := got[name]; !shown {
			t.Errorf("no %s", name)
		}
	}
	sound(t, s)
	if left := metrictest.Values(t, s); len(left) != 0 {
		t.Errorf("after Close: %v", left)
	}
}
