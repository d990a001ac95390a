package main

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/archive/archivetest"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
)

var testChain = fleetproto.Chain{Name: "cadena", Ambiente: "00"}

// chain is the centre of a test, on a real store.
type chain struct {
	t        *testing.T
	store    *archive.Archive
	director fleetproto.Signer
}

// withFleet makes a branch, not started yet, that belongs to a chain.
func (b *branch) withFleet(t *testing.T) *chain {
	t.Helper()
	s := archivetest.StartOther(t)
	c := &chain{t: t, director: fleetproto.Signer{ID: "director",
		Private: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))}}
	public, err := bundle.MarshalPublic(c.director.Private.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	b.write("director.pub.pem", public)
	b.write("fleet.secret", []byte(archivetest.Secret+"\n"))
	b.section(fmt.Sprintf("[fleet]\nchain = \"cadena\"\nbranch = \"centro\"\ngroup = \"norte\"\ndirector_key = "+
		"\"director.pub.pem\"\npoll = \"2s\"\n"+
		"store = {endpoint = %q, bucket = %q, access_key = %q, secret_file = \"fleet.secret\", path_style = true}\n",
		s.Endpoint(), archivetest.Bucket, archivetest.Access))
	a, err := archive.New(archive.Options{Endpoint: s.Endpoint(), Bucket: archivetest.Bucket,
		AccessKey: archivetest.Access, Secret: archivetest.Secret, PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	c.store = a
	return c
}

func (c *chain) create(key string, data []byte, err error) {
	c.t.Helper()
	if err == nil {
		err = c.store.Create(c.t.Context(), key, data)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *chain) enrol(epoch int64, key string, points ...fleetproto.Point) {
	c.t.Helper()
	data, err := testChain.Seal(&fleetproto.Enrolment{Branch: "centro", Epoch: epoch, Key: key, At: time.Now(),
		By: "ana", Points: points}, c.director)
	c.create(fleetproto.BoxKey("centro", epoch), data, err)
}

// status waits until the branch's status is as expected.
func (c *chain) status(is func(*fleetproto.Status) bool) *fleetproto.Status {
	c.t.Helper()
	var s *fleetproto.Status
	for deadline := time.Now().Add(90 * time.Second); time.Now().Before(deadline); <-time.After(
		200 * time.Millisecond) {
		for epoch := int64(2); epoch >= 0; epoch-- { // the box's last one, whatever its epoch
			held, err := c.store.Fetch(c.t.Context(), fleetproto.StatusKey("centro", epoch), fleetproto.MaxJWS)
			if err != nil {
				continue
			}
			if s, err = testChain.OpenStatus(held.Data, "centro", epoch); err != nil {
				c.t.Fatal(err)
			}
			if is(s) {
				return s
			}
			break
		}
	}
	c.t.Fatalf("the status never came to it: %+v", s)
	return nil
}

// TestFleet: a branch on a real store admits what the centre rolls out through its whole gate, reports it, and
// continues to sell; once another box is enrolled it numbers nothing.
func TestFleet(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	c := b.withFleet(t)
	file := bundletest.Edition(t, "dte01/v2", "9.0.0")
	r, err := bundle.Inspect(file)
	if err != nil {
		t.Fatal(err)
	}
	rule := fleetproto.RuleOf(r, file, "00")
	c.create(fleetproto.RuleKey(rule.File), file, nil)
	now := time.Now()
	closed := []fleetproto.ClosedPoint{{Branch: "centro", Establishment: "M001", Point: "P002", Year: dte.Year(now),
		Since: 1},
		{Branch: "centro", Establishment: "M001", Point: "P001", Year: dte.Year(now) - 1, Since: 1}, {Branch: "sur",
			Establishment: "M001", Point: "P001", Year: dte.Year(now), Since: 1}}
	data, err := testChain.Seal(&fleetproto.Desired{Group: "norte", Version: 1, Issued: now,
		Expires: now.Add(time.Hour), By: "ana", Closed: closed,
		Rollout: &fleetproto.Rollout{Name: "r1", State: fleetproto.State{Rules: []fleetproto.Rule{rule}},
			Share: fleetproto.Whole, Opened: now}}, c.director)
	c.create(fleetproto.DesiredKey("norte", 1), data, err)

	// The box is not enrolled yet.
	refused := func(till int, code string) {
		t.Helper()
		if status, answer, err := b.post("/dte/dte01", till, "", hammerSale(till, 1)); err != nil ||
			status != http.StatusServiceUnavailable || !strings.Contains(string(answer), code) {
			t.Errorf("%d %v %s", status, err, answer)
		}
	}
	b.launch()
	if said := b.await(http.StatusServiceUnavailable); !strings.Contains(said, "NOT_ENROLLED") {
		t.Error(said)
	}
	refused(1, "NOT_ENROLLED")
	if said, _ := b.dtectl("doctor"); !strings.Contains(said, "has not enrolled this box") ||
		!strings.Contains(said, "nothing of this branch outlives its disk") {
		t.Error(said)
	}
	waits := c.status(func(s *fleetproto.Status) bool { return s.Epoch == 0 && !s.Ready })
	c.enrol(1, waits.Key, waits.Points[:2]...)
	b.await(http.StatusOK)
	status, answer, err := b.post("/dte/dte01", 1, "", hammerSale(1, 1))
	if err != nil || status != http.StatusCreated {
		t.Fatalf("%d %v %s", status, err, answer)
	}
	sold := decode(t, answer)
	refused(3, "NOT_ENROLLED") // the enrolment does not name its point of sale
	if said, ok := b.dtectl("doctor"); ok || !strings.Contains(said, "does not name M001P003") {
		t.Error(said)
	}
	s := c.status(func(s *fleetproto.Status) bool {
		return s.Epoch == 1 && s.Rollout != nil && (s.Rollout.Stage.Succeeded() || s.Rollout.Stage.Failed())
	})
	if s.Rollout.Stage != fleetproto.StageLive || s.Desired.Version != 1 || !s.Ready || s.Epoch != 1 ||
		len(s.Points) != 8 {
		t.Errorf("%+v %+v", s, s.Rollout)
	}
	if status, answer, err := b.post("/dte/dte01", 1, "", hammerSale(1, 2)); err != nil ||
		status != http.StatusCreated {
		t.Errorf("%d %v %s", status, err, answer)
	}
	refused(2, "POINT_OF_SALE_CLOSED")
	if said, ok := b.dtectl("audit"); !ok || !strings.Contains(said, "the chain's centre (ana)") ||
		!strings.Contains(said, rule.Name+" 9.0.0") {
		t.Error(said)
	}
	if _, metrics := b.getOps("/metrics"); !strings.Contains(string(metrics), "dte_fleet_desired_version 1") ||
		!strings.Contains(string(metrics), "dte_fleet_closed_points 7\n") || !strings.Contains(string(metrics),
		`dte_fleet_rollout_stage{stage="live"} 1`) {
		t.Error("the metrics lack the chain")
	}
	held, err := c.store.Fetch(t.Context(), fleetproto.ActKey("centro", 1), fleetproto.MaxJWS)
	if err != nil {
		t.Fatal(err)
	}
	public, err := fleetproto.DecodeKey(s.Key)
	if err != nil {
		t.Fatal(err)
	}
	if act, err := testChain.OpenAct(held.Data, "centro", 1, fleetproto.Key{Public: public}); err != nil ||
		act.What != fleetproto.ActLive || act.Digest != r.Digest {
		t.Errorf("%+v %v", act, err)
	}
	// The last point of sale that its enrolment names is closed: the branch cannot sell.
	data, err = testChain.Seal(&fleetproto.Desired{Group: "norte", Version: 2, Previous: fleetproto.Digest(data),
		Issued: now, Expires: now.Add(time.Hour), By: "ana", Closed: append(closed, fleetproto.ClosedPoint{
			Branch: "centro", Establishment: "M001", Point: "P001", Year: dte.Year(now), Since: 1}),
		Live: fleetproto.State{Rules: []fleetproto.Rule{rule}}}, c.director)
	c.create(fleetproto.DesiredKey("norte", 2), data, err)
	if s := c.status(func(s *fleetproto.Status) bool { return s.Desired.Version == 2 }); s.Ready ||
		!strings.Contains(strings.Join(s.NotReady, ""), "has closed point of sale M001P001") {
		t.Errorf("%+v", s)
	}
	if said := b.await(http.StatusServiceUnavailable); !strings.Contains(said, "POINT_OF_SALE_CLOSED") {
		t.Error(said)
	}
	b.stop()

	// Another box has the branch when this one comes back.
	c.enrol(2, fleetproto.EncodeKey(c.director.Private.Public().(ed25519.PublicKey)))
	b.launch()
	if said := b.await(http.StatusServiceUnavailable); said == "" {
		t.Error("/readyz says nothing")
	}
	replaced := func() {
		t.Helper()
		if status, answer, err := b.post("/dte/dte01", 1, "", hammerSale(1, 3)); err != nil ||
			status != http.StatusServiceUnavailable || !strings.Contains(string(answer), "BOX_REPLACED") {
			t.Errorf("%d %v %s", status, err, answer)
		}
		if status, answer, err := b.post("/dte/invalidacion/"+sold.Code, 1, "", `{"tipoAnulacion":2,"motivo":"devolvió",
			"responsable":{"nombre":"Ana Mena","tipoDocumento":"13","numDocumento":"012345678"},
			"solicita":{"nombre":"Luis Paz","tipoDocumento":"13","numDocumento":"012345678"}}`); err != nil ||
			status != http.StatusServiceUnavailable || !strings.Contains(string(answer), "BOX_REPLACED") {
			t.Errorf("%d %v %s", status, err, answer)
		}
	}
	c.status(func(s *fleetproto.Status) bool { return s.Replaced && !s.Ready })
	replaced()
	for epoch := int64(2); epoch < 4; epoch++ { // also after its key was enrolled once more
		if said, ok := b.dtectl("doctor"); ok || !strings.Contains(said, "group norte: Another box took this branch") {
			t.Errorf("epoch %d: %s", epoch, said)
		}
		c.enrol(epoch+1, waits.Key, waits.Points...)
	}
	b.stop()
}

// TestFleet_RefusedByMH: a roll-out that would change the amounts of the branch's sales is refused, unless the centre
// meant it. If MH then refuses what the rule makes, one sale of one till is enough for the box to report it in its
// status at once; the branch itself continues to sell by the rule until the centre takes it back.
func TestFleet_RefusedByMH(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	c := b.withFleet(t)
	file := bundletest.Edition(t, "dte01/v2", "9.0.0", bundletest.Param("ivaRate", "0.15"), bundletest.Refusals)
	r, err := bundle.Inspect(file)
	if err != nil {
		t.Fatal(err)
	}
	rule := fleetproto.RuleOf(r, file, "00")
	rule.FewerCases = true
	c.create(fleetproto.RuleKey(rule.File), file, nil)
	now, previous := time.Now(), ""
	order := func(version int64, rollout *fleetproto.Rollout) {
		t.Helper()
		data, err := testChain.Seal(&fleetproto.Desired{Group: "norte", Version: version, Previous: previous,
			Issued: now, Expires: now.Add(time.Hour), By: "ana", Rollout: rollout}, c.director)
		c.create(fleetproto.DesiredKey("norte", version), data, err)
		previous = fleetproto.Digest(data)
	}
	roll := func(name string) *fleetproto.Rollout {
		return &fleetproto.Rollout{Name: name, State: fleetproto.State{Rules: []fleetproto.Rule{rule}},
			Share: fleetproto.Whole, Opened: now}
	}
	sell := func(n int) string {
		t.Helper()
		status, answer, err := b.post("/dte/dte01", 1, "", hammerSale(1, n))
		if err != nil || status != http.StatusCreated {
			t.Fatalf("%d %v %s", status, err, answer)
		}
		return decode(t, answer).Estado
	}
	b.launch()
	waits := c.status(func(s *fleetproto.Status) bool { return s.Epoch == 0 })
	c.enrol(1, waits.Key, waits.Points...)
	b.await(http.StatusOK)
	sell(1)
	order(1, roll("r1"))
	s := c.status(func(s *fleetproto.Status) bool { return s.Rollout != nil && s.Rollout.Stage.Failed() })
	if !strings.Contains(s.Rollout.Reason, "it changes the amounts of 1 of the branch's last 1 sales") ||
		!strings.Contains(s.Rollout.Reason, "--amounts-change") {
		t.Errorf("%+v", s.Rollout)
	}
	rule.AmountsChange = true
	order(2, roll("r2"))
	c.status(func(s *fleetproto.Status) bool {
		return s.Rollout != nil && s.Rollout.Name == "r2" && s.Rollout.Stage == fleetproto.StageLive
	})
	if got := sell(2); got != "REJECTED" {
		t.Fatalf("MH takes a wrong rate: %s", got)
	}
	refused := func(s *fleetproto.Status) bool {
		return slices.ContainsFunc(s.Rules, func(o fleetproto.Running) bool { return o.Live && o.Outcomes.Grave() })
	}
	c.status(refused)
	order(3, nil)
	s = c.status(func(s *fleetproto.Status) bool { return s.Desired.Version == 3 && !refused(s) })
	if got := sell(3); got != "PROCESSED" || !s.Ready {
		t.Errorf("after it was taken back: %s %+v", got, s)
	}
	b.stop()
}
