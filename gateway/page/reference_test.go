package page

import (
	"html"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dtegate/engine/books/sample"
	"dtegate/engine/dte"
)

// contractText is the gateway's contract.
func contractText(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestReference: the reference page shows every operation and schema and a sample month's files, and its links lead
// somewhere.
func TestReference(t *testing.T) {
	text := contractText(t)
	contract, err := dte.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	page := string(Reference(text, nil))
	for _, path := range contract.Get("paths").Members() {
		for _, o := range path.Value.Members() {
			if !strings.Contains(page, `<article id="`+o.Value.Get("operationId").Text()+`">`) {
				t.Errorf("%s is not on the page", path.Name)
			}
		}
	}
	for _, f := range sample.Files() {
		if !strings.Contains(page, "<summary>"+f.Name+"</summary>") || len(f.Rows) == 0 {
			t.Errorf("%s is not on the page", f.Name)
		}
	}
	for _, m := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if id, ok := strings.CutPrefix(m[1], "#"); m[1] != "/openapi.json?lang=en" && m[1] != "?lang=es" &&
			(!ok || !strings.Contains(page, `id="`+id+`"`)) {
			t.Errorf("%s leads nowhere", m[1])
		}
	}
	shown := 0
	var enums func(v dte.Value)
	enums = func(v dte.Value) {
		for _, m := range v.Members() {
			if slices.Contains([]string{"if", "then", "else", "allOf"}, m.Name) {
				continue // a condition narrows what is shown
			}
			var values []string
			for i := range m.Value.Len() {
				if x := m.Value.Index(i); m.Name == "enum" && !x.IsNull() {
					values = append(values, x.Text())
				}
				enums(m.Value.Index(i))
			}
			if shown += min(1, len(values)); len(values) > 0 &&
				!strings.Contains(page, html.EscapeString(strings.Join(values, " · "))) {
				t.Errorf("the values %q are not on the page", values)
			}
			enums(m.Value)
		}
	}
	enums(contract.Get("components").Get("schemas"))
	if shown < 5 {
		t.Errorf("%d lists of values", shown)
	}
	if strings.Contains(page, "ZgotmplZ") || strings.Contains(page, "<script") || strings.Contains(page, "style=") {
		t.Error("the page has what its policy forbids")
	}
}
