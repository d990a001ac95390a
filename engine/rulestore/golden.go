package rulestore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/rules"
	"dtegate/rules/abi"
	"dtegate/rules/bundle"
)

// goldenCase is a case of a bundle: a request's facts, and the document's exact bytes or the faults.
type goldenCase struct {
	Why      string          `json:"why"`
	Facts    json.RawMessage `json:"facts"`
	Document json.RawMessage `json:"document"`
	Faults   []goldenFault   `json:"faults"`
}

type goldenFault struct {
	Path string `json:"path"`
	Code string `json:"code"`
}

// Golden returns a function for rules.Check that runs a golden case. Only one goroutine at a time may call it.
func Golden(catalogues *dte.Catalogues) func(context.Context, *rules.Rule, []byte) error {
	remade := Remade(catalogues)
	return func(ctx context.Context, r *rules.Rule, data []byte) error {
		_, differs, err := remade(ctx, r, data)
		return cmp.Or(err, differs)
	}
}

// Remade returns a function that computes a golden case again, for one goroutine at a time. The function returns the
// case with its new result, laid out for people (anew), and the difference from the old result (differs), or nil.
func Remade(catalogues *dte.Catalogues) func(context.Context, *rules.Rule, []byte) (anew []byte, differs, err error) {
	fillers := make(map[*rules.Rule]func(context.Context, dte.Value) ([]byte, []dte.Fault, error))
	return func(ctx context.Context, r *rules.Rule, data []byte) (anew []byte, differs, err error) {
		fill := fillers[r]
		if fill == nil {
			if fill, err = filling(r, catalogues); err != nil {
				return nil, nil, err
			}
			fillers[r] = fill
		}
		var g goldenCase
		if err := json.Unmarshal(data, &g); err != nil {
			return nil, nil, fmt.Errorf("reading it: %w", err)
		}
		facts, err := dte.Parse(g.Facts)
		if err != nil {
			return nil, nil, fmt.Errorf("reading its facts: %w", err)
		}
		document, faults, err := fill(ctx, facts)
		if err != nil {
			return nil, nil, err
		}
		differs = g.compare(document, faults)
		g.Document, g.Faults = nil, goldenFaults(faults)
		if len(faults) == 0 {
			g.Document = document
		}
		return LayoutCase(g.Why, g.Facts, g.Document, g.Faults), differs, nil
	}
}

// stillMade makes the documents of other rules' golden cases with new catalogues (r), and returns an error if a rule
// refuses one of the cases: the catalogues may lack a code, or have a text that a layout refuses. A new text alone
// is no error. Only the rules that will be in force together with the catalogues count.
func (s *Store) stillMade(ctx context.Context, r *rules.Rule, i *shelved, on []*shelved) (string, error) {
	catalogues, err := dte.ParseCatalogues(r.Bundle.Parts["catalogues.json"])
	made := 0
	for _, o := range on {
		day := max(i.From, o.From, s.today())
		if err != nil || o.Kind == i.Kind || inForce(on, o, day) != o || inForce(on, i, day) != i {
			continue
		}
		var n int
		n, err = s.remake(ctx, o, catalogues)
		made += n
	}
	return fmt.Sprintf("%d documents of other rules' golden cases", made), err
}

// remake makes the documents of a stored bundle's golden cases with other catalogues.
func (s *Store) remake(ctx context.Context, i *shelved, catalogues *dte.Catalogues) (made int, err error) {
	b, err := s.openBundle(i)
	if err != nil {
		return 0, err
	}
	r, err := s.rule(ctx, i)
	if err != nil {
		return 0, err
	}
	fill, err := filling(r, catalogues)
	for _, name := range b.Cases() {
		var g goldenCase
		if err == nil && json.Unmarshal(b.Parts[name], &g) == nil && g.Document != nil {
			facts, _ := dte.Parse(g.Facts) // cannot fail: the bundle's admission has parsed these facts
			var faults []dte.Fault
			if _, faults, err = fill(ctx, facts); err == nil && len(faults) > 0 {
				err = faults[0]
			}
			made++
		}
		if err != nil {
			return 0, fmt.Errorf("%s %s with these catalogues: %s: %w; if this is intended, repeat with --fewer-cases",
				i.Name, i.Version, name, err)
		}
	}
	return made, nil
}

// LayoutCase writes a case for people to read. Each member of facts and document, and each item of a member that is a
// list, is on a line of the text. facts and document are valid JSON. If document is nil, the case has faults instead.
func LayoutCase(why string, facts, document json.RawMessage, faults any) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n\"why\": %s,\n\"facts\": ", dte.Str(why).Append(nil))
	layoutMembers(&b, facts)
	if document != nil {
		b.WriteString(",\n\"document\": ")
		layoutMembers(&b, document)
	} else {
		list, _ := json.Marshal(faults) // cannot fail: faults have only texts
		fmt.Fprintf(&b, ",\n\"faults\": %s", list)
	}
	b.WriteString("\n}\n")
	return b.Bytes()
}

