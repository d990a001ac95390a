package certify

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"dtegate/engine/documents"
	"dtegate/engine/dte"
)

// Report is the branch's progress and the refusals, for people and for programs.
type Report struct {
	At       time.Time          `json:"at"`
	Since    string             `json:"since"` // yyyy-mm-dd: older documents do not count
	Seed     uint64             `json:"seed"`
	Complete bool               `json:"complete"` // every kind was sealed as often as MH wants
	Kinds    []documents.Sealed `json:"kinds"`
	Refusals []Refusal          `json:"refusals"`
	Stopped  []Stopped          `json:"stopped"`
	// Event is MH's refusal of the last contingency event, while its documents still wait.
	Event string `json:"event,omitempty"`
}

// Refusal counts the refused documents of a kind with one reason.
type Refusal struct {
	Kind      string   `json:"kind"`
	By        string   `json:"by"`    // "MH"; or "branch": the branch refused the request and issued no document
	Code      string   `json:"code"`  // MH's codigoMsg, or the branch's code
	Field     string   `json:"field"` // the field at fault; "" if the answer names no field
	Text      string   `json:"text"`
	Notes     []string `json:"notes,omitempty"` // MH's observaciones on the first document
	Documents int      `json:"documents"`
	Example   string   `json:"example,omitempty"` // codigoGeneracion of one of the documents
}

// Stopped is a kind that the run gave up, and why.
type Stopped struct {
	Kind string `json:"kind"`
	Why  string `json:"why"`
	// Motive is Why in Spanish, for the page.
	Motive string `json:"-"`
}

// mostRead is the largest number of refused documents of one kind that a report reads.
const mostRead = 100

// report reads the branch's progress, and MH's refusals from the branch's records, including those of earlier runs.
func (r *Runner) report(ctx context.Context) (*Report, error) {
	if err := r.look(ctx); err != nil {
		return nil, err
	}
	p := &Report{At: r.o.Now(), Since: r.status.Authorisation.Since, Seed: r.o.Seed, Complete: true,
		Refusals: []Refusal{}, Stopped: []Stopped{}, Event: r.status.Owed.Refused}
	faults := slices.Clone(r.faults)
	for _, kind := range Kinds {
		c := r.count(kind)
		if r.wants(kind) {
			p.Kinds = append(p.Kinds, c)
			p.Complete = p.Complete && c.Sealed >= c.Wanted
		}
		if s, given := r.stopped[kind]; given {
			p.Stopped = append(p.Stopped, s)
		}
		if base := originOf(kind); r.wants(kind) && c.Sealed < c.Wanted && !r.givenUp(kind) && !r.able(kind) {
			p.Stopped = append(p.Stopped, Stopped{kind, "there is no " + base + " to make it against",
				"no hay documento de tipo " + base + " sobre el cual hacerlo"})
		}
		if c.Refused == 0 || types[kind] == nil {
			continue
		}
		list, err := r.till.documents(ctx, kind, "REJECTED", p.Since)
		if err != nil {
			return nil, err
		}
		for _, d := range list[max(0, len(list)-mostRead):] {
			got, err := r.till.document(ctx, d.Code)
			if err != nil {
				return nil, err
			}
			faults = append(faults, refusal(kind, d.Code, got.Answer))
		}
	}
	for _, f := range faults {
		same := func(other Refusal) bool {
			return other.Kind == f.Kind && other.By == f.By && other.Code == f.Code && other.Field == f.Field &&
				other.Text == f.Text
		}
		if i := slices.IndexFunc(p.Refusals, same); i >= 0 {
			p.Refusals[i].Documents += f.Documents
			continue
		}
		p.Refusals = append(p.Refusals, f)
	}
	slices.SortStableFunc(p.Refusals, func(a, b Refusal) int {
		return cmp.Or(slices.Index(Kinds, a.Kind)-slices.Index(Kinds, b.Kind), b.Documents-a.Documents)
	})
	return p, nil
}

// named matches the field in a text of MH: [resumen.totalPagar] VALOR NO ES PERMITIDO.
var named = regexp.MustCompile(`\[([^\]]+)\]`)

func refusal(kind, code string, a *answer) Refusal {
	f := Refusal{Kind: kind, By: "MH", Documents: 1, Example: code}
	if a == nil {
		return f
	}
	f.Code, f.Text, f.Notes = a.Code, a.Text, slices.DeleteFunc(slices.Clone(a.Notes),
		func(s string) bool { return s == "" })
	for _, text := range append([]string{a.Text}, a.Notes...) {
		if m := named.FindStringSubmatch(text); m != nil && f.Field == "" {
			f.Field = m[1]
		}
	}
	if f.Field == "" && len(f.Notes) > 0 { // code 096 has one observation for each failing field
		f.Field = strings.Join(f.Notes[:min(3, len(f.Notes))], "; ")
	}
	return f
}

func name(kind string) string {
	if t := types[kind]; t != nil {
		return t.Es
	}
	return map[string]string{invalidation: "Evento de invalidación", contingency: "Evento de contingencia"}[kind]
}

//go:embed report.html
var pageText string

// page is the report as HTML for printing. It loads no other file.
var page = template.Must(template.New("page").Funcs(template.FuncMap{"name": name,
	"by": func(by string) string {
		return map[string]string{"MH": "Hacienda", "branch": "la sucursal"}[by]
	}}).Parse(pageText))

// WritePage writes the report as an HTML page in Spanish, for printing. issuer and nit are the issuer's name and NIT.
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
