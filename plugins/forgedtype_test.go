package plugins_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/gateway/form"
	"dtegate/plugins"
	"dtegate/rules/bundle"
)

// aim is a change that hurts: an object that has the member beside gets another member, with one of the values.
type aim struct {
	beside, key string
	values      []any
}

// strange are values that no part expects.
var strange = []any{nil, true, 0, -1, 1e9, "", "X", "\u202e06140101901019", "a\x1b[2Jb", "a\nb", strings.Repeat("largo ", 60),
	[]any{}, []any{"X"}, map[string]any{}}

// mutateJSON changes a part of a bundle at random, like a forger or a careless author, and returns what it did: an
// aimed change, or a member dropped, swapped or retyped, or a list's item dropped or repeated.
func mutateJSON(r *rand.Rand, part []byte, aims []aim) (changed []byte, did string) {
	var root map[string]any
	if err := json.Unmarshal(part, &root); err != nil {
		panic(err)
	}
	var objects []map[string]any
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			objects = append(objects, v)
			for _, name := range slices.Sorted(maps.Keys(v)) {
				if name != "examples" { // of requests
					walk(v[name])
				}
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(root)
	having := func(key string) (list []map[string]any) {
		for _, o := range objects {
			if _, has := o[key]; has || key == "" {
				list = append(list, o)
			}
		}
		return list
	}
	for range 1 + r.IntN(2) {
		o := objects[r.IntN(len(objects))]
		keys := slices.Sorted(maps.Keys(o))
		if len(keys) == 0 {
			continue
		}
		key := keys[r.IntN(len(keys))]
		list, isList := o[key].([]any)
		switch n := r.IntN(9); {
		case n < 4:
			a := aims[r.IntN(len(aims))]
			if of := having(a.beside); len(of) > 0 {
				o, key = of[r.IntN(len(of))], a.key
				o[key] = a.values[r.IntN(len(a.values))]
			}
		case n == 4:
			delete(o, key)
		case n < 7 && !isList:
			of := having(key)
			other := of[r.IntN(len(of))]
			o[key], other[key] = other[key], o[key]
			did += fmt.Sprintf("; %v", other["name"])
		case n < 7 && len(list) > 0:
			at := r.IntN(len(list))
			if list = slices.Clone(list); n == 5 {
				o[key] = append(list, list[at])
			} else {
				o[key] = slices.Delete(list, at, at+1)
			}
		default:
			o[key] = strange[r.IntN(len(strange))]
		}
		text, _ := json.Marshal(o[key])
		did += fmt.Sprintf("; %v %s: %.100s", o["name"], key, text)
	}
	changed, err := json.Marshal(root)
	if err != nil {
		panic(err)
	}
	return changed, did
}

// values are aims' values of a list.
func values[T any](list ...T) (all []any) {
	for _, v := range list {
		all = append(all, v)
	}
	return all
}

// placed writes the targets of a form's members out, so that they can change places.
func placed(form []byte) []byte {
	var root map[string]any
	if err := json.Unmarshal(form, &root); err != nil {
		panic(err)
	}
	var walk func(list any)
	walk = func(list any) {
		all, _ := list.([]any)
		for _, e := range all {
			m, _ := e.(map[string]any)
			if m["to"] == nil && m["name"] != nil {
				m["to"] = m["name"]
			}
			walk(m["members"])
			walk(m["extra"])
		}
	}
	walk(root["members"])
	text, _ := json.Marshal(root)
	return text
}

// campaign is how many mutants of a part a test makes.
func campaign(n int) int {
	if os.Getenv("DTE_SOAK") != "" {
		n *= 400
	}
	return n
}

// typed runs a test for each shipped bundle that describes its type.
func typed(t *testing.T, test func(t *testing.T, f *forge, honest *bundle.Type, r *rand.Rand)) {
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
			test(t, f, honest, rand.New(rand.NewPCG(34, uint64(len(name)))))
		})
	}
}

// describe reads a bundle's description of its type, which the branch knows.
func (f *forge) describe(parts map[string][]byte) (*bundle.Type, error) {
	t, err := bundle.ParseType(f.manifest.Document, parts)
	if err == nil {
		_, err = record.Successor(t)
	}
	return t, err
}

