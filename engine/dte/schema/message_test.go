package schema

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"dtegate/engine/dte"
)

var updateMessages = flag.Bool("update", false, "rewrite testdata/messages.txt")

// shipped compiles the layouts of the product, by "dte01/v2". Their modules' answers do not matter here.
func shipped(t *testing.T) map[string]*Filler {
	t.Helper()
	lists, err := os.ReadFile("../../../plugins/catalogues/catalogues.json")
	if err != nil {
		t.Fatal(err)
	}
	cat, err := dte.ParseCatalogues(lists)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob("../../../plugins/*/v*/schema.json")
	if err != nil || len(paths) < 16 {
		t.Fatal(paths, err)
	}
	all := make(map[string]*Filler)
	for _, path := range paths {
		dir := filepath.Dir(path)
		schema, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		overlay, err := os.ReadFile(filepath.Join(dir, "overlay.json"))
		if err != nil {
			t.Fatal(err)
		}
		var out Outputs
		o := parse(t, string(overlay))
		for i := range o.Get("from").Len() {
			for _, name := range []string{"amount", "words"} {
				if n := o.Get("from").Index(i).Get(name).Text(); n != "" && !slices.Contains(out.Summary, n) {
					out.Summary = append(out.Summary, n)
				}
			}
		}
		if total := o.Get("total").Text(); total != "" && !slices.Contains(out.Summary, total) {
			out.Summary = append(out.Summary, total)
		}
		f, err := Compile(schema, overlay, out, cat)
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		all[filepath.ToSlash(filepath.Join(filepath.Base(filepath.Dir(dir)), filepath.Base(dir)))] = f
	}
	return all
}

// everyFault calls tell with each fault that the layout can find: a value breaks every keyword of every rule, inside
// and outside conditions.
func (f *Filler) everyFault(tell func(path string, fault dte.Fault)) {
	f.breakRule(f.fields[0].rule, 0, "", tell)
	for i := range f.fields {
		if l := f.fields[i].list; l != nil {
			code := "zz"
			if f.fields[i].parent >= 0 {
				code = "06/zz"
			}
			tell(f.fields[i].document, dte.Fault{Code: dte.FaultCatalogue, Message: lacksCode(l, code)})
		}
	}
}

func (f *Filler) breakRule(x *schema, fi int, cause string, tell func(string, dte.Fault)) {
	field := &f.fields[fi]
	say := func(code string, s slot) { tell(field.document, field.fault(x, code, &s, cause)) }
	text := func(s string) slot { return slot{kind: dte.KindString, text: s} }
	number := func(a dte.Amount) slot { return slot{kind: dte.KindNumber, exact: true, num: a} }
	if x.types != 0 {
		for _, s := range []slot{{kind: dte.KindNull}, text("x"), number(15 * dte.Scale / 10), {kind: dte.KindObject}} {
			if !s.hasType(x.types) {
				say(dte.FaultType, s)
			}
		}
	}
	if len(x.enum) > 0 {
		wrong := text("zz")
		if x.enum[len(x.enum)-1].Kind() == dte.KindNumber {
			wrong = number(77 * dte.Scale)
		}
		say(dte.FaultEnum, wrong)
	}
	if x.minLength > 0 {
		say(dte.FaultLength, text(""))
	}
	if x.maxLength < math.MaxInt {
		say(dte.FaultLength, text(strings.Repeat("x", x.maxLength+1)))
	}
	if len(x.patterns) > 0 {
		say(dte.FaultPattern, text("¿?"))
	}
	if len(x.formats) > 0 {
		say(dte.FaultFormat, text("¿?"))
	}
	if len(x.bounds) > 0 {
		say(dte.FaultRange, number(-dte.Scale))
	}
	if x.multiple != 0 {
		say(dte.FaultPrecision, number(1))
	}
	if x.minItems > 0 || x.maxItems < math.MaxInt {
		say(dte.FaultCount, slot{kind: dte.KindArray})
	}
	for _, p := range x.needed {
		m := &f.fields[field.first+p]
		tell(m.document, m.fault(m.rule, dte.FaultRequired, &slot{}, cause))
	}
	for _, m := range x.properties {
		f.breakRule(&m.schema, field.first+m.position, cause, tell)
	}
	if x.items != nil {
		f.breakRule(x.items, field.first, cause, tell)
	}
	for _, y := range x.all {
		f.breakRule(y, fi, cause, tell)
	}
	if len(x.one) > 0 {
		say(dte.FaultCondition, slot{})
	}
	for _, c := range x.choices {
		if c.then != nil {
			f.breakRule(c.then, fi, c.when.reason, tell)
		}
		if c.otherwise != nil {
			f.breakRule(c.otherwise, fi, c.unless, tell)
		}
	}
}

