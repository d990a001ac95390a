package fleet

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/term"
	"dtegate/engine/dte"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/rules/bundle"
)

func (g *chainGame) day() string { return dte.Date(g.now) }

// on are the bundles of a name that are in force on a day, or wait then.
func (m *gameGroup) on(name, day string) (list []gameRule) {
	for _, r := range m.live[name] {
		if r.from <= day {
			list = nil
		}
		list = append(list, r)
	}
	return list
}

// reached makes a roll-out live: what would begin on the same day or later under a lower version is gone.
func (m *gameGroup) reached(day string) {
	m.before, m.undone = maps.Clone(m.live), false
	for _, r := range m.rollout {
		list := slices.DeleteFunc(slices.Clone(m.live[r.rule.Name]), func(o gameRule) bool {
			return o.from == r.from || o.from > r.from && bundle.Compare(o.rule.Version, r.rule.Version) < 0
		})
		list = append(list, r)
		slices.SortFunc(list, func(a, b gameRule) int { return strings.Compare(a.from, b.from) })
		m.live[r.rule.Name] = list
	}
	for name := range m.live {
		m.live[name] = m.on(name, day)
	}
	m.rollout = nil
}

func last(list []gameRule) (r gameRule) {
	if len(list) > 0 {
		r = list[len(list)-1]
	}
	return r
}

// truth is the last version that the director wrote, whatever the store says.
func (g *chainGame) truth(group string) (d *fleetproto.Desired) {
	var top int64
	for key := range g.liar.owner {
		if n, _ := fleetproto.NumberOf(key); key == fleetproto.DesiredKey(group, n) {
			top = max(top, n)
		}
	}
	if top > 0 {
		var err error
		d, err = g.chain.Identity.OpenDesired(g.liar.owner[fleetproto.DesiredKey(group, top)], []fleetproto.Key{
			fleetproto.Public(g.director(1)), fleetproto.Public(g.director(2)), fleetproto.Public(g.director(3))}, group, top)
		g.must(err)
	}
	return d
}

// agree compares the director's last order with the model.
func (g *chainGame) agree(group, after string) {
	m, d := g.groups[group], g.truth(group)
	if d == nil {
		return
	}
	var want, got []string
	for _, list := range m.live {
		for _, r := range list {
			want = append(want, r.rule.String())
		}
	}
	for _, r := range d.Live.Rules {
		got = append(got, r.String())
	}
	slices.Sort(want)
	slices.Sort(got)
	var want2, got2 []string
	for _, r := range m.rollout {
		want2 = append(want2, r.rule.String())
	}
	if d.Rollout != nil {
		for _, r := range d.Rollout.State.Rules {
			got2 = append(got2, r.String())
		}
	}
	if !slices.Equal(want, got) || !slices.Equal(want2, got2) {
		g.fatal("after %s version %d of %s has live %q and in the roll-out %q, and the director wanted %q and %q", after,
			d.Version, group, got, got2, want, want2)
	}
}

