package screen

import (
	"fmt"
	"strings"
)

// Bar shows how far a long work is, on a terminal only.
type Bar struct {
	out   *Writer // nil: nobody looks
	shown int     // per cent
}

// NewBar is a bar that nobody has seen yet.
func NewBar(out *Writer) *Bar {
	if !out.Terminal() {
		out = nil
	}
	return &Bar{out: out, shown: -1}
}

// Show draws the bar anew when its per cent have changed.
func (b *Bar) Show(done, total int64) {
	percent := int(float64(done) / float64(max(total, 1)) * 100)
	if b.out == nil || percent == b.shown {
		return
	}
	b.shown = percent
	b.out.Redraw(fmt.Sprintf("[%-40s] %3d %%", strings.Repeat("#", percent*2/5), percent))
}

// End leaves the line of the bar.
func (b *Bar) End() {
	if b.out != nil && b.shown >= 0 {
		Fprintf(b.out, "\n")
	}
}

// Bytes writes a size for people.
func Bytes(n int64) string {
	const unit = 1 << 10
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/unit, 0
	for ; v >= unit && i < 3; i++ {
		v /= unit
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGT"[i])
}
