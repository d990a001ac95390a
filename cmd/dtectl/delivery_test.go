package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dtectl/certify"
	"dtegate/cmd/dted/config"
	"dtegate/engine"
	"dtegate/engine/contingency"
	"dtegate/engine/outbox"
	"dtegate/gateway/adminapi"
)

// askBranch returns a branch whose answers are given by the requests' paths, and the requests that it gets.
func askBranch(t *testing.T, answers map[string]any) (g *adminclient.Gateway, asked *[]string) {
	t.Helper()
	asked = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		q := r.URL.Query()
		q.Del("who")
		*asked = append(*asked, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+q.Encode()+" "+string(body)))
		_ = json.NewEncoder(w).Encode(answers[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := (&adminclient.Flags{Gateway: server.URL, TokenFile: token}).ProvideGateway(&adminclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g, asked
}

// TestDeliveryRetry_All: each document is named once, whatever of it was given up.
func TestDeliveryRetry_All(t *testing.T) {
	g, asked := askBranch(t, map[string]any{
		"/admin/delivery": adminapi.GivenUp{Failures: []outbox.Failure{{Code: "B", Step: "mail"}, {Code: "A"},
			{Code: "B", Step: "archive"}}}, "/admin/delivery/retry": map[string]int{"retried": 3}})
	said := cmdtest.Capture(t, func() {
		if err := (&deliveryRetry{All: true}).Run(t.Context(), g); err != nil {
			t.Error(err)
		}
	})
	if want := []string{"GET /admin/delivery", `POST /admin/delivery/retry  {"archive":false,"codes":["A","B"]}`}; !slices.Equal(
		*asked, want) || said != "3 will be tried again\n" {
		t.Errorf("%q, %s", *asked, said)
	}
}

// TestQueue_Watch: the watch ends when nothing waits and no contingency is open.
func TestQueue_Watch(t *testing.T) {
	var answers []engine.Backlog
	for _, open := range []*contingency.Period{{Began: time.Now(), Cause: 1}, nil} {
		answers = append(answers, engine.Backlog{Backlog: contingency.Backlog{Contingency: open}})
	}
	ops := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"ambiente": "00", "owed": answers[0]})
		answers = answers[1:]
	}))
	defer ops.Close()
	b := barebox.New(t, "127.0.0.1:1")
	text, err := os.ReadFile(b.Options.Config)
	own := strings.Replace(string(text), "127.0.0.1:0", "127.0.0.1:2", 1) // the tills' address
	b.Must(err, config.WriteFile(b.Options.Config, []byte(strings.Replace(own, "127.0.0.1:0",
		strings.TrimPrefix(ops.URL, "http://"), 1))))
	b.Config, err = config.Load(b.Options.Config)
	b.Must(err)
	cmdtest.Capture(t, func() { b.Must((&queueCommand{Watch: true}).Run(t.Context(), b.Config)) })
	if len(answers) > 0 {
		t.Errorf("it ends %d looks too early", len(answers))
	}
}

// TestInvalidate_Again: an event that MH has refused is sent again only if the operator says so; the branch learns it.
// Who is responsible also asks for it, unless somebody else is named.
func TestInvalidate_Again(t *testing.T) {
	const code = "FF84E5DB-79C5-42CE-B415-EC510C53EFB5"
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte(code+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ana, eva := certify.Person{Name: "Ana", DocumentType: "13", Document: "043216789"}, certify.Person{Name: "Eva"}
	for _, again := range []bool{false, true} {
		for _, applicant := range []certify.Person{{}, eva} {
			g, asked := askBranch(t, map[string]any{
				"/admin/invalidation/check": engine.Appraisal{Code: code, Verdict: engine.RecallRefused},
				"/admin/invalidation":       engine.Appraisal{Code: code, Verdict: engine.RecallInvalidated}})
			c := invalidateCommand{FromList: list, Kind: 2, Reason: "x", Responsible: ana, Applicant: applicant,
				Again: again, Patience: time.Minute}
			cmdtest.Capture(t, func() {
				if err := c.Run(t.Context(), g); (err == nil) != again {
					t.Errorf("again %v: %v", again, err)
				}
			})
			who := `"solicita":{"nombre":"Ana"`
			if applicant == eva {
				who = `"solicita":{"nombre":"Eva"`
			}
			if len(*asked) != map[bool]int{false: 1, true: 2}[again] || !strings.Contains((*asked)[0], who) ||
				again && !strings.Contains((*asked)[1], "again=1&code="+code) {
				t.Errorf("again %v: %q", again, *asked)
			}
		}
	}
}

// TestInvalidate_Order: the list is worked through from its end: a note or a return stands after its document.
func TestInvalidate_Order(t *testing.T) {
	const sale, note = "FF84E5DB-79C5-42CE-B415-EC510C53EFB5", "0F84E5DB-79C5-42CE-B415-EC510C53EFB5"
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("# a comment\n"+sale+"\n\n"+note+"\n"+sale+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, asked := askBranch(t, map[string]any{"/admin/invalidation/check": engine.Appraisal{Verdict: engine.RecallPossible}})
	cmdtest.Capture(t, func() {
		c := invalidateCommand{FromList: list, Kind: 2, Reason: "x", DryRun: true}
		if err := c.Run(t.Context(), g); err != nil {
			t.Error(err)
		}
	})
	if len(*asked) != 2 || !strings.Contains((*asked)[0], note) || !strings.Contains((*asked)[1], sale) {
		t.Errorf("%q", *asked)
	}
}
