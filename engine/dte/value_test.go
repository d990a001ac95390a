package dte

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParse_KeepsWhatIsThere(t *testing.T) {
	data := []byte(` {"z":1.50,"a":[null,true,false,"ñ\u00e1\n\"/"],"o":{},"e":1E2,"big":1e400,"":""} `)
	v, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	clear(data) // nothing may alias it
	if got, want := string(v.Append(nil)),
		`{"z":1.5,"a":[null,true,false,"ñá\n\"/"],"o":{},"e":100,"big":1e400,"":""}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if v.Get("z").Text() != "1.50" || v.Get("a").Index(3).Text() != "ñá\n\"/" || v.Get("a").Index(1).Text() != "true" {
		t.Error("texts differ")
	}
	if a, err := v.Get("z").Amount(); a != 150_000_000 || err != nil {
		t.Errorf("%v, %v", a, err)
	}
	if _, err := v.Get("big").Amount(); !errors.Is(err, ErrRange) {
		t.Errorf("%v", err)
	}
	if _, err := v.Get("a").Amount(); !errors.Is(err, ErrNumber) {
		t.Errorf("%v", err)
	}
	if n, ok := v.Get("e").Int(); n != 100 || !ok {
		t.Errorf("%v, %v", n, ok)
	}
	if _, ok := v.Get("z").Int(); ok {
		t.Error("1.5 is an integer")
	}
	absent := v.Get("none").Get("deeper").Index(3)
	if absent.Exists() || absent.IsNull() || absent.Len() != 0 || absent.Text() != "" || absent.Members() != nil ||
		absent.Bool() {
		t.Error("the absent value is something")
	}
	if !v.Get("a").Index(0).IsNull() || v.Get("a").Len() != 4 || v.Len() != 6 || !v.Get("a").Index(1).Bool() {
		t.Error("shape differs")
	}
}

func TestParse_Refuses(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth+1)
	for text, want := range map[string]SyntaxError{
		``:                          {Code: FaultSyntax, Message: "el JSON está incompleto"},
		`{"a":1`:                    {Code: FaultSyntax, Message: "el JSON está incompleto"},
		`{"a":1}{`:                  {Code: FaultSyntax, Message: "hay datos después del documento"},
		`1 2`:                       {Code: FaultSyntax, Message: "hay datos después del documento"},
		`{"a":1,"b":{"c":1,"c":2}}`: {Code: FaultDuplicate, Message: "el campo está dos veces", Path: "b.c"},
		`{"a":1,"\u0061":2}`:        {Code: FaultDuplicate, Message: "el campo está dos veces", Path: "a"},
		"{\"a\":[1,\"\xff\"]}": {Code: FaultSyntax, Message: "el texto no es UTF-8 válido",
			Path: "a[1]"},
		`{"a":[{"b":01}]}`:                  {Code: FaultSyntax, Message: "no es JSON válido", Path: "a[0]"},
		`{"a":NaN}`:                         {Code: FaultSyntax, Message: "no es JSON válido", Path: "a"},
		`{'a':1}`:                           {Code: FaultSyntax, Message: "no es JSON válido"},
		`{a:1}`:                             {Code: FaultSyntax, Message: "no es JSON válido"},
		`{1:1}`:                             {Code: FaultSyntax, Message: "no es JSON válido"},
		`{"a":1,null:1}`:                    {Code: FaultSyntax, Message: "no es JSON válido"},
		`{[]:1}`:                            {Code: FaultSyntax, Message: "no es JSON válido"},
		`{{}:1}`:                            {Code: FaultSyntax, Message: "no es JSON válido"},
		`{true}`:                            {Code: FaultSyntax, Message: "no es JSON válido"},
		`[1,]`:                              {Code: FaultSyntax, Message: "no es JSON válido"},
		`"\ud800"`:                          {Code: FaultSyntax, Message: "no es JSON válido"},
		`// a comment`:                      {Code: FaultSyntax, Message: "no es JSON válido"},
		strings.Repeat(`{"a":`, MaxDepth+1): {Code: FaultSyntax, Message: "hay más de 32 niveles"},
		"\ufeff{}": {Code: FaultSyntax,
			Message: "empieza con una marca de orden de bytes (BOM): envíe UTF-8 sin ella"},
		deep + strings.Repeat("]", MaxDepth+1): {Code: FaultSyntax, Message: "hay más de 32 niveles"},
	} {
		_, err := Parse([]byte(text))
		var got *SyntaxError
		if !errors.As(err, &got) {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got.Code != want.Code || got.Message != want.Message || want.Path != "" && got.Path != want.Path {
			t.Errorf("%q: %+v, want %+v", text, *got, want)
		}
		if got.Offset < 0 || got.Offset > int64(len(text)) {
			t.Errorf("%q: offset %d", text, got.Offset)
		}
	}
	for _, scalar := range []string{"1", `"a"`, "null", "true"} {
		text := strings.Repeat("[", MaxDepth) + scalar + strings.Repeat("]", MaxDepth)
		if v, err := Parse([]byte(text)); err != nil || string(v.Append(nil)) != text {
			t.Errorf("a value in the deepest list: %s, %v", v.Append(nil), err)
		}
	}
	for want, e := range map[string]error{"JSON at byte 3: m": &SyntaxError{Offset: 3, Message: "m"},
		"JSON at byte 3 (a.b): m": &SyntaxError{Offset: 3, Message: "m", Path: "a.b"}, "C: m": Fault{Code: "C", Message: "m"},
		"a.b: C: m": Fault{Path: "a.b", Code: "C", Message: "m"}} {
		if e.Error() != want {
			t.Errorf("%s, want %s", e, want)
		}
	}
	if v, err := Parse([]byte(strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth))); err != nil ||
		v.Len() > 1 {
		t.Errorf("the depth allowed: %v", err)
	}
}

func TestValue_With(t *testing.T) {
	v := Obj(Member{"a", Int(1)}, Member{"b", Null()})
	w := v.With("b", Str("x")).With("c", Arr(Bool(true))).With("a", Num(Scale/2))
	if got := string(w.Append(nil)); got != `{"a":0.5,"b":"x","c":[true]}` {
		t.Errorf("%s", got)
	}
	if got := string(v.Append(nil)); got != `{"a":1,"b":null}` {
		t.Errorf("With changed its receiver: %s", got)
	}
	if got := string(Value{}.With("a", Int(-7)).Append(nil)); got != `{"a":-7}` {
		t.Errorf("%s", got)
	}
	if got := string(Str("x").With("a", Int(1)).Append(nil)); got != `"x"` {
		t.Errorf("%s", got)
	}
	if got := string(Str("a\xffb").Append(nil)); got != "\"a\ufffdb\"" {
		t.Errorf("%s", got)
	}
	if got := string(Int(1 << 62).Append(nil)); got != "4611686018427387904" {
		t.Errorf("%s", got)
	}
}

// TestValue_Kinds: what each kind of Value answers to each question; no question makes a Value panic.
func TestValue_Kinds(t *testing.T) {
	most := int64(MaxAmount / Scale)
	parsed := func(text string) Value {
		v, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	whole := func(n int64) [2]any { return [2]any{n, true} }
	no := [2]any{int64(0), false}
	for _, c := range []struct {
		v           Value
		json, text  string
		length      int
		number      [2]any
		yes, exact  bool
		items, rows bool
	}{
		{v: Value{}, json: "null", number: no}, {v: Null(), json: "null", number: no},
		{v: Text(""), json: "null", number: no}, {v: Text("a"), json: `"a"`, text: "a", number: no},
		{v: Bool(true), json: "true", text: "true", number: no, yes: true},
		{v: Bool(false), json: "false", text: "false", number: no},
		{v: Int(most), json: "92000000000", text: "92000000000", number: whole(most), exact: true},
		{v: Int(-most), json: "-92000000000", text: "-92000000000", number: whole(-most), exact: true},
		{v: Int(most + 1), json: "92000000001", text: "92000000001", number: no},
		{v: Int(-most - 1), json: "-92000000001", text: "-92000000001", number: no},
		{v: Num(1), json: "0.00000001", text: "0.00000001", number: no, exact: true},
		{v: parsed("1.50"), json: "1.5", text: "1.50", number: no, exact: true},
		{v: parsed("2.00"), json: "2", text: "2.00", number: whole(2), exact: true},
		{v: parsed("-0"), json: "0", text: "-0", number: whole(0), exact: true},
		{v: parsed("0.000000001"), json: "0.000000001", text: "0.000000001", number: no},
		{v: Str("1"), json: `"1"`, text: "1", number: no}, {v: Str("\x00\x1f\"\\\x7fñ"), text: "\x00\x1f\"\\\x7fñ",
			json: "\"\\u0000\\u001f\\\"\\\\\x7fñ\"", number: no},
		{v: Str("\\"), text: "\\", json: `"\\"`, number: no}, {v: Str(`"`), text: `"`, json: `"\""`, number: no},
		{v: Str("\x1f"), text: "\x1f", json: `"\u001f"`, number: no}, {v: Str(" "), text: " ", json: `" "`, number: no},
		{v: Obj(Member{`\"`, Null()}), json: `{"\\\"":null}`, length: 1, number: no, rows: true},
		{v: Arr(), json: "[]", number: no, items: true},
		{v: Arr(Int(1), Value{}), json: "[1,null]", length: 2, number: no, items: true},
		{v: Obj(), json: "{}", number: no, rows: true},
		{v: Texts("b", "x", "a", ""), json: `{"b":"x","a":null}`, length: 2, number: no, rows: true},
	} {
		v := c.v
		n, ok := v.Int()
		_, err := v.Amount()
		if string(v.Append(nil)) != c.json || v.Text() != c.text || v.Len() != c.length || [2]any{n, ok} != c.number ||
			v.Bool() != c.yes || (err == nil) != c.exact {
			t.Errorf("%s: %s, %q, %d, %d %v, %v, %v", c.json, v.Append(nil), v.Text(), v.Len(), n, ok, v.Bool(), err)
		}
		missing := v.Kind() == KindAbsent || v.Kind() == KindNull
		if v.Exists() != (v.Kind() != KindAbsent) || v.IsNull() != (v.Kind() == KindNull) || v.Present() == missing {
			t.Errorf("%s: exists %v, is null %v, is present %v", c.json, v.Exists(), v.IsNull(), v.Present())
		}
		if got := v.Items(); len(got) != v.Len() && c.items || !c.items && got != nil {
			t.Errorf("%s: items %v", c.json, got)
		}
		if got := v.Members(); len(got) != v.Len() && c.rows || !c.rows && got != nil {
			t.Errorf("%s: members %v", c.json, got)
		}
		for i := -1; i <= v.Len(); i++ {
			if in := c.items && 0 <= i && i < v.Len(); v.Index(i).Exists() != (in && v.Items()[i].Exists()) {
				t.Errorf("%s: item %d is %v", c.json, i, v.Index(i))
			}
		}
		if v.Find("b") != nil != (v.Get("b").Exists()) || v.Get("b").Exists() != (c.rows && c.length > 1) {
			t.Errorf("%s: a member b", c.json)
		}
		set := c.json
		if c.rows || missing {
			set = string(Obj(append(append([]Member(nil), v.Members()...), Member{"c", Int(1)})...).Append(nil))
		}
		if got := string(v.With("c", Int(1)).Append(nil)); got != set {
			t.Errorf("%s: with a member it is %s", c.json, got)
		}
	}
}

func TestOutcomes(t *testing.T) {
	for o, want := range map[Outcomes][2]bool{ // sound, grave
		{}: {true, false}, {1, 0, 0, 0}: {true, false}, {2, 1, 0, 0}: {true, false}, {3, 2, 0, 0}: {true, true},
		{1, 1, 0, 0}: {true, true}, {20, 1, 1, 0}: {true, false}, {19, 1, 1, 0}: {true, true}, {40, 2, 2, 0}: {true, false},
		{40, 3, 3, 0}: {true, true}, {1, 2, 0, 0}: {false, true}, {5, 1, 2, 0}: {false, true}, {5, 0, -1, 0}: {false, false},
		{3, 3, 3, 0}: {true, true}, {0, 0, 0, 1}: {true, true}, {18, 0, 0, 1}: {true, true}, {19, 0, 0, 1}: {true, false},
		{38, 1, 1, 1}: {true, true}, {39, 1, 1, 1}: {true, false}, {5, 0, 0, -1}: {false, false},
	} {
		if got := [2]bool{o.Sound() == nil, o.Grave()}; got != want {
			t.Errorf("%+v: sound, grave %v", o, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.50,-0,1e3,{"b":null}],"c":"\u00e1\n"}`, `{"a":1,"a":2}`, `[1] 2`, "\"\xff\"",
		`"\ud83d\ude00"`, `[[[]]]`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Parse(data)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Message == "" || syntax.Code == "" {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatalf("took %q", data)
		}
		text := v.Append(nil)
		again, err := Parse(text)
		if err != nil {
			t.Fatalf("wrote %q: %v", text, err)
		}
		if second := again.Append(nil); string(second) != string(text) {
			t.Fatalf("%q became %q", text, second)
		}
		var plain, back any
		if json.Unmarshal(data, &plain) == nil && json.Unmarshal(text, &back) == nil {
			if !reflect.DeepEqual(plain, back) {
				t.Fatalf("%q became %q", data, text)
			}
		}
	})
}
