// Package browsertest opens our pages in a real browser.
package browsertest

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/skip"
)

// Browser is a real browser without a window, controlled through the pipes of its DevTools protocol.
type Browser struct {
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

// New starts the browser of this machine; the test is skipped where there is none.
func New(t *testing.T) *Browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		skip.Test(t, "browser", "no Chromium on this machine")
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	if err := cmd.Start(); err != nil {
		skip.Test(t, "browser", "Chromium does not start: ", err)
	}
	_, _ = theirIn.Close(), theirOut.Close()
	b := &Browser{t: t, in: in, waiting: make(map[int]chan message), loaded: make(chan struct{}, 16)}
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

func (b *Browser) listen(out *os.File) {
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

func (b *Browser) send(method string, params any) chan message {
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

func (b *Browser) call(method string, params, result any) {
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

// Open shows a page on a screen of a width in points, in a colour scheme.
func (b *Browser) Open(url string, wide int, scheme string) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": wide, "height": 800, "deviceScaleFactor": 1,
		"mobile": wide < 500}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme",
		"value": scheme}}}, nil)
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	b.Loaded()
}

// Loaded waits until a page is there.
func (b *Browser) Loaded() {
	b.t.Helper()
	select {
	case <-b.loaded:
	case <-time.After(30 * time.Second):
		b.t.Fatal("the page does not load")
	}
}

// Evaluate runs an expression in the page.
func (b *Browser) Evaluate(expression string, result any) {
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

// Keep writes the whole page as a picture into $DTE_SCREENSHOTS, if that is set.
func (b *Browser) Keep(name string, wide int) {
	b.t.Helper()
	dir := os.Getenv("DTE_SCREENSHOTS")
	if dir == "" {
		return
	}
	var height float64
	b.Evaluate("document.documentElement.scrollHeight", &height)
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true, "clip": map[string]any{"x": 0,
		"y": 0, "width": wide, "height": min(height, 4000), "scale": 1}}, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.png", name, wide)), picture, 0o644)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// Blocked are the complaints of the browser: what a policy forbade, what could not be loaded.
func (b *Browser) Blocked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.blocked)
}

// Unfit is a script that lists the elements that stick out of the screen, and the texts that do not stand out from what
// lies below them (WCAG 2.1 §1.4.3: 4.5 to 1).
const Unfit = `(() => {
  const bad = [], wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide) bad.push("the page scrolls sideways: " + document.documentElement.scrollWidth);
  const light = c => { const v = c.match(/[\d.]+/g).slice(0, 3).map(x => (x /= 255) <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4); return .2126 * v[0] + .7152 * v[1] + .0722 * v[2] };
  const below = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\)$|transparent/.test(c)) return c } return "rgb(255, 255, 255)" };
  const written = e => { const r = document.createRange(); r.selectNodeContents(e); return r.getBoundingClientRect() };
  for (const e of document.body.querySelectorAll("td + td")) {
    const a = written(e.previousElementSibling), b = written(e);
    if (a.width && b.width && b.left > a.left && b.left - a.right < 6) bad.push(e.textContent + " touches what stands before it");
  }
  for (const e of document.body.querySelectorAll("*")) {
    const box = e.getBoundingClientRect(), name = e.tagName + " " + e.textContent.trim().slice(0, 40);
    const scrolls = e.parentElement.closest("pre, .sheet");
    if (box.right > wide + 1 && !scrolls) bad.push(name + " ends at " + box.right);
    const sheet = e.closest("section");
    if (sheet && !scrolls && box.right > sheet.getBoundingClientRect().right + 1) bad.push(name + " leaves its sheet");
    if (e.tagName == "TABLE" && !scrolls) {
      const p = e.parentElement, edge = p.getBoundingClientRect().right - parseFloat(getComputedStyle(p).paddingRight);
      if (box.right > edge + 1) bad.push(name + " ends " + (box.right - edge) + " beyond what holds it");
    }
    if (e.closest("svg") || ![...e.childNodes].some(n => n.nodeType == 3 && n.data.trim())) continue;
    const a = light(getComputedStyle(e).color), b = light(below(e)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) bad.push(name + " has a contrast of " + ratio.toFixed(2));
    if (parseFloat(getComputedStyle(e).fontSize) < 12) bad.push(name + " is too small");
  }
  return bad;
})()`
