package reply

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine"
	"dtegate/engine/authority"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

var update = flag.Bool("update", false, "write the golden file anew")

const code = "5B0C2A6E-4D6F-4F3C-9C55-0A1B2C3D4E5F"

// at is a moment in another zone, and not of a whole millisecond.
var at = time.Date(2026, 11, 21, 12, 30, 0, 7_999_999, time.FixedZone("", -6*60*60))

// viewOf returns a document in which each member has a value of its own.
func viewOf(estado string) *record.View {
	r := &record.View{ID: 1, Document: "01", Tipo: "FACTURA", Code: code, ControlNumber: "DTE-01", Estado: estado,
		Ambiente: "TEST", Total: "11.30", JSON: []byte(`{"a":1}`), JWS: []byte("a.b.c"), JSONURL: "t/a.json",
		PDFURL: "t/a.pdf", SequenceNumber: "2", SequenceID: 3, Serie: "S", EmisorID: 4, BranchID: 5, PointID: 6, TokenID: 7,
		CreatedAt: at, Rule: record.RuleRef{Name: "dte01", Version: "2.1.1", Digest: "ab"}}
	if estado != record.EstadoContingency {
		r.Sello, r.Response = "SELLO", answerOf("PROCESADO", "SELLO", "[x] una observación")
	}
	return r
}

func answerOf(estado, sello string, notes ...string) *authority.Response {
	return &authority.Response{Version: 2, Ambiente: "00", VersionApp: 3, Estado: estado, CodigoGeneracion: code,
		SelloRecibido: sello, FhProcesamiento: "21/11/2026 12:30:00", ClasificaMsg: "10", CodigoMsg: "001",
		DescripcionMsg: "RECIBIDO", Observaciones: notes}
}

// TestReplies: every answer to a till, with a value in each member and without one. Tills read all of them.
func TestReplies(t *testing.T) {
	golden := new(bytes.Buffer)
	show := func(name string, b []byte) {
		if !json.Valid(b) {
			t.Errorf("%s is not JSON: %s", name, b)
		}
		golden.WriteString("# " + name + "\n")
		golden.Write(append(b, '\n'))
	}
	for _, estado := range []string{record.EstadoProcessed, record.EstadoContingency} {
		show("document "+estado, Record(nil, viewOf(estado)))
	}
	rejected := viewOf(record.EstadoRejected)
	rejected.Response, rejected.Sello, rejected.TechnicalError = answerOf("RECHAZADO", ""), "", "sin enlace"
	rejected.JSONURL, rejected.PDFURL, rejected.Warnings = "", "", []string{"un aviso \"propio\""}
	show("document rejected by MH", Record(nil, rejected))
	rejected.Response = nil
	show("document rejected without an answer", Record(nil, rejected))
	void := viewOf(record.EstadoInvalidated)
	void.Invalidation = &record.Invalidation{Code: code, Estado: record.EstadoProcessed, Kind: 2, Reason: "otro precio",
		Replacement: "OTRO", At: at.Add(time.Hour), TokenID: 8, Response: answerOf("PROCESADO", "EVENTO")}
	show("document invalidated by a till", Record(nil, void))
	still := viewOf(record.EstadoProcessed)
	still.Invalidation = &record.Invalidation{Code: code, Estado: record.EstadoPending, Kind: 1, Reason: "x", At: at}
	show("document whose invalidation by an operator waits", Record(nil, still))
	still.Invalidation.Estado, still.Invalidation.Response = record.EstadoRejected, answerOf("RECHAZADO", "")
	show("invalidation refused", InvalidationRefused(still))

	found := documents.Info{Code: code, Sello: "SELLO", Estado: "PROCESSED", Tipo: "FACTURA", Found: true}
	show("look-up", Infos([]documents.Info{found, {Code: "OTRO"}, found}))
	show("look-up of nothing", Infos(nil))
	line := documents.Line{ID: 1, Tipo: "FACTURA", Document: "01", Code: code, ControlNumber: "DTE-01",
		Estado: "PROCESSED", Total: "1.00", Date: "2026-11-21", Sello: "SELLO", PointID: 6, CreatedAt: at}
	show("list", Listing(&documents.Listing{Lines: []documents.Line{line, {}}, Next: 35,
		Totals: []documents.Total{{Tipo: "FACTURA", Estado: "PROCESSED", Count: 2, Amount: "2.00"}}}))
	show("last page of a list", Listing(&documents.Listing{}))
	show("changes", Changes([]documents.Late{{Cursor: 36, Info: found, ControlNumber: "DTE-01", PointID: 6, Text: "no"},
		{}}, 37))
	valid, err := Validation(&engine.Validation{Document: "01", Total: "1.00", Warnings: []string{"a"},
		JSON: []byte(`{"cuerpoDocumento":[1],"resumen":{"b":2}}`)})
	if err != nil {
		t.Fatal(err)
	}
	show("validation", valid)
	if valid, err = Validation(&engine.Validation{Document: "01", JSON: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	show("validation without lines", valid)
	lists, err := dte.ParseCatalogues([]byte(
		`{"version":"7","source":"x","catalogues":{"CAT-014":{"name":"Unidad","values":{"99":"Otra","59":"Unidad"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	show("catalogues", CodeLists(lists))
	show("catalogue", CodeList(lists.Version(), lists.List("CAT-014")))
	for _, sent := range []outbox.Resent{{Sent: true}, {Refused: true}, {}} {
		sent.Code, sent.To, sent.Tipo, sent.Estado = code, "ana@example.com", "FACTURA", "PROCESSED"
		show("resent", Resent(&sent))
	}
	parsed, err := dte.ParseCode(code)
	if err != nil {
		t.Fatal(err)
	}
	show("printed", Printed(parsed, "a.pdf", []byte("%PDF-")))
	show("link", Link(parsed, "https://x/a", 300*time.Second))
	all := []string{"FACTURA", record.PermissionRead, record.PermissionMail, "ANULACION"}
	kept := slices.Clone(all)
	issuer := Information{"id", int64(1), "nombre", "La Ceiba"}
	for range 2 { // a token's answer must not change the next one's
		show("information", Issuer(issuer, record.Point{Establishment: "M001", PointOfSale: "P001"}, all))
	}
	if !slices.Equal(all, kept) {
		t.Errorf("the token may now %q", all)
	}
	show("refusal", Problem(nil, &refusal.Error{Code: "VALIDATION_ERROR", Message: "no", Document: code,
		RequiredFields: []string{"nombre"}, Faults: []dte.Fault{{Path: "items[0]", Code: "REQUIRED", Message: "falta"}}}))
	show("refusal without faults", Problem(nil, &refusal.Error{Code: "INTERNAL", Message: "no"}))

	const file = "testdata/replies.txt"
	if *update {
		if err := os.WriteFile(file, golden.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, wanted := strings.Split(golden.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(got), len(wanted)) {
		if i >= len(got) || i >= len(wanted) || got[i] != wanted[i] {
			t.Fatalf("line %d of %s\n%q\nwant\n%q", i+1, file, got[min(i, len(got)-1)], wanted[min(i, len(wanted)-1)])
		}
	}
}
