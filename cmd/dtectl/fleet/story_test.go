package fleet

import (
	"errors"
	"flag"
	"fmt"
	"html"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/term"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
)

var update = flag.Bool("update", false, "write testdata/story.txt anew")

// story is what an operator does and reads, and what each of the verbs writes into the store.
type story struct {
	*world
	told strings.Builder
}

// tell runs a verb: > an object written, | a line printed, ! the error.
func (s *story) tell(what string, do func() error) {
	s.t.Helper()
	var writes []string
	s.store.Seen = func(r fleettest.Request, err error) {
		if r.Verb == "create" || r.Verb == "put" {
			writes = append(writes, strings.TrimSuffix(fmt.Sprintf("%s %s %v", r.Verb, r.Key, err), " <nil>"))
		}
	}
	stderr := term.Err
	term.Err = term.Out // prints restores Out, and reads what Out has
	var failed error
	printed := s.prints(func() { term.Err = term.Out; failed = do() })
	term.Err, s.store.Seen = stderr, nil
	slices.Sort(writes)
	fmt.Fprintf(&s.told, "\n# %s\n", what)
	said := ""
	if failed != nil {
		said = failed.Error()
	}
	for _, part := range []struct{ mark, text string }{{"> ", strings.Join(writes, "\n")}, {"| ", printed}, {"! ", said}} {
		for line := range strings.Lines(strings.ReplaceAll(part.text, s.dir, "DIR")) {
			s.told.WriteString(strings.TrimRight(part.mark+line, " \n") + "\n")
		}
	}
}

func (s *story) status() {
	s.tell("status", func() error { return (&Status{}).Run(s.t.Context(), s.chain) })
}

func (s *story) log(c Log) { s.tell("log", func() error { return c.Run(s.t.Context(), s.chain) }) }

func (s *story) rolls() {
	s.t.Helper()
	s.tell("roll", func() error { return s.world.roll() })
}

func (s *story) publishes(what string, c Publish, files ...string) {
	s.t.Helper()
	if c.Files = files; c.Group == "" {
		c.Group = "tiendas"
	}
	c.MinSuccess = max(c.MinSuccess, 1)
	s.tell("publish "+what, func() error { return c.Run(s.t.Context(), s.chain) })
}

func (s *story) backs(c Back) { s.tell("back", func() error { return c.Run(s.t.Context(), s.chain) }) }

func (s *story) enrols(what string, c Enrol) {
	s.tell("enrol "+what, func() error { return c.Run(s.t.Context(), s.chain) })
}

func (s *story) rekeys(what string, c Rekey, old fleetproto.Key) {
	s.tell("rekey "+what, func() error { return c.run(s.t.Context(), s.chain, old) })
}

func named(b *box) string { return b.status.Branch + "=" + Fingerprint(b.status.Key) }

func (s *story) file(name, text string) string {
	s.must(os.WriteFile(s.at(name), []byte(text), 0o600))
	return s.at(name)
}

// passes lets time pass, and the boxes obey.
func (s *story) passes(d time.Duration) {
	s.t.Helper()
	s.now = s.now.Add(d)
	s.obey()
}

// TestStory: what the verbs print, refuse and write in the life of a chain is as in testdata/story.txt.
func TestStory(t *testing.T) {
	var told strings.Builder
	for _, c := range []struct {
		name     string
		branches []string
		play     func(*story)
	}{
		{"orders", []string{"centro", "norte", "sur", "oeste"}, ordersTold},
		{"boxes", []string{"centro", "norte"}, boxesTold},
		{"trouble", []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}, troubleTold},
		{"losses", []string{"centro", "norte", "sur"}, lossesTold},
		{"keys", []string{"centro", "norte"}, keysTold},
		{"many branches", []string{"a", "b", "c", "d", "e", "f"}, manyTold},
		{"a day begins", []string{"centro"}, dayTold},
		{"a full store", []string{"centro"}, fullTold},
		{"a store that fails", []string{"centro"}, failuresTold},
	} {
		s := &story{world: newWorld(t, c.branches...)}
		c.play(s)
		fmt.Fprintf(&told, "\n## %s\n%s", c.name, s.told.String())
	}
	cmdtest.Golden(t, "story.txt", strings.TrimPrefix(told.String(), "\n"), *update)
}

