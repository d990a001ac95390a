package bundles

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/dtectl/adminclient"
	"dtegate/engine/rulestore"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
)

// office is a branch's admin API as a push sees it.
type office struct {
	mu     sync.Mutex
	digest string // of the bundle that was pushed
	state  string // its state
	pushes int
	refuse bool
	query  string // of the last push, without the operator's name
}

func (o *office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case r.Header.Get("Authorization") != "Bearer secret":
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"status":"error","type":"UNAUTHORIZED","message":"no token","errors":[]}`)
	case r.Method == http.MethodGet:
		fmt.Fprintf(w, `{"rules":[{"digest":%q,"state":%q}]}`, o.digest, o.state)
	default:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		b, err := bundle.Inspect(body)
		if err != nil {
			panic(err)
		}
		o.pushes++
		q := r.URL.Query()
		q.Del("who")
		o.query = q.Encode()
		if o.refuse {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"refused":"compiler","error":"cases/a.json: 1.13, want 1.30"}`)
			return
		}
		o.digest = b.Digest
		fmt.Fprintf(w, `{"state":%q,"steps":[{"name":"signature"}]}`, o.state)
	}
}

// pushTo returns a push of bundles to a branch.
func pushTo(t *testing.T, o *office, names ...string) *PushCommand {
	t.Helper()
	server := httptest.NewServer(o)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c := &PushCommand{Reason: "test", Flags: adminclient.Flags{Gateway: server.URL, TokenFile: put("token", "secret\n")}}
	for i, name := range names {
		c.Files = append(c.Files, put(fmt.Sprintf("%d.dterule", i), string(plugintest.Bundle(t, name))))
	}
	return c
}

// pushed runs a push as dtectl does.
func pushed(t *testing.T, c *PushCommand) error {
	t.Helper()
	g, err := c.ProvideGateway(&adminclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c.Run(t.Context(), g)
}

// A push shows every step. A repeated push skips what is in force in the branch, or will be, and nothing else.
func TestPush(t *testing.T) {
	o := &office{refuse: true, state: rulestore.Live}
	c := pushTo(t, o, "contingencia/v4")
	if err := pushed(t, c); err == nil || err.Error() !=
		"the bundle is refused at the step compiler" {
		t.Errorf("refused: %v", err)
	}
	o.refuse = false
	for _, says := range []string{"signature  ok", "was live already"} {
		said := cmdtest.Capture(t, func() {
			if err := pushed(t, c); err != nil {
				t.Error(err)
			}
		})
		if !strings.Contains(said, says) {
			t.Errorf("it says\n%s", said)
		}
	}
	for state, want := range map[string]int{rulestore.Live: 2, rulestore.Coming: 2, rulestore.Spare: 3,
		rulestore.Retired: 3} {
		o.state, o.pushes = state, 2
		cmdtest.Capture(t, func() {
			if err := pushed(t, c); err != nil || o.pushes != want {
				t.Errorf("pushed %d times what is %s: %v", o.pushes, state, err)
			}
		})
	}
	if err := os.WriteFile(c.TokenFile, []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := pushed(t, c); err == nil || !strings.Contains(err.Error(), "UNAUTHORIZED") {
		t.Errorf("another token: %v", err)
	}
}

// A push of several bundles ends at the first refused bundle, and names the bundles that were not sent.
func TestPush_NotSent(t *testing.T) {
	err := pushed(t, pushTo(t, &office{refuse: true}, "contingencia/v4", "contingencia/v3"))
	if err == nil || !strings.HasPrefix(err.Error(), "the bundle is refused at the step compiler; not sent: "+
		"contingencia 1.") {
		t.Errorf("got %v", err)
	}
}

// TestPush_Flags: each flag of a push reaches the branch.
func TestPush_Flags(t *testing.T) {
	for want, change := range map[string]func(*PushCommand){"reason=test": func(*PushCommand) {},
		"fewer_cases=1&reason=test": func(c *PushCommand) { c.Fewer = true },
		"dry=1&reason=":             func(c *PushCommand) { c.DryRun, c.Reason = true, "" },
		"":                          func(c *PushCommand) { c.Reason = "" }} {
		o := &office{state: rulestore.Live}
		c := pushTo(t, o, "contingencia/v4")
		change(c)
		cmdtest.Capture(t, func() {
			if err := pushed(t, c); (err == nil) != (want != "") || o.query != want {
				t.Errorf("%q, want %q; %v", o.query, want, err)
			}
		})
	}
}
