package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/contingency"
	"dtegate/engine/dte"
)

type contingencyCommand struct {
	Start  contingencyStart  `cmd:"" help:"Declare that the branch is in contingency, until dtectl contingency end."`
	End    contingencyEnd    `cmd:"" help:"Take the declaration back; MH's own answer ends the contingency."`
	Report contingencyReport `cmd:"" help:"Prepare MH's report of a long contingency, or note that MH has it."`
}

type contingencyStart struct {
	Cause  int    `required:"" help:"CAT-005: 1 MH's system, 2 our system, 3 our Internet, 4 power, 5 other."`
	Reason string `required:"" help:"Reason, 1 to 500 characters. With cause 5 it is sent to MH."`
}

func (c *contingencyStart) Run(ctx context.Context, cfg *config.Config) error {
	return administer(ctx, cfg, http.MethodPost, "/admin/contingency", map[string]any{"cause": c.Cause,
		"reason": c.Reason})
}

type contingencyEnd struct{}

func (*contingencyEnd) Run(ctx context.Context, cfg *config.Config) error {
	return administer(ctx, cfg, http.MethodDelete, "/admin/contingency", nil)
}

// administer sends the appliance a request about a contingency, and prints what the branch then owes MH.
func administer(ctx context.Context, cfg *config.Config, method, path string, body any) error {
	var s adminclient.Status
	if err := adminclient.AskOwn(ctx, cfg, method, path, body, &s); err != nil {
		return err
	}
	adminclient.PrintOwed(term.Out, &s.Owed, cfg.Now())
	return nil
}

type contingencyReport struct {
	JSON bool   `help:"Write one JSON object."`
	Sent string `placeholder:"REFERENCE" help:"Note that MH has the report with this reference."`
}

// Run prints the part of MH's technical report that the records can fill in, or notes that MH has the report.
func (c *contingencyReport) Run(ctx context.Context, cfg *config.Config) error {
	if c.Sent != "" {
		return administer(ctx, cfg, http.MethodPost, "/admin/contingency/report", map[string]any{"reference": c.Sent})
	}
	var r contingency.TechnicalReport
	if err := adminclient.AskOwn(ctx, cfg, http.MethodGet, "/admin/contingency/report", nil, &r); err != nil {
		return err
	}
	if c.JSON {
		return term.JSON(&r)
	}
	return printReport(term.Out, &r, cfg.Now())
}

// causes are the texts of CAT-005, in MH's words.
var causes = map[int64]string{1: "No disponibilidad de sistema del MH", 2: "No disponibilidad de sistema del emisor",
	3: "Falla en el suministro de servicio de Internet del emisor",
	4: "Falla en el suministro de servicio de energía eléctrica del emisor que impide la transmisión de los DTE",
	5: "Otro"}

// printReport writes the report as a text for MH, hence in Spanish and in El Salvador's time.
func printReport(out io.Writer, r *contingency.TechnicalReport, now time.Time) error {
	var issuer struct {
		NIT, NRC, Nombre, Correo, Telefono string
	}
	if err := json.Unmarshal(r.Issuer, &issuer); err != nil {
		return fmt.Errorf("reading the issuer of the report: %w", err)
	}
	clock := func(t time.Time) string { return t.In(dte.Zone).Format("02/01/2006 15:04:05") }
	w := term.Columns(out)
	term.Fprintf(w, "INFORME TÉCNICO DE CONTINGENCIA\n\n")
	ambiente := "producción"
	if r.Ambiente != "01" {
		ambiente = "pruebas"
	}
	term.Fprintf(w, "Emisor\t%s\nNIT / NRC\t%s / %s\nContacto\t%s · %s\nResponsable\t%s (documento "+
		"%s)\nAmbiente\t%s\nHoras\tde El Salvador\n", issuer.Nombre, dte.FormatNIT(issuer.NIT),
		dte.FormatNRC(issuer.NRC),
		dte.FormatPhone(issuer.Telefono), issuer.Correo, r.Who.Name, dte.FormatDocument(r.Who.DocumentType,
			r.Who.Document), ambiente)
	end := r.Ended
	term.Fprintf(w, "\nInicio\t%s\n", clock(r.Began))
	if end.IsZero() {
		end = now
		term.Fprintf(w, "Fin\ten curso al %s\n", clock(now))
	} else {
		term.Fprintf(w, "Fin\t%s\nEvento a más tardar\t%s\n", clock(end), clock(r.EventDue))
	}
	term.Fprintf(w, "Duración\t%d horas %d minutos\n", int(end.Sub(r.Began).Hours()),
		int(end.Sub(r.Began).Minutes())%60)
	needed := "no supera tres días consecutivos: el informe no es obligatorio todavía"
	if r.Needed {
		needed = "supera tres días consecutivos desde el " + clock(r.NeededFrom)
	}
	term.Fprintf(w, "Plazo\t%s\n", needed)
	if r.Noted != nil {
		term.Fprintf(w, "Presentado\t%s, %s\n", clock(r.Noted.At), r.Noted.Reference)
	}
	term.Fprintf(w, "\nCAUSAS (CAT-005)\n")
	for _, p := range r.Periods {
		last := "en curso"
		if !p.Ended.IsZero() {
			last = clock(p.Ended)
		}
		term.Fprintf(w, "%s – %s\t%d %s\t%s\n", clock(p.Began), last, p.Cause, causes[p.Cause], p.Motive)
	}
	term.Fprintf(w, "\nDOCUMENTOS EMITIDOS EN CONTINGENCIA\ntipo\testablecimiento\tpunto\tcantidad\tprimero\túltimo\n")
	total := 0
	for _, d := range r.Documents {
		term.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", d.Document, d.Establishment, d.PointOfSale, d.Documents, d.First,
			d.Last)
		total += d.Documents
	}
	term.Fprintf(w, "total\t\t\t%d\n\nDESCRIPCIÓN DE LA FALLA\n…\n\nGESTIONES REALIZADAS (a quién se llamó, cuándo, "+
		"número de caso)\n…\n\nMEDIDAS PARA QUE NO SE REPITA\n…\n", total)
	return w.Flush()
}
