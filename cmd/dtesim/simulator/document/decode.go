package document

import (
	"encoding/json"
	"errors"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth and maxDigits bound the parser's work. MH's deepest document has six levels; its longest number has 11
// digits and 8 decimals. Exact arithmetic on 1e999999 would take minutes.
const (
	maxDepth  = 32
	maxDigits = 40
)

var errJSON = errors.New("EL DOCUMENTO NO ES JSON")

// decode parses a document: UTF-8, one JSON object, no member twice. Numbers stay text, so that nothing is rounded. The
// error is an observation for MH's answer.
func decode(data []byte) (Object, error) {
	if !utf8.Valid(data) || !json.Valid(data) {
		return nil, errJSON
	}
	p := &parser{text: data}
	v, err := p.value("", 0)
	if err != nil {
		return nil, err
	}
	root, ok := v.(map[string]any)
	if !ok {
		return nil, errJSON
	}
	return root, nil
}

// parser walks over a text that is known to be JSON.
type parser struct {
	text []byte
	at   int
}

// next skips space, commas and colons, and returns the next character without consuming it.
func (p *parser) next() byte {
	for strings.IndexByte(" \t\r\n,:", p.text[p.at]) >= 0 {
		p.at++
	}
	return p.text[p.at]
}

// value reads a value; path is the value's path, for observations.
func (p *parser) value(path string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errJSON
	}
	switch p.next() {
	case '{':
		p.at++
		return p.members(path, depth)
	case '[':
		p.at++
		return p.elements(path, depth)
	case '"':
		return p.quoted(), nil
	case 't':
		p.at += len("true")
		return true, nil
	case 'f':
		p.at += len("false")
		return false, nil
	case 'n':
		p.at += len("null")
		return nil, nil
	}
	begin := p.at
	for p.at < len(p.text) && strings.IndexByte("+-.0123456789eE", p.text[p.at]) >= 0 {
		p.at++
	}
	literal := string(p.text[begin:p.at])
	if !reasonable(literal) {
		return nil, errors.New(invalid(path))
	}
	return json.Number(literal), nil
}

func (p *parser) members(path string, depth int) (any, error) {
	m := make(map[string]any)
	for p.next() != '}' {
		name := p.quoted()
		at := path + "/" + name
		if _, twice := m[name]; twice {
			return nil, errors.New("Campo #" + at + " está repetido")
		}
		v, err := p.value(at, depth+1)
		if err != nil {
			return nil, err
		}
		m[name] = v
	}
	p.at++
	return m, nil
}

func (p *parser) elements(path string, depth int) (any, error) {
	list := []any{}
	for p.next() != ']' {
		v, err := p.value(path+"/"+strconv.Itoa(len(list)), depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	p.at++
	return list, nil
}

func (p *parser) quoted() string {
	begin := p.at
	plain := true
	for p.at++; p.text[p.at] != '"'; p.at++ {
		if p.text[p.at] == '\\' {
			plain = false
			p.at++ // a quote after a backslash does not end the string
		}
	}
	p.at++
	if plain {
		return string(p.text[begin+1 : p.at-1])
	}
	var s string
	if err := json.Unmarshal(p.text[begin:p.at], &s); err != nil {
		panic("simulator: valid JSON holds an invalid string: " + err.Error())
	}
	return s
}

// reasonable reports whether exact arithmetic on a number literal is cheap.
func reasonable(literal string) bool {
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(literal), "e")
	if len(mantissa) > maxDigits {
		return false
	}
	if !scientific {
		return true
	}
	e, err := strconv.Atoi(exponent)
	return err == nil && -maxDigits <= e && e <= maxDigits
}

// Object reads a decoded JSON object. A member that is absent, null or of another type reads as the zero value. Where a
// check relies on a member, the schema has already required it.
type Object map[string]any

func (o Object) Null(name string) bool { return o[name] == nil }

func (o Object) Text(name string) string {
	s, _ := o[name].(string)
	return s
}

func (o Object) Object(name string) Object {
	m, _ := o[name].(map[string]any)
	return m
}

func (o Object) Objects(name string) []Object {
	list, _ := o[name].([]any)
	var all []Object
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

func (o Object) texts(name string) []string {
	list, _ := o[name].([]any)
	var all []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// number returns the exact number, or zero if the member is not a number.
func (o Object) number(name string) *big.Rat {
	n, _ := o[name].(json.Number)
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return new(big.Rat)
	}
	return r
}

// Integer returns an integer, or -1 if the member is not an int64. "2.0" counts as an integer, as in MH's parser.
func (o Object) Integer(name string) int {
	if _, ok := o[name].(json.Number); !ok {
		return -1
	}
	r := o.number(name)
	if !r.IsInt() || !r.Num().IsInt64() {
		return -1
	}
	return int(r.Num().Int64())
}
