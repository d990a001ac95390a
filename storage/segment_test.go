package storage

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestFrames: of a segment with unreadable bytes at any place, every whole frame is read, and all other bytes are lost;
// at the end of the last segment they are torn instead, unless a frame of a later group shows that they were written.
func TestFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type span struct {
			at, end, group uint64
			whole          bool
		}
		var b []byte
		var spans []span
		group := uint64(0)
		for range rapid.IntRange(0, 6).Draw(t, "spans") {
			s := span{at: uint64(len(b))}
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0: // rubbish of any length, even of one byte
				b = append(b, bytes.Repeat([]byte{frameMagic[0]}, rapid.IntRange(1, 3).Draw(t, "rubbish"))...)
			case 1: // a frame with one wrong byte
				b = appendFrame(b, group, frameChange, []byte("payload"))
				b[rapid.IntRange(int(s.at), len(b)-1).Draw(t, "wrong")] ^= 0x10
			default:
				group += rapid.Uint64Range(0, 2).Draw(t, "later group")
				b = appendFrame(b, group, frameChange, []byte("payload"))
				s.whole, s.group = true, group
			}
			s.end = uint64(len(b))
			spans = append(spans, s)
		}
		size, last := uint64(len(b)), rapid.Bool().Draw(t, "last")
		upTo := rapid.SampledFrom([]uint64{0, size, size + 5}).Draw(t, "up to")
		var want []string
		var lost, torn, known uint64
		for i, s := range spans {
			switch {
			case s.whole:
				want, known = append(want, fmt.Sprint(s.at, s.group)), s.group
			case last && !slices.ContainsFunc(spans[i:], func(o span) bool { return o.group > known+1 }):
				torn = size - s.at
			default:
				lost += s.end - s.at
			}
			if torn > 0 {
				break
			}
		}
		if upTo > size {
			lost = max(lost, upTo-size)
		}
		var got []string
		l, to, err := (&segment{bytes: b}).frames(upTo, last, func(at uint64, f frame) error {
			got = append(got, fmt.Sprint(at, f.Group))
			return nil
		})
		if err != nil || l != lost || to != torn || !slices.Equal(got, want) {
			t.Fatalf("%+v: read %v, lost %d, torn %d, %v; want %v, %d, %d", spans, got, l, to, err, want, lost, torn)
		}
	})
}