// publish begins a roll-out of the next version of one or both rules.
func (g *chainGame) publish(group string) {
	m := g.groups[group]
	if m.rollout != nil {
		return
	}
	var chosen []gameRule
	c := Publish{Group: group, MinSuccess: 1, Soak: time.Hour, MaxFailures: Percent([]int{0, 6000}[g.rnd.IntN(2)])}
	for _, name := range []string{"rate", "note"} {
		live := m.on(name, g.day())
		if len(live) > 0 && g.rnd.IntN(2) == 0 {
			continue
		}
		g.serial++
		begun, waits := 0, []gameRule(nil) // the highest minor version that has begun anywhere, and what waits
		today := "2026-01-01"
		for _, r := range gameMade {
			if r.rule.Name == name && r.from <= g.day() {
				minor := 0
				_, _ = fmt.Sscanf(r.rule.Version, "1.%d.", &minor) // a stranger's is 9.0.0
				begun = max(begun, minor)
			}
		}
		for _, r := range live {
			if r.from > g.day() {
				waits = append(waits, r)
			} else {
				today = r.from
			}
		}
		law := func(from string) gameRule {
			g.serial++
			return g.make(name, fmt.Sprintf("1.%d.0", g.serial), from)
		}
		switch someday := dte.Date(g.now.AddDate(0, 0, 1+g.rnd.IntN(8))); g.rnd.IntN(6) {
		case 0, 1: // a correction of today's rule
			chosen = append(chosen, g.make(name, fmt.Sprintf("1.%d.%d", begun, g.serial), today))
		case 2: // a version above those that wait, refused while one waits
			chosen = append(chosen, law(today))
		case 3: // a law; refused if it begins before another
			chosen = append(chosen, law(someday))
		case 4: // a correction of the last law
			chosen = append(chosen, law(max(someday, last(waits).from)))
		case 5: // a law before another, with its successor
			chosen = append(chosen, law(someday))
			if last(waits).from > someday {
				chosen = append(chosen, law(last(waits).from))
			}
		}
	}
	for _, r := range chosen {
		c.Files = append(c.Files, r.file)
		for _, b := range g.boxes {
			b.hates[r.rule.Digest] = !g.liar.calm && g.rnd.IntN(25) == 0
		}
	}
	if chosen == nil {
		return
	}
	switch share := Percent(fleetproto.Whole); g.rnd.IntN(4) {
	case 0:
		c.Share = &share
	case 1:
		c.Pilots = []string{g.pick(group).name}
	case 2:
		c.NotBefore = Moment{g.now.Add(time.Duration(g.rnd.IntN(6)) * time.Hour)}
	}
	g.verb(group, fmt.Sprint("publish ", chosen), func() error { return c.Run(g.t.Context(), g.chain) },
		func() { m.rollout = chosen })
}

func (g *chainGame) pick(group string) *gameBox {
	var list []*gameBox
	for _, b := range g.boxes {
		if b.group == group && !b.dead && b.agent.Fence().Standing().Epoch > 0 {
			list = append(list, b)
		}
	}
	return list[g.rnd.IntN(len(list))]
}

// verb runs a verb of the director, and applies it to the model if it wrote its order, whatever it returned.
func (g *chainGame) verb(group, what string, do func() error, apply func()) error {
	before := g.truth(group)
	err := do()
	after := g.truth(group)
	if text := fmt.Sprintf("%s: %s: %v", group, what, err); len(g.log) == 0 || !strings.HasSuffix(g.log[len(g.log)-1],
		text) {
		g.note("%s", text)
	}
	if before == nil && after != nil || before != nil && (after.Version > before.Version) &&
		(fmt.Sprint(after.Live, after.Rollout) != fmt.Sprint(before.Live, before.Rollout)) {
		apply()
	}
	g.agree(group, what)
	return err
}

// roll opens rings, and checks that the boxes have taken what a ring wants.
func (g *chainGame) roll(group string) error {
	m, before := g.groups[group], g.truth(group)
	return g.verb(group, "roll", func() error {
		return (&Roll{Group: group}).Run(g.t.Context(), g.chain)
	}, func() {
		after := g.truth(group)
		r := before.Rollout
		if r == nil {
			return
		}
		wider := after.Rollout == nil || after.Rollout.Share > r.Share
		if wider && r.Held {
			g.fatal("a held ring was opened")
		}
		ring, took := 0, 0
		for _, b := range g.boxes {
			if b.group != group || b.dead || b.agent.Fence().Standing().Epoch == 0 || !r.InRing(b.name) {
				continue
			}
			ring++
			has := true
			for _, rule := range r.State.Rules {
				has = has && slices.ContainsFunc(b.gate.Bundles(), func(o fleet.Bundle) bool {
					return o.Digest == rule.Digest && o.Off == ""
				})
			}
			if has {
				took++
			}
		}
		if wider && ring > 0 && (took == 0 || g.now.Before(soakEnd(r))) {
			g.fatal("roll widens %s: %d of %d took it, it is watched until %s", r.Name, took, ring, soakEnd(r))
		}
		if after.Rollout == nil {
			m.reached(dte.Date(g.now.Add(-2 * time.Hour))) // as roll: the clocks of boxes may be behind
		}
	})
}

