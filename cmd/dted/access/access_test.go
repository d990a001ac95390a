package access

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/cmd/dted/config"
	"dtegate/gateway/adminapi"
	"dtegate/gateway/certificate"
)

// TestChanges: the trail names each change of the token file, whoever made it, and nothing that did not change.
func TestChanges(t *testing.T) {
	at := time.Unix(1_800_000_000, 0).UTC()
	sound := config.Token{ID: 7, Name: "caja", Hash: "a", Point: 1, Permissions: []string{"A"}}
	for name, c := range map[string]struct {
		alter func(*config.Token)
		want  string
	}{
		"nothing":           {func(*config.Token) {}, ""},
		"its name":          {func(k *config.Token) { k.Name = "otra" }, ""},
		"its hash, by hand": {func(k *config.Token) { k.Hash = "b" }, "token.changed 7 by somebody"},
		"its point":         {func(k *config.Token) { k.Point = 2 }, "token.changed 7 by somebody"},
		"its permissions":   {func(k *config.Token) { k.Permissions = []string{"A", "B"} }, "token.changed 7 by somebody"},
		"its former hash":   {func(k *config.Token) { k.PreviousHash = "b" }, "token.changed 7 by somebody"},
		"rotated": {func(k *config.Token) { k.Hash, k.Rotated, k.RotatedBy = "b", at, "eva" },
			"token.rotate 7 by eva"},
		"rotated by nobody": {func(k *config.Token) { k.Hash, k.Rotated = "b", at }, "token.rotate 7 by somebody"},
		"revoked": {func(k *config.Token) { k.Hash, k.Revoked, k.RevokedBy = "", at, "leo" },
			"token.revoke 7 by leo"},
		"revoked after a rotation": {func(k *config.Token) { k.Rotated, k.RotatedBy, k.Revoked = at, "eva", at },
			"token.revoke 7 by somebody"},
		"replaced": {func(k *config.Token) { k.ID, k.MadeBy = 12, "ana" },
			"token.removed 7 by somebody, token.new 12 by ana"},
		"made by hand": {func(k *config.Token) { k.ID = 12 },
			"token.removed 7 by somebody, token.new 12 by somebody"},
	} {
		k := sound
		k.Permissions = slices.Clone(sound.Permissions)
		c.alter(&k)
		file := &config.TokenFile{Tokens: []config.Token{k}}
		acts := changes(map[string]string{"7": mark(&sound)}, map[string]string{fmt.Sprint(k.ID): mark(&k)}, file)
		var got []string
		for _, act := range acts {
			got = append(got, act.What+" "+act.Target+" by "+act.Who)
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	sound.Rotated, sound.RotatedBy = at, "eva"
	later := sound
	for was, want := range map[string]string{mark(&sound): "token.changed somebody", "as 1.0 marked it": "token.rotate eva"} {
		later.Permissions = []string{"A", "B"}
		acts := changes(map[string]string{"7": was}, map[string]string{"7": mark(&later)},
			&config.TokenFile{Tokens: []config.Token{later}})
		if len(acts) != 1 || acts[0].What+" "+acts[0].Who != want {
			t.Errorf("a permission by hand, after a rotation: %+v, want %s", acts, want)
		}
	}
	acts := changes(nil, map[string]string{"7": "x"}, &config.TokenFile{Tokens: []config.Token{sound, sound}})
	if len(acts) != 1 || acts[0].What != "token.found" || acts[0].Detail != "2 tokens" {
		t.Errorf("a trail that knows no token: %+v", acts)
	}
}

// TestTable: the gateway gets each active token at its point of sale, and the former token of a rotation until its
// grace ends; of a file that names another point of sale it gets nothing.
func TestTable(t *testing.T) {
	cfg := &config.Config{Branch: config.Branch{ID: 3}, Points: []config.Point{{ID: 1, Establishment: "M001",
		PointOfSale: "P001"}}}
	file := &config.TokenFile{Secret: config.Secret()}
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for range 2 {
		if _, _, err := file.Add(cfg, "caja", 1, []string{"ANULACION"}, "ana", now); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := file.Rotate(1, time.Hour, "eva", now); err != nil {
		t.Fatal(err)
	}
	shape := func() (text string) {
		list, err := listed(cfg, file)
		for _, k := range list {
			text += fmt.Sprintf("%d at %d of %d %v until %v, ", k.ID, k.Point.ID, k.Point.BranchID, k.Permissions,
				k.Until.Sub(now) == time.Hour)
			if hex.EncodeToString(k.Hash[:]) != file.Tokens[k.ID-1].Hash && k.Until.IsZero() {
				text += "of another hash, "
			}
		}
		return text + fmt.Sprint(err)
	}
	const first = "1 at 1 of 3 [ANULACION] until false, 1 at 1 of 3 [ANULACION] until true, "
	if got := shape(); got != first+"2 at 1 of 3 [ANULACION] until false, <nil>" {
		t.Errorf("two tokens, of which one was rotated with a grace: %s", got)
	}
	if _, err := file.Revoke(2, "leo", now); err != nil || shape() != first+"<nil>" {
		t.Errorf("one of them revoked: %s, %v", shape(), err)
	}
	cfg.Points[0].ID = 9
	if _, err := tokens(cfg, file); err == nil {
		t.Error("a token of an unknown point of sale")
	}
	for err, want := range map[error]error{config.ErrNoToken: adminapi.ErrNoToken,
		errors.New("x"): adminapi.ErrTokenFault} {
		if got := fault(fmt.Errorf("finding: %w", err)); !errors.Is(got, want) || !errors.Is(got, err) {
			t.Errorf("%v is %v", err, got)
		}
	}
}

// TestCertificates: the centre learns when each certificate ends: the signing key's, those of encrypted listeners, and
// the own authority's. A fault of one is logged once, counted until it ends, and logged again when it comes back.
func TestCertificates(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	own := &certificate.Own{Folder: filepath.Join(t.TempDir(), "tls"), Now: func() time.Time { return now },
		Write: config.WriteFile}
	if err := own.Create(); err != nil {
		t.Fatal(err)
	}
	keeper, err := certificate.Open(own.ServerFile(), own.ServerFile())
	if err != nil {
		t.Fatal(err)
	}
	authority, err := own.Authority()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	a := &Control{cfg: new(config.Config), log: slog.New(slog.NewTextHandler(&log, nil)), signing: now.Add(time.Hour),
		lan: lan{own: own, keepers: map[string]*certificate.Keeper{"api": keeper}, said: make(map[string]string),
			damaged: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "damaged"}, []string{"certificate"})}}
	shown := func() (list []string) {
		for _, c := range a.Certificates() {
			list = append(list, c.Name+" "+c.Ends.Format(time.RFC3339))
		}
		return list
	}
	want := []string{"signing " + a.signing.Format(time.RFC3339), "api " + keeper.Expiry().Format(time.RFC3339),
		"ca " + authority.NotAfter.Format(time.RFC3339)}
	if got := shown(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if a.TLS("ops") != nil || a.TLS("api") == nil {
		t.Error("a listener without a certificate is encrypted, or one with it is not")
	}
	if a.signing, a.lan.own = (time.Time{}), nil; !slices.Equal(shown(), want[1:2]) {
		t.Errorf("without a signing certificate and an authority: %q", shown())
	}
	bad := errors.New("bad")
	for i, step := range []struct {
		err    error
		logged int
	}{{nil, 0}, {bad, 1}, {bad, 1}, {errors.New("worse"), 2}, {nil, 2}, {bad, 3}} {
		a.tell("api", step.err)
		a.tell("ops", nil)
		values := metrictest.Values(t, a.lan.damaged)
		if n := strings.Count(log.String(), "level=ERROR"); n != step.logged || (values["damaged/api"] == 1) !=
			(step.err != nil) || values["damaged/ops"] != 0 {
			t.Errorf("step %d: %d lines, %v", i, n, values)
		}
	}
}
