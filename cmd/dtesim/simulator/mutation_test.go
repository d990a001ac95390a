package simulator_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"dtegate/cmd/dtesim/simulator"
)

// change is a change of one member of a sample, and MH's answer. A code without a text means an observation of 096.
type change struct {
	tipo, path string
	value      any
	code, text string
}

const (
	wrong   = "] CALCULO INCORRECTO"
	banned  = "] VALOR NO ES PERMITIDO"
	missing = "] FALTAN DATOS PARA VALIDAR INFORMACION"
	invalid = " contiene un valor inválido"
)

// n keeps a literal.
func n(s string) json.Number { return json.Number(s) }

var changes = []change{
	// Structure.
	{"01", "resumen.totalIva", "1.30", "096", "Campo #/resumen/totalIva" + invalid},
	{"01", "resumen.totalIva", nil, "096", "Campo #/resumen/totalIva" + invalid},
	{"01", "resumen.totalIva", gone, "096", "Campo #/resumen/totalIva es requerido"},
	{"01", "resumen.totalIva", n("1.301"), "096", "Campo #/resumen/totalIva" + invalid},
	{"01", "resumen.totalPagar", n("-14.8"), "096", "Campo #/resumen/totalPagar" + invalid},
	{"01", "resumen.saldoFavor", n("1"), "096", "Campo #/resumen/saldoFavor" + invalid},
	{"01", "resumen.ivaPerci", n("0"), "096", "Campo #/resumen/ivaPerci no está permitido"},
	{"01", "extension", nil, "096", "Campo #/extension no está permitido"},
	{"01", "emisor.telefono", "2225778", "096", "Campo #/emisor/telefono no cumple el tamaño mínimo  permitido"},
	{"01", "emisor.codEstable", "M0001", "096", "Campo #/emisor/codEstable no cumple el tamaño máximo permitido"},
	{"01", "identificacion.codigoGeneracion", "00000001-0001-4000-8000-00000000000a", "096",
		"Campo #/identificacion/codigoGeneracion no cumple el formato requerido"},
	{"01", "identificacion.numeroControl", "DTE-01-00000000-000000000000001", "096",
		"Campo #/identificacion/numeroControl no cumple el formato requerido"},
	{"03", "identificacion.numeroControl", "DTE-01-M001P001-000000000000001", "096",
		"Campo #/identificacion/numeroControl no cumple el formato requerido"},
	{"01", "identificacion.horEmi", "24:00:00", "096", "Campo #/identificacion/horEmi no cumple el formato requerido"},
	{"01", "identificacion.fecEmi", "2026-02-30", "096",
		"Campo #/identificacion/fecEmi no cumple el formato requerido"},
	{"01", "identificacion.tipoMoneda", "EUR", "096", "Campo #/identificacion/tipoMoneda" + invalid},
	{"01", "cuerpoDocumento.0.cantidad", n("0"), "096", "Campo #/cuerpoDocumento/0/cantidad" + invalid},
	{"01", "cuerpoDocumento.0.precioUni", n("4.520000001"), "096", "Campo #/cuerpoDocumento/0/precioUni" + invalid},
	{"01", "cuerpoDocumento", []any{}, "096", "Campo #/cuerpoDocumento" + invalid},
	{"01", "resumen.pagos", []any{}, "096", "Campo #/resumen/pagos" + invalid},
	{"03", "receptor", nil, "096", "Campo #/receptor" + invalid},
	{"03", "resumen.totalLetras", "CIEN 00", "096",
		"Campo #/resumen/totalLetras no cumple el tamaño mínimo  permitido"},
	{"01", "cuerpoDocumento.0.tributos", []any{"20"}, "096", "Campo #/cuerpoDocumento/0/tributos/0" + invalid},
	{"03", "cuerpoDocumento.0.tributos", []any{"20", "20"}, "096", "Campo #/cuerpoDocumento/0/tributos" + invalid},

	// Parties.
	{"01", "emisor.nit", "06141804941036", "008", "[emisor.nit] NO CORRESPONDE A CONTRIBUYENTE"},
	{"01", "emisor.nit", "0614-180494103", "006", "[emisor.nit] FORMATO NO VÁLIDO"},
	{"01", "emisor.nrc", "223344-5", "006", "[emisor.nrc] FORMATO NO VÁLIDO"},
	{"01", "emisor.nrc", "2233446", "008", "[emisor.nrc] NO CORRESPONDE A CONTRIBUYENTE"},
	{"01", "emisor.codActividad", "99999", "007", "[emisor.codActividad" + banned},
	{"01", "emisor.codActividad", "41001", "008", "[emisor.codActividad] NO CORRESPONDE A CONTRIBUYENTE"},
	{"03", "receptor.nit", "1234", "006", "[receptor.nit] FORMATO NO VÁLIDO"},
	{"03", "receptor.nit", "06142501881025", "003", "[receptor.nit] NIT CONTRIBUYENTE NO EXISTE"},
	{"01", "receptor.tipoDocumento", "99", "007", "[receptor.tipoDocumento" + banned},
	{"01", "receptor.tipoDocumento", nil, "003", "[receptor.tipoDocumento" + missing},
	{"01", "receptor.numDocumento", "04123456-7", "006", "[receptor.numDocumento] FORMATO NO VÁLIDO"},

	// Catalogues.
	{"01", "emisor.direccion.departamento", "15", "007", "[emisor.direccion.departamento" + banned},
	{"01", "emisor.direccion.municipio", "25", "007", "[emisor.direccion.municipio" + banned},
	{"01", "emisor.direccion.distrito", "20", "007", "[emisor.direccion.distrito" + banned},
	{"03", "receptor.direccion.distrito", "00", "007", "[receptor.direccion.distrito" + banned},
	{"03", "receptor.codActividad", "00000", "007", "[receptor.codActividad" + banned},
	{"01", "resumen.condicionOperacion", 4, "007", "[resumen.condicionOperacion" + banned},
	{"01", "resumen.pagos.0.codigo", "10", "007", "[resumen.pagos.codigo" + banned},
	{"03", "resumen.pagos.0.plazo", "04", "007", "[resumen.pagos.plazo" + banned},
	{"03", "resumen.pagos.0.periodo", nil, "003", "[resumen.pagos.periodo" + missing},
	{"01", "cuerpoDocumento.0.tipoItem", 5, "007", "[cuerpoDocumento.tipoItem" + banned},
	{"01", "cuerpoDocumento.0.tipoItem", 4, "003", "[cuerpoDocumento.codTributo" + missing},
	{"01", "cuerpoDocumento.0.uniMedida", 3, "007", "[cuerpoDocumento.uniMedida" + banned},
	{"01", "cuerpoDocumento.0.codTributo", "A8", "007", "[cuerpoDocumento.codTributo" + banned},
	{"01", "cuerpoDocumento.0.tributos", []any{"ZZ"}, "007", "[cuerpoDocumento.tributos" + banned},

	// Payments, and the lines' numbers.
	{"01", "resumen.pagos.0.referencia", "A-1", "007", "[resumen.pagos.referencia" + banned},
	{"01", "resumen.pagos.0.periodo", 2, "003", "[resumen.pagos.plazo" + missing},
	{"03", "resumen.pagos", nil, "003", "[resumen.pagos" + missing},
	{"01", "cuerpoDocumento.1.numItem", 3, "007", "[cuerpoDocumento.numItem" + banned},
	{"03", "cuerpoDocumento.1.tributos", []any{"20", "D4"}, "007", "[cuerpoDocumento.tributos" + banned},
	{"03", "cuerpoDocumento.1.tributos", []any{"20", "C3"}, "007", "[cuerpoDocumento.tributos" + banned},

	// A line outside the tax base.
	{"03", "cuerpoDocumento.2.montoDescu", n("1"), "007", "[cuerpoDocumento.montoDescu" + banned},
	{"03", "cuerpoDocumento.2.psv", n("1"), "007", "[cuerpoDocumento.psv" + banned},
	{"03", "cuerpoDocumento.2.cantidad", n("0.5"), "007", "[cuerpoDocumento.cantidad" + banned},
	{"03", "cuerpoDocumento.2.uniMedida", 59, "007", "[cuerpoDocumento.uniMedida" + banned},

	// Amounts of 01.
	{"01", "cuerpoDocumento.0.precioUni", n("4.53"), "020", "[cuerpoDocumento.ventaGravada" + wrong},
	{"01", "cuerpoDocumento.0.montoDescu", n("0"), "020", "[cuerpoDocumento.ventaGravada" + wrong},
	{"01", "cuerpoDocumento.1.ventaExenta", n("3.52"), "020", "[cuerpoDocumento.ventaExenta" + wrong},
	{"01", "cuerpoDocumento.1.ventaGravada", n("3.5"), "020", "[cuerpoDocumento.ventaGravada" + wrong},
	{"01", "cuerpoDocumento.0.ivaItem", n("1.69"), "020", "[cuerpoDocumento.ivaItem" + wrong}, // 13 % of the price
	{"01", "resumen.totalExenta", n("3.48"), "020", "[resumen.totalExenta" + wrong},
	{"01", "resumen.totalNoSuj", n("0.02"), "020", "[resumen.totalNoSuj" + wrong},
	{"01", "resumen.totalGravada", n("13.02"), "020", "[resumen.totalGravada" + wrong},
	{"01", "resumen.subTotalVentas", n("16.48"), "020", "[resumen.subTotalVentas" + wrong},
	{"01", "resumen.descuGravada", n("13.01"), "007", "[resumen.descuGravada" + banned},
	{"01", "resumen.subTotal", n("14.24"), "020", "[resumen.subTotal" + wrong}, // the item discount taken off again
	{"01", "resumen.totalDescu", n("1.7"), "020", "[resumen.totalDescu" + wrong},
	{"01", "resumen.totalIva", n("1.5"), "020", "[resumen.totalIva" + wrong}, // without the global discount's share
	{"01", "resumen.montoTotalOperacion", n("16.1"), "020", "[resumen.montoTotalOperacion" + wrong},
	{"01", "resumen.totalPagar", n("14.82"), "020", "[resumen.totalPagar" + wrong},
	{"01", "resumen.totalNoGravado", n("1"), "020", "[resumen.totalNoGravado" + wrong},
	{"01", "resumen.ivaRete", n("0.13"), "020", "[resumen.ivaRete" + wrong}, // 1 % of the base with VAT
	{"01", "resumen.pagos.0.montoPago", n("14"), "020", "[resumen.pagos.montoPago" + wrong},
	{"01", "resumen.tributos", []any{map[string]any{"codigo": "20", "descripcion": "IVA", "valor": n("0")}}, "096",
		"Campo #/resumen/tributos/0/codigo" + invalid},
	{"01", "resumen.tributos", []any{map[string]any{"codigo": "D1", "descripcion": "FOVIAL", "valor": n("0")}}, "003",
		"[cuerpoDocumento.tributos" + missing},

	{"01", "resumen.tributos", []any{map[string]any{"codigo": "D1", "descripcion": "a", "valor": n("0")},
		map[string]any{"codigo": "D1", "descripcion": "b", "valor": n("0")}}, "007", "[resumen.tributos.codigo" +
		banned},

	// Amounts of 03.
	{"03", "resumen.tributos", nil, "003", "[resumen.tributos" + missing},
	{"03", "resumen.tributos.0.valor", n("14.32"), "020", "[resumen.tributos.codigo.20" + wrong},
	{"03", "resumen.tributos.0.valor", n("12.65"), "020", "[resumen.tributos.codigo.20" + wrong},
	{"03", "resumen.tributos.0.codigo", "59", "003", "[resumen.tributos" + missing},
	{"03", "cuerpoDocumento.1.tributos", nil, "003", "[cuerpoDocumento.tributos" + missing},
	{"03", "cuerpoDocumento.2.tributos", []any{"20"}, "007", "[cuerpoDocumento.tributos" + banned},
	{"03", "cuerpoDocumento.2.cantidad", n("2"), "007", "[cuerpoDocumento.cantidad" + banned},
	{"03", "cuerpoDocumento.2.uniMedida", 59, "007", "[cuerpoDocumento.uniMedida" + banned},
	{"03", "cuerpoDocumento.2.noGravado", n("2.53"), "020", "[resumen.totalNoGravado" + wrong},
	{"03", "cuerpoDocumento.2.precioUni", n("1"), "020", "[cuerpoDocumento.precioUni" + wrong},
	{"03", "resumen.ivaPerci", n("1.1"), "007", "[resumen.ivaPerci" + banned},
	{"03", "resumen.ivaRete", n("1.12"), "020", "[resumen.ivaRete" + wrong},
	{"03", "resumen.montoTotalOperacion", n("110"), "020", "[resumen.montoTotalOperacion" + wrong},
	{"03", "resumen.totalPagar", n("124.3"), "020", "[resumen.totalPagar" + wrong},
}

