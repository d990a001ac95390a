package rules

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"dtegate/rules/abi"
	w "dtegate/rules/asmtest"
)

// rowsOf returns the rows of the tables of one section of the interface's page, by their first cell.
func rowsOf(t *testing.T, page, section string) (rows []string) {
	t.Helper()
	_, body, there := strings.Cut(page, "\n## "+section+"\n")
	body, _, _ = strings.Cut(body, "\n## ")
	for _, m := range regexp.MustCompile(`(?m)^\| ([^|]+?) \|`).FindAllStringSubmatch(body, -1) {
		rows = append(rows, m[1])
	}
	if !there || len(rows) < 3 {
		t.Fatalf("the page has no table in the section %s", section)
	}
	return rows[1:] // all but the head
}

// bad is a guest that breaks a rule of the page, and what the fault says.
type bad struct {
	name  string
	guest w.Module
	says  string
}

// TestPage: each row of the interface's page that a module can break has a guest that breaks it, or names a test that
// does; and the fault says which rule was broken. A new row fails until it has one.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("abi", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	broken := gallery()
	elsewhere := map[string]string{ // by row: the test that breaks it
		"Limits: module": "TestLoad_Hostile",
		"Limits: types · functions · imports · exports · globals": "TestLoad_Limits",
		"Limits: a function": "TestLoad_Limits",
		"Limits: a block":    "TestLoad_Limits", "Limits: table": "TestLoad_Limits", "Limits: memory": "TestLoad_Hostile",
		"Limits: stack of a call":            "TestLoad_Limits",
		"Limits: all that an instance holds": "TestLoad_Limits", "Limits: compiling": "TestLoad_Limits",
		"Limits: start of an instance":                     "TestLoad_Hostile",
		"Limits: `dte_buffer` and `dte_evaluate` together": "TestEvaluate_Hostile"}
	for _, section := range []string{"Exports", "Answer", "Description", "Limits"} {
		for _, cell := range rowsOf(t, string(text), section) {
			row := section + ": " + cell
			if row == "Answer: 28" {
				continue // nobody looks at it
			}
			guests, test := broken[row], elsewhere[row]
			delete(broken, row)
			delete(elsewhere, row)
			if (len(guests) > 0) == (test != "") {
				t.Errorf("%q: %d guests break it, and the test %q", row, len(guests), test)
			}
			if test != "" {
				thereIs(t, test)
			}
			for _, g := range guests {
				t.Run(cell+", "+g.name, g.refused)
			}
		}
	}
	for row := range broken {
		t.Errorf("the page has no row %q", row)
	}
	for row := range elsewhere {
		t.Errorf("the page has no row %q", row)
	}
}

// refused loads the guest and calls it once: one of the two fails, with the words expected.
func (b *bad) refused(t *testing.T) {
	h := host(t, Options{})
	m, err := h.Load(context.Background(), b.guest.Bytes())
	if err == nil {
		err = m.Evaluate(context.Background(), oneLine(), new(abi.Output))
	}
	if err == nil || !strings.Contains(err.Error(), b.says) {
		t.Errorf("want %q, got %v", b.says, err)
	}
}

// thereIs fails when the package has no such test.
func thereIs(t *testing.T, test string) {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if source, err := os.ReadFile(file); err == nil && strings.Contains(string(source), "func "+test+
			"(t *testing.T)") {
			return
		}
	}
	t.Errorf("there is no %s", test)
}