func layoutMembers(b *bytes.Buffer, object json.RawMessage) {
	v, _ := dte.Parse(object) // cannot fail: the object was parsed or made before
	for i, m := range v.Members() {
		b.WriteString([]string{"{\n  ", ",\n  "}[min(i, 1)])
		fmt.Fprintf(b, "%q: ", m.Name)
		if m.Value.Kind() != dte.KindArray || m.Value.Len() == 0 {
			b.Write(m.Value.Append(nil))
			continue
		}
		for j := range m.Value.Len() {
			b.WriteString([]string{"[\n    ", ",\n    "}[min(j, 1)])
			b.Write(m.Value.Index(j).Append(nil))
		}
		b.WriteString("]")
	}
	b.WriteString("}")
}

func filling(r *rules.Rule, catalogues *dte.Catalogues) (func(context.Context, dte.Value) ([]byte, []dte.Fault, error),
	error) {
	if r.Bundle.Manifest.Kind == "event" {
		e, err := CompileEvent(r, catalogues)
		if err != nil {
			return nil, err
		}
		return func(_ context.Context, facts dte.Value) ([]byte, []dte.Fault, error) { return e.Fill(facts) }, nil
	}
	c, err := Compile(r, catalogues)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, facts dte.Value) ([]byte, []dte.Fault, error) {
		return c.Remake(ctx, facts, schema.FillOptions{Catalogues: true})
	}, nil
}

func (g *goldenCase) compare(document []byte, faults []dte.Fault) error {
	if g.Document == nil {
		want, got := fmt.Sprint(g.Faults), fmt.Sprint(goldenFaults(faults))
		switch {
		case len(g.Faults) == 0:
			return errors.New("it has no document, therefore it must list the faults for which it is refused")
		case len(faults) == 0:
			return fmt.Errorf("it should be refused with %s, and makes a document", want)
		case want != got:
			return fmt.Errorf("it should be refused with %s, and is refused with %s", want, got)
		}
		return nil
	}
	if len(faults) > 0 {
		return fmt.Errorf("it should make a document, and is refused: %w (%d faults)", faults[0], len(faults))
	}
	var want bytes.Buffer
	if err := json.Compact(&want, g.Document); err != nil {
		return fmt.Errorf("reading its document: %w", err)
	}
	if bytes.Equal(want.Bytes(), document) {
		return nil
	}
	old, err := dte.Parse(want.Bytes())
	if err != nil {
		return fmt.Errorf("reading its document: %w", err)
	}
	made, err := dte.Parse(document)
	if err != nil {
		return fmt.Errorf("reading what was made: %w", err)
	}
	if list := Differences(old, made); len(list) > 0 {
		return fmt.Errorf("%s is %s, want %s (%d amounts differ)", list[0].Path, cmp.Or(list[0].New, "missing"),
			cmp.Or(list[0].Old, "none"), len(list))
	}
	return errors.New(cmp.Or(textDiffers("", old, made), "it has the same values in another form: rules test --update "+
		"writes it"))
}

func textDiffers(path string, want, made dte.Value) string {
	a, b := string(want.Append(nil)), string(made.Append(nil))
	switch {
	case want.Exists() && made.Exists() && a == b:
		return ""
	case want.Kind() == dte.KindObject && made.Kind() == dte.KindObject:
		for _, m := range slices.Concat(want.Members(), made.Members()) {
			at := strings.TrimPrefix(path+"."+m.Name, ".")
			if d := textDiffers(at, want.Get(m.Name), made.Get(m.Name)); d != "" {
				return d
			}
		}
	case want.Kind() == dte.KindArray && made.Kind() == dte.KindArray && want.Len() == made.Len():
		for i := range want.Len() {
			if d := textDiffers(fmt.Sprintf("%s[%d]", path, i), want.Index(i), made.Index(i)); d != "" {
				return d
			}
		}
	}
	if !made.Exists() {
		b = "not there"
	}
	if !want.Exists() {
		a = "nothing there"
	}
	return fmt.Sprintf("%s is %.60s, want %.60s", cmp.Or(path, "the document"), b, a)
}

