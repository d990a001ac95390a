package door

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"
)

const maxBody = 1 << 20 // bytes; what the tills' listener takes

// A sender holds no more than what is left free, so that one sender, or a few together, leave room for all others.
func TestBodies_Shares(t *testing.T) {
	for _, hogs := range []int{1, 2, 10, 50} {
		b := NewBodies(nil)
		held := make([]int, hogs)
		for taken := true; taken; {
			taken = false
			for i := range hogs {
				if err := b.take(int64(i+1), 1<<16); err == nil {
					held[i] += 1 << 16
					taken = true
				} else if !errors.Is(err, ErrShare) {
					t.Fatalf("%d hogs: %v", hogs, err)
				}
			}
		}
		fair := budget / (hogs + 1)
		if b.left < fair-1<<16 || b.left < maxBody {
			t.Errorf("%d hogs leave %d bytes, want about %d", hogs, b.left, fair)
		}
		if err := b.take(99, maxBody); err != nil {
			t.Errorf("beside %d hogs a quiet till's body: %v", hogs, err)
		}
		b.give(99, maxBody)
		for i, n := range held {
			b.give(int64(i+1), n)
		}
		if b.left != budget || len(b.held) != 0 {
			t.Errorf("%d bytes are left, %v held", b.left, b.held)
		}
	}
	full := NewBodies(nil)
	for i := range 64 {
		if err := full.take(int64(i), maxBody); err != nil {
			t.Fatal(err)
		}
	}
	if err := full.take(64, 1); !errors.Is(err, ErrFull) {
		t.Errorf("a full budget: %v", err)
	}
}

// A body that is announced and does not come takes no memory; one that comes is counted, then given back. The sender's
// other body stays counted.
func TestBodies_Arriving(t *testing.T) {
	share, broken := NewBodies(nil), errors.New("broken")
	const other = 1000
	if err := share.take(7, other); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		size, announce int
		err            error
	}{
		{"empty", 0, 0, nil},
		{"small", 100, 100, nil},
		{"as large as a small buffer", SmallBody, SmallBody, nil},
		{"one more", SmallBody + 1, SmallBody + 1, nil},
		{"the largest", maxBody, maxBody, nil},
		{"the largest in chunks", maxBody, -1, nil},
		{"too large in chunks", maxBody + 1, -1, ErrTooLarge},
		{"announced too large", 0, maxBody + 1, ErrTooLarge},
		{"cut off", 70_000, maxBody, io.ErrUnexpectedEOF},
		{"a small one cut off", 99, 100, io.ErrUnexpectedEOF},
		{"broken off", 70_000, maxBody, broken},
		{"broken off in chunks", 70_000, -1, broken},
		{"a small one broken off", 99, 100, broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := bytes.Repeat([]byte("x"), c.size)
			for _, in := range []io.Reader{bytes.NewReader(want), iotest.DataErrReader(bytes.NewReader(want)),
				iotest.HalfReader(bytes.NewReader(want))} {
				if c.err == broken {
					in = io.MultiReader(in, iotest.ErrReader(broken))
				}
				a := share.Body(7, maxBody)
				if got, err := a.Read(in, c.announce); !errors.Is(err, c.err) {
					t.Fatalf("%v, want %v", err, c.err)
				} else if err == nil && !bytes.Equal(got, want) {
					t.Fatalf("%d bytes, want %d", len(got), len(want))
				}
				most := 2*c.size + 1
				if c.announce >= 0 {
					most = min(most, c.announce+1)
				}
				if taken := share.held[7] - other; taken > most {
					t.Errorf("%d bytes are taken for %d", taken, c.size)
				}
				a.Release()
				if share.left != budget-other || share.held[7] != other {
					t.Errorf("%d bytes are left, %v held", share.left, share.held)
				}
			}
		})
	}
	// 64 stalled bodies, each announced as the largest.
	for range 64 {
		a := share.Body(7, maxBody)
		_, _ = a.Read(iotest.DataErrReader(bytes.NewReader(make([]byte, 1000))), maxBody)
	}
	if share.left != budget-other {
		t.Errorf("stalled bodies hold %d bytes", budget-share.left)
	}
}

// TestBodies_Grown: a body that arrives takes its sender's share as it grows. Where the share is used up, or nothing is
// left, the body ends there.
func TestBodies_Grown(t *testing.T) {
	for _, announced := range []int{maxBody, -1} {
		for want, others := range map[error][]int64{ErrShare: {7}, ErrFull: {1, 2, 3, 4, 5, 6}} {
			share := NewBodies(nil)
			for taken := true; taken; { // as much as they may take, then down to a page
				taken = false
				for _, id := range others {
					for n := maxBody; n >= 4096; n /= 2 {
						if share.take(id, n) == nil {
							taken = true
							break
						}
					}
				}
			}
			if want == ErrFull {
				share.left = 4096
			}
			a, before := share.Body(7, maxBody), share.left
			if _, err := a.Read(bytes.NewReader(make([]byte, maxBody)), announced); !errors.Is(err, want) {
				t.Errorf("announced %d: %v, want %v", announced, err, want)
			}
			if a.Release(); share.left != before || share.left < 0 {
				t.Errorf("announced %d: %d bytes are left, before %d", announced, share.left, before)
			}
		}
	}
}

// A body that is refused for its pace is read only up to the size that nobody counts, and is asked for once: a flood
// costs nothing but bandwidth.
func TestBodies_Pace(t *testing.T) {
	for _, c := range []struct {
		announce int
		refused  bool
		asked    []int // bytes
	}{
		{maxBody, true, []int{maxBody}},
		{maxBody, false, []int{maxBody}},
		{SmallBody + 1, true, []int{SmallBody + 1}},
		{100, true, nil},
		{-1, true, []int{2 * SmallBody}},
		{-1, false, []int{2 * SmallBody, 2 * SmallBody, 4 * SmallBody, 8 * SmallBody, 16 * SmallBody, 1}},
	} {
		var asked []int
		tooFast := errors.New("too fast")
		share := NewBodies(func(id int64, n int) error {
			if asked = append(asked, n); c.refused && id == 7 {
				return tooFast
			}
			return nil
		})
		size := c.announce
		if size < 0 {
			size = maxBody
		}
		in := bytes.NewReader(make([]byte, size))
		a := share.Body(7, maxBody)
		_, err := a.Read(in, c.announce)
		a.Release()
		if !slices.Equal(asked, c.asked) {
			t.Errorf("announced %d: asked for %v, want %v", c.announce, asked, c.asked)
		}
		if c.refused && size > SmallBody && (!errors.Is(err, tooFast) || size-in.Len() > SmallBody) || (!c.refused ||
			size <= SmallBody) && err != nil {
			t.Errorf("announced %d: %v after %d bytes", c.announce, err, size-in.Len())
		}
	}
}
