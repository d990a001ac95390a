package engine

import (
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/sign"
)

// In production MH switches to its next generation at midnight of 1 December 2026: the same sale, a minute before and a
// minute after, is issued in one or the other by the dates of the bundles alone, and MH accepts both.
func TestIssue_GenerationByDate(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	w.clock.set(time.Date(2026, 12, 1, 5, 59, 0, 0, time.UTC))
	w.sim = simulator.New(simulator.Options{Seed: 1, Now: w.now, Logger: quiet, AllowProduction: true,
		Issuers: []simulator.Issuer{{NIT: testNIT, Password: "secreto-mh.2026", PublicKey: common(t).key.Public()}}})
	w.server.Config.Handler = w.sim.Protocol()
	issuer := testIssuer()
	issuer.Ambiente = "01"
	client := authority.New(authority.Options{BaseURL: w.server.URL, NIT: testNIT, Password: "secreto-mh.2026",
		Ambiente: "01", UserAgent: "test", Now: w.now})
	var err error
	if w.engine, err = New(Options{Store: w.store, Signer: sign.New(common(t).key), Authority: client,
		Rules:  common(t).book,
		Issuer: issuer, Logger: quiet, Now: w.now}); err != nil {
		t.Fatal(err)
	}
	purchase := func() Request {
		return request("14", "", member("receptor", taxpayer), member("applyrent", dte.Bool(false)),
			member("cuerpoDocumento", dte.Arr(item(1, "1", "5"))), cash())
	}
	for _, step := range []struct {
		day      string
		versions [3]string
	}{{"2026-11-30", [3]string{"1", "3", "1"}}, {"2026-12-01", [3]string{"2", "4", "2"}}} {
		for i, req := range []Request{invoice("", item(1, "1", "5")), voucher("", item(1, "1", "5")), purchase()} {
			// An appliance in production does not believe a simulated seal: its record is not PROCESSED, although the
			// simulated authority holds the document.
			r, err := w.engine.Issue(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			a, _ := w.sim.Document(r.Code)
			if got := text(t, r, "identificacion", "version"); got != step.versions[i] || text(t, r, "identificacion",
				"fecEmi") != step.day || !a.Accepted {
				t.Errorf("%s on %s is version %s, MH accepted it: %v", req.Document, step.day, got, a.Accepted)
			}
		}
		w.clock.set(w.now().Add(2 * time.Minute))
	}
}
