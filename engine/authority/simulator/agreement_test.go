package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// guarded understands the one lookahead that MH's patterns begin with; Go's regexp has none.
type guarded struct {
	*regexp.Regexp
	newline bool // what the lookahead excludes
}

func (g *guarded) MatchString(s string) bool {
	return !(g.newline && strings.ContainsAny(s, "\r\n")) && g.Regexp.MatchString(s)
}

func compileGuarded(pattern string) (jsonschema.Regexp, error) {
	rest, found := strings.CutPrefix(pattern, "^(?!.*[\r\n])") // the characters themselves, in MH's file
	if found {
		rest = "^" + rest
	}
	re, err := regexp.Compile(rest)
	return &guarded{re, found}, err
}

// official compiles MH's own file.
func official(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	path := filepath.Join("..", "..", "..", "..", "shared", "mh", "schemas", "2026-08-11_v2.0-current", filepath.FromSlash(name))
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		t.Skip("no oracle folder beside the checkout")
	}
	if err != nil {
		t.Fatal(err)
	}
	resource, err := jsonschema.UnmarshalJSON(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	if err != nil {
		t.Fatal(err)
	}
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

// Two readings of one field list: MH's file and ours say the same of every mutation.
func TestSchema_AgreesWithMH(t *testing.T) {
	rounds, share := 500, 6
	if os.Getenv("DTE_SOAK") != "" {
		rounds, share = 30_000, 1
	}
	for g, file := range map[generation]string{{"01", 2}: "v2/fe-f-v2.json", {"03", 4}: "v4/fe-ccf-v4.json"} {
		t.Run(g.tipo, func(t *testing.T) {
			mh, ours := official(t, file), compiled()[g]
			text, err := os.ReadFile("testdata/" + g.tipo + ".json")
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(1, uint64(g.version)))
			bounds(t, r, share, text, mh, ours)
			refused := 0
			for i := range rounds {
				root, err := decode(text)
				if err != nil {
					t.Fatal(err)
				}
				dress(root)
				did := mutate(r, root)
				if i == 0 {
					root, _ = decode(text)
					dress(root)
					did = "nothing"
				}
				theirs, mine := mh.Validate(map[string]any(root)), ours.check(root)
				if (theirs == nil) != (len(mine) == 0) {
					t.Fatalf("round %d, %s:\nMH   %v\nours %q", i, did, theirs, mine)
				}
				if theirs != nil {
					refused++
				} else if did == "nothing" {
					continue
				}
				if did == "nothing" {
					t.Fatalf("the sample itself is refused: %v", theirs)
				}
			}
			// Neither side may be asleep.
			if refused < rounds/3 || refused > rounds*19/20 {
				t.Errorf("%d of %d mutations refused", refused, rounds)
			}
		})
	}
}

// bounds tries one in share of: every text, around every length that any field has as its bound.
func bounds(t *testing.T, r *rand.Rand, share int, text []byte, mh *jsonschema.Schema, ours *schema) {
	t.Helper()
	root, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	dress(root)
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

// lengths are the bounds that occur.
var lengths = []int{1, 2, 3, 4, 5, 6, 8, 14, 15, 20, 25, 30, 31, 36, 50, 100, 150, 200, 250, 300, 500, 1500, 3000}

// dress fills the optional blocks, so that mutations reach them.
func dress(root object) {
	num := func(s string) json.Number { return json.Number(s) }
	root["documentoRelacionado"] = []any{map[string]any{"tipoDocumento": "04", "tipoGeneracion": num("2"), "numeroDocumento": "X", "fechaEmision": "2026-12-01"}}
	root["otrosDocumentos"] = []any{map[string]any{"codDocAsociado": num("3"), "descDocumento": "abc", "detalleDocumento": "abcd",
		"medico": map[string]any{"nombre": "Dra. Paz", "nit": nil, "docIdentificacion": "1", "tipoServicio": num("1")}}}
	root["ventaTercero"] = map[string]any{"nit": "1", "nombre": "T", "codDomiciliado": num("1")}
	root["apendice"] = []any{map[string]any{"campo": "c", "etiqueta": "e", "valor": "v"}}
	sum := root.object("resumen")
	sum["tributos"] = []any{map[string]any{"codigo": "D1", "descripcion": "F", "valor": num("1")}, map[string]any{"codigo": "C8", "descripcion": "C", "valor": num("1")}}
	root.object("identificacion")["motivoContin"] = "m"
	sum["numPagoElectronico"], sum["observaciones"] = "1", "o"
	root.objects("cuerpoDocumento")[0]["tributos"] = []any{"D1", "C8"}
	receptor := root.object("receptor")
	receptor["direccion"] = map[string]any{"departamento": "01", "municipio": "13", "distrito": "01", "complemento": "x"}
	receptor["telefono"] = "22222222"
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

var literals = []string{"0", "-1", "1", "0.01", "0.001", "1e-8", "1e-9", "1e2", "99999999999.99", "100000000000", "1e11", "-99999999999.99",
	"2", "3.0", "5", "99", "100", "2000", "2001", "100.01", "6", "7", "1.5"}

func mutate(r *rand.Rand, root object) string {
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
		v = []string{"", "x", s + "x", strings.ToLower(s), s + "\n", "\n" + s, strings.Repeat("ñ", lengths[r.IntN(len(lengths))]+r.IntN(2)),
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
