package schema

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"dtegate/engine/dte"
)

// referenceRegexp gives the reference validator MH's lookaheads: each one that occurs, written by hand.
type referenceRegexp struct {
	source string
	rest   *regexp.Regexp
	not    []func(string) bool
}

func (r *referenceRegexp) String() string { return r.source }

func (r *referenceRegexp) MatchString(s string) bool {
	for _, not := range r.not {
		if not(s) {
			return false
		}
	}
	return r.rest.MatchString(s)
}

func newReferenceRegexp(source string) (jsonschema.Regexp, error) {
	r := &referenceRegexp{source: source}
	rest := source
	for text, not := range map[string]func(string) bool{
		"(?!.*[\r\n])":    func(s string) bool { return strings.ContainsAny(s, "\r\n") },
		`(?!([0-9])\1+$)`: func(s string) bool { return len(s) > 1 && ('0' <= s[0] && s[0] <= '9') && strings.Trim(s, s[:1]) == "" },
		`(?!0{7})`:        func(s string) bool { return strings.HasPrefix(s, "0000000") },
	} {
		if strings.Contains(rest, text) {
			rest = strings.Replace(rest, text, "", 1)
			r.not = append(r.not, not)
		}
	}
	var err error
	r.rest, err = regexp.Compile(rest)
	return r, err
}