// sell makes a document from a request, with the facts that the box adds taken from a case.
func (f *forge) sell(parts map[string][]byte, body, box dte.Value) (document dte.Value, refused error) {
	t, err := f.describe(parts)
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
	if of.Exists() { // the lines of a note name the note's original
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

// TestForged_Form: whatever a form says, a request becomes the same document or none. The form of a signed bundle is
// read before any fact is known, so the document can be compared only with the request.
func TestForged_Form(t *testing.T) {
	for _, known := range plugins.Types() {
		if err := record.Learn(known); err != nil {
			t.Fatal(err)
		}
		defer record.Forget(known.Document)
	}
	typed(t, func(t *testing.T, f *forge, honest *bundle.Type, r *rand.Rand) {
		if honest.Effect == bundle.TakesBack {
			return // what is returned is looked up in the origin's lines, which the request does not have
		}
		var box dte.Value
		known := []string{"identificacion", "emisor", "documentoRelacionado", "origen"}
		if honest.Form.Origin != "" {
			known = append(known, "receptor") // the origin's, where the till names none
		}
		for _, m := range f.facts[0].Members() {
			if slices.Contains(known, m.Name) || strings.HasSuffix(m.Name, "Origen") {
				box = box.With(m.Name, m.Value)
			}
		}
		form := placed(f.parts["form.json"])
		aims := []aim{{"name", "to", values(f.sources...)}, {"name", "default", values[any](1, 1000, "X", "06140101901019", true)},
			{"name", "shape", values(bundle.Shapes...)}, {"use", "use", values(bundle.Groups...)}, {"name", "equals", values("X")},
			{"name", "to", values("none", "apendice", "resumen.pagos", "line.precioUni", "emisor.nombre", "identificacion.fecEmi")},
			{"to", "label", values("Nota")}}
		lossy := maps.Clone(f.parts) // a form that ignores the receiver's NIT, NRC and activity
		lossy["form.json"] = bytes.ReplaceAll(form, []byte(`"taxpayer"`), []byte(`"consumer"`))
		if _, err := f.describe(lossy); err == nil && !bytes.Equal(lossy["form.json"], form) {
			t.Error("the receiver is read as a consumer")
		}
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
			// What a till says in a line is never a fault of an honest bundle.
			for name, text := range map[string]string{"noGravado": "2.5", "montoDescu": "1", "psv": "1", "codigo": `"SKU"`, "uniMedida": "59",
				"codTributo": `"A8"`, "tributos": `["59"]`, "tipoImpuesto": `"EXENTO"`, "seguro": "1", "flete": "1"} {
				v, _ := dte.Parse([]byte(text))
				for _, list := range []string{"items", "cuerpoDocumento"} {
					items := slices.Clone(body.Get(list).Items())
					for i := range items {
						items[i] = items[i].With(name, v)
					}
					_, err := f.sell(f.parts, body.With(list, dte.Arr(items...)), box)
					if len(items) > 0 && err != nil && strings.Contains(err.Error(), "contradicts") {
						t.Errorf("%s: %s %s: %v", example, list, name, err)
					}
				}
			}
			for range campaign(50) {
				parts := maps.Clone(f.parts)
				var did string
				parts["form.json"], did = mutateJSON(r, form, aims)
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
					// A form may have a remark, a code of a catalogue, and entries of the appendix that are its own.
					name := path[strings.LastIndexByte(path, '.')+1:]
					own := strings.Contains(did, "default") && (v.IsNull() || strings.Contains(did, name)) ||
						strings.HasPrefix(path, "apendice")
					if fmt.Sprint(b[path]) != fmt.Sprint(v) && !own {
						t.Errorf("%s%s: %s is %v, was %v", example, did, path, b[path], v)
					}
				}
			}
		}
		t.Logf("%d refused, %d made", refused, made)
	})
}

// creditable is what notes may take from a document, by a reading of the test's own.
func creditable(t *bundle.Type, resumen dte.Value) (all [len(bundle.CreditableNames)]dte.Amount) {
	for i, name := range bundle.CreditableNames {
		for _, term := range t.Creditable[name] {
			a, _ := resumen.Get(strings.TrimPrefix(term, "-")).Amount()
			if strings.HasPrefix(term, "-") {
				a = -a
			}
			all[i] += a
		}
	}
	return all
}