func ordersTold(s *story) {
	all := Percent(fleetproto.Whole)
	first, second := s.bundle("1.0.0", s.rules), s.bundle("1.1.0", s.rules)
	s.publishes("to a group that nobody is of", Publish{Group: "otros"}, first)
	s.publishes("to a pilot of nowhere", Publish{Pilots: []string{"centro", "este"}}, first)
	footer := s.file("a.json", `{"kind":"settings","print_footer":"hola"}`)
	s.publishes("two settings", Publish{}, footer, s.file("b.json", `{"kind":"settings"}`))
	s.publishes("other settings", Publish{}, s.file("c.json", `{"kind":"settings","data":"/tmp"}`))
	s.publishes("no bundle", Publish{}, s.at("rules.pub"))
	s.publishes("a thief's", Publish{}, s.bundle("9.0.0", fleetproto.Signer{ID: "reglas", Private: key("thief")}))
	s.chain.Identity.Ambiente = "01"
	s.tell("publish of another ambiente", func() error {
		_, _, err := (&Publish{Files: []string{first}}).load(s.chain)
		return err
	})
	s.chain.Identity.Ambiente = "00"
	s.publishes("to all", Publish{Share: &all, Soak: 90 * time.Second, Reason: "the first"}, first)
	s.passes(time.Minute)
	s.rolls()
	s.passes(30 * time.Second)
	s.rolls()
	s.obey()
	s.backs(Back{})
	s.publishes("the same", Publish{Reason: "again", Expires: Moment{s.now.Add(48 * time.Hour)}}, first)
	s.obey()
	s.publishes("an older one", Publish{}, s.bundle("0.9.9", s.rules))
	s.publishes("settings", Publish{Pilots: []string{"sur"}, NotBefore: Moment{s.now.Add(time.Hour)},
		MaxFailures: 5000}, footer)
	s.status()
	s.passes(2 * time.Hour)
	for _, b := range s.boxes {
		b.status.Settings = s.head().Rollout.State.Settings
		b.report()
	}
	s.rolls()
	s.passes(0)
	s.status()
	s.box("sur").stage = fleetproto.StageRefused
	s.box("centro").stage = fleetproto.StageReturned
	s.passes(0)
	s.rolls()
	s.passes(0)
	s.rolls()
	s.passes(0)
	s.status()
	s.rolls()
	s.tell("resume", func() error { return (&Resume{Reason: "so be it"}).Run(s.t.Context(), s.chain) })
	s.backs(Back{Reason: "no footer"})
	s.passes(time.Hour)
	s.box("sur").stage, s.box("centro").stage = fleetproto.StageLive, fleetproto.StageLive
	s.passes(0)
	s.publishes("the second", Publish{Share: &all}, second)
	s.backs(Back{})
	s.passes(0)
	s.backs(Back{})
	s.publishes("the second again", Publish{Share: &all}, second)
	s.passes(0)
	s.rolls()
	s.passes(0)
	s.backs(Back{})
	s.passes(0)
	s.backs(Back{})
	s.backs(Back{Completed: true})
	s.publishes("a day to come", Publish{Share: &all}, s.begins("2026-12-24", 2, "1.2.0", s.rules))
	s.passes(0)
	s.rolls()
	s.passes(0)
	s.publishes("one that loses it", Publish{}, s.bundle("1.3.0", s.rules))
	s.publishes("one beside it", Publish{}, s.bundle("1.1.1", s.rules))
	s.backs(Back{})
	s.store.Put(fleetproto.RuleKey(s.head().Live.Rules[1].File), []byte("x"))
	s.publishes("over an altered one", Publish{}, s.bundle("1.1.2", s.rules))
	s.store.Lose(fleetproto.RuleKey(s.head().Live.Rules[1].File))
	s.publishes("over a lost one", Publish{}, s.bundle("1.1.2", s.rules))
	b := s.add("bodega")
	b.status.Group = "bodegas"
	b.report()
	s.enrols("another group", Enrol{All: true})
	s.publishes("to another group", Publish{Group: "bodegas", Pilots: []string{"bodega"}}, first)
	s.tell("hold", func() error { return (&Hold{}).Run(s.t.Context(), s.chain) })
	s.tell("hold", func() error { return (&Hold{Group: "tiendas"}).Run(s.t.Context(), s.chain) })
	s.tell("hold", func() error { return (&Hold{Group: "bodegas"}).Run(s.t.Context(), s.chain) })
	s.tell("hold", func() error { return (&Hold{Group: "otros"}).Run(s.t.Context(), s.chain) })
	s.log(Log{Since: Moment{s.now.Add(-time.Hour)}})
	s.store.Hidden = func(key string) bool { return strings.HasPrefix(key, fleetproto.DesiredRoot) }
	s.status() // as far as the versions follow, although the list lags
	s.store.Put(fleetproto.DesiredKey("bodegas", 1), []byte("x"))
	s.status()
}

