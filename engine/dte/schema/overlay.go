package schema

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dtegate/engine/dte"
)

// overlay supplements a schema file. It has the sources of values other than the fact of the same name, and the
// differences between MH's live validator and MH's file.
type overlay struct {
	total                        string
	taxes                        *entry
	from, drops, adds, catalogue []entry
}

// entry is one entry of an overlay. The entries of a section use only some of the members.
type entry struct {
	path, keyword, catalogue, parent string
	fact                             string    // a path of the facts
	amount                           string    // a summary output, if the fact is absent
	words                            string    // a summary output, in words
	value                            dte.Value // a constant, if the fact is absent
	form                             string    // "########-#": each # is replaced by a character of the fact's text
	when                             dte.Value // {"fact": path, "is": text}: the form applies only then
	schema                           dte.Value

	conditional bool // for a drop: only conditions have the keyword here, not the layout
	used        bool // for a drop: the keyword was found
}

func newEntry(e dte.Value) entry {
	text := func(name string) string { return e.Get(name).Text() }
	return entry{path: text("path"), keyword: text("keyword"), catalogue: text("catalogue"), parent: text("parent"),
		fact: text("fact"), amount: text("amount"), words: text("words"), value: e.Get("value"), form: text("form"),
		when: e.Get("when"), schema: e.Get("schema")}
}

