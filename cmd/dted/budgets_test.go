package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha512"
	"flag"
	"fmt"
	"io"
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

	"dtegate/engine/authority/simulator"
	"dtegate/engine/dte"
	"dtegate/plugins/plugintest"
	"dtegate/rules"
	"dtegate/rules/abi"
	"dtegate/rules/bundle"
)

var budgets = flag.Bool("budgets", false, "measure the budgets; run it alone")

// bench is one branch being measured against bare signatures with a key of the same size, and against the disk.
type bench struct {
	*branch
	bare *rsa.PrivateKey
	disk *os.File
	row  func(name string, measured, limit float64, unit string)
}

// TestBudgets prints what is measured beside its limit. Compared operations are interleaved one by one: from block to
// block the machine drifts more than they differ.
func TestBudgets(t *testing.T) {
	if !*budgets {
		t.Skip("make bench runs it")
	}
	bare, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{branch: newBranch(t), bare: bare}
	if b.disk, err = os.Create(filepath.Join(b.dir, "bare")); err != nil {
		t.Fatal(err)
	}
	defer b.disk.Close()
	b.row = func(name string, measured, limit float64, unit string) {
		verdict := "ok"
		if limit > 0 && measured > limit || limit < 0 && measured < -limit {
			verdict = "MISSED"
			t.Errorf("%s: %.2f", name, measured)
		}
		bound := fmt.Sprintf("≤ %g", limit)
		if limit < 0 {
			bound = fmt.Sprintf("≥ %g", -limit)
		}
		fmt.Printf("%-72s %9.2f %-3s %8s  %s\n", name, measured, unit, bound, verdict)
	}
	b.start()
	defer b.stop()
	if err := b.sim.Chaos(simulator.Chaos{Outage: true}); err != nil {
		t.Fatal(err)
	}
	for i := range 50 { // warm; the first finds that MH is away
		b.sell(t, i%8+1)
	}
	b.rules(t)
	b.alone(t)
	b.cpu(t)
	b.together(t)
	b.backtest(t)
	b.swaps(t)
	activations(t, b.row)
	b.printed(t)
	b.size(t)
}