func TestReception_Mutations(t *testing.T) {
	b := open(t, func(o *simulator.Options) {
		o.Issuers[0].NRC, o.Issuers[0].Activities = "2233445", []string{"47521"}
		o.Taxpayers = []string{"06142501881024"}
	})
	b.accepted(sample(t, "01", 1))
	b.accepted(sample(t, "03", 1))
	for i, c := range changes {
		t.Run(fmt.Sprintf("%s %s %v", c.tipo, c.path, c.value), func(t *testing.T) {
			d := sample(t, c.tipo, 100+i).set(c.path, c.value)
			a := b.send(d)
			got := a.DescripcionMsg
			if c.code == "096" {
				if got != "DOCUMENTO NO CUMPLE ESQUEMA JSON" || *a.ClasificaMsg != "98" ||
					!slices.Contains(a.Observaciones, c.text) {
					t.Errorf("got %v, want the observation %q", a, c.text)
				}
				got = c.text
			}
			if a.status != 400 || a.Estado != "RECHAZADO" || a.CodigoMsg != c.code || got != c.text {
				t.Errorf("got %v, want %s %q", a, c.code, c.text)
			}
		})
	}
	if got := b.sim.Received().Documents; got != 2 {
		t.Errorf("%d documents accepted, want the two samples", got)
	}
}

