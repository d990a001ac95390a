package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/engine/dte"
)

// books measures the books of last month while a till sells: their duration, their memory, and the delay of the till's
// sales. The till sells alone and beside the books in turn.
func (l *large) books() {
	now := time.Now()
	month := dte.Date(now.AddDate(0, -1, 1-now.Day()))[:7]
	var took []float64
	var alone, beside []time.Duration
	held := 0.0
	for range 3 {
		alone = append(alone, l.paced(time.After(5*time.Second))...)
		done := make(chan time.Time)
		start := time.Now()
		go func() {
			defer close(done)
			held = max(held, l.bookkeeper(month))
			took = append(took, time.Since(start).Seconds())
		}()
		beside = append(beside, l.paced(done)...)
	}
	slices.Sort(took)
	p99 := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)*99/100]) / float64(time.Millisecond)
	}
	l.row("books of last month, the middle of three", took[1], 60, "s")
	l.row("memory that dtectl books holds at most", held, 256, "MiB")
	l.row(fmt.Sprintf("a till's p99 alone, %d sales", len(alone)), p99(alone), 0, "ms")
	l.row(fmt.Sprintf("a till's p99 beside the books, %d sales", len(beside)), p99(beside), 0, "ms")
	l.row("p99 beside the books / alone", p99(beside)/p99(alone), 1.5, "x")
}

// paced sells 20 times a second until it is stopped, and returns the duration of each sale.
func (l *large) paced(end <-chan time.Time) (took []time.Duration) {
	sale := saleLines(10)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-end:
			return took
		case <-tick.C:
			start := time.Now()
			l.sell("/dte/dte01", sale)
			took = append(took, time.Since(start))
		}
	}
}

// bookkeeper runs dtectl books and returns its largest memory, in MiB.
func (l *large) bookkeeper(month string) float64 {
	out := filepath.Join(l.t.TempDir(), "books")
	self, err := os.Executable()
	l.must(err)
	cmd := exec.Command(self, "-test.run=^TestLarge_Peak$", "-test.v")
	cmd.Env = append(os.Environ(), "DTE_LARGE_PEAK="+strings.Join([]string{filepath.Join(l.bin, "dtectl"), "-c",
		l.demo.Config, "books", "--month", month, "--out", out}, "\n"))
	text, err := cmd.CombinedOutput()
	m := regexp.MustCompile(`held (\d+) KiB`).FindSubmatch(text)
	if err != nil || m == nil {
		l.t.Fatalf("%v\n%s", err, text)
	}
	most, err := strconv.Atoi(string(m[1]))
	l.must(err)
	rows, err := os.ReadFile(filepath.Join(out, "resumen.json"))
	l.must(err)
	if month := regexp.MustCompile(`"cantidad": (\d+)`).FindSubmatch(rows); month == nil {
		l.t.Errorf("the books hold nothing: %s", rows)
	}
	return float64(most) / 1024
}

// TestLarge_Peak is a separate process that runs a program and reports its largest memory. Linux counts a parent's
// memory at the start for a new process: the test itself uses more memory than dtectl.
func TestLarge_Peak(t *testing.T) {
	args := strings.Split(os.Getenv("DTE_LARGE_PEAK"), "\n")
	skip.Unless(t, args[0] != "", "make bench-large")
	cmd := exec.Command(args[0], args[1:]...)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatal("no resource usage of an ended process")
	}
	fmt.Printf("held %d KiB\n", used.Maxrss)
}

// TestLarge_Books measures the books alone: DTE_LARGE_BOOKS=1, the other settings as for TestLarge.
func TestLarge_Books(t *testing.T) {
	skip.Unless(t, os.Getenv("DTE_LARGE_BOOKS") == "1", "make bench-large")
	l := newLarge(t)
	stopAuthority := l.authority()
	defer stopAuthority()
	_, _, stop := l.dted()
	defer stop()
	l.books()
}
