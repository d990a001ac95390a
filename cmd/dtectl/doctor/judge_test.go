package doctor

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/dted/health/clock"
	"dtegate/cmd/term"
	"dtegate/engine/archive"
	"dtegate/engine/authority/connpool"
	"dtegate/engine/dte"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// TestDoctor_Judges: each state of a box has its findings, with the advice that mends it, and no others.
func TestDoctor_Judges(t *testing.T) {
	now := time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC)
	day := func(n int) string { return dte.Date(now.AddDate(0, 0, n)) }
	clocks := func(last, authority time.Duration) func(*doctor) {
		at := func(ahead time.Duration) time.Time {
			if ahead == 0 {
				return time.Time{}
			}
			return now.Add(-ahead)
		}
		return func(d *doctor) { d.clock(at(last), at(authority)) }
	}
	listing := func(r ...rulestore.ShownBundle) func(*doctor) {
		for i := range r {
			r[i].Name, r[i].Version, r[i].Kind, r[i].Document = "dte01", "2.1.1", "document", "01"
		}
		return func(d *doctor) { d.listed(&rulestore.Listing{Rules: r}) }
	}
	returned := func(state string, known *rulestore.Acknowledgement) func(*doctor) {
		return func(d *doctor) {
			d.listed(&rulestore.Listing{Return: &rulestore.StepBack{To: record.RuleRef{Name: "dte01", Version: "2.1.0",
				Digest: "a"}, Reason: "harm", At: now, Acknowledged: known}, Rules: []rulestore.ShownBundle{{State: state,
				Admitted: rulestore.Admitted{RuleRef: record.RuleRef{Digest: "a"}}}}})
		}
	}
	link := func(lookup, tcp, tls time.Duration, failed string) func(*doctor) {
		steps := connpool.Steps{Lookup: lookup, TCP: tcp, TLS: tls, Failed: failed}
		return func(d *doctor) {
			if failed == "" {
				d.connected("mh", steps, 10*time.Second, time.Second)
				return
			}
			d.unconnected(steps, 10*time.Second, errors.New("no"))
		}
	}
	token := func(revoked bool, permissions ...string) func(*doctor) {
		file := &config.TokenFile{Tokens: []config.Token{{ID: 1, Permissions: permissions}}}
		if revoked {
			file.Tokens[0].Revoked = now
		}
		return func(d *doctor) { d.cfg = new(config.Config); d.tokens(file) }
	}
	scrub := func(s storage.Scrub) func(*doctor) { return func(d *doctor) { d.scrubbed(s) } }
	outcomes := func(o dte.Outcomes) rulestore.ShownBundle {
		return rulestore.ShownBundle{State: rulestore.Live, Outcomes: &o}
	}
	for name, c := range map[string]struct {
		look func(*doctor)
		want []string // "status check: what | do": the beginning of what, and words of do
	}{
		"clock, nothing known": {clocks(0, 0), []string{"warn clock: | NTP"}},
		"clock right":          {clocks(time.Hour, -time.Minute), []string{"ok clock: |"}},
		"clock fast":           {clocks(time.Hour, time.Minute+time.Second), []string{"warn clock: | set the clock"}},
		"clock slow": {clocks(time.Hour, -time.Minute-time.Second),
			[]string{"warn clock: | set the clock"}},
		"clock of another hour": {clocks(time.Hour, 15*time.Minute+time.Second),
			[]string{"fail clock: | set the clock"}},
		"clock of an earlier hour": {clocks(time.Hour, -15*time.Minute-time.Second),
			[]string{"fail clock: | set the clock"}},
		"clock nearly so": {clocks(time.Hour, -15*time.Minute), []string{"warn clock: | set the clock"}},
		"clock set back": {clocks(-clock.Back-time.Second, time.Second),
			[]string{"fail clock: | set the clock"}},
		"clock hardly set back": {clocks(-clock.Back, time.Second), []string{"ok clock: |"}},
		"clock far ahead": {clocks(clock.Far+time.Second, time.Second),
			[]string{"warn clock: | dtectl clock accept", "ok clock: |"}},
		"clock not too far ahead": {clocks(clock.Far, time.Second), []string{"ok clock: |"}},
		"token":                   {token(false, "ANULACION"), []string{"ok tokens: 1 |"}},
		"token revoked": {token(true, "x"),
			[]string{"warn tokens: there is no active token | dtectl token new"}},
		"token's permission unknown": {token(false, "x"),
			[]string{"fail tokens: token 1 () has the permission \"x\" | correct", "ok tokens: 1 |"}},
		"link": {link(1, 4*time.Second, 1*time.Second-1, ""), []string{"ok authority: mh answers |"}},
		"link slow": {link(1, 4*time.Second, time.Second, ""),
			[]string{"warn authority: mh answers, but | raise authority.connect_timeout"}},
		"no name":       {link(1, 0, 0, "lookup"), []string{"fail authority: name: | name server"}},
		"no connection": {link(1, 1, 0, "connect"), []string{"fail authority: connection: | firewall"}},
		"no TLS":        {link(1, 1, 1, "tls"), []string{"fail authority: TLS: | intercepts"}},
		"no connection in time": {link(1, 9*time.Second, 0, "connect"),
			[]string{"fail authority: connection: | firewall", "warn authority: the connection used the whole | raise"}},
		"rule in force": {listing(rulestore.ShownBundle{State: rulestore.Live}), nil},
		"rule taken off": {listing(rulestore.ShownBundle{State: rulestore.Retired, Off: new(rulestore.StepBack),
			Trouble: &rulestore.Trouble{Why: rulestore.TroubleDamaged}, Admitted: rulestore.Admitted{Until: day(-1)}}), nil},
		"rule ended": {listing(rulestore.ShownBundle{State: rulestore.Live, Expires: day(-1), Expired: true}),
			[]string{"fail rules: document 01: ended on " + day(-1) + " | push its successor"}},
		"rule ends soon": {listing(rulestore.ShownBundle{State: rulestore.Live, Expires: day(45)}),
			[]string{"warn rules: document 01: ends on " + day(45) + " | before that day"}},
		"rule ends later": {listing(rulestore.ShownBundle{State: rulestore.Live, Expires: day(46)}), nil},
		"rule damaged": {listing(rulestore.ShownBundle{Trouble: &rulestore.Trouble{Why: rulestore.TroubleDamaged}}),
			[]string{"fail rules: dte01 2.1.1 is damaged | dtectl fsck"}},
		"rule of a stranger": {listing(rulestore.ShownBundle{Trouble: &rulestore.Trouble{Why: rulestore.TroubleUnvouched}}),
			[]string{"fail rules: dte01 2.1.1 is unvouched | somebody wrote"}},
		"MH refuses half": {listing(outcomes(dte.Outcomes{Decided: 9, Refused: 5})),
			[]string{"fail rules: MH refused 5 of the last 9 documents or events of dte01 2.1.1 | take the rule back"}},
		"a rule fails": {listing(outcomes(dte.Outcomes{Decided: 18, Failed: 1})),
			[]string{"fail rules: dte01 2.1.1 failed at 1 of its last 19 documents or events | Rule failing"}},
		"a rule fails, and MH refuses one": {listing(outcomes(dte.Outcomes{Decided: 9, Refused: 1, Failed: 8})),
			[]string{"fail rules: dte01 2.1.1 failed at 8 of its last 17 documents or events | Rule failing"}},
		"MH refuses half, and a rule failed once": {listing(outcomes(dte.Outcomes{Decided: 99, Refused: 60, Failed: 1})),
			[]string{"fail rules: MH refused 60 of the last 99 documents or events of dte01 2.1.1 | Rejected"}},
		"MH refuses one":  {listing(outcomes(dte.Outcomes{Decided: 9, Refused: 1})), []string{"ok rules: MH refused 1 |"}},
		"MH refuses none": {listing(outcomes(dte.Outcomes{Decided: 9})), nil},
		"went back": {returned(rulestore.Live, nil),
			[]string{"warn rules: the branch went back to dte01 2.1.0 | dtectl rules acknowledge"}},
		"went back, known": {returned(rulestore.Live, &rulestore.Acknowledgement{Who: "ana"}), nil},
		"copy mended": {scrub(storage.Scrub{Last: now, Found: 3, Mended: 3}),
			[]string{"warn second copy: last read | replace"}},
		"copy bad": {scrub(storage.Scrub{Last: now, Found: 3, Mended: 2, Bad: []string{"7"}}),
			[]string{"fail second copy: 1 bad segments | replace"}},
		"copy sound": {scrub(storage.Scrub{Last: now.Add(-scrubLate)}), []string{"ok second copy: last read |"}},
		"copy mended, and not read since": {scrub(storage.Scrub{Last: now.Add(-scrubLate - 1), Found: 1, Mended: 1}),
			[]string{"warn second copy: last read | run"}},
		"copy not read": {scrub(storage.Scrub{Last: now.Add(-scrubLate - 1)}),
			[]string{"warn second copy: last read | run"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &doctor{cfg: new(config.Config), now: func() time.Time { return now }}
			c.look(d)
			d.meets(t, c.want)
		})
	}
	d := &doctor{cfg: new(config.Config), now: func() time.Time { return now }}
	for state, want := range map[string]string{rulestore.Live: "it computes today: harm",
		rulestore.Spare: "another rule has taken over since then: harm"} {
		if returned(state, nil)(d); !d.says(statusWarn, "rules", want) {
			t.Errorf("the branch went back to a rule that is %s: %+v", state, d.findings)
		}
	}
	// Without a connection to MH, that finding says all about its clock.
	d = &doctor{cfg: new(config.Config), now: func() time.Time { return now }}
	d.fail("authority", "do", "no")
	d.clock(now, time.Time{})
	d.meets(t, []string{"fail authority: no | do", "ok clock: |"})
}

