package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"dtegate/cmd/cmdtest/skip"
)

// guarded understands the lookaheads that MH's patterns begin with; Go's regexp has none.
type guarded struct {
	*regexp.Regexp
	newline bool // the first excludes line breaks
	fusion  bool // of 05 v4: neither one digit throughout nor seven zeros in front
}

func (g *guarded) MatchString(s string) bool {
	if g.newline && strings.ContainsAny(s, "\r\n") {
		return false
	}
	if g.fusion && s != "" && (strings.Count(s, s[:1]) == len(s) || strings.HasPrefix(s, "0000000")) {
		return false
	}
	return g.Regexp.MatchString(s)
}

func compileGuarded(pattern string) (jsonschema.Regexp, error) {
	g := &guarded{}
	var rest string
	// the characters themselves, in MH's file
	if rest, g.newline = strings.CutPrefix(pattern, "^(?!.*[\r\n])"); g.newline {
		rest = "^" + rest
	}
	if rest, g.fusion = strings.CutPrefix(rest, `^(?!([0-9])\1+$)(?!0{7})`); g.fusion {
		rest = "^" + rest
	}
	var err error
	g.Regexp, err = regexp.Compile(rest)
	return g, err
}

// official compiles MH's own file.
func official(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	path := filepath.Join("..", "..", "..", "..", "..", "shared", "mh", "schemas", filepath.FromSlash(name))
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		skip.Test(t, skip.MHDocuments)
	}
	if err != nil {
		t.Fatal(err)
	}
	resource, err := jsonschema.UnmarshalJSON(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	if err != nil {
		t.Fatal(err)
	}
	amend(resource)
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(compileGuarded)
	c.AssertFormat()
	if err := c.AddResource("mh:///"+name, resource); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mh:///" + name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// amend removes from MH's files what MH itself does not enforce: the municipalities from before 2024 (real documents
// with the new ones were sealed), and a pattern of the invalidation that lacks its parentheses and forgets type 14.
func amend(v any) {
	switch v := v.(type) {
	case map[string]any:
		if fields, ok := v["properties"].(map[string]any); ok && fields["departamento"] != nil {
			delete(v, "allOf")
		}
		if v["pattern"] == "^DTE-0[0-9]|1[0-2]-[A-Z0-9]{8}-[0-9]{15}$" {
			v["pattern"] = "^DTE-(0[0-9]|1[0-9])-[A-Z0-9]{8}-[0-9]{15}$"
		}
		for _, x := range v {
			amend(x)
		}
	case []any:
		for _, x := range v {
			amend(x)
		}
	}
}

// published are MH's files, and the sample that the test mutates.
var published = []struct {
	generation
	file, sample string
}{
	{generation{"01", 1}, "prev-generation/fe-fc-v1.json", "01-v1"},
	{generation{"01", 2}, "2026-08-11_v2.0-current/v2/fe-f-v2.json", "01"},
	{generation{"03", 3}, "prev-generation/fe-ccf-v3.json", "03-v3"},
	{generation{"03", 4}, "2026-08-11_v2.0-current/v4/fe-ccf-v4.json", "03"},
	{generation{"05", 3}, "prev-generation/fe-nc-v3.json", "05-v3"},
	{generation{"05", 4}, "2026-08-11_v2.0-current/v4/fe-nc-v4.json", "05"},
	{generation{"06", 3}, "prev-generation/fe-nd-v3.json", "06-v3"},
	{generation{"06", 4}, "2026-08-11_v2.0-current/v4/fe-nd-v4.json", "06"},
	{generation{"07", 2}, "2026-08-11_v2.0-current/v2/fe-cr-v2.json", "07"},
	{generation{"04", 4}, "2026-08-11_v2.0-current/v4/fe-nr-v4.json", "dte04/v4/cases/fuel-under-an-invoice"},
	{generation{"07", 1}, "prev-generation/fe-cr-v1.json", "dte07/v1/cases/one-voucher"},
	{generation{"08", 2}, "2026-08-11_v2.0-current/v2/fe-cl-v2.json", "dte08/v2/cases/sales-and-one-invalidated"},
	{generation{"09", 2}, "2026-08-11_v2.0-current/v2/fe-dcl-v2.json", "dte09/v2/cases/cards-of-a-fortnight"},
	{generation{"11", 3}, "2026-08-11_v2.0-current/v3/fe-fex-v3.json", "dte11/v3/cases/fuel-in-contingency"},
	{generation{"15", 2}, "2026-08-11_v2.0-current/v2/fe-cd-v2.json", "dte15/v2/cases/goods-services-and-money"},
	{generation{"14", 1}, "prev-generation/fe-fse-v1.json", "14-v1"},
	{generation{"14", 2}, "2026-08-11_v2.0-current/v2/fe-fse-v2.json", "14"},
	{generation{"18", 1}, "2026-08-11_v2.0-current/v1/fe-eret-v1.json", "18"},
	{generation{Anulacion, 2}, "prev-generation/anulacion-schema-v2.json", "anulacion-v2"},
	{generation{Anulacion, 3}, "2026-08-11_v2.0-current/v3/invalidacion-schema-v3.json", "anulacion"},
	{generation{Contingencia, 3}, "prev-generation/contingencia-schema-v3.json", "contingencia-v3"},
	{generation{Contingencia, 4}, "2026-08-11_v2.0-current/v4/contingencia-schema-v4.json", "contingencia"},
}

// loose are generations whose schema here states less than MH's: its members, and what the checks need.
var loose = []generation{{"04", 3}, {"08", 1}, {"09", 1}, {"11", 1}, {"15", 1}}

// sampleOf returns a document of testdata, or the document that a bundle's golden case must make.
func sampleOf(t *testing.T, name string) []byte {
	t.Helper()
	at := "../testdata/" + name + ".json"
	if strings.HasPrefix(name, "dte") {
		at = "../../../../plugins/" + name + ".json"
	}
	text, err := os.ReadFile(at)
	var golden struct{ Document json.RawMessage }
	if err == nil && strings.HasPrefix(name, "dte") {
		err = json.Unmarshal(text, &golden)
		text = golden.Document
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Two readings of one field list: MH's file and ours give the same verdict on every mutation.
func TestSchema_AgreesWithMH(t *testing.T) {
	if len(published)+len(loose) != len(forms) {
		t.Errorf("%d generations are received, %d compared", len(forms), len(published)+len(loose))
	}
	rounds, share := 60, 48
	if os.Getenv("DTE_SOAK") != "" {
		rounds, share = 10_000, 1
	}
	for _, p := range published {
		t.Run(p.sample, func(t *testing.T) {
			mh, ours := official(t, p.file), compiled()[p.generation]
			text := sampleOf(t, p.sample)
			r := rand.New(rand.NewPCG(1, uint64(p.version)))
			bounds(t, r, share, text, mh, ours)
			refused, total := 0, 0
			for _, name := range slices.Sorted(maps.Keys(dresses)) {
				dress := dresses[name]
				for i := range rounds {
					root, err := decode(text)
					if err != nil {
						t.Fatal(err)
					}
					dress(root, ours.previous)
					did := "nothing"
					if i > 0 {
						did = mutate(r, root)
					}
					if i%4 == 3 {
						did += ", " + mutate(r, root)
					}
					theirs, mine := mh.Validate(map[string]any(root)), ours.check(root)
					if (theirs == nil) != (len(mine) == 0) {
						t.Fatalf("%s, round %d, %s:\nMH   %v\nours %q", name, i, did, theirs, mine)
					}
					if name == "everything" {
						total++
						if theirs != nil {
							refused++
						}
						if did == "nothing" && theirs != nil {
							t.Fatalf("the sample itself is refused: %v", theirs)
						}
					}
				}
			}
			// Neither side may accept everything.
			if refused < total/4 || refused > total*19/20 {
				t.Errorf("%d of %d mutations refused", refused, total)
			}
		})
	}
}

// bounds tries one in share of all texts, around every length that is the bound of any field.
func bounds(t *testing.T, r *rand.Rand, share int, text []byte, mh *jsonschema.Schema, ours *schema) {
	t.Helper()
	root, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	dresses["everything"](root, ours.previous)
	for _, p := range places("", map[string]any(root), nil) {
		if _, ok := p.get.(string); !ok {
			continue
		}
		for _, n := range lengths {
			for _, n := range []int{n - 1, n, n + 1} {
				if r.IntN(share) > 0 {
					continue
				}
				p.set(strings.Repeat("9", n))
				theirs, mine := mh.Validate(map[string]any(root)), ours.check(root)
				if (theirs == nil) != (len(mine) == 0) {
					t.Fatalf("%s of length %d:\nMH   %v\nours %q", p.path, n, theirs, mine)
				}
			}
		}
		p.set(p.get)
	}
}

// lengths returns the bounds that occur.
var lengths = []int{1, 2, 3, 4, 5, 6, 8, 14, 15, 20, 25, 30, 31, 36, 50, 100, 150, 200, 250, 300, 500, 1500, 3000}

// dresses change a sample before it is mutated, so that mutations reach the optional blocks and the conditions.
var dresses = map[string]func(root Object, previous bool){
	"nothing": func(Object, bool) {},
	"everything": func(root Object, previous bool) {
		if root.Null("documentoRelacionado") {
			fill(root, "documentoRelacionado", []any{map[string]any{"tipoDocumento": "04", "tipoGeneracion": num("1"),
				"numeroDocumento": "X", "fechaEmision": "2026-12-01"}})
		}
		doctor := map[string]any{"nombre": "Dra. Paz", "nit": nil, "docIdentificacion": "12", "tipoServicio": num("1")}
		other := map[string]any{"codDocAsociado": num("3"), "descDocumento": "abc", "detalleDocumento": "abcd",
			"medico": doctor}
		third := map[string]any{"nit": "06142501881024", "nombre": "Tercero", "codDomiciliado": num("1")}
		if previous {
			other["descDocumento"], other["detalleDocumento"] = nil, nil
			delete(third, "codDomiciliado")
		} else {
			fill(root.Object("identificacion"), "motivoContin", "m")
		}
		if _, event := root.Object("identificacion")["tipoEvento"]; event {
			root.Object("identificacion")["motivoContin"] = nil // its schema has the member for contingency only
		}
		// its papers have other members
		if tipo := root.Object("identificacion").Text("tipoDte"); tipo != "11" && tipo != "15" {
			fill(root, "otrosDocumentos", []any{other})
		}
		fill(root, "ventaTercero", third)
		fill(root, "apendice", []any{map[string]any{"campo": "campo", "etiqueta": "etiqueta", "valor": "v"}})
		extension := map[string]any{"nombEntrega": "Quien entrega", "docuEntrega": "12345",
			"nombRecibe": "Quien recibe", "docuRecibe": "12345", "observaciones": "o"}
		if _, notes := root.Object("resumen")["totalPagar"]; notes {
			extension["placaVehiculo"] = "P123"
		}
		if root.Object("identificacion").Text("tipoDte") != "09" { // it has a related document of its own
			fill(root, "extension", extension)
		}
		sum := root.Object("resumen")
		fill(sum, "tributos", []any{map[string]any{"codigo": "D1", "descripcion": "FF", "valor": num("1")},
			map[string]any{"codigo": "C8", "descripcion": "CC", "valor": num("1")}})
		fill(sum, "numPagoElectronico", "1")
		fill(sum, "observaciones", "o")
		if items := root.Objects("cuerpoDocumento"); len(items) > 0 {
			fill(items[0], "tributos", []any{"D1", "C8"})
		}
		receptor := root.Object("receptor")
		place := map[string]any{"departamento": "01", "municipio": "13", "distrito": "01", "complemento": "Calle 1"}
		if previous {
			delete(place, "distrito")
		}
		fill(receptor, "direccion", place)
		fill(receptor, "telefono", "22222222")
		fill(root.Object("identificacion"), "fusion", "06142501881024")
	},
	"contingency": func(root Object, _ bool) {
		id := root.Object("identificacion")
		fill(id, "tipoModelo", num("2"))
		fill(id, "tipoOperacion", num("2"))
		fill(id, "tipoContingencia", num("5"))
		fill(id, "motivoContin", "Sin energía")
		fill(root.Object("motivo"), "tipoContingencia", num("5"))
		fill(root.Object("motivo"), "motivoContingencia", "Sin energía")
	},
	"a tax as an item": func(root Object, _ bool) {
		for _, it := range root.Objects("cuerpoDocumento") {
			fill(it, "tipoItem", num("4"))
			fill(it, "uniMedida", num("99"))
			fill(it, "codTributo", "A8")
			if root.Object("identificacion").Text("tipoDte") != "01" {
				fill(it, "tributos", []any{"20"})
			}
		}
	},
	"nothing taxed": func(root Object, _ bool) {
		for _, it := range root.Objects("cuerpoDocumento") {
			fill(it, "ventaGravada", num("0"))
			fill(it, "tributos", nil)
			fill(it, "ivaItem", num("0"))
		}
		sum := root.Object("resumen")
		for _, field := range []string{"totalGravada", "ivaRete1", "ivaPerci1", "totalPagar"} {
			fill(sum, field, num("0"))
		}
		fill(sum, "condicionOperacion", num("1"))
	},
	"on credit": func(root Object, _ bool) {
		fill(root.Object("resumen"), "condicionOperacion", num("2"))
		for _, p := range root.Object("resumen").Objects("pagos") {
			fill(p, "plazo", "01")
			fill(p, "periodo", num("30"))
		}
	},
	"a replacement": func(root Object, _ bool) {
		fill(root.Object("motivo"), "tipoAnulacion", num("3"))
		fill(root.Object("documento"), "codigoGeneracionR", "8A5B0E44-51C7-4B0F-9E65-3D1B7D3F0A11")
	},
	"a consumer with NIT": func(root Object, _ bool) {
		for _, name := range []string{"receptor", "sujetoExcluido"} {
			fill(root.Object(name), "tipoDocumento", "36")
			fill(root.Object(name), "numDocumento", "06142501881024")
		}
		fill(root.Object("receptor"), "nrc", "998877")
		fill(root.Object("resumen"), "montoTotalOperacion", num("1095"))
	},
}

func num(s string) json.Number { return json.Number(s) }

// fill replaces an existing member.
func fill(o Object, name string, v any) {
	if _, has := o[name]; has {
		o[name] = v
	}
}

// place is a member or element that can be replaced.
type place struct {
	path string
	get  any
	set  func(any)
	drop func() // nil in arrays
}

func places(path string, v any, into []place) []place {
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			at := path + "/" + name
			into = append(into, place{at, v[name], func(x any) { v[name] = x }, func() { delete(v, name) }})
			into = places(at, v[name], into)
		}
	case []any:
		for i, x := range v {
			at := fmt.Sprintf("%s/%d", path, i)
			into = append(into, place{at, x, func(y any) { v[i] = y }, nil})
			into = places(at, x, into)
		}
	}
	return into
}

var literals = []string{"0", "-1", "1", "0.01", "0.001", "1e-8", "1e-9", "1e2", "99999999999.99", "100000000000",
	"1e11", "-99999999999.99",
	"2", "3.0", "5", "99", "100", "2000", "2001", "100.01", "6", "7", "1.5"}

func mutate(r *rand.Rand, root Object) string {
	all := places("", map[string]any(root), nil)
	p := all[r.IntN(len(all))]
	var v any
	switch r.IntN(9) {
	case 0:
		if p.drop != nil {
			p.drop()
			return p.path + " dropped"
		}
	case 1: // null
	case 2, 3:
		v = json.Number(literals[r.IntN(len(literals))])
	case 4, 5:
		s, _ := p.get.(string)
		v = []string{"", "x", s + "x", strings.ToLower(s), s + "\n", "\n" + s, strings.Repeat("ñ",
			lengths[r.IntN(len(lengths))]+r.IntN(2)),
			"12:3:00", "23:59:5", "2026-13-01", "20", "02"}[r.IntN(12)]
	case 6:
		v = []any{true, []any{}, map[string]any{}, []any{nil}, []any{"20", "20"}}[r.IntN(5)]
	case 7:
		if m, ok := p.get.(map[string]any); ok {
			m["otro"] = nil
			return p.path + " has one more member"
		}
		if n, ok := p.get.(json.Number); ok {
			v = n + "00000001"
			if !strings.Contains(string(n), ".") {
				v = n + ".00000001"
			}
		}
	case 8:
		if list, ok := p.get.([]any); ok && len(list) > 0 {
			long := list
			for len(long) <= []int{1, 2, 10, 50}[r.IntN(4)] {
				long = append(long, list[0])
			}
			p.set(long)
			return fmt.Sprintf("%s has %d elements", p.path, len(long))
		}
		v = p.get
	}
	p.set(v)
	return fmt.Sprintf("%s = %.60q", p.path, fmt.Sprint(v))
}
