package engine_test

import (
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/sign"
)

// In production MH switches to its next generation at midnight of 1 December 2026: the same sale, a minute before and a
// minute after, is issued in one or the other by the dates of the bundles alone, and MH accepts both.
func TestIssue_GenerationByDate(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	w.Clock.Set(time.Date(2026, 12, 1, 5, 59, 0, 0, time.UTC))
	w.Sim = simulator.New(simulator.Options{Seed: 1, Now: w.Now, Logger: enginetest.Quiet, AllowProduction: true,
		Issuers: []simulator.Issuer{
			{NIT: enginetest.TestNIT, Password: "secreto-mh.2026", PublicKey: enginetest.Common(t).Key.Public()},
		}})
	w.Server.Config.Handler = w.Sim.Protocol()
	issuer := enginetest.TestIssuer()
	issuer.Ambiente = "01"
	client := authority.New(
		authority.Options{BaseURL: w.Server.URL, NIT: enginetest.TestNIT, Password: "secreto-mh.2026",
			Ambiente: "01", UserAgent: "test", Now: w.Now},
	)
	var err error
	if w.Engine, err = engine.New(engine.Options{Store: w.Store, Signer: sign.New(enginetest.Common(t).Key), Authority: client,
		Rules:  enginetest.Common(t).Book,
		Issuer: issuer, Logger: enginetest.Quiet, Now: w.Now}); err != nil {
		t.Fatal(err)
	}
	purchase := func() engine.Request {
		return enginetest.Request(
			"14",
			"",
			enginetest.Member("receptor", enginetest.Taxpayer),
			enginetest.Member("applyrent", dte.Bool(false)),
			enginetest.Member("cuerpoDocumento", dte.Arr(enginetest.Item(1, "1", "5"))),
			enginetest.Cash(),
		)
	}
	for _, step := range []struct {
		day      string
		versions [3]string
	}{{"2026-11-30", [3]string{"1", "3", "1"}}, {"2026-12-01", [3]string{"2", "4", "2"}}} {
		for i, req := range []engine.Request{enginetest.Invoice("", enginetest.Item(1, "1", "5")), enginetest.Voucher("", enginetest.Item(1, "1", "5")), purchase()} {
			// An appliance in production does not believe a simulated seal: its record is not PROCESSED, although the
			// simulated authority holds the document.
			r, err := w.Engine.Issue(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			a, _ := w.Sim.Document(r.Code)
			if got := enginetest.Text(t, r, "identificacion", "version"); got != step.versions[i] || enginetest.Text(t, r, "identificacion",
				"fecEmi") != step.day ||
				!a.Accepted {
				t.Errorf("%s on %s is version %s, MH accepted it: %v", req.Document, step.day, got, a.Accepted)
			}
		}
		w.Clock.Set(w.Now().Add(2 * time.Minute))
	}
}