func (g *chainGame) back(group string, completed bool) error {
	m := g.groups[group]
	return g.verb(group, "back", func() error {
		return (&Back{Group: group, Completed: completed}).Run(g.t.Context(), g.chain)
	}, func() {
		switch {
		case m.rollout != nil:
			m.rollout, m.undone = nil, true
		case m.undone && !completed:
			g.fatal("the second back takes back another roll-out")
		case m.before == nil:
			g.fatal("back went further than one roll-out")
		default:
			m.live, m.before, m.undone = m.before, nil, false
		}
	})
}

// install puts a new box in a branch's place, or, without one, installs a new branch.
func (g *chainGame) install(group string, replaced *gameBox) {
	name := ""
	if replaced != nil {
		name = replaced.name
	}
	b := g.add(group, name)
	if replaced != nil {
		b.point = replaced.point
		b.start()
	}
	for range 3 {
		b.agent.Step(context.Background())
		g.now = g.now.Add(16 * time.Minute)
	}
	c := Enrol{Boxes: []string{b.name + "=" + fleetproto.Fingerprint(fleetproto.Public(b.key).Public)},
		Replace: replaced != nil}
	err := c.Run(g.t.Context(), g.chain)
	g.note("%s: install %s in place of %t: %v", group, b.name, replaced != nil, err)
	for range 3 {
		g.pass(16 * time.Minute)
	}
	if b.agent.Fence().Standing().Epoch == 0 { // the director tries once more, later
		g.boxes = g.boxes[:len(g.boxes)-1]
	} else if replaced != nil {
		replaced.dead = true
	}
}

// move gives a box to another group; somebody may forget for hours to enrol it there.
func (g *chainGame) move(b *gameBox, group string) {
	n := 0
	for _, o := range g.boxes {
		if o.group == b.group && !o.dead && o.agent.Fence().Standing().Epoch > 0 {
			n++
		}
	}
	if n < 2 || b.away {
		return
	}
	b.group, b.moved = group, true
	b.start()
	g.pass([]time.Duration{48 * time.Minute, 30 * time.Hour}[g.rnd.IntN(2)])
	err := (&Enrol{Boxes: []string{b.name + "=" + fleetproto.Fingerprint(fleetproto.Public(b.key).Public)},
		Replace: true}).Run(g.t.Context(), g.chain)
	g.note("%s moves to %s: %v", b.name, group, err)
	g.must(err)
	g.pass(time.Hour)
}

// lie does one thing that a store, or somebody with its credentials, can do. Only things of a group are altered.
func (g *chainGame) lie(group string) {
	folders := []string{fleetproto.DesiredFolder(group)}
	for _, b := range g.boxes {
		if b.group == group {
			folders = append(folders, fleetproto.BoxesFolder+b.name+"/", fleetproto.StatusFolder+b.name+"/",
				fleetproto.ActsFolder+b.name+"/")
		}
	}
	keys := g.store.Keys(folders[g.rnd.IntN(len(folders))])
	if g.rnd.IntN(2) == 0 {
		keys = g.store.Keys(folders[0])
	}
	if len(keys) == 0 {
		return
	}
	at := keys[g.rnd.IntN(len(keys))]
	held := g.store.Held(at)
	put := func(key string, data []byte) { g.must(g.store.Overwrite(context.Background(), key, data)) }
	what := ""
	switch g.rnd.IntN(6) {
	case 5: // the thief of the director's old key, once no box of the group trusts it any more
		head, err := g.chain.Head(context.Background(), group)
		if err != nil || head == nil || g.keys == 0 || slices.ContainsFunc(g.boxes, func(b *gameBox) bool {
			return b.group == group && !b.dead && b.agent.Status().Desired.Version < head.Version
		}) {
			return
		}
		what = "has the thief's order, and enrolments, on"
		d := *head.Desired
		d.Version, d.Previous, d.Mends = head.Last.Version+1, head.Last.Digest, nil
		d.Live.Rules = []fleetproto.Rule{g.make("rate", "9.0.0", "2026-01-01").rule}
		data, err := g.chain.Identity.Seal(&d, g.director(1))
		g.must(err)
		at = fleetproto.DesiredKey(group, d.Version)
		put(at, data)
		for _, b := range g.boxes {
			if epoch := b.agent.Fence().Standing().Epoch; b.group == group && !b.dead && epoch > 0 {
				data, err := g.chain.Identity.Seal(&fleetproto.Enrolment{Branch: b.name, Epoch: epoch, Group: group,
					Key: fleetproto.EncodeKey(fleetproto.Public(g.director(1)).Public), At: g.now, By: "x"}, g.director(1))
				g.must(err)
				put(fleetproto.BoxKey(b.name, epoch), data)
			}
		}
	case 0:
		what = "loses"
		g.store.Lose(at)
	case 1:
		what = "puts back"
		if old := g.liar.past[at]; len(old) > 0 {
			put(at, old[g.rnd.IntN(len(old))])
		}
	case 2:
		what = "alters a byte of"
		held[g.rnd.IntN(len(held))] ^= 1
		put(at, held)
	case 3:
		what = "has a stranger's version on"
		head, err := g.chain.Head(context.Background(), group)
		if err != nil || head == nil {
			return
		}
		d := *head.Desired
		d.Version, d.Previous = head.Last.Version+1, head.Last.Digest
		d.Live.Rules = []fleetproto.Rule{g.make("rate", "9.0.0", "2026-01-01").rule}
		data, err := g.chain.Identity.Seal(&d, fleetproto.Signer{ID: directorID, Private: key("thief")})
		g.must(err)
		at = fleetproto.DesiredKey(group, d.Version)
		put(at, data)
	case 4:
		what = "has junk on"
		head, err := g.chain.Head(context.Background(), group)
		if err != nil || head == nil {
			return
		}
		at = fleetproto.DesiredKey(group, head.Last.Version+1)
		put(at, []byte("x"))
	}
	g.note("the store %s %s", what, at)
}

