package page

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden file anew")

// TestPage_Golden: the whole page in each state, in Spanish, and in one state in English: every row, level, order and
// bar of the chart. `go test ./gateway/page -run TestPage_Golden -args -update` writes testdata/pages.txt.
func TestPage_Golden(t *testing.T) {
	head := regexp.MustCompile(`(?s)<head>.*?</head>`)
	var made strings.Builder
	states := overviews()
	pages := [][2]string{{"late", "en"}}
	for _, name := range slices.Sorted(maps.Keys(states)) {
		pages = append(pages, [2]string{name, "es"})
	}
	for _, page := range pages {
		name, lang := page[0], page[1]
		html := head.ReplaceAllString(string(renderStatus(lang, states[name])), "")
		fmt.Fprintf(&made, "\n# %s, %s\n%s\n", name, lang, strings.ReplaceAll(html, "><", ">\n<"))
	}
	const file = "testdata/pages.txt"
	if *update {
		if err := os.WriteFile(file, []byte(made.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, wanted := strings.Split(made.String(), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(got), len(wanted)) {
		if got[i] != wanted[i] {
			t.Fatalf("line %d of %s\n%q\nwant\n%q", i+1, file, got[i], wanted[i])
		}
	}
	if len(got) != len(wanted) {
		t.Errorf("%d lines, want %d", len(got), len(wanted))
	}
}
