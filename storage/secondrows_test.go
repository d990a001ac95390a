package storage

import (
	"bytes"
	"testing"
)

// TestFrame_Change: the frame of a change gives the number that its series reached, its name, and the batch after them;
// other frames than changes and rows have no batch.
func TestFrame_Change(t *testing.T) {
	l := &copyLog{state: newCopyState()}
	c := &change{at: place{Reach{7, 3, 5, [32]byte{1, 2}}, "00/01"}, feed: 12, batch: []byte("a batch")}
	l.addChange(c)
	f, ok := frameAt(l.buf, 0)
	if !ok || f.Kind != frameChange || !bytes.Equal(f.batch(), c.batch) {
		t.Fatalf("%+v, %v", f, ok)
	}
	state, fill := newCopyState(), position{1, 2}
	if err := f.follow(&state, &fill, position{}); err != nil || state.Series[7] != c.at || state.Feed != 12 ||
		fill != (position{}) || l.state.Series[7] != c.at {
		t.Errorf("%+v, %v, %v", state, fill, err)
	}
	f.Kind = frameFill
	if f.batch() != nil {
		t.Error("the begin of a fill has rows")
	}
	f.Kind, f.Payload = frameChange, f.Payload[:50]
	if err := f.follow(&state, &fill, position{}); err == nil || len(f.batch()) > 0 {
		t.Error("half a place was read")
	}
}
