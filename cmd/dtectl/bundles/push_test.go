package bundles

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/dtectl/adminclient"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
)

// office is a branch's admin API as a push sees it.
type office struct {
	mu     sync.Mutex
	digest string // of the live bundle
	pushes int
	refuse bool
}

func (o *office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case r.Header.Get("Authorization") != "Bearer secret":
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"status":"error","type":"UNAUTHORIZED","message":"no token","errors":[]}`)
	case r.Method == http.MethodGet:
		fmt.Fprintf(w, `{"rules":[{"digest":%q,"state":"live"}]}`, o.digest)
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
		if o.refuse {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"refused":"compiler","error":"cases/a.json: 1.13, want 1.30"}`)
			return
		}
		o.digest = b.Digest
		fmt.Fprint(w, `{"state":"live","steps":[{"name":"signature"}]}`)
	}
}

// filesIn returns a function that writes a file in a folder and returns its path.
func filesIn(t *testing.T, dir string) func(name, text string) string {
	return func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
}

// A push goes to every branch and names those that failed; a repeated push asks only the failed ones.
func TestPush(t *testing.T) {
	dir := t.TempDir()
	put := filesIn(t, dir)
	put("good.token", "secret\n")
	put("bad.token", "other\n")
	var offices []*office
	var urls []string
	list := "# branches\n\n"
	for i := range 12 {
		o := &office{refuse: i == 3}
		server := httptest.NewServer(o)
		defer server.Close()
		token := "good.token"
		if i == 7 {
			token = "bad.token"
		}
		offices, urls, list = append(offices, o), append(urls, server.URL), list+server.URL+" "+token+"\n"
	}
	c := &PushCommand{Reason: "test", Files: []string{put("x.dterule",
		string(plugintest.Bundle(t, "contingencia/v4")))},
		BranchFlags: adminclient.BranchFlags{Branches: put("branches", list)}}
	err := c.Run(t.Context(), &adminclient.Options{})
	if err == nil || !strings.Contains(err.Error(), "2 of 12 branches failed: ") || !strings.Contains(err.Error(),
		urls[3]) || !strings.Contains(err.Error(), urls[7]) {
		t.Errorf("got %v", err)
	}
	offices[3].refuse = false
	put("bad.token", "secret")
	if err := c.Run(t.Context(), &adminclient.Options{}); err != nil {
		t.Errorf("repeated: %v", err)
	}
	var pushes []int
	for _, o := range offices {
		pushes = append(pushes, o.pushes)
	}
	if !slices.Equal(pushes, []int{1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1}) {
		t.Errorf("pushes %v", pushes)
	}
}

// A push shows every step of each branch of a list. A repeated push skips what a branch has already.
func TestPush_Steps(t *testing.T) {
	dir := t.TempDir()
	put := filesIn(t, dir)
	put("token", "secret")
	var offices []*office
	var list, bad string
	for i := range 3 {
		o := &office{refuse: i == 1}
		server := httptest.NewServer(o)
		defer server.Close()
		offices, list = append(offices, o), list+server.URL+" token\n"
		if o.refuse {
			bad = server.URL
		}
	}
	c := &PushCommand{Reason: "test", Files: []string{put("x.dterule",
		string(plugintest.Bundle(t, "contingencia/v4")))},
		BranchFlags: adminclient.BranchFlags{Branches: put("branches", list)}}
	said := cmdtest.Capture(t, func() {
		if err := c.Run(t.Context(), &adminclient.Options{}); err == nil || !strings.Contains(err.Error(),
			"1 of 3 branches failed: "+bad) {
			t.Errorf("got %v", err)
		}
	})
	if strings.Count(said, "\n  signature  ok") != 2 || !strings.Contains(said, bad+"\n  FAILED: the bundle is "+
		"refused at the step compiler\n") {
		t.Errorf("it says\n%s", said)
	}
	offices[1].refuse = false
	said = cmdtest.Capture(t, func() {
		if err := c.Run(t.Context(), &adminclient.Options{}); err != nil {
			t.Errorf("repeated: %v", err)
		}
	})
	if offices[0].pushes != 1 || offices[1].pushes != 2 || offices[2].pushes != 1 ||
		strings.Count(said, "signature") != 1 {
		t.Errorf("pushed %d, %d and %d times:\n%s", offices[0].pushes, offices[1].pushes, offices[2].pushes, said)
	}
}

// A push of several bundles ends at the first refused bundle, and names the bundles that were not sent.
func TestPush_NotSent(t *testing.T) {
	put := filesIn(t, t.TempDir())
	server := httptest.NewServer(&office{refuse: true})
	defer server.Close()
	c := &PushCommand{Reason: "test", BranchFlags: adminclient.BranchFlags{Branches: put("branches", server.URL+" "+
		put("token", "secret")+"\n")}}
	for _, name := range []string{"contingencia/v4", "contingencia/v3"} {
		c.Files = append(c.Files, put(name[13:]+".dterule", string(plugintest.Bundle(t, name))))
	}
	said := cmdtest.Capture(t, func() {
		if err := c.Run(t.Context(), &adminclient.Options{}); err == nil {
			t.Error("it succeeds")
		}
	})
	if !strings.Contains(said, "FAILED: the bundle is refused at the step compiler; not sent: contingencia 1.") {
		t.Errorf("it says\n%s", said)
	}
}
