package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/rules/bundle"
)

// campaign is a chain of two branches over a store that loses, rolls back, repeats and delays objects, and to which
// strangers write.
type campaign struct {
	t        *testing.T
	rnd      *rand.Rand
	now      time.Time
	store    *fleettest.Store
	boxes    []*campaignBox
	director fleetproto.Signer
	rekeyed  bool
	calm     bool
	rule     int // of the last version that the centre published
	log      []string

	ordered map[string]string         // digest of each version that the centre published: the ID of its key
	kept    map[string][]byte         // what the centre wrote last, by key
	past    map[string][][]byte       // every object that was ever under a key of the store
	boxOf   map[string][]*campaignBox // by branch, in the order of their epochs
}

// campaignBox is a box, and its own way to the store.
type campaignBox struct {
	*fleettest.Store
	c      *campaign
	branch string
	key    fleetproto.Signer
	disk   *fleettest.File
	gate   *fleettest.Gate
	agent  *fleet.Agent
	due    time.Time
	epoch  int64     // the centre gave it; 0: none
	cut    bool      // it does not reach the store
	newKey bool      // it has taken a version of the second key
	clear  time.Time // since then the box could have seen all that the store holds
	seen   int       // changes of the gate that were looked at
}

var errCut = errors.New("no way to the store")

func (b *campaignBox) disturbed() bool {
	if b.cut || !b.c.calm && b.c.rnd.IntN(12) == 0 {
		b.clear = b.c.now
		return true
	}
	return false
}

// Get fails, or returns an earlier object, as the store's state decides.
func (b *campaignBox) Fetch(ctx context.Context, key string, limit int64) (archive.Held, error) {
	if !b.disturbed() {
		return b.Store.Fetch(ctx, key, limit)
	}
	old := b.c.past[key]
	switch at := b.c.rnd.IntN(len(old) + 2); {
	case b.cut || at == len(old):
		return archive.Held{}, errCut
	case at > len(old) || len(old[at]) == 0:
		return archive.Held{}, archive.ErrNotFound
	default:
		return archive.Held{Data: old[at], Modified: b.c.now, Now: b.c.now}, nil
	}
}

func (b *campaignBox) Create(ctx context.Context, key string, data []byte) error {
	return b.write(func() error { return b.Store.Create(ctx, key, data) })
}

func (b *campaignBox) Overwrite(ctx context.Context, key string, data []byte) error {
	return b.write(func() error { return b.Store.Overwrite(ctx, key, data) })
}

// write fails, or is carried out although the box gets an error, or is carried out twice.
func (b *campaignBox) write(do func() error) error {
	if !b.disturbed() {
		return do()
	}
	switch mood := b.c.rnd.IntN(3); {
	case b.cut || mood == 0:
		return errCut
	case mood == 1:
		_ = do()
		return errCut
	}
	_ = do()
	return do()
}

// start is a start of the appliance.
func (b *campaignBox) start() {
	var err error
	c := b.c
	b.agent, err = fleet.New(fleet.Options{Store: b, Chain: chain, Branch: b.branch, Group: "norte",
		Director: []fleetproto.Key{public(director), public(second)}, Box: b.key, Points: points, Rules: b.gate,
		State: b.disk, Last: fleettest.NoNumbers,
		Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return c.now },
		Rand: rand.New(rand.NewPCG(c.rnd.Uint64(), 1))})
	if err != nil {
		c.t.Fatal(err)
	}
	b.due, b.clear = c.now, c.now
}

var second = signer("second", 7)

// strangers are signers whose signatures do not count in this chain.
var strangers = map[string]func() (fleetproto.Chain, fleetproto.Signer){
	"a thief": func() (fleetproto.Chain, fleetproto.Signer) { return chain, thief },
	"another chain": func() (fleetproto.Chain, fleetproto.Signer) {
		return fleetproto.Chain{Name: "otra", Ambiente: "00"}, director
	},
	"another ambiente": func() (fleetproto.Chain, fleetproto.Signer) {
		return fleetproto.Chain{Name: "super", Ambiente: "01"}, director
	},
	"a box": func() (fleetproto.Chain, fleetproto.Signer) { return chain, signer("centro-1", 20) },
}