// PeakFuel runs a rule's golden cases, with their lines repeated up to the largest number of lines. It returns the most
// fuel that a call of the module has used since it was loaded. A manifest should declare ten times this amount.
func PeakFuel(ctx context.Context, r *rules.Rule) (int64, error) {
	binding := bind(r.Module.Description())
	for _, name := range r.Bundle.Cases() {
		var g goldenCase
		if err := json.Unmarshal(r.Bundle.Parts[name], &g); err != nil {
			return 0, fmt.Errorf("reading %s: %w", name, err)
		}
		facts, err := dte.Parse(g.Facts)
		if err != nil {
			return 0, fmt.Errorf("reading the facts of %s: %w", name, err)
		}
		var in abi.Input
		var out abi.Output
		if faults := binding.input(facts, r.Params, &in); len(faults) > 0 || in.N == 0 {
			continue
		}
		lines := in.Lines
		for columns := len(lines) / in.N; in.N < abi.MaxLines; in.N++ {
			in.Lines = append(in.Lines, in.Lines[len(in.Lines)-len(lines):][:columns]...)
		}
		if err := r.Module.Evaluate(ctx, &in, &out); err != nil {
			return 0, fmt.Errorf("%s with %d lines: %w", name, in.N, err)
		}
	}
	return r.Module.Peak(), nil
}

func goldenFaults(faults []dte.Fault) []goldenFault {
	list := make([]goldenFault, 0, len(faults))
	for _, f := range faults {
		list = append(list, goldenFault{f.Path, f.Code})
	}
	return list
}

// Difference is an amount that differs between two documents. Old and New are its texts; "": the document lacks it.
type Difference struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// Differences returns the numbers that differ, except in identificacion. A number that only one document has is left
// out, unless it is in a list item that the other document lacks as a whole.
func Differences(old, made dte.Value) (list []Difference) {
	for _, m := range old.Members() {
		if m.Name != "identificacion" {
			list = compareAmounts(list, m.Name, m.Value, made.Get(m.Name), false)
		}
	}
	return list
}

// compareAmounts compares two values. lone: the value is in an item of a list, and only one document has that item.
func compareAmounts(list []Difference, path string, old, made dte.Value, lone bool) []Difference {
	one := old
	if !old.Exists() {
		one = made
	}
	switch {
	case !lone && (!old.Exists() || !made.Exists()):
	case old.Kind() == dte.KindNumber || made.Kind() == dte.KindNumber:
		if a, b := valueText(old), valueText(made); a != b {
			list = append(list, Difference{path, a, b})
		}
	case old.Kind() == dte.KindArray || made.Kind() == dte.KindArray:
		for i := range max(old.Len(), made.Len()) {
			list = compareAmounts(list, path+"["+strconv.Itoa(i)+"]", old.Index(i), made.Index(i),
				lone || i >= min(old.Len(), made.Len()))
		}
	default:
		for _, m := range one.Members() {
			list = compareAmounts(list, path+"."+m.Name, old.Get(m.Name), made.Get(m.Name), lone)
		}
	}
	return list
}

func valueText(v dte.Value) string {
	if a, err := v.Amount(); err == nil {
		return a.String()
	} else if v.Kind() == dte.KindNumber {
		return v.Text()
	}
	return ""
}

type Layouts []*schema.Filler

// ReadLayouts compiles the layouts of bundles without running their modules, with the latest catalogues among the
// bundles. It skips an unreadable bundle: activation reports the fault.
func ReadLayouts(bundles []*bundle.Bundle) (layouts Layouts) {
	var lists *bundle.Bundle
	for _, b := range bundles {
		if b.Manifest.Kind == "catalogue" && (lists == nil || bundle.Compare(b.Manifest.Version,
			lists.Manifest.Version) > 0) {
			lists = b
		}
	}
	if lists == nil {
		return nil
	}
	catalogues, err := dte.ParseCatalogues(lists.Parts["catalogues.json"])
	if err != nil {
		return nil
	}
	for _, b := range bundles {
		out, err := schema.NamedOutputs(b.Parts["overlay.json"])
		if err != nil || b.Manifest.Kind == "catalogue" {
			continue
		}
		if f, err := schema.Compile(b.Parts["schema.json"], b.Parts["overlay.json"], out, catalogues); err == nil {
			layouts = append(layouts, f)
		}
	}
	return layouts
}

// CheckIssuer returns the faults, without duplicates, that the layouts find in the issuer's own data at a point of
// sale. It fills documents that contain only the issuer.
func (l Layouts) CheckIssuer(emisor dte.Value) (faults []dte.Fault) {
	facts := dte.Obj(dte.Member{Name: "emisor", Value: emisor})
	for _, filler := range l {
		_, found := filler.Fill(nil, facts, nil, schema.FillOptions{Catalogues: true, MaxFaults: 500})
		for _, f := range found {
			if strings.HasPrefix(f.Path, "emisor") && !slices.Contains(faults, f) {
				faults = append(faults, f)
			}
		}
	}
	return faults
}
