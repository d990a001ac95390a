package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/cmdtest/skip"
	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dtectl/demo"
	"dtegate/cmd/dtectl/disk"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/plugins/plugintest"
)

// TestLarge measures a branch with years of documents: DTE_LARGE=1, DTE_LARGE_N documents (1,000,000), DTE_LARGE_MORE
// further sales (a tenth), in the folder DTE_LARGE_DIR (a temporary folder). The documents are of DTE_LARGE_DAYS days
// (three years). A few real sales are copied until there are enough, each copy with its own code, number, date and
// signature, through the same two changes.
func TestLarge(t *testing.T) {
	skip.Unless(t, os.Getenv("DTE_LARGE") == "1", "make bench-large")
	l := newLarge(t)
	l.serve()
	l.care()
}

// large is the branch, its programs as processes.
type large struct {
	t        *testing.T
	dir, bin string
	cfg      *config.Config
	demo     *demo.Demo
	token    string
	n        int
}

// newLarge builds the programs, makes a branch and fills it.
func newLarge(t *testing.T) *large {
	l := &large{t: t, dir: os.Getenv("DTE_LARGE_DIR"), n: number(t, "DTE_LARGE_N", 1_000_000)}
	if l.dir == "" {
		l.dir = t.TempDir()
	}
	l.prepare()
	originals := l.originals()
	l.row("size of one document, as its rows hold it", float64(originals[0].bytes())/1024, 0, "KiB")
	const fitting = 3 // the store while it compacts, and its backup
	if free := int(l.free()); free < fitting*l.n*originals[0].bytes() {
		l.n = free / fitting / originals[0].bytes()
		t.Logf("%s free: only %d documents", term.Bytes(int64(free)), l.n)
	}
	l.row("documents stored one by one before", float64(l.n), 0, "")
	l.fill(originals)
	l.row("disk a document", float64(l.used(l.cfg.Data))/float64(l.n)/1024, 0, "KiB")
	return l
}

func number(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func (l *large) must(errs ...error) {
	l.t.Helper()
	for _, err := range errs {
		if err != nil {
			l.t.Fatal(err)
		}
	}
}

// row prints a measured value beside its limit; 0: no limit.
func (l *large) row(name string, measured, limit float64, unit string) {
	bound, verdict := "", ""
	if limit > 0 {
		bound, verdict = fmt.Sprintf("≤ %g", limit), "ok"
		if measured > limit {
			verdict = "MISSED"
			l.t.Errorf("%s: %.2f", name, measured)
		}
	}
	fmt.Printf("%-60s %11.2f %-4s %8s  %s\n", name, measured, unit, bound, verdict)
}

func (l *large) prepare() {
	l.t.Chdir(plugintest.Root(l.t))
	l.bin = l.t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", l.bin, "./cmd/dted", "./cmd/dtesim",
		"./cmd/dtectl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is packaged
	if out, err := build.CombinedOutput(); err != nil {
		l.t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"DTED_API_ADDR", "DTED_OPS_ADDR", "DTESIM_ADDR", "DTESIM_MANAGE_ADDR",
		"DTESIM_SMTP_ADDR"} {
		l.t.Setenv(name, cmdtest.Port(l.t))
	}
	dir := filepath.Join(l.dir, "branch")
	var err error
	l.demo, err = demo.New(context.Background(), dir, "")
	l.must(err)
	l.cfg, err = config.Load(l.demo.Config)
	l.must(err)
	token, err := os.ReadFile(filepath.Join(dir, "pos.token"))
	l.must(err)
	l.token = strings.TrimSpace(string(token))
}

// process starts a program; stop ends it as systemd does.
func (l *large) process(name string, args ...string) (pid int, stop func()) {
	l.t.Helper()
	cmd := exec.Command(filepath.Join(l.bin, name), args...)
	log := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	l.must(cmd.Start())
	return cmd.Process.Pid, func() {
		l.t.Helper()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			text := log.String()
			l.t.Errorf("%s: %v\n%s", name, err, text[max(0, len(text)-2000):])
		}
	}
}

func (l *large) authority() (stop func()) {
	_, stop = l.process("dtesim", "-issuers", filepath.Join(filepath.Dir(l.demo.Config), "issuers.json"))
	return stop
}

