package record

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"dtegate/rules/bundle"
)

// known holds the types of documents that this process has learned, by CAT-002. Stored documents need them after their
// type's bundle has ended. The stored properties of a type (name, effect, path) never change, so one table serves all
// branches. A sale uses the rules in force instead.
var known atomic.Pointer[map[string]*bundle.Type]

// Learn adds types to the known types. A new description of a type replaces the old one; a contradiction is an error.
func Learn(learned ...*bundle.Type) error {
	for {
		before := known.Load()
		next := maps.Clone(*cmp.Or(before, &map[string]*bundle.Type{}))
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

// Forget removes a type. The store must have no documents of the type.
func Forget(document string) {
	next := maps.Clone(types())
	delete(next, document)
	known.Store(&next)
}

// Fits returns an error if a type contradicts its known description or another known type.
func Fits(t *bundle.Type) error { return fits(types(), t) }

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

// Successor returns a text for each field in which a new description t of a type differs from the known description,
// with both values, or an error if t could harm stored documents (see bundle.Type.Succeeds).
func Successor(t *bundle.Type) (changed []string, err error) {
	before := TypeOf(t.Document)
	for _, o := range Known() {
		gives := t.Effect == bundle.Credits && o.Effect == bundle.TakesBack ||
			t.Effect == bundle.TakesBack && o.Effect == bundle.Credits
		for i, origin := range t.Origins {
			if gives && slices.Contains(o.Origins, origin) && !slices.Contains(before.Origins, origin) {
				return nil, fmt.Errorf("%w: type.json: origins[%d]: documents of type %s can also be credited or "+
					"returned by type %s: an amount could be credited twice", bundle.ErrFormat, i, origin, o.Document)
			}
		}
	}
	if before == unknownType {
		return nil, nil
	}
	return t.Succeeds(before)
}

var unknownType = &bundle.Type{}

// TypeOf returns the known description of a document type, empty for an unknown type.
func TypeOf(document string) *bundle.Type { return cmp.Or(types()[document], unknownType) }

// TypeAt returns the type of document issued by POST /dte/<path>, or nil.
func TypeAt(path string) *bundle.Type {
	for _, t := range types() {
		if t.Path == path {
			return t
		}
	}
	return nil
}

// Known returns the known types, by CAT-002.
func Known() []*bundle.Type {
	return slices.SortedFunc(maps.Values(types()), func(a, b *bundle.Type) int {
		return cmp.Compare(a.Document, b.Document)
	})
}
