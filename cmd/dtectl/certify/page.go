package certify

import (
	"fmt"
	"html/template"
	"io"

	"dtegate/engine/dte"
)

// name returns what people call a kind.
func name(kind string) string {
	if t := types[kind]; t != nil {
		return t.Es
	}
	return map[string]string{invalidation: "Evento de invalidación", contingency: "Evento de contingencia"}[kind]
}

// page is the report for printing: it loads nothing.
var page = template.Must(template.New("page").Funcs(template.FuncMap{"name": name,
	"by": func(by string) string { return map[string]string{"MH": "Hacienda", "branch": "la sucursal"}[by] }}).Parse(`<!doctype html>
<html lang="es"><head><meta charset="utf-8"><title>Pruebas para la autorización</title>
<style>
body { font: 11pt/1.4 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; color: #111 }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } th, td { border-bottom: 1px solid #bbb; padding: .3rem .5rem; text-align: left; vertical-align: top; overflow-wrap: break-word }
th { white-space: nowrap } td.c { overflow-wrap: anywhere }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
@media print { body { margin: 0 } tr { break-inside: avoid } }
</style></head><body>
<h1>Pruebas para la autorización del sistema de transmisión</h1>
<p>{{.Issuer}} · NIT {{.NIT}}<br>Ambiente de pruebas (00) · cuentan las pruebas desde el {{.Report.Since}} · {{.At}}, hora de El Salvador</p>
<p><strong>{{if .Report.Complete}}Hacienda selló el mínimo de cada tipo (Manual Funcional 2.0, XXIV).{{else}}Faltan pruebas.{{end}}</strong></p>
<table><tr><th>Tipo</th><th></th><th class="n">Selladas</th><th class="n">Mínimo</th><th class="n">En espera</th><th class="n">Rechazadas</th></tr>
{{range .Report.Kinds}}<tr><td>{{.Kind}}</td><td>{{name .Kind}}</td><td class="n">{{.Sealed}}</td><td class="n">{{.Wanted}}</td><td class="n">{{.Waiting}}</td><td class="n">{{.Refused}}</td></tr>
{{end}}</table>
{{with .Report.Stopped}}<h2>No se pudo seguir</h2><table>{{range .}}<tr><td>{{.Kind}}</td><td>{{name .Kind}}</td><td>{{.Motive}}</td></tr>{{end}}</table>{{end}}
{{with .Report.Event}}<p>Hacienda rechazó el último evento de contingencia: {{.}}</p>{{end}}
<h2>Rechazos</h2>
{{with .Report.Refusals}}<table><tr><th>Tipo</th><th>Por</th><th>Código</th><th>Campo</th><th>Motivo</th><th class="n">Documentos</th></tr>
{{range .}}<tr><td>{{.Kind}}</td><td>{{by .By}}</td><td class="c">{{.Code}}</td><td class="c">{{.Field}}</td><td>{{.Text}}{{range .Notes}}<br>{{.}}{{end}}{{with .Example}}<br><small>{{.}}</small>{{end}}</td><td class="n">{{.Documents}}</td></tr>
{{end}}</table>{{else}}<p>Ninguno.</p>{{end}}
</body></html>
`))

// WritePage writes the report as a page of HTML, in Spanish, for printing. issuer and nit are the issuer's name and
// NIT.
func (p *Report) WritePage(w io.Writer, issuer, nit string) error {
	err := page.Execute(w, struct {
		Report          *Report
		Issuer, NIT, At string
	}{p, issuer, dte.FormatNIT(nit), p.At.In(dte.Zone).Format("2006-01-02 15:04")})
	if err != nil {
		return fmt.Errorf("writing the report's page: %w", err)
	}
	return nil
}