func boxesTold(s *story) {
	centro, norte := s.box("centro"), s.box("norte")
	s.enrols("none", Enrol{})
	next, sur := s.add("centro"), s.add("sur")
	next.status.Points = append(next.status.Points, fleetproto.Point{Establishment: "M001", Point: "P008"})
	sur.status.Points = norte.status.Points
	next.report()
	sur.report()
	s.status()
	s.enrols("none", Enrol{})
	for _, c := range []Enrol{{Boxes: []string{"centro"}}, {Boxes: []string{"centro=0123"}},
		{Boxes: []string{named(next)}}, {Boxes: []string{named(centro)}}, {Boxes: []string{named(sur)}},
		{Boxes: []string{named(sur)}, Replace: true, Stolen: true},
		{Boxes: []string{named(next)}, Replace: true, Close: []string{"M001P9"}},
		{Boxes: []string{named(next)}, Replace: true, Close: []string{"M001P001", "M001P008"}},
		{Boxes: []string{named(next), named(norte)}, Replace: true, Close: []string{"M001P001"}},
		{Boxes: []string{strings.ToUpper(named(next)[len("centro="):])}},
		{Boxes: []string{"centro=" + strings.ToUpper(named(next)[len("centro="):])}, Replace: true,
			Close: []string{"M001P001"}}} {
		s.enrols(fmt.Sprintf("%d boxes, replace %t, stolen %t, close %v", len(c.Boxes), c.Replace, c.Stolen, c.Close), c)
	}
	s.now = s.now.Add(time.Minute)
	centro.report()
	for _, later := range []time.Duration{0, 24*time.Hour - time.Second, time.Second} {
		s.now = s.now.Add(later)
		next.report()
		s.status()
	}
	sur.status.Points = []fleetproto.Point{{Establishment: "M001", Point: "P001"}}
	sur.report()
	s.enrols("of a closed point", Enrol{All: true})
	norte.status.Points = append(norte.status.Points, fleetproto.Point{Establishment: "M001", Point: "P009"})
	norte.report()
	s.enrols("none", Enrol{})
	s.enrols("a point more", Enrol{Boxes: []string{named(norte)}})
	norte.status.Group = "bodegas"
	norte.report()
	s.status()
	s.enrols("to another group", Enrol{Boxes: []string{named(norte)}, Replace: true})
	for n := range int64(maxForeign) {
		s.store.Put(fleetproto.BoxKey("norte", 3+n), []byte("x"))
	}
	other := s.add("norte")
	other.report()
	s.enrols("over foreign objects", Enrol{Boxes: []string{named(other)}, Replace: true})
	s.store.Lose(fleetproto.BoxKey("norte", 3))
	s.enrols("over fewer", Enrol{Boxes: []string{named(other)}, Replace: true})
	s.log(Log{Branches: []string{"centro"}})
	s.log(Log{Branches: []string{"este"}})
	director, err := s.chain.Sign()
	s.must(err)
	twice, err := s.chain.Identity.Seal(&fleetproto.Enrolment{Branch: "sur", Epoch: 1, Group: "tiendas",
		Key: sur.status.Key, Points: other.status.Points, At: s.now, By: "ana@central"}, director)
	s.must(err)
	s.store.Put(fleetproto.BoxKey("sur", 1), twice)
	for n := range int64(3) {
		s.store.Lose(fleetproto.StatusKey("centro", n))
	}
	s.chain.Cache = s.at("another")
	s.status()
}

var digests = regexp.MustCompile(`sha256-[^']*`)

var tags = regexp.MustCompile(`(?s)<(style|head).*?</(style|head)>|<[^>]*>`)

