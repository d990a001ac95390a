package tilltest_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/cmd/dtectl/certify"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/books"
	"dtegate/engine/documents"
	"dtegate/engine/record"
)

// booked makes the books of a month of the branch, and the records that the oracle reads.
func (b *branch) booked(of string) (dir string, records []byte) {
	b.t.Helper()
	must := func(err error) {
		if err != nil {
			b.t.Helper()
			b.t.Fatal(err)
		}
	}
	dir = b.t.TempDir()
	book, err := books.New(books.Options{Month: of, Dir: dir, Made: "now"})
	must(err)
	var lines bytes.Buffer
	reader := documents.NewMonthReader(b.Store)
	for after, more := uint64(0), true; more; {
		p, err := reader.Page(of, after)
		must(err)
		for _, d := range p.Documents {
			must(book.Add(d))
			raw := json.RawMessage(d.JSON)
			d.JSON = nil
			must(json.NewEncoder(&lines).Encode(struct {
				books.Document
				Seal        string          `json:"selloRecibido"`
				Invalidated string          `json:"invalidado"`
				JSON        json.RawMessage `json:"document"`
			}{d, d.Seal, d.Invalidated, raw}))
		}
		after, more = p.Next, p.Next > 0
	}
	must(book.Finish())
	return dir, lines.Bytes()
}

// TestBooks: for the documents that a branch really issued, of every type and state, the books count what GET
// /dte/documentos counts, and the oracle makes the same rows from the same signed documents. DTE_SOAK=1: of all that
// certify sends.
func TestBooks(t *testing.T) {
	b := open(t)
	b.wanted = minimum(os.Getenv("DTE_SOAK") != "")
	if report, err := certify.New(b.options()).Run(t.Context()); err != nil || !report.Complete {
		t.Fatalf("%v %+v", err, report)
	}
	sale := `{"receptor":{"nombre":"Ana Morales"},"items":[{"descripcion":"Café","cantidad":1,"precioUnitario":3.50}],"condicionOperacion":1}`
	b.chaos(simulator.Chaos{Reject: 1})
	if a := b.Post("dte01", []byte(sale)); a.Estado != "REJECTED" {
		t.Fatal(a)
	}
	b.chaos(simulator.Chaos{Outage: true})
	if a := b.Post("dte01", []byte(sale)); a.Estado != "CONTINGENCIA" {
		t.Fatal(a)
	}
	dir, records := b.booked("2026-11")

	type count struct {
		Documents int
		Total     string
	}
	var made struct {
		Documents []struct {
			Type  string `json:"tipo"`
			State string `json:"estado"`
			Count int    `json:"cantidad"`
			Total string `json:"total"`
		} `json:"documentos"`
		Settings json.RawMessage `json:"ajustes"`
	}
	text, err := os.ReadFile(filepath.Join(dir, books.SummaryName))
	if err == nil {
		err = json.Unmarshal(text, &made)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, want := make(map[string]count), make(map[string]count)
	for _, d := range made.Documents {
		got[record.TypeOf(d.Type).Name+" "+d.State] = count{d.Count, d.Total}
	}
	var list struct {
		Data struct {
			Totals []struct {
				Type      string `json:"tipo"`
				State     string `json:"estado"`
				Documents int    `json:"documentos"`
				Total     string `json:"total"`
			} `json:"totales"`
		}
	}
	if err := json.Unmarshal(b.Get("documentos?desde=2026-11-01&hasta=2026-11-30&limite=1").Body, &list); err != nil {
		t.Fatal(err)
	}
	for _, x := range list.Data.Totals {
		want[x.Type+" "+x.State] = count{x.Documents, x.Total}
	}
	if !maps.Equal(got, want) || len(got) < 10 {
		t.Errorf("the books count %v\nGET /dte/documentos %v", got, want)
	}

	python := skip.Program(t, "python3")
	out := t.TempDir()
	settings := filepath.Join(out, "settings.json")
	if err := os.WriteFile(settings, made.Settings, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "../../engine/books/testdata/oracle.py", "2026-11", settings, out)
	cmd.Stdin = bytes.NewReader(records)
	if answer, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, answer)
	}
	rows := 0
	headless := regexp.MustCompile(`^(anexo|anulados|f930)`) // the other files have headings and sums, for people
	files, err := filepath.Glob(filepath.Join(out, "*.csv"))
	if err != nil || len(files) != 14 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, filepath.Base(file)))
		if err != nil || !strings.Contains(string(got), string(want)) || headless.MatchString(filepath.Base(file)) &&
			len(got) != len(want) {
			t.Errorf("%s: %v\n%s\nthe oracle makes\n%s", filepath.Base(file), err, got, want)
		}
		rows += bytes.Count(want, []byte("\n"))
	}
	t.Logf("%d documents, %d rows as the oracle's", bytes.Count(records, []byte("\n")), rows)
}
