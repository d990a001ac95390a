package plugins_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/plugins"
	"dtegate/plugins/plugintest"
	"dtegate/rules"
	"dtegate/rules/bundle"
)

// forge is a shipped bundle with the facts of its cases that make a document.
type forge struct {
	name       string
	parts      map[string][]byte
	manifest   bundle.Manifest
	module     *rules.Rule // nil for an event
	catalogues *dte.Catalogues
	facts      []dte.Value
	paths      []string // of the document's leaves
	sources    []string // of the facts' leaves
}

func newForge(t *testing.T, name string) *forge {
	t.Helper()
	f := &forge{name: name}
	f.parts, f.manifest = plugintest.Parts(t, name)
	parts, _ := plugintest.Parts(t, "catalogues")
	var err error
	if f.catalogues, err = dte.ParseCatalogues(parts["catalogues.json"]); err != nil {
		t.Fatal(err)
	}
	if f.manifest.Kind == "document" {
		f.module, _ = plugintest.Load(t, name, "compiler")
	}
	paths, sources := map[string]bool{}, map[string]bool{}
	for _, part := range slices.Sorted(maps.Keys(f.parts)) {
		if !strings.HasPrefix(part, "cases/") {
			continue
		}
		golden, err := dte.Parse(f.parts[part])
		if err != nil {
			t.Fatal(err)
		}
		if !golden.Get("document").Exists() {
			continue
		}
		f.facts = append(f.facts, golden.Get("facts"))
		for path := range flat(golden.Get("document")) {
			paths[path] = true
		}
		for path := range flat(golden.Get("facts")) {
			sources[path] = true
		}
	}
	f.paths, f.sources = slices.Sorted(maps.Keys(paths)), slices.Sorted(maps.Keys(sources))
	return f
}

// flat are the leaves of a value by their path without the numbers of items.
func flat(v dte.Value) map[string]dte.Value {
	numbered, all := map[string]dte.Value{}, map[string]dte.Value{}
	leaves(v, "", numbered)
	for path, leaf := range numbered {
		all[unnumbered(path)] = leaf
	}
	return all
}

func unnumbered(path string) string {
	var b strings.Builder
	for _, c := range path {
		if c < '0' || c > '9' || !strings.Contains(b.String(), "[") {
			b.WriteRune(c)
		}
	}
	return b.String()
}

// make compiles the forge's bundle with other parts and fills a document. The error is the one by which the bundle or
// its answer was refused.
func (f *forge) make(parts map[string][]byte, facts dte.Value, bend func(*schema.Computed)) (document []byte, faults []dte.Fault, err error) {
	r := &rules.Rule{Bundle: &bundle.Bundle{Manifest: f.manifest, Parts: parts}}
	if f.module == nil {
		e, err := rulestore.CompileEvent(r, f.catalogues)
		if err != nil {
			return nil, nil, err
		}
		return e.Fill(facts)
	}
	r.Module, r.Params = f.module.Module, f.module.Params
	c, err := rulestore.Compile(r, f.catalogues)
	if err != nil {
		return nil, nil, err
	}
	ev, faults, err := c.Evaluate(context.Background(), facts)
	if err != nil || len(faults) > 0 {
		return nil, faults, err
	}
	defer ev.Free()
	if bend != nil {
		bend(&ev.Computed)
	}
	return c.Fill(nil, facts, &ev.Computed, schema.FillOptions{Catalogues: true})
}

