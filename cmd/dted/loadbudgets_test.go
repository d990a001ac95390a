package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// till sends one sale again and again over a connection that it keeps. It does nothing else: it runs on the cores that
// are measured, where net/http's client would take a fifth of a document's time.
type till struct {
	conn net.Conn
	in   *bufio.Reader
	sale []byte
}

func (b *bench) newTill(point int) (*till, error) {
	conn, err := net.Dial("tcp", b.api)
	if err != nil {
		return nil, err
	}
	return &till{conn, bufio.NewReaderSize(conn, 32<<10), fmt.Appendf(nil,
		"POST /dte/dte01 HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nx-api-token: %s%d\r\nContent-Length: %d\r\n\r\n%s",
		b.api, testToken, point, len(sale10), sale10)}, nil
}

// ring returns the status, and what came with it when it is not that of a record.
func (t *till) ring() (int, []byte, error) {
	if _, err := t.conn.Write(t.sale); err != nil {
		return 0, nil, err
	}
	status, length := 0, 0
	for {
		line, err := t.in.ReadSlice('\n')
		if err != nil {
			return 0, nil, err
		}
		if len(line) == 2 {
			break
		}
		if text, ok := bytes.CutPrefix(line, []byte("HTTP/1.1 ")); ok {
			status, err = strconv.Atoi(string(text[:3]))
		} else if text, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, err = strconv.Atoi(string(bytes.TrimSpace(text)))
		}
		if err != nil {
			return 0, nil, err
		}
	}
	if status == http.StatusCreated {
		_, err := t.in.Discard(length)
		return status, nil, err
	}
	body := make([]byte, length)
	_, err := io.ReadFull(t.in, body)
	return status, body, err
}

func (b *bench) sell(t *testing.T, point int) {
	at, ok := b.till[point].Get().(*till)
	var err error
	if !ok {
		at, err = b.newTill(point)
	}
	var status int
	var body []byte
	if err == nil {
		status, body, err = at.ring()
	}
	if err != nil || status != http.StatusCreated {
		t.Errorf("%d %v %s", status, err, body)
		return
	}
	b.till[point].Put(at)
}

// alone: one request in flight.
func (b *bench) alone(t *testing.T) {
	const n = 1500
	var requests, floor []time.Duration
	for i := range n {
		floor = append(floor, timed(b.sign)+timed(b.sync))
		requests = append(requests, timed(func() { b.sell(t, i%8+1) }))
	}
	b.row("p50, 1 in flight / one bare signature and one fsync of 9 KB", ratio(quantile(requests, .5), quantile(floor, .5)), 1.4, "x")
	b.row("p99, 1 in flight / one bare signature and one fsync of 9 KB (its p50)", ratio(quantile(requests, .99), quantile(floor, .5)), 3, "x")
	fmt.Printf("    p50 %v, p99 %v; floor p50 %v, p99 %v\n", quantile(requests, .5), quantile(requests, .99), quantile(floor, .5), quantile(floor, .99))
}

// all does n pieces of work with some workers, none of which is idle while there is more.
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

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// cpu: what the appliance runs for one document, against what a process that only signs runs for one signature, when
// there is much to do: sixteen in flight, and signatures beside them, on the same cores at the same time. With one in
// flight nobody is short of CPU, and both are woken for each, which is told apart.
func (b *bench) cpu(t *testing.T) {
	const flight, documents, few, singles = 16, 4800, 4, 500
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
	// measure is the CPU time of the appliance and of the other process, while work runs.
	measure := func(work func()) (documents, signatures time.Duration) {
		documents, signatures = spent(t, b.cmd.Process.Pid), spent(t, signer.Process.Pid)
		work()
		return spent(t, b.cmd.Process.Pid) - documents, spent(t, signer.Process.Pid) - signatures
	}
	signatures := 0
	document, signature := measure(func() {
		stop := make(chan struct{})
		var beside sync.WaitGroup
		beside.Go(func() {
			for !t.Failed() {
				select {
				case <-stop:
					return
				default:
					sign(few)
					signatures += few
				}
			}
		})
		all(flight, documents, func(w int) { b.sell(t, w%8+1) })
		close(stop)
		beside.Wait()
	})
	document, signature = document/documents, signature/time.Duration(signatures)
	b.row("process CPU per document, over HTTP, 16 in flight / bare RS512 signature", ratio(document, signature), 1.35, "x")
	fmt.Printf("    a document %v, a signature %v\n", document, signature)
	document, signature = measure(func() {
		for i := range singles {
			sign(1)
			b.sell(t, i%8+1)
		}
	})
	fmt.Printf("    one in flight, each woken for: a document %v, a signature %v, %.2f x\n", document/singles, signature/singles, ratio(document, signature))
	_ = in.Close()
	_ = signer.Wait()
}

// bareSigner is what the process that only signs does, on all cores, as many times as the byte says that it is sent.
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

// spent is the time that a process's threads have run.
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

// together: sixteen requests in flight, on eight series and on one, against parallel bare signatures.
func (b *bench) together(t *testing.T) {
	const flight, round, rounds = 16, 960, 7
	var latency []time.Duration
	var mu sync.Mutex
	throughput := func(point func(worker int) int) float64 {
		took := timed(func() {
			all(flight, round, func(w int) {
				d := timed(func() { b.sell(t, point(w)) })
				mu.Lock()
				latency = append(latency, d)
				mu.Unlock()
			})
		})
		return round / took.Seconds()
	}
	parallel := func() float64 {
		took := timed(func() {
			all(runtime.NumCPU(), round, func(int) { b.sign() })
		})
		return round / took.Seconds()
	}
	var eight, one []float64
	var spread []time.Duration
	for range rounds {
		floor := parallel()
		latency = nil
		eight = append(eight, throughput(func(w int) int { return w%8 + 1 })/floor)
		spread = append(spread, latency...)
		floor = parallel()
		one = append(one, throughput(func(int) int { return 1 })/floor)
	}
	slices.Sort(eight)
	slices.Sort(one)
	b.row("documents/s, 16 in flight on 8 series / parallel bare signatures/s", eight[rounds/2], -0.80, "x")
	b.row("documents/s, 16 in flight on 1 series / parallel bare signatures/s", one[rounds/2], -0.45, "x")
	b.row("p99 / p50, 16 in flight on 8 series", ratio(quantile(spread, .99), quantile(spread, .5)), 4, "x")
}