func newCampaign(t *testing.T, seed uint64) *campaign {
	c := &campaign{t: t, rnd: rand.New(rand.NewPCG(seed, 2)), now: time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC),
		director: director,
		ordered:  make(map[string]string), kept: make(map[string][]byte), past: make(map[string][][]byte),
		boxOf: make(map[string][]*campaignBox)}
	c.store = fleettest.New(func() time.Time { return c.now })
	for i, branch := range []string{"centro", "centro", "sur", "centro"} { // the last one is never enrolled
		b := &campaignBox{Store: c.store, c: c, branch: branch, key: signer(fmt.Sprintf("%s-%d", branch, i),
			byte(20+i)), disk: &fleettest.File{}}
		b.gate = &fleettest.Gate{Keys: bundle.Keys{Pinned: []bundle.Key{public(author)}}, Ambiente: "00",
			Today: func() string { return c.now.Format(time.DateOnly) }}
		c.boxes = append(c.boxes, b)
	}
	c.enrol(c.boxes[0], 1)
	c.enrol(c.boxes[2], 1)
	c.publish(false)
	for _, b := range c.boxes {
		b.start()
	}
	return c
}

// put writes an object without any fault, and keeps the previous object; no data: the object is lost.
func (c *campaign) put(key string, data []byte) {
	c.past[key] = append(c.past[key], c.store.Held(key))
	if len(data) == 0 {
		c.store.Lose(key)
	} else if err := c.store.Overwrite(context.Background(), key, data); err != nil {
		c.t.Fatal(err)
	}
	for _, b := range c.boxes {
		if strings.HasPrefix(key, fleetproto.BoxesFolder) { // a box may see another owner
			b.clear = c.now
		}
	}
}

// write is the centre's put.
func (c *campaign) write(key string, data []byte, err error) []byte {
	if err != nil {
		c.t.Fatal(err)
	}
	c.kept[key] = data
	c.put(key, data)
	return data
}

// enrol gives a branch to a box; an enrolment of a box that already has it is signed again.
func (c *campaign) enrol(b *campaignBox, highest int64) {
	if b.epoch == 0 {
		c.boxOf[b.branch] = append(c.boxOf[b.branch], b)
		b.epoch = int64(len(c.boxOf[b.branch]))
	}
	e := c.enrolment(b, b.epoch)
	if highest > 1 || c.rekeyed {
		e.Highest = highest
	}
	data, err := chain.Seal(&e, c.director)
	c.write(fleetproto.BoxKey(b.branch, b.epoch), data, err)
}

func (c *campaign) enrolment(b *campaignBox, epoch int64) fleetproto.Enrolment {
	return fleetproto.Enrolment{Branch: b.branch, Epoch: epoch, Key: fleetproto.EncodeKey(public(b.key).Public),
		At: c.now, By: "ana", Points: points}
}

func (c *campaign) desired(version int64, rules ...fleetproto.Rule) fleetproto.Desired {
	d := fleetproto.Desired{Group: "norte", Version: version, Issued: c.now, Expires: c.now.Add(90 * 24 * time.Hour),
		By: "ana", Live: fleetproto.State{Rules: rules}}
	if version > 1 {
		d.Previous = fleetproto.Digest(c.store.Held(fleetproto.DesiredKey("norte", version-1)))
	}
	return d
}

// bundle puts a signed bundle into the store.
func (c *campaign) bundle(name, version string) fleetproto.Rule {
	data, r := file(c.t, name, version, author, "2026-01-01")
	c.write(fleetproto.RuleKey(r.File), data, nil)
	return r
}

// top returns the highest version under which the store has an object.
func (c *campaign) top() (n int64) {
	for _, key := range c.store.Keys(fleetproto.DesiredFolder("norte")) {
		number, _ := fleetproto.NumberOf(key)
		n = max(n, number)
	}
	return n
}

