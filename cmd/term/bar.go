package term

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Bar shows how far a long work is, on a terminal only.
type Bar struct {
	out   *Writer // nil: nobody looks
	shown int     // per cent
	began time.Time
}

// NewBar is a bar that nobody has seen yet.
func NewBar(out *Writer) *Bar {
	if !out.Terminal() {
		out = nil
	}
	return &Bar{out: out, shown: -1, began: time.Now()}
}

// Show draws the bar anew when its per cent have changed.
func (b *Bar) Show(done, total int64) {
	percent := int(float64(done) / float64(max(total, 1)) * 100)
	if b.out == nil || percent == b.shown {
		return
	}
	b.shown = percent
	b.out.Redraw(fmt.Sprintf("[%-40s] %3d %%%s", strings.Repeat("#", percent*2/5), percent, left(time.Since(b.began),
		percent)))
}

// left names the time that a work still takes, from a tenth of a minute on, if it goes on as it did.
func left(took time.Duration, percent int) string {
	rest := time.Duration(float64(took) / float64(max(percent, 1)) * float64(100-percent)).Round(time.Second)
	if took < 2*time.Second || percent == 0 || rest < 6*time.Second {
		return ""
	}
	return ", " + rest.String() + " left"
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

// Gauge shows progress, a nil one nothing: a bar on a terminal, elsewhere a line now and then.
type Gauge struct {
	mu   sync.Mutex
	out  *Writer
	told time.Time // the last line that was no bar
}

// gaugeEvery is how often a gauge writes a line where there is no terminal.
const gaugeEvery = 10 * time.Second

// NewGauge is a gauge that has shown nothing yet.
func NewGauge(out *Writer) *Gauge { return &Gauge{out: out, told: time.Now()} }

// Show shows a part, 0 to 1, and what a person reads of it.
func (b *Gauge) Show(part float64, text string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.out.Terminal() {
		if time.Since(b.told) >= gaugeEvery {
			b.told = time.Now()
			Fprintf(b.out, "%s\n", text)
		}
		return
	}
	const width = 30
	n := int(min(1, max(0, part)) * width)
	line := []rune(fmt.Sprintf("[%s%s] %s", strings.Repeat("#", n), strings.Repeat("·", width-n), text))
	const narrowest = 79 // a line that breaks cannot be redrawn
	if len(line) > narrowest {
		line = append(line[:narrowest-1], '…')
	}
	b.out.Redraw(string(line))
}

// Clear takes the bar off the terminal, for a line of its own.
func (b *Gauge) Clear() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.out.Terminal() {
		b.out.Redraw("")
	}
}