// A cent is within tolerance wherever an amount is compared (MF2 pp.52-54).
func TestReception_WithinACent(t *testing.T) {
	b := open(t)
	for i, c := range []change{
		{tipo: "01", path: "cuerpoDocumento.0.ventaGravada", value: n("13.01")},
		{tipo: "01", path: "cuerpoDocumento.0.ivaItem", value: n("1.49")},
		{tipo: "01", path: "resumen.totalIva", value: n("1.31")},
		{tipo: "01", path: "resumen.subTotal", value: n("14.79")},
		{tipo: "01", path: "resumen.totalPagar", value: n("14.81")},
		{tipo: "03", path: "resumen.tributos.0.valor", value: n("14.31")},
		{tipo: "03", path: "resumen.ivaRete", value: n("1.09")},
		// Both conventions for the amount of the operation.
		{tipo: "03", path: "resumen.montoTotalOperacion", value: n("124.3")},
		// Before DTE 2.0 a document may have no payments.
		{tipo: "03-v3", path: "resumen.pagos", value: nil},
		{tipo: "01", path: "receptor", value: nil},
	} {
		if a := b.send(sample(t, c.tipo, i+1).set(c.path, c.value)); a.Estado != "PROCESADO" {
			t.Errorf("%s %s %v: %v", c.tipo, c.path, c.value, a)
		}
	}
}

