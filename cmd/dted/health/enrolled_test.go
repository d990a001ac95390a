package health

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// Each reason why a box of a chain does not number has its own words: they decide what a person does.
func TestCheckEnrolled(t *testing.T) {
	for _, c := range []struct {
		s                 fleet.Standing
		code, en, es, not string // not: words that would be false
	}{
		{fleet.Standing{Epoch: 1, Highest: 1}, "", "", "", ""},
		{fleet.Standing{}, refusal.CodeNotEnrolled, "has not enrolled this box", "no ha inscrito", ""},
		{fleet.Standing{Highest: 2, Replaced: true}, refusal.CodeBoxReplaced, "this box was never enrolled",
			"este no está inscrito", "any more"},
		{fleet.Standing{Epoch: 1, Highest: 2, Replaced: true}, refusal.CodeBoxReplaced,
			"took this branch after epoch 1", "tomó esta sucursal", "copy"},
		// the centre has enrolled this box's key once more: no other box has the branch now
		{fleet.Standing{Epoch: 1, Highest: 3, Replaced: true}, refusal.CodeBoxReplaced,
			"until this box is recovered and has another key", "tomó esta sucursal", "has this branch"},
		{fleet.Standing{Epoch: 1, Highest: 1, Replaced: true, Cloned: true}, refusal.CodeBoxReplaced,
			"Another copy of this box", "otra copia de este equipo", "Another box"},
		{fleet.Standing{Behind: "this store lacks"}, refusal.CodeStoreBehind, "this store lacks", "le faltan documentos",
			""},
		{fleet.Standing{Epoch: 1, Highest: 1, Points: []fleetproto.Point{{}}, Behind: "at one"}, "", "", "", ""},
	} {
		err := CheckEnrolled(c.s)
		if c.code == "" {
			if err != nil {
				t.Errorf("%+v: %v", c.s, err)
			}
			continue
		}
		if err == nil || err.Code != c.code || !strings.Contains(err.English, c.en) ||
			!strings.Contains(err.Message, c.es) || c.not != "" && strings.Contains(err.English, c.not) {
			t.Errorf("%+v: %+v", c.s, err)
		}
	}
}

// TestGate_BehindImage: a store that is behind its media, or lost its last rows, also lacks numbers of the box's last
// status. It is to be recovered; the box needs no other key.
func TestGate_BehindImage(t *testing.T) {
	fence := new(fleet.Fence)
	fence.Close()
	for _, c := range []struct {
		code   string
		behind []storage.Witness
		health error
	}{
		{refusal.CodeBoxReplaced, nil, nil},
		{refusal.CodeStoreBehind, []storage.Witness{{Medium: storage.WitnessMark}}, nil},
		{refusal.CodeUnavailable, nil, errors.New("the numbers are not settled")},
		{refusal.CodeBoxReplaced, nil, storage.ErrTables}, // it lost nothing, and still takes changes
	} {
		g := &Gate{behind: func() []storage.Witness { return c.behind }, health: func() error { return c.health },
			Fence: fence}
		var refused *refusal.Error
		if err := g.Check(); !errors.As(err, &refused) || refused.Code != c.code {
			t.Errorf("%v, %+v", err, c)
		}
	}
}

