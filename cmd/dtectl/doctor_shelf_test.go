package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"dtegate/engine"
	"dtegate/storage"
)

// shelve puts a record of rules into a stopped store, as the engine does.
func (p *patient) shelve(number byte, state storage.State, head any) {
	p.t.Helper()
	b, err := json.Marshal(head)
	p.must(err)
	s := p.store()
	_, err = s.Append(context.Background(), storage.Keys{Series: "00/reglas"}, func(storage.Slot) (storage.Draft, error) {
		return storage.Draft{Code: storage.Code{number}, State: state, Head: b, Due: &storage.Due{Queue: "rules", At: p.now}}, nil
	})
	p.must(err, s.Close())
}

func (d *doctor) says(status, check, what string) bool {
	for _, f := range d.findings {
		if f.Status == status && f.Check == check && strings.Contains(f.What, what) {
			return true
		}
	}
	return false
}

// What is on the shelf counts, not the folder; and what was taken off it does not.
func TestDoctor_Shelf(t *testing.T) {
	p := newPatient(t)
	bundle := func(document, digest, until string) engine.Admitted {
		return engine.Admitted{RuleRef: engine.RuleRef{Name: "dte" + document, Version: "1.0.0", Digest: digest}, Kind: "document", Document: document, From: p.day(-30), Until: until}
	}
	p.shelve(1, 64, bundle("03", "a", ""))
	p.shelve(2, 64, bundle("05", "b", p.day(9)))
	p.shelve(3, 64, bundle("06", "c", ""))
	p.shelve(4, 64, engine.Admitted{RuleRef: engine.RuleRef{Digest: "d"}, Kind: "catalogue", From: p.day(-30)})
	p.shelve(5, 65, engine.StepBack{Way: "rollback", To: engine.RuleRef{Digest: "a"}, Off: []engine.RuleRef{{Digest: "c"}}})
	p.must(os.Remove(p.at("rules/dte01.dterule")))
	d := p.examine()
	if !d.says(statusOK, "rules", "valid today: document 03, document 05") || d.says(statusOK, "rules", "document 06") ||
		!d.says(statusWarn, "rules", "document 05: ends on "+p.day(9)) || d.count(statusFail) > 0 {
		t.Errorf("%+v", d.findings)
	}
}

// A running appliance is asked.
func TestDoctor_Running(t *testing.T) {
	p := newPatient(t)
	ready := http.StatusOK
	appliance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/readyz":
			w.WriteHeader(ready)
			fmt.Fprintln(w, map[bool]string{true: "ok", false: "CLOCK_WRONG: atrasado"}[ready == http.StatusOK])
		case r.Header.Get("Authorization") != "Bearer secret":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			fmt.Fprintf(w, `{"rules":[{"kind":"document","document":"01","from":%q},{"kind":"document","document":"03","from":%q,"off":{"way":"rollback"}}]}`, p.day(-1), p.day(-1))
		}
	}))
	t.Cleanup(appliance.Close)
	p.cfg.Ops.Listen = strings.TrimPrefix(appliance.URL, "http://")
	look := func() *doctor {
		d := &doctor{cfg: p.cfg, now: func() time.Time { return p.now }}
		d.running(context.Background())
		d.rules()
		return d
	}
	if d := look(); !d.says(statusOK, "appliance", "can issue") || !d.says(statusOK, "rules", "valid today: document 01") || d.count(statusFail) > 0 {
		t.Errorf("%+v", d.findings)
	}
	ready = http.StatusServiceUnavailable
	if d := look(); !d.says(statusFail, "appliance", "CLOCK_WRONG") {
		t.Errorf("%+v", d.findings)
	}
	appliance.Close()
	if d := look(); !d.says(statusFail, "appliance", "does not answer") {
		t.Errorf("%+v", d.findings)
	}
}

// The reserve is the configuration's; a clock that is far ahead is accepted by hand.
func TestDoctor_DiskAndClock(t *testing.T) {
	p := newPatient(t)
	p.configure("tokens =", "disk_reserve = \"4000000TiB\"\ntokens =")
	if d := p.examine(); !d.says(statusFail, "disk", "below disk_reserve") {
		t.Errorf("%+v", d.findings)
	}
	s := p.store()
	p.must(s.Beat(p.now.AddDate(0, 0, -40)), s.Close())
	if d := p.examine(); !d.says(statusWarn, "clock", "40 days after") {
		t.Errorf("%+v", d.findings)
	}
	text, err := output(t, func() error { return (&clockAccept{}).Run(p.top) })
	if err != nil || !strings.Contains(text, "taken for right") {
		t.Errorf("%q, %v", text, err)
	}
	if d := p.examine(); d.says(statusWarn, "clock", "days after") {
		t.Errorf("%+v", d.findings)
	}
}
