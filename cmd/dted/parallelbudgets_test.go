package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/dte"
	records "dtegate/engine/record"
)

const flight = 16

// issuer10 is a process that issues documents of ten lines, for as many callers at a time as there are.
type issuer10 struct {
	pid   int
	issue func(point int)
}

func (b *bench) overHTTP(t *testing.T) issuer10 {
	return issuer10{b.cmd.Process.Pid, func(point int) { b.sell(t, point) }}
}

// inProcess opens the appliance in this process, until stop: documents without HTTP.
func (b *bench) inProcess(t *testing.T) (i issuer10, stop func()) {
	procs := runtime.GOMAXPROCS(0)
	tune()
	cfg, err := config.Load(filepath.Join(b.dir, "dted.toml"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	d, err := open(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	facts, err := dte.Parse([]byte(facts10))
	if err != nil {
		t.Fatal(err)
	}
	issue := func(point int) {
		r, err := d.engine.Issue(ctx, engine.Request{Document: "01", Facts: facts,
			Caller: records.Caller{TokenID: int64(10 + point),
				Point: records.Point{ID: int64(point), BranchID: 3, Establishment: "M001", PointOfSale: fmt.Sprintf("P%03d",
					point)}}})
		if err != nil || r.Estado != records.EstadoContingency {
			t.Errorf("%+v %v", r, err)
		}
	}
	return issuer10{os.Getpid(), issue}, func() {
		runtime.GOMAXPROCS(procs)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// together: sixteen in flight. First from the disk, as tills would see it; then the processor alone, on a file system
// in memory, to exclude a device's syncs.
func (b *bench) together(t *testing.T) {
	over := b.overHTTP(t)
	cpu(t, "over HTTP, from the disk, one in flight", over, inTurn)
	asked("process CPU per document, over HTTP and from the disk / bare signature", cpu(t, "over HTTP, from the disk",
		over, beside), 1.20, "x")
	eight, one, latency := b.perSecond("over HTTP, from the disk", over)
	asked("documents/s over HTTP and from the disk, 8 series / signatures/s", eight, -0.85, "x")
	b.row("p99 / p50, 16 in flight on 8 series", ratio(quantile(latency, .99), quantile(latency, .5)), 4, "x")
	b.row("documents/s over HTTP, 1 series, 16 in flight / parallel signatures/s", one, -0.45, "x")

	t.Run("in memory", func(t *testing.T) {
		const memory, needed = "/dev/shm", 1 << 30 // bytes
		var at syscall.Statfs_t
		if err := syscall.Statfs(memory, &at); err != nil || at.Bavail*uint64(at.Bsize) < needed {
			fmt.Printf("    %s has no GiB free: what follows pays for the disk's syncs\n", memory)
		} else {
			t.Setenv("TMPDIR", memory)
		}
		m := &bench{branch: newBranch(t, everyRule...), bare: b.bare}
		m.startLazily()
		m.outage(t)
		over := m.overHTTP(t)
		b.row("process CPU per document, over HTTP, 16 in flight / bare signature", cpu(t, "over HTTP, in memory", over,
			beside), 1.35, "x")
		b.perSecond("over HTTP, in memory", over)
		m.stop()
		plain, stop := m.inProcess(t)
		defer stop()
		cpu(t, "without HTTP, in memory", plain, beside)
		eight, one, _ := b.perSecond("without HTTP, in memory", plain)
		b.row("documents/s, 8 series, 16 in flight / parallel signatures/s", eight, -0.80, "x")
		b.row("documents/s, 1 series, 16 in flight / parallel signatures/s", one, -0.45, "x")
	})
}

// outage takes MH away, and the appliance knows it.
func (b *bench) outage(t *testing.T) {
	b.chaos(simulator.Chaos{Outage: true})
	for i := range 50 {
		b.sell(t, i%8+1)
	}
}

// perSecond returns the documents a second on eight series and on one, divided by the parallel bare signatures a
// second, and the durations on eight series; it prints them. They take turns, a quarter of a second each, because the
// machine drifts.
func (b *bench) perSecond(where string, i issuer10) (eight, one float64, latency []time.Duration) {
	const rounds, round = 30, 320
	var mu sync.Mutex
	var signature, onEight, onOne time.Duration
	sign := func() { signature += steady(runtime.NumCPU(), round, func(int) { b.sign() }) / 2 }
	for range rounds {
		sign()
		onEight += steady(flight, round, func(w int) {
			d := timed(func() { i.issue(w%8 + 1) })
			mu.Lock()
			latency = append(latency, d)
			mu.Unlock()
		})
		sign()
		onOne += steady(flight, round, func(int) { i.issue(1) })
	}
	eight, one = ratio(signature, onEight), ratio(signature, onOne)
	fmt.Printf("    %s: documents/s on 8 series %.2f x parallel bare signatures/s, on 1 series %.2f x\n", where, eight,
		one)
	return eight, one, latency
}

// all does n pieces of work with some workers, none of which is idle while there is more work.
func all(workers, n int, work func(worker int)) {
	var left atomic.Int32
	left.Store(int32(n))
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				work(w)
			}
		})
	}
	wg.Wait()
}

// steady returns the duration of each of n pieces of work while all workers work: the first and the last pieces are not
// counted.
func steady(workers, n int, work func(worker int)) time.Duration {
	var done atomic.Int32
	var from, to time.Time
	all(workers, n, func(w int) {
		work(w)
		switch int(done.Add(1)) {
		case workers:
			from = time.Now()
		case n - workers:
			to = time.Now()
		}
	})
	return to.Sub(from) / time.Duration(n-2*workers)
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// cpu returns the CPU time of an issuer for one document, divided by the CPU time of a signing process for one
// signature, while work makes both do this many; it prints them. sign makes the signing process sign n times.
func cpu(t *testing.T, where string, i issuer10, work func(i issuer10, sign func(n byte)) (documents,
	signatures int)) float64 {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	signer := exec.Command(self)
	signer.Env = append(os.Environ(), "DTED_BARE_SIGNER=1")
	in, err := signer.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := signer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := signer.Start(); err != nil {
		t.Fatal(err)
	}
	sign := func(n byte) {
		one := []byte{n}
		if _, err := in.Write(one); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(out, one); err != nil {
			t.Error(err)
		}
	}
	sign(1)
	document, signature := spent(t, i.pid), spent(t, signer.Process.Pid)
	documents, signatures := work(i, sign)
	document, signature = spent(t, i.pid)-document, spent(t, signer.Process.Pid)-signature
	_ = in.Close()
	_ = signer.Wait()
	document, signature = document/time.Duration(documents), signature/time.Duration(signatures)
	fmt.Printf("    %s: CPU of a document %v, of a bare signature %v, %.2f x\n", where, document, signature,
		ratio(document, signature))
	return ratio(document, signature)
}

// beside: a busy machine, with sixteen documents in flight and signatures on the same cores.
func beside(i issuer10, sign func(byte)) (documents, signatures int) {
	const n, few = 4800, 4
	stop := make(chan struct{})
	var signer sync.WaitGroup
	signer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				sign(few)
				signatures += few
			}
		}
	})
	all(flight, n, func(w int) { i.issue(w%8 + 1) })
	close(stop)
	signer.Wait()
	return n, signatures
}

// inTurn: one document, one signature.
func inTurn(i issuer10, sign func(byte)) (documents, signatures int) {
	const n = 500
	for k := range n {
		sign(1)
		i.issue(k%8 + 1)
	}
	return n, n
}

// bareSigner is the process that only signs, on all cores, as many times as the byte that it reads says.
func bareSigner() {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	b := &bench{bare: key}
	for n := []byte{0}; ; {
		if _, err := os.Stdin.Read(n); err != nil {
			os.Exit(0)
		}
		all(runtime.NumCPU(), int(n[0]), func(int) { b.sign() })
		_, _ = os.Stdout.Write(n)
	}
}

// spent returns the time that a process's threads have run.
func spent(t *testing.T, pid int) (sum time.Duration) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no threads: %v", err)
	}
	for _, path := range threads {
		sum += ran(t, path)
	}
	return sum
}

// ran reads the scheduler's own count, in nanoseconds; getrusage and stat are sampled at ticks.
func ran(t *testing.T, path string) time.Duration {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n)
}
