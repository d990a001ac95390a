package term

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

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

// Columns aligns what is written to it: a tab ends a cell. Flush writes it to out.
func Columns(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }

// Table writes a list in columns, below a heading with a tab between the columns. cells are those of a line.
func Table[T any](out io.Writer, heading string, list []T, cells func(T) []any) error {
	w := Columns(out)
	_, _ = io.WriteString(w, heading+"\n") // to a buffer
	for _, one := range list {
		line := cells(one)
		_, _ = Fprintf(w, strings.Repeat("%v\t", len(line)-1)+"%v\n", line...)
	}
	return w.Flush()
}

// List writes a list to the standard output: as a JSON array, or as a table.
func List[T any](asJSON bool, heading string, list []T, cells func(T) []any) error {
	if asJSON {
		return JSON(append([]T{}, list...))
	}
	return Table(Out, heading, list, cells)
}

// Gauge shows progress, a nil one nothing: a bar on a terminal, elsewhere a line now and then.
type Gauge struct {
	mu    sync.Mutex
	out   *Writer
	began time.Time
	told  time.Time // the last line that was no bar
	shown string    // the bar on the terminal
}

// gaugeEvery is how often a gauge writes a line where there is no terminal.
const gaugeEvery = 10 * time.Second

// NewGauge is a gauge that has shown nothing yet.
func NewGauge(out *Writer) *Gauge { return &Gauge{out: out, began: time.Now(), told: time.Now()} }

// Of shows that a part of a work is done, and the time that the rest takes if it goes on as it did.
func (b *Gauge) Of(done, total int64) {
	part := float64(done) / float64(max(total, 1))
	took, left := time.Since(b.began), ""
	rest := time.Duration(float64(took) / max(part, .01) * (1 - part)).Round(time.Second)
	if took > 2*time.Second && part > .01 && rest > 5*time.Second {
		left = ", " + rest.String() + " left"
	}
	b.Show(part, fmt.Sprintf("%3.0f %%%s", 100*part, left))
}

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
	if text = string(line); text != b.shown {
		b.shown = text
		b.out.Redraw(text)
	}
}

// Clear takes the bar off the terminal, for a line of its own.
func (b *Gauge) Clear() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shown != "" {
		b.shown = ""
		b.out.Redraw("")
	}
}