// pass lets the boxes work for a time.
func (g *chainGame) pass(d time.Duration) {
	step := max(16*time.Minute, d/8)
	for end := g.now.Add(d); g.now.Before(end); {
		for _, b := range g.boxes {
			if !b.away {
				b.agent.Step(context.Background())
			}
		}
		g.now = g.now.Add(min(step, end.Sub(g.now)))
	}
}

// act does one thing of a chain's life.
func (g *chainGame) act(lies string) {
	group := []string{"norte", "sur"}[g.rnd.IntN(2)]
	b := g.pick(group)
	switch g.rnd.IntN(25) {
	case 21, 22: // also twice, and by two people
		_ = g.verb(group, "hold", func() error { return (&Hold{Group: group}).Run(g.t.Context(), g.chain) }, func() {})
		if g.rnd.IntN(3) > 0 {
			g.pass(time.Hour)
			_ = g.verb(group, "resume", func() error { return (&Resume{Group: group}).Run(g.t.Context(), g.chain) }, func() {})
		}
	case 23:
		if lies == "" {
			g.chain.Cache = g.folders[g.rnd.IntN(2)]
			g.note("the director sits at %s", g.chain.Cache)
		}
	case 24:
		if lies == "" {
			g.move(b, map[string]string{"norte": "sur", "sur": "norte"}[group])
		}
	case 20:
		g.rekey()
	case 0, 1, 2:
		g.publish(group)
	case 3, 4, 5, 6:
		for range 1 + g.rnd.IntN(6) {
			_ = g.roll(group)
			g.pass(90 * time.Minute)
		}
	case 7, 16, 17:
		_ = g.back(group, g.rnd.IntN(2) == 0)
	case 18, 19: // a roll-out that goes through
		for g.publish(group); g.groups[group].rollout != nil && g.rnd.IntN(10) > 0; {
			_ = g.roll(group)
			g.pass(90 * time.Minute)
		}
	case 8:
		b.away = !b.away
		g.note("%s is away: %t", b.name, b.away)
	case 9:
		b.start()
		g.note("%s starts again", b.name)
	case 10:
		b.off = time.Duration(g.rnd.IntN(7)-3) * time.Hour
		g.note("the clock of %s is wrong by %s", b.name, b.off)
	case 11:
		if len(g.boxes) < 12 {
			g.install(group, nil)
		}
	case 12:
		if len(g.boxes) < 12 && g.rnd.IntN(3) == 0 {
			g.install(group, b)
		}
	case 13:
		for _, r := range g.groups[group].rollout {
			b.harmed[r.rule.Digest] = true
			g.note("MH refuses %s of %s", r.rule, b.name)
		}
	case 14, 15:
		if lies != "" && g.rnd.IntN(2) == 0 {
			g.lie(lies)
		}
	}
	g.pass([]time.Duration{16 * time.Minute, time.Hour, 3 * time.Hour, 30 * time.Hour}[g.rnd.IntN(4)])
}