// mutate changes a schema or an overlay at random, like a forger or a careless author.
func (f *forge) mutate(r *rand.Rand) map[string][]byte {
	parts := maps.Clone(f.parts)
	var overlay, layout map[string]any
	_ = json.Unmarshal(parts["overlay.json"], &overlay)
	_ = json.Unmarshal(parts["schema.json"], &layout)
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	for range 1 + r.IntN(2) {
		path := pick(f.paths)
		switch r.IntN(8) {
		case 0, 1, 2:
			from, _ := overlay["from"].([]any)
			from = slices.DeleteFunc(slices.Clone(from), func(e any) bool { return e.(map[string]any)["path"] == path })
			entry := map[string]any{"path": path, "reason": "forged"}
			switch r.IntN(5) {
			case 0:
				entry["value"] = []any{"06140101901019", "DTE-01-M001P001-000000000000009", "2020-01-01", "X", 1, nil, "00"}[r.IntN(7)]
			case 1:
				entry["fact"] = pick(f.sources)
			case 2:
				entry["fact"], entry["value"] = path, "06140101901019"
			case 3:
				entry["fact"], entry["form"] = path, []string{"9########", "########-#", "0#############"}[r.IntN(3)]
			case 4:
				if f.module != nil {
					entry["amount"] = pick(f.module.Module.Description().Summary)
				} else {
					entry["value"] = "PROCESADO"
				}
			}
			overlay["from"] = append(from, entry)
		case 3, 4, 5:
			at, name := place(layout, path)
			if at == nil {
				continue
			}
			member, _ := at[name].(map[string]any)
			switch r.IntN(5) {
			case 0:
				member["const"] = []any{"06140101901019", "X", 1}[r.IntN(3)]
			case 1:
				member["enum"] = []any{[]any{"06140101901019", 7, nil}[r.IntN(3)]}
			case 2:
				delete(at, name)
			case 3:
				delete(at, name)
				at[pick([]string{"numeroControl", "nit", "nombre", "tipoDte", "tipoEvento", "otro"})] = member
			case 4:
				member["type"] = []any{"string", "number", "null"}
				delete(member, "pattern")
				delete(member, "enum")
			}
		case 6:
			add, _ := overlay["add"].([]any)
			overlay["add"] = append(slices.Clone(add), map[string]any{"path": path, "schema": map[string]any{"const": "X"}, "reason": "forged"})
		case 7: // the number a second time, at the front
			if properties, ok := layout["properties"].(map[string]any); ok && properties[`resumen`] != nil {
				at, _ := place(layout, "resumen.totalLetras")
				if at != nil {
					at["numeroControl"] = map[string]any{"type": "string"}
				}
				from, _ := overlay["from"].([]any)
				overlay["from"] = append(slices.Clone(from), map[string]any{"path": "resumen.numeroControl", "fact": "identificacion.numeroControl", "reason": "forged"})
			}
		}
	}
	parts["overlay.json"], _ = json.Marshal(overlay)
	parts["schema.json"], _ = json.Marshal(layout)
	if r.IntN(8) == 0 { // whatever stands at one of its places
		part := []string{"overlay.json", "schema.json"}[r.IntN(2)]
		parts[part], _ = mutateJSON(r, parts[part], keywords)
	}
	return parts
}

// keywords are those of a schema and of an overlay with values that they must not have.
var keywords = func() (all []aim) {
	for _, name := range []string{"minimum", "maximum", "exclusiveMinimum", "multipleOf", "minLength", "maxItems", "pattern",
		"format", "type", "enum", "const", "required", "properties", "items", "allOf", "oneOf", "if", "path", "fact", "value",
		"form", "when", "schema", "keyword"} {
		all = append(all, aim{name, name, strange})
	}
	return all
}()

// place is where a schema has the member of a path.
func place(layout map[string]any, path string) (at map[string]any, name string) {
	node := layout
	for step := range strings.SplitSeq(path, ".") {
		name = strings.TrimRight(step, "[]")
		if at, _ = node["properties"].(map[string]any); at == nil {
			return nil, ""
		}
		if node, _ = at[name].(map[string]any); node == nil {
			return nil, ""
		}
		for range strings.Count(step, "[]") {
			if node, _ = node["items"].(map[string]any); node == nil {
				return nil, ""
			}
		}
	}
	return at, name
}

