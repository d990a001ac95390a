package dte

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep objects and arrays may be nested. MH's deepest document has five levels.
const MaxDepth = 32

// SyntaxError says where a text is not the strict JSON that Parse requires.
type SyntaxError struct {
	Path    string // of the innermost value that was reached, in the form "cuerpoDocumento[3]"
	Offset  int64  // in bytes
	Message string // Spanish
	Code    string // FaultSyntax or FaultDuplicate
}

func (e *SyntaxError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("JSON at byte %d: %s", e.Offset, e.Message)
	}
	return fmt.Sprintf("JSON at byte %d (%s): %s", e.Offset, e.Path, e.Message)
}

// Parse reads one JSON value, strictly: a name given twice, invalid UTF-8, text after the value and more than MaxDepth
// levels are errors. Every error is a *SyntaxError. Numbers may have any size and precision; Value.Amount fails for a
// number that does not fit. The Value keeps no reference to data.
func Parse(data []byte) (Value, error) { return parse(data) }

// ParseFacts is Parse for facts that the box has stored. It accepts a name given twice: release 1.0.0 stored the
// receptor of a purchase twice if the till also gave it as sujetoExcluido.
func ParseFacts(data []byte) (Value, error) { return parse(data, jsontext.AllowDuplicateNames(true)) }

func parse(data []byte, how ...jsontext.Options) (Value, error) {
	p := parsers.Get().(*parser)
	defer p.release()
	p.src = string(data)
	p.in = *bytes.NewBuffer(data)
	p.dec.Reset(&p.in, how...)
	v, err := p.value(0)
	if err != nil {
		return Value{}, p.explain(err)
	}
	if _, err := p.dec.ReadToken(); err != io.EOF {
		return Value{}, &SyntaxError{Offset: p.dec.InputOffset(), Code: FaultSyntax,
			Message: "hay datos después del documento"}
	}
	return v, nil
}

var errDepth = errors.New("too deep")

// parser builds the tree. Children stay on two stacks until their object or array ends, and then move to one allocation
// of the right size. Texts are parts of one copy of the input.
type parser struct {
	dec     jsontext.Decoder
	in      bytes.Buffer
	src     string
	items   []Value
	members []Member
}

var parsers = sync.Pool{New: func() any { return new(parser) }}

// release drops the input, because the pool must not keep documents in memory.
func (p *parser) release() {
	clear(p.items[:cap(p.items)])
	clear(p.members[:cap(p.members)])
	p.items, p.members, p.src = p.items[:0], p.members[:0], ""
	p.in = bytes.Buffer{}
	p.dec.Reset(&p.in)
	parsers.Put(p)
}

func (p *parser) value(depth int) (Value, error) {
	kind := p.dec.PeekKind()
	if depth == MaxDepth && (kind == '{' || kind == '[') {
		return Value{}, errDepth
	}
	switch kind {
	case '{':
		return p.object(depth)
	case '[':
		return p.array(depth)
	case '"':
		s, err := p.text()
		return Value{kind: KindString, text: s}, err
	case '0':
		raw, err := p.dec.ReadValue()
		if err != nil {
			return Value{}, err
		}
		v := Value{kind: KindNumber, text: p.slice(len(raw))}
		v.num, err = ParseAmount(v.text)
		v.exact = err == nil
		return v, nil
	}
	t, err := p.dec.ReadToken()
	if err != nil {
		return Value{}, err
	}
	if t.Kind() == 'n' {
		return Null(), nil
	}
	return Bool(t.Kind() == 't'), nil
}

