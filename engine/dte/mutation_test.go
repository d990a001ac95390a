package dte

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// referenceRegexp is how the reference validator gets MH's lookaheads: each that occurs, written by hand.
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
		`(?!([0-9])\1+$)`: func(s string) bool { return len(s) > 1 && isDigit(s[0]) && strings.Trim(s, s[:1]) == "" },
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

// mutator changes documents at random places, within the numbers that an Amount holds: beyond those we refuse what
// a schema may allow.
type mutator struct{ *rand.Rand }

var interesting = []Value{
	Null(), Bool(true), Int(0), Int(1), Int(2), Int(3), Int(4), Int(5), Int(99), Int(-1), Int(1095), Int(10000),
	Num(1), Num(-50), Num(Scale / 100), Num(Scale + Scale/1000), Num(MaxAmount), Num(-MaxAmount),
	Str(""), Str("0"), Str("1"), Str("01"), Str("13"), Str("20"), Str("36"), Str("99"), Str("D1"), Str("C3"), Str("USD"),
	Str("000000000"), Str("111111111"), Str("123456789"), Str("12345678-9"), Str("06140101901019"), Str("ñandú"),
	Str("2026-02-29"), Str("2026-02-28"), Str("2026-13-01"), Str("23:59:59"), Str("24:00:00"), Str("1:2:3"), Str("12:00:0"),
	Str("a@b.sv"), Str("a.b.sv"), Str("correo@dominio.com\n"), Str(strings.Repeat("é", 250)), Str(strings.Repeat("é", 251)),
	Str("D2B6E1C4-0000-4000-8000-00000000000A"), Str("d2b6e1c4-0000-4000-8000-00000000000a"),
	Str("DTE-01-M001P001-000000000000001"), Str("DTE-03-M001P001-000000000000001"), Str("DTE-03-S001P001-00000000000000a"),
	Arr(), Arr(Str("20")), Arr(Str("20"), Str("20")), Arr(Null()), Obj(), Obj(Member{"otro", Int(1)}),
}

func (m mutator) mutate(v Value) Value {
	if v.Len() > 0 && m.IntN(20) > 0 {
		i := m.IntN(v.Len())
		if v.Kind() == KindArray {
			items := append([]Value(nil), v.node.items...)
			switch m.IntN(12) {
			case 0:
				items = append(items, items[i])
			case 1:
				items = append(items[:i], items[i+1:]...)
			default:
				items[i] = m.mutate(items[i])
			}
			return Arr(items...)
		}
		members := append([]Member(nil), v.node.members...)
		switch m.IntN(20) {
		case 0:
			members = append(members[:i], members[i+1:]...)
		case 1:
			if m.IntN(3) == 0 {
				members = append(members, Member{"campoNuevo", Int(1)})
			}
		default:
			members[i].Value = m.mutate(members[i].Value)
		}
		return Obj(members...)
	}
	if m.IntN(4) > 0 {
		switch v.Kind() {
		case KindNumber:
			a, _ := v.Amount()
			return Num([]Amount{-a, a + 1, a - Scale/100, a / 10, a + Scale/2, 0, a + 3*Scale/1000, a + Scale, 2 * a}[m.IntN(9)])
		case KindString:
			s := []rune(v.Text())
			i := m.IntN(len(s) + 1)
			switch m.IntN(5) {
			case 0:
				return Str(string(s[:i]))
			case 1:
				return Str(string(s[:i]) + "\n" + string(s[i:]))
			case 2:
				return Str(strings.ToLower(v.Text()))
			case 3:
				return Str(string(s[:i]) + string(rune('0'+m.IntN(10))) + string(s[i:]))
			default:
				return Str(strings.Repeat(v.Text()+"x", 1+m.IntN(12)))
			}
		}
	}
	return interesting[m.IntN(len(interesting))]
}

// rootDot is an address that ends in the root of the domain name system, which the reference takes as a host name
// and RFC 5321 does not take as a mailbox.
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
