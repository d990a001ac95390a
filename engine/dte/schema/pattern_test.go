package schema

import (
	"strings"
	"testing"
)

func TestPattern(t *testing.T) {
	for source, x := range map[string]struct{ good, bad []string }{
		"^(?!.*[\r\n])[A-Z]{2}": {[]string{"AB", "ABc", "AB\u2028"}, []string{"AB\n", "\rAB", "A", "AB\r\n", "ab"}},
		`^(?!.*[\r\n])(?!([0-9])\1+$)(?!0{7})([0-9]{14}|[0-9]{9})$`: {
			[]string{"123456789", "06140101901019", "111111112", "000000100"},
			[]string{"111111111", "00000000000000", "000000012", "1234567890", "123456789\n", ""},
		},
		`^0[1-9]|1[0-4]$`: {[]string{"01", "0199", "x14"}, []string{"00", "15", "140"}},
		`^(0[1-9]||99)$`:  {[]string{"", "99", "05"}, []string{"1", "999"}},
		`ñ{2}`:            {[]string{"añño"}, []string{"ñ"}},
	} {
		p, err := new(reader).compilePattern(source)
		if err != nil {
			t.Errorf("%q: %v", source, err)
			continue
		}
		for _, s := range x.good {
			if !p.match(s) {
				t.Errorf("%q refuses %q", source, s)
			}
		}
		for _, s := range x.bad {
			if p.match(s) {
				t.Errorf("%q takes %q", source, s)
			}
		}
	}
	for _, source := range []string{`a(?!b)`, `^(?!a`, `^(?=a)`, `(a)\1`, `^(?!(.)\1)`, `[`, `^(?!(?=a))b`} {
		if p, err := new(reader).compilePattern(source); err == nil {
			t.Errorf("%q was taken as %v", source, p)
		}
	}
}

func TestFormats(t *testing.T) {
	for name, x := range map[string]struct{ good, bad []string }{
		"date": {
			[]string{"2026-11-21", "2024-02-29", "2000-02-29", "0001-12-31", "2026-04-30"},
			[]string{"", "2026-02-29", "1900-02-29", "2026-04-31", "2026-13-01", "2026-00-10", "2026-01-00",
				"2026-1-01", "20261121xx", "2026-11-21 ", "２０２６-11-21", "21/11/2026", "2026-11-2a"},
		},
		"email": {
			[]string{"a@b.sv", "compras+dte@empresa.com.sv", "josé@ejemplo.com", "o'neil@a-b.co", "a@localhost"},
			[]string{"", "a", "@b.sv", "a@", "a@b..sv", "a@.sv", "a@b.sv.", ".a@b.sv", "a.@b.sv", "a..b@c.sv",
				"a b@c.sv", "a@b c.sv", "a@b.sv\n", "a@-b.sv", "a@b-.sv", "a@@b.sv", "a,b@c.sv", "a@ñ.sv",
				strings.Repeat("a", 65) + "@b.sv", "a@" + strings.Repeat("b", 64) + ".sv"},
		},
	} {
		f := formats[name]
		for _, s := range x.good {
			if !f.match(s) {
				t.Errorf("%s refuses %q", name, s)
			}
		}
		for _, s := range x.bad {
			if f.match(s) {
				t.Errorf("%s takes %q", name, s)
			}
		}
	}
}

func TestCheck_Bounds(t *testing.T) {
	const schema = `{"type":"object","properties":{"n":{"type":"number",KEYWORD}},"additionalProperties":false}`
	for keyword, x := range map[string]struct{ good, bad []string }{
		`"minimum":1.5`:                   {[]string{"1.5", "2"}, []string{"1.49999999", "-2"}},
		`"exclusiveMinimum":1.5`:          {[]string{"1.50000001"}, []string{"1.5"}},
		`"maximum":-1`:                    {[]string{"-1", "-2"}, []string{"0", "-0.99999999"}},
		`"exclusiveMaximum":100`:          {[]string{"99.99999999"}, []string{"100"}},
		`"exclusiveMaximum":100000000000`: {[]string{"92000000000"}, []string{"92000000000.00000001", "1e11"}},
		`"minimum":-1e30`:                 {[]string{"-92000000000"}, nil},
		`"multipleOf":0.01`: {[]string{"0.07", "1.1", "91999999999.99", "-0.01"}, []string{"0.071",
			"0.00000001"}},
		`"multipleOf":0.00000001`:           {[]string{"0.1", "0.00000001", "1e-8"}, []string{"0.000000001"}},
		`"multipleOf":2.5`:                  {[]string{"5", "-7.5", "0"}, []string{"6"}},
		`"minimum":0,"exclusiveMaximum":10`: {[]string{"0", "9"}, []string{"-1", "10"}},
		`"enum":[1.0,2e0]`:                  {[]string{"1", "2.00"}, []string{"3", "1.00000001"}},
	} {
		f, err := Compile([]byte(strings.Replace(schema, "KEYWORD", keyword, 1)), nil, Outputs{}, nil)
		if err != nil {
			t.Errorf("%s: %v", keyword, err)
			continue
		}
		for _, n := range x.good {
			if faults := f.Check([]byte(`{"n":` + n + `}`)); faults != nil {
				t.Errorf("%s: %v", keyword, faults)
			}
		}
		for _, n := range x.bad {
			if faults := f.Check([]byte(`{"n":` + n + `}`)); len(faults) != 1 {
				t.Errorf("%s takes %s: %v", keyword, n, faults)
			}
		}
	}
	for _, keyword := range []string{`"maximum":-1e30`, `"minimum":1e30`, `"maximum":1.123456789`, `"multipleOf":-1`} {
		if _, err := Compile([]byte(strings.Replace(schema, "KEYWORD", keyword, 1)), nil, Outputs{}, nil); err == nil {
			t.Errorf("took %s", keyword)
		}
	}
}

// An object that the facts lack appears if the overlay fills one of its members, and only then.
func TestFill_FedObjects(t *testing.T) {
	const schema = `{"type":"object","properties":{
	 "extension":{"type":["object","null"],"properties":{"nombEntrega":{"type":["string","null"]},"observaciones":{"type":["string","null"]}},
	  "additionalProperties":false,"required":["nombEntrega","observaciones"]},
	 "documento":{"type":"object","properties":{"nota":{"type":"string"}},"additionalProperties":false,"required":["nota"]}},
	 "additionalProperties":false,"required":["extension"]}`
	const overlay = `{"from":[{"path":"extension.observaciones","fact":"resumen.observaciones","reason":"r"},{"path":"documento.nota","fact":"receptor.nota","reason":"r"}]}`
	f, err := Compile([]byte(schema), []byte(overlay), Outputs{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for facts, want := range map[string]string{
		`{}`:                                         `{"extension":null}`,
		`{"resumen":{"observaciones":"o"}}`:          `{"extension":{"nombEntrega":null,"observaciones":"o"}}`,
		`{"resumen":{"observaciones":null}}`:         `{"extension":null}`,
		`{"extension":{"nombEntrega":"n"}}`:          `{"extension":{"nombEntrega":"n","observaciones":null}}`,
		`{"extension":{"observaciones":"own"}}`:      `{"extension":{"nombEntrega":null,"observaciones":"own"}}`,
		`{"extension":null,"receptor":{"nota":"x"}}`: `{"extension":null,"documento":{"nota":"x"}}`,
	} {
		got, faults := f.Fill(nil, parse(t, facts), nil, FillOptions{})
		if string(got) != want || faults != nil {
			t.Errorf("%s: %s %v, want %s", facts, got, faults, want)
		}
	}
}
