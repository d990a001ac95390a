package main

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/archive/archivetest"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/bucket"
	"dtegate/engine/fleet/wire"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
)

// chain is the centre of a test, on a real store.
type chain struct {
	t        *testing.T
	store    bucket.Bucket
	director wire.Signer
}

// withFleet makes a branch that has not started one of a chain.
func (b *branch) withFleet(t *testing.T) *chain {
	t.Helper()
	s := archivetest.StartOther(t)
	c := &chain{t: t, director: wire.Signer{ID: "director", Private: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))}}
	public, err := bundle.MarshalPublic(c.director.Private.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	b.write("director.pub.pem", public)
	b.write("fleet.secret", []byte(archivetest.Secret+"\n"))
	b.section(fmt.Sprintf("[fleet]\nbranch = \"centro\"\ngroup = \"norte\"\ndirector_key = \"director.pub.pem\"\npoll = \"15s\"\n"+
		"store = {endpoint = %q, bucket = %q, access_key = %q, secret_file = \"fleet.secret\", path_style = true}\n", s.Endpoint(), archivetest.Bucket, archivetest.Access))
	a, err := archive.New(archive.Options{Endpoint: s.Endpoint(), Bucket: archivetest.Bucket, AccessKey: archivetest.Access, Secret: archivetest.Secret, PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	c.store = bucket.New(a)
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

func (c *chain) enrol(epoch int64, key string) {
	c.t.Helper()
	data, err := wire.SealEnrolment(wire.Enrolment{Branch: "centro", Epoch: epoch, Key: key, At: time.Now(), By: "ana"}, c.director)
	c.create(wire.BoxKey("centro", epoch), data, err)
}

// status waits until the branch's status is as it should be.
func (c *chain) status(is func(*wire.Status) bool) *wire.Status {
	c.t.Helper()
	var s *wire.Status
	for deadline := time.Now().Add(90 * time.Second); time.Now().Before(deadline); <-time.After(200 * time.Millisecond) {
		held, err := c.store.Get(c.t.Context(), wire.StatusKey("centro"), wire.MaxJWS)
		if err != nil {
			continue
		}
		if s, err = wire.OpenStatus(held.Data, "centro"); err != nil {
			c.t.Fatal(err)
		}
		if is(s) {
			return s
		}
	}
	c.t.Fatalf("the status never came to it: %+v", s)
	return nil
}

// TestFleet: a branch on a real store takes what the centre rolls out by the whole gate, says so, and sells on; once another box is
// enrolled it numbers nothing.
func TestFleet(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	c := b.withFleet(t)
	file := bundletest.Edition(t, "dte01/v2", "9.0.0")
	r, err := bundle.Inspect(file)
	if err != nil {
		t.Fatal(err)
	}
	m := r.Manifest
	rule := wire.Rule{File: wire.Digest(file), Digest: r.Digest, Name: m.Name, Version: m.Version, Bundle: m.Kind, Document: m.Document, Schema: m.Schema}
	c.create(wire.RuleKey(rule.File), file, nil)
	now := time.Now()
	closed := []wire.ClosedPoint{{Branch: "centro", Establishment: "M001", Point: "P002", Year: dte.Year(now), Since: 1},
		{Branch: "centro", Establishment: "M001", Point: "P001", Year: dte.Year(now) - 1, Since: 1}, {Branch: "sur", Establishment: "M001", Point: "P001", Year: dte.Year(now), Since: 1}}
	data, err := wire.SealDesired(wire.Desired{Group: "norte", Version: 1, Issued: now, Expires: now.Add(time.Hour), By: "ana", Closed: closed,
		Rollout: &wire.Rollout{Name: "r1", State: wire.State{Rules: []wire.Rule{rule}}, Share: wire.Whole, Opened: now}}, c.director)
	c.create(wire.DesiredKey("norte", 1), data, err)

	b.start()
	if status, answer, err := b.post("/dte/dte01", 1, "", hammerSale(1, 1)); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %v %s", status, err, answer)
	}
	s := c.status(func(s *wire.Status) bool {
		return s.Rollout != nil && (s.Rollout.Stage.Succeeded() || s.Rollout.Stage.Failed())
	})
	if s.Rollout.Stage != wire.StageLive || s.Desired.Version != 1 || !s.Ready || s.Today != 1 || s.Epoch != 0 || len(s.Points) != 8 {
		t.Errorf("%+v %+v", s, s.Rollout)
	}
	if status, answer, err := b.post("/dte/dte01", 1, "", hammerSale(1, 2)); err != nil || status != http.StatusCreated {
		t.Errorf("%d %v %s", status, err, answer)
	}
	if status, answer, err := b.post("/dte/dte01", 2, "", hammerSale(2, 1)); err != nil || status != http.StatusServiceUnavailable || !strings.Contains(string(answer), "POINT_OF_SALE_CLOSED") {
		t.Errorf("%d %v %s", status, err, answer)
	}
	if said, ok := b.dtectl("audit"); !ok || !strings.Contains(said, "the chain's centre (ana)") || !strings.Contains(said, m.Name+" 9.0.0") {
		t.Error(said)
	}
	if _, metrics := b.getOps("/metrics"); !strings.Contains(string(metrics), "dte_fleet_desired_version 1") || !strings.Contains(string(metrics), "dte_fleet_closed_points 1\n") || !strings.Contains(string(metrics), `dte_fleet_rollout_stage{stage="live"} 1`) {
		t.Error("the metrics lack the chain")
	}
	held, err := c.store.Get(t.Context(), wire.ActKey("centro", 1), wire.MaxJWS)
	if err != nil {
		t.Fatal(err)
	}
	public, err := wire.DecodeKey(s.Key)
	if err != nil {
		t.Fatal(err)
	}
	if act, err := wire.OpenAct(held.Data, "centro", 1, wire.Key{Public: public}); err != nil || act.What != wire.ActLive || act.Digest != r.Digest {
		t.Errorf("%+v %v", act, err)
	}
	if said, _ := b.dtectl("doctor"); !strings.Contains(said, "no box is enrolled") || !strings.Contains(said, "nothing of this branch outlives its disk") {
		t.Error(said)
	}
	b.stop()

	// Another box has the branch by the time that this one comes back.
	c.enrol(1, s.Key)
	c.enrol(2, wire.EncodeKey(c.director.Private.Public().(ed25519.PublicKey)))
	b.launch()
	if said := b.await(http.StatusServiceUnavailable); said == "" {
		t.Error("/readyz says nothing")
	}
	replaced := func() {
		t.Helper()
		if status, answer, err := b.post("/dte/dte01", 1, "", hammerSale(1, 3)); err != nil || status != http.StatusServiceUnavailable || !strings.Contains(string(answer), "BOX_REPLACED") {
			t.Errorf("%d %v %s", status, err, answer)
		}
	}
	c.status(func(s *wire.Status) bool { return s.Replaced && !s.Ready })
	replaced()
	if said, ok := b.dtectl("doctor"); ok || !strings.Contains(said, "another box has it (epoch 2") {
		t.Error(said)
	}
	b.stop()
}
