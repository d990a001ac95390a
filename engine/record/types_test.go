package record

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"dtegate/rules/bundle"
)

// learned makes these the only known types for the time of a test.
func learned(t *testing.T, all ...*bundle.Type) {
	t.Helper()
	before := known.Load()
	t.Cleanup(func() { known.Store(before) })
	known.Store(nil)
	if err := Learn(all...); err != nil {
		t.Fatal(err)
	}
}

func sampleTypes() []*bundle.Type {
	return []*bundle.Type{
		{Document: "05", Name: "NOTA", Path: "nota", Operation: "nota", Permission: "NC", Effect: bundle.Credits,
			Origins: []string{"03"}},
		{Document: "01", Name: "FACTURA", Path: "factura", Operation: "factura", Permission: "FE"},
		{Document: "18", Name: "RETORNO", Path: "retorno", Operation: "retorno", Effect: bundle.TakesBack,
			Origins: []string{"01"}},
		{Document: "03", Name: "CREDITO", Path: "credito", Operation: "credito", Permission: "CCF"},
	}
}

// TestCaller: what a caller may issue, read and list, with and without the restriction to its own types.
func TestCaller(t *testing.T) {
	learned(t, sampleTypes()...)
	for _, c := range []struct {
		permissions string
		own         bool
		issues      []string
		reads       []string // at another point; a return at the own point too
		all         bool
	}{
		{"", false, nil, []string{"01", "03", "05", "18", "99"}, true}, {"", true, nil, nil, false},
		{"FE", true, []string{"01"}, []string{"01"}, false},
		{"FE NC CCF", true, []string{"01", "03", "05"}, []string{"01", "03", "05"}, true},
		{"FE NC CCF", false, []string{"01", "03", "05"}, []string{"01", "03", "05", "18", "99"}, true},
	} {
		caller := &Caller{Point: Point{ID: 7}, OwnTypes: c.own, Permissions: strings.Fields(c.permissions)}
		for _, kind := range []string{"01", "03", "05", "18", "99"} {
			if got := caller.Issues(kind); got != slices.Contains(c.issues, kind) {
				t.Errorf("%+v issues %s: %v", c, kind, got)
			}
			for _, point := range []int64{7, 8} {
				want := slices.Contains(c.reads, kind) || kind == "18" && point == 7
				if got := caller.Reads(&Head{Document: kind, PointID: point}); got != want {
					t.Errorf("%+v reads %s of point %d: %v", c, kind, point, got)
				}
			}
		}
		want := append([]string{}, c.issues...)
		if !c.own {
			want = nil
		}
		if got := caller.Readable(); !slices.Equal(got, want) || (got == nil) != (want == nil) ||
			caller.ReadsAll() != c.all {
			t.Errorf("%+v lists %v, all %v", c, got, caller.ReadsAll())
		}
	}
	caller := &Caller{Permissions: []string{""}}
	if caller.Issues("18") || caller.Issues("99") {
		t.Error("an empty permission issues a type without one")
	}
}

// TestFits: two types share no name, path, operation or permission; none is no permission.
func TestFits(t *testing.T) {
	learned(t, sampleTypes()...)
	for name, c := range map[string]struct {
		change func(*bundle.Type)
		want   bool
	}{
		"another":     {func(*bundle.Type) {}, true},
		"its name":    {func(n *bundle.Type) { n.Name = "FACTURA" }, false},
		"its path":    {func(n *bundle.Type) { n.Path = "factura" }, false},
		"operation":   {func(n *bundle.Type) { n.Operation = "factura" }, false},
		"permission":  {func(n *bundle.Type) { n.Permission = "FE" }, false},
		"none":        {func(n *bundle.Type) { n.Permission = "" }, true},
		"another's":   {func(n *bundle.Type) { n.Name = "factura" }, true},
		"a known one": {func(n *bundle.Type) { *n = *sampleTypes()[1] }, true},
		"known, otherwise": {func(n *bundle.Type) {
			*n = *sampleTypes()[1]
			n.Path = "otra"
		}, false},
	} {
		n := &bundle.Type{Document: "14", Name: "SUJETO", Path: "sujeto", Operation: "sujeto", Permission: "FSE"}
		c.change(n)
		if err := Fits(n); (err == nil) != c.want || err != nil && !errors.Is(err, bundle.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
		if err := Learn(n); (err == nil) != c.want || c.want != (TypeOf(n.Document) == n) {
			t.Errorf("%s: learned: %v", name, err)
		}
		Forget("14")
	}
	if TypeOf("14").Document != "" || TypeAt("sujeto") != nil || TypeAt("nota").Document != "05" {
		t.Error("a forgotten type is known")
	}
	var order []string
	for _, k := range Known() {
		order = append(order, k.Document)
	}
	if !slices.Equal(order, []string{"01", "03", "05", "18"}) {
		t.Errorf("known: %v", order)
	}
}

// TestSuccessor_TwoWays: one amount cannot be credited and returned by documents of two types.
func TestSuccessor_TwoWays(t *testing.T) {
	for _, c := range []struct {
		document string
		effect   bundle.Effect
		origins  []string
		want     bool
	}{
		{"90", bundle.Credits, []string{"14"}, true}, {"90", bundle.Credits, []string{"14", "01"}, false},
		{"90", bundle.TakesBack, []string{"03"}, false}, {"90", bundle.TakesBack, []string{"01"}, true},
		{"90", bundle.Credits, []string{"03"}, true}, {"90", bundle.Debits, []string{"01", "03"}, true},
	} {
		learned(t, sampleTypes()...)
		_, err := Successor(&bundle.Type{Document: c.document, Effect: c.effect, Origins: c.origins})
		if (err == nil) != c.want || err != nil && !errors.Is(err, bundle.ErrFormat) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	learned(t, sampleTypes()...)
	if changed, err := Successor(&bundle.Type{Document: "14", Name: "SUJETO"}); err != nil || changed != nil {
		t.Errorf("the first description of a type: %v, %v", changed, err)
	}
	other := sampleTypes()[0]
	other.Effect = bundle.Debits
	if changed, err := Successor(other); err == nil && len(changed) == 0 {
		t.Error("a type has another effect, and nothing has changed")
	}
	// The other type had the origin first, and the known type keeps what it has.
	both := append(sampleTypes(), &bundle.Type{Document: "90", Effect: bundle.Credits, Origins: []string{"01"}})
	learned(t, both...)
	if _, err := Successor(both[4]); err != nil {
		t.Errorf("as before: %v", err)
	}
}
