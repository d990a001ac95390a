package bundles

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/dtectl/adminclient"
	"dtegate/plugins/plugintest"
)

// Verbs go to every branch of a list, in its order. A silent branch is given up soon and named.
func TestBranches(t *testing.T) {
	dir := t.TempDir()
	put := filesIn(t, dir)
	put("token", "secret\n")
	hung := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hung:
		case <-r.Context().Done():
		}
	}))
	defer silent.Close()
	defer close(hung)
	asked := make([]int, 3)
	var urls []string
	for i := range asked {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked[i]++
			if r.URL.Path != "/admin/rules" || r.Header.Get("Authorization") != "Bearer secret" {
				t.Errorf("asked for %s", r.URL)
			}
			_, _ = w.Write([]byte(
				`{"day":"2026-11-23","engine":"compiler","rules":[{"name":"dte01","schema":2,"version":"2.1.1","state":"live"}]}`))
		}))
		defer server.Close()
		urls = append(urls, server.URL)
	}
	list := "# " + filepath.Base(dir) + "\n" + urls[0] + " token\n" + silent.URL + " token\n" + urls[1] + " token\n\n" +
		urls[2] + " token\n"
	flags := adminclient.BranchFlags{Branches: put("branches.txt", list),
		Patience: 200 * time.Millisecond}
	said := cmdtest.Capture(t, func() {
		err := (&statusCommand{adminclient.ShowFlags{BranchFlags: flags}}).Run(t.Context(), &adminclient.Options{})
		if err == nil || !strings.Contains(err.Error(), "1 of 4 branches failed: "+silent.URL) {
			t.Errorf("got %v", err)
		}
	})
	want := urls[0] + "\n  2026-11-23, compiler: 1 live, 0 coming, 0 spare, 0 retired\n" + silent.URL +
		"\n  FAILED: the branch did not answer within 200ms\n" + urls[1] + "\n"
	if !strings.Contains(said, want) {
		t.Errorf("said\n%s\nwant\n%s", said, want)
	}
}

// The example of a list is a valid list.
func TestBranches_Example(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(plugintest.Root(t), "deploy", "examples", "branches.txt"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "branches.txt")
	for _, name := range []string{path, filepath.Join(dir, "m001.token"), filepath.Join(dir, "m002.token")} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := adminclient.ReadBranches(path); err != nil || len(list) != 2 {
		t.Errorf("%d branches, %v", len(list), err)
	}
}
