package plugins_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/rulestore"
	"dtegate/rules"
	"dtegate/rules/bundle"
)

// sale is one sale or event with as many facts as its layout takes, and what the honest bundle makes of it.
type sale struct {
	*forge
	req    schema.Requirements
	out    schema.Outputs
	answer *schema.Computed
	facts  dte.Value
	honest *schema.Filler
	places []string // of the layout: objects, lists and leaves
	told   []string // the sources that the facts have: objects, lists and leaves
}

// fill makes a document by a layout. The error is the one by which the layout, or what it makes, was refused.
func (s *sale) fill(layout, overlay []byte, facts dte.Value, out schema.Outputs, answer *schema.Computed) (v dte.Value, err error) {
	f := s.honest
	if layout != nil {
		if f, err = schema.Compile(layout, overlay, out, s.catalogues); err == nil {
			err = f.Meets(s.req)
		}
		if err != nil {
			return v, err
		}
	}
	document, faults := f.Fill(nil, facts, answer, schema.FillOptions{})
	if len(faults) > 0 {
		return v, faults[0]
	}
	return dte.Parse(document)
}

// newSale gives the first case of a bundle every fact that its layout takes, one by one: those of the other cases, and
// texts and numbers that fit.
func newSale(t *testing.T, f *forge) *sale {
	t.Helper()
	s := &sale{forge: f, facts: f.facts[0], req: rulestore.Required(f.manifest, bundle.Nothing)}
	if f.module != nil {
		r := &rules.Rule{Bundle: &bundle.Bundle{Manifest: f.manifest, Parts: f.parts}, Module: f.module.Module, Params: f.module.Params}
		c, err := rulestore.Compile(r, f.catalogues)
		if err != nil {
			t.Fatal(err)
		}
		ev, _, err := c.Evaluate(t.Context(), s.facts)
		if err != nil {
			t.Fatal(err)
		}
		defer ev.Free()
		s.answer = &schema.Computed{N: ev.Computed.N, Lines: slices.Clone(ev.Computed.Lines), Summary: slices.Clone(ev.Computed.Summary),
			Taxes: slices.Clone(ev.Computed.Taxes)}
		d := c.Description()
		s.out = schema.Outputs{Summary: d.Summary, Taxes: d.Taxes}
		for _, o := range d.LineOutputs {
			s.out.Lines = append(s.out.Lines, schema.Output{Name: o.Name, Set: o.Kind == "set"})
		}
		s.req = rulestore.Required(f.manifest, c.Type.Effect)
	}
	var err error
	if s.honest, err = schema.Compile(f.parts["schema.json"], f.parts["overlay.json"], s.out, f.catalogues); err != nil {
		t.Fatal(err)
	}
	known := map[string]dte.Value{}
	for _, facts := range f.facts {
		maps.Copy(known, flat(facts))
	}
	var walk func(node map[string]any, at string)
	walk = func(node map[string]any, at string) {
		members, _ := node["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			m, _ := members[name].(map[string]any)
			path := strings.TrimPrefix(at+"."+name, ".")
			s.places = append(s.places, path)
			walk(m, path)
			if items, ok := m["items"].(map[string]any); ok {
				walk(items, path+"[]")
			}
		}
	}
	var layout map[string]any
	_ = json.Unmarshal(f.parts["schema.json"], &layout)
	walk(layout, "")
	for range 2 { // the second time members whose neighbours were lacking
		for _, path := range s.places {
			if s.honest.Maker(path, s.facts) != schema.MakerRequest || strings.HasPrefix(path, "identificacion") {
				continue
			}
			fact := s.honest.Place(path).Fact
			if flat(s.facts)[fact].Kind() > dte.KindNull {
				continue
			}
			for _, v := range []dte.Value{known[fact], dte.Str("un texto de " + path), dte.Str("22223333"), dte.Str("a@example.com"),
				dte.Str("01"), dte.Int(1), dte.Str("2026-12-02"), dte.Str("012345678")} {
				if richer := with(s.facts, strings.Split(fact, "."), v); v.Kind() > dte.KindNull {
					if _, err := s.fill(nil, nil, richer, s.out, s.answer); err == nil {
						s.facts = richer
						break
					}
				}
			}
		}
	}
	told := map[string]bool{}
	for path := range flat(s.facts) {
		told[path] = true
		for i, c := range path {
			if c == '.' {
				told[path[:i]], told[strings.TrimSuffix(path[:i], "[]")] = true, true
			}
		}
	}
	s.told = slices.Sorted(maps.Keys(told))
	return s
}