// meets compares the findings with what is wanted of them, in their order.
func (d *doctor) meets(t *testing.T, want []string) {
	t.Helper()
	for i, f := range d.findings {
		if i >= len(want) {
			t.Errorf("also %+v", f)
			continue
		}
		if !is(f, want[i]) {
			t.Errorf("%+v, want %s", f, want[i])
		}
	}
	if len(d.findings) < len(want) {
		t.Errorf("%+v, want %v", d.findings, want)
	}
}

func is(f term.Finding, want string) bool {
	head, do, _ := strings.Cut(want, "|")
	kind, what, _ := strings.Cut(strings.TrimSpace(head), ": ")
	return f.Status+" "+f.Check == strings.TrimSuffix(kind, ":") && strings.HasPrefix(f.What, what) &&
		strings.Contains(f.Do, strings.TrimSpace(do)) && (do == "") == (f.Do == "")
}

// TestDoctor_Folder: a rule of the folder counts on the days that its manifest names, the first and the last included.
func TestDoctor_Folder(t *testing.T) {
	p := newPatient(t)
	for _, c := range []struct {
		from, until int
		valid       bool
	}{{-300, 0, true}, {-300, -1, false}, {0, 1, true}, {1, 9, false}} {
		p.rule("dte01", "01", bundle.Window{From: p.day(c.from), Until: p.day(c.until)})
		d := &doctor{cfg: p.Config, now: func() time.Time { return p.now }}
		d.rules()
		if d.says(statusOK, "rules", "valid today: document 01") != c.valid ||
			d.says(statusFail, "rules", "document 01: no rule is valid today") == c.valid {
			t.Errorf("from %d to %d: %+v", c.from, c.until, d.findings)
		}
	}
}

