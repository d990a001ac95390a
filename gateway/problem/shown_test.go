package problem_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"dtegate/gateway/problem"
)

var update = flag.Bool("update", false, "rewrite the golden files, deploy/CODES.md, and the list of codes of the "+
	"contract")

// golden compares a file with what it should hold, or rewrites it.
func golden(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) == want {
		return
	}
	have, should := strings.Split(string(got), "\n"), strings.Split(want, "\n")
	for i := range should {
		if i >= len(have) || have[i] != should[i] {
			t.Fatalf("%s, line %d: is not\n%s\nmake it so with -update, and read what changed", path, i+1, should[i])
		}
	}
	t.Fatalf("%s has lines too many", path)
}

func statuses(c problem.Code) string {
	all := make([]string, len(c.Status))
	for i, n := range c.Status {
		all[i] = strconv.Itoa(n)
	}
	return strings.Join(all, ", ")
}

// TestPage: deploy/CODES.md is generated from the list.
func TestPage(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Codes of errors

A contract: a code is never renamed, and never used for another meaning. The list is generated from ` + "`gateway/problem`" + `
(` + "`go test ./gateway/problem -update`" + `); a test compares it with what the sources can answer.
An error is ` + "`{\"status\":\"error\",\"type\":…,\"message\":…,\"errors\":[{\"path\",\"code\",\"message\"}]}`" + `. In each language, the
first table lists its ` + "`type`" + `, the second the ` + "`code`" + ` of each element of ` + "`errors`" + `; the last table
is for operators. ` + "`message`" + ` is for the cashier, in Spanish; show it as it is.
A code that is not here comes from rules that the operator wrote.
`)
	table := func(title string, es bool, list []problem.Code) {
		head, rule := "| code | HTTP | meaning | what to do |", "|---|---|---|---|"
		if es {
			head = "| código | HTTP | qué significa | qué hacer |"
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s\n%s\n", title, head, rule)
		for _, c := range list {
			text := [2]string{c.Meaning.EN, c.Action.EN}
			if es {
				text = [2]string{c.Meaning.ES, c.Action.ES}
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.Name, statuses(c), text[0], text[1])
		}
	}
	var faults, operators []problem.Code
	for _, c := range problem.All() {
		switch {
		case c.Operator:
			operators = append(operators, c)
		case len(c.Status) == 0:
			faults = append(faults, c)
		}
	}
	b.WriteString("\n## Español\n")
	table("De la respuesta (`type`)", true, problem.Types())
	table("De cada dato (`errors[].code`)", true, faults)
	b.WriteString("\n## English\n")
	table("Of the answer (`type`)", false, problem.Types())
	table("Of a member (`errors[].code`)", false, faults)
	table("Of the operators' listener", false, operators)
	golden(t, "../../deploy/CODES.md", b.String())
}

// TestContract: openapi.json lists the types that tills can meet, and describes them and the codes of faults by the
// list; openapi.es.json has these descriptions in Spanish.
func TestContract(t *testing.T) {
	describe := func(list []problem.Code, or string, in func(problem.Text) string) string {
		all := make([]string, len(list))
		for i, c := range list {
			all[i] = strings.TrimSuffix(c.Name+" "+strings.ReplaceAll(statuses(c), ", ", or), " ") + ": " +
				in(c.Meaning)
		}
		return strings.Join(all, ". ") + "."
	}
	both := func(list []problem.Code, before, after problem.Text) (en, es string) {
		return quoted(t, before.EN+describe(list, " or ", func(t problem.Text) string { return t.EN })+after.EN),
			quoted(t, before.ES+describe(list, " o ", func(t problem.Text) string { return t.ES })+after.ES)
	}
	var names []string
	for _, c := range problem.Types() {
		names = append(names, "              "+strconv.Quote(c.Name))
	}
	typesEN, typesES := both(problem.Types(), problem.Text{}, problem.Text{})
	faultsEN, faultsES := both(problem.Faults(), problem.Text{ES: "Estable; nunca se usa para otra cosa. ",
		EN: "Stable; never used for anything else. "}, problem.Text{ES: " Las reglas propias del operador pueden " +
		"tener otros.", EN: " Rules of the operator's own may have others."})
	type part struct{ place, want string }
	for path, parts := range map[string][]part{
		"../openapi.json": {
			{`"Error": \{[^\x00]*?"type": \{\s+"type": "string",\s+"description": ("[^\n]*"),\n`, typesEN},
			{`"Error": \{[^\x00]*?"enum": \[\n([^\]]*)\n            \]`, strings.Join(names, ",\n")},
			{`"Falta": \{[^\x00]*?"code": \{\s*"type": "string",\s*"description": ("(?:[^"\\]|\\.)*"),`, faultsEN}},
		"../openapi.es.json": {
			{`\n  ("VALIDATION_ERROR 400: [^\n]*"),\n`, typesEN + ": " + typesES},
			{`\n  ("Stable; never [^\n]*"),\n`, faultsEN + ": " + faultsES}},
	} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		contract := string(b)
		for _, part := range parts {
			at := regexp.MustCompile(part.place).FindStringSubmatchIndex(contract)
			if at == nil {
				t.Fatalf("%s has no %s", path, part.place)
			}
			contract = contract[:at[2]] + part.want + contract[at[3]:]
		}
		golden(t, path, contract)
	}
}

func quoted(t *testing.T, s string) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}
