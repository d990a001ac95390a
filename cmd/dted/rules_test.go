package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/rulestore"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundletest"
)

// admin asks the operators' listener. It has no time-out, because a backtest gives way to the tills.
func (b *branch) admin(method, path string, body []byte) (int, []byte) {
	b.t.Helper()
	req, err := http.NewRequest(method, "http://"+b.ops+path, bytes.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testAdmin)
	status, answer, err := do(http.DefaultClient, req)
	if err != nil {
		b.t.Fatal(err)
	}
	return status, answer
}

// getOps gets a page of the operators' listener without a token.
func (b *branch) getOps(path string) (int, []byte) {
	b.t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+b.ops+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	status, answer, err := do(http.DefaultClient, req)
	if err != nil {
		b.t.Fatal(err)
	}
	return status, answer
}

// tills sell from 16 clients at 8 points of sale until stop, with a pause between the sales of each, and note the
// duration of each sale.
type tills struct {
	b     *branch
	wg    sync.WaitGroup
	done  atomic.Bool
	mu    sync.Mutex
	took  []time.Duration
	codes []string
}

func (b *branch) sell16(between time.Duration) *tills {
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
				pause(between)
			}
		})
	}
	return s
}

// lap returns the sales since the last call.
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

// kindOfBundle is a kind of bundle, and the step that refuses it: "" for bundles that go live.
type kindOfBundle struct {
	name, refused string
	make          func() []byte
}

func badAndGood(t testing.TB) []kindOfBundle {
	version := 0
	stranger := plugintest.Signer()
	stranger.Private = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	next := func() string { version++; return fmt.Sprintf("2.1.%d", version) }
	trap, loop := bundletest.Small(t, "dte01/v2", bundletest.Trap), bundletest.Small(t, "dte01/v2", bundletest.Loop)
	return []kindOfBundle{
		{"good", "", func() []byte { return bundletest.Edition(t, "dte01/v2", next()) }},
		{"forged", "signature", func() []byte {
			return bundletest.EditionSigned(t, "dte01/v2", "9.0.0", stranger,
				trap)
		}},
		{"older", "version", func() []byte { return bundletest.Edition(t, "dte01/v2", "1.9.9", trap) }},
		{"trapping", "", func() []byte { return bundletest.Edition(t, "dte01/v2", next(), trap) }},
		{"wrong cents", "interpreter", func() []byte {
			return bundletest.Edition(t, "dte01/v2", "9.0.0", bundletest.Param("ivaRate", "0.14"))
		}},
		{"good, of another module", "", func() []byte {
			return bundletest.Edition(t, "dte01/v2", next(),
				bundletest.Recompiled(next()))
		}},
		{"looping", "", func() []byte { return bundletest.Edition(t, "dte01/v2", next(), loop) }},
		{"rubbish", "signature", func() []byte { return []byte("PK\x03\x04") }},
	}
}

// swapping is the cost of swaps for the tills.
type swapping struct {
	steady, swapped []time.Duration // durations of sales before bundles came, and meanwhile
	counts          map[string]int
	took            []time.Duration // of the activations that went live
	ratios          []float64       // p99 while bundles came, divided by p99 before, of each round
	resident        int64           // the appliance's memory in bytes: the most after a bundle
}

// swap alternates for this many rounds: a second in which the tills sell undisturbed, and a second or more in which a
// bundle comes every 100 ms, or as fast as the branch accepts them.
func (b *branch) swap(s *tills, kinds []kindOfBundle, rounds int) *swapping {
	r := &swapping{counts: make(map[string]int)}
	pause(time.Second) // warm
	for range rounds {
		data := make([][]byte, len(kinds))
		for i, k := range kinds {
			data[i] = k.make()
		}
		pause(200 * time.Millisecond)
		s.lap()
		pause(time.Second)
		steady := s.lap()
		for i, k := range kinds {
			at := time.Now()
			status, answer := b.admin(http.MethodPost, "/admin/rules?who=test&reason=test&fewer_cases=1", data[i])
			var a rulestore.Activation
			if err := json.Unmarshal(answer, &a); err != nil || a.Refused != k.refused ||
				(status == http.StatusOK) != (k.refused == "") {
				b.t.Errorf("%s: %d %s", k.name, status, answer)
			}
			if k.refused == "" {
				r.took = append(r.took, time.Since(at))
			}
			r.counts[k.name]++
			r.resident = max(r.resident, b.resident())
			pause(max(0, 100*time.Millisecond-time.Since(at)))
		}
		swapped := s.lap()
		r.steady, r.swapped = append(r.steady, steady...), append(r.swapped, swapped...)
		r.ratios = append(r.ratios, ratio(quantile(swapped, .99), quantile(steady, .99)))
	}
	return r
}

