package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dtegate/engine"
	"dtegate/engine/authority/simulator"
	"dtegate/engine/ruletest"
	"dtegate/plugins/plugintest"
)

// admin asks the operators' listener.
func (b *branch) admin(method, path string, body []byte) (int, []byte) {
	b.t.Helper()
	req, err := http.NewRequest(method, "http://"+b.ops+path, bytes.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testAdmin)
	status, answer, err := do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	return status, answer
}

// tills sell from 16 clients at 8 points of sale until stop, and note how long each sale took.
type tills struct {
	b     *branch
	wg    sync.WaitGroup
	done  atomic.Bool
	mu    sync.Mutex
	took  []time.Duration
	codes []string
}

func (b *branch) sell16() *tills {
	s := &tills{b: b}
	for c := range 16 {
		s.wg.Go(func() {
			for i := 0; !s.done.Load(); i++ {
				began := time.Now()
				status, answer, err := b.post("/dte/dte01", c%8+1, "", hammerSale(c, i%50))
				took := time.Since(began)
				if err != nil || status != http.StatusCreated {
					b.t.Errorf("a sale failed: %d %v %s", status, err, answer)
					return
				}
				s.mu.Lock()
				s.took = append(s.took, took)
				if i%20 == 0 {
					s.codes = append(s.codes, decode(b.t, answer).Code)
				}
				s.mu.Unlock()
			}
		})
	}
	return s
}

// lap gives the sales since the last one.
func (s *tills) lap() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := s.took
	s.took = nil
	return took
}

func (s *tills) stop() {
	s.done.Store(true)
	s.wg.Wait()
}

// TestRules_SwapUnderLoad activates a bundle every 100 ms, or as fast as the branch takes them, good ones and every kind
// of bad one, while 16 clients sell: no sale fails, and every document is what the bundle that it names makes of its
// facts. DTE_SOAK does it for five minutes.
func TestRules_SwapUnderLoad(t *testing.T) {
	long := 20 * time.Second
	switch {
	case os.Getenv("DTE_SOAK") != "":
		long = 5 * time.Minute
	case testing.Short():
		long = 5 * time.Second
	}
	b := newBranch(t)
	b.start()
	defer b.stop()
	if err := b.sim.Chaos(simulator.Chaos{Outage: true}); err != nil { // MH plays no part
		t.Fatal(err)
	}
	stranger := plugintest.Signer()
	stranger.Private = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	version := 0
	next := func() string { version++; return fmt.Sprintf("2.0.%d", version) }
	trap, loop := ruletest.Small(t, "dte01/v2", ruletest.Trap), ruletest.Small(t, "dte01/v2", ruletest.Loop)
	kinds := []struct {
		name, refused string
		make          func() []byte
	}{
		{"good", "", func() []byte { return ruletest.Edition(t, "dte01/v2", next()) }},
		{"forged", "signature", func() []byte { return ruletest.EditionSigned(t, "dte01/v2", "9.0.0", stranger, trap) }},
		{"older", "version", func() []byte { return ruletest.Edition(t, "dte01/v2", "1.9.9", trap) }},
		{"trapping", "", func() []byte { return ruletest.Edition(t, "dte01/v2", next(), trap) }},
		{"wrong cents", "interpreter", func() []byte {
			return ruletest.Edition(t, "dte01/v2", "9.0.0", ruletest.Param("ivaRate", "0.14"))
		}},
		{"good", "", func() []byte { return ruletest.Edition(t, "dte01/v2", next()) }},
		{"looping", "", func() []byte { return ruletest.Edition(t, "dte01/v2", next(), loop) }},
		{"rubbish", "signature", func() []byte { return []byte("PK\x03\x04") }},
	}

	s := b.sell16()
	pause(long / 10) // warm
	s.lap()
	pause(long / 4)
	steady, before := s.lap(), b.resident()
	counts, activations := make(map[string]int), time.Duration(0)
	for began, i := time.Now(), 0; time.Since(began) < long; i++ {
		k := kinds[i%len(kinds)]
		data := k.make()
		at := time.Now()
		status, answer := b.admin(http.MethodPost, "/admin/rules?who=test", data)
		var a engine.Activation
		if err := json.Unmarshal(answer, &a); err != nil || a.Refused != k.refused || (status == http.StatusOK) != (k.refused == "") {
			t.Errorf("%s: %d %s", k.name, status, answer)
		}
		activations += time.Since(at)
		counts[k.name]++
		pause(max(0, 100*time.Millisecond-time.Since(at)))
	}
	swapping := s.lap()
	var backtested []time.Duration
	status, answer := b.admin(http.MethodPost, "/admin/rules/backtest?from=2000-01-01&to=2999-12-31", ruletest.Edition(t, "dte01/v2", "9.0.0"))
	backtested = s.lap()
	s.stop()
	lines := bytes.Split(bytes.TrimSpace(answer), []byte("\n"))
	if status != http.StatusOK || !bytes.Contains(lines[len(lines)-1], []byte(`{"totals":{`)) || !bytes.Contains(lines[len(lines)-1], []byte(`"results":{"identical":`)) {
		t.Errorf("backtest: %d %.300s", status, lines[len(lines)-1])
	}

	status, answer = b.admin(http.MethodGet, "/admin/rules/replay?from=2000-01-01&to=2999-12-31", nil)
	lines = bytes.Split(bytes.TrimSpace(answer), []byte("\n"))
	if last := string(lines[len(lines)-1]); status != http.StatusOK || !regexp.MustCompile(`^\{"replayed":\{"identical":\d+\}\}$`).MatchString(last) {
		t.Errorf("replay: %d %.500s", status, last)
	}
	versions := make(map[string]int)
	for _, code := range s.codes {
		var c engine.Comparison
		_, answer := b.admin(http.MethodGet, "/admin/rules/replay?code="+code, nil)
		if err := json.Unmarshal(answer, &c); err != nil || c.Result != "identical" {
			t.Errorf("%s: %s", code, answer)
		}
		versions[c.Rule.Version]++
	}
	if len(versions) < 3 {
		t.Errorf("the sales were computed by %v only", versions)
	}
	_, status2, err := b.getOps("/metrics")
	if err != nil || !strings.Contains(string(status2), `dte_rule_step_backs_total{way="return"}`) || strings.Contains(string(status2), `dte_rule_step_backs_total{way="return"} 0`) {
		t.Errorf("no return in the metrics: %v", err)
	}
	n := 0
	for _, c := range counts {
		n += c
	}
	t.Logf("%d activations %v, %v each; %d sales by %d versions", n, counts, (activations / time.Duration(n)).Round(time.Millisecond), len(steady)+len(swapping)+len(backtested), len(versions))
	t.Logf("p50/p99 steady %v/%v, swapping %v/%v, backtest %v/%v (%d sales); resident %d → %d MiB", quantile(steady, .5), quantile(steady, .99),
		quantile(swapping, .5), quantile(swapping, .99), quantile(backtested, .5), quantile(backtested, .99), len(backtested), before>>20, b.resident()>>20)
	if quantile(swapping, .99) > 10*quantile(steady, .99) {
		t.Errorf("p99 went from %v to %v", quantile(steady, .99), quantile(swapping, .99))
	}
}