func (p *parser) object(depth int) (Value, error) {
	if _, err := p.dec.ReadToken(); err != nil {
		return Value{}, err
	}
	base := len(p.members)
	for p.dec.PeekKind() != '}' {
		name, err := p.text()
		if err != nil {
			return Value{}, err
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		p.members = append(p.members, Member{name, v})
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return Value{}, err
	}
	members := append([]Member(nil), p.members[base:]...)
	p.members = p.members[:base]
	return Obj(members...), nil
}

func (p *parser) array(depth int) (Value, error) {
	if _, err := p.dec.ReadToken(); err != nil {
		return Value{}, err
	}
	base := len(p.items)
	for p.dec.PeekKind() != ']' {
		v, err := p.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		p.items = append(p.items, v)
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return Value{}, err
	}
	items := append([]Value(nil), p.items[base:]...)
	p.items = p.items[:base]
	return Arr(items...), nil
}

func (p *parser) text() (string, error) {
	raw, err := p.dec.ReadValue()
	if err != nil {
		return "", err
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		s := p.slice(len(raw))
		return s[1 : len(s)-1], nil
	}
	b, err := jsontext.AppendUnquote(nil, raw)
	return string(b), err
}

func (p *parser) slice(n int) string {
	end := p.dec.InputOffset()
	return p.src[end-int64(n) : end]
}

func (p *parser) explain(err error) error {
	e := &SyntaxError{Offset: p.dec.InputOffset(), Path: factPath(p.dec.StackPointer()), Code: FaultSyntax}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		e.Offset, e.Path = syntactic.ByteOffset, factPath(syntactic.JSONPointer)
	}
	switch {
	case errors.Is(err, errDepth):
		e.Message = "hay más de " + strconv.Itoa(MaxDepth) + " niveles"
	case errors.Is(err, jsontext.ErrDuplicateName):
		e.Code, e.Message = FaultDuplicate, "el campo está dos veces"
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		e.Message = "el JSON está incompleto"
	case syntactic != nil && syntactic.Err != nil && strings.Contains(syntactic.Err.Error(), "UTF-8"):
		e.Message = "el texto no es UTF-8 válido"
	case e.Offset == 0 && strings.HasPrefix(p.src, "\ufeff"):
		e.Message = "empieza con una marca de orden de bytes (BOM): envíe UTF-8 sin ella"
	default:
		e.Message = "no es JSON válido"
	}
	return e
}

// factPath turns a JSON pointer into a path: "cuerpoDocumento[3]". A name that is a number becomes an index too.
func factPath(pointer jsontext.Pointer) string {
	var b strings.Builder
	for token := range pointer.Tokens() {
		if _, err := strconv.Atoi(token); err == nil {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
	}
	return b.String()
}

// Digest returns a SHA-256 of a JSON value that does not depend on the order of members, white space, escapes or the
// spelling of a number (10, 10.00, 1e1). The order of items counts, and null differs from an absent member.
func (v Value) Digest() [32]byte {
	c := canonicalForms.Get().(*canonicalForm)
	defer canonicalForms.Put(c)
	c.text = v.append(c.text[:0], &c.order)
	return sha256.Sum256(c.text)
}

type canonicalForm struct {
	text  []byte
	order []int // order of the members of each object being written, the innermost last
}

var canonicalForms = sync.Pool{New: func() any { return new(canonicalForm) }}

// appendNumber writes a JSON number that is not an Amount (too large, or too many decimals) as its significant digits
// and the power of ten of the last digit: 1.50e30 and 15E29 become 15e29.
func appendNumber(dst []byte, literal string) []byte {
	mantissa, exponent := literal, 0
	if i := strings.IndexAny(literal, "eE"); i >= 0 {
		mantissa = literal[:i]
		exponent, _ = parseExponent(literal[i+1:]) // the parser has read it before
	}
	negative := strings.HasPrefix(mantissa, "-")
	whole, decimals, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	exponent -= len(decimals)
	digits := strings.TrimLeft(whole+decimals, "0")
	significant := strings.TrimRight(digits, "0")
	if negative {
		dst = append(dst, '-')
	}
	dst = append(append(dst, significant...), 'e')
	return strconv.AppendInt(dst, int64(exponent+len(digits)-len(significant)), 10)
}
