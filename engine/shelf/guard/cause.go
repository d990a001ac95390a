package guard

import (
	"crypto/sha256"
	"regexp"
	"slices"
	"strconv"

	"encoding/binary"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
)

// What can have caused a refusal by MH.
const (
	CauseRule    = "rule"    // a value that the module computed, or the layout
	CauseRequest = "request" // a value as it came from the till, or from the branch's own data
	CauseUnclear = "unclear" // MH names no field, or a whole group of them
)

// Shape distinguishes kinds of sale: it depends on the names of a sale's members, its flags and the number of its lines. A sale
// that is sent again and again has the same shape, whatever its texts and amounts are.
type Shape [8]byte

// CauseOf returns whether a rule can have caused a refusal, from the fields that MH names in it. One field that the rule made
// is enough, because MH lists every field that breaks its schema.
func CauseOf(r *authority.Response, f *schema.Filler, facts dte.Value) string {
	cause := CauseUnclear
	for _, path := range refusedFields(r) {
		switch f.Maker(path, facts) {
		case schema.MakerRule:
			return CauseRule
		case schema.MakerRequest:
			cause = CauseRequest
		}
	}
	return cause
}

// MH begins a text with the field that it is about: "[resumen.totalIva] CALCULO INCORRECTO", "Campo #/receptor/nrc no …",
// "identificacion.fecEmi Difiere …". A field elsewhere in a text may be a quotation of the document, which is the till's.
var fieldFirst = regexp.MustCompile(`^(?:\[([A-Za-z0-9_./]{1,200})\]|Campo #/([A-Za-z0-9_/]{1,200})|([a-zA-Z]+(?:\.[A-Za-z0-9_]+)+))`)

// refusedFields are the fields that a refusal names: of the text, or of the observations when the text names none.
func refusedFields(r *authority.Response) (paths []string) {
	texts := []string{r.DescripcionMsg}
	if !fieldFirst.MatchString(r.DescripcionMsg) {
		texts = r.Observaciones
	}
	for _, text := range texts {
		if m := fieldFirst.FindStringSubmatch(text); m != nil {
			paths = append(paths, m[1]+m[2]+m[3])
		}
	}
	return paths
}

// ShapeOf returns the shape of a sale's facts. It ignores the branch's own members, which are the same in every sale.
func ShapeOf(facts dte.Value) (s Shape) {
	var names []string
	collect(&names, "", facts)
	slices.Sort(names)
	h := sha256.New()
	for _, name := range slices.Compact(names) {
		h.Write(append([]byte(name), 0))
	}
	_ = binary.Write(h, binary.BigEndian, int64(facts.Get("cuerpoDocumento").Len()))
	copy(s[:], h.Sum(nil))
	return s
}

func collect(names *[]string, at string, v dte.Value) {
	switch v.Kind() {
	case dte.KindObject:
		for _, m := range v.Members() {
			if at == "" && (m.Name == "emisor" || m.Name == "identificacion") {
				continue
			}
			collect(names, at+"."+m.Name, m.Value)
		}
	case dte.KindArray:
		for i := range v.Len() {
			collect(names, at+"[]", v.Index(i))
		}
	case dte.KindBool:
		*names = append(*names, at+"="+strconv.FormatBool(v.Bool()))
	case dte.KindNull:
		*names = append(*names, at+"=null")
	default:
		*names = append(*names, at)
	}
}
