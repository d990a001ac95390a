package plugintest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/rules"
	"dtegate/rules/abi"
)

// Document is one random document of AgreeOn, as the rule answered it and as it was filled.
type Document struct {
	Facts, Filled dte.Value
	In            *abi.Input
	Out           *abi.Output
}

// AgreeOn is Agree for a rule that does not compute sales. random makes the facts of a document that the rule must
// accept; check makes further checks of the answer.
func AgreeOn(t *testing.T, name string, d *abi.Description, evaluate Evaluate, random func(*rand.Rand) dte.Value, check func(*testing.T, *Document)) {
	documents := 150
	if os.Getenv("DTE_SOAK") != "" {
		documents = 5000
	}
	r, filler := Load(t, name, "compiler")
	slow := Rule(t, name, "interpreter")
	if got := r.Module.Description(); got.Name != d.Name || !reflect.DeepEqual(got.Summary, d.Summary) || !reflect.DeepEqual(got.Faults, d.Faults) {
		t.Fatalf("the module describes itself as %+v", got)
	}
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(2026, 12))
	for i := range documents {
		doc := Document{Facts: random(rng)}
		in := InputOf(t, d, r.Params, doc.Facts)
		var native, compiled, interpreted abi.Output
		evaluate(&in, &native)
		for answer, m := range map[*abi.Output]*rules.Module{&compiled: r.Module, &interpreted: slow.Module} {
			if err := m.Evaluate(context.Background(), &in, answer); err != nil {
				t.Fatalf("document %d: %v", i, err)
			}
		}
		if !same(&native, &compiled) || !same(&native, &interpreted) {
			t.Fatalf("document %d: native %+v\ncompiled %+v\ninterpreted %+v", i, native, compiled, interpreted)
		}
		doc.In, doc.Out = &in, &native
		filled := Fill(t, filler, doc.Facts, d, &in, &native)
		doc.Filled = Read(t, filled)
		check(t, &doc)
		if t.Failed() {
			t.Fatalf("document %d: %s", i, doc.Facts.Append(nil))
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.json", i)), filled, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	Recalc(t, dir, documents, d.Name == "retorno")
}

// Fill writes the document of a module's answer. A refusal, of the module or of the schema, ends the test.
func Fill(t testing.TB, filler *schema.Filler, facts dte.Value, d *abi.Description, in *abi.Input, out *abi.Output) []byte {
	t.Helper()
	for _, f := range out.Faults {
		if !d.Faults[f.Code].Warning {
			t.Fatalf("refused: %s at line %d, column %d\n%s", d.Faults[f.Code].Code, f.Line, f.Column, facts.Append(nil))
		}
	}
	b, faults := filler.Fill(nil, facts, computed(in, out), schema.FillOptions{})
	if len(faults) > 0 {
		t.Fatalf("not filled: %v\n%s", faults, facts.Append(nil))
	}
	return b
}

// Read parses JSON.
func Read(t testing.TB, b []byte) dte.Value {
	t.Helper()
	v, err := dte.Parse(b)
	if err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return v
}

// Amount is a summary field of an answer, in 1e-8.
func Amount(t testing.TB, d *abi.Description, out *abi.Output, name string) int64 {
	t.Helper()
	for i, s := range d.Summary {
		if s == name {
			return out.Summary[i]
		}
	}
	t.Fatalf("the rule answers no %s", name)
	return 0
}

// InputOf lays facts out for a module; facts that do not fit end the test.
func InputOf(t testing.TB, d *abi.Description, params []int64, facts dte.Value) abi.Input {
	t.Helper()
	in, err := Input(d, params, facts)
	if err != nil {
		t.Fatal(err)
	}
	return in
}
