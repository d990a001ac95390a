package record

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"dtegate/rules/bundle"
)

// known are the types of documents that this process has ever heard of, by CAT-002. The table only grows: a stored
// document is shown, printed, listed and invalidated when the bundle that described its type is gone. What a type is
// stored by (its name, its effect, its path) never changes, therefore one table serves all branches of a process. What
// a sale needs comes from the rules in force.
var known atomic.Pointer[map[string]*bundle.Type]

// Learn adds types to those that are known. The latest description of a type replaces the one before, unless it
// contradicts it.
func Learn(types ...*bundle.Type) error {
	for {
		before := known.Load()
		next := make(map[string]*bundle.Type)
		if before != nil {
			next = maps.Clone(*before)
		}
		for _, t := range types {
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

// Fits returns what a type says otherwise than what is known of it or of another type.
func Fits(t *bundle.Type) error {
	if all := known.Load(); all != nil {
		return fits(*all, t)
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

// unknownType stands for a type that nobody has described.
var unknownType = &bundle.Type{}

// TypeOf returns what is known of a type of document; of an unknown one, everything is empty.
func TypeOf(document string) *bundle.Type {
	if all := known.Load(); all != nil {
		if t := (*all)[document]; t != nil {
			return t
		}
	}
	return unknownType
}

// TypeAt returns the type whose documents a till asks for under a path, POST /dte/<path>; nil for none.
func TypeAt(path string) *bundle.Type {
	if all := known.Load(); all != nil {
		for _, t := range *all {
			if t.Path == path {
				return t
			}
		}
	}
	return nil
}

// Known returns all types, by CAT-002.
func Known() []*bundle.Type {
	all := known.Load()
	if all == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(*all), func(a, b *bundle.Type) int {
		return cmp.Compare(a.Document,
			b.Document)
	})
}
