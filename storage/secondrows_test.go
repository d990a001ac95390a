package storage

import "testing"

// TestSeriesIn: of a change, the series is found wherever its row stands; of rows of a fill, how far each series and
// the feed reach.
func TestSeriesIn(t *testing.T) {
	s, _ := newStore(t)
	b := s.db.NewBatch()
	set := func(key, value []byte) {
		if err := b.Set(key, value, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, ok := seriesIn(b.Repr()); ok {
		t.Error("a series in an empty change")
	}
	link := []byte("a link")
	set(journalKey(7, 4), link)
	set(entryKey(9), []byte("no series"))
	if _, name, ok := seriesIn(b.Repr()); ok {
		t.Errorf("%q in a change without a series", name)
	}
	want := seriesRow{Sequence: 7, Position: 5, Last: 3}
	set(seriesKey("00/01"), want.encode())
	set(journalKey(7, 5), link)
	set(feedKey(12), []byte("fed"))
	if row, name, ok := seriesIn(b.Repr()); !ok || name != "00/01" || row != want {
		t.Errorf("%+v of %q, %v", row, name, ok)
	}
	state := copyState{Series: make(map[uint32]place)}
	rows := &frame{Kind: frameRows, Payload: b.Repr()}
	if err := rows.reaches(&state); err != nil {
		t.Fatal(err)
	}
	if at := state.Series[7]; len(state.Series) != 1 || at.Position != 5 || at.Hash != hashLink(journalKey(7, 5),
		link) || state.Feed != 12 {
		t.Errorf("%+v", state)
	}
	other := copyState{Series: make(map[uint32]place)}
	if err := (&frame{Kind: frameFill, Payload: b.Repr()}).reaches(&other); err != nil || len(other.Series) != 0 {
		t.Errorf("%+v, %v", other, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	sound(t, s)
}