func troubleTold(s *story) {
	all := Percent(fleetproto.Whole)
	s.publishes("to all", Publish{Share: &all}, s.bundle("1.0.0", s.rules))
	s.passes(0)
	s.now = s.now.Add(30 * 24 * time.Hour)
	for i, change := range []func(*fleetproto.Status){
		func(st *fleetproto.Status) { st.Replaced, st.Name = true, "La Ceiba" },
		func(st *fleetproto.Status) { st.Ready, st.NotReady = false, []string{"the disk is full", "no key"} },
		func(st *fleetproto.Status) {
			st.Ready = false
			st.Waiting = fleetproto.Waiting{Documents: 7, Deadline: s.now.Add(5 * time.Hour)}
			st.Rules = append(st.Rules, fleetproto.Running{Digest: strings.Repeat("b", 64), Name: "dte03", Version: "2.0.0",
				Bundle: "document", Document: "03", Schema: 2, From: "2026-01-01", Live: true, Outcomes: dte.Outcomes{
					Decided: 8, Refused: 1}})
		},
		func(st *fleetproto.Status) {
			st.Contingency = &fleetproto.Contingency{Since: s.now.Add(-90 * time.Minute), Cause: 2,
				Deadline: s.now.Add(22 * time.Hour)}
			st.Rules[0].Outcomes = dte.Outcomes{Decided: 9, Refused: 6}
			st.Rules = append(st.Rules, fleetproto.Running{Digest: strings.Repeat("a", 64), Name: "dte01", Version: "2.0.0",
				Bundle: "document", Document: "01", Schema: 2, From: "2027-01-01"})
		},
		func(st *fleetproto.Status) {
			st.Waiting = fleetproto.Waiting{Documents: 7, Deadline: s.now.Add(-3 * time.Hour)}
			st.Rules[0].Outcomes = dte.Outcomes{Decided: 9, Failed: 2}
		},
		func(st *fleetproto.Status) {
			st.Certificates = []fleetproto.Certificate{{Name: "signing", Ends: s.now.AddDate(0, 0, 20)},
				{Name: "api", Ends: s.now.AddDate(0, 0, 2)}}
			st.Desired.Trouble, st.Desired.Expires = "version 7 is not signed", s.now.Add(-time.Minute)
		},
		func(st *fleetproto.Status) {
			st.Certificates = []fleetproto.Certificate{{Name: "signing", Ends: s.now}}
			st.Copy = &fleetproto.Shipped{Mode: "async", Why: "the archive is full"}
		},
		func(st *fleetproto.Status) {
			st.Rollout = &fleetproto.Progress{Name: "r1", Stage: fleetproto.StageReturned, Reason: "3 failures"}
			st.Rules = nil
		},
		func(st *fleetproto.Status) {
			st.Rollout = &fleetproto.Progress{Name: "r1", Stage: fleetproto.StageRefused, Reason: "2 of 20 cases differ"}
			st.Points, st.Group = append(st.Points, fleetproto.Point{Establishment: "M009", Point: "P009"}), "bodegas"
		},
	} {
		change(&s.boxes[i].status)
		s.boxes[i].report()
	}
	late := s.boxes[9].status
	late.At = s.now.Add(-maxDelay - time.Second)
	late.Sequence++
	s.boxes[9].put("j", late)
	s.add("k").report()
	another := s.add("b")
	another.report()
	s.status()
	s.tell("status of those in trouble", func() error {
		return (&Status{Trouble: true, Group: "bodegas"}).Run(s.t.Context(), s.chain)
	})
	site := newSite(s.chain, "una palabra", "http")
	ask := func(path string, authorized bool) {
		s.tell("GET "+path, func() error {
			r, rec := httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
			r.Host = "localhost"
			if authorized {
				r.SetBasicAuth("", "una palabra")
			}
			site.ServeHTTP(rec, r)
			term.Printf("%d %s\n", rec.Code, digests.ReplaceAllString(fmt.Sprint(rec.Header()), "sha256-…"))
			for line := range strings.Lines(html.UnescapeString(tags.ReplaceAllString(rec.Body.String(), " "))) {
				if words := strings.Fields(line); len(words) > 0 {
					term.Printf("%s\n", strings.Join(words, " "))
				}
			}
			return nil
		})
	}
	for _, path := range []string{"/?lang=en", "/", "/targets", "/metrics/branch/a"} {
		ask(path, true)
	}
	s.tell("serve reads", func() error { site.read(s.t.Context()); return nil })
	ask("/", false)
	for _, path := range []string{"/?lang=en", "/", "/?only=waiting", "/metrics", "/targets", "/metrics/branch/a",
		"/metrics/branch/j"} {
		ask(path, true)
	}
	s.store.Fault = func(fleettest.Request) fleettest.Fault { return fleettest.Failed }
	s.tell("serve reads", func() error { site.read(s.t.Context()); return nil })
	s.store.Fault = nil
	ask("/?lang=en&q=none", true)
}