// dted starts the appliance and returns how long it took to be ready.
func (l *large) dted() (pid int, took time.Duration, stop func()) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	start := time.Now()
	pid, stop = l.process("dted", "-config", l.demo.Config)
	for {
		resp, err := http.Get("http://" + l.demo.Ops + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return pid, time.Since(start), stop
			}
		}
		if ctx.Err() != nil {
			stop()
			l.t.Fatalf("not ready: %v", err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (l *large) sell(path, body string) {
	req, err := http.NewRequest(http.MethodPost, "http://"+l.demo.API+path, strings.NewReader(body))
	l.must(err)
	req.Header.Set("X-Api-Token", l.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	l.must(err)
	answer, err := io.ReadAll(resp.Body)
	l.must(err, resp.Body.Close())
	if resp.StatusCode != http.StatusCreated {
		l.t.Fatalf("%d %s", resp.StatusCode, answer)
	}
}

// serve measures the appliance on it: start, memory, and memory after more sales.
func (l *large) serve() {
	stopAuthority := l.authority()
	defer stopAuthority()
	var starts []float64
	for range 3 {
		_, took, stop := l.dted()
		starts = append(starts, took.Seconds())
		stop()
	}
	slices.Sort(starts)
	l.row("start until /readyz, the middle of three", starts[1], 1, "s")
	pid, _, stop := l.dted()
	defer stop()
	for _, page := range []string{"/metrics", "/status", "/"} { // monitoring has read it
		resp, err := http.Get("http://" + l.demo.Ops + page)
		if err != nil {
			l.t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	l.row("resident memory then, its pages looked at", l.resident(pid), 192, "MiB")
	l.books()
	more := number(l.t, "DTE_LARGE_MORE", l.n/10)
	start := time.Now()
	l.sales(more / 5) // the caches fill: from then on memory is flat
	warm := l.resident(pid)
	l.row(fmt.Sprintf("resident memory after %d more sales", more/5), warm, 192, "MiB")
	l.sales(more - more/5)
	after := l.resident(pid)
	l.row(fmt.Sprintf("resident memory after %d more sales", more), after, 192, "MiB")
	l.row("of that grown since, flat: an eighth", after-warm, math.Round(warm/8), "MiB")
	l.row("sales a second, 16 tills, one series", float64(more)/time.Since(start).Seconds(), 0, "")
}

// sales sells n times from 16 tills.
func (l *large) sales(n int) {
	sale := saleLines(10)
	var next atomic.Int64
	var tills sync.WaitGroup
	for range 16 {
		tills.Go(func() {
			for next.Add(1) <= int64(n) {
				l.sell("/dte/dte01", sale)
			}
		})
	}
	tills.Wait()
}

// resident is a process's memory in MiB.
func (l *large) resident(pid int) float64 { return float64(cmdtest.Resident(l.t, pid)) / (1 << 20) }

// care measures what the operator does with the store, in this process.
func (l *large) care() {
	ctx := context.Background()
	top := &adminclient.Options{Config: l.demo.Config}
	timed := func(name string, command func() error) string {
		l.t.Helper()
		start := time.Now()
		text, err := barebox.Output(l.t, command)
		if err != nil {
			l.t.Errorf("%s: %v\n%s", name, err, text[max(0, len(text)-2000):])
		}
		l.row(name, time.Since(start).Seconds(), 0, "s")
		return text
	}
	timed("fsck", func() error { return (&disk.Fsck{}).Run(ctx, l.cfg) })
	backup := filepath.Join(l.dir, "backup")
	timed("backup, verified", func() error { return (&disk.Backup{Dir: backup}).Run(ctx, top) })
	timed("checking the backup", func() error { return (&disk.Backup{Dir: backup, Check: true}).Run(ctx, top) })
	l.must(os.RemoveAll(l.cfg.Data))
	timed("restore, verified", func() error { return (&disk.Recover{From: []string{backup}}).Run(ctx, l.cfg) })
}

func (l *large) free() int64 {
	var s syscall.Statfs_t
	l.must(syscall.Statfs(l.dir, &s))
	return int64(min(s.Bavail*uint64(s.Bsize), math.MaxInt64))
}

func (l *large) used(dir string) (size int64) {
	l.must(filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	}))
	return size
}
