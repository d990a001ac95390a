package dte

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// VAT is the code of the tax in CAT-015.
const VAT = "20"

// Code is a codigoGeneracion: the UUID under which MH knows a document or an event.
type Code [16]byte

// ErrCode means that a text is not a codigoGeneracion.
var ErrCode = errors.New("not a UUID")

// NewCode returns a random (version 4) UUID, the version that NV2 Anexo IV demands. It fails only if r fails.
func NewCode(r io.Reader) (Code, error) {
	var c Code
	if _, err := io.ReadFull(r, c[:]); err != nil {
		return Code{}, fmt.Errorf("drawing a codigoGeneracion: %w", err)
	}
	c[6] = c[6]&0x0f | 0x40
	c[8] = c[8]&0x3f | 0x80
	return c, nil
}

// ParseCode reads the 36-character form of any UUID version, in either case. String writes upper case, as MH demands.
func ParseCode(s string) (Code, error) {
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		if b, err := hex.DecodeString(strings.ReplaceAll(s, "-", "")); err == nil && len(b) == len(Code{}) {
			return Code(b), nil
		}
	}
	return Code{}, ErrCode
}

// String returns the 36-character upper-case form.
func (c Code) String() string {
	s := strings.ToUpper(hex.EncodeToString(c[:]))
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// MaxSequence is the largest number of a series: fifteen digits.
const MaxSequence = 999_999_999_999_999

// ControlNumber builds a numeroControl such as DTE-01-M001P001-000000000000001 from the document type, the
// establishment (M, S, B or P and three digits: casa matriz, sucursal, bodega, predio), the point of sale (P and
// three digits) and the number within the series, 1 to MaxSequence (MF2 p.28; the pattern of the DTE 2.0 schemas).
func ControlNumber(tipo, establishment, point string, n uint64) (string, error) {
	switch {
	case len(tipo) != 2 || !isDigit(tipo[0]) || !isDigit(tipo[1]):
		return "", fmt.Errorf("numeroControl: document type %q is not two digits", tipo)
	case !isPlace(establishment, "MSBP"):
		return "", fmt.Errorf("numeroControl: establishment %q is not M, S, B or P and three digits", establishment)
	case !isPlace(point, "P"):
		return "", fmt.Errorf("numeroControl: point of sale %q is not P and three digits", point)
	case n == 0 || n > MaxSequence:
		return "", fmt.Errorf("numeroControl: number %d is not between 1 and %d", n, uint64(MaxSequence))
	}
	return "DTE-" + tipo + "-" + establishment + point + "-" + strconv.FormatUint(MaxSequence+1+n, 10)[1:], nil
}

func isPlace(s, letters string) bool {
	return len(s) == 4 && strings.IndexByte(letters, s[0]) >= 0 && isDigit(s[1]) && isDigit(s[2]) && isDigit(s[3])
}

// In a document, the numbers of people and firms consist of digits only (MT1). The functions below write them with
// hyphens, for people to read. A number with another count of digits stays unchanged: it may be foreign.

// FormatNIT writes a NIT as people do: 0614-290780-112-3. A NIT of nine digits is a DUI: 01234567-8.
func FormatNIT(s string) string {
	d := Digits(s)
	if len(d) == 14 {
		return d[:4] + "-" + d[4:10] + "-" + d[10:13] + "-" + d[13:]
	}
	return FormatDUI(s)
}

// FormatDUI writes a DUI as people do: 01234567-8.
func FormatDUI(s string) string {
	if d := Digits(s); len(d) == 9 {
		return d[:8] + "-" + d[8:]
	}
	return s
}

// FormatNRC writes an NRC, of two to eight digits, as people do: 123456-7.
func FormatNRC(s string) string {
	if d := Digits(s); len(d) >= 2 && len(d) <= 8 {
		return d[:len(d)-1] + "-" + d[len(d)-1:]
	}
	return s
}

// FormatPhone writes a telephone number of El Salvador as people do: 2222-2222, or +503 2222-2222.
func FormatPhone(s string) string {
	switch d := Digits(strings.TrimPrefix(strings.TrimSpace(s), "+")); {
	case len(d) == 8:
		return d[:4] + "-" + d[4:]
	case len(d) == 11 && d[:3] == "503":
		return "+503 " + d[3:7] + "-" + d[7:]
	}
	return s
}

// FormatDocument writes an identity number as people do. kind is a code of CAT-022; "": the number of digits decides.
func FormatDocument(kind, s string) string {
	switch kind {
	case "13":
		return FormatDUI(s)
	case "36", "":
		return FormatNIT(s)
	}
	return s
}

// Digits returns the digits of a text that consists of digits, hyphens and spaces; otherwise "".
func Digits(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '-' || unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
	if strings.Trim(s, "0123456789") != "" {
		return ""
	}
	return s
}

// Catalogues are MH's code lists, by name and code.
type Catalogues struct {
	version string
	lists   map[string]*CodeList
}

// CodeList is one of MH's code lists.
type CodeList struct {
	ID, Name string
	Texts    map[string]string // by code
}

// The most bytes of a code and of its text, because they are signed, printed and mailed. MH's longest have 8 and 180.
const maxCode, maxCodeText = 20, 500

// ParseCatalogues reads the file catalogues.json:
//
//	{"version":"1.1","source":"…","catalogues":{"CAT-014":{"name":"Unidad de medida","values":{"59":"Unidad"}}}}
//
// A code that is unique only within its departamento follows the departamento's code: "06/23".
func ParseCatalogues(data []byte) (*Catalogues, error) {
	v, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading catalogues: %w", err)
	}
	c := &Catalogues{version: v.Get("version").Text(), lists: map[string]*CodeList{}}
	if c.version == "" || v.Get("source").Text() == "" || v.Get("catalogues").Len() == 0 {
		return nil, fmt.Errorf("reading catalogues: version, source and catalogues are required")
	}
	for _, m := range v.Get("catalogues").Members() {
		values := m.Value.Get("values")
		list := &CodeList{ID: m.Name, Name: m.Value.Get("name").Text(), Texts: make(map[string]string, values.Len())}
		if list.Name == "" || values.Len() == 0 {
			return nil, fmt.Errorf("reading catalogues: %s needs a name and values", m.Name)
		}
		for _, row := range values.Members() {
			if row.Value.Kind() != KindString || len(row.Name) > maxCode || len(row.Value.Text()) > maxCodeText {
				return nil, fmt.Errorf("reading catalogues: %s %.40q: is not a text of at most %d bytes, or the code "+
					"has more than %d", m.Name, row.Name, maxCodeText, maxCode)
			}
			list.Texts[row.Name] = row.Value.Text()
		}
		c.lists[m.Name] = list
	}
	return c, nil
}

// Version returns MH's edition of the lists, such as "1.1".
func (c *Catalogues) Version() string { return c.version }

// Lookup returns the text of a code, such as Lookup("CAT-014", "59"), and whether the code exists.
func (c *Catalogues) Lookup(cat, code string) (text string, ok bool) {
	if list := c.List(cat); list != nil {
		text, ok = list.Texts[code]
	}
	return text, ok
}

// Lists returns all lists, sorted by ID.
func (c *Catalogues) Lists() []*CodeList {
	if c == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(c.lists), func(a, b *CodeList) int { return cmp.Compare(a.ID, b.ID) })
}

// List returns a list by its name, such as "CAT-014"; nil if there is none.
func (c *Catalogues) List(cat string) *CodeList {
	if c == nil {
		return nil
	}
	return c.lists[cat]
}