// TestRules_SwapUnderLoad activates bundles, good ones and every kind of bad one, while 16 clients sell: no sale fails,
// and every document is what its named bundle makes of its facts. DTE_SOAK does it for five minutes.
func TestRules_SwapUnderLoad(t *testing.T) {
	rounds, between, soak := 1, 50*time.Millisecond, os.Getenv("DTE_SOAK") != ""
	if soak {
		rounds, between = 75, 0 // 4 s each while bundles come, on a busy processor
	}
	b := newBranch(t)
	b.measured = true
	kinds := badAndGood(t)
	b.start()
	defer b.stop()
	b.chaos(simulator.Chaos{Outage: true}) // MH plays no part
	s := b.sell16(between)
	defer s.stop()
	r := b.swap(s, kinds, 1)
	before := r.resident
	more := b.swap(s, kinds, rounds)
	s.stop()
	after := b.resident()
	r.steady, r.swapped, r.took = append(r.steady, more.steady...), append(r.swapped, more.swapped...), append(r.took,
		more.took...)

	// minutes after a soak
	status, answer := b.admin(http.MethodGet, "/admin/rules/replay?from=2000-01-01&to=2999-12-31", nil)
	replayed := b.resident()
	lines := bytes.Split(bytes.TrimSpace(answer), []byte("\n"))
	if last := string(lines[len(lines)-1]); status != http.StatusOK ||
		!regexp.MustCompile(`^\{"replayed":\{"identical":\d+\}\}$`).MatchString(last) {
		t.Errorf("replay: %d %.500s", status, last)
	}
	versions := make(map[string]int)
	for i := 0; i < len(s.codes); i += max(1, len(s.codes)/20) {
		var c rulestore.Comparison
		_, answer := b.admin(http.MethodGet, "/admin/rules/replay?code="+s.codes[i], nil)
		if err := json.Unmarshal(answer, &c); err != nil || c.Result != "identical" {
			t.Errorf("%s: %s", s.codes[i], answer)
		}
		versions[c.Rule.Version]++
	}
	if len(versions) < 3 {
		t.Errorf("the sales were computed by %v only", versions)
	}
	if b.metric(`dte_rule_step_backs_total{way="return"}`) == 0 {
		t.Error("no return in the metrics")
	}
	t.Logf("%v more, an activation takes %v; p50/p99 steady %v/%v of %d, swapping %v/%v of %d; resident %d → %d MiB, "+
		"%d after the replay", more.counts, quantile(r.took, .5),
		quantile(r.steady, .5), quantile(r.steady, .99), len(r.steady), quantile(r.swapped, .5), quantile(r.swapped,
			.99), len(r.swapped), before>>20, after>>20, replayed>>20)
	// The budget is the p99: a soak and make bench, which run alone, check it. Here other tests run at the same time.
	if soak && median(more.ratios) > 2 {
		t.Errorf("p99 while bundles come, over p99 before: %.2f", more.ratios)
	}
	if quantile(r.swapped, .5) > 4*quantile(r.steady, .5) {
		t.Errorf("p50 went from %v to %v", quantile(r.steady, .5), quantile(r.swapped, .5))
	}
	if max(after, replayed) > before+before/2 {
		t.Errorf("resident memory went from %d to %d MiB, and %d after the replay", before>>20, after>>20, replayed>>20)
	}
}

func pause(d time.Duration) { <-time.After(d) }

// resident is the memory in bytes of an appliance that is measured.
func (b *branch) resident() int64 {
	if !b.measured {
		b.t.Fatal("the appliance does not collect as installed")
	}
	return cmdtest.Resident(b.t, b.cmd.Process.Pid)
}

