package bundles

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/dtectl/adminclient"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/gateway/adminapi"
)

// answers returns a branch that answers every request with the same value. asked gets the requests.
func answers(t *testing.T, value any, asked *[]string) *adminclient.Gateway {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Method+" "+r.URL.String())
		if err := json.NewEncoder(w).Encode(value); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := adminclient.Flags{Gateway: server.URL, TokenFile: token}
	g, err := f.ProvideGateway(&adminclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestVerbs: a verb that shows the rules fails if a rule may not compute or has ended, or if a document differs, and
// only then; it says which.
func TestVerbs(t *testing.T) {
	rule := func(state string, change func(*rulestore.ShownBundle)) *rulestore.Listing {
		b := rulestore.ShownBundle{State: state}
		b.Name, b.Version, b.Digest = "dte01", "2.1.0", "abcdef0123456789"
		change(&b)
		return &rulestore.Listing{Rules: []rulestore.ShownBundle{b}}
	}
	list, all := new(listCommand), &listCommand{All: true}
	one := &replayCommand{Code: "C"}
	days := new(replayCommand)
	days.From = "2026-11-01"
	replayed := func(result string) *rulestore.Comparison {
		return &rulestore.Comparison{Code: "C", Result: result, Rule: record.RuleRef{Name: "dte01", Version: "2.1.0"}}
	}
	trouble := func(b *rulestore.ShownBundle) { b.Trouble = &rulestore.Trouble{Why: "damaged", Text: "no bytes"} }
	off := func(b *rulestore.ShownBundle) {
		trouble(b)
		b.Off = &rulestore.StepBack{Way: "rollback", Reason: "wrong rate"}
	}
	for name, c := range map[string]struct {
		verb interface {
			Run(context.Context, *adminclient.Gateway) error
		}
		answer      any
		says, fails string
	}{
		"a live rule":   {list, rule(rulestore.Live, func(*rulestore.ShownBundle) {}), "2.1.0    live", ""},
		"a coming rule": {list, rule(rulestore.Coming, func(*rulestore.ShownBundle) {}), "2.1.0    coming", ""},
		"an ending rule": {list, rule(rulestore.Live, func(b *rulestore.ShownBundle) { b.Expires = "2026-12-31" }),
			"no other bundle takes over then", ""},
		"an ended rule": {list, rule(rulestore.Live, func(b *rulestore.ShownBundle) { b.Expired = true }),
			"ended, and no other bundle has taken over", "1 rules go on past their last day"},
		"a damaged rule":                     {list, rule("damaged", trouble), "computes nothing: no bytes", "1 rules in the store may not compute"},
		"a damaged rule that was taken off":  {list, rule(rulestore.Retired, off), "NAME", ""},
		"a damaged rule taken off, with all": {all, rule(rulestore.Retired, off), "rollback: wrong rate", ""},
		"a document that is made again":      {one, replayed(rulestore.MadeSame), "C is identical, by dte01 2.1.0", ""},
		"a document that differs":            {one, replayed(rulestore.MadeOther), "C: amounts", "C differs from what dte01 2.1.0 makes"},
		"documents that are made again": {days, adminapi.Line{Replayed: map[string]int{rulestore.MadeSame: 3}},
			"3 identical", ""},
		"documents that differ": {days, adminapi.Line{Replayed: map[string]int{rulestore.MadeSame: 2,
			rulestore.MadeOther: 1, rulestore.MadeNothing: 1}}, "1 amounts", "2 of 4 documents differ from what"},
	} {
		var asked []string
		g := answers(t, c.answer, &asked)
		var err error
		said := cmdtest.Capture(t, func() { err = c.verb.Run(t.Context(), g) })
		if !strings.Contains(said, c.says) || (err == nil) != (c.fails == "") ||
			err != nil && !strings.Contains(err.Error(), c.fails) || len(asked) != 1 {
			t.Errorf("%s: %v, %v\n%s", name, asked, err, said)
		}
	}
	// A digest may be written in capitals, as other tools write it.
	var asked []string
	g := answers(t, rulestore.MadePage{}, &asked)
	cmdtest.Capture(t, func() {
		c := documentsCommand{Version: "ABCDEF01", From: "2026-11-01"}
		if err := c.Run(t.Context(), g); err != nil || len(asked) != 1 || !strings.Contains(asked[0],
			"rule=abcdef01&") || !strings.Contains(asked[0], "from=2026-11-01") {
			t.Errorf("%v, %v", asked, err)
		}
	})
}
