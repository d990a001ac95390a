package doctor

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/engine/contingency"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/record"
	"dtegate/storage"
)

// Each trouble that a running appliance reports is a finding of its own, and the only one.
func TestDoctor_Status(t *testing.T) {
	p := newPatient(t)
	long, now := p.now.AddDate(0, -1, 0), p.now
	whole := func() *storage.SecondCopy {
		return &storage.SecondCopy{Live: true, Scrub: storage.Scrub{Last: now, Segments: 9}}
	}
	var shown adminclient.Status
	appliance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(shown)
	}))
	t.Cleanup(appliance.Close)
	p.Config.Ops.Listen = strings.TrimPrefix(appliance.URL, "http://")
	p.Config.SecondCopy = "card"
	for name, c := range map[string]struct {
		harm                func(s *adminclient.Status)
		status, check, says string
	}{
		"well": {func(*adminclient.Status) {},
			statusOK, "shipping", "everything that a rebuild would read was found"},
		"password": {func(s *adminclient.Status) { s.Refused = &struct{ Why, Do string }{"expired", "a\nb"} },
			statusFail, "authority", "expired; sales go on"},
		"table damaged": {func(s *adminclient.Status) { s.Read.Damaged = 2 },
			statusFail, "store", "2 tables are damaged"},
		"not read": {func(s *adminclient.Status) { s.Read.At = long },
			statusWarn, "store", "last read through on"},
		"mark lost": {func(s *adminclient.Status) { s.Proved = &long },
			statusFail, "mark", "the next start will refuse"},
		"no backup": {func(s *adminclient.Status) { s.Backup = new(time.Time) },
			statusWarn, "backup", "no checked backup"},
		"old backup": {func(s *adminclient.Status) { s.Backup = &long },
			statusWarn, "backup", "no backup for three days"},
		"lost record": {func(s *adminclient.Status) { s.Owed.LostRecords[0].Why = "torn" },
			statusWarn, "lost", ": torn"},
		"second lost record": {func(s *adminclient.Status) {
			s.Owed.LostRecords = []record.Lost{{Number: 7, Why: "torn"}, {Number: 8, Why: "gone"}}
		}, statusWarn, "lost", ": gone"},
		"copy not live": {func(s *adminclient.Status) { s.Copy.Live, s.Copy.Why = false, "gone" },
			statusFail, "second copy", ": gone"},
		"copy bad": {func(s *adminclient.Status) { s.Copy.Scrub.Bad = []string{"7: torn"} },
			statusFail, "second copy", "7: torn"},
		"copy mended": {func(s *adminclient.Status) { s.Copy.Scrub.Found = 3 },
			statusWarn, "second copy", "3 bad segments"},
		"copy not read": {func(s *adminclient.Status) { s.Copy.Scrub.Last = long },
			statusWarn, "second copy", "last read through on"},
		"copy new": {func(s *adminclient.Status) { s.Copy.Scrub.Last = time.Time{} },
			statusOK, "second copy", "not read through yet"},
		"store lost it": {func(s *adminclient.Status) { s.Shipped.Lacks, s.Shipped.Why = "pieces 2", "x" },
			statusFail, "shipping", "lost pieces 2"},
		"not shipped": {func(s *adminclient.Status) { s.Shipped.Why, s.Shipped.Behind = "slow", 8 },
			statusWarn, "shipping", "8 changes are not in the chain's store: slow"},
		"never checked": {func(s *adminclient.Status) { s.Shipped.Checked = time.Time{} },
			statusOK, "shipping", "the second copy is shipped, sync"},
		"ship not set": {func(*adminclient.Status) { p.Config.Fleet.Ship = "" },
			statusWarn, "shipping", "outlives the box and its media"},
		"no second copy": {func(*adminclient.Status) { p.Config.Fleet.Ship, p.Config.SecondCopy = "", "" },
			statusWarn, "shipping", "outlives its disk"},
	} {
		t.Run(name, func(t *testing.T) {
			p.Config.Fleet, p.Config.SecondCopy = &config.Fleet{Ship: "sync"}, "card"
			shown = adminclient.Status{Read: &storage.Reading{At: now}, Proved: &now, Backup: &now, Copy: whole(),
				Shipped: &fleetproto.Shipped{Checked: now},
				Owed:    contingency.Backlog{LostRecords: []record.Lost{{Series: "00/01", Number: 7}}}}
			c.harm(&shown)
			if shown.Owed.LostRecords[0].Why == "" {
				shown.Owed.LostRecords = nil
			}
			d := &doctor{cfg: p.Config, now: func() time.Time { return p.now }}
			d.runningStatus(context.Background())
			d.shipping(context.Background())
			if !d.says(c.status, c.check, c.says) {
				t.Errorf("%+v", d.findings)
			}
			for _, f := range d.findings {
				same, well := f.Check == c.check, f.Status == statusOK
				if !well && !same || well && same && c.status != statusOK && f.Check != "store" {
					t.Errorf("also %+v", f)
				}
			}
		})
	}
}

// A stopped box of which MH or the archive knows more numbers says so, and where its mark lies.
func TestDoctor_HeldAndMark(t *testing.T) {
	p := newPatient(t)
	s := p.Store()
	p.Must(s.Hold([]storage.Witness{{Medium: "MH", Path: "YA EXISTE", Outside: true,
		Series: []storage.Lead{{Series: "00/01/M001/P001/2026", Here: 4, There: 5}}}}), s.Close())
	if d := p.examine(); !d.says(statusFail, "store", "nothing is numbered: ") {
		t.Errorf("%+v", d.findings)
	}
	for mark, status := range map[string]string{p.Config.Mark: statusWarn, "/proc/mark": statusOK} {
		cfg := *p.Config
		cfg.Mark = mark
		d := &doctor{cfg: &cfg, now: func() time.Time { return p.now }}
		if d.disk(); !d.says(status, "mark", "") {
			t.Errorf("a mark at %s: %+v", mark, d.findings)
		}
	}
}
