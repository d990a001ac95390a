package simulator_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
)

// generations are all samples of documents.
var generations = []string{"01", "01-v1", "03", "03-v3", "05", "05-v3", "06", "06-v3", "07", "14", "14-v1", "18"}

// Every type in both generations, sealed and found again.
func TestReception_EveryGeneration(t *testing.T) {
	b := open(t)
	b.accepted(sample(t, "01", 1)) // what the notes and the retorno refer to
	b.accepted(sample(t, "03", 1))
	for i, name := range generations {
		d := sample(t, name, 10+i)
		tipo, _, _ := strings.Cut(name, "-")
		a := b.accepted(d)
		if a.CodigoMsg != "001" {
			t.Errorf("%s: %v", name, a)
		}
		if q := b.lookup(tipo, code(tipo, 10+i)); *q.SelloRecibido != *a.SelloRecibido {
			t.Errorf("%s: queried %v", name, q)
		}
		b.refused(d, "004", "[identificacion.codigoGeneracion] YA EXISTE UN REGISTRO CON ESE VALOR")
		if tipo != "18" {
			b.refused(sample(t, name, 100+i).set("identificacion.numeroControl", d.get("identificacion.numeroControl")),
				"004", "[identificacion.numeroControl] YA EXISTE UN REGISTRO CON ESE VALOR")
		}
	}
	b.audited(slices.Repeat([]string{"bears the number of"}, len(generations)-1)...)
}

// In production the document's date decides between the generations; the test ambiente accepts both.
func TestReception_Switch(t *testing.T) {
	for _, day := range []string{"2026-11-30", "2026-12-01"} {
		b := open(t, func(o *simulator.Options) { o.AllowProduction = true })
		now, err := time.Parse(time.DateOnly, day)
		if err != nil {
			t.Fatal(err)
		}
		b.clock.set(now.Add(20 * time.Hour))
		b.login(nit)
		for i, name := range []string{"01", "01-v1", "03", "03-v3", "07", "14", "14-v1"} {
			previous := strings.Contains(name, "-")
			for _, ambiente := range []string{"00", "01"} {
				d := sample(t, name, 10+i).set("identificacion.fecEmi", day).set("identificacion.ambiente", ambiente)
				if ambiente == "01" {
					d.set("identificacion.codigoGeneracion", code(name[:2], 20+i))
				}
				want := ambiente == "00" || previous == (day < "2026-12-01")
				if a := b.send(d); (a.Estado == "PROCESADO") != want {
					t.Errorf("%s in %s on %s: %v", name, ambiente, day, a)
				}
			}
		}
		e := eventOf(t, "contingencia", 1, 1, sample(t, "01", 90)).set("identificacion.ambiente", "01")
		for _, path := range []string{"motivo.fInicio", "motivo.fFin", "identificacion.fTransmision"} {
			e.set(path, day)
		}
		if a := b.report(e); (a.Estado == "RECIBIDO") != (day == "2026-12-01") {
			t.Errorf("event v4 on %s: %+v", day, a)
		}
	}
}

func init() { changes = append(changes, generationChanges...) }