func lossesTold(s *story) {
	all := Percent(fleetproto.Whole)
	s.publishes("to all", Publish{Share: &all}, s.bundle("1.0.0", s.rules))
	s.passes(0)
	s.rolls()
	s.passes(0)
	for n := range int64(14) {
		s.box("centro").act(n+1, fleetproto.ActReturned, "")
	}
	s.box("centro").status.Acts = 14
	full, err := s.chain.Identity.Seal(&fleetproto.Act{Branch: "sur", Epoch: 1, Number: 1, At: s.now,
		What: fleetproto.ActRefused, Rule: "catalogues 1.0.0", Rollout: "r1", Version: 3, Reason: "cases"},
		s.box("sur").signer)
	s.must(err)
	s.store.Put(fleetproto.ActKey("sur", 1), full)
	s.box("norte").act(1, fleetproto.ActRefused, "cases")
	s.box("norte").status.Acts = 1
	s.passes(time.Minute)
	s.store.Put(fleetproto.ActKey("norte", 1), s.store.Held(fleetproto.ActKey("centro", 1)))
	s.store.Put(fleetproto.ActKey("norte", 3), []byte("x"))
	for n := range int64(12) {
		s.store.Lose(fleetproto.ActKey("centro", n+2))
	}
	s.status()
	s.store.Lose(fleetproto.ActKey("centro", 14))
	s.log(Log{})
	s.log(Log{Branches: []string{"norte"}})
	s.store.Lose(fleetproto.DesiredKey("tiendas", 1))
	s.store.Lose(fleetproto.BoxKey("sur", 1))
	s.store.Lose(fleetproto.StatusKey("norte", 1))
	s.status()
	cache := s.chain.Cache
	s.tell("roll by a store that fails", func() error {
		s.store.Fault = func(r fleettest.Request) fleettest.Fault {
			if r.Verb == "create" {
				return fleettest.Failed
			}
			return fleettest.None
		}
		defer func() { s.store.Fault = nil }()
		return s.world.roll()
	})
	s.rolls()
	s.store.Lose(fleetproto.DesiredKey("tiendas", 2))
	s.store.Put(fleetproto.BoxKey("sur", 1), []byte("x"))
	s.box("norte").status.Desired.Version = 2
	s.box("norte").status.Desired.Digest = fleetproto.Digest([]byte("another"))
	s.box("norte").report()
	s.status()
	s.enrols("all", Enrol{All: true})
	s.rolls()
	s.rolls()
	s.passes(0)
	s.survey()
	s.now = s.now.Add(time.Second)
	for _, number := range []int64{s.box("norte").status.Sequence, 1} {
		s.box("norte").status.Sequence = number - 1
		s.box("norte").report()
		s.status()
	}
	for n := range int64(3) {
		s.store.Lose(fleetproto.DesiredKey("tiendas", n+1))
	}
	s.store.Lose(fleetproto.BoxKey("sur", 1))
	for _, file := range []string{"desired", enrolmentsFile} {
		s.must(os.RemoveAll(s.chain.cached(file)))
	}
	s.status()
	s.publishes("what all lost", Publish{}, s.bundle("1.1.0", s.rules))
	s.enrols("what all lost", Enrol{All: true})
	s.must(errors.Join(os.RemoveAll(cache), os.WriteFile(cache, nil, 0o600)))
	s.status()
	s.rolls()
	s.must(os.Remove(cache))
	right := s.chain.Now
	for _, apart := range []time.Duration{maxDelay, maxDelay + 1, -maxDelay - time.Minute} {
		s.chain.Now = func() time.Time { return right().Add(apart) }
		s.status()
		s.rolls()
	}
}