// TestRules_Restart: live rules are still live after a power cut, whatever is in the folder; a caller without the admin
// token changes nothing.
func TestRules_Restart(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	b.start()
	for _, step := range []struct {
		method, path string
		body         []byte
		status       int
	}{
		{http.MethodPost, "/admin/rules?dry=1", bundletest.Edition(t, "dte01/v2", "2.1.9"), http.StatusOK},
		{http.MethodPost, "/admin/rules?reason=test", bundletest.Edition(t, "dte01/v2", "2.1.5"), http.StatusOK},
		// repeated
		{http.MethodPost, "/admin/rules?reason=test", bundletest.Edition(t, "dte01/v2", "2.1.5"), http.StatusOK},
		{http.MethodPost, "/admin/rules?reason=test", bundletest.Edition(t, "dte01/v2", "2.1.4"),
			http.StatusUnprocessableEntity},
		{http.MethodPost, "/admin/rules?reason=test", bundletest.Edition(t, "dte01/v2", "2.2.0",
			bundletest.In("2099-01-01", "")), http.StatusOK},
		// other bytes
		{http.MethodPost, "/admin/rules?reason=test", bundletest.Edition(t, "dte01/v2", "2.2.0"),
			http.StatusUnprocessableEntity},
		// a correction for the time until then
		{http.MethodPost, "/admin/rules?reason=test", bundletest.Edition(t, "dte01/v2", "2.1.6"), http.StatusOK},
		{http.MethodPost, "/admin/rules/rollback?reason=test", []byte(`{"name":"dte01","schema":2,"version":"7.0.0"}`),
			http.StatusConflict},
		{http.MethodPost, "/admin/rules/rollback?reason=test", []byte(`{`), http.StatusBadRequest},
		{http.MethodPost, "/admin/rules/backtest?from=yesterday", nil, http.StatusBadRequest},
		{http.MethodGet, "/admin/rules/replay?code=x", nil, http.StatusBadRequest},
		{http.MethodGet, "/admin/rules/replay?code=00000000-0000-4000-8000-000000000000", nil, http.StatusNotFound},
		{http.MethodGet, "/admin/rules/shadow", nil, http.StatusNotFound},
		{http.MethodPost, "/admin/rules/shadow?documents=1&for=1h", bundletest.Edition(t, "dte01/v2", "2.1.1"),
			http.StatusOK},
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
	var l rulestore.Listing
	if err := json.Unmarshal(answer, &l); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, r := range l.Rules {
		if r.Name == "dte01" && r.Schema == 2 {
			got += r.Version + " " + r.State + " above " + r.Floor + "; "
		}
	}
	if got != "2.1.0 spare above 2.1.6; 2.1.5 spare above 2.1.6; 2.1.6 live above 2.1.6; 2.2.0 coming above 2.1.6; " {
		t.Error(got)
	}
	for _, path := range []string{"/admin/rules", "/admin/rules/shadow", "/admin/rules/replay?code=x"} {
		if status, _ := b.getOps(path); status != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", path, status)
		}
	}
}

// TestRules_CallerGoesAway: a caller that requests a backtest and hangs up in the middle of it does the branch no harm.
func TestRules_CallerGoesAway(t *testing.T) {
	b := newBranch(t)
	b.start()
	defer b.stop()
	s := b.sell16(0)
	pause(time.Second)
	s.stop()
	candidate := bundletest.Edition(t, "dte01/v2", "9.0.0", bundletest.Param("ivaRate", "0.15"), bundletest.Refusals)
	for range 3 {
		conn, err := net.Dial("tcp", b.ops)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /admin/rules/backtest?from=2000-01-01&to=2999-12-31 HTTP/1.1\r\nHost: "+
			"branch\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", testAdmin, len(candidate), candidate)
		if _, err := conn.Read(make([]byte, 100)); err != nil { // it has begun
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).SetLinger(0); err != nil { // hang up without notice
			t.Fatal(err)
		}
		conn.Close()
		pause(200 * time.Millisecond)
	}
	if status, answer := b.admin(http.MethodGet, "/admin/rules", nil); status != http.StatusOK {
		t.Errorf("%d %s", status, answer)
	}
}
