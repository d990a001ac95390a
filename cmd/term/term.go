// Package term writes text for people. Text from outside (customers' names, operators' reasons, MH's words, anything in
// a record or an answer) may contain characters that move a terminal's cursor, clear the screen, or reverse the
// direction of reading. Two layers replace them by visible escapes. Fprintf escapes each argument, including line
// breaks and tabs: only the format sets the layout. The Writer escapes everything except line breaks and tabs, even
// text that bypasses Fprintf.
package term

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// Out and Err are the standard output and the standard error, for people.
var Out, Err = New(&os.Stdout), New(&os.Stderr)

// Data returns the standard output for programs, which must receive JSON and CSV without escapes. On a terminal, where
// a person reads it, Data returns Out.
func Data() io.Writer {
	if Out.Terminal() {
		return Out
	}
	return os.Stdout
}

// JSON writes v to Data as indented JSON.
func JSON(v any) error {
	e := json.NewEncoder(Data())
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Visible returns a text as one line without any character that a terminal obeys. Control and format characters, line
// and paragraph separators and code points without a character become \n, \r, \t, \u001b, \u202e, \U000e0001; bytes
// that are not UTF-8 become \xff.
func Visible(text string) string { return visible(text, false) }

// Lines applies Visible to each line of a text, and indents the lines after the first, so that no line of the text
// looks like a line of this program.
func Lines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Visible(line)
	}
	return strings.Join(lines, "\n  ")
}

func visible(text string, layout bool) string {
	plain := func(r rune) bool { return unicode.IsGraphic(r) || layout && (r == '\n' || r == '\t') }
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case plain(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		text = text[size:]
	}
	return b.String()
}

// Fprintf is fmt.Fprintf with each argument as Visible shows it. No width may come from an argument (%*d).
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	for i := range args {
		args[i] = shown{args[i]}
	}
	return fmt.Fprintf(w, format, args...)
}

// Printf writes to Out, and returns Out's errors.
func Printf(format string, args ...any) (int, error) { return Fprintf(Out, format, args...) }

type shown struct{ value any }

func (s shown) Format(f fmt.State, verb rune) {
	_, _ = io.WriteString(f, Visible(fmt.Sprintf(fmt.FormatString(f, verb), s.value))) // to a buffer
}

// Writer escapes the characters that a terminal would obey, except line breaks and tabs. It is safe for concurrent use.
type Writer struct {
	file **os.File

	mu   sync.Mutex
	rest []byte // the first bytes of an incomplete character
}

// New returns a writer to the file in a variable such as os.Stdout; the variable may change later.
func New(f **os.File) *Writer { return &Writer{file: f} }

// Terminal reports whether the file is a terminal.
func (w *Writer) Terminal() bool {
	info, err := (*w.file).Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Write writes p, but keeps an incomplete character at its end for the next Write.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := append(w.rest, p...)
	whole := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if b := text[len(text)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(text[len(text)-i:]) {
				whole = len(text) - i
			}
			break
		}
	}
	w.rest = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(*w.file, visible(string(text[:whole]), true)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Redraw replaces the current line of the terminal.
func (w *Writer) Redraw(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = io.WriteString(*w.file, "\r"+Visible(line)+"\x1b[K") // only a progress bar: ignore errors
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

// Columns returns a writer that aligns cells, each ended by a tab. Flush writes the aligned lines to out.
func Columns(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }

// Table writes a list in columns below a tab-separated heading. cells returns the cells of one line.
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

// Finding is one line of a doctor's report.
type Finding struct {
	Status string `json:"status"` // ok, warn or fail
	Check  string `json:"check"`
	// Setting is the setting at fault, "issuer.nrc", or "".
	Setting string `json:"setting,omitempty"`
	What    string `json:"what"`
	Do      string `json:"do,omitempty"` // empty only with ok
}

// Findings writes a doctor's report to the standard output, and returns the number of failed checks.
func Findings(asJSON bool, list []Finding) (failed int, err error) {
	w := Columns(Out)
	for _, f := range list {
		if f.Status == "fail" {
			failed++
		}
		_, _ = Fprintf(w, "%s\t%s\t%s\n", f.Status, f.Check, f.What) // to a buffer
		if f.Do != "" {
			_, _ = Fprintf(w, "\t\t→ %s\n", f.Do)
		}
	}
	if asJSON {
		return failed, JSON(list)
	}
	return failed, w.Flush()
}

// Gauge shows progress: a bar on a terminal, otherwise a line every gaugeEvery. A nil Gauge shows nothing.
type Gauge struct {
	mu    sync.Mutex
	out   *Writer
	began time.Time
	told  time.Time // when the last line was written, if out is no terminal
	shown string    // the bar on the terminal
}

const gaugeEvery = 10 * time.Second

// NewGauge returns a Gauge for out.
func NewGauge(out *Writer) *Gauge { return &Gauge{out: out, began: time.Now(), told: time.Now()} }

// Of shows done/total as a percentage, and an estimate of the time left.
func (b *Gauge) Of(done, total int64) {
	part := float64(done) / float64(max(total, 1))
	took, left := time.Since(b.began), ""
	rest := time.Duration(float64(took) / max(part, .01) * (1 - part)).Round(time.Second)
	if took > 2*time.Second && part > .01 && rest > 5*time.Second {
		left = ", " + rest.String() + " left"
	}
	b.Show(part, fmt.Sprintf("%3.0f %%%s", 100*part, left))
}

// Show shows the finished part of the work, 0 to 1, with a text.
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
	const narrowest = 79 // a broken line cannot be redrawn
	if len(line) > narrowest {
		line = append(line[:narrowest-1], '…')
	}
	if text = string(line); text != b.shown {
		b.shown = text
		b.out.Redraw(text)
	}
}

// Clear removes the bar from the terminal, so that a line of text can follow.
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
