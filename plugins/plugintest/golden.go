package plugintest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/rulestore"
	"dtegate/plugins"
	"dtegate/rules"
	"dtegate/rules/abi"
)

// Golden is one case of a bundle, cases/*.json: the facts of a request, and the document that they must give, to the
// byte, or the refusal.
type Golden struct {
	Why      string          `json:"why"`
	Facts    json.RawMessage `json:"facts"`
	Document json.RawMessage `json:"document,omitempty"`
	Faults   []Refusal       `json:"faults,omitempty"`
}

// Refusal is one fault of a request, with the path of its fact.
type Refusal struct {
	Path string `json:"path"`
	Code string `json:"code"`
}

// Cases runs every golden case of a bundle, compiled and interpreted, and compares the results byte by byte. It also
// checks each document with the independent arithmetic if the oracle folder lies beside the checkout. A bundle needs
// two cases that make a document and one case that is refused. With DTE_UPDATE=1, Cases writes the results into the
// cases instead of failing: read the difference.
func Cases(t *testing.T, name string) {
	parts, m := Parts(t, name)
	issue := make(map[string]func(facts dte.Value) ([]byte, []Refusal))
	if m.Kind == "event" {
		filler, _ := EventFiller(t, name)
		issue["filler"] = func(facts dte.Value) ([]byte, []Refusal) {
			b, faults := filler.Fill(nil, facts, nil, schema.FillOptions{Catalogues: true})
			return b, refusals(faults)
		}
	} else {
		for _, engine := range []string{"compiler", "interpreter"} {
			r, filler := Load(t, name, engine)
			issue[engine] = func(facts dte.Value) ([]byte, []Refusal) {
				return Issue(r, filler, facts, schema.FillOptions{Catalogues: true})
			}
		}
	}
	dir := t.TempDir()
	made, refused := 0, 0
	for part, data := range parts {
		if !strings.HasPrefix(part, "cases/") {
			continue
		}
		c := readGolden(t, part, data)
		facts := Read(t, c.Facts)
		for engine, issue := range issue {
			got := Golden{Why: c.Why, Facts: c.Facts}
			got.Document, got.Faults = issue(facts)
			if got.answer() == c.answer() {
				continue
			}
			t.Errorf("%s, %s:\ngot  %s\nwant %s", part, engine, got.answer(), c.answer())
			if os.Getenv("DTE_UPDATE") != "" {
				if err := os.WriteFile(filepath.Join(Root(t), "plugins", name, part), rulestore.LayoutCase(got.Why, got.Facts, got.Document, got.Faults), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		if c.Document == nil {
			refused++
			continue
		}
		made++
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(part)), c.Document, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if made < 2 || refused < 1 {
		t.Errorf("%d cases make a document and %d refuse one", made, refused)
	}
	if m.Kind == "document" && slices.Contains(plugins.Names, name) { // of a type that the Python arithmetic knows
		Recalc(t, dir, made, true)
	}
}

// Issue computes and fills the document of some facts as the appliance does, or returns the refusal.
func Issue(r *rules.Rule, filler *schema.Filler, facts dte.Value, options schema.FillOptions) ([]byte, []Refusal) {
	d := r.Module.Description()
	in, err := Input(d, r.Params, facts)
	if err != nil {
		return nil, []Refusal{{"", err.Error()}}
	}
	var out abi.Output
	if err := r.Module.Evaluate(context.Background(), &in, &out); err != nil {
		return nil, []Refusal{{"", err.Error()}}
	}
	var refused []Refusal
	for _, f := range out.Faults {
		path := ""
		switch {
		case d.Faults[f.Code].Warning:
			continue
		case f.Line >= 0 && f.Column >= 0:
			path = fmt.Sprintf("cuerpoDocumento[%d].%s", f.Line, d.Columns[f.Column].Name)
		case f.Line >= 0:
			path = fmt.Sprintf("cuerpoDocumento[%d]", f.Line)
		case f.Column >= 0:
			path = d.Scalars[f.Column].Name
		}
		refused = append(refused, Refusal{path, d.Faults[f.Code].Code})
	}
	if len(refused) > 0 {
		return nil, refused
	}
	b, faults := filler.Fill(nil, facts, computed(&in, &out), options)
	return b, refusals(faults)
}

// computed is a module's answer in the filler's form.
func computed(in *abi.Input, out *abi.Output) *schema.Computed {
	c := &schema.Computed{N: in.N, Lines: out.Lines, Summary: out.Summary}
	for _, x := range out.Taxes {
		c.Taxes = append(c.Taxes, schema.TaxAmount{Tax: x.Tax, Amount: dte.Amount(x.Amount)})
	}
	return c
}

func refusals(faults []dte.Fault) (all []Refusal) {
	for _, f := range faults {
		all = append(all, Refusal{f.Path, f.Code})
	}
	return all
}

func readGolden(t *testing.T, part string, data []byte) (c Golden) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		t.Fatalf("%s: %v", part, err)
	}
	if c.Why == "" {
		t.Errorf("%s does not say why", part)
	}
	return c
}

// answer is the result of a case, for comparison.
func (c *Golden) answer() string {
	if c.Document == nil {
		return fmt.Sprintf("refused: %v", c.Faults)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, c.Document); err != nil {
		return err.Error()
	}
	return b.String()
}
