package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"dtegate/engine/archive/archivetest"
)

// longSale has so many lines that its signed form alone fills a block of a table.
func longSale() string {
	lines := make([]string, 150)
	for i := range lines {
		lines[i] = fmt.Sprintf(
			`{"codigo":"A-%04[1]d","descripcion":"Artículo de la línea %[1]d","cantidad":%[2]d,"precioUnitario":%[3]d.95}`, i, i%7+1, i%11+1)
	}
	return `{"receptor":` + customer10 + `,"items":[` + strings.Join(lines, ",") + `],"condicionOperacion":1}`
}

// A branch without a second copy loses the signed form of a document. fsck --ask names the document, the archive that
// has the form, and the seal under which MH holds it; repair takes the form from a real archive.
func TestRepair_Archive(t *testing.T) {
	t.Parallel()
	store := archivetest.Start(t)
	a := newStanding(t)
	a.Set("http://127.0.0.1:9000", store.Endpoint(t))
	a.Set(`bucket = "dte"`, fmt.Sprintf("bucket = %q", archivetest.Bucket))
	a.Set(`access_key = "dte"`, fmt.Sprintf("access_key = %q", archivetest.Access))
	a.Write("archive.secret", []byte(archivetest.Secret+"\n"))
	a.sale = longSale()
	a.until = func(last record) bool {
		_, err := os.Stat(store.Path(last.JSONURL))
		return err == nil
	}
	if r := a.run(2); r.refused != nil || r.sale != "" {
		t.Fatalf("%v %s\n%s", r.refused, r.sale, r.log)
	}
	if r := a.run(0); r.refused != nil { // the log's rows are in tables now
		t.Fatal(r.refused)
	}
	lost := a.loseForm(t)
	said, ok := a.dtectl(t, "fsck")
	var named []string
	for line := range strings.Lines(said) {
		if strings.HasPrefix(line, "document ") {
			named = append(named, line)
		}
	}
	if ok || len(named) != 1 || !strings.Contains(named[0], lost) || !strings.Contains(named[0], " cannot be read") {
		t.Errorf("fsck: %s", said)
	}
	if said, ok = a.dtectl(t, "recover"); !ok || !regexp.MustCompile(`archive +- +1 rows`).MatchString(said) ||
		!strings.Contains(said, "nothing is missing") {
		t.Fatalf("recover: %s", said)
	}
	if said, ok = a.dtectl(t, "fsck"); !ok {
		t.Error(said)
	}
	if said, _ = a.dtectl(t, "audit"); !strings.Contains(said, "store.repair") ||
		!strings.Contains(said, "1 rows of archive") {
		t.Error(said)
	}
	a.until = nil
	if r := a.run(1); r.refused != nil || len(r.lost) > 0 || r.unread > 0 || fmt.Sprint(r.numbers) != "[3]" {
		t.Errorf("after the repair: %+v", r)
	}
}

// loseForm flips a bit in the signed form of one document, and returns the document's code.
func (a *atRest) loseForm(t *testing.T) string {
	t.Helper()
	tables, err := filepath.Glob(a.At("data/*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		data, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		for code, answer := range a.sold {
			var r struct{ Data record }
			if err := json.Unmarshal(answer, &r); err != nil {
				t.Fatal(err)
			}
			jws := r.Data.JWS
			at := bytes.Index(data, []byte(jws[len(jws)-20:])) // of the signature, which nothing compresses
			if at < 0 {
				continue
			}
			data[at] ^= 1
			if err := os.WriteFile(table, data, 0o600); err != nil {
				t.Fatal(err)
			}
			return code
		}
	}
	t.Fatal("no table holds a signed form")
	return ""
}