// ends is the end of the time in which a document may be invalidated.
func ends(v bundle.Invalidation, sealed time.Time) time.Time {
	if v.Months > 0 {
		return sealed.AddDate(0, v.Months, 1)
	}
	next := time.Date(sealed.Year(), sealed.Month()+1, 1, 0, 0, 0, 0, dte.Zone)
	return dte.NthBusinessDay(next.Year(), next.Month(), v.BusinessDay).AddDate(0, 0, 1)
}

// TestForged_Type: whatever type.json says, of a new type or of a known one: no document can be credited for more than
// it sold. A successor cannot have a stored document counted, named or credited otherwise, nor shorten the time to
// invalidate it.
func TestForged_Type(t *testing.T) {
	for _, known := range []bool{false, true} {
		if known {
			if err := record.Learn(plugins.Types()...); err != nil {
				t.Fatal(err)
			}
		}
		typed(t, func(t *testing.T, f *forge, honest *bundle.Type, r *rand.Rand) {
			members := []string{"totalGravada", "-totalIva", "descuGravada", "totalPagar", "subTotal", "totalExenta"}
			aims := []aim{{"effect", "effect", values[any](bundle.Nothing, bundle.Credits, bundle.Debits, bundle.TakesBack)},
				{"effect", "origins", values([]string{"03"}, []string{"01", "14", "03"}, []string{"01", "03", "07", "11"}, nil)},
				{"effect", "closing", values(bundle.Sale, bundle.Purchase, bundle.Withholding, "")},
				{"effect", "contingency", values(true, false)}, {"effect", "notLater", values([]string{}, []string{"fechaEmision"})},
				{"effect", "name", values("FACTURA", "CREDITO_FISCAL")}, {"effect", "path", values("dte01", "otro")},
				{"effect", "permission", values("CREDITO_FISCAL", "OTRO", "")},
				{"source", "months", values(0, 1, 120, 121)}, {"source", "businessDay", values(0, 1, 31)},
				{"", "totalGravada", values(members, members[:1], members[3:4], members[:2])},
				{"", "totalExenta", values(members[:1], members[5:])}}
			refused, made := 0, 0
			for range campaign(50) {
				parts := maps.Clone(f.parts)
				var did string
				parts["type.json"], did = mutateJSON(r, f.parts["type.json"], aims)
				facts := f.facts[r.IntN(len(f.facts))]
				text, faults, err := f.make(parts, facts, nil)
				if err != nil || len(faults) > 0 {
					refused++
					continue
				}
				is, err := bundle.ParseType(f.manifest.Document, parts)
				if err == nil {
					_, err = record.Successor(is)
				}
				if err != nil {
					refused++
					continue
				}
				made++
				document, _ := dte.Parse(text)
				wrong := func(what string, is, was any) { t.Errorf("known %v%s: %s is %v, was %v", known, did, what, is, was) }
				now, before := creditable(is, document.Get("resumen")), creditable(honest, document.Get("resumen"))
				for i := range now {
					if now[i] > before[i] && len(honest.Creditable) > 0 || known && now[i] != before[i] {
						wrong("creditable "+bundle.CreditableNames[i], now[i], before[i])
					}
				}
				for _, text := range []string{is.Es, is.En} {
					if strings.ContainsAny(text, "\x1b\n\u202e") || len(text) > 100 {
						wrong("a name", text, "")
					}
				}
				for day := range 365 {
					sealed := time.Date(2026, 1, 1+day, 0, 0, 0, 0, dte.Zone)
					if is, was := ends(is.Invalidation, sealed), ends(honest.Invalidation, sealed); is.Before(sealed) ||
						known && is.Before(was) {
						wrong("the end of the window", is, was)
						break
					}
				}
				if !known {
					continue
				}
				if is.Name != honest.Name || is.Path != honest.Path || is.Permission != honest.Permission {
					wrong("the name, path or permission", is, honest)
				}
				if is.Effect != honest.Effect || is.Closing != honest.Closing {
					wrong("the effect or the closing", is, honest)
				}
				for _, o := range plugins.Types() { // notes and returns keep apart what they gave back
					for _, origin := range is.Origins {
						if o.Effect != is.Effect && o.Effect != bundle.Debits && is.Effect != bundle.Debits &&
							slices.Contains(o.Origins, origin) && !slices.Contains(honest.Origins, origin) {
							wrong("an origin", origin, honest.Origins)
						}
					}
				}
			}
			t.Logf("%d refused, %d made", refused, made)
		})
	}
}