// gallery are bad guests, by the row of the page that they break.
func gallery() map[string][]bad {
	function := func(i int, change func(*w.Function)) w.Module {
		return with(func(g *w.Module) { change(&g.Functions[i]) })
	}
	unnamed := func(i int) w.Module { return function(i, func(f *w.Function) { f.Export = "other" }) }
	described := func(text string) w.Module { return w.Guest(text, nil, nil, nil) }
	good := w.Answer(&abi.Output{Lines: []int64{7}, Summary: []int64{7}}, 1)
	saying := func(message []byte) w.Module { // answers with these bytes
		return with(func(g *w.Module) {
			g.Data[2048] = string(message)
			g.Functions[w.Evaluate].Code = w.Join(w.I32Const(w.BufferAt), w.I32Const(2048), w.I32Const(len(message)),
				[]byte{0xfc, 10, 0, 0}, w.I32Const(len(message)))
		})
	}
	word := func(at int, n uint32) w.Module { // the good answer with another word
		message := append([]byte(nil), good...)
		binary.LittleEndian.PutUint32(message[at:], n)
		return saying(message)
	}
	answer := func(o abi.Output, width int) w.Module { return saying(w.Answer(&o, width)) }
	member := func(text string) w.Module { return described(`{"abi":1,"name":"x",` + text + `}`) }
	many := func(n int, list string) w.Module {
		return member(`"` + list + `":[` + strings.TrimSuffix(strings.Repeat(`"s",`, n), ",") + `]`)
	}
	objects := func(n int, list, object string) w.Module {
		return member(`"` + list + `":[` + strings.TrimSuffix(strings.Repeat(object+",", n), ",") + `]`)
	}
	one, total := []int64{7}, []int64{7}
	return map[string][]bad{
		"Exports: `memory`": {{"none", w.Module{NoMemory: true, Functions: []w.Function{{Export: "dte_evaluate"}}},
			"exports no memory"},
			{"too large", with(func(g *w.Module) { g.Pages = 513 }), "over limit of 512 pages"}},
		"Exports: `_initialize`": {{"another type", function(w.Initialize,
			func(f *w.Function) { f.Params = []byte{w.I32} }), "exports _initialize as (i32) → ()"},
			{"traps", function(w.Initialize, func(f *w.Function) { f.Code = []byte{w.Unreachable} }),
				"_initialize: wasm error: unreachable"}},
		"Exports: `dte_describe`": {{"none", unnamed(w.Describe), "does not export dte_describe"},
			{"too long", function(w.Describe, func(f *w.Function) { f.Code = w.I64Const(64<<10 + 1) }),
				"dte_describe points at 65537 bytes, more than 65536"},
			{"outside", function(w.Describe, func(f *w.Function) { f.Code = w.I64Const(1<<62 | 16) }),
				"outside its memory"}},
		"Exports: `dte_buffer`": {{"none", unnamed(w.Buffer), "does not export dte_buffer"},
			{"no address", w.Guest("", w.I32Const(0), answering(32), nil),
				"dte_buffer(65536) answered 0, which is not an address"},
			{"too small a room", w.Guest("", w.I32Const(4*65536-8), answering(32), nil),
				"does not fit: dte_buffer answered 262136, and the memory ends at 262144"}},
		"Exports: `dte_evaluate`": {{"none", unnamed(w.Evaluate), "does not export dte_evaluate"},
			{"negative", w.Guest("", nil, answering(-3), nil),
				"dte_evaluate returned -3, and a negative number is for a message that makes no sense"},
			{"more than the buffer", w.Guest("", nil, answering(1<<20), nil),
				"dte_evaluate returned 1048576, the length of its answer, and the buffer has 65536 bytes"}},

		"Answer: 0": {{"magic", word(0, 1), "it begins with 0x1 and 1, want 0x31455444 and 1 at the offsets 0 and 4"},
			{"version", word(4, 2), "and 2, want 0x31455444 and 1"},
			{"no header", saying(good[:31]), "31 bytes, and the header alone has 32"}},
		"Answer: 8": {{"too many", word(8, 257), "257 line outputs at the offset 8, at most 256"}, {"not so many",
			word(8, 2), "56"}},
		"Answer: 12": {{"too many", word(12, 2001), "2001 lines at the offset 12, at most 2000"},
			{"none", answer(abi.Output{Summary: total}, 1), "its answer has 0 line values and 1 summary fields"}},
		"Answer: 16": {{"too many", word(16, 257), "257 summary fields at the offset 16, at most 256"},
			{"none", answer(abi.Output{Lines: one}, 1), "a document that is not refused has 1 × 1 and all 1"}},
		"Answer: 20": {{"too many", word(20, 257), "257 taxes at the offset 20, at most 256"}},
		"Answer: 24": {{"too many", word(24, 51), "51 faults at the offset 24, at most 50"}},
		"Answer: 32": {{"cut", saying(good[:len(good)-8]), "40 bytes; 32 + 8(no + m + 2t) + 16f is 48"}},
		"Answer: 32 + 8no": {{"a field more", answer(abi.Output{Lines: one, Summary: []int64{1, 2}}, 1),
			"its answer has 1 line values and 2 summary fields"},
			{"a fault more than there are bytes", word(24, 1),
				"32 + 8(no + m + 2t) + 16f is 64 with o 1, n 1, m 1, t 0, f 1"},
			{"bytes behind", saying(append(append([]byte(nil), good...), 0, 0, 0, 0)),
				"52 bytes; 32 + 8(no + m + 2t) + 16f is 48"}},
		"Answer: 32 + 8(no + m)": {{"not of the description", answer(abi.Output{Lines: one, Summary: total,
			Taxes: []abi.Tax{{Tax: 3}}}, 1), "its answer names tax 3, and the description has 0"},
			{"no index", answer(abi.Output{Lines: one, Summary: total, Taxes: []abi.Tax{{Tax: -1}}}, 1),
				"the index of a tax is negative or too large"}},
		"Answer: 32 + 8(no + m + 2t)": {{"code", answer(abi.Output{Faults: []abi.Fault{{Code: 1, Line: -1,
			Column: -1}}}, 1), "code 1 of 1"},
			{"line", answer(abi.Output{Faults: []abi.Fault{{Line: 1, Column: -1}}}, 1), "line 1 of 1"},
			{"column", answer(abi.Output{Faults: []abi.Fault{{Column: 1}}}, 1), "column 1 (of 1 columns"},
			{"scalar", answer(abi.Output{Faults: []abi.Fault{{Line: -1}}}, 1), "of 0 scalars where line is -1"}},

		"Description: `abi`, `name`": {{"another interface", described(`{"abi":2,"name":"x"}`),
			"it speaks interface 2, this host 1"}, {"no name", described(`{"abi":1}`), "name: is missing"}},
		"Description: `params`": {{"too many", objects(257, "params", `{"name":"a"}`),
			"params: 257 of them, at most 256"},
			{"twice", member(`"params":[{"name":"a"},{"name":"a"}]`), `params[1]: "a" is params[0] already`}},
		"Description: `scalars`": {{"kind", member(`"scalars":[{"name":"a","kind":"float"}]`),
			`scalars[0] a: kind "float" is not one of`},
			{"no values", member(`"scalars":[{"name":"a","kind":"enum"}]`), `kind "enum" with 0 values`}},
		"Description: `columns`": {{"no name", member(`"columns":[{"kind":"amount"}]`), "columns[0]: has no name"},
			{"too many", objects(257, "columns", `{"name":"a","kind":"flag"}`), "columns: 257 of them, at most 256"}},
		"Description: `line_outputs`": {{"kind", member(`"line_outputs":[{"name":"a","kind":"flag"}]`),
			`line_outputs[0] a: kind "flag" is not one of`}},
		"Description: `summary`": {{"too many", many(257, "summary"), "summary: 257 of them, at most 256"},
			{"misspelt", member(`"sums":[]`), `unknown field "sums"`}},
		"Description: `taxes`": {{"too many", many(257, "taxes"), "taxes: 257 of them, at most 256"}},
		"Description: `faults`": {{"no message", member(`"faults":[{"code":"X"}]`), "faults[0].message: is missing"},
			{"too many", objects(513, "faults", `{"code":"X","message":"x"}`), "faults: 513 of them, at most 512"}},
	}
}
