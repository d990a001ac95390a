package enginetest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// The requests of the tests, in the form that the gateway makes from a till's requests.

func Item(number int64, quantity, price string, more ...dte.Member) dte.Value {
	return dte.Obj(append([]dte.Member{Member("numItem", dte.Int(number)), Member("tipoItem", dte.Int(1)),
		Member("cantidad", decimal(quantity)),
		Member("uniMedida", dte.Int(59)), Member("descripcion", dte.Str("Resma de papel")), Member("precioUni",
			decimal(price))}, more...)...)
}

func decimal(s string) dte.Value {
	a, err := dte.ParseAmount(s)
	if err != nil {
		panic(err)
	}
	return dte.Num(a)
}

var Taxpayer = dte.Obj(
	Member("tipoDocumento", dte.Str("36")), Member("numDocumento", dte.Str("06140202801028")),
	Member("nit", dte.Str("06140202801028")),
	Member("nrc", dte.Str("7654321")), Member("nombre", dte.Str("Comercial El Roble")), Member("codActividad",
		dte.Str("62010")),
	Member("descActividad", dte.Str("Programación informática")), Member("nombreComercial", dte.Null()),
	Member("direccion", dte.Obj(Member("departamento", dte.Str("05")), Member("municipio", dte.Str("28")),
		Member("distrito", dte.Str("11")), Member("complemento", dte.Str("Avenida Las Magnolias 2")))),
	Member("telefono", dte.Str("22223333")), Member("correo", dte.Str("compras@example.com")))

var Everything = []string{"FACTURA_CONSUMIDOR_FINAL", "CREDITO_FISCAL", "NOTA_CREDITO", "NOTA_DEBITO",
	"SUJETO_EXCLUIDO", "COMPROBANTE_RETENCION", "ANULACION"}

func Request(document, key string, facts ...dte.Member) engine.Request {
	c := TestCaller(1)
	c.Permissions = Everything
	f := dte.Obj(facts...)
	return engine.Request{
		Document:       document,
		Facts:          f,
		IdempotencyKey: key,
		Body:           f,
		Caller:         c,
	}
}

func Cash() dte.Member {
	return Member("resumen", dte.Obj(Member("condicionOperacion", dte.Int(1)), Member("pagos",
		dte.Arr(dte.Obj(Member("codigo", dte.Str("01")))))))
}

func onTerms() dte.Member {
	return Member("resumen", dte.Obj(Member("condicionOperacion", dte.Int(1))))
}

func Invoice(key string, lines ...dte.Value) engine.Request {
	return Request("01", key, Member("receptor", dte.Null()), Member("cuerpoDocumento", dte.Arr(lines...)), Cash())
}

func Voucher(key string, lines ...dte.Value) engine.Request {
	return Request("03", key, Member("receptor", Taxpayer), Member("cuerpoDocumento", dte.Arr(lines...)), Cash())
}

func NoteOn(document, key string, original *record.View, lines ...dte.Value) engine.Request {
	r := Request(document, key, Member("cuerpoDocumento", dte.Arr(lines...)), onTerms())
	r.Origin = &engine.Origin{Code: CodeOf(original)}
	return r
}

func ReturnOf(key string, original *record.View, lines ...dte.Value) engine.Request {
	r := Request("18", key, Member("cuerpoDocumento", dte.Arr(lines...)), Member("resumen", dte.Obj()),
		Member("apendice", dte.Arr(dte.Obj(Member("campo", dte.Str("motivo")), Member("etiqueta", dte.Str("Motivo")),
			Member("valor", dte.Str("Producto dañado"))))))
	r.Origin = &engine.Origin{Code: CodeOf(original)}
	return r
}

// Back returns a line of a return.
func Back(number int64, quantity string) dte.Value {
	return dte.Obj(Member("numItem", dte.Int(number)), Member("cantidad", decimal(quantity)))
}

func CodeOf(r *record.View) dte.Code {
	c, err := dte.ParseCode(r.Code)
	if err != nil {
		panic(err)
	}
	return c
}

// Issued issues a request, which must succeed.
func (w *World) Issued(req engine.Request, estado string) *record.View {
	w.T.Helper()
	return Issued(w.T, w.Engine, req, estado)
}

func Issued(t testing.TB, e *engine.Engine, req engine.Request, estado string) *record.View {
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

// Refused returns an error that has the code and says why; path, if not empty, is the path of one of its faults.
func Refused(t testing.TB, err error, code, path string) *refusal.Error {
	t.Helper()
	var e *refusal.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	if e.Message == "" && len(e.Faults) == 0 || slices.ContainsFunc(e.Faults,
		func(f dte.Fault) bool { return f.Path == "" || f.Code == "" || f.Message == "" }) {
		t.Fatalf("%s does not say why: %+v", code, e)
	}
	if path != "" && !slices.ContainsFunc(e.Faults, func(f dte.Fault) bool { return f.Path == path }) {
		t.Fatalf("no fault at %s: %v", path, e.Faults)
	}
	return e
}

// Text returns a member of a record's document.
func Text(t testing.TB, r *record.View, names ...string) string {
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

// Counter returns the value of an origin's counter.
func (w *World) Counter(r *record.View, line uint32) int64 {
	w.T.Helper()
	return Counter(w.T, w.Store, r, line)
}

func Counter(t testing.TB, s *storage.Store, r *record.View, line uint32) int64 {
	t.Helper()
	n, err := s.Counter([16]byte(CodeOf(r)), line)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
