package pdf

import (
	"bytes"
	"strings"
	"testing"
)

func TestStyle(t *testing.T) {
	for name, s := range map[string]Style{
		"color": {Color: "blue"}, "short color": {Color: "#fff"}, "logo": {Logo: []byte("no picture")},
		"large logo": {Logo: make([]byte, 600<<10)},
	} {
		if _, err := New(Options{Style: s}); err == nil || !strings.Contains(err.Error(), "Style.") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRender_Rests: a long document is laid out in many pieces, and the rests between them change nothing.
func TestRender_Rests(t *testing.T) {
	p := printer(t)
	d := lengthened(t, "dte03", 200)
	for _, l := range []Layout{Letter, Ticket80} {
		want, rests := render(t, p, d, l), 0
		d.Rest = func() { rests++ }
		if got := render(t, p, d, l); !bytes.Equal(got, want) || rests < 400 {
			t.Errorf("%s: %d rests, and %d bytes, want %d", l, rests, len(got), len(want))
		}
		d.Rest = nil
	}
}