// with sets a fact; of a list, in its first item. An absent value takes the fact away.
func with(v dte.Value, path []string, fact dte.Value) dte.Value {
	if len(path) == 0 {
		return fact
	}
	name, list := strings.CutSuffix(path[0], "[]")
	child := v.Get(name)
	switch {
	case list:
		items := slices.Clone(child.Items())
		if len(items) == 0 {
			items = []dte.Value{dte.Obj()}
		}
		items[0] = with(items[0], path[1:], fact)
		return v.With(name, dte.Arr(items...))
	case len(path) > 1 && child.Kind() != dte.KindObject:
		child = dte.Obj()
	}
	return v.With(name, with(child, path[1:], fact))
}

// alter changes the bundle at random, knowing the layout's grammar and no list of what is refused.
func (s *sale) alter(r *rand.Rand) (layout, overlay []byte, out schema.Outputs, did string) {
	var l, o map[string]any
	_ = json.Unmarshal(s.parts["schema.json"], &l)
	_ = json.Unmarshal(s.parts["overlay.json"], &o)
	out = schema.Outputs{Lines: slices.Clone(s.out.Lines), Summary: slices.Clone(s.out.Summary), Taxes: s.out.Taxes}
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	note := func(format string, args ...any) { did += fmt.Sprintf("; "+format, args...) }
	from := func(keep bool, path string, entry map[string]any) {
		list, _ := o["from"].([]any)
		if !keep {
			list = slices.DeleteFunc(slices.Clone(list), func(e any) bool { return e.(map[string]any)["path"] == path })
		}
		entry["path"], entry["reason"] = path, "forged"
		o["from"] = append(list, entry)
		text, _ := json.Marshal(entry)
		note("%s", text)
	}
	loose := func(path string) { // the place takes any value, like one of a generation that MH changed
		at, name := place(l, path)
		if at == nil {
			return
		}
		switch m := at[name].(map[string]any); {
		case m["properties"] != nil:
			m["type"] = []any{"object", "null"}
		case m["items"] != nil:
			m["type"] = []any{"array", "null"}
		case m["const"] == nil && (m["enum"] == nil || len(m["enum"].([]any)) > 1):
			at[name] = map[string]any{"type": []any{"string", "number", "null"}}
		}
	}
	object := func(path string) string { // the object above a place
		return path[:strings.LastIndexByte(path, '.')+1]
	}
	add := func(path string, member any) {
		if at, _ := place(l, object(path)+"x"); at == nil {
			if beside := slices.IndexFunc(s.places, func(p string) bool { return object(p) == object(path) }); beside >= 0 {
				at, _ = place(l, s.places[beside])
				at[path[len(object(path)):]] = member
			}
		}
	}
	constants := []any{nil, 0, 1, 7, "X", "01", "22223333", "06140101901019"}
	path := pick(s.places)
	switch r.IntN(10) {
	case 0:
		loose(path)
		from(false, path, map[string]any{"value": constants[r.IntN(len(constants))]})
	case 1, 2:
		loose(path)
		from(r.IntN(3) == 0, path, map[string]any{"fact": pick(s.told)})
	case 3:
		loose(path)
		if len(out.Summary) > 0 {
			from(false, path, map[string]any{pick([]string{"amount", "words"}): pick(out.Summary)})
		}
	case 4, 5: // the place is null, and its fact stands elsewhere
		loose(path)
		p := s.honest.Place(path)
		to := pick(s.places)
		switch r.IntN(4) {
		case 0: // in the same object
			if object(to) != object(path) {
				to = object(path) + "otro"
				add(to, map[string]any{"type": []any{"string", "number", "null"}})
			}
		case 1: // in a new list
			at, name := place(l, path)
			copied := at[name]
			add(object(to)+"lista", map[string]any{"type": []any{"array", "null"}, "items": map[string]any{"type": "object",
				"properties": map[string]any{"otro": copied}}})
			to = object(to) + "lista[].otro"
		}
		loose(to)
		from(false, path, map[string]any{"value": nil})
		from(false, to, map[string]any{"fact": p.Fact})
	case 6: // the module's taxes, wherever a list is
		if o["taxes"] != nil {
			if at, name := place(l, path); at != nil {
				if items, ok := at[name].(map[string]any)["items"].(map[string]any); ok && items["properties"] != nil {
					for _, member := range []string{"codigo", "descripcion", "valor"} {
						if items["properties"].(map[string]any)[member] == nil {
							items["properties"].(map[string]any)[member] = map[string]any{"type": []any{"string", "number"}}
						}
					}
				}
			}
			o["taxes"].(map[string]any)["path"] = path
			note("taxes in %s", path)
		}
	case 7: // an answer of the module has the name of a fact
		loose(path)
		name := path[len(object(path)):]
		if n := len(out.Lines) + len(out.Summary); n > 0 {
			if at, member := place(l, path); at != nil && r.IntN(2) == 0 {
				at[member] = map[string]any{"type": "number"}
			}
			if i := r.IntN(n); i < len(out.Lines) {
				out.Lines = append(out.Lines, schema.Output{Name: name})
			} else {
				out.Summary[i-len(out.Lines)] = name
			}
			note("the module answers %s", name)
		}
	case 8:
		if at, name := place(l, path); at != nil {
			if m, ok := at[name].(map[string]any); ok && m["properties"] == nil && m["items"] == nil {
				m["enum"] = []any{constants[r.IntN(len(constants))]}
				m["type"] = []any{"string", "number", "null"}
				note("%s is %v", path, m["enum"])
			}
		}
	case 9: // a member has the name and the members of an object's path
		if above := strings.TrimSuffix(object(path), "."); above != "" {
			at, _ := place(l, path)
			l["properties"].(map[string]any)[above] = map[string]any{"type": []any{"object", "null"}, "properties": at}
			note("a member %s", above)
		}
	}
	layout, _ = json.Marshal(l)
	overlay, _ = json.Marshal(o)
	return layout, overlay, out, did
}

