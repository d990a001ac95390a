package tilltest

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/documents"
)

// closing reads the answer of /dte/cierre.
func closing(t *testing.T, a Answer) documents.Closing {
	t.Helper()
	var said struct{ Data documents.Closing }
	if err := json.Unmarshal(a.Body, &said); err != nil || a.Status > 201 {
		t.Fatalf("%d %s: %v", a.Status, a.Body, err)
	}
	return said.Data
}

// TestClosing: a day with every kind of sale is counted by type, state and method of payment, with its VAT; notes and
// returns are netted, a refused document is not. The Z is kept as it was, whatever is sold later.
func TestClosing(t *testing.T) {
	b := Open(t, "00", time.Date(2026, 12, 2, 18, 0, 0, 0, time.UTC))
	sale := func(path, body string) Answer {
		t.Helper()
		a := b.Post(path, []byte(body))
		if a.Status != http.StatusCreated || a.Estado == "REJECTED" {
			t.Fatalf("%s: %s", path, a)
		}
		return a
	}
	const buyer = `"receptor":{"tipoDocumento":"36","numDocumento":"06140101901012","nit":"06140101901012","nrc":"123456","nombre":"Tienda El Sol","codActividad":"47111",` +
		`"descActividad":"Venta","direccion":{"departamento":"06","municipio":"23","distrito":"14","complemento":"Calle 1"},"telefono":"22571234","correo":"a@example.com"}`
	cash := sale("dte01",
		// 11.30, VAT 1.30
		`{"receptor":{"nombre":"Ana"},"items":[{"descripcion":"Café","cantidad":2,"precioUnitario":5.65}],"condicionOperacion":1}`)
	sale("dte01",
		`{"receptor":{"nombre":"Ana"},"items":[{"descripcion":"Pan","cantidad":1,"precioUnitario":22.6}],"condicionOperacion":1,
		"pagos":[{"codigo":"01","montoPago":12.6},{"codigo":"02","montoPago":10,"referencia":"1"}]}`) // 22.60, VAT 2.60
	voucher := sale("dte03",
		// 113.00
		`{`+buyer+`,"items":[{"descripcion":"Azúcar","cantidad":1,"precioUnitario":100}],"condicionOperacion":1,"pago":{"codigo":"02","referencia":"2"}}`)
	sale("dte05",
		// 11.30
		`{"codigoGeneracion":"`+voucher.Code+`",`+buyer+
			`,"items":[{"descripcion":"Azúcar","cantidad":1,"precioUnitario":10}],"condicionOperacion":1}`)
	sale("dte06",
		// 22.60
		`{"codigoGeneracion":"`+voucher.Code+`",`+buyer+
			`,"items":[{"descripcion":"Flete","cantidad":1,"precioUnitario":20}],"condicionOperacion":1}`)
	sale("retorno",
		// 5.65, VAT 0.65
		`{"documentoOrigen":"`+cash.Code+`","items":[{"numItem":1,"cantidadRetorno":1}],"motivo":"Cambio"}`)
	purchase := sale("dte14", example(t, "dte14")) // 200 less 20
	sale("dte14", example(t, "dte14"))
	sale("retorno", // of a purchase: neither a return of a sale nor a payment
		`{"documentoOrigen":"`+purchase.Code+`","items":[{"numItem":1,"cantidadRetorno":1}],"motivo":"No sirve"}`)
	sale("dte07", example(t, "dte07")) // 5.00 withheld; its layout repeats the supplier's VAT
	if err := b.Sim.Chaos(simulator.Chaos{Reject: 1}); err != nil {
		t.Fatal(err)
	}
	refused := b.Post("dte01",
		[]byte(`{"receptor":{"nombre":"Ana"},"items":[{"descripcion":"Café","cantidad":1,"precioUnitario":1}],"condicionOperacion":1}`))
	if refused.Estado != "REJECTED" {
		t.Fatal(refused)
	}

	x := closing(t, b.Get("cierre"))
	want := documents.ClosingNet{Sales: "146.90", Debits: "22.60", Credits: "11.30", Returns: "5.65", Total: "152.55",
		VAT: "17.55", Purchases: "180.00", Withheld: "5.00"}
	if x.Kind != "X" || x.Number != 0 || x.Net != want {
		t.Errorf("%+v\nwant %+v", x, want)
	}
	if len(x.Groups) != 8 || x.Groups[5].Document != "07" || x.Groups[5].VAT != "0.00" ||
		x.Groups[0] != (documents.ClosingGroup{Tipo: "FACTURA_CONSUMIDOR_FINAL", Document: "01",
			Estado: "PROCESSED", Count: 2, Total: "33.90", VAT: "3.90"}) ||
		x.Groups[1].Estado != "REJECTED" || x.Groups[1].Total != "1.00" {
		t.Errorf("%+v", x.Groups)
	}
	if s := x.Series[0]; s.First != cash.Number || s.Last != refused.Number || s.Count != 3 {
		t.Errorf("%+v", s)
	}
	if p := x.Payments; len(p) != 2 || p[0].Method != "01" || p[0].Received != "23.90" || p[0].Paid != "360.00" ||
		p[1].Received != "123.00" || p[1].Text == "" {
		t.Errorf("%+v", p)
	}

	made := b.Post("cierre", nil)
	z := closing(t, made)
	if made.Status != http.StatusCreated || z.Kind != "Z" || z.Number != 1 || z.Net != want {
		t.Errorf("%d %+v", made.Status, z)
	}
	sale("dte01",
		`{"receptor":{"nombre":"Ana"},"items":[{"descripcion":"Café","cantidad":1,"precioUnitario":1}],"condicionOperacion":1}`)
	again := b.Post("cierre?fecha=2026-12-02", nil)
	kept := closing(t, again)
	if kept.Later != 1 {
		t.Errorf("%d documents came later", kept.Later)
	}
	kept.Later = 0
	if got, first := asText(t, kept), asText(t, z); again.Status != http.StatusOK || got != first || asText(t,
		closing(t, b.Get("cierre"))) == first {
		t.Errorf("%d\n%s\n%s", again.Status, got, first)
	}
	if now := closing(t, b.Get("cierre?clase=X")); now.Kind != "X" || now.Net.Total != "153.55" {
		t.Errorf("%+v", now)
	}
	if other := closing(t, b.Post("cierre?fecha=2026-12-01", nil)); other.Number != 2 || len(other.Groups) != 0 ||
		other.Net.Total != "0.00" {
		t.Errorf("%+v", other)
	}
	for _, bad := range []string{"cierre?fecha=2026-12-03", "cierre?fecha=ayer", "cierre?puntoVenta=x",
		"cierre?clase=Z", "cierre?format=url", "cierre?layout=letter"} {
		if a := b.Get(bad); a.Status != http.StatusBadRequest {
			t.Errorf("%s: %s", bad, a)
		}
	}
	if a := b.Post("cierre", []byte(`{"fecha":"2026-12-02"}`)); a.Status != http.StatusBadRequest {
		t.Errorf("a body: %s", a)
	}
}

func asText(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
