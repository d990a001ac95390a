package tilltest

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestFaults_Invalidation: what the gateway finds and what the event's layout and the replacement's rule find is told in one
// answer; each path once.
func TestFaults_Invalidation(t *testing.T) {
	b := Open(t, "00", days["DTE 2.0"])
	sold := b.Post("dte01", []byte(example(t, "dte01"))).Code
	for _, c := range []struct{ body, paths string }{
		{`{"tipoAnulacion":1,"motivo":"","responsable":{"nombre":"María","tipoDocumento":"99","numDocumento":"1"},"solicita":{"nombre":"Ana","tipoDocumento":"13","numDocumento":"012345678"},"extra":1}`,
			"extra motivo responsable.tipoDocumento codigoGeneracionReemplazo"},
		{`{"tipoAnulacion":7,"motivo":"Devolución","responsable":{"nombre":"María","tipoDocumento":"13","numDocumento":"012345678"},"solicita":{"nombre":"Ana","tipoDocumento":"99","numDocumento":"1"}}`,
			"tipoAnulacion solicita.tipoDocumento"},
		{`{"tipoAnulacion":2,"motivo":"Devolución","responsable":{"nombre":"María"},"solicita":{"nombre":"Ana","tipoDocumento":"13","numDocumento":"012345678"},"codigoGeneracionReemplazo":"` + sold + `"}`,
			"responsable.tipoDocumento responsable.numDocumento codigoGeneracionReemplazo"},
		{`{"tipoAnulacion":2,"motivo":"Devolución","responsable":{"nombre":"María","tipoDocumento":"99","numDocumento":"1"},"solicita":{"nombre":"Ana","tipoDocumento":"13","numDocumento":"012345678"},"codigoGeneracionReemplazo":"` + sold + `"}`,
			"responsable.tipoDocumento codigoGeneracionReemplazo"},
	} {
		a := b.Post("invalidacion/"+sold, []byte(c.body))
		var problem struct{ Errors []struct{ Path string } }
		if err := json.Unmarshal(a.Body, &problem); err != nil {
			t.Fatal(err)
		}
		told := make(map[string]int)
		for _, f := range problem.Errors {
			told[f.Path]++
		}
		for _, path := range strings.Fields(c.paths) {
			if told[path] != 1 {
				t.Errorf("%s is told %d times:\n%s\n%s", path, told[path], c.body, a.Body)
			}
			delete(told, path)
		}
		if a.Status != 400 || len(told) > 0 {
			t.Errorf("%d, and beside what is wrong %v:\n%s", a.Status, told, c.body)
		}
	}
}
