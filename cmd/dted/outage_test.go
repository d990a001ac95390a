package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
)

// TestOutage: tills sell through an outage while the appliance is killed, the cable comes back, and the appliance is
// killed while it sends the backlog. Every document is sealed once, MH gets none twice, and new sales do not wait.
// DTE_SOAK sells 10,000; the median of the sales meanwhile may be 4 times the median before the outage, their p99 10
// times the p99, or half a second.
func TestOutage(t *testing.T) {
	documents, lotTime := 400, 500*time.Millisecond
	soak := os.Getenv("DTE_SOAK") != ""
	switch {
	case soak: // MH takes minutes for a lot: then the simulator's own work does not count
		documents, lotTime = 10_000, 2*time.Second
	case testing.Short():
		documents = 80
	}
	const tills, lotsInFlight = 8, 4 // the default
	b := newBranch(t)
	b.start()
	sell := func(key string) (r record, took time.Duration) {
		t.Helper()
		pause(20 * time.Millisecond)
		took = timed(func() { r = decode(t, b.insist(1, key, hammerSale(1, 0))) })
		return r, took
	}
	var before, meanwhile []time.Duration // how long a sale took
	for n := range documents / 20 {
		r, took := sell(fmt.Sprintf("before %d", n))
		if before = append(before, took); r.Estado != "PROCESSED" {
			t.Fatalf("before the outage a sale is %s", r.Estado)
		}
	}
	b.chaos(simulator.Chaos{Outage: true, LotMS: int(lotTime.Milliseconds())})
	var answered atomic.Int64
	codes := make([][]string, tills)
	var wg sync.WaitGroup
	began := time.Now()
	for till := range tills {
		wg.Go(func() {
			for i := range documents / tills {
				r := decode(t, b.insist(till+1, fmt.Sprintf("till %d sale %d", till, i), hammerSale(till, i)))
				if r.Estado != "CONTINGENCIA" {
					t.Errorf("%s is %s", r.ControlNumber, r.Estado)
				}
				codes[till] = append(codes[till], r.Code)
				answered.Add(1)
			}
		})
	}
	for k := range int64(3) {
		for answered.Load() < (k+1)*int64(documents)/4 {
			<-time.After(time.Millisecond)
		}
		b.kill()
		b.start()
	}
	wg.Wait()
	t.Logf("%d documents in contingency in %v", documents, time.Since(began).Round(time.Millisecond))

	b.chaos(simulator.Chaos{LotMS: int(lotTime.Milliseconds())})
	began = time.Now()
	for _, share := range []int{10, 3, 2} { // killed while it sends the backlog
		for b.sim.Received().Documents-len(before) < documents/share {
			<-time.After(time.Millisecond)
		}
		b.kill()
		b.start()
	}
	resumed := time.Now()
	for n := 0; n == 0 || b.waiting() > 0; n++ {
		r, took := sell(fmt.Sprintf("meanwhile %d", n))
		if meanwhile = append(meanwhile, took); r.Estado != "PROCESSED" && time.Since(resumed) > 10*time.Second {
			t.Errorf("while the queue empties a sale is %s", r.Estado)
		}
	}
	took, unavoidable := time.Since(began), time.Duration(documents/100/lotsInFlight)*lotTime
	t.Logf("sent in %v, three kills included; %d lots of %v make %v unavoidable",
		took.Round(time.Millisecond), documents/100, lotTime, unavoidable)
	if soak && took > 2*unavoidable {
		t.Errorf("that is more than twice")
	}
	for _, bound := range []struct {
		quantile     float64
		times, least time.Duration // of the duration before
	}{{.5, 4, 0}, {.99, 10, 500 * time.Millisecond}} { // the sales share two cores and the disk with the sending
		was, is := quantile(before, bound.quantile), quantile(meanwhile, bound.quantile)
		limit := max(bound.times*was, bound.least)
		if !soak {
			limit = 2 * time.Second // of few sales, while other tests run
		}
		t.Logf("p%g of %d sales meanwhile %v, of %d before %v", 100*bound.quantile, len(meanwhile), is, len(before),
			was)
		if is > limit {
			t.Errorf("that is more than %v", limit)
		}
	}

	for till := range tills {
		for _, code := range codes[till] {
			_, body, err := b.get("/dte/documento/"+code, till+1)
			if err != nil {
				t.Fatal(err)
			}
			r := decode(t, body)
			a, _ := b.sim.Document(code)
			if r.Estado != "PROCESSED" || r.Sello == nil || *r.Sello != a.Sello ||
				string(r.JSON) != string(a.Document) {
				t.Fatalf("%s is %s, MH holds %+v", code, r.Estado, a)
			}
		}
	}
	if got := b.sim.Received(); got.Duplicates != 0 {
		t.Errorf("MH received %+v", got)
	}
	for _, breach := range b.sim.Audit() {
		t.Errorf("MH saw: %s", breach)
	}
	b.stop()
}

// reconfigure replaces a piece of the configuration.
func (b *branch) reconfigure(old, text string) {
	b.t.Helper()
	config, err := os.ReadFile(filepath.Join(b.dir, "dted.toml"))
	if err != nil || !strings.Contains(string(config), old) {
		b.t.Fatalf("no %s: %v", old, err)
	}
	b.write("dted.toml", []byte(strings.Replace(string(config), old, text, 1)))
}

// owed is what the branch owes MH, receivers and the archive.
func (b *branch) owed() engine.Backlog {
	b.t.Helper()
	var s struct{ Owed engine.Backlog }
	if status, said := b.getOps("/status"); status != http.StatusOK || json.Unmarshal(said, &s) != nil {
		b.t.Fatalf("%d %s", status, said)
	}
	return s.Owed
}

// waiting is how many records the branch owes MH.
func (b *branch) waiting() (n int) {
	b.t.Helper()
	owed := b.owed()
	if owed.Contingency != nil {
		n++
	}
	for _, w := range owed.Waiting {
		n += w
	}
	return n
}