// publish writes the next version as the centre does: after whatever is in the store. With a memory the centre first
// puts back what the store lost, fills remaining gaps, and mends versions that boxes report.
func (c *campaign) publish(memory bool) {
	top, mends := c.top(), []fleetproto.Verified(nil)
	c.rule = min(c.rule+1, 6)
	r := c.bundle("catalogos", fmt.Sprintf("1.0.%d", c.rule))
	if memory {
		for _, b := range c.boxes {
			if reached := b.agent.Status().Desired; reached.Version > 0 {
				mends, top = append(mends, fleetproto.Verified{Version: reached.Version, Digest: reached.Digest}),
					max(top, reached.Version)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(c.kept)) {
			held := c.store.Held(key)
			// Once the trouble is over, the store's owner has deleted what the director did not sign.
			foreign := c.calm && c.ordered[fleetproto.Digest(held)] == ""
			if held == nil || foreign || !strings.HasPrefix(key, fleetproto.DesiredRoot) {
				c.put(key, c.kept[key])
			}
		}
	}
	for n := int64(1); n <= top; n++ {
		if key := fleetproto.DesiredKey("norte", n); memory && c.store.Held(key) == nil || n == top &&
			c.store.Held(key) == nil {
			c.order(c.desired(n, r))
		}
	}
	d := c.desired(top+1, r)
	d.Mends = mends
	c.order(d)
}

func (c *campaign) order(d fleetproto.Desired) {
	data, err := chain.Seal(&d, c.director)
	c.ordered[fleetproto.Digest(c.write(fleetproto.DesiredKey("norte", d.Version), data, err))] = c.director.ID
}

// trouble does one thing that can happen to a chain.
func (c *campaign) trouble() {
	what := ""
	pick := func(prefix string) string {
		keys := c.store.Keys(prefix)
		if len(keys) == 0 {
			return ""
		}
		return keys[c.rnd.IntN(len(keys))]
	}
	b := c.boxes[c.rnd.IntN(len(c.boxes))]
	switch c.rnd.IntN(12) {
	case 0:
		what = "the centre publishes"
		c.publish(c.rnd.IntN(2) == 0)
	case 1, 2:
		if key := pick("fleet/v1/"); key != "" {
			what = "the store loses " + key
			c.put(key, nil)
		}
	case 3:
		if key := pick("fleet/v1/"); len(c.past[key]) > 0 {
			what = "the store rolls back " + key
			c.put(key, c.past[key][c.rnd.IntN(len(c.past[key]))])
		}
	case 4: // a rollback of the whole folder to few versions
		what = "the store forgets versions"
		for n := c.top(); n > 1 && c.rnd.IntN(4) > 0; n-- {
			c.put(fleetproto.DesiredKey("norte", n), nil)
		}
	case 5, 6:
		names := slices.Sorted(maps.Keys(strangers))
		name := names[c.rnd.IntN(len(names))]
		identity, by := strangers[name]()
		version := c.top() + 1
		if version > 3 && c.rnd.IntN(3) == 0 {
			version = 2 + c.rnd.Int64N(version-2) // over the existing object
		}
		d := c.desired(version, c.bundle("ajeno", "9.0.0"))
		for _, o := range c.boxes { // a stranger knows what the boxes report
			if reached := o.agent.Status().Desired; reached.Version > 0 && reached.Version < version {
				d.Mends = append(d.Mends, fleetproto.Verified{Version: reached.Version, Digest: reached.Digest})
			}
		}
		data, err := identity.Seal(&d, by)
		if err != nil {
			c.t.Fatal(err)
		}
		what = fmt.Sprintf("%s orders version %d", name, version)
		c.put(fleetproto.DesiredKey("norte", version), data)
	case 7:
		names := slices.Sorted(maps.Keys(strangers))
		name := names[c.rnd.IntN(len(names))]
		identity, by := strangers[name]()
		stray := c.boxes[3]
		epoch := int64(len(c.boxOf[stray.branch]) + 1)
		e := c.enrolment(stray, epoch)
		data, err := identity.Seal(&e, by)
		if err != nil {
			c.t.Fatal(err)
		}
		what = fmt.Sprintf("%s enrols epoch %d", name, epoch)
		c.put(fleetproto.BoxKey(stray.branch, epoch), data)
	case 8:
		what = fmt.Sprintf("%s is cut off: %v", b.key.ID, !b.cut)
		b.cut = !b.cut
	case 9:
		what = b.key.ID + " starts again"
		b.start()
	case 10:
		if next := c.boxes[1]; next.epoch == 0 {
			what = "the centre enrols another box"
			c.enrol(next, 0)
		} else if !c.rekeyed {
			what = "the director has another key"
			c.rekeyed, c.director = true, second
			for _, o := range c.boxes[:3] {
				c.enrol(o, int64(len(c.boxOf[o.branch])))
			}
			c.publish(true)
		}
	case 11:
		if c.rekeyed && c.newKeyEverywhere() {
			what = "a thief has the director's old key"
			forged := c.desired(c.top()+1, c.bundle("ajeno", "9.0.0"))
			data, err := chain.Seal(&forged, director)
			if err != nil {
				c.t.Fatal(err)
			}
			c.put(fleetproto.DesiredKey("norte", c.top()+1), data)
		}
	}
	if what != "" {
		c.log = append(c.log, c.now.Format(time.TimeOnly)+" "+what)
	}
}

func (c *campaign) newKeyEverywhere() bool {
	return !slices.ContainsFunc(c.boxes, func(b *campaignBox) bool { return !b.newKey })
}

// pass lets the boxes work for a time, and checks each of them after each of its steps.
func (c *campaign) pass(d time.Duration) {
	for end := c.now.Add(d); ; {
		b := slices.MinFunc(c.boxes, func(x, y *campaignBox) int { return x.due.Compare(y.due) })
		if !b.due.Before(end) {
			c.now = end
			return
		}
		if c.now.Before(b.due) {
			c.now = b.due
		}
		b.due = c.now.Add(b.agent.Step(context.Background()))
		c.audit(b)
		if !c.calm && c.rnd.IntN(6) == 0 {
			c.trouble()
		}
	}
}

// audit checks what no box may ever do.
func (c *campaign) audit(b *campaignBox) {
	for _, change := range b.gate.Changes[b.seen:] {
		if strings.Contains(change, "ajeno") {
			c.fatal("%s has obeyed a stranger: %s", b.key.ID, change)
		}
	}
	b.seen = len(b.gate.Changes)
	if reached := b.agent.Status().Desired; reached.Version > 0 {
		by, ours := c.ordered[reached.Digest]
		if !ours {
			c.fatal("%s has taken version %d, which the centre never published", b.key.ID, reached.Version)
		}
		if b.newKey && by == director.ID {
			c.fatal("%s has taken version %d of the old key behind the new one", b.key.ID, reached.Version)
		}
		b.newKey = b.newKey || by == second.ID
	}
	standing := b.agent.Fence().Standing()
	if !standing.Numbers(points[0]) {
		return
	}
	if b.epoch == 0 {
		c.fatal("%s numbers, and nobody enrolled it", b.key.ID)
	}
	if standing.Highest > b.epoch {
		c.fatal("%s knows its successor and numbers", b.key.ID)
	}
	// Nothing has hidden the successor from the box for longer than the time between two looks.
	if clear := c.now.Sub(b.clear); clear > fleet.DefaultLook && c.shows(b.branch, b.epoch) {
		c.fatal("%s has numbered beside its successor for %s", b.key.ID, clear)
	}
}

// shows reports whether the store has the centre's enrolment of an epoch after another, with no gap between them.
func (c *campaign) shows(branch string, behind int64) bool {
	for epoch := behind + 1; ; epoch++ {
		key := fleetproto.BoxKey(branch, epoch)
		switch held := c.store.Held(key); {
		case held == nil:
			return false
		case bytes.Equal(held, c.kept[key]):
			return true
		}
	}
}

func (c *campaign) fatal(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf(format+"\n%s", append(args, strings.Join(c.log, "\n"))...)
}

// TestCampaign: whatever a store does and strangers write, no box obeys another chain, another ambiente or an untrusted
// key, and none gives numbers of a series that another box has for longer than one look. After the centre has mended
// the store, every box follows it again.
func TestCampaign(t *testing.T) {
	seeds := 4
	if os.Getenv("DTE_SOAK") != "" {
		seeds = 300
	}
	taken := 0
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newCampaign(t, uint64(seed))
			c.pass(time.Hour)
			c.calm = true
			for _, b := range c.boxes {
				b.cut = false
			}
			for range 2 { // the second mend mends what a box reports after the first
				c.publish(true)
				c.pass(26 * time.Minute)
			}
			for _, b := range c.boxes {
				look := b.agent.Look()
				if look.Version != c.top() {
					c.fatal("%s stays at version %d of %d: %+v", b.key.ID, look.Version, c.top(), look)
				}
				if newest := c.boxOf[b.branch]; b == newest[len(newest)-1] && !look.Standing.Numbers(points[0]) {
					c.fatal("%s does not number: %+v", b.key.ID, look)
				}
			}
			taken += len(c.log)
		})
	}
	if !t.Failed() && taken < 20*seeds {
		t.Errorf("only %d troubles in %d campaigns", taken, seeds)
	}
}