// reference compiles the same file with the full validator. Loose takes the stale conditions out of it.
func reference(t testing.TB, path string, loose bool) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	if loose {
		for _, at := range stale[filepath.Base(path)] {
			place := doc.(map[string]any)
			for name := range strings.SplitSeq(at, ".") {
				place = place["properties"].(map[string]any)[name].(map[string]any)
			}
			delete(place, "allOf")
			for _, name := range []string{"departamento", "municipio"} {
				delete(place["properties"].(map[string]any)[name].(map[string]any), "pattern")
			}
		}
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	c.AssertFormat()
	c.UseRegexpEngine(newReferenceRegexp)
	if err := c.AddResource("mem:///"+filepath.Base(path), doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///" + filepath.Base(path))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mutator changes documents at random places, with numbers that fit an Amount: larger numbers are refused even where a
// schema allows them.
type mutator struct{ *rand.Rand }

var interesting = []dte.Value{
	dte.Null(), dte.Bool(true), dte.Int(0), dte.Int(1), dte.Int(2), dte.Int(3), dte.Int(4), dte.Int(5), dte.Int(99),
	dte.Int(-1), dte.Int(1095), dte.Int(10000),
	dte.Num(1), dte.Num(-50), dte.Num(dte.Scale / 100), dte.Num(dte.Scale + dte.Scale/1000), dte.Num(dte.MaxAmount),
	dte.Num(-dte.MaxAmount),
	dte.Str(""), dte.Str("0"), dte.Str("1"), dte.Str("01"), dte.Str("13"), dte.Str("20"), dte.Str("36"), dte.Str("99"),
	dte.Str("D1"), dte.Str("C3"), dte.Str("USD"),
	dte.Str("000000000"), dte.Str("111111111"), dte.Str("123456789"), dte.Str("12345678-9"), dte.Str("06140101901019"),
	dte.Str("ñandú"),
	dte.Str("2026-02-29"), dte.Str("2026-02-28"), dte.Str("2026-13-01"), dte.Str("23:59:59"), dte.Str("24:00:00"),
	dte.Str("1:2:3"), dte.Str("12:00:0"),
	dte.Str("a@b.sv"), dte.Str("a.b.sv"), dte.Str("correo@dominio.com\n"), dte.Str(strings.Repeat("é", 250)),
	dte.Str(strings.Repeat("é", 251)),
	dte.Str("D2B6E1C4-0000-4000-8000-00000000000A"), dte.Str("d2b6e1c4-0000-4000-8000-00000000000a"),
	dte.Str("DTE-01-M001P001-000000000000001"), dte.Str("DTE-03-M001P001-000000000000001"),
	dte.Str("DTE-03-S001P001-00000000000000a"),
	dte.Arr(), dte.Arr(dte.Str("20")), dte.Arr(dte.Str("20"), dte.Str("20")), dte.Arr(dte.Null()), dte.Obj(),
	dte.Obj(dte.Member{Name: "otro", Value: dte.Int(1)}),
}

func (m mutator) mutate(v dte.Value) dte.Value {
	if v.Len() > 0 && m.IntN(20) > 0 {
		i := m.IntN(v.Len())
		if v.Kind() == dte.KindArray {
			items := append([]dte.Value(nil), v.Items()...)
			switch m.IntN(12) {
			case 0:
				items = append(items, items[i])
			case 1:
				items = append(items[:i], items[i+1:]...)
			default:
				items[i] = m.mutate(items[i])
			}
			return dte.Arr(items...)
		}
		members := append([]dte.Member(nil), v.Members()...)
		switch m.IntN(20) {
		case 0:
			members = append(members[:i], members[i+1:]...)
		case 1:
			if m.IntN(3) == 0 {
				members = append(members, dte.Member{Name: "campoNuevo", Value: dte.Int(1)})
			}
		default:
			members[i].Value = m.mutate(members[i].Value)
		}
		return dte.Obj(members...)
	}
	if m.IntN(4) > 0 {
		switch v.Kind() {
		case dte.KindNumber:
			a, _ := v.Amount()
			return dte.Num([]dte.Amount{-a, a + 1, a - dte.Scale/100, a / 10, a + dte.Scale/2, 0, a + 3*dte.Scale/1000,
				a + dte.Scale, 2 * a}[m.IntN(9)])
		case dte.KindString:
			s := []rune(v.Text())
			i := m.IntN(len(s) + 1)
			switch m.IntN(5) {
			case 0:
				return dte.Str(string(s[:i]))
			case 1:
				return dte.Str(string(s[:i]) + "\n" + string(s[i:]))
			case 2:
				return dte.Str(strings.ToLower(v.Text()))
			case 3:
				return dte.Str(string(s[:i]) + string(rune('0'+m.IntN(10))) + string(s[i:]))
			default:
				return dte.Str(strings.Repeat(v.Text()+"x", 1+m.IntN(12)))
			}
		}
	}
	return interesting[m.IntN(len(interesting))]
}

// rootDot is an address that ends in the root of the domain name system: the reference accepts it as a host name, RFC
// 5321 does not accept it as a mailbox.
var rootDot = regexp.MustCompile(`@[^"]*\."`)

func TestCheck_AgreesWithReference(t *testing.T) {
	rounds := 30
	if os.Getenv("DTE_SOAK") != "" {
		rounds = 2000
	}
	m := mutator{rand.New(rand.NewPCG(20261201, 2))}
	type pair struct {
		ours *Filler
		ref  *jsonschema.Schema
	}
	pairs := map[string][2]pair{}
	good, bad := 0, 0
	for _, e := range examples(t) {
		both, ok := pairs[e.schema]
		if !ok {
			for i, loose := range []bool{true, false} {
				both[i].ours = compile(t, e.schema, string(drops(filepath.Base(e.schema), loose)), Outputs{})
				both[i].ref = reference(t, e.schema, loose)
			}
			pairs[e.schema] = both
		}
		for i := range rounds {
			f, ref := both[min(i%5, 4)/4].ours, both[min(i%5, 4)/4].ref
			v := m.mutate(e.document)
			for range m.IntN(4) / 2 {
				v = m.mutate(v)
			}
			text := v.Append(nil)
			if rootDot.Match(text) {
				continue
			}
			plain, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			want := ref.Validate(plain)
			faults := f.Check(text)
			if (want == nil) != (len(faults) == 0) {
				t.Fatalf("%s: reference says %v\nwe say %v\nof %s", e.name, want, faults, text)
			}
			if want == nil {
				good++
			} else {
				bad++
			}
		}
	}
	if good*20 < bad || bad == 0 {
		t.Errorf("mutations too one-sided: %d good, %d bad", good, bad)
	}
	t.Logf("%d good, %d bad", good, bad)
}