// TestCheckPoint: a box numbers at the points of sale of its enrolment; one that the centre has closed is free again
// when the year ends in El Salvador.
func TestCheckPoint(t *testing.T) {
	box := fleetproto.Signer{ID: "box", Private: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	chain := fleetproto.Chain{Name: "c", Ambiente: "00"}
	points := []fleetproto.Point{{Establishment: "M001", Point: "P001"}, {Establishment: "M001", Point: "P002"}}
	closed := fleetproto.ClosedPoint{Branch: "centro", Establishment: "M001", Point: "P002", Year: 2026, Since: 1}
	state, err := json.Marshal(map[string]any{"branch": "centro", "group": "norte", "chain": chain,
		"key":      fleetproto.EncodeKey(fleetproto.Public(box).Public),
		"closed":   []fleetproto.ClosedPoint{closed},
		"enrolled": map[string]any{"highest": 1, "own": 1, "points": points}})
	if err != nil {
		t.Fatal(err)
	}
	disk, sum := &fleettest.File{}, sha256.Sum256(state)
	if err := disk.Save(append([]byte(hex.EncodeToString(sum[:])+"\n"), state...)); err != nil {
		t.Fatal(err)
	}
	agent, err := fleet.New(fleet.Options{Chain: chain, Branch: "centro", Group: "norte", Box: box, State: disk,
		Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	year := time.Date(2027, 1, 1, 0, 0, 0, 0, dte.Zone)
	for _, c := range []struct {
		point string
		at    time.Time
		code  string
	}{
		{"P001", year.Add(-time.Second), ""},
		{"P001", year, ""},
		{"P002", year.AddDate(0, -6, 0), refusal.CodePointClosed},
		{"P002", year.Add(-6 * time.Hour).UTC(), refusal.CodePointClosed}, // the year has ended in Greenwich
		{"P002", year.Add(-time.Second).UTC(), refusal.CodePointClosed},
		{"P002", year.Add(15*time.Minute - time.Second), refusal.CodePointClosed}, // by MH's clock it may have not
		{"P002", year.Add(15 * time.Minute).UTC(), ""},
		{"P003", year, refusal.CodeNotEnrolled},
	} {
		err := CheckPoint(agent, record.Point{Establishment: "M001", PointOfSale: c.point}, c.at)
		e := new(refusal.Error)
		if err != nil && !errors.As(err, &e) || e.Code != c.code || err != nil && !strings.Contains(e.English,
			"M001"+c.point) {
			t.Errorf("%s at %v: %v", c.point, c.at, err)
		}
	}
	if err := CheckPoint(nil, record.Point{}, year); err != nil {
		t.Errorf("a box of no chain: %v", err)
	}
	state = bytes.Replace(state, []byte(`"highest":1,`), []byte(`"highest":1,"behind":"it lacks 7 of M001P003",`), 1)
	sum = sha256.Sum256(state)
	if err := disk.Save(append([]byte(hex.EncodeToString(sum[:])+"\n"), state...)); err != nil {
		t.Fatal(err)
	}
	if agent, err = fleet.New(fleet.Options{Chain: chain, Branch: "centro", Group: "norte", Box: box, State: disk,
		Logger: slog.New(slog.DiscardHandler), Now: time.Now}); err != nil {
		t.Fatal(err)
	}
	for point, want := range map[string]string{"P001": "", "P002": refusal.CodePointClosed,
		"P003": refusal.CodeStoreBehind} {
		e := new(refusal.Error)
		err := CheckPoint(agent, record.Point{Establishment: "M001", PointOfSale: point}, year.AddDate(0, -6, 0))
		if errors.As(err, &e); e.Code != want || want == refusal.CodeStoreBehind && e.English != "it lacks 7 of M001P003" {
			t.Errorf("a box that is behind at %s: %+v", point, err)
		}
	}
}

// TestGate_Guard: a gate goes on from the store's last time, and remembers since when the store was unsure.
func TestGate_Guard(t *testing.T) {
	now := time.Unix(1_800_000_000, 0).UTC()
	store, _ := newStore(t, func() time.Time { return now })
	for _, c := range []struct {
		unsure, stored time.Time
		now            time.Time
		right          bool
	}{{time.Time{}, now, now, true}, {now.Add(-72 * time.Hour), now.Add(-72 * time.Hour), now, true},
		{time.Time{}, now, now.Add(-time.Hour), false}} {
		g := new(Gate)
		err := errors.Join(store.Beat(now, c.unsure), g.Guard(store, func() time.Time { return c.now },
			slog.New(slog.DiscardHandler)))
		if err != nil || !g.Stored.Equal(c.stored) || (g.clock.Check() == nil) != c.right || g.health() != nil ||
			len(g.behind()) > 0 {
			t.Errorf("%+v: stored %v, %v", c, g.Stored, err)
		}
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
