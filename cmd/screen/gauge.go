package screen

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

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