func pause(d time.Duration) { <-time.After(d) }

func (b *branch) getOps(path string) (int, []byte, error) {
	req, err := http.NewRequest(http.MethodGet, "http://"+b.ops+path, nil)
	if err != nil {
		return 0, nil, err
	}
	return do(req)
}

// resident is the appliance's memory in bytes.
func (b *branch) resident() (n int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.cmd.Process.Pid))
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &n); err == nil {
			return n << 10
		}
	}
	b.t.Fatal("no VmRSS")
	return 0
}

// TestRules_Restart: what was live is live after a power cut, whatever lies in the folder; who has no admin token changes
// nothing.
func TestRules_Restart(t *testing.T) {
	b := newBranch(t)
	b.start()
	for _, step := range []struct {
		method, path string
		body         []byte
		status       int
	}{
		{http.MethodPost, "/admin/rules?dry=1", ruletest.Edition(t, "dte01/v2", "2.0.9"), http.StatusOK},
		{http.MethodPost, "/admin/rules", ruletest.Edition(t, "dte01/v2", "2.0.5"), http.StatusOK},
		{http.MethodPost, "/admin/rules", ruletest.Edition(t, "dte01/v2", "2.0.5"), http.StatusOK}, // repeated
		{http.MethodPost, "/admin/rules", ruletest.Edition(t, "dte01/v2", "2.0.4"), http.StatusUnprocessableEntity},
		{http.MethodPost, "/admin/rules", ruletest.Edition(t, "dte01/v2", "2.1.0", ruletest.In("2099-01-01", "")), http.StatusOK},
		{http.MethodPost, "/admin/rules", ruletest.Edition(t, "dte01/v2", "2.1.0"), http.StatusUnprocessableEntity}, // other bytes
		{http.MethodPost, "/admin/rules", ruletest.Edition(t, "dte01/v2", "2.0.6"), http.StatusOK},                  // a correction for the time until then
		{http.MethodPost, "/admin/rules/rollback", []byte(`{"name":"dte01","schema":2,"version":"7.0.0"}`), http.StatusConflict},
		{http.MethodPost, "/admin/rules/rollback", []byte(`{`), http.StatusBadRequest},
		{http.MethodPost, "/admin/rules/backtest?from=yesterday", nil, http.StatusBadRequest},
		{http.MethodGet, "/admin/rules/replay?code=x", nil, http.StatusBadRequest},
		{http.MethodGet, "/admin/rules/replay?code=00000000-0000-4000-8000-000000000000", nil, http.StatusNotFound},
		{http.MethodGet, "/admin/rules/shadow", nil, http.StatusNotFound},
		{http.MethodPost, "/admin/rules/shadow?documents=1&for=1h", ruletest.Edition(t, "dte01/v2", "2.0.1"), http.StatusOK},
		{http.MethodDelete, "/admin/rules/shadow", nil, http.StatusOK},
	} {
		if status, answer := b.admin(step.method, step.path, step.body); status != step.status {
			t.Errorf("%s %s: %d %s", step.method, step.path, status, answer)
		}
	}
	b.kill()
	if err := os.Remove(b.dir + "/rules/dte01-v2.dterule"); err != nil {
		t.Fatal(err)
	}
	b.start()
	defer b.stop()
	_, answer := b.admin(http.MethodGet, "/admin/rules", nil)
	var l engine.ShelfList
	if err := json.Unmarshal(answer, &l); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, r := range l.Rules {
		if r.Name == "dte01" && r.Schema == 2 {
			got += r.Version + " " + r.State + " above " + r.Floor + "; "
		}
	}
	if got != "2.0.0 spare above 2.0.6; 2.0.5 spare above 2.0.6; 2.0.6 live above 2.0.6; 2.1.0 coming above 2.0.6; " {
		t.Error(got)
	}
	for _, path := range []string{"/admin/rules", "/admin/rules/shadow", "/admin/rules/replay?code=x"} {
		if status, _, err := b.getOps(path); err != nil || status != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d %v", path, status, err)
		}
	}
}
