package simulator_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Accepted documents outlive the authority: a number stays used, a note on the sale is measured against it, an
// invalidated document stays so. A line that a crash tore is dropped, a line that is not a document is an error, and a
// reset also empties the file.
func TestKeep(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authority.jsonl")
	keep := func() *branch {
		b := open(t)
		if err := b.sim.Keep(file); err != nil {
			t.Fatal(err)
		}
		return b
	}
	before := keep()
	a := before.accepted(sample(t, "03", 1))
	before.accepted(sample(t, "03", 2))
	before.accepted(noteFor(t, "05", 1, "100", "03", code("03", 1)))
	if err := before.sim.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"nit":"0614`)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()

	after := keep()
	if got := after.lookup("03", code("03", 1)); got.SelloRecibido == nil || *got.SelloRecibido != *a.SelloRecibido {
		t.Errorf("the seal is %v, was %v", got, a)
	}
	after.refused(sample(t, "03", 1), "004", "[identificacion.codigoGeneracion] YA EXISTE UN REGISTRO CON ESE VALOR")
	twice := sample(t, "03", 3).set("identificacion.numeroControl", sample(t, "03",
		2).get("identificacion.numeroControl"))
	after.refused(twice, "004", "[identificacion.numeroControl] YA EXISTE UN REGISTRO CON ESE VALOR")
	if a := after.send(noteFor(t, "05", 2, "100", "03", code("03", 1))); !strings.Contains(a.DescripcionMsg,
		"MONTO ES MAYOR") {
		t.Errorf("a second note of the same 100.00: %v", a)
	}
	after.accepted(noteFor(t, "05", 3, "5", "03", code("03", 1)))
	if err := after.sim.Close(); err != nil {
		t.Fatal(err)
	}

	last := keep()
	if got := last.sim.Received(); got.Documents != 4 {
		t.Errorf("%d documents, want 4", got.Documents)
	}
	if err := last.sim.Reset(); err != nil {
		t.Fatal(err)
	}
	last.accepted(sample(t, "03", 1))
	if err := last.sim.Close(); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(file); err != nil || bytes.Count(data, []byte("\n")) != 1 {
		t.Errorf("%q %v", data, err)
	}
	if err := os.WriteFile(file, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(t).sim.Keep(file); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("what is no document: %v", err)
	}
}