// untrue are the facts that a forged document lacks or changes, and what it says in a fact's place without a fact. A
// place that the layout does not have is MH's to miss.
func (s *sale) untrue(honest, forged, facts dte.Value) (wrong []string) {
	is, says := map[string]dte.Value{}, map[string]dte.Value{}
	leaves(honest, "", is)
	leaves(forged, "", says)
	for path, v := range is {
		if s.honest.Maker(path, facts) != schema.MakerRequest && !(v.Kind() == dte.KindNull && s.honest.Takes(unnumbered(path)) &&
			!strings.HasPrefix(path, "cuerpoDocumento") && !strings.HasSuffix(path, "tributos")) {
			continue
		}
		said, has := says[path]
		if v.Kind() == dte.KindNull && said.Kind() == flat(facts)[s.honest.Place(unnumbered(path)).Fact].Kind() {
			continue // the honest bundle leaves the fact to MH's member: codEstable
		}
		if mh, shown := says[path+"MH"]; has && said.IsNull() && shown && string(mh.Append(nil)) == string(v.Append(nil)) {
			continue // the forged bundle does too
		}
		for above := path; !has && above != ""; { // its object or its list is null
			above = above[:max(0, strings.LastIndexAny(above, ".["))]
			said, has = says[above]
		}
		if has && string(said.Append(nil)) != string(v.Append(nil)) {
			wrong = append(wrong, fmt.Sprintf("%s is %s, and the honest bundle says %s", path, said.Append(nil), v.Append(nil)))
		}
	}
	for _, m := range forged.Members() {
		if m.Name == "" || strings.ContainsAny(m.Name, ".[]") {
			wrong = append(wrong, fmt.Sprintf("%q is called like a place", m.Name))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// forgeFacts tries n forgeries of a bundle on a sale that says everything but one fact: each is refused, or the
// document says what the honest bundle says in every place of a fact.
func (f *forge) forgeFacts(t *testing.T, r *rand.Rand, n int) {
	s := newSale(t, f)
	made := 0
	for range n {
		layout, overlay, out, did := s.alter(r)
		facts := s.facts
		if path := s.told[r.IntN(len(s.told))]; r.IntN(2) == 0 && !strings.HasPrefix(path, "identificacion") {
			facts = with(facts, strings.Split(path, "."), dte.Null())
			did += "; nobody says " + path
		}
		honest, err := s.fill(nil, nil, facts, s.out, s.answer)
		if err != nil {
			continue
		}
		answer := s.answer
		if answer != nil {
			answer = &schema.Computed{N: answer.N, Summary: slices.Clone(answer.Summary), Taxes: answer.Taxes}
			for line := range answer.N {
				width := len(s.out.Lines)
				answer.Lines = append(answer.Lines, s.answer.Lines[line*width:][:width]...)
				for range out.Lines[width:] {
					answer.Lines = append(answer.Lines, 58*dte.Scale)
				}
			}
			if list := [][]int64{answer.Summary, answer.Lines}[r.IntN(2)]; r.IntN(3) == 0 && len(list) > 0 {
				list[r.IntN(len(list))] += 100 * dte.Scale
			}
		}
		forged, err := s.fill(layout, overlay, facts, out, answer)
		if err != nil {
			continue
		}
		made++
		if wrong := append(s.untrue(honest, forged, facts), imbalances(forged)...); len(wrong) > 0 {
			t.Errorf("signed, with untrue facts%s: %.300q", did, wrong)
		}
	}
	t.Logf("%d forgeries of facts: %d made", n, made)
}
