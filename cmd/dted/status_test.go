package main

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/contingency"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/sign"
)

func TestRecent(t *testing.T) {
	r := new(recent)
	log := slog.New(r.over(slog.NewTextHandler(io.Discard, nil))).With("part", "store")
	log.Info("nothing to see")
	log.Warn("slow", "took", time.Second)
	log.Error("gone", "error", errors.New("no route"), "stack", "goroutine 1")
	log.Warn("slow", "took", 2*time.Second)
	got := r.troubles()
	if len(got) != 2 || got[0].Text != "slow part=store took=2s" || got[0].Count != 2 || got[0].Error ||
		got[1].Text != "gone part=store error=no route" || !got[1].Error {
		t.Errorf("%+v", got)
	}
	log.Warn("in contingency")
	log.Info("out of contingency")
	if got = r.troubles(); got[0].Ended.IsZero() || !got[1].Ended.IsZero() {
		t.Errorf("what is over: %+v", got)
	}
	if log.Warn("in contingency"); !r.troubles()[0].Ended.IsZero() {
		t.Error("a trouble that came again is over")
	}
	for i := range 3 * recentMost {
		log.Error(strings.Repeat("á", i+recentLong))
	}
	if got = r.troubles(); len(got) != recentMost || len(got[0].Text) > recentLong+len("…") ||
		!strings.HasSuffix(got[0].Text, "á…") {
		t.Errorf("%d, %q", len(got), got[0].Text)
	}
}

// TestStatusPage: the page of a branch that loses MH shows that to anybody, and nothing about customers.
func TestStatusPage(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	ends := time.Date(2031, 4, 5, 6, 7, 8, 0, time.UTC) // the key came in a certificate
	certificate, err := sign.DemoCertificate(b.key, testNIT, "clave", time.Now(), ends)
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := sign.ParseCertificate(certificate, "clave")
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := sign.Seal(key, []byte(testPassphrase))
	if err != nil {
		t.Fatal(err)
	}
	b.write("signing.jwe", sealed)
	b.start()
	defer b.stop()
	shows := func(want map[string]float64) {
		t.Helper()
		for series, v := range want {
			if got := b.metric(series); got != v {
				t.Errorf("%s is %v, want %v", series, got, v)
			}
		}
	}
	page := func() string {
		t.Helper()
		status, body := b.getOps("/?lang=es")
		if status != http.StatusOK {
			t.Fatal(status)
		}
		return string(body)
	}
	until := func(wants ...string) {
		t.Helper()
		for _, want := range wants {
			soon(t, "the page says "+want, func() bool { return strings.Contains(page(), want) })
		}
	}
	b.sold(sale01)
	until("Emite con normalidad", "Responde", "Factura (01) <b>1</b>", `class="normal"`)
	shows(map[string]float64{"dte_authority_up": 1, "dte_contingency_active": 0,
		`dte_documents_total{document="01",estado="PROCESSED"}`: 1,
		"dte_signing_certificate_expiry_timestamp_seconds":      float64(ends.Unix())})
	b.chaos(simulator.Chaos{Outage: true})
	b.sold(sale01)
	until("Emite en contingencia", "No responde", "Por reportar", "Factura (01) <b>2</b>", `<rect class="contingency"`)
	shows(map[string]float64{"dte_authority_up": 0, "dte_contingency_active": 1,
		`dte_documents_total{document="01",estado="PROCESSED"}`:    1,
		`dte_documents_total{document="01",estado="CONTINGENCIA"}`: 1, `dte_queue_records{queue="report"}`: 1})
	if got := page(); strings.Contains(got, "Ana") || strings.Contains(got, "012345678") ||
		strings.Contains(got, "ana@") {
		t.Errorf("the page tells of a customer: %s", got)
	}
	b.chaos(simulator.Chaos{})
	until("Emite con normalidad", "Responde")
	shows(map[string]float64{"dte_authority_up": 1, "dte_contingency_active": 0})
}