// forgeries are the values of a document that differ from what the box knows.
func forgeries(m *bundle.Manifest, document, facts dte.Value) (wrong []string) {
	bare := func(v dte.Value) string { return strings.NewReplacer("-", "", ".", "", " ", "").Replace(v.Text()) }
	differ := func(path string, got, want dte.Value) {
		if bare(got) != bare(want) || got.Kind() != want.Kind() {
			wrong = append(wrong, fmt.Sprintf("%s is %s, and the box knows %s", path, got.Append(nil), want.Append(nil)))
		}
	}
	renamed := map[string]string{"codEstableMH": "codEstable", "codPuntoVentaMH": "codPuntoVenta", "nomEstablecimiento": "nombreComercial",
		"fecAnula": "fecEmi", "horAnula": "horEmi"}
	same := func(root string, object, known dte.Value) {
		for _, x := range object.Members() {
			want := known.Get(x.Name)
			if name := renamed[x.Name]; name != "" && !want.Exists() {
				want = known.Get(name)
			}
			switch x.Value.Kind() {
			case dte.KindNull:
				moved := known.Get(x.Name).Kind() <= dte.KindNull || x.Name == "codEstable" && object.Get("codEstableMH").Exists() || x.Name == "codPuntoVenta" && object.Get("codPuntoVentaMH").Exists()
				if !moved {
					differ(root+"."+x.Name, x.Value, want)
				}
			case dte.KindObject, dte.KindArray:
				if string(x.Value.Append(nil)) == "{}" || !want.Exists() {
					continue
				}
				for path, leaf := range flat(x.Value) {
					if is := flat(want)[path]; is.Exists() || leaf.Kind() != dte.KindNull {
						differ(root+"."+x.Name+"."+path, leaf, is)
					}
				}
			default:
				if want.Exists() {
					differ(root+"."+x.Name, x.Value, want)
				} else if !slices.ContainsFunc(known.Members(), func(k dte.Member) bool { return bare(k.Value) == bare(x.Value) }) {
					wrong = append(wrong, fmt.Sprintf("%s.%s is %s, which the box does not know", root, x.Name, x.Value.Append(nil)))
				}
			}
		}
	}
	id := document.Get("identificacion")
	made := facts.Get("identificacion").With("version", dte.Int(int64(m.Schema)))
	if m.Kind == "document" {
		made = made.With("tipoDte", dte.Str(m.Document)).With("tipoEvento", dte.Str(m.Document))
	}
	for _, name := range []string{"ambiente", "codigoGeneracion"} {
		differ("identificacion."+name, id.Get(name), made.Get(name))
	}
	if m.Kind == "document" && m.Document != "18" {
		differ("identificacion.numeroControl", id.Get("numeroControl"), made.Get("numeroControl"))
	}
	same("identificacion", id, made)
	issuer, identity := document.Get("emisor"), "nit"
	if !issuer.Exists() {
		issuer = document.Get("donatario") // a donation of the generation before: the issuer by its role
	}
	if m.Document == "15" {
		identity = "numDocumento" // of the type 36, a NIT
	}
	differ("emisor."+identity, issuer.Get(identity), facts.Get("emisor").Get("nit"))
	known := facts.Get("emisor")
	for _, name := range []string{"tipoItemExpor", "recintoFiscal", "tipoRegimen", "regimen"} { // MH puts an export's own data there
		if v := facts.Get("resumen").Get(name); v.Exists() {
			known = known.With(name, v)
		}
	}
	same("emisor", issuer, known)
	for _, root := range []string{"receptor", "sujetoExcluido", "donante", "documento", "motivo", "ventaTercero"} {
		known := facts.Get(root)
		if !known.Exists() {
			known = facts.Get("receptor")
		}
		same(root, document.Get(root), known)
	}
	for _, root := range []string{"detalleDTE", "documentoRelacionado", "apendice"} {
		if list := document.Get(root); list.Kind() == dte.KindArray {
			differ(root+": items", dte.Int(int64(list.Len())), dte.Int(int64(facts.Get(root).Len())))
			for i := range list.Len() {
				same(root, list.Index(i), facts.Get(root).Index(i))
			}
		}
	}
	return append(wrong, imbalances(document)...)
}

// imbalances are the totals of a document that its amounts do not add up to, by the test's own arithmetic.
func imbalances(document dte.Value) (wrong []string) {
	resumen, lines := document.Get("resumen"), document.Get("cuerpoDocumento")
	number := func(v dte.Value, names ...string) (sum dte.Amount) {
		for _, name := range names {
			a, _ := v.Get(name).Amount()
			sum += a
		}
		return sum
	}
	near := func(what string, a, b dte.Amount) {
		if a-b > 2*dte.Scale/100 || b-a > 2*dte.Scale/100 {
			wrong = append(wrong, fmt.Sprintf("%s is %s, and its parts are %s", what, a, b))
		}
	}
	for total, column := range map[string]string{"totalNoSuj": "ventaNoSuj", "totalExenta": "ventaExenta", "totalGravada": "ventaGravada",
		"totalCompra": "compra", "totalCompraExcluidos": "compra", "totalIvaRetenido": "ivaRetenido", "totalSujetoRetencion": "montoSujetoGrav"} {
		var sum dte.Amount
		for i := range lines.Len() {
			sum += number(lines.Index(i), column)
		}
		if resumen.Get(total).Exists() && lines.Index(0).Get(column).Exists() {
			near("resumen."+total, number(resumen, total), sum)
		}
	}
	if !resumen.Get("totalPagar").Exists() {
		return wrong
	}
	pay := number(resumen, "totalNoSuj", "totalExenta", "totalGravada", "totalCompra", "totalCompraExcluidos", "totalSeguro", "totalFlete", "seguro", "flete", "ivaPerci", "ivaPerci1", "totalNoGravado") -
		number(resumen, "descuNoSuj", "descuExenta", "descuGravada", "descu", "descuento", "ivaRete", "ivaRete1", "reteRenta")
	for i := range resumen.Get("tributos").Len() {
		pay += number(resumen.Get("tributos").Index(i), "valor")
	}
	near("resumen.totalPagar", number(resumen, "totalPagar"), max(0, pay))
	return wrong
}