// generationChanges are the changes for the other types and for the previous generation.
var generationChanges = []change{
	// 01 v1.
	{"01-v1", "resumen.ivaRete1", gone, "096", "Campo #/resumen/ivaRete1 es requerido"},
	{"01-v1", "resumen.ivaRete", n("0"), "096", "Campo #/resumen/ivaRete no está permitido"},
	{"01-v1", "emisor.direccion.distrito", "14", "096", "Campo #/emisor/direccion/distrito no está permitido"},
	{"01-v1", "extension", gone, "096", "Campo #/extension es requerido"},
	{"01-v1", "receptor.numDocumento", "041234567", "096", "Campo #/receptor/numDocumento no cumple el formato " +
		"requerido"},
	{"01-v1", "emisor.direccion.municipio", "29", "007", "[emisor.direccion.municipio" + banned},
	{"01-v1", "cuerpoDocumento.0.tributos", []any{"20"}, "096", "Campo #/cuerpoDocumento/0/tributos/0" + invalid},
	{"01-v1", "cuerpoDocumento.0.ventaGravada", n("13.04"), "020", "[cuerpoDocumento.ventaGravada" + wrong},
	{"01-v1", "cuerpoDocumento.0.ivaItem", n("1.69"), "020", "[cuerpoDocumento.ivaItem" + wrong},
	{"01-v1", "resumen.subTotal", n("14.24"), "020", "[resumen.subTotal" + wrong},
	{"01-v1", "resumen.ivaRete1", n("0.13"), "020", "[resumen.ivaRete1" + wrong},
	{"01-v1", "resumen.reteRenta", n("1"), "020", "[resumen.totalPagar" + wrong},
	{"01-v1", "resumen.totalPagar", n("14.7"), "020", "[resumen.totalPagar" + wrong},
	// 03 v3.
	{"03-v3", "resumen.ivaPerci", n("0"), "096", "Campo #/resumen/ivaPerci no está permitido"},
	{"03-v3", "receptor.nit", "1234", "096", "Campo #/receptor/nit no cumple el formato requerido"},
	{"03-v3", "receptor.nit", "06142501881025", "003", "[receptor.nit] NIT CONTRIBUYENTE NO EXISTE"},
	{"03-v3", "resumen.tributos.0.valor", n("12.65"), "020", "[resumen.tributos.codigo.20" + wrong},
	{"03-v3", "resumen.ivaRete1", n("1.12"), "020", "[resumen.ivaRete1" + wrong},
	{"03-v3", "resumen.ivaPerci1", n("1.1"), "007", "[resumen.ivaPerci1" + banned},
	{"03-v3", "resumen.montoTotalOperacion", n("110"), "020", "[resumen.montoTotalOperacion" + wrong},
	{"03-v3", "resumen.reteRenta", n("1"), "020", "[resumen.totalPagar" + wrong},

	// Notes.
	{"05", "documentoRelacionado", nil, "096", "Campo #/documentoRelacionado" + invalid},
	{"05", "documentoRelacionado.0.tipoDocumento", "01", "007", "[documentoRelacionado.tipoDocumento" + banned},
	{"05", "documentoRelacionado.0.tipoDocumento", "14", "007", "[documentoRelacionado.tipoDocumento" + banned},
	{"05", "documentoRelacionado.0.tipoGeneracion", 3, "007", "[documentoRelacionado.tipoGeneracion" + banned},
	{"05", "documentoRelacionado.0.numeroDocumento", "123", "006",
		"[documentoRelacionado.numeroDocumento] FORMATO NO VÁLIDO"},
	{"05", "documentoRelacionado.0.fechaEmision", "2026-12-14", "007",
		"[documentoRelacionado.fechaEmision] FECHA NO ES CORRECTA"},
	{"05", "cuerpoDocumento.0.numeroDocumento", code("03", 2), "007", "[cuerpoDocumento.numeroDocumento" + banned},
	{"05", "cuerpoDocumento.0.tributos", nil, "003", "[cuerpoDocumento.tributos" + missing},
	{"05", "cuerpoDocumento.0.cantidad", n("6"), "020", "[cuerpoDocumento.ventaGravada" + wrong},
	{"05", "receptor.nit", "06142501881024", "096", "Campo #/receptor/nit no está permitido"},
	{"05", "receptor.tipoDocumento", "99", "007", "[receptor.tipoDocumento" + banned},
	{"05", "receptor.numDocumento", "06142501881025", "003", "[receptor.numDocumento] NIT CONTRIBUYENTE NO EXISTE"},
	{"05", "emisor.codEstable", "M001", "096", "Campo #/emisor/codEstable no está permitido"},
	{"05", "identificacion.fusion", gone, "096", "Campo #/identificacion/fusion es requerido"},
	{"05", "identificacion.fusion", "11111111111111", "096", "Campo #/identificacion/fusion" + invalid},
	{"05", "resumen.totalGravada", n("41.27"), "020", "[resumen.totalGravada" + wrong},
	{"05", "resumen.tributos.0.valor", n("5.4"), "020", "[resumen.tributos.codigo.20" + wrong},
	// net of the withholding
	{"05", "resumen.montoTotalOperacion", n("46.2"), "020", "[resumen.montoTotalOperacion" + wrong},
	{"05", "resumen.ivaRete", n("0.8"), "020", "[resumen.ivaRete" + wrong},
	{"05", "resumen.totalPagar", n("46.61"), "020", "[resumen.totalPagar" + wrong},
	{"05", "resumen.codigoRetencionMH", "21", "007", "[resumen.codigoRetencionMH" + banned},
	{"05", "resumen.totalDescu", n("1"), "020", "[resumen.totalDescu" + wrong},
	{"05-v3", "documentoRelacionado.0.tipoDocumento", "01", "096", "Campo #/documentoRelacionado/0/tipoDocumento" +
		invalid},
	{"05-v3", "resumen.totalPagar", n("46.2"), "096", "Campo #/resumen/totalPagar no está permitido"},
	{"05-v3", "resumen.subTotal", n("41.27"), "020", "[resumen.subTotal" + wrong},
	{"05-v3", "resumen.ivaRete1", n("0.8"), "020", "[resumen.ivaRete1" + wrong},
	{"05-v3", "resumen.montoTotalOperacion", n("41.25"), "020", "[resumen.montoTotalOperacion" + wrong},
	{"05-v3", "receptor.nit", "06142501881025", "003", "[receptor.nit] NIT CONTRIBUYENTE NO EXISTE"},
	{"06", "resumen.numPagoElectronico", gone, "096", "Campo #/resumen/numPagoElectronico es requerido"},
	{"06", "documentoRelacionado.0.numeroDocumento", code("03", 9), "007", "[cuerpoDocumento.numeroDocumento" + banned},
	{"06", "resumen.totalPagar", n("10"), "020", "[resumen.totalPagar" + wrong},
	{"06", "resumen.ivaPerci", n("0.2"), "020", "[resumen.ivaPerci" + wrong},
	{"06-v3", "resumen.montoTotalOperacion", n("10"), "020", "[resumen.montoTotalOperacion" + wrong},
	{"06-v3", "resumen.tributos", nil, "003", "[resumen.tributos" + missing},

	// 07.
	{"07", "cuerpoDocumento.0.codigoRetencionMH", "23", "007", "[cuerpoDocumento.codigoRetencionMH" + banned},
	{"07", "cuerpoDocumento.0.ivaRetenido", n("3.56"), "020", "[cuerpoDocumento.ivaRetenido" + wrong},
	{"07", "cuerpoDocumento.1.codigoRetencionMH", "22", "020", "[cuerpoDocumento.ivaRetenido" + wrong},
	{"07", "cuerpoDocumento.0.tipoDte", "18", "007", "[cuerpoDocumento.tipoDte" + banned},
	{"07", "cuerpoDocumento.0.tipoGeneracion", 3, "007", "[cuerpoDocumento.tipoGeneracion" + banned},
	{"07", "cuerpoDocumento.1.tipoGeneracion", 2, "006", "[cuerpoDocumento.numeroDocumento] FORMATO NO VÁLIDO"},
	{"07", "cuerpoDocumento.0.montoSujetoGrav", n("0"), "096", "Campo #/cuerpoDocumento/0/montoSujetoGrav" + invalid},
	{"07", "cuerpoDocumento.0.numDocumento", "x", "096", "Campo #/cuerpoDocumento/0/numDocumento no está permitido"},
	{"07", "receptor.numDocumento", "0614", "006", "[receptor.numDocumento] FORMATO NO VÁLIDO"},
	{"07", "resumen.totalSujetoRetencion", n("798.86"), "020", "[resumen.totalSujetoRetencion" + wrong},
	{"07", "resumen.totalIvaRetenido", n("61.34"), "020", "[resumen.totalIvaRetenido" + wrong},

	// 14.
	{"14", "sujetoExcluido", nil, "096", "Campo #/sujetoExcluido no está permitido"},
	{"14", "resumen.ivaRete1", n("0"), "096", "Campo #/resumen/ivaRete1 no está permitido"},
	{"14", "receptor.numDocumento", "04123456", "006", "[receptor.numDocumento] FORMATO NO VÁLIDO"},
	{"14", "cuerpoDocumento.0.compra", n("60"), "020", "[cuerpoDocumento.compra" + wrong},
	{"14", "cuerpoDocumento.0.tipoItem", 4, "007", "[cuerpoDocumento.tipoItem" + banned},
	{"14", "resumen.totalCompra", n("108.02"), "020", "[resumen.totalCompra" + wrong},
	{"14", "resumen.subTotal", n("108"), "020", "[resumen.subTotal" + wrong}, // descu not taken off
	{"14", "resumen.descu", n("109"), "007", "[resumen.descu" + banned},
	{"14", "resumen.totalDescu", n("3"), "020", "[resumen.totalDescu" + wrong},
	{"14", "resumen.reteRenta", n("10.52"), "020", "[resumen.reteRenta" + wrong},
	{"14", "resumen.totalPagar", n("105"), "020", "[resumen.totalPagar" + wrong},
	{"14", "resumen.pagos.0.montoPago", n("99"), "020", "[resumen.pagos.montoPago" + wrong},
	{"14-v1", "receptor", nil, "096", "Campo #/receptor no está permitido"},
	{"14-v1", "sujetoExcluido.numDocumento", "0412", "096",
		"Campo #/sujetoExcluido/numDocumento no cumple el formato " +
			"requerido"},
	{"14-v1", "resumen.subTotal", n("108"), "020", "[resumen.subTotal" + wrong},
	{"14-v1", "resumen.ivaRete1", n("0.5"), "020", "[resumen.ivaRete1" + wrong},

	// 18.
	{"18", "identificacion.numeroControl", "DTE-18-M001P001-000000000000001", "096",
		"Campo #/identificacion/numeroControl no está permitido"},
	{"18", "emisor.codEstableMH", nil, "096", "Campo #/emisor/codEstableMH" + invalid},
	{"18", "emisor.nit", "06142202970017", "008", "[emisor.nit] NO CORRESPONDE A CONTRIBUYENTE"},
	{"18", "documentoRelacionado.0.tipoDocumento", "03", "007", "[documentoRelacionado.tipoDocumento" + banned},
	{"18", "documentoRelacionado.0.fechaEmision", "2026-12-14", "007",
		"[documentoRelacionado.fechaEmision] FECHA NO ES CORRECTA"},
	{"18", "documentoRelacionado.0.codigoGeneracion", "x", "006",
		"[documentoRelacionado.codigoGeneracion] FORMATO NO VÁLIDO"},
	{"18", "cuerpoDocumento.0.codigoGeneracion", code("01", 2), "007", "[cuerpoDocumento.codigoGeneracion" + banned},
	{"18", "cuerpoDocumento.0.compra", n("4.33"), "007", "[cuerpoDocumento.compra" + banned},
	{"18", "cuerpoDocumento.0.ivaItem", n("0.56"), "020", "[cuerpoDocumento.ivaItem" + wrong},
	{"18", "cuerpoDocumento.0.ivaRete", n("0.06"), "020", "[cuerpoDocumento.ivaRete" + wrong},
	{"18", "cuerpoDocumento.0.reteRenta", n("0.5"), "020", "[cuerpoDocumento.reteRenta" + wrong},
	{"18", "cuerpoDocumento.0.tributos", []any{"20"}, "096", "Campo #/cuerpoDocumento/0/tributos/0" + invalid},
	{"18", "documento.numDocumento", "041234568", "007", "[documento.numDocumento" + banned},
	{"18", "documento.numDocumento", nil, "003", "[documento.numDocumento" + missing},
	{"18", "resumen.totalGravada", n("4.35"), "020", "[resumen.totalGravada" + wrong},
	{"18", "resumen.totalCompraExcluidos", n("4.33"), "020", "[resumen.totalCompraExcluidos" + wrong},
	{"18", "resumen.subTotalVentas", n("4.3"), "020", "[resumen.subTotalVentas" + wrong},
	{"18", "resumen.totalIva", n("0.6"), "020", "[resumen.totalIva" + wrong},
	{"18", "resumen.ivaRete", n("0.04"), "020", "[resumen.ivaRete" + wrong},
	{"18", "resumen.reteRenta", n("0.43"), "020", "[resumen.reteRenta" + wrong},
	{"18", "resumen.montoTotalOperacion", n("4.3"), "020", "[resumen.montoTotalOperacion" + wrong},
	{"18", "resumen.totalPagar", n("4.3"), "020", "[resumen.totalPagar" + wrong},
}
