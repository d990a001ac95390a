package simulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth and maxDigits bound what a document may ask of the parser. MH's deepest document has six levels; its
// longest number, 11 digits and 8 decimals. Exact arithmetic on 1e999999 would take minutes.
const (
	maxDepth  = 32
	maxDigits = 40
)

var errJSON = errors.New("EL DOCUMENTO NO ES JSON")

// decode parses a document: UTF-8, one value, an object, no member twice. Numbers stay text, so that nothing is
// rounded. The error is an observation for MH's answer.
func decode(data []byte) (object, error) {
	if !utf8.Valid(data) {
		return nil, errJSON
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := value(dec, "", 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errJSON
	}
	root, ok := v.(map[string]any)
	if !ok {
		return nil, errJSON
	}
	return root, nil
}

func value(dec *json.Decoder, path string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errJSON
	}
	token, err := dec.Token()
	if err != nil {
		return nil, errJSON
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return members(dec, path, depth)
		}
		return elements(dec, path, depth)
	case json.Number:
		if !reasonable(string(t)) {
			return nil, errors.New(invalid(path))
		}
	}
	return token, nil
}

func members(dec *json.Decoder, path string, depth int) (any, error) {
	m := make(map[string]any)
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, errJSON
		}
		name, ok := token.(string)
		if !ok {
			return nil, errJSON
		}
		at := path + "/" + name
		if _, twice := m[name]; twice {
			return nil, errors.New("Campo #" + at + " está repetido")
		}
		if m[name], err = value(dec, at, depth+1); err != nil {
			return nil, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, errJSON
	}
	return m, nil
}

func elements(dec *json.Decoder, path string, depth int) (any, error) {
	list := []any{}
	for dec.More() {
		v, err := value(dec, path+"/"+strconv.Itoa(len(list)), depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	if _, err := dec.Token(); err != nil {
		return nil, errJSON
	}
	return list, nil
}

// reasonable tells whether exact arithmetic on a number literal is cheap.
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

// object reads a decoded JSON object. Reading what is absent, null or of another type gives the zero value: the
// schema has ruled those out where a check relies on them.
type object map[string]any

func (o object) null(name string) bool { return o[name] == nil }

func (o object) text(name string) string {
	s, _ := o[name].(string)
	return s
}

func (o object) object(name string) object {
	m, _ := o[name].(map[string]any)
	return m
}

func (o object) objects(name string) []object {
	list, _ := o[name].([]any)
	var all []object
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

func (o object) texts(name string) []string {
	list, _ := o[name].([]any)
	var all []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// number is exact, and zero for what is not a number.
func (o object) number(name string) *big.Rat {
	n, _ := o[name].(json.Number)
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return new(big.Rat)
	}
	return r
}

// integer is -1 for what is not a small integer; "2.0" is one, as for MH's parser.
func (o object) integer(name string) int {
	if _, ok := o[name].(json.Number); !ok {
		return -1
	}
	r := o.number(name)
	if !r.IsInt() || !r.Num().IsInt64() {
		return -1
	}
	return int(r.Num().Int64())
}
