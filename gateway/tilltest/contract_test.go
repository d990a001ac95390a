package tilltest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"dtegate/gateway/apitest"
)

// contractOf is the contract of a branch that issues the types of today.
func contractOf(t *testing.T) []byte {
	t.Helper()
	text, err := contractText()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestExamples_Issued: every example of the contract, in the payload's names and in the client library's, is issued
// unchanged, except for the code of the original. Each answer, and its document, fits the contract.
func TestExamples_Issued(t *testing.T) {
	contract, err := apitest.Parse(contractOf(t))
	if err != nil {
		t.Fatal(err)
	}
	b := Open(t, "00", days["DTE 2.0"])
	b.client.Transport = contract.Transport(b.client.Transport)
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct {
					Example  json.RawMessage
					Examples map[string]struct{ Value json.RawMessage }
				}
			}
		}
	}
	if err := json.Unmarshal(contractOf(t), &doc); err != nil {
		t.Fatal(err)
	}
	originals := map[string]string{"dte05": b.Post("dte03", []byte(example(t, "dte03"))).Code,
		"retorno": b.Post("dte01", []byte(example(t, "dte01"))).Code}
	originals["dte06"] = originals["dte05"]
	const code = "5B0C2A6E-4D6F-4F3C-9C55-0A1B2C3D4E5F"
	for _, path := range []string{"dte01", "dte03", "dte05", "dte06", "dte07", "dte14", "retorno"} {
		content := doc.Paths["/dte/"+path]["post"].RequestBody.Content["application/json"]
		bodies := []string{string(content.Example)}
		if len(content.Examples) > 0 {
			bodies = nil
			for _, e := range content.Examples {
				bodies = append(bodies, string(e.Value))
			}
		}
		if both := slices.Contains([]string{"dte05", "dte06", "dte07", "dte14"}, path); both && len(bodies) < 2 {
			t.Errorf("%s has %d shapes", path, len(bodies))
		}
		for _, body := range bodies {
			if original := originals[path]; original != "" {
				body = strings.ReplaceAll(body, code, original)
			}
			if a := b.Post(path, []byte(body)); a.Estado != "PROCESSED" {
				t.Errorf("%s: %v\n%s", path, a, body)
			}
		}
	}
	for _, f := range contract.Faults() {
		t.Error(f)
	}
}

// TestContract_Required: the contract says for each generation which members of a receiver MH's layout wants beyond
// those always required: without them, and only without them, a request is refused.
func TestContract_Required(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Required   []string
				XRequired  map[string][]string `json:"x-required"`
				Properties map[string]any
			}
		}
	}
	if err := json.Unmarshal(contractOf(t), &doc); err != nil {
		t.Fatal(err)
	}
	for day, begin := range days {
		b := Open(t, "00", begin)
		generation := map[string]string{"before": "before DTE 2.0"}[day]
		if generation == "" {
			generation = day
		}
		for path, c := range map[string][2]string{"dte03": {"receptor", "ReceptorContribuyente"}, "dte07": {"receptor",
			"ReceptorRetencion"}, "dte14": {"sujetoExcluido", "SujetoExcluido"}} {
			if path == "dte07" && day == "before" {
				continue // there is none
			}
			s := doc.Components.Schemas[c[1]]
			due := append(slices.Clone(s.Required), s.XRequired[generation]...)
			for member := range s.Properties {
				var r map[string]any
				if err := json.Unmarshal([]byte(example(t, path)), &r); err != nil {
					t.Fatal(err)
				}
				delete(in(r, c[0]), member)
				body, err := json.Marshal(r)
				if err != nil {
					t.Fatal(err)
				}
				if a := b.Post(path, body); (a.Status == 400) != slices.Contains(due, member) {
					t.Errorf("%s, %s without %s: %v", generation, path, member, a)
				}
			}
		}
	}
}
