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
		`{"a":[{"b":01}]}`:                     {Code: FaultSyntax, Message: "no es JSON válido", Path: "a[0]"},
		`{"a":NaN}`:                            {Code: FaultSyntax, Message: "no es JSON válido", Path: "a"},
		`{'a':1}`:                              {Code: FaultSyntax, Message: "no es JSON válido"},
		`{a:1}`:                                {Code: FaultSyntax, Message: "no es JSON válido"},
		`{1:1}`:                                {Code: FaultSyntax, Message: "no es JSON válido"},
		`[1,]`:                                 {Code: FaultSyntax, Message: "no es JSON válido"},
		`"\ud800"`:                             {Code: FaultSyntax, Message: "no es JSON válido"},
		`// a comment`:                         {Code: FaultSyntax, Message: "no es JSON válido"},
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
