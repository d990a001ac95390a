package main

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/cmd/dted/config"
	"dtegate/engine/contingency"
	records "dtegate/engine/record"
	"dtegate/gateway"
)

// wired checks that each setting of an open box reaches the part that obeys it, and that no part is forgotten.
func (d *daemon) wired(t *testing.T, cfg *config.Config) {
	t.Helper()
	cfg.Payments = map[string]string{"V": "03"}
	cfg.API.Rate, cfg.API.PublicURL, cfg.API.BrowserOrigins = 7, "https://cajas.example", []string{"https://caja.example"}
	cfg.API.RequireKey, cfg.API.UnknownCodes = true, "pass"
	cfg.Access = config.Access{Reading: "permission", Mailing: "branch"}
	cfg.Authority.Patience = config.Duration(9 * time.Second)
	cfg.Contingency = config.Contingency{Hurry: 4, Internet: []string{"192.0.2.1:53"},
		Responsible: config.Person{Name: "Ana", DocumentType: "13", Document: "012345678"}}
	in := &config.Inputs{Admin: [32]byte{1}}
	o := gatewayOptions(d, cfg, in, new(status), prometheus.NewRegistry())
	e := engineOptions(d, cfg, in, nil)
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"payment_codes", o.PaymentCodes, cfg.Payments}, {"api.require_key", o.RequireKey, true},
		{"issuer.slug", o.Slug, cfg.Issuer.Slug}, {"api.public_url", o.PublicURL, cfg.API.PublicURL},
		{"api.browser_origins", o.Origins, cfg.API.BrowserOrigins},
		{"api.rate", o.Limits, gateway.Limits{Rate: 7, Burst: 28}},
		{"access", o.Access, gateway.Access{OwnTypes: true, MailAnywhere: true}},
		{"ops.admin_token_file", o.Operators.AdminToken, in.Admin},
		{"issuer", e.Issuer, cfg.Seller()}, {"authority.patience", e.Patience, 9 * time.Second},
		{"api.unknown_codes", e.PassCodes, true}, {"contingency.hurry", e.DoubtFor, 30 * time.Second},
		{"contingency", e.Contingency, contingency.Options{Hurry: 4, Internet: cfg.Contingency.Internet,
			Responsible: records.Person(cfg.Contingency.Responsible)}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.what, c.got, c.want)
		}
	}
	cfg.Access, cfg.API.RequireKey, cfg.API.UnknownCodes = config.Access{Reading: "branch", Mailing: "permission"}, false,
		"refuse"
	if o := gatewayOptions(d, cfg, in, new(status), prometheus.NewRegistry()); o.RequireKey || o.Access !=
		(gateway.Access{}) || engineOptions(d, cfg, in, nil).PassCodes {
		t.Errorf("as a box without these settings: %v %+v", o.RequireKey, o.Access)
	}
	var missing []string
	for _, part := range []any{o, o.Operators, e} {
		for field, v := range reflect.ValueOf(part).Fields() {
			if v.IsZero() {
				missing = append(missing, field.Name)
			}
		}
	}
	// Defaults; the two listeners of this box speak plain HTTP; nothing is delivered; no client was given above.
	want := []string{"APITLS", "OpsTLS", "Deadline", "Signer", "Authority", "Rand", "RecoverEvery", "Delivery"}
	if missing = slices.DeleteFunc(missing, func(n string) bool { return slices.Contains(want, n) }); len(missing) > 0 {
		t.Error(fmt.Sprint("nothing is given for ", missing))
	}
}
