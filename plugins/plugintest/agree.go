package plugintest

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/rules"
	"dtegate/rules/abi"
)

// Agree compares a rule with everything that can contradict it, on seeded random documents. The rule gives the same
// integers natively, compiled and interpreted; the filled document passes its schema; the independent Python arithmetic
// finds nothing (if the oracle folder lies beside the checkout); totals, VAT, retention and perception equal exact
// fractions, also at exact halves. With DTE_SOAK=1 it compares 5,000 documents.
func Agree(t *testing.T, name string, d *abi.Description, evaluate Evaluate) {
	documents := 150
	if os.Getenv("DTE_SOAK") != "" {
		documents = 5000
	}
	r := Rule(t, name, "compiler")
	slow := Rule(t, name, "interpreter")
	if got := r.Module.Description(); got.Name != d.Name || !reflect.DeepEqual(got.Summary, d.Summary) || !reflect.DeepEqual(got.Faults, d.Faults) {
		t.Fatalf("the module describes itself as %+v", got)
	}
	filler := Filler(t, r)
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(2026, 12))
	ties := 0
	for i := range documents {
		c := Random(rng, d, r.Params, evaluate, 2000)
		var native, compiled, interpreted abi.Output
		evaluate(&c.In, &native)
		for engine, m := range map[*abi.Output]*rules.Module{&compiled: r.Module, &interpreted: slow.Module} {
			if err := m.Evaluate(context.Background(), &c.In, engine); err != nil {
				t.Fatalf("document %d: %v", i, err)
			}
		}
		if !same(&native, &compiled) || !same(&native, &interpreted) {
			t.Fatalf("document %d: native %+v\ncompiled %+v\ninterpreted %+v", i, native, compiled, interpreted)
		}
		for _, f := range native.Faults {
			if !d.Faults[f.Code].Warning {
				t.Fatalf("document %d: refused: %+v %s", i, f, d.Faults[f.Code].Code)
			}
		}
		doc, faults := filler.Fill(nil, c.Facts, computed(&c.In, &native), schema.FillOptions{})
		if len(faults) > 0 {
			t.Fatalf("document %d: %v", i, faults)
		}
		retentions(t, i, d, &c, &native)
		ties += exactly(t, i, d, &c, &native)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.json", i)), doc, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if t.Logf("%d exact halves were rounded", ties); ties < documents/4 {
		t.Errorf("only %d exact halves in %d documents: the generator does not make them", ties, documents)
	}
	Recalc(t, dir, documents, false)
}

func same(a, b *abi.Output) bool {
	return slices.Equal(a.Lines, b.Lines) && slices.Equal(a.Summary, b.Summary) && slices.Equal(a.Taxes, b.Taxes) && slices.Equal(a.Faults, b.Faults)
}

// retentions checks ivaRete and ivaPerci by exact fractions (art. 162 and 163 of the tax code: 1 % of the price without
// VAT), rounded half up to cents. It shares no code with the rules.
func retentions(t *testing.T, i int, d *abi.Description, c *Case, out *abi.Output) {
	t.Helper()
	get := func(name string) int64 {
		if n := slices.Index(d.Summary, name); n >= 0 {
			return out.Summary[n]
		}
		return 0
	}
	asked := func(name string) bool {
		n := slices.IndexFunc(d.Scalars, func(f abi.Field) bool { return f.Name == name })
		return c.In.Scalars[n] == 1
	}
	base := big.NewRat(get("totalGravada")-get("descuGravada"), dte.Scale)
	if d.Name == "dte01" { // prices include VAT
		base.Mul(base, big.NewRat(100, 113))
	}
	base.Mul(base, big.NewRat(1, 100))
	half := new(big.Rat).Add(new(big.Rat).Mul(base, big.NewRat(100, 1)), big.NewRat(1, 2))
	want := new(big.Int).Quo(half.Num(), half.Denom()).Int64() * cent
	for flag, field := range map[string]string{"isRetenIva": "ivaRete", "isPerciIva": "ivaPerci"} {
		expected := int64(0)
		if asked(flag) && slices.Contains(d.Summary, field) {
			expected = want
		}
		if get(field) != expected {
			t.Errorf("document %d: %s is %d, want %d", i, field, get(field), expected)
		}
	}
}

// Recalc runs the independent Python arithmetic over all documents of a folder at once, when the oracle folder lies
// beside the checkout. cents lets a total differ by a cent from its lines (MF2 p.54). Totals of returns do: they are
// rounded together with the totals of earlier returns.
func Recalc(t *testing.T, dir string, documents int, cents bool) {
	t.Helper()
	script := filepath.Join(Root(t), "..", "shared", "mh", "tools", "recalc.py")
	if _, err := os.Stat(script); err != nil {
		skip.Part(t, skip.MHDocuments)
		return
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	asked := 0
	for chunk := range slices.Chunk(files, 500) {
		b, err := exec.Command("python3", append([]string{script}, chunk...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("recalc: %v\n%s", err, b)
		}
		for _, line := range strings.Split(string(b), "\n") {
			switch {
			case strings.HasPrefix(line, dir):
				asked++
			case strings.HasPrefix(line, " ") && !(cents && strings.HasSuffix(line, " tol")):
				t.Errorf("recalc: %s", line)
			}
		}
	}
	if asked != documents {
		t.Errorf("recalc looked at %d of %d documents", asked, documents)
	}
}
