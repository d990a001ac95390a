package pdf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// lengthened repeats the lines of a fixture until there are n.
func lengthened(t testing.TB, name string, n int) Document {
	t.Helper()
	d := fixture(t, name, Processed)
	var tree map[string]json.RawMessage
	var lines []map[string]json.RawMessage
	if err := json.Unmarshal(d.JSON, &tree); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(tree["cuerpoDocumento"], &lines); err != nil {
		t.Fatal(err)
	}
	out := make([]map[string]json.RawMessage, n)
	for i := range out {
		line := map[string]json.RawMessage{}
		for k, v := range lines[i%len(lines)] {
			line[k] = v
		}
		line["numItem"] = json.RawMessage(fmt.Sprint(i + 1))
		out[i] = line
	}
	var err error
	if tree["cuerpoDocumento"], err = json.Marshal(out); err != nil {
		t.Fatal(err)
	}
	if d.JSON, err = json.Marshal(tree); err != nil {
		t.Fatal(err)
	}
	return d
}

// least runs f several times and gives the shortest time: what the work takes when nothing else runs.
func least(n int, f func()) time.Duration {
	best := time.Hour
	for range n {
		start := time.Now()
		f()
		best = min(best, time.Since(start))
	}
	return best
}

// TestBudget holds the promises of size and time: 2,000 lines on letter size in 1.5 s and 40 MiB, a ticket in 5 ms.
func TestBudget(t *testing.T) {
	alone(t)
	p := printer(t)
	big, usual := lengthened(t, "dte03", 2000), lengthened(t, "dte01", 8)

	pages := p.pages(t, big, Letter)
	checkBoxes(t, "2,000 lines", p.fonts, pages, Letter)
	if last := listing(pages[len(pages)-1:]); !bytes.Contains([]byte(last), fmt.Appendf(nil, "Página %d de %d",
		len(pages), len(pages))) {
		t.Errorf("last page: %s", last)
	}
	d := least(5, func() { render(t, p, big, Letter) })
	t.Logf("2,000 lines take %v on %d pages", d, len(pages))
	if d > 1500*time.Millisecond {
		t.Errorf("2,000 lines take %v", d)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	render(t, p, big, Letter)
	runtime.ReadMemStats(&after)
	if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 48 { // each MiB brings the next collection nearer
		t.Errorf("2,000 lines make %d MiB", made)
	}
	for _, l := range []Layout{Ticket80, Ticket58} {
		d := least(50, func() { render(t, p, usual, l) })
		t.Logf("%s takes %v", l, d)
		if d > 5*time.Millisecond {
			t.Errorf("%s takes %v", l, d)
		}
	}
}

// TestBudget_Memory renders 2,000 lines in a process of its own, and measures the peak of its heap. The collector has a
// limit, and stops the program while it works: garbage that a busy machine leaves for later is not what the document
// needs.
func TestBudget_Memory(t *testing.T) {
	alone(t)
	const child = "PDF_MEMORY_CHILD"
	if os.Getenv(child) == "" {
		c := exec.Command(os.Args[0], "-test.run=^TestBudget_Memory$", "-test.v")
		c.Env = append(os.Environ(), child+"=1", "GOMEMLIMIT=36MiB", "GOGC=100", "GODEBUG=gcstoptheworld=1")
		out, err := c.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	p, big := printer(t), lengthened(t, "dte03", 2000)
	if err := p.Render(io.Discard, big, Letter); err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("heap at its highest: %d MiB, printer and document included", m.HeapSys>>20)
	if m.HeapSys > 40<<20 {
		t.Errorf("2,000 lines take %d MiB", m.HeapSys>>20)
	}
}

func BenchmarkRender(b *testing.B) {
	p := printer(b)
	for _, c := range []struct {
		name   string
		d      Document
		layout Layout
	}{
		{"ticket80/8", lengthened(b, "dte01", 8), Ticket80}, {"ticket58/8", lengthened(b, "dte01", 8), Ticket58},
		{"letter/8", lengthened(b, "dte03", 8), Letter}, {"letter/2000", lengthened(b, "dte03", 2000), Letter},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Render(io.Discard, c.d, c.layout); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("escpos/8", func(b *testing.B) {
		d := lengthened(b, "dte01", 8)
		b.ReportAllocs()
		for b.Loop() {
			if err := p.ESCPOS(io.Discard, d, Ticket80); err != nil {
				b.Fatal(err)
			}
		}
	})
}