// forCashiers are signs of a text that was not written for a cashier: regular expressions, schema terms, English.
var forCashiers = regexp.MustCompile(
	`[\^$\\\[\]{}|*]|\(\?|\bnull\b|\bobjeto\b|\bpatr[oó]n\b|\bcadena\b|\bhay [a-z]+[A-Z]|\b(the|is|not|must|and|of|invalid|required|should|with)\b`)

// TestMessages: every message that a shipped layout can give is a sentence for a cashier, and is in
// testdata/messages.txt, where people read it: the code, the message, the number of its places and the first of them.
func TestMessages(t *testing.T) {
	places := make(map[string][]string)
	for name, f := range shipped(t) {
		f.everyFault(func(path string, fault dte.Fault) {
			line := fault.Code + "\t" + fault.Message
			if at := name + " " + path; !slices.Contains(places[line], at) {
				places[line] = append(places[line], at)
			}
			switch {
			case forCashiers.MatchString(fault.Message):
				t.Errorf("%s %s: %q is no sentence for a cashier", name, path, fault.Message)
			case utf8.RuneCountInString(fault.Message) > 160:
				t.Errorf("%s %s: %q is too long", name, path, fault.Message)
			case strings.HasSuffix(fault.Message, ".") || strings.HasSuffix(fault.Message, " ") ||
				strings.Contains(fault.Message, "  ") || strings.Contains(fault.Message, "ser ,") ||
				strings.HasSuffix(fault.Message, "ser"):
				t.Errorf("%s %s: %q does not end as a message does", name, path, fault.Message)
			}
		})
	}
	var b strings.Builder
	for _, line := range slices.Sorted(maps.Keys(places)) {
		slices.Sort(places[line])
		fmt.Fprintf(&b, "%s\t%d %s\n", line, len(places[line]), places[line][0])
	}
	const path = "testdata/messages.txt"
	if *updateMessages {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		have, should := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
		for _, line := range have {
			if !slices.Contains(should, line) {
				t.Errorf("new, read it as a cashier would and run with -update: %s", line)
			}
		}
		for _, line := range should {
			if !slices.Contains(have, line) {
				t.Errorf("gone: %s", line)
			}
		}
	}
}

// TestForms: every pattern of every shipped layout has words, and every form with words occurs in a layout.
func TestForms(t *testing.T) {
	for name, f := range shipped(t) {
		var walk func(x *schema, fi int)
		walk = func(x *schema, fi int) {
			for _, p := range x.patterns {
				if _, ok := p.form(); !ok {
					t.Errorf("%s %s: nobody says %s in words", name, f.fields[fi].document, p.source)
				}
			}
			for _, m := range x.properties {
				walk(&m.schema, f.fields[fi].first+m.position)
			}
			if x.items != nil {
				walk(x.items, f.fields[fi].first)
			}
			for _, y := range slices.Concat(x.all, x.one) {
				walk(y, fi)
			}
			for _, c := range x.choices {
				for _, y := range []*schema{c.then, c.otherwise} {
					if y != nil {
						walk(y, fi)
					}
				}
			}
		}
		walk(f.fields[0].rule, 0)
	}
}
