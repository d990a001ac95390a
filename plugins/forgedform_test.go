package plugins_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"dtegate/engine/dte"
	"dtegate/gateway/form"
	"dtegate/plugins"
	"dtegate/rules/bundle"
)

// members are all members of a form with the names above them.
func members(list []any, visit func(m map[string]any)) {
	for _, e := range list {
		m, _ := e.(map[string]any)
		visit(m)
		for _, name := range []string{"members", "extra"} {
			inner, _ := m[name].([]any)
			members(inner, visit)
		}
	}
}

// mutateForm changes a form at random, as a forger or a careless author would, and returns what it did.
func (f *forge) mutateForm(r *rand.Rand) (parts map[string][]byte, did string) {
	parts = maps.Clone(f.parts)
	var text map[string]any
	if err := json.Unmarshal(parts["form.json"], &text); err != nil {
		panic(err)
	}
	top, _ := text["members"].([]any)
	var all []map[string]any
	members(top, func(m map[string]any) { all = append(all, m) })
	pick := func() map[string]any { return all[r.IntN(len(all))] }
	target := func(m map[string]any) any {
		if to, ok := m["to"]; ok {
			return to
		}
		return m["name"]
	}
	for range 1 + r.IntN(2) {
		m := pick()
		did += fmt.Sprint("; ", m["name"], m["use"], ": ")
		switch r.IntN(9) {
		case 0:
			m["to"] = f.sources[r.IntN(len(f.sources))]
			did += fmt.Sprint("to ", m["to"])
		case 1:
			other := pick()
			m["to"], other["to"] = target(other), target(m)
			did += fmt.Sprint("changes places with ", other["name"])
		case 2:
			if m["catalogue"] != nil {
				continue // a form may choose of a list
			}
			m["default"] = []any{1, 1000, "X", "06140101901019", true, []any{}}[r.IntN(6)]
			did += fmt.Sprint("default ", m["default"])
		case 3:
			m["shape"] = bundle.Shapes[r.IntN(len(bundle.Shapes))]
			did += fmt.Sprint("shape ", m["shape"])
		case 4:
			m["to"] = []any{"none", "apendice", "resumen.pagos", "line.precioUni", "emisor.nombre",
				"identificacion.fecEmi"}[r.IntN(6)]
			m["label"] = "Nota"
			did += fmt.Sprint("to ", m["to"])
		case 5:
			m["use"] = bundle.Groups[r.IntN(len(bundle.Groups))]
			did += fmt.Sprint("use ", m["use"])
		case 6:
			m["name"] = pick()["name"]
			did += fmt.Sprint("is called ", m["name"])
		case 7:
			m["equals"] = "X"
			did += "equals X"
		case 8:
			delete(m, []string{"members", "extra", "due", "shape", "to"}[r.IntN(5)])
			did += "loses a key"
		}
	}
	parts["form.json"], _ = json.Marshal(text)
	return parts, did
}

// sell makes a document of a request, with what the box adds to the facts taken from a case.
func (f *forge) sell(parts map[string][]byte, body, box dte.Value) (document dte.Value, refused error) {
	t, err := bundle.ParseType(f.manifest.Document, parts)
	if err != nil {
		return dte.Value{}, err
	}
	filled := form.New(t).Fill(body, nil)
	if len(filled.Faults) > 0 {
		return dte.Value{}, fmt.Errorf("%v", filled.Faults)
	}
	facts := box
	for _, m := range filled.Facts.Members() {
		facts = facts.With(m.Name, m.Value)
	}
	of := box.Get("documentoRelacionado").Index(0).Get("numeroDocumento")
	if of.Exists() { // the lines of a note name its origin
		lines := make([]dte.Value, facts.Get("cuerpoDocumento").Len())
		for i := range lines {
			lines[i] = facts.Get("cuerpoDocumento").Index(i).With("numeroDocumento", of)
		}
		facts = facts.With("cuerpoDocumento", dte.Arr(lines...))
	}
	text, faults, err := f.make(parts, facts, nil)
	if err == nil && len(faults) > 0 {
		err = fmt.Errorf("%v", faults)
	}
	if err != nil {
		return dte.Value{}, err
	}
	return dte.Parse(text)
}

// TestForged_Form: whatever a form says, a request becomes the same document or none. The form of a signed bundle is read
// before any fact is known, so nothing but the request can be compared with the document.
func TestForged_Form(t *testing.T) {
	n := 200
	if os.Getenv("DTE_SOAK") != "" {
		n *= 100
	}
	for _, name := range slices.Concat(plugins.Names, plugins.Further) {
		f := newForge(t, name)
		if f.module == nil || f.parts["form.json"] == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			honest, err := bundle.ParseType(f.manifest.Document, f.parts)
			if err != nil {
				t.Fatal(err)
			}
			var box dte.Value
			if honest.Effect == bundle.TakesBack {
				return // what is returned is looked up in the origin's lines, which the request does not have
			}
			known := []string{"identificacion", "emisor", "documentoRelacionado", "origen"}
			if honest.Form.Origin != "" {
				known = append(known, "receptor") // the origin's, where the till names none
			}
			for _, m := range f.facts[0].Members() {
				if slices.Contains(known, m.Name) || strings.HasSuffix(m.Name, "Origen") {
					box = box.With(m.Name, m.Value)
				}
			}
			r := rand.New(rand.NewPCG(34, uint64(len(name))))
			refused, made := 0, 0
			for _, example := range slices.Sorted(maps.Keys(honest.Form.Examples)) {
				body, err := dte.Parse(honest.Form.Examples[example])
				if err != nil {
					t.Fatal(err)
				}
				was, err := f.sell(f.parts, body, box)
				if err != nil {
					t.Fatalf("%s: %v", example, err)
				}
				for range n {
					parts, did := f.mutateForm(r)
					is, err := f.sell(parts, body, box)
					if err != nil {
						refused++
						continue
					}
					made++
					a, b := map[string]dte.Value{}, map[string]dte.Value{}
					leaves(was, "", a)
					leaves(is, "", b)
					for path, v := range a {
						// A form may have a remark of its own, and entries of the appendix.
						own := v.IsNull() && strings.Contains(did, "default") || strings.HasPrefix(path, "apendice")
						if fmt.Sprint(b[path]) != fmt.Sprint(v) && !own {
							t.Errorf("%s%s: %s is %v, was %v", example, did, path, b[path], v)
						}
					}
				}
			}
			t.Logf("%d refused, %d made", refused, made)
		})
	}
}
