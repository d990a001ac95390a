package books

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/skip"
)

// TestOracle compares every cell of a seeded month with the result of testdata/oracle.py for the same stored documents:
// somebody who had not read the Go wrote it from the manual. Go reads the documents in another order. DTE_SOAK=1:
// 20,000 documents.
func TestOracle(t *testing.T) {
	python := skip.Program(t, "python3")
	n := 600
	if os.Getenv("DTE_SOAK") != "" {
		n = 20_000
	}
	other := Settings{Sale: []SaleRule{{Fits{Establishment: "S002"}, SaleCodes{Operation: 1, Income: 4}},
		{Fits{Item: 2}, SaleCodes{Income: 2}}, {Fits{"S003", 1}, SaleCodes{Operation: 13, Income: 3}},
		{Fits{"M001", 1}, SaleCodes{Operation: 3}}},
		Purchase: []PurchaseRule{{Fits{"M001", 1}, PurchaseCodes{9, 9, 9, 9}},
			{PurchaseCodes: PurchaseCodes{1, 2, 4, 1}}},
		ConsumerRows: "establishment", Returns: "annex2", DayHyphens: true, CancelledHyphens: new(bool)}
	for i, s := range []Settings{Settings{}, other} {
		month := []string{"2026-11", "2027-02"}[i]
		list := newWorld(t, uint64(1+i), month).documents(n)
		finer(list)
		expected := t.TempDir()
		oracle(t, python, month, s, list, expected)
		rand.New(rand.NewPCG(9, 9)).Shuffle(n, func(a, b int) { list[a], list[b] = list[b], list[a] })
		dir, _ := madeBooks(t, month, s, list)
		cells := 0
		for _, l := range layouts {
			cells += compareFile(t, dir, expected, l)
		}
		want, err := os.ReadFile(filepath.Join(expected, "sin_archivo.txt"))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(nowhereOf(t, dir), ""); got != string(want) {
			t.Errorf("in no file:\n%s\nthe oracle says\n%s", got, want)
		}
		fmt.Printf("    oracle: %s, %d documents, %d cells equal, %d documents in no file\n", month, n, cells,
			bytes.Count(want, []byte("\n")))
	}
}

// finer gives some documents totals with more than two decimals; the files cut them.
func finer(list []Document) {
	for i := range list {
		if i%7 == 0 {
			list[i].JSON = regexp.MustCompile(`"totalExenta":[0-9]+\.[0-9]{2}`).ReplaceAll(list[i].JSON,
				[]byte("${0}87"))
		}
	}
}

func oracle(t *testing.T, python, month string, s Settings, list []Document, out string) {
	t.Helper()
	settings, err := json.Marshal(s.complete().forSummary())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(out, "settings.json")
	if err := os.WriteFile(file, settings, 0o600); err != nil {
		t.Fatal(err)
	}
	var in bytes.Buffer
	lines := json.NewEncoder(&in)
	for _, d := range list {
		if err := lines.Encode(recordOf(d)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(python, "testdata/oracle.py", month, file, out)
	cmd.Stdin = &in
	if answer, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, answer)
	}
}

// compareFile compares a file cell by cell and returns the number of cells.
func compareFile(t *testing.T, dir, expected string, l *layout) (cells int) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(dir, l.Name))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(expected, l.Name))
	if err != nil {
		t.Fatal(err)
	}
	a, b := rowsOf(string(got)), rowsOf(string(want))
	if l.header {
		a = a[7:]
	}
	if len(a) != len(b) {
		t.Errorf("%s: %d rows, the oracle has %d", l.Name, len(a), len(b))
	}
	wrong := 0
	for i := range min(len(a), len(b)) {
		if len(a[i]) != len(b[i]) {
			t.Fatalf("%s row %d: %d cells, the oracle has %d: %q, %q", l.Name, i+1, len(a[i]), len(b[i]), a[i], b[i])
		}
		for k := range a[i] {
			if cells++; a[i][k] != b[i][k] {
				if wrong++; wrong < 8 {
					t.Errorf("%s row %d column %s: %q, the oracle says %q\n%q\n%q", l.Name, i+1, l.Columns[k].Letter,
						a[i][k], b[i][k], a[i], b[i])
				}
			}
		}
	}
	return cells
}

// nowhereOf returns the codes of resumen.json that are in no file, in order, one per line.
func nowhereOf(t *testing.T, dir string) (codes []string) {
	t.Helper()
	for _, n := range summaryOf(t, dir).Nowhere {
		codes = append(codes, n.Code+"\n")
	}
	slices.Sort(codes)
	return codes
}

type shownSummary struct {
	Documents []group   `json:"documentos"`
	Earlier   []group   `json:"invalidados_de_meses_anteriores"`
	Files     []FileSum `json:"archivos"`
	Nowhere   []named   `json:"sin_archivo"`
	Notes     []named   `json:"avisos"`
}

func summaryOf(t *testing.T, dir string) *shownSummary {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, SummaryName))
	if err != nil {
		t.Fatal(err)
	}
	s := new(shownSummary)
	if err := json.Unmarshal(raw, s); err != nil {
		t.Fatal(err)
	}
	return s
}
