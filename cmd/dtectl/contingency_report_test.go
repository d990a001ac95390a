package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"dtegate/engine/contingency"
	"dtegate/engine/record"
)

// TestContingencyReport: the text for MH, in Spanish and in El Salvador's time, for a contingency that continues and
// for one that has ended.
func TestContingencyReport(t *testing.T) {
	began := time.Date(2026, 12, 1, 14, 0, 0, 0, time.UTC)
	r := &contingency.TechnicalReport{Needed: true, NeededFrom: began.Add(72 * time.Hour), Began: began, Ambiente: "01",
		Periods: []*contingency.Period{{Began: began, Ended: began.Add(time.Hour), Cause: 3, Motive: "sin ruta"},
			{Began: began.Add(2 * time.Hour), Cause: 5, Motive: "Inundación"}},
		Issuer: json.RawMessage(
			`{"nit":"06140101901011","nrc":"1234567","nombre":"Café de Prueba","correo":"dte@example.com","telefono":"22001100"}`),
		Who: record.Person{Name: "Eva Díaz", DocumentType: "13", Document: "012345678"},
		Documents: []contingency.ReportCount{
			{Document: "01", Establishment: "M001", PointOfSale: "P001", Documents: 12,
				First: "DTE-01-M001P001-000000000000007", Last: "DTE-01-M001P001-000000000000018"},
			{Document: "03", Establishment: "M001", PointOfSale: "P002", Documents: 1,
				First: "DTE-03-M001P002-000000000000001", Last: "DTE-03-M001P002-000000000000001"}}}
	var out strings.Builder
	if err := printReport(&out, r, began.Add(73*time.Hour+30*time.Minute)); err != nil {
		t.Fatal(err)
	}
	const want = `INFORME TÉCNICO DE CONTINGENCIA

Emisor       Café de Prueba
NIT / NRC    0614-010190-101-1 / 123456-7
Contacto     2200-1100 · dte@example.com
Responsable  Eva Díaz (documento 01234567-8)
Ambiente     producción
Horas        de El Salvador

Inicio    01/12/2026 08:00:00
Fin       en curso al 04/12/2026 09:30:00
Duración  73 horas 30 minutos
Plazo     supera tres días consecutivos desde el 04/12/2026 08:00:00

CAUSAS (CAT-005)
01/12/2026 08:00:00 – 01/12/2026 09:00:00  3 Falla en el suministro de servicio de Internet del emisor  sin ruta
01/12/2026 10:00:00 – en curso             5 Otro                                                       Inundación

DOCUMENTOS EMITIDOS EN CONTINGENCIA
tipo   establecimiento  punto  cantidad  primero                          último
01     M001             P001   12        DTE-01-M001P001-000000000000007  DTE-01-M001P001-000000000000018
03     M001             P002   1         DTE-03-M001P002-000000000000001  DTE-03-M001P002-000000000000001
total                          13

DESCRIPCIÓN DE LA FALLA
…

GESTIONES REALIZADAS (a quién se llamó, cuándo, número de caso)
…

MEDIDAS PARA QUE NO SE REPITA
…
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	r.Needed, r.Ended, r.EventDue = false, began.Add(time.Hour), began.Add(25*time.Hour)
	r.Noted = &contingency.ReportNote{At: began.Add(2 * time.Hour), Reference: "DGII-7"}
	out.Reset()
	if err := printReport(&out, r, began.Add(100*time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"Fin                  01/12/2026 09:00:00\n",
		"Evento a más tardar  02/12/2026 09:00:00\n", "Duración             1 horas 0 minutos\n",
		"Plazo                no supera tres días consecutivos: el informe no es obligatorio todavía\n",
		"Presentado           01/12/2026 10:00:00, DGII-7\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is not in\n%s", line, &out)
		}
	}
}