func keysTold(s *story) {
	s.publishes("to a pilot", Publish{Pilots: []string{"centro"}}, s.bundle("1.0.0", s.rules))
	s.passes(0)
	old := s.newKey("director 2")
	s.status()
	s.rolls()
	s.enrols("before", Enrol{All: true})
	s.store.Put(fleetproto.BoxKey("zzz", 1), []byte("x"))
	s.store.Put(fleetproto.DesiredKey("yyy", 1), []byte("x"))
	s.rekeys("of a box that is not there", Rekey{Except: []string{"centro/2"}}, old)
	s.rekeys("back to nothing", Rekey{Back: map[string]int64{"tiendas": 2}}, old)
	s.rekeys("of another key", Rekey{}, fleetproto.Public(fleetproto.Signer{ID: "wrong", Private: key("director 0")}))
	s.rekeys("dry", Rekey{DryRun: true}, old)
	s.store.Lose(fleetproto.BoxKey("centro", 1))
	s.rekeys("dry, of a store that lost a box", Rekey{DryRun: true}, old)
	s.now = s.now.Add(time.Hour)
	s.rekeys("", Rekey{Except: []string{"norte/1"}}, old)
	s.rekeys("again", Rekey{}, old)
	s.status()
	s.tell("status, accepted", func() error {
		return (&Status{Accept: []string{"norte"}}).Run(s.t.Context(), s.chain)
	})
	s.rekeys("accepted", Rekey{}, old)
	s.rekeys("back", Rekey{Back: map[string]int64{"tiendas": 1}}, old)
	s.log(Log{})
	old = s.newKey("director 3")
	s.store.Lose(fleetproto.DesiredKey("tiendas", 1))
	s.must(os.RemoveAll(s.chain.cached("desired")))
	except := []string{"norte/1", "zzz/1"}
	s.rekeys("over a gap", Rekey{Except: except}, old)
	s.rekeys("over a gap, back", Rekey{Except: except, Back: map[string]int64{"tiendas": 2}}, old)
	s.log(Log{})
}

// manyTold: of many branches, five are named.
func manyTold(s *story) {
	all := Percent(fleetproto.Whole)
	s.publishes("to all", Publish{Share: &all}, s.bundle("1.0.0", s.rules))
	s.passes(0)
	s.survey()
	for _, b := range s.boxes {
		s.store.Lose(fleetproto.StatusKey(b.status.Branch, 1))
		s.store.Lose(fleetproto.BoxKey(b.status.Branch, 1))
	}
	s.status()
	s.rolls()
	for _, b := range s.boxes {
		b.stage = fleetproto.StageRefused
	}
	s.passes(0)
	s.rolls()
}

// dayTold: a rule ends two hours after the first day of its successor has begun.
func dayTold(s *story) {
	all := Percent(fleetproto.Whole)
	s.publishes("the first", Publish{Share: &all}, s.generation(1, "1.0.0", s.rules))
	s.passes(0)
	s.rolls()
	for i, version := range []string{"2.0.0", "2.0.1"} {
		s.passes(time.Second)
		s.publishes("its successor", Publish{Share: &all}, s.begins("2026-12-01", 2, version, s.rules))
		s.now = time.Date(2026, 12, 1, 7, 59, 59+i, 0, time.UTC)
		s.obey()
		s.rolls()
	}
}

func fullTold(s *story) {
	ctx := s.t.Context()
	for n := range int64(maxObjects) {
		s.store.Put(fmt.Sprintf("%scentro/x%d", fleetproto.StatusFolder, n), nil)
	}
	s.status() // the box's own, and the x's
	s.store.Lose(fleetproto.StatusFolder + "centro/x1")
	s.store.Lose(fleetproto.StatusFolder + "centro/x2")
	s.status()
	for n := range maxWaiting {
		s.store.Put(fleetproto.StatusKey(fmt.Sprintf("w%d", n), 0), []byte("x"))
	}
	faults := func(what string) {
		s.tell(what, func() error {
			found, err := NewSurveyor(s.chain).Read(ctx)
			if err == nil {
				term.Printf("%d %q\n", len(found.Branches), found.Faults)
			}
			return err
		})
	}
	faults("as many statuses as are shown")
	s.store.Put(fleetproto.StatusKey("x", 0), []byte("x"))
	faults("one more")
	for n := range maxGroups {
		s.store.Put(fleetproto.DesiredKey(fmt.Sprintf("g%d", n), 1), []byte("x"))
	}
	s.tell("groups", func() error {
		found, err := NewSurveyor(s.chain).Read(ctx)
		term.Printf("%d faults, the last %s\n", len(found.Faults), found.Faults[len(found.Faults)-1])
		return err
	})
	s.publishes("one more", Publish{Pilots: []string{"centro"}}, s.bundle("1.0.0", s.rules))
	faults("one more group")
	for n := range int64(maxForeignVersions) {
		if n == maxForeignVersions-1 {
			s.tell("versions of others", func() error { term.Printf("%d\n", s.head().Version); return nil })
		}
		s.store.Put(fleetproto.DesiredKey("tiendas", n+2), []byte("x"))
	}
	s.tell("one more", func() error { _, err := s.chain.Head(ctx, "tiendas"); return err })
	for n := range int64(maxActs + 5) {
		s.store.Put(fleetproto.ActKey("centro", n+1), []byte("x"))
	}
	s.box("centro").status.Acts = maxActs + 5
	s.box("centro").report()
	for range 2 {
		s.tell("acts looked for", func() error {
			surveyor := NewSurveyor(s.chain)
			_, err := surveyor.Read(ctx)
			term.Printf("%+v\n", surveyor.seen["centro"].Acts)
			return err
		})
	}
}