// TestPasswordRefused: MH refuses the password. Page, /status and doctor report it with the remedy, even while the
// branch is therefore in contingency, and none of them once MH accepts the password.
func TestPasswordRefused(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	b.chaos(simulator.Chaos{LoginCode: 106})
	b.start()
	defer b.stop()
	shows := func(path string, want ...string) {
		t.Helper()
		for _, want := range want {
			soon(t, path+" says "+want, func() bool {
				_, body := b.getOps(path)
				return strings.Contains(string(body),
					want)
			})
		}
	}
	b.sold(sale01)
	order := "systemd-creds encrypt --name=authority.password"
	shows("/?lang=es", "Hacienda rechaza la contraseña", "no es el que Hacienda tiene", order)
	shows("/status", "credentials_refused", order, "106")
	said, ok := b.dtectl("doctor")
	if ok || !strings.Contains(said, "MH refuses the credentials") || !strings.Contains(said, order) {
		t.Errorf("doctor: %v\n%s", ok, said)
	}
	b.chaos(simulator.Chaos{})
	b.stop()
	b.start()
	shows("/?lang=es", "Emite con normalidad")
	if _, body := b.getOps("/status"); !strings.Contains(string(body), `"credentials_refused": null`) {
		t.Errorf("%s", body)
	}
}

// TestDaysOfMonth: the month is El Salvador's, whole, also on its first and last day.
func TestDaysOfMonth(t *testing.T) {
	for at, want := range map[string]string{"2026-11-30T23:59:59-06:00": "2026-11-01 2026-11-30",
		"2026-12-01T05:59:59Z": "2026-11-01 2026-11-30", "2026-12-01T06:00:00Z": "2026-12-01 2026-12-31",
		"2026-12-31T12:00:00Z": "2026-12-01 2026-12-31", "2027-01-31T12:00:00Z": "2027-01-01 2027-01-31",
		"2028-02-29T12:00:00Z": "2028-02-01 2028-02-29", "2027-02-01T12:00:00Z": "2027-02-01 2027-02-28"} {
		now, err := time.Parse(time.RFC3339, at)
		if first, last := daysOfMonth(now); err != nil || first+" "+last != want {
			t.Errorf("%s: %s %s, %v", at, first, last, err)
		}
	}
}

// TestDescribeBacklog: the centre learns of the first of the four legal deadlines, in contingency too, and of each
// document that somebody must still deliver to MH, one that MH refused and that can be corrected included.
func TestDescribeBacklog(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	fields := func(b *engine.Backlog) []*time.Time {
		return []*time.Time{&b.EventDeadline, &b.DocumentDeadline, &b.CorrectionDeadline, &b.RefusedDeadline}
	}
	for i := -1; i < 4; i++ { // -1: no deadline
		for _, others := range []time.Time{{}, at.Add(time.Hour)} {
			b := new(engine.Backlog)
			b.Oldest = at.Add(-time.Hour)
			b.Waiting = map[string]int{"settle": 1, "report": 2, "event": 4, "forward": 8, "lot": 16, "invalidate": 32,
				"correct": 64}
			want := fleetproto.Status{Waiting: fleetproto.Waiting{Documents: 1 + 2 + 8 + 64, Oldest: b.Oldest}}
			if i >= 0 {
				for _, f := range fields(b) {
					*f = others
				}
				*fields(b)[i], want.Waiting.Deadline = at, at
				b.Contingency = &contingency.Period{Began: at.Add(-2 * time.Hour), Cause: 3}
				want.Contingency = &fleetproto.Contingency{Since: b.Contingency.Began, Cause: 3, Deadline: at}
			}
			var got fleetproto.Status
			if describeBacklog(&got, b); !reflect.DeepEqual(got, want) {
				t.Errorf("deadline %d, the others at %v: %+v %+v", i, others, got, got.Contingency)
			}
		}
	}
}