// TestDoctor_Witness: documents that only the second copy has are named, and what brings them back.
func TestDoctor_Witness(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	b.WithCard()
	cfg, err := config.Load(b.Options.Config)
	b.Must(err)
	sell := func(day string) {
		o := cfg.Store(slog.New(slog.DiscardHandler))
		o.SecondCopy = cfg.SecondCopy
		s, err := storage.Open(o)
		b.Must(err)
		b.Fill(s, day, 2)
		b.Must(s.Close())
	}
	look := func() *doctor {
		s, err := storage.OpenReadOnly(cfg.Store(slog.New(slog.DiscardHandler)))
		b.Must(err)
		defer s.Close()
		d := &doctor{cfg: cfg, now: time.Now}
		d.witnesses(s)
		return d
	}
	b.Must(os.MkdirAll(cfg.SecondCopy, 0o700))
	look().meets(t, []string{"warn second copy: there is no copy | start the appliance"})
	sell("2026-11-01")
	b.Must(copyTree(cfg.Data, b.At("old")))
	look().meets(t, []string{"ok second copy: not read through yet |"})
	sell("2026-11-03")
	b.Must(os.RemoveAll(cfg.Data), copyTree(b.At("old"), cfg.Data))
	if d := look(); len(d.findings) != 1 || !is(d.findings[0], "fail second copy: | dtectl recover takes the missing") ||
		!strings.Contains(d.findings[0].What, "00/01/M001/P001/2026") {
		t.Errorf("%+v", d.findings)
	}
	b.Must(os.RemoveAll(cfg.SecondCopy))
	look().meets(t, []string{"warn second copy: | mount its medium"})
}

// bucket is an object store that only returns objects, and 404 for an object without bytes.
type bucket func(key string) (data []byte, status int)

func (b bucket) RoundTrip(r *http.Request) (*http.Response, error) {
	data, status := b(strings.TrimPrefix(r.URL.Path, "/chain/"))
	header := http.Header{"Etag": {`"1"`}, "Last-Modified": {time.Unix(1e9, 0).UTC().Format(http.TimeFormat)}}
	if data == nil && status == http.StatusOK {
		data, status = []byte("<Error><Code>NoSuchKey</Code></Error>"), http.StatusNotFound
	}
	header.Set("Content-Length", strconv.Itoa(len(data)))
	return &http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: header, Request: r,
		ContentLength: int64(len(data)), Body: io.NopCloser(bytes.NewReader(data))}, nil
}