func failuresTold(s *story) {
	ctx := s.t.Context()
	s.publishes("to a pilot", Publish{Pilots: []string{"centro"}}, s.bundle("1.0.0", s.rules))
	s.box("centro").act(1, fleetproto.ActReturned, "")
	s.box("centro").status.Acts = 1
	s.passes(0)
	failing := func(verb, prefix string, do func() error) {
		s.tell(verb+" "+prefix, func() error {
			s.chain.Cache = s.t.TempDir()
			s.store.Fault = func(r fleettest.Request) fleettest.Fault {
				if r.Verb == verb && strings.HasPrefix(r.Key, prefix) {
					return fleettest.Failed
				}
				return fleettest.None
			}
			defer func() { s.store.Fault = nil }()
			return do()
		})
	}
	read := func() error { _, err := NewSurveyor(s.chain).Read(ctx); return err }
	for _, prefix := range []string{fleetproto.BoxesFolder, fleetproto.StatusFolder, fleetproto.DesiredRoot,
		fleetproto.ActsFolder} {
		failing("list", prefix, read)
		failing("get", prefix, read)
	}
	s.store.Hidden = func(key string) bool { return strings.HasPrefix(key, fleetproto.ActsFolder) }
	failing("get", fleetproto.ActsFolder, read)
	s.store.Hidden = nil
	failing("list", fleetproto.ActsFolder, func() error { return (&Log{}).Run(ctx, s.chain) })
	failing("get", fleetproto.ActsFolder, func() error { return (&Log{}).Run(ctx, s.chain) })
	failing("get", fleetproto.DesiredRoot, func() error { return (&Log{}).Run(ctx, s.chain) })
	hold := func() error { return (&Hold{}).Run(ctx, s.chain) }
	failing("create", fleetproto.DesiredRoot, hold)
	b := s.add("norte")
	b.report()
	s.tell("enrol at the same moment as somebody else", func() error {
		director, err := s.chain.Sign()
		s.must(err)
		data, err := s.chain.Identity.Seal(&fleetproto.Enrolment{Branch: "norte", Epoch: 1, Group: "tiendas",
			Key: b.status.Key, Points: b.status.Points, At: s.now, By: "luis@central"}, director)
		s.must(err)
		defer func() { s.store.Fault = nil; s.store.Lose(fleetproto.BoxKey("norte", 1)) }()
		s.store.Fault = func(r fleettest.Request) fleettest.Fault {
			if r.Verb == "create" {
				s.store.Put(r.Key, data)
			}
			return fleettest.None
		}
		return (&Enrol{All: true}).Run(ctx, s.chain)
	})
	failing("create", fleetproto.BoxesFolder, func() error { return (&Enrol{All: true}).Run(ctx, s.chain) })
	failing("get", fleetproto.StatusKey("norte", 1), func() error { return (&Enrol{All: true}).Run(ctx, s.chain) })
	failing("put", "fleet/v1/rules/", func() error {
		if err := (&Back{}).Run(ctx, s.chain); err != nil {
			return err
		}
		return s.publish(Publish{Files: []string{s.bundle("1.0.1", s.rules)}})
	})
	s.tell("sealed", func() error {
		sign := s.chain.Sign
		defer func() { s.chain.Sign = sign }()
		s.chain.Sign = func() (fleetproto.Signer, error) { return fleetproto.Signer{}, errors.New("the key is sealed") }
		return errors.Join((&Enrol{All: true}).Run(ctx, s.chain), s.publish(Publish{Pilots: []string{"centro"},
			Files: []string{s.bundle("1.0.1", s.rules)}}))
	})
}
