package dte

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// spelling writes JSON values in all possible ways.
type spelling struct{ *rand.Rand }

func (s spelling) space() string { return []string{"", "", "", " ", "\n\t", "  \r\n"}[s.IntN(6)] }

func (s spelling) value(v Value) string {
	sp := s.space
	switch v.kind {
	case KindString:
		return sp() + s.text(v.text) + sp()
	case KindNumber:
		return sp() + s.number(v.Text()) + sp()
	case KindArray:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = s.value(v.Index(i))
		}
		return sp() + "[" + sp() + strings.Join(parts, ",") + "]" + sp()
	case KindObject:
		var parts []string
		for _, i := range s.Perm(v.Len()) {
			m := v.Members()[i]
			parts = append(parts, sp()+s.text(m.Name)+sp()+":"+s.value(m.Value))
		}
		return "{" + sp() + strings.Join(parts, ",") + "}"
	}
	return sp() + string(v.Append(nil)) + sp()
}

// text escapes some characters that need no escape.
func (s spelling) text(t string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range t {
		switch {
		case r < ' ' || r == '"' || r == '\\' || r < 0x10000 && s.IntN(4) == 0:
			fmt.Fprintf(&b, []string{`\u%04x`, `\u%04X`}[s.IntN(2)], r)
		case r >= 0x10000 && s.IntN(4) == 0:
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

// number writes a number by moving its point, adding zeros and an exponent.
func (s spelling) number(literal string) string {
	f, ok := new(big.Rat).SetString(literal)
	if !ok {
		panic(literal)
	}
	shift := s.IntN(9) - 4
	ten := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(shift, -shift))), nil))
	if shift < 0 {
		f.Quo(f, ten)
	} else {
		f.Mul(f, ten)
	}
	if s.IntN(3) == 0 {
		return literal
	}
	return f.FloatString(30+s.IntN(3)) + fmt.Sprintf("%s%s%0*d", []string{"e", "E"}[s.IntN(2)],
		map[bool]string{true: "-", false: []string{"", "+"}[s.IntN(2)]}[shift > 0], 1+s.IntN(3), max(shift, -shift))
}

func (s spelling) random(depth int) Value {
	texts := []string{"", "a", "Ñandú \"x\"\\", "\u0001\n", "😀é", "10", "null"}
	switch n := s.IntN(8); {
	case n == 0:
		return Null()
	case n == 1:
		return Bool(s.IntN(2) == 0)
	case n == 2:
		return Num(Amount(s.Int64N(int64(MaxAmount))) * Amount(1-2*s.IntN(2)))
	case n == 3:
		v, _ := Parse([]byte([]string{"1e30", "-12345678901234567890", "0.1234567891", "10", "0", "-0",
			"1.5E2"}[s.IntN(7)]))
		return v
	case n < 6 || depth == 0:
		return Str(texts[s.IntN(len(texts))])
	case n == 6:
		items := make([]Value, s.IntN(4))
		for i := range items {
			items[i] = s.random(depth - 1)
		}
		return Arr(items...)
	}
	var members []Member
	for i := range s.IntN(6) {
		members = append(members, Member{fmt.Sprintf("%s%d", texts[s.IntN(len(texts))], i), s.random(depth - 1)})
	}
	return Obj(members...)
}

// other changes one leaf or one name of a value.
func (s spelling) other(v Value) Value {
	if n := v.Len(); n > 0 && s.IntN(4) > 0 {
		i := s.IntN(n)
		if v.kind == KindArray {
			items := append([]Value(nil), v.node.items...)
			items[i] = s.other(items[i])
			return Arr(items...)
		}
		members := append([]Member(nil), v.node.members...)
		if s.IntN(3) == 0 {
			members[i].Name += "x"
		} else {
			members[i].Value = s.other(members[i].Value)
		}
		return Obj(members...)
	}
	switch v.kind {
	case KindString:
		return Str(v.text + "x")
	case KindNumber:
		if v.exact {
			return Num(v.num + 1)
		}
		w, _ := Parse([]byte(strings.Replace(v.text, "1", "2", 1)))
		return w
	case KindBool:
		return Bool(!v.Bool())
	case KindNull:
		return Bool(false)
	case KindArray:
		return Arr(append(append([]Value(nil), v.node.items...), Null())...)
	}
	return v.With("another member", Null())
}

// TestDigest: a value has one digest in every spelling, and any other value has another digest.
func TestDigest(t *testing.T) {
	s := spelling{rand.New(rand.NewPCG(1, 2))}
	seen := make(map[[32]byte]string)
	for range 20_000 {
		v := s.random(4)
		want := v.Digest()
		text := s.value(v)
		again, err := Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if again.Digest() != want {
			t.Fatalf("%s\nand\n%s\nare one value with two digests", v.Append(nil), text)
		}
		if o := s.other(v); o.Digest() == want {
			t.Fatalf("%s\nand\n%s\nhave one digest", v.Append(nil), o.Append(nil))
		}
		form := string(v.append(nil, new([]int)))
		if have, twice := seen[want]; twice && have != form {
			t.Fatalf("%s and %s collide", have, form)
		}
		seen[want] = form
	}
}

func TestDigest_Spellings(t *testing.T) {
	for _, same := range [][]string{
		{`{"a":10,"b":[1,2]}`, ` { "b" : [1.0,2e0] , "\u0061":1e1}`, `{"b":[1,20e-1],"a":10.00}`},
		{`1e400`, `10E399`, `0.1e401`}, {`0`, `-0`, `0.000000000000`, `0e9`}, {`0.1234567891`, `1234567891e-10`},
	} {
		first, err := Parse([]byte(same[0]))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range same[1:] {
			if v, err := Parse([]byte(text)); err != nil || v.Digest() != first.Digest() {
				t.Errorf("%s and %s: %v", same[0], text, err)
			}
		}
	}
	// Stored digests are of this form: it must never change.
	for text, want := range map[string]string{"1.50e30": "15e29", "-0.00012300e40": "-123e34", "1e400": "1e400",
		"0.0000000010": "1e-9", "123456789012": "123456789012e0", "0e999": "0", "-0.00000000000": "0", "1.50": "1.5",
		`{"b":1,"a":[{"d":1e0,"c":"é"}]}`: `{"a":[{"c":"é","d":1}],"b":1}`} {
		v, err := Parse([]byte(text))
		if got := string(v.append(nil, new([]int))); err != nil || got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	different := []string{`{}`, `[]`, `null`, `""`, `"null"`, `{"a":null}`, `{"a":[]}`, `[1,2]`, `[2,1]`, `[12]`,
		`["1",2]`, `{"a":"b"}`, `{"a":{"b":null}}`,
		`1e400`, `1e399`, `-1e400`, `0.1234567891`, `0.1234567892`, `"10"`, `10`, `true`, `"true"`}
	seen := make(map[[32]byte]string)
	for _, text := range different {
		v, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if have, twice := seen[v.Digest()]; twice {
			t.Errorf("%s and %s have one digest", have, text)
		}
		seen[v.Digest()] = text
	}
}

func BenchmarkDigest(b *testing.B) {
	body := []byte(`{"receptor":{"nombre":"Ana Morales"},"items":[` +
		strings.TrimSuffix(strings.Repeat(`{"descripcion":"Café molido 1 lb","cantidad":2,"precioUnitario":6.95},`, 10),
			",") + `],"condicionOperacion":1}`)
	v, err := Parse(body)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		v.Digest()
	}
}
