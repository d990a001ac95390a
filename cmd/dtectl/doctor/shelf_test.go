package doctor

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/dtectl/disk"
	"dtegate/cmd/dtectl/workshop"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// bundle makes a signed bundle of one document.
func (p *patient) bundle(keyFile, kind, document string, w bundle.Window) []byte {
	p.T.Helper()
	b, err := os.ReadFile(p.At(keyFile))
	p.Must(err)
	private, err := bundle.ParsePrivate(b)
	p.Must(err)
	parts := map[string][]byte{"schema.json": []byte("{}"), "overlay.json": []byte("{}"), "module.wasm": []byte("wasm")}
	if kind == "catalogue" {
		parts = map[string][]byte{"catalogues.json": []byte("{}")}
	}
	data, err := bundle.Write(parts, bundle.Manifest{Name: "dte" + document, Version: "1.0.0", Kind: kind,
		Document: document, Schema: 2, ABI: 1,
		Validity: map[string]bundle.Window{"00": w}}, bundle.Signer{ID: "central-it", Private: private})
	p.Must(err)
	return data
}

// shelve writes the record of a rule into a stopped store, as the engine does; stored are the record's bytes.
func (p *patient) shelve(data, stored []byte) record.RuleRef {
	p.T.Helper()
	b, err := bundle.Inspect(data)
	p.Must(err)
	m := b.Manifest
	ref := record.RuleRef{Name: m.Name, Version: m.Version, Digest: b.Digest}
	digest, err := hex.DecodeString(b.Digest)
	p.Must(err)
	p.record(storage.Code(digest[:16]), 64, rulestore.Admitted{RuleRef: ref, Kind: m.Kind, Document: m.Document,
		Schema: m.Schema, From: m.Validity["00"].From,
		Until: m.Validity["00"].Until}, storage.Part{Name: "bundle", Data: stored})
	return ref
}

func (p *patient) record(code storage.Code, state storage.State, head any, parts ...storage.Part) {
	p.T.Helper()
	b, err := json.Marshal(head)
	p.Must(err)
	s := p.Store()
	_, err = s.Append(context.Background(), storage.Keys{Series: "00/reglas"}, storage.Draft{Code: code, State: state,
		Head: b, Parts: parts, Due: &storage.Due{Queue: "rules", At: p.now}})
	p.Must(err, s.Close())
}

func failures(list []term.Finding) (n int) {
	for _, f := range list {
		if f.Status == statusFail {
			n++
		}
	}
	return n
}

func (d *doctor) says(status, check, what string) bool {
	for _, f := range d.findings {
		if f.Status == status && f.Check == check && strings.Contains(f.What, what) {
			return true
		}
	}
	return false
}

// The shelf counts, not the folder; bundles that were taken off do not count.
func TestDoctor_Shelf(t *testing.T) {
	p := newPatient(t)
	put := func(kind, document, until string) record.RuleRef {
		data := p.bundle("rules.key", kind, document, bundle.Window{From: p.day(-30), Until: until})
		return p.shelve(data, data)
	}
	kept := put("document", "03", "")
	put("document", "05", p.day(9))
	off := put("document", "06", "")
	put("catalogue", "catalogues", "")
	p.record(storage.Code{5}, 65, rulestore.StepBack{Way: "rollback", To: kept, Off: []record.RuleRef{off}})
	p.Must(os.Remove(p.At("rules/dte01.dterule")))
	d := p.examine()
	if !d.says(statusOK, "rules", "valid today: document 03, document 05") || d.says(statusOK, "rules",
		"document 06") ||
		!d.says(statusWarn, "rules", "document 05: ends on "+p.day(9)) || !d.says(statusOK, "rules",
		"3 signed by central-it") ||
		!d.says(statusWarn, "rules", "the step back to dte03 1.0.0") || failures(d.findings) > 0 {
		t.Errorf("%+v", d.findings)
	}
}

// A fault of a stored record is reported in a sentence, with its remedy, and hides no other rule.
func TestDoctor_BadRules(t *testing.T) {
	p := newPatient(t)
	window := bundle.Window{From: p.day(-30)}
	good := p.bundle("rules.key", "document", "03", window)
	p.shelve(good, good)
	damaged := p.bundle("rules.key", "document", "05", window)
	p.shelve(damaged, damaged[:100])
	_, err := workshop.NewKey(p.At("stranger.key"))
	p.Must(err)
	forged := p.bundle("stranger.key", "document", "06", window)
	p.shelve(forged, forged)
	d := p.examine()
	if !d.says(statusFail, "rules", "dte05 1.0.0 is damaged and computes nothing") || !d.says(statusFail, "rules",
		"dte06 1.0.0 is unvouched and computes nothing") ||
		!d.says(statusOK, "rules", "valid today: document 03") || !d.says(statusOK, "rules",
		"1 signed by central-it") || failures(d.findings) != 2 {
		t.Errorf("%+v", d.findings)
	}
	text, err := barebox.Output(t, func() error { return (&disk.Fsck{}).Run(context.Background(), p.Config) })
	if err == nil || !strings.Contains(text, "integrity: whole") || !strings.Contains(text, "signed by central-it") ||
		!strings.Contains(text, "nobody's signature") ||
		!strings.Contains(err.Error(), "2 rules or acts") {
		t.Errorf("%s, %v", text, err)
	}
	// The box's key vouches for every record that it marked, and for no other.
	p.Must(os.Remove(p.Config.BoxKey))
	if d := p.examine(); failures(d.findings) != 2 {
		t.Errorf("without the box's key: %+v", d.findings)
	}
	p.Must(config.WriteFile(p.Config.BoxKey, []byte("?")))
	if d := p.examine(); !d.says(statusFail, "rules", "box.key: a box key is 32 bytes") {
		t.Errorf("a garbled key: %+v", d.findings)
	}
}