// rekey replaces the director's key, twice, or runs the verb once more. A thief of the first key has enrolled a box. At
// the second change somebody gives the first key again, at a machine that may be new: nothing is signed.
func (g *chainGame) rekey() {
	for _, folder := range []string{fleetproto.DesiredRoot, fleetproto.BoxesFolder} { // the store's owner looks first
		for key, data := range g.liar.owner {
			if strings.HasPrefix(key, folder) && string(g.store.Held(key)) != string(data) {
				g.must(g.store.Overwrite(context.Background(), key, data))
			}
		}
	}
	names := []string{}
	for _, b := range g.boxes {
		names = append(names, b.name)
	}
	c, old := Rekey{}, fleetproto.Public(g.director(min(g.keys+1, 2)))
	switch g.keys++; g.keys {
	case 1:
		b := g.boxes[g.rnd.IntN(len(g.boxes))]
		s, err := NewSurveyor(g.chain).Read(g.t.Context())
		for i := 0; err == nil && i < len(s.Branches); i++ {
			if e := s.Branches[i].Enrolment; e != nil && e.Branch == b.name {
				data, err := g.chain.Identity.Seal(&fleetproto.Enrolment{Branch: b.name, Epoch: e.Epoch + 1, Group: b.group,
					Key: fleetproto.EncodeKey(fleetproto.Public(g.director(1)).Public), At: g.now, By: "x"}, g.director(1))
				g.must(err)
				key := fleetproto.BoxKey(b.name, e.Epoch+1)
				if g.store.Held(key) == nil {
					g.must(g.store.Overwrite(context.Background(), key, data))
					c.Except = []string{fmt.Sprintf("%s/%d", b.name, e.Epoch+1)}
				}
			}
		}
		g.newKey("second")
	case 2:
		g.newKey("third")
		before, at := maps.Clone(g.liar.owner), g.chain.Cache
		if g.rnd.IntN(2) == 0 {
			g.chain.Cache = g.t.TempDir()
		}
		err := (&Rekey{}).run(g.t.Context(), g.chain, fleetproto.Public(g.director(1)))
		if g.chain.Cache = at; err == nil || fmt.Sprint(before) != fmt.Sprint(g.liar.owner) {
			g.fatal("rekey with the first of three keys: %v", err)
		}
	}
	var err error
	for range 40 {
		_ = (&Status{Accept: names}).Run(g.t.Context(), g.chain)
		if err = c.run(g.t.Context(), g.chain, old); err == nil {
			break
		}
	}
	_ = (&Status{Accept: names}).Run(g.t.Context(), g.chain) // what Except left out
	g.note("rekey %d, except %q: %v", g.keys, c.Except, err)
	if err != nil {
		g.fatal("rekey")
	}
	for group := range g.groups {
		g.agree(group, "rekey")
	}
}

// truthAgain ends the lies: the store's owner has put back what the director had signed, where there are other bytes,
// and deleted what he had not. What the store lost is lost.
func (g *chainGame) truthAgain() {
	g.liar.calm = true
	for _, b := range g.boxes {
		b.calm, b.away, b.off = true, false, 0
		clear(b.harmed)
	}
	for _, folder := range []string{fleetproto.DesiredRoot, fleetproto.BoxesFolder} {
		for _, key := range g.store.Keys(folder) {
			switch data := g.liar.owner[key]; {
			case data == nil && !g.below(key):
				g.store.Lose(key)
			case data == nil:
			case string(data) != string(g.store.Held(key)):
				g.must(g.store.Overwrite(context.Background(), key, data))
			}
		}
	}
	g.note("the lies end")
	g.pass(4 * time.Hour) // a box whose clock was put back polls by the old clock
}

// below reports whether the director has written a later object of the same folder: then the store's owner must not
// leave a gap.
func (g *chainGame) below(key string) bool {
	folder, n := key[:strings.LastIndexByte(key, '/')+1], int64(0)
	n, _ = fleetproto.NumberOf(key)
	for other := range g.liar.owner {
		if m, _ := fleetproto.NumberOf(other); strings.HasPrefix(other, folder) && m > n {
			return true
		}
	}
	return false
}

