// Package abitest is the conformance kit of rule modules: Run checks a guest, whatever language it is written in,
// against the rules of rules/abi/README.md for every module, in compiler and interpreter. Only its author knows the
// right amounts: the golden cases of its bundle check those.
package abitest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"dtegate/rules"
	"dtegate/rules/abi"
)

// Options of Run and Examine.
type Options struct {
	// Params are the module's parameters in the order of its description, in 1e-8; default 1.00 each.
	Params []int64
	// Documents are sales that the module must accept; their Params may be missing. Without Documents, only invented
	// sales are tried, which the module may refuse.
	Documents []abi.Input
	// Calls is the number of calls during which the module's memory must not grow, after twice as many calls; default
	// 10,000.
	Calls int
	// Fuel is the budget of a call. Fuel and CacheDir have the defaults of rules.Options.
	Fuel     int64
	CacheDir string
}

// Finding is a fault of a module.
type Finding struct{ Check, Text string }

// Report is the result of an examination.
type Report struct {
	Description *abi.Description
	Findings    []Finding
	// Fuel is the most fuel that a call used; the calls include one of 2,000 lines. A manifest should declare ten times
	// as much.
	Fuel int64
}

// Run examines a module and fails the test for each finding.
func Run(t *testing.T, wasm []byte, o Options) {
	t.Helper()
	r, err := Examine(t.Context(), wasm, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		t.Errorf("%s: %s", f.Check, f.Text)
	}
	t.Logf("%s: a call used at most %d units of fuel; a manifest declares ten times that, \"fuel\": %d",
		r.Description.Name, r.Fuel, 10*r.Fuel)
}

// Examine runs every check on a module. The error says why it cannot be loaded at all.
func Examine(ctx context.Context, wasm []byte, o Options) (_ *Report, err error) {
	if o.Calls == 0 {
		o.Calls = 10_000
	}
	x := &examination{options: o}
	for _, engine := range []string{"compiler", "interpreter"} {
		host, err := rules.NewHost(ctx, rules.Options{Engine: engine, Fuel: o.Fuel, CacheDir: o.CacheDir})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, host.Close(ctx)) }()
		m, err := host.Load(ctx, wasm)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", engine, err)
		}
		x.engines = append(x.engines, m)
	}
	d := x.engines[0].Description()
	x.report.Description = d
	if o.Params == nil {
		for range d.Params {
			o.Params = append(o.Params, 1e8)
		}
	}
	x.prepare(o.Params)
	for _, check := range []struct {
		name string
		run  func(context.Context) error
	}{{"documents", x.takes}, {"determinism", x.determinism}, {"sizes", x.sizes}, {"extremes", x.extremes},
		{"overflow", x.overflow}, {"lying headers", x.liars}, {"growth", x.growth}} {
		x.name = check.name
		if err := check.run(ctx); err != nil {
			x.find("%v", err)
		}
	}
	for _, m := range x.engines {
		x.report.Fuel = max(x.report.Fuel, m.Peak())
	}
	return &x.report, nil
}

// examination of one module.
type examination struct {
	options   Options
	engines   []*rules.Module
	documents []abi.Input // the module accepts them
	made      []abi.Input // invented: the module may refuse them
	name      string      // name of the check under way
	report    Report
}

// find notes a finding, at most a few of each kind.
func (x *examination) find(format string, args ...any) {
	const enough = 5
	n := 0
	for _, f := range x.report.Findings {
		if f.Check == x.name {
			n++
		}
	}
	if n < enough {
		x.report.Findings = append(x.report.Findings, Finding{x.name, fmt.Sprintf(format, args...)})
	}
}

// prepare completes the documents and invents further ones.
func (x *examination) prepare(params []int64) {
	d := x.report.Description
	if len(params) != len(d.Params) {
		x.name = "description"
		x.find("it names %d parameters, %d are given", len(d.Params), len(params))
		params = append(params, make([]int64, len(d.Params))...)[:len(d.Params)]
	}
	for _, in := range x.options.Documents {
		if in.Params == nil {
			in.Params = params
		}
		x.documents = append(x.documents, in)
	}
	x.made = made(d, params)
}
