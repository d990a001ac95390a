package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/engine/enginetest"
	"dtegate/engine/outbox"
)

// TestWebhook: MH's late decisions are posted by a whole appliance, signed with the secret in its file, and a power cut
// before a post is accepted loses nothing.
func TestWebhook(t *testing.T) {
	var mu sync.Mutex
	var bodies []string
	away := true
	erp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if want := "sha256=" + outbox.Signature([]byte("un secreto"), r.Header.Get("X-Dte-Timestamp"),
			body); r.Header.Get("X-Dte-Signature") != want {
			t.Errorf("signed %s, want %s", r.Header.Get("X-Dte-Signature"), want)
		}
		bodies = append(bodies, string(body))
		if away {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer erp.Close()
	b := newBranch(t)
	path := filepath.Join(b.dir, "dted.toml")
	settings, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b.write("webhook.secret", []byte("un secreto\n"))
	b.write("dted.toml", append([]byte("webhook = {url = \""+erp.URL+"/dte\", secret_file = \"webhook.secret\"}\n"),
		settings...))
	b.start()
	code := b.sold(strings.Replace(sale01, `{"receptor"`, `{"testContingencia":true,"receptor"`, 1)).Code
	posted := func(least int) string {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(
			20 * time.Millisecond) {
			mu.Lock()
			if n := len(bodies); n >= least {
				defer mu.Unlock()
				return bodies[n-1]
			}
			mu.Unlock()
		}
		t.Fatalf("%d posts did not come", least)
		return ""
	}
	posted(1)
	b.kill()
	mu.Lock()
	bodies, away = nil, false
	mu.Unlock()
	b.start()
	defer b.stop()
	if body := posted(1); !strings.Contains(body, `"codigoGeneracion":"`+code+`"`) ||
		!strings.Contains(body, `"estado":"PROCESSED"`) {
		t.Errorf("posted %s", body)
	}
	if _, metrics := b.getOps("/metrics"); !bytes.Contains(metrics, []byte(`dte_webhook_posts_total{result="taken"}`)) {
		t.Error("no metric of the webhook")
	}
}

// TestLateResults_None: a hook that is stopped while no result has come posts nothing.
func TestLateResults_None(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	next := lateResults(w.Engine.Documents(), enginetest.TestCaller(1).Point.BranchID)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if body, after, err := next(ctx, 0); body != nil || after != 0 || err != nil {
		t.Errorf("%s after %d: %v", body, after, err)
	}
}