// TestDoctor_Fleet: what a box of a chain may number, and what to do if it may not.
func TestDoctor_Fleet(t *testing.T) {
	director := fleetproto.Signer{ID: "director", Private: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	two := []fleetproto.Point{{Establishment: "M001", Point: "P001"}, {Establishment: "M001", Point: "P002"}}
	for name, c := range map[string]struct {
		points []fleetproto.Point // of the enrolment; nil: there is none
		began  []fleetproto.Point // of the enrolment as the box first read it; nil: the same
		other  bool               // another box is enrolled after it
		given  uint64             // the last number that an earlier box reported
		away   bool               // the store
		want   string
	}{
		"enrolled":     {points: two, want: "ok fleet: branch centro of group norte, epoch 2 |"},
		"not enrolled": {want: "fail fleet: branch centro of group norte: | see Box replaced"},
		"replaced":     {points: two, other: true, want: "fail fleet: branch centro of group norte: | see Box replaced"},
		"a point missing": {points: two[:1],
			want: "fail fleet: branch centro, epoch 2: the enrolment does not name M001P002 | enrol this box again"},
		"store behind": {points: two, given: 9,
			want: "fail fleet: branch centro of group norte: this store lacks numbers | see Store behind"},
		"store behind at one": {points: two, began: two[1:], given: 9,
			want: "fail fleet: branch centro, epoch 2: nothing is numbered at M001P001 | see Store behind"},
		"store away": {points: two, away: true, want: "warn fleet: | see whether the store runs"},
	} {
		t.Run(name, func(t *testing.T) {
			b := barebox.New(t, "127.0.0.1:1")
			store := fleettest.New(time.Now)
			b.Config.Fleet = &config.Fleet{Chain: "super", Branch: "centro", Group: "norte", Key: b.At("fleet.key"),
				State: b.At("fleet.state"), Store: &config.Archive{Endpoint: "https://s3.example"}}
			box, _, err := b.Config.Fleet.MakeBox()
			b.Must(err)
			other := fleetproto.Signer{ID: "other", Private: ed25519.NewKeyFromSeed([]byte(strings.Repeat("x", 32)))}
			enrol := func(epoch int64, by fleetproto.Signer, points []fleetproto.Point) {
				data, err := b.Config.Chain().Seal(&fleetproto.Enrolment{Branch: "centro", Group: "norte", Epoch: epoch,
					Key: fleetproto.EncodeKey(fleetproto.Public(by).Public), Points: points, At: time.Now(), By: "ana"}, director)
				b.Must(err)
				store.Put(fleetproto.BoxKey("centro", epoch), data)
			}
			if c.points != nil {
				enrol(1, other, two)
				enrol(2, box, c.points)
			}
			if c.began != nil {
				enrol(2, box, c.began)
			}
			if c.other {
				enrol(3, other, two)
			}
			if c.given > 0 {
				data, err := b.Config.Chain().Seal(&fleetproto.Status{Branch: "centro", Group: "norte", Epoch: 1, Sequence: 1,
					Key: fleetproto.EncodeKey(fleetproto.Public(other).Public), At: time.Now(), Points: two,
					Last: map[string]uint64{fmt.Sprintf("00/01/M001/P001/%d", dte.Year(time.Now())): c.given}}, other)
				b.Must(err)
				store.Put(fleetproto.StatusKey("centro", 1), data)
			}
			away := false
			chain, err := archive.New(archive.Options{Endpoint: "http://s3.example", Bucket: "chain", AccessKey: "a",
				Secret: "s", PathStyle: true, Transport: bucket(func(key string) ([]byte, int) {
					if away {
						return nil, http.StatusServiceUnavailable
					}
					return store.Held(key), http.StatusOK
				})})
			b.Must(err)
			in := &config.Inputs{Store: chain, Directors: []fleetproto.Key{fleetproto.Public(director)}}
			start := func() {
				agent, err := fleet.New(fleet.Options{Store: store, Chain: b.Config.Chain(), Branch: "centro", Group: "norte",
					Director: in.Directors, Box: box, Points: b.Config.ChainPoints(), Rules: &fleettest.Gate{Ambiente: "00"},
					State: config.Keeper(b.Config.Fleet.State), Last: fleettest.NoNumbers,
					Logger: slog.New(slog.DiscardHandler), Now: time.Now})
				b.Must(err)
				agent.Step(t.Context())
			}
			start()
			if c.began != nil {
				enrol(2, box, c.points)
				start()
			}
			away = c.away
			d := &doctor{cfg: b.Config, now: time.Now}
			if d.fleet(context.Background(), in); len(d.findings) == 0 || !is(d.findings[0], c.want) {
				t.Errorf("%+v, want %s", d.findings, c.want)
			}
		})
	}
}
