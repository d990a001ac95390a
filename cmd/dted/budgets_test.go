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
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/plugins/plugintest"
	"dtegate/rules"
	"dtegate/rules/abi"
	"dtegate/rules/bundle"
)

var budgets = flag.Bool("budgets", false, "measure the budgets; run it alone")

// bench compares one branch with bare signatures by a key of the same size, and with the disk.
type bench struct {
	*branch
	bare *rsa.PrivateKey
	disk *os.File
	row  func(name string, measured, limit float64, unit string)
	till [9]sync.Pool // of *till, by point of sale
}

// TestBudgets prints measured values beside their limits. Compared operations alternate one by one: between blocks the
// machine drifts more than they differ.
func TestBudgets(t *testing.T) {
	skip.Unless(t, *budgets, "make bench")
	bare, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{branch: newBranch(t, everyRule...), bare: bare}
	if b.disk, err = os.Create(filepath.Join(b.dir, "bare")); err != nil {
		t.Fatal(err)
	}
	defer b.disk.Close()
	b.row = rows(t)
	b.startLazily()
	defer b.stop()
	b.outage(t)
	b.rules(t)
	b.alone(t)
	b.together(t)
	b.backtest(t)
	b.swaps(t)
	activations(t, b.row)
	b.printed(t)
	b.size(t)
	shares(t, b.row)
}

// rows prints measured values beside their limits: at most, or at least if the limit is negative.
func rows(t *testing.T) func(name string, measured, limit float64, unit string) {
	return func(name string, measured, limit float64, unit string) {
		verdict := "ok"
		if limit > 0 && measured > limit || limit < 0 && measured < -limit {
			verdict = "MISSED"
			t.Errorf("%s: %.2f", name, measured)
		}
		printRow(name, measured, limit, unit, verdict)
	}
}

// asked prints measured values beside the limits that were asked for first, and judges nothing: rows has the limits in
// force.
func asked(name string, measured, limit float64, unit string) {
	printRow(name, measured, limit, unit, "as first asked")
}

func printRow(name string, measured, limit float64, unit, verdict string) {
	bound := fmt.Sprintf("≤ %g", limit)
	if limit < 0 {
		bound = fmt.Sprintf("≥ %g", -limit)
	}
	fmt.Printf("%-72s %9.2f %-3s %8s  %s\n", name, measured, unit, bound, verdict)
}

// startLazily starts the appliance with the timer slack of its systemd unit; make run uses the kernel's own.
func (b *bench) startLazily() {
	unit, err := os.ReadFile(filepath.Join(plugintest.Root(b.t), "deploy", "dted.service"))
	if err != nil {
		b.t.Fatal(err)
	}
	_, setting, _ := strings.Cut(string(unit), "\nTimerSlackNSec=")
	setting, _, _ = strings.Cut(setting, "\n")
	slack, err := time.ParseDuration(setting)
	if err != nil {
		b.t.Fatal(err)
	}
	runtime.LockOSThread() // a process inherits the slack of this thread
	defer runtime.UnlockOSThread()
	set := func(slack time.Duration) {
		const setTimerSlack = 29
		if err := prctl(setTimerSlack, uintptr(slack)); err != nil {
			b.t.Fatal(err)
		}
	}
	set(slack)
	b.start()
	set(0) // the thread's own
}

// sale10 has ten lines and is issued in contingency: MH plays no part. facts10 is the same sale as the engine gets it.
var (
	sale10  = `{"receptor":` + customer10 + `,"items":[` + items10("", "precioUnitario") + `],"condicionOperacion":1}`
	facts10 = `{"receptor":` + customer10 + `,"cuerpoDocumento":[` +
		items10(`"numItem":%[2]d,"tipoItem":1,"uniMedida":59,`, "precioUni") + `],"resumen":{"condicionOperacion":1}}`
)

const customer10 = `{"nombre":"Ana Morales","tipoDocumento":"13","numDocumento":"012345678","correo":"ana@example.com"}`

// items10 returns ten lines, each with the given beginning and price name.
func items10(first, price string) string {
	lines := make([]string, 10)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{`+first+
			`"codigo":"A-%04[1]d","descripcion":"Artículo de la línea %[1]d","cantidad":%[2]d,"`+price+
			`":%[3]d.95,"montoDescu":0.5}`, i, i+1, i+3)
	}
	return strings.Join(lines, ",")
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

// rules measures one evaluation and one fill, and nothing around them.
func (b *bench) rules(t *testing.T) {
	ctx := context.Background()
	signed, err := bundle.Keys{Pinned: []bundle.Key{plugintest.Key()}}.Read(plugintest.Bundle(t, "dte01/v2"))
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

func (b *bench) fill(t *testing.T, f *schema.Filler, facts dte.Value, out *abi.Output, n int, limit float64) {
	computed := &schema.Computed{N: n, Lines: out.Lines, Summary: out.Summary}
	var document []byte
	var each []time.Duration
	for range 300 {
		each = append(each, timed(func() {
			var faults []dte.Fault
			if document, faults = f.Fill(document[:0], facts, computed, schema.FillOptions{}); len(faults) > 0 {
				t.Fatal(faults)
			}
		}))
	}
	b.row(fmt.Sprintf("fill and check, %d lines", n), float64(quantile(each, .5))/1000, limit, "µs")
}

// tenLines returns a document of n lines as the module and the filler see it.
func tenLines(r *rules.Rule, n int) (*abi.Input, dte.Value) {
	d := r.Module.Description()
	in := &abi.Input{Params: r.Params, N: n}
	for _, f := range d.Scalars {
		in.Scalars = append(in.Scalars, map[bool]int64{true: 1, false: abi.Absent}[f.Kind == "present"])
	}
	var lines []dte.Value
	for i := range n {
		for _, f := range d.Columns {
			in.Lines = append(in.Lines, map[string]int64{"cantidad": int64(i%9+1) * dte.Scale, "precioUni": 695_000_000,
				"montoDescu": 50_000_000,
				"tipoItem":   1, "uniMedida": 59, "noGravado": abi.Absent}[f.Name])
		}
		line, err := dte.Parse(fmt.Appendf(nil,
			`{"numItem":%d,"tipoItem":1,"cantidad":%d,"uniMedida":59,"descripcion":"Artículo de la línea","precioUni":6.95,"montoDescu":0.50}`, i+1, i%9+1))
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

// size measures the binary of both architectures, as packaged.
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
		b.row("dted, stripped, "+arch, float64(info.Size())/(1<<20), 40, "MiB")
	}
}
