package dte

import (
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Digest is the SHA-256 of the JSON value that v is, however it was written: the order of members, white space, escapes and
// the spelling of a number (10, 10.00, 1e1) do not matter; the order of items, and null against an absent member, do.
func (v Value) Digest() [32]byte {
	c := canonicalForms.Get().(*canonicalForm)
	defer canonicalForms.Put(c)
	c.text = c.text[:0]
	c.append(v)
	return sha256.Sum256(c.text)
}

// canonicalForm writes a Value in its one canonical form: compact, members by name, each number in its shortest spelling.
type canonicalForm struct {
	text  []byte
	order []int // of the members of the objects that are being written, the innermost last
}

var canonicalForms = sync.Pool{New: func() any { return new(canonicalForm) }}

func (c *canonicalForm) append(v Value) {
	switch v.kind {
	case KindNumber:
		if v.exact {
			c.text = v.num.Append(c.text)
		} else {
			c.text = appendNumber(c.text, v.text)
		}
	case KindArray:
		c.text = append(c.text, '[')
		for i, item := range v.node.items {
			if i > 0 {
				c.text = append(c.text, ',')
			}
			c.append(item)
		}
		c.text = append(c.text, ']')
	case KindObject:
		c.object(v.node.members)
	default:
		c.text = v.Append(c.text)
	}
}

func (c *canonicalForm) object(members []Member) {
	base := len(c.order)
	for i := range members {
		c.order = append(c.order, i)
	}
	slices.SortFunc(c.order[base:], func(a, b int) int { return strings.Compare(members[a].Name, members[b].Name) })
	c.text = append(c.text, '{')
	for k := range members {
		if k > 0 {
			c.text = append(c.text, ',')
		}
		m := &members[c.order[base+k]]
		c.text = append(AppendQuoted(c.text, m.Name), ':')
		c.append(m.Value)
	}
	c.text, c.order = append(c.text, '}'), c.order[:base]
}

// appendNumber writes a JSON number that is no Amount (too large, or with too many decimals) as its significant digits and
// the power of ten of the last one: 1.50e30 and 15E29 are 15e29.
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
	if significant == "" {
		return append(dst, '0')
	}
	if negative {
		dst = append(dst, '-')
	}
	dst = append(append(dst, significant...), 'e')
	return strconv.AppendInt(dst, int64(exponent+len(digits)-len(significant)), 10)
}