func TestReception_LargeInvoiceNamesItsConsumer(t *testing.T) {
	b := open(t)
	d := sample(t, "01", 1).set("receptor", nil)
	for path, v := range map[string]string{
		"cuerpoDocumento.0.precioUni": "9000", "cuerpoDocumento.0.ventaGravada": "26999.44",
		"cuerpoDocumento.0.ivaItem": "3106.13026549",
		"resumen.totalGravada":      "26999.44", "resumen.subTotalVentas": "27002.94", "resumen.subTotal": "27001.24",
		"resumen.montoTotalOperacion": "27001.24", "resumen.totalPagar": "27001.24",
		"resumen.pagos.0.montoPago": "27001.24",
		"resumen.totalIva":          "3105.93",
	} {
		d.set(path, n(v))
	}
	b.refused(d, "003", "[receptor.numDocumento"+missing)
	b.accepted(d.set("receptor", sample(t, "01", 1).get("receptor")))
}

func tax(code, value string) map[string]any {
	return map[string]any{"codigo": code, "descripcion": "Tributo " + code, "valor": n(value)}
}

// Taxes in addition to VAT: by the gallon, informative, and as an item of their own.
func TestReception_OtherTaxes(t *testing.T) {
	b := open(t)
	// 3 units beside 2 gallons: no base for D1. C5 informs and adds nothing.
	other := sample(t, "01", 1).set("cuerpoDocumento.0.tributos", []any{"D1", "C5"}).
		set("cuerpoDocumento.1.tributos", []any{"D1"}).set("cuerpoDocumento.1.uniMedida", 22).
		set("resumen.tributos", []any{tax("D1", "2"), tax("C5", "9")}).
		set("resumen.montoTotalOperacion", n("16.8")).set("resumen.totalPagar",
		n("16.8")).set("resumen.pagos.0.montoPago", n("16.8"))
	b.accepted(other)

	gallons := sample(t, "01", 2).set("cuerpoDocumento.0.uniMedida", 22).set("cuerpoDocumento.0.tributos",
		[]any{"D1", "C8"}).
		set("resumen.tributos", []any{tax("D1", "0.6"), tax("C8", "0.3")}).
		set("resumen.montoTotalOperacion", n("15.7")).set("resumen.totalPagar",
		n("15.7")).set("resumen.pagos.0.montoPago", n("15.7"))
	b.refused(gallons.set("resumen.tributos.1.valor", n("0.6")), "020", "[resumen.tributos.codigo.C8"+wrong)
	b.accepted(gallons.set("resumen.tributos.1.valor", n("0.3")))

	// The second line as a special tax on fuel, part of the VAT base.
	item := sample(t, "03", 1).set("cuerpoDocumento.1.tipoItem", 4).set("cuerpoDocumento.1.codTributo", "A8").
		set("cuerpoDocumento.1.uniMedida", 99).set("cuerpoDocumento.1.cantidad",
		n("1")).set("cuerpoDocumento.1.precioUni", n("15"))
	b.accepted(item)
	item.set("identificacion.codigoGeneracion", code("03", 2)).set("identificacion.numeroControl",
		"DTE-03-M001P001-000000000000002")
	b.refused(item.set("cuerpoDocumento.1.codTributo", "C8"), "007", "[cuerpoDocumento.codTributo"+banned)
	b.refused(item.set("cuerpoDocumento.1.codTributo", "A8").set("cuerpoDocumento.1.uniMedida", 59), "007",
		"[cuerpoDocumento.uniMedida"+banned)
}

func TestReception_LongRemarks(t *testing.T) {
	b := open(t)
	for i, tipo := range []string{"01", "03"} {
		b.accepted(sample(t, tipo, i+1).set("resumen.observaciones", strings.Repeat("ñ", 3000)))
		a := b.refused(sample(t, tipo, i+5).set("resumen.observaciones", strings.Repeat("ñ", 3001)), "096",
			"DOCUMENTO NO CUMPLE ESQUEMA JSON")
		if !slices.Equal(a.Observaciones,
			[]string{"Campo #/resumen/observaciones no cumple el tamaño máximo permitido"}) {
			t.Error(a)
		}
	}
}