func parseOverlay(data []byte) (*overlay, error) {
	v, err := dte.Parse(data)
	if err != nil {
		return nil, err
	}
	o := &overlay{total: v.Get("total").Text()}
	if err := onlyMembers(v, "total", "taxes", "from", "drop", "add", "catalogue"); err != nil {
		return nil, err
	}
	if t := v.Get("taxes"); t.Exists() {
		if err := onlyMembers(t, "path", "catalogue"); err != nil {
			return nil, fmt.Errorf("taxes: %w", err)
		}
		taxes := newEntry(t)
		o.taxes = &taxes
	}
	for _, s := range []struct {
		name    string
		entries *[]entry
		members []string
	}{
		{"from", &o.from, []string{"reason", "path", "fact", "amount", "words", "value", "form", "when"}},
		{"drop", &o.drops, []string{"reason", "path", "keyword"}},
		{"add", &o.adds, []string{"reason", "path", "schema"}},
		{"catalogue", &o.catalogue, []string{"reason", "path", "catalogue", "parent"}},
	} {
		if *s.entries, err = entries(v.Get(s.name), s.name, s.members); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// check refuses an entry of from without a source, with contradicting sources, or with a wrong form.
func (f *entry) check() error {
	others := 0
	for _, given := range [...]bool{f.amount != "", f.words != "", f.value.Exists()} {
		if given {
			others++
		}
	}
	switch {
	case f.words != "" && f.fact != "", others > 1, others == 0 && f.fact == "":
		return fmt.Errorf("needs either words, or fact or amount or value, fact with one of the others")
	case f.value.Kind() >= dte.KindArray:
		return fmt.Errorf("value: only texts, numbers, truth values and null")
	case f.form == "" && f.when.Exists(), f.form != "" && f.fact == "":
		return fmt.Errorf("form needs a fact, and when needs a form")
	case f.form != "" && !strings.Contains(f.form, "#"):
		return fmt.Errorf("form %q has no #", f.form)
	case strings.ContainsFunc(f.form, func(c rune) bool { return !strings.ContainsRune("#-./ ", c) }):
		return fmt.Errorf("form %q: only - . / and spaces may be added to the fact's own characters", f.form)
	case !f.when.Exists():
		return nil
	}
	if err := onlyMembers(f.when, "fact", "is"); err != nil {
		return fmt.Errorf("when: %w", err)
	}
	if f.when.Get("fact").Text() == "" || f.when.Get("is").Kind() != dte.KindString {
		return fmt.Errorf("when: needs a fact and the text that it is")
	}
	return nil
}

// entries reads a section. Except in catalogue, each entry must have a reason: by the reason, people later decide
// whether the entry is still needed.
func entries(list dte.Value, section string, members []string) (all []entry, err error) {
	if list.Exists() && list.Kind() != dte.KindArray {
		return nil, fmt.Errorf("%s is not a list", section)
	}
	for i, e := range list.Items() {
		x := newEntry(e)
		err := onlyMembers(e, members...)
		switch {
		case err != nil:
		case e.Get("path").Kind() != dte.KindString:
			err = errors.New("needs a path")
		case section != "catalogue" && e.Get("reason").Text() == "":
			err = errors.New("needs a reason")
		case section == "from":
			err = x.check()
		}
		if err != nil {
			return nil, fmt.Errorf("%s[%d] %q: %w", section, i, x.path, err)
		}
		all = append(all, x)
	}
	return all, nil
}

func onlyMembers(v dte.Value, names ...string) error {
	if v.Kind() != dte.KindObject {
		return fmt.Errorf("not an object")
	}
	for _, m := range v.Members() {
		if !slices.Contains(names, m.Name) {
			return fmt.Errorf("unknown member %q", m.Name)
		}
	}
	return nil
}

func (o *overlay) readSchema(data []byte) (*schema, error) {
	file, err := dte.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading schema: %w", err)
	}
	for i := range o.drops {
		d := &o.drops[i]
		steps, err := parsePath(d.path)
		if err != nil {
			return nil, fmt.Errorf("overlay: drop: %w", err)
		}
		d.conditional = !rawSchema(file, steps).Get(d.keyword).Exists()
	}
	r := reader{drops: o.drops}
	root, err := r.read(file, "", false)
	if err != nil {
		return nil, err
	}
	for _, d := range o.drops {
		if !d.used {
			return nil, fmt.Errorf("overlay: drop: %s has no %q to drop", place(d.path), d.keyword)
		}
	}
	for _, a := range o.adds {
		steps, err := parsePath(a.path)
		if err != nil {
			return nil, fmt.Errorf("overlay: add: %w", err)
		}
		base := root.find(steps)
		if base == nil {
			return nil, fmt.Errorf("overlay: add: the schema has no %s", place(a.path))
		}
		r.drops = nil
		extra, err := r.read(a.schema, a.path, true)
		if err != nil {
			return nil, fmt.Errorf("overlay: add: %w", err)
		}
		base.all = append(base.all, extra)
	}
	return root, nil
}

func rawSchema(v dte.Value, steps []step) dte.Value {
	for _, s := range steps {
		v = v.Get("properties").Get(s.name)
		for range s.arrays {
			v = v.Get("items")
		}
	}
	return v
}

// step is one name of a path, with the number of "[]" that follow the name.
type step struct {
	name   string
	arrays int
}

func parsePath(path string) ([]step, error) {
	if path == "" {
		return nil, nil
	}
	var steps []step
	for part := range strings.SplitSeq(path, ".") {
		name := strings.TrimRight(part, "[]")
		brackets := part[len(name):]
		if name == "" || strings.Count(brackets, "[]")*2 != len(brackets) {
			return nil, fmt.Errorf("path %q: %q is not a name with [] for each list", path, part)
		}
		steps = append(steps, step{name, len(brackets) / 2})
	}
	return steps, nil
}

func countArrays(steps []step) int {
	n := 0
	for _, s := range steps {
		n += s.arrays
	}
	return n
}

func join(at, name string) string { return strings.TrimPrefix(at+"."+name, ".") }

func place(path string) string { return cmp.Or(path, "the document") }

// follow returns the fact at a path, or nil. index has one index for each "[]" in the path, the outermost first.
func follow(v *dte.Value, steps []step, index []int32) *dte.Value {
	level := 0
	for _, s := range steps {
		if v = v.Find(s.name); v == nil {
			return nil
		}
		for range s.arrays {
			items := v.Items()
			if int(index[level]) >= len(items) {
				return nil
			}
			v = &items[index[level]]
			level++
		}
	}
	return v
}

func expandPath(template string, index []int32) string {
	b := make([]byte, 0, len(template)+8)
	level := 0
	for i := 0; i < len(template); i++ {
		b = append(b, template[i])
		if template[i] == '[' && i+1 < len(template) && template[i+1] == ']' && level < len(index) {
			b = strconv.AppendInt(b, int64(index[level]), 10)
			level++
		}
	}
	return string(b)
}
