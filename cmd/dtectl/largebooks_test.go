package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"dtegate/engine/dte"
)

// books measures the books of last month beside a till that sells: how long they take, what they hold in memory, and what the
// till feels of it. The till sells alone and beside the books in turn.
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

// paced sells 20 times a second until it is told to end, and returns how long each sale took.
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

// bookkeeper runs dtectl books and returns the most memory that it held, in MiB.
func (l *large) bookkeeper(month string) float64 {
	out := filepath.Join(l.t.TempDir(), "books")
	pid, stop := l.process("dtectl", "-c", l.demo.config, "books", "--month", month, "--out", out)
	most := 0.0
	peak := regexp.MustCompile(`VmHWM:\s+(\d+) kB`)
	for {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		m := peak.FindSubmatch(status)
		if err != nil || m == nil { // it has ended
			break
		}
		n, err := strconv.Atoi(string(m[1]))
		l.must(err)
		most = max(most, float64(n)/1024)
		time.Sleep(5 * time.Millisecond)
	}
	stop()
	rows, err := os.ReadFile(filepath.Join(out, "resumen.json"))
	l.must(err)
	if month := regexp.MustCompile(`"cantidad": (\d+)`).FindSubmatch(rows); month == nil {
		l.t.Errorf("the books hold nothing: %s", rows)
	}
	return most
}

// TestLarge_Books measures the books alone: DTE_LARGE_BOOKS=1, the other settings as TestLarge.
func TestLarge_Books(t *testing.T) {
	if os.Getenv("DTE_LARGE_BOOKS") != "1" {
		t.Skip("TestLarge measures it too")
	}
	l := &large{t: t, dir: os.Getenv("DTE_LARGE_DIR"), n: number(t, "DTE_LARGE_N", 1_000_000)}
	if l.dir == "" {
		l.dir = t.TempDir()
	}
	l.prepare()
	l.fill(l.templates())
	stopAuthority := l.authority()
	defer stopAuthority()
	_, _, stop := l.dted()
	defer stop()
	l.books()
}
