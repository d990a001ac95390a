package record

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"dtegate/engine/dte"
	"dtegate/rules/bundle"
)

// known holds the types of documents that this process has learned, by CAT-002. The table only grows: a stored document
// is still shown, printed, listed and invalidated after its type's bundle has ended. The stored properties of a type
// (name, effect, path) never change, therefore one table serves all branches. A sale uses the rules in force instead.
var known atomic.Pointer[map[string]*bundle.Type]

// Learn adds types to the known types. A new description of a type replaces the old one; a contradiction is an error.
func Learn(learned ...*bundle.Type) error {
	for {
		before := known.Load()
		next := make(map[string]*bundle.Type)
		if before != nil {
			next = maps.Clone(*before)
		}
		for _, t := range learned {
			if err := fits(next, t); err != nil {
				return err
			}
			next[t.Document] = t
		}
		if known.CompareAndSwap(before, &next) {
			return nil
		}
	}
}

// Fits returns an error if a type contradicts its known description or another known type.
func Fits(t *bundle.Type) error {
	return fits(types(), t)
}

// types returns the known types. Do not change the map.
func types() map[string]*bundle.Type {
	if all := known.Load(); all != nil {
		return *all
	}
	return nil
}

func fits(all map[string]*bundle.Type, t *bundle.Type) error {
	if before := all[t.Document]; before != nil {
		if err := t.Contradicts(before); err != nil {
			return err
		}
	}
	for _, o := range all {
		if o.Document == t.Document {
			continue
		}
		for _, f := range [][3]string{{"name", t.Name, o.Name}, {"path", t.Path, o.Path}, {"operation", t.Operation,
			o.Operation},
			{"permission", t.Permission, o.Permission}} {
			if f[1] == f[2] && f[1] != "" {
				return fmt.Errorf("%w: type.json: %s: %q is that of the type %s", bundle.ErrFormat, f[0], f[1],
					o.Document)
			}
		}
	}
	return nil
}

// Successor returns what a bundle changes of its type's known description. It is an error if the description could harm
// stored documents: see bundle.Type.Succeeds.
func Successor(t *bundle.Type) (changed []string, err error) {
	before := TypeOf(t.Document)
	for _, o := range Known() {
		gives := t.Effect == bundle.Credits && o.Effect == bundle.TakesBack ||
			t.Effect == bundle.TakesBack && o.Effect == bundle.Credits
		for i, origin := range t.Origins {
			if gives && slices.Contains(o.Origins, origin) && !slices.Contains(before.Origins, origin) {
				return nil, fmt.Errorf("%w: type.json: origins[%d]: the type %s is on documents of type %s too: they "+
					"could be credited twice", bundle.ErrFormat, i, o.Document, origin)
			}
		}
	}
	if before == unknownType {
		return nil, nil
	}
	return t.Succeeds(before)
}

// unknownType is returned for types without a description.
var unknownType = &bundle.Type{}

// TypeOf returns the known description of a document type; for an unknown type it is empty.
func TypeOf(document string) *bundle.Type {
	return cmp.Or(types()[document], unknownType)
}

// TypeAt returns the type of document issued by POST /dte/<path>, or nil if no type has the path.
func TypeAt(path string) *bundle.Type {
	for _, t := range types() {
		if t.Path == path {
			return t
		}
	}
	return nil
}

// Known returns all types, by CAT-002.
func Known() []*bundle.Type {
	return slices.SortedFunc(maps.Values(types()), func(a, b *bundle.Type) int {
		return cmp.Compare(a.Document, b.Document)
	})
}

// Receiver is the receiver of a document, in the form that a search compares.
type Receiver struct {
	Name    string   `json:"name,omitempty"`    // folded: see Fold
	Numbers []string `json:"numbers,omitempty"` // of identification, NIT and NRC, without hyphens and spaces
}

// Party returns the receiver object of a document or of its facts; a return names it documento.
func Party(document dte.Value) dte.Value {
	for _, name := range []string{"receptor", "sujetoExcluido", "documento"} {
		if v := document.Get(name); v.Kind() == dte.KindObject {
			return v
		}
	}
	return dte.Null()
}

// ReceiverOf returns the receiver of a document or of its facts.
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

// Compact returns an identity number without hyphens and spaces, in capitals.
func Compact(number string) string { return strings.ToUpper(compacted.Replace(number)) }

// IdempotencyKey returns the stored form of a till's key: each point of sale has its own keys.
func IdempotencyKey(point int64, key string) (stored [32]byte) {
	h := sha256.New()
	_ = binary.Write(h, binary.BigEndian, point)
	h.Write([]byte(key))
	h.Sum(stored[:0])
	return stored
}
