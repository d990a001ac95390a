package tilltest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// TestFaults_Invalidation: one answer has the faults that the gateway finds, and those that the event's layout and the
// replacement's rule find; each path once.
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

// TestInvalidation_Refused: when MH refuses the event, status says so, and the document stays.
func TestInvalidation_Refused(t *testing.T) {
	b := Open(t, "00", days["DTE 2.0"])
	sold := b.Post("dte01", []byte(example(t, "dte01"))).Code
	if err := b.Sim.Chaos(simulator.Chaos{RejectEvents: 1}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`{"status":"error","message":"Hacienda no aceptó la invalidación y el documento sigue vigente: `, `{"status":"success","data":`} {
		a := b.Post("invalidacion/"+sold, []byte(example(t, "invalidacion")))
		if a.Status != 200 || !strings.HasPrefix(string(a.Body), want) || a.Estado != []string{"PROCESSED",
			"INVALIDATED"}[i] {
			t.Errorf("%.300s", a.Body)
		}
	}
}

// TestInvalidation_NameOnly: before DTE 2.0 MH wants a customer's number in the event even for a sale without one. The
// document's own name stays.
func TestInvalidation_NameOnly(t *testing.T) {
	b := Open(t, "00", days["before"])
	sale := `{"receptor":{"nombre":"%s"},"items":[{"descripcion":"Café","cantidad":1,"precioUnitario":1}],"condicionOperacion":1}`
	sold := b.Post("dte01", []byte(fmt.Sprintf(sale, "Carlos Alfaro")))
	a := b.Post("invalidacion/"+sold.Code, []byte(example(t, "invalidacion")))
	if a.Estado != "INVALIDATED" || len(sold.Observations) > 0 {
		t.Fatalf("%v %.300s", sold.Observations, a.Body)
	}
	code, err := dte.ParseCode(sold.Code)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := b.Store.Parts(storage.Code(code))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if !strings.HasPrefix(p.Name, "invalidacion:") {
			continue
		}
		event, err := record.Payload(p.Data)
		if err != nil || !strings.Contains(string(event), `"nombre":"Carlos Alfaro"`) {
			t.Errorf("%v %s", err, event)
		}
	}
}
