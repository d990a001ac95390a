package certify

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"dtegate/engine/authorisation"
)

// Report is the branch's progress and what was refused, for people and for programs.
type Report struct {
	At       time.Time              `json:"at"`
	Since    string                 `json:"since"` // yyyy-mm-dd: what is older does not count
	Seed     uint64                 `json:"seed"`
	Complete bool                   `json:"complete"` // every kind of this run was sealed as often as MH wants
	Kinds    []authorisation.Sealed `json:"kinds"`
	Refusals []Refusal              `json:"refusals"`
	Stopped  []Stopped              `json:"stopped"`
	// Event is what MH said of the last contingency event that it refused and whose documents still wait.
	Event string `json:"event,omitempty"`
}

// Refusal is a reason for which documents were refused.
type Refusal struct {
	Kind      string   `json:"kind"`
	By        string   `json:"by"`    // MH, or branch: then nothing was issued
	Code      string   `json:"code"`  // MH's codigoMsg, or the branch's code
	Field     string   `json:"field"` // that it names; "" for none
	Text      string   `json:"text"`
	Notes     []string `json:"notes,omitempty"` // MH's observaciones, of the first document
	Documents int      `json:"documents"`
	Example   string   `json:"example,omitempty"` // codigoGeneracion of one
}

// Stopped is a kind that the run gave up, and why.
type Stopped struct {
	Kind string `json:"kind"`
	Why  string `json:"why"`
	// Motive is Why in Spanish, for the page.
	Motive string `json:"-"`
}

// mostRead is the most refused documents of a kind that a report reads.
const mostRead = 100

// report asks the branch once more. MH's refusals are those of its records, of earlier runs too.
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

// named is the field that MH names: [resumen.totalPagar] VALOR NO ES PERMITIDO.
var named = regexp.MustCompile(`\[([^\]]+)\]`)

// refusal is what MH says of a document.
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
	if f.Field == "" && len(f.Notes) > 0 { // 096: one observation per failing field
		f.Field = strings.Join(f.Notes[:min(3, len(f.Notes))], "; ")
	}
	return f
}

func answerText(a *answer) string {
	if a == nil {
		return "no answer"
	}
	return a.Code + " " + a.Text
}