// settle rolls until a group has reached what the director wants, within a bound.
func (g *chainGame) settle(group string) {
	var err error
	for n := range 45 {
		g.pass(32 * time.Minute)
		for key, data := range g.liar.owner { // what the centre had not kept is in the store's versions
			if n == 3 && g.store.Held(key) == nil {
				g.must(g.store.Overwrite(context.Background(), key, data))
			}
		}
		names := []string{}
		for _, b := range g.boxes {
			names = append(names, b.name)
		}
		_ = (&Status{Accept: names}).Run(g.t.Context(), g.chain)
		err = g.roll(group)
		if d := g.truth(group); d == nil || d.Rollout == nil {
			break
		}
		if g.truth(group).Rollout.Held {
			g.must(g.back(group, false))
		}
	}
	if d := g.truth(group); d != nil && d.Rollout != nil {
		g.fatal("%s: %s does not end: %v: %s", group, d.Rollout.Name, err, g.text())
	}
	g.pass(time.Hour)
}

// check compares what the boxes of a group run with the model.
func (g *chainGame) check(group string) {
	m, d := g.groups[group], g.truth(group)
	if d == nil {
		return
	}
	for _, b := range g.boxes {
		if b.group != group || b.dead {
			continue
		}
		st := b.agent.Status()
		if st.Desired.Version != d.Version {
			g.fatal("%s has version %d of %d: %s", b.name, st.Desired.Version, d.Version, st.Desired.Trouble)
		}
		for name := range m.live {
			var want, has []string
			excused := b.moved
			for i, r := range m.on(name, g.day()) {
				want = append(want, fmt.Sprint(r))
				if i == 0 && r.from > g.day() {
					want = append([]string{name + " 1.0.0 from 2026-01-01"}, want...) // the installation's
				}
				excused = excused || b.hates[r.rule.Digest]
				for _, o := range b.gate.Bundles() { // a lower version is not admitted: back goes where the box was
					excused = excused || o.Name == name && o.From <= max(g.day(), r.from) && o.Digest != r.rule.Digest &&
						bundle.Compare(o.Version, r.rule.Version) > 0
				}
			}
			for _, o := range b.gate.Bundles() {
				if o.Name == name && (o.Where == fleet.Live || o.Where == fleet.Coming) {
					has = append(has, o.Name+" "+o.Version+" from "+o.From)
				}
			}
			slices.Sort(want)
			slices.Sort(has)
			if !slices.Equal(want, has) && (!excused || st.Desired.Trouble == "") {
				g.fatal("%s runs %q, and shall run %q: %s\n%q", b.name, has, want, st.Desired.Trouble, b.gate.Changes)
			}
		}
	}
}

// TestChainGame: whatever a director orders, in whatever order, and whatever the store of one group says meanwhile, the
// other group follows; once the store says the truth again both do, and back leads each branch to what was before.
func TestChainGame(t *testing.T) {
	quiet, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	out, errs := term.Out, term.Err
	term.Out, term.Err = term.New(&quiet), term.New(&quiet)
	t.Cleanup(func() { term.Out, term.Err = out, errs })
	seeds, dir := 3, t.TempDir()
	clear(gameMade)
	if os.Getenv("DTE_SOAK") != "" {
		seeds = 60
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g := newChainGame(t, uint64(seed), dir)
			lies := []string{"", "norte"}[seed%2]
			g.liar.calm = lies == ""
			for _, b := range g.boxes {
				b.calm = lies == ""
			}
			for range 50 {
				g.act(lies)
			}
			g.truthAgain()
			for _, group := range []string{"sur", "norte"} {
				g.settle(group)
				g.check(group)
				could := g.groups[group].before
				if err := g.back(group, true); err == nil {
					g.pass(time.Hour)
					g.check(group)
				} else if could != nil && !strings.Contains(err.Error(), "nothing was desired for") &&
					!strings.Contains(err.Error(), "nothing else was desired") {
					g.fatal("%s: back: %v", group, err)
				}
			}
		})
	}
}