// sale10 has ten lines and is issued in contingency: MH plays no part.
var sale10 = func() string {
	lines := make([]string, 10)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"codigo":"A-%04d","descripcion":"Artículo de la línea %d","cantidad":%d,"precioUnitario":%d.95,"montoDescu":0.5}`, i, i, i+1, i+3)
	}
	return `{"receptor":{"nombre":"Ana Morales","tipoDocumento":"13","numDocumento":"012345678","correo":"ana@example.com"},"items":[` + strings.Join(lines, ",") + `],"condicionOperacion":1}`
}()

func (b *bench) sell(t *testing.T, point int) {
	if status, body, err := b.post("/dte/dte01", point, "", sale10); err != nil || status != http.StatusCreated {
		t.Errorf("%d %v %s", status, err, body)
	}
}

var signed = bytes.Repeat([]byte("x"), 6000)

func (b *bench) sign() {
	sum := sha512.Sum512(signed)
	_, _ = rsa.SignPKCS1v15(nil, b.bare, crypto.SHA512, sum[:])
}

func (b *bench) sync() {
	_, _ = b.disk.Write(bytes.Repeat([]byte("x"), 9<<10))
	_ = b.disk.Sync()
}

func timed(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

func quantile(d []time.Duration, q float64) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[int(float64(len(d)-1)*q)]
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

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// cpu: what the appliance runs for one document, against what a process that only signs runs for one signature, when
// there is much to do: sixteen in flight against as many signatures on all cores, in turn. With one in flight nobody is
// short of CPU, and both are woken for each, which is told apart.
func (b *bench) cpu(t *testing.T) {
	const flight, round, rounds, singles = 16, 160, 15, 500
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	signer := exec.Command(self, "-test.run=^TestBareSigner$")
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
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, one); err != nil {
			t.Fatal(err)
		}
	}
	measure := func(n int, work func()) (document, signature time.Duration) {
		sign(1)
		document, signature = spent(t, b.cmd.Process.Pid), spent(t, signer.Process.Pid)
		work()
		return (spent(t, b.cmd.Process.Pid) - document) / time.Duration(n), (spent(t, signer.Process.Pid) - signature) / time.Duration(n)
	}
	document, signature := measure(round*rounds, func() {
		for range rounds {
			sign(round)
			var wg sync.WaitGroup
			for w := range flight {
				wg.Go(func() {
					for range round / flight {
						b.sell(t, w%8+1)
					}
				})
			}
			wg.Wait()
		}
	})
	b.row("process CPU per document, over HTTP, 16 in flight / bare RS512 signature", ratio(document, signature), 1.35, "x")
	fmt.Printf("    a document %v, a signature %v\n", document, signature)
	document, signature = measure(singles, func() {
		for i := range singles {
			sign(1)
			b.sell(t, i%8+1)
		}
	})
	fmt.Printf("    one in flight, each woken for: a document %v, a signature %v, %.2f x\n", document, signature, ratio(document, signature))
	_ = in.Close()
	_ = signer.Wait()
}

// TestBareSigner is the process that only signs, on all cores, as many times as the byte says that it is sent.
func TestBareSigner(t *testing.T) {
	if os.Getenv("DTED_BARE_SIGNER") == "" {
		t.Skip("part of the budgets")
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{bare: key}
	for n := []byte{0}; ; {
		if _, err := os.Stdin.Read(n); err != nil {
			os.Exit(0)
		}
		var left atomic.Int32
		left.Store(int32(n[0]))
		var wg sync.WaitGroup
		for range runtime.NumCPU() {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					b.sign()
				}
			})
		}
		wg.Wait()
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
	const flight, round, rounds = 16, 320, 5
	var latency []time.Duration
	var mu sync.Mutex
	throughput := func(point func(worker int) int) float64 {
		took := timed(func() {
			var wg sync.WaitGroup
			for w := range flight {
				wg.Go(func() {
					for range round / flight {
						d := timed(func() { b.sell(t, point(w)) })
						mu.Lock()
						latency = append(latency, d)
						mu.Unlock()
					}
				})
			}
			wg.Wait()
		})
		return round / took.Seconds()
	}
	parallel := func() float64 {
		took := timed(func() {
			var wg sync.WaitGroup
			for range runtime.NumCPU() {
				wg.Go(func() {
					for range round / runtime.NumCPU() {
						b.sign()
					}
				})
			}
			wg.Wait()
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

// rules: one evaluation and one fill, without anything around them.
func (b *bench) rules(t *testing.T) {
	ctx := context.Background()
	signed, err := bundle.Read(plugintest.Bundle(t, "dte01/v2"), []bundle.Key{plugintest.Key()}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for engine, limit := range map[string]float64{"compiler": 15, "interpreter": 150} {
		host, err := rules.NewHost(ctx, rules.Options{Engine: engine})
		if err != nil {
			t.Fatal(err)
		}
		r, err := host.LoadBundle(ctx, signed)
		if err != nil {
			t.Fatal(err)
		}
		in, facts := tenLines(r, 10)
		var out abi.Output
		var each []time.Duration
		for range 3000 {
			each = append(each, timed(func() { err = r.Module.Evaluate(ctx, in, &out) }))
			if err != nil {
				t.Fatal(err)
			}
		}
		b.row("rule evaluation, 10 lines, bounded, "+engine, float64(quantile(each, .5))/1000, limit, "µs")
		if engine == "compiler" {
			filler := plugintest.Filler(t, r)
			b.fill(t, filler, facts, &out, in.N, 30)
			in, facts = tenLines(r, 2000)
			if err := r.Module.Evaluate(ctx, in, &out); err != nil {
				t.Fatal(err)
			}
			b.fill(t, filler, facts, &out, in.N, 3000)
		}
		if err := host.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

func (b *bench) fill(t *testing.T, f *dte.Filler, facts dte.Value, out *abi.Output, n int, limit float64) {
	computed := &dte.Computed{N: n, Lines: out.Lines, Summary: out.Summary}
	var document []byte
	var each []time.Duration
	for range 300 {
		each = append(each, timed(func() {
			var faults []dte.Fault
			if document, faults = f.Fill(document[:0], facts, computed, dte.FillOptions{}); len(faults) > 0 {
				t.Fatal(faults)
			}
		}))
	}
	b.row(fmt.Sprintf("fill and check, %d lines", n), float64(quantile(each, .5))/1000, limit, "µs")
}

// tenLines is a document of n lines as the module and as the filler see it.
func tenLines(r *rules.Rule, n int) (*abi.Input, dte.Value) {
	d := r.Module.Description()
	in := &abi.Input{Params: r.Params, N: n}
	for _, f := range d.Scalars {
		in.Scalars = append(in.Scalars, map[bool]int64{true: 1, false: abi.Absent}[f.Kind == "present"])
	}
	var lines []dte.Value
	for i := range n {
		for _, f := range d.Columns {
			in.Lines = append(in.Lines, map[string]int64{"cantidad": int64(i%9+1) * dte.Scale, "precioUni": 695_000_000, "montoDescu": 50_000_000,
				"tipoItem": 1, "uniMedida": 59, "noGravado": abi.Absent}[f.Name])
		}
		line, err := dte.Parse(fmt.Appendf(nil, `{"numItem":%d,"tipoItem":1,"cantidad":%d,"uniMedida":59,"descripcion":"Artículo de la línea","precioUni":6.95}`, i+1, i%9+1))
		if err != nil {
			panic(err)
		}
		lines = append(lines, line)
	}
	facts, err := dte.Parse([]byte(`{"identificacion":{"ambiente":"00","numeroControl":"DTE-01-M001P001-000000000000001","codigoGeneracion":"FF84E5DB-79C5-42CE-B415-EC510C53EFB5","tipoModelo":1,"tipoOperacion":1,"fecEmi":"2026-12-02","horEmi":"10:15:30","tipoMoneda":"USD"},
"emisor":{"nit":"06141804941035","nrc":"2390516","nombre":"Tienda","codActividad":"47111","descActividad":"Venta en supermercados","direccion":{"departamento":"06","municipio":"23","distrito":"14","complemento":"Calle Arce"},"telefono":"22571234","correo":"a@example.com","codEstable":"M001","codPuntoVenta":"P001"},
"resumen":{"condicionOperacion":1,"pagos":[{"codigo":"01"}]}}`))
	if err != nil {
		panic(err)
	}
	return in, facts.With("cuerpoDocumento", dte.Arr(lines...))
}

// size: the stripped binary of both architectures.
func (b *bench) size(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		path := filepath.Join(b.dir, "dted-"+arch)
		cmd := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, ".")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		b.row("dted, stripped, "+arch, float64(info.Size())/(1<<20), 25, "MiB")
	}
}
