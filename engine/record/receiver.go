package record

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"dtegate/engine/dte"
)

// Receiver is the receiver of a document, in the form that a search compares.
type Receiver struct {
	Name    string   `json:"name,omitempty"`    // folded: see Fold
	Numbers []string `json:"numbers,omitempty"` // of identification, NIT and NRC, without hyphens and spaces
}

// Party returns whom a document is made out to, in its facts or in itself: a return names it documento.
func Party(document dte.Value) dte.Value {
	for _, name := range []string{"receptor", "sujetoExcluido", "documento"} {
		if v := document.Get(name); v.Kind() == dte.KindObject {
			return v
		}
	}
	return dte.Null()
}

// ReceiverOf returns the receiver of a document or of the facts that it is made of.
func ReceiverOf(document dte.Value) Receiver {
	v := Party(document)
	r := Receiver{Name: Fold(v.Get("nombre").Text())}
	for _, name := range []string{"numDocumento", "nit", "nrc"} {
		if n := Compact(v.Get(name).Text()); n != "" && !slices.Contains(r.Numbers, n) {
			r.Numbers = append(r.Numbers, n)
		}
	}
	return r
}

// Is reports whether a text is a number of the receiver, or a part of its name.
func (r *Receiver) Is(text string) bool {
	return slices.Contains(r.Numbers, Compact(text)) || strings.Contains(r.Name, Fold(text))
}

var (
	folded    = strings.NewReplacer("á", "a", "é", "e", "í", "i", "ó", "o", "ú", "u", "ü", "u", "ñ", "n")
	compacted = strings.NewReplacer("-", "", " ", "")
)

// Fold returns a name in small letters without accents, its words one space apart.
func Fold(name string) string {
	return folded.Replace(strings.ToLower(strings.Join(strings.Fields(name), " ")))
}

// Compact returns the number of a card without hyphens and spaces, its letters in capitals.
func Compact(number string) string { return strings.ToUpper(compacted.Replace(number)) }

// IdempotencyKey returns a till's key as the store keeps it: each point of sale has its own keys.
func IdempotencyKey(point int64, key string) (stored [32]byte) {
	h := sha256.New()
	_ = binary.Write(h, binary.BigEndian, point)
	h.Write([]byte(key))
	h.Sum(stored[:0])
	return stored
}