// TestForged_View: whatever view.json says, what all types print is printed under MH's labels, and no other value is.
func TestForged_View(t *testing.T) {
	typed(t, func(t *testing.T, f *forge, honest *bundle.Type, r *rand.Rand) {
		var view *bundle.View
		p, err := pdf.New(pdf.Options{Catalogue: f.catalogues.Lookup, Type: func(string, int64) *bundle.View { return view }})
		if err != nil {
			t.Fatal(err)
		}
		document, _, err := f.make(f.parts, f.facts[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		lines := func(v *bundle.View) map[string]bool {
			view = v
			var text bytes.Buffer
			if err := p.ESCPOS(&text, pdf.Document{JSON: document, Seal: strings.Repeat("A", 40)}, pdf.Ticket80); err != nil {
				t.Fatal(err)
			}
			all := make(map[string]bool)
			for line := range strings.SplitSeq(text.String(), "\n") {
				line, _, _ = strings.Cut(line, "\x1b") // to the next style
				all[line] = true
			}
			return all
		}
		bare, own := lines(nil), lines(honest.View)
		labels := make(map[string]bool) // of what every type prints
		for line := range bare {
			if label, _, is := strings.Cut(line, ": "); is && own[line] {
				labels[label] = true
			}
		}
		aims := []aim{{"label", "path", values(f.paths...)}, {"label", "label", values("NIT", "Total a pagar", "Correo")},
			{"label", "in", values("emisor", "party", "terms", "issue")}, {"label", "as", values("count", "")},
			{"label", "catalogue", values("CAT-017", "CAT-002", "CAT-012", "CAT-999")},
			{"head", "head", values("Cantidad", "Ventas gravadas")}, {"head", "catalogue", values("CAT-017", "CAT-014", "CAT-999")},
			{"head", "paths", values([]string{"precioUni"}, []string{"cantidad"}, []string{"ventaGravada"}, []string{"descripcion"})},
			{"heading", "paths", values([]string{"emisor"}, []string{"resumen"}, []string{"ventaTercero"}, []string{"identificacion"}, []string{"extension"})},
			{"party", "final", values([]string{"totalGravada"}, []string{"subTotal"}, nil)},
			{"party", "labels", values[any](map[string]string{"totalPagar": "Descuento"}, map[string]string{"totalGravada": "Total a pagar"})},
			{"party", "fields", values[any]([]any{map[string]any{"path": "emisor.nombre", "label": "Receptor", "in": "party"}},
				[]any{map[string]any{"path": "resumen.totalPagar", "label": "Descuento", "in": "terms"}})},
			{"party", "columns", values[any]([]any{map[string]any{"paths": []string{"precioUni"}, "head": "Descuento"}})}}
		for _, name := range []string{"numItem", "cantidad", "uniMedida", "descripcion", "precioUni", "montoDescu", "noGravado", "ventaNoSuj",
			"ventaExenta", "ventaGravada", "compra", "montoSujetoGrav", "ivaRetenido", "psv", "ivaItem"} {
			parts := maps.Clone(f.parts)
			parts["view.json"] = []byte(`{"party":{"paths":["receptor","sujetoExcluido","documento","donante"],"heading":"Parte"},"final":[],` +
				`"columns":[{"paths":["` + name + `","codigo"],"head":"Cantidad"}]}`)
			if _, _, err := f.make(parts, f.facts[0], nil); err == nil || !strings.Contains(err.Error(), "MH's head") {
				t.Errorf("a column of the letter reads %s: %v", name, err)
			}
		}
		refused, made := 0, 0
		for range campaign(50) {
			parts := maps.Clone(f.parts)
			var did string
			parts["view.json"], did = mutateJSON(r, f.parts["view.json"], aims)
			if _, faults, err := f.make(parts, f.facts[0], nil); err != nil || len(faults) > 0 {
				refused++
				continue
			}
			made++
			mutant, err := bundle.ParseType(f.manifest.Document, parts)
			if err != nil {
				t.Fatal(err)
			}
			is := lines(mutant.View)
			for line := range own {
				if bare[line] && !is[line] {
					t.Errorf("%s: %q is not printed", did, line)
				}
			}
			for line := range is {
				label, _, _ := strings.Cut(line, ": ")
				if !own[line] && (labels[label] || strings.Contains(line, "\u202e") || len(line) > 120) {
					t.Errorf("%s: %q is printed", did, line)
				}
			}
		}
		t.Logf("%d refused, %d made", refused, made)
	})
}