// TestForged: forged or careless overlays, layouts and answers of every shipped bundle. A bundle is refused, or its
// documents say what the box knows and add up. The suite tries some seconds of them; DTE_SOAK 250 times as many.
func TestForged(t *testing.T) {
	n := 60
	if os.Getenv("DTE_SOAK") != "" {
		n *= 250
	}
	for _, name := range slices.Concat(plugins.Names, plugins.Further) {
		if name == "catalogues" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			f := newForge(t, name)
			r := rand.New(rand.NewPCG(33, uint64(len(name))))
			for _, facts := range f.facts {
				document, faults, err := f.make(f.parts, facts, nil)
				if err != nil || len(faults) > 0 {
					t.Fatalf("a case of its own: %v %v", faults, err)
				}
				made, _ := dte.Parse(document)
				if wrong := forgeries(&f.manifest, made, facts); len(wrong) > 0 {
					t.Fatalf("a case of its own is forged: %q", wrong)
				}
			}
			refused, made := 0, 0
			for i := range n {
				facts := f.facts[r.IntN(len(f.facts))]
				parts, bent := f.parts, (func(*schema.Computed))(nil)
				if i%3 > 0 || f.module == nil {
					parts = f.mutate(r)
				} else {
					at, off := r.Int(), []int64{1, -1, 100, 7}[r.IntN(4)]*dte.Scale
					bent = func(c *schema.Computed) {
						if list := [][]int64{c.Summary, c.Lines}[at%2]; len(list) > 0 {
							list[at/2%len(list)] += off
						}
					}
				}
				document, faults, err := f.make(parts, facts, bent)
				if err != nil || len(faults) > 0 {
					refused++
					continue
				}
				made++
				v, err := dte.Parse(document)
				if err != nil {
					t.Fatalf("%v\n%s", err, document)
				}
				if wrong := forgeries(&f.manifest, v, facts); len(wrong) > 0 {
					t.Errorf("forgery %d is signed: %q\n%s", i, wrong, parts["overlay.json"])
				}
			}
			if refused < n/10 || made < n/60 {
				t.Errorf("%d of %d refused, %d made: the campaign has lost its aim", refused, n, made)
			}
			t.Logf("%d forgeries: %d refused, %d made", n, refused, made)
			f.forgeFacts(t, r, 2*n)
		})
	}
}

// A document that is issued in contingency, and one whose normal form gets the marks of contingency later, are the same
// bytes in every layout. A layout that does not take the marks is refused, unless its type is not issued in contingency.
func TestForged_Marks(t *testing.T) {
	typed(t, func(t *testing.T, f *forge, honest *bundle.Type, _ *rand.Rand) {
		facts := f.facts[0]
		marked := func(marks []dte.Member) []byte {
			document, faults, err := f.make(f.parts, facts.With("identificacion", facts.Get("identificacion").Set(marks...)), nil)
			if err != nil || len(faults) > 0 {
				t.Fatalf("%v: %v %v", marks, faults, err)
			}
			return document
		}
		normal := marked(record.NormalMarks)
		for cause := int64(1); cause <= 5 && honest.Deferrable(); cause++ {
			marks := record.ContingencyMarks(cause, "Corte de energía en la sucursal")
			want := marked(marks)
			is, err := record.ReplaceMarks(normal, marks)
			if err != nil || string(is) != string(want) {
				t.Errorf("%v\n%s\nnot\n%s", err, is, want)
			}
			if back, err := record.ReplaceMarks(want, record.NormalMarks); err != nil || string(back) != string(normal) {
				t.Errorf("%v\n%s", err, back)
			}
		}
		for what, forged := range map[string]func(layout map[string]any){
			"no document in contingency": func(layout map[string]any) {
				at, _ := place(layout, "identificacion.tipoModelo")
				at["tipoModelo"] = map[string]any{"type": "integer", "const": 1}
			},
			"no cause": func(layout map[string]any) {
				at, _ := place(layout, "identificacion.tipoModelo")
				delete(at, "tipoContingencia")
			},
			"no text of a cause": func(layout map[string]any) {
				at, _ := place(layout, "identificacion.tipoModelo")
				for _, name := range []string{"motivoContin", "motivoContigencia"} {
					if at[name] != nil {
						at[name] = map[string]any{"type": "null"}
					}
				}
			},
		} {
			a := &rogueAnswer{layout: string(f.parts["schema.json"]), overlay: string(f.parts["overlay.json"])}
			a.edit(func(layout, _ map[string]any) { forged(layout) })
			parts := maps.Clone(f.parts)
			parts["schema.json"] = []byte(a.layout)
			_, _, err := f.make(parts, facts, nil)
			if refused := err != nil && strings.Contains(err.Error(), "contingency"); honest.Deferrable() && !refused {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
