package gateway

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// browser is a real one without a window, led over the pipes of its DevTools protocol.
type browser struct {
	t       *testing.T
	in      *os.File
	session string
	next    int

	mu      sync.Mutex
	waiting map[int]chan message
	blocked []string // what a policy forbade
	loaded  chan struct{}
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// newBrowser starts the browser of this machine; the test is skipped where there is none.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium on this machine")
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	if err := cmd.Start(); err != nil {
		t.Skipf("Chromium does not start: %v", err)
	}
	_, _ = theirIn.Close(), theirOut.Close()
	b := &browser{t: t, in: in, waiting: make(map[int]chan message), loaded: make(chan struct{}, 16)}
	go b.listen(out)
	t.Cleanup(func() {
		b.send("Browser.close", nil)
		_ = cmd.Wait()
		_ = in.Close()
	})
	var target struct{ TargetID, SessionID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Log", "Network"} {
		b.call(domain+".enable", map[string]any{}, nil)
	}
	return b
}

func (b *browser) listen(out *os.File) {
	for r := bufio.NewReader(out); ; {
		line, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(line[:len(line)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		if m.ID != 0 {
			if c := b.waiting[m.ID]; c != nil {
				c <- m
			}
		}
		switch m.Method {
		case "Page.loadEventFired":
			b.loaded <- struct{}{}
		case "Log.entryAdded":
			b.blocked = append(b.blocked, string(m.Params))
		}
		b.mu.Unlock()
	}
}

func (b *browser) send(method string, params any) chan message {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	c := make(chan message, 1)
	b.waiting[b.next] = c
	m := map[string]any{"id": b.next, "method": method, "params": params}
	if b.session != "" && method != "Browser.close" {
		m["sessionId"] = b.session
	}
	line, _ := json.Marshal(m)
	_, _ = b.in.Write(append(line, 0))
	return c
}

func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	select {
	case m := <-b.send(method, params):
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(30 * time.Second):
		b.t.Fatalf("%s: the browser does not answer", method)
	}
}

// open shows a page on a screen so many points wide, in a colour scheme.
func (b *browser) open(url string, wide int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": wide, "height": 800, "deviceScaleFactor": 1, "mobile": wide < 500}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	select {
	case <-b.loaded:
	case <-time.After(30 * time.Second):
		b.t.Fatalf("%s does not load", url)
	}
}

// evaluate runs an expression in the page.
func (b *browser) evaluate(expression string, result any) {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &r)
	if r.ExceptionDetails != nil || json.Unmarshal(r.Result.Value, result) != nil {
		b.t.Fatalf("%s: %s", r.Result.Value, r.ExceptionDetails)
	}
}

// keep writes the whole page as a picture into $DTE_SCREENSHOTS, if that is set.
func (b *browser) keep(name string, wide int) {
	b.t.Helper()
	dir := os.Getenv("DTE_SCREENSHOTS")
	if dir == "" {
		return
	}
	var height float64
	b.evaluate("document.documentElement.scrollHeight", &height)
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true, "clip": map[string]any{"x": 0, "y": 0, "width": wide, "height": min(height, 4000), "scale": 1}}, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.png", name, wide)), picture, 0o644)
	}
	if err != nil {
		b.t.Error(err)
	}
}
