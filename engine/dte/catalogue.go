package dte

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

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

// ParseCatalogues reads the file catalogues.json:
//
//	{"version":"1.1","source":"…","catalogues":{"CAT-014":{"name":"Unidad de medida","values":{"59":"Unidad"}}}}
//
// A code that repeats within each departamento is written with it: "06/23".
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
			if row.Value.Kind() != KindString {
				return nil, fmt.Errorf("reading catalogues: %s %q is not a text", m.Name, row.Name)
			}
			list.Texts[row.Name] = row.Value.Text()
		}
		c.lists[m.Name] = list
	}
	return c, nil
}

// Version is the edition that MH gave the lists, "1.1".
func (c *Catalogues) Version() string { return c.version }

// Lookup is the text of a code, such as Lookup("CAT-014", "59"), and whether there is one.
func (c *Catalogues) Lookup(cat, code string) (string, bool) {
	list := c.List(cat)
	if list == nil {
		return "", false
	}
	text, ok := list.Texts[code]
	return text, ok
}

// Lists returns all lists, by their names.
func (c *Catalogues) Lists() []*CodeList {
	if c == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(c.lists), func(a, b *CodeList) int { return cmp.Compare(a.ID, b.ID) })
}

// List is one list, by its name, such as "CAT-014"; nil when there is none.
func (c *Catalogues) List(cat string) *CodeList {
	if c == nil {
		return nil
	}
	return c.lists[cat]
}
