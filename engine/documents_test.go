package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// The requests of the tests, in the form that the gateway makes from a till's requests.

func item(number int64, quantity, price string, more ...dte.Member) dte.Value {
	return dte.Obj(append([]dte.Member{member("numItem", dte.Int(number)), member("tipoItem", dte.Int(1)),
		member("cantidad", decimal(quantity)),
		member("uniMedida", dte.Int(59)), member("descripcion", dte.Str("Resma de papel")), member("precioUni",
			decimal(price))}, more...)...)
}

func decimal(s string) dte.Value {
	a, err := dte.ParseAmount(s)
	if err != nil {
		panic(err)
	}
	return dte.Num(a)
}

var taxpayer = dte.Obj(
	member("tipoDocumento", dte.Str("36")), member("numDocumento", dte.Str("06140202801028")),
	member("nit", dte.Str("06140202801028")),
	member("nrc", dte.Str("7654321")), member("nombre", dte.Str("Comercial El Roble")), member("codActividad",
		dte.Str("62010")),
	member("descActividad", dte.Str("Programación informática")), member("nombreComercial", dte.Null()),
	member("direccion", dte.Obj(member("departamento", dte.Str("05")), member("municipio", dte.Str("28")),
		member("distrito", dte.Str("11")), member("complemento", dte.Str("Avenida Las Magnolias 2")))),
	member("telefono", dte.Str("22223333")), member("correo", dte.Str("compras@example.com")))

var everything = []string{"FACTURA_CONSUMIDOR_FINAL", "CREDITO_FISCAL", "NOTA_CREDITO", "NOTA_DEBITO",
	"SUJETO_EXCLUIDO", "COMPROBANTE_RETENCION", "ANULACION"}

func request(document, key string, facts ...dte.Member) Request {
	c := testCaller(1)
	c.Permissions = everything
	f := dte.Obj(facts...)
	return Request{Document: document, Facts: f, IdempotencyKey: key, Digest: sha256.Sum256(f.Append(nil)), Caller: c}
}

func cash() dte.Member {
	return member("resumen", dte.Obj(member("condicionOperacion", dte.Int(1)), member("pagos",
		dte.Arr(dte.Obj(member("codigo", dte.Str("01")))))))
}

func onTerms() dte.Member {
	return member("resumen", dte.Obj(member("condicionOperacion", dte.Int(1))))
}

func invoice(key string, lines ...dte.Value) Request {
	return request("01", key, member("receptor", dte.Null()), member("cuerpoDocumento", dte.Arr(lines...)), cash())
}

func voucher(key string, lines ...dte.Value) Request {
	return request("03", key, member("receptor", taxpayer), member("cuerpoDocumento", dte.Arr(lines...)), cash())
}

func noteOn(document, key string, original *record.View, lines ...dte.Value) Request {
	r := request(document, key, member("cuerpoDocumento", dte.Arr(lines...)), onTerms())
	r.Origin = &Origin{Code: codeOf(original)}
	return r
}

func returnOf(key string, original *record.View, lines ...dte.Value) Request {
	r := request("18", key, member("cuerpoDocumento", dte.Arr(lines...)), member("resumen", dte.Obj()),
		member("apendice", dte.Arr(dte.Obj(member("campo", dte.Str("motivo")), member("etiqueta", dte.Str("Motivo")),
			member("valor", dte.Str("Producto dañado"))))))
	r.Origin = &Origin{Code: codeOf(original)}
	return r
}

// back returns a line of a return.
func back(number int64, quantity string) dte.Value {
	return dte.Obj(member("numItem", dte.Int(number)), member("cantidad", decimal(quantity)))
}

func codeOf(r *record.View) dte.Code {
	c, err := dte.ParseCode(r.Code)
	if err != nil {
		panic(err)
	}
	return c
}

// issued issues a request, which must succeed.
func (w *world) issued(req Request, estado string) *record.View {
	w.t.Helper()
	return issued(w.t, w.engine, req, estado)
}

func issued(t testing.TB, e *Engine, req Request, estado string) *record.View {
	t.Helper()
	r, err := e.Issue(context.Background(), req)
	if err != nil {
		t.Fatalf("%s: %v", req.Document, err)
	}
	if r.Estado != estado {
		t.Fatalf("%s is %s (%s %+v), want %s\n%s", req.Document, r.Estado, r.TechnicalError, r.Response, estado, r.JSON)
	}
	return r
}

// refused expects an error with a code; path, if not empty, is the path of one of its faults.
func refused(t testing.TB, err error, code, path string) {
	t.Helper()
	var e *refusal.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	for _, f := range e.Faults {
		if f.Path == path {
			return
		}
	}
	if path != "" {
		t.Fatalf("no fault at %s: %v", path, e.Faults)
	}
}

// text returns a member of a record's document.
func text(t testing.TB, r *record.View, names ...string) string {
	t.Helper()
	v, err := dte.Parse(r.JSON)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		v = v.Get(n)
	}
	return v.Text()
}

// counter returns the value of an origin's counter.
func (w *world) counter(r *record.View, line uint32) int64 {
	w.t.Helper()
	return counter(w.t, w.store, r, line)
}

func counter(t testing.TB, s *storage.Store, r *record.View, line uint32) int64 {
	t.Helper()
	n, err := s.Counter([16]byte(codeOf(r)), line)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