// Doctor asks a running appliance.
func TestDoctor_Running(t *testing.T) {
	p := newPatient(t)
	ready := http.StatusOK
	appliance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/readyz":
			w.WriteHeader(ready)
			fmt.Fprintln(w, map[bool]string{true: "ok", false: "CLOCK_WRONG: atrasado"}[ready == http.StatusOK])
		case r.Header.Get("Authorization") != "Bearer "+barebox.AdminToken:
			w.WriteHeader(http.StatusUnauthorized)
		default:
			fmt.Fprintf(w, `{"rules":[{"kind":"document","document":"01","from":%q,"state":"live"},{"kind":"document","document":"03","from":%q,"off":{"way":"rollback"}}]}`, p.day(-1), p.day(-1))
		}
	}))
	t.Cleanup(appliance.Close)
	p.Config.Ops.Listen = strings.TrimPrefix(appliance.URL, "http://")
	look := func() *doctor {
		d := &doctor{cfg: p.Config, now: func() time.Time { return p.now }}
		d.running(context.Background())
		d.rules()
		return d
	}
	if d := look(); !d.says(statusOK, "appliance", "can issue") || !d.says(statusOK, "rules",
		"valid today: document 01") || failures(d.findings) > 0 {
		t.Errorf("%+v", d.findings)
	}
	ready = http.StatusServiceUnavailable
	if d := look(); !d.says(statusFail, "appliance", "CLOCK_WRONG") || !strings.Contains(fmt.Sprintf("%+v", d.findings),
		"see Clock wrong in the runbook") {
		t.Errorf("%+v", d.findings)
	}
	appliance.Close()
	if d := look(); !d.says(statusFail, "appliance", "does not answer") {
		t.Errorf("%+v", d.findings)
	}
}

// The answer of a stopped appliance leads to an existing heading of the runbook, and each code is one of the gateway's.
func TestDoctor_Headings(t *testing.T) {
	runbook, err := os.ReadFile("../../../deploy/RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	known, err := os.ReadFile("../../../deploy/CODES.md")
	if err != nil {
		t.Fatal(err)
	}
	damaged := "UNAVAILABLE: The store cannot be read: " + storage.ErrCorrupt.Error()
	for _, why := range append(slices.Sorted(maps.Keys(headings)), damaged, "SOMETHING_NEW: a reason") {
		if heading := headingFor(why); !strings.Contains(string(runbook), "\n## "+heading+"\n") {
			t.Errorf("%s: the runbook has no heading %q", why, heading)
		}
	}
	for code := range headings {
		if !strings.Contains(string(known), "`"+code+"`") {
			t.Errorf("no code is %s", code)
		}
	}
	if got := headingFor(damaged); got != "Store damaged" {
		t.Errorf("a damaged store: %s", got)
	}
}

// The report shows when the store was last read completely, and the result.
func TestDoctor_Reading(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	look := func(after time.Duration, status, what string) {
		t.Helper()
		d := &doctor{cfg: b.Config, now: func() time.Time { return time.Now().Add(after) }}
		d.store(t.Context())
		if !d.says(status, "store", what) {
			t.Errorf("%+v", d.findings)
		}
	}
	look(0, statusOK, "not read through yet")
	s := b.Store()
	once := 0
	s.ReadDaily(t.Context(), func(context.Context, time.Duration) error {
		if once++; once > 1 {
			return context.Canceled
		}
		return nil
	})
	b.Must(s.Close())
	look(0, statusOK, "nothing damaged")
	look(8*24*time.Hour, statusWarn, "last read through on")
	d := &doctor{now: time.Now}
	if d.read(storage.Reading{At: time.Now(), Damaged: 2}); !d.says(statusFail, "store",
		"2 tables are damaged") {
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
	s := p.Store()
	p.Must(s.Beat(p.now.AddDate(0, 0, -40), time.Time{}), s.Close())
	if d := p.examine(); !d.says(statusWarn, "clock", "40 days after") {
		t.Errorf("%+v", d.findings)
	}
	text, err := barebox.Output(t, func() error { return (&disk.ClockAccept{}).Run(p.Config) })
	if err != nil || !strings.Contains(text, "is accepted; the last known time was") {
		t.Errorf("%q, %v", text, err)
	}
	if d := p.examine(); d.says(statusWarn, "clock", "days after") {
		t.Errorf("%+v", d.findings)
	}
}
