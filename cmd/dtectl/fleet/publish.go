package fleet

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"dtegate/cmd/term"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/rules/bundle"
)

type Publish struct {
	Files       []string      `arg:"" type:"existingfile" help:"Signed bundles, at most one settings file."`
	Group       string        `required:"" help:"Group of branches, as their fleet.group has it."`
	Pilots      []string      `help:"Branches that apply it first; without --share only these." placeholder:"A,B"`
	Share       *Percent      `help:"Percentage in the first ring; default 5, or 0 with --pilots." placeholder:"5"`
	NotBefore   Moment        `help:"No branch applies it before this time." placeholder:"T"`
	Soak        time.Duration `default:"1h" help:"How long a ring is watched before the next one opens."`
	MinSuccess  int           `default:"1" help:"Branches of a ring that must have applied it." placeholder:"N"`
	MaxFailures Percent       `default:"0" help:"Failures in percent above which roll holds it." placeholder:"P"`
	Expires     Moment        `help:"When the order expires; default: after 90 days." placeholder:"T"`
	Running     bool          `help:"Publish only what branches already run: a chain's first order."`
	Reason      string        `help:"Why, for the log."`
	// A branch refuses these changes unless the order allows them.
	AmountsChange bool `help:"The bundles may change the amounts of a branch's last sales."`
	FewerCases    bool `help:"The bundles may carry fewer golden cases than the bundles that they replace."`
}

// Run puts the files into the store and begins the roll-out.
func (c *Publish) Run(ctx context.Context, chain *Chain) error {
	expires := cmp.Or(c.Expires.Time, chain.Now().Add(DefaultLife))
	s, err := restored(ctx, chain, NewSurveyor(chain))
	if err != nil {
		return err
	}
	head := s.Desired(c.Group)
	members := slices.DeleteFunc(slices.Clone(s.Branches), func(b *Branch) bool {
		return b.Enrolment == nil || b.Group() != c.Group
	})
	for _, b := range members {
		if head == nil && b.Status != nil && b.Status.Desired.Version > 0 {
			return fmt.Errorf("%s has version %d of what %s shall run, and the store has no version that the director "+
				"signed (%s); if the versions are lost, publish from the machine that published them: it has kept them",
				b.Name, b.Status.Desired.Version, c.Group, strings.Join(s.Faults, "; "))
		}
	}
	if head == nil && len(members) == 0 {
		return fmt.Errorf("--group: no branch of a group %s is enrolled, and %s", c.Group, s.noOrder())
	}
	if head != nil && head.Rollout != nil {
		return fmt.Errorf("%s is on its way in %s: let it end (dtectl fleet roll) or take it back (dtectl fleet back) "+
			"first", head.Rollout.Name, c.Group)
	}
	for _, p := range c.Pilots {
		if !slices.ContainsFunc(members, func(b *Branch) bool { return b.Name == p }) {
			return fmt.Errorf("--pilots: no branch %s of group %s is enrolled", p, c.Group)
		}
	}
	state, files, err := c.load(chain)
	if err != nil {
		return err
	}
	if c.Running {
		state.Rules = slices.DeleteFunc(state.Rules, func(r fleetproto.Rule) bool { return !runs(s, c.Group, r) })
		if len(state.Rules) == 0 {
			return fmt.Errorf("--running: no branch of %s runs any of these bundles", c.Group)
		}
	}
	if head != nil {
		if err := c.succeed(ctx, chain, state, files, head.Live); err != nil {
			return err
		}
	}
	// Write the files first: a branch that reads the order finds them. A file's key contains its digest: no other bytes
	// belong under it.
	for key, data := range files {
		if err := chain.Store.Overwrite(ctx, key, data); err != nil {
			return fmt.Errorf("storing %s: %w", key, err)
		}
	}
	same := head != nil && (state.Settings == "" || state.Settings == head.Live.Settings) &&
		!slices.ContainsFunc(state.Rules, func(r fleetproto.Rule) bool {
			return !slices.ContainsFunc(head.Live.Rules, func(l fleetproto.Rule) bool { return l.File == r.File })
		})
	if same {
		term.Printf("%s version %d desires all of this already: no roll-out begins\n", c.Group, head.Version)
	}
	d, err := chain.Next(ctx, head, c.Group, c.Reason, expires, func(d *fleetproto.Desired) {
		if same { // the order is signed again: it expires later, and a branch that refused it tries once more
			return
		}
		d.Rollout = &fleetproto.Rollout{Name: fmt.Sprintf("r%d", d.Version), State: state, Pilots: c.Pilots,
			Share: c.share(), NotBefore: c.NotBefore.UTC(), Opened: d.Issued,
			SoakSeconds: int64(c.Soak / time.Second), MinSuccess: c.MinSuccess, MaxFailures: int(c.MaxFailures)}
	})
	if err == nil {
		printOrder(d, s)
	}
	return err
}

func (c *Publish) share() int {
	switch {
	case c.Share != nil:
		return int(*c.Share)
	case len(c.Pilots) > 0:
		return 0
	}
	return 500
}

// load reads the files. If the centre's settings pin keys, it refuses a bundle that these keys have not signed.
func (c *Publish) load(chain *Chain) (state fleetproto.State, files map[string][]byte, err error) {
	files = make(map[string][]byte)
	read := bundle.Inspect
	if len(chain.Config.Keys) > 0 {
		keys, err := chain.Config.Pinned()
		if err != nil {
			return state, nil, err
		}
		read = keys.Read
	}
	for _, file := range c.Files {
		data, err := os.ReadFile(file)
		if err != nil {
			return state, nil, err
		}
		if filepath.Ext(file) == ".json" {
			if state.Settings != "" {
				return state, nil, fmt.Errorf("%s: a second settings file", file)
			}
			settings, err := fleetproto.ParseSettings(data)
			if err == nil {
				data, err = fleetproto.EncodeSettings(*settings)
			}
			if err != nil {
				return state, nil, fmt.Errorf("%s: %w", file, err)
			}
			state.Settings = fleetproto.Digest(data)
			files[fleetproto.SettingsKey(state.Settings)] = data
			continue
		}
		b, err := read(data)
		if err != nil {
			return state, nil, fmt.Errorf("%s: %w", file, err)
		}
		rule := fleetproto.RuleOf(b, data, chain.Identity.Ambiente)
		rule.AmountsChange, rule.FewerCases = c.AmountsChange, c.FewerCases
		if rule.From == "" {
			return state, nil, fmt.Errorf("%s: validity.%s: the manifest has no dates for this ambiente", file,
				chain.Identity.Ambiente)
		}
		state.Rules = append(state.Rules, rule)
		files[fleetproto.RuleKey(rule.File)] = data
	}
	return state, files, nil
}

// runs reports whether a branch of a group has reported a rule, in force or coming.
func runs(s *Survey, group string, rule fleetproto.Rule) bool {
	return slices.ContainsFunc(s.Branches, func(b *Branch) bool {
		return b.Group() == group && b.Status != nil && slices.ContainsFunc(b.Status.Rules,
			func(r fleetproto.Running) bool { return r.Digest == rule.Digest })
	})
}

// succeed refuses the bundles that each branch would refuse: a bundle older than the bundle that it replaces, a
// document's bundle with fewer golden cases, a type that would break stored documents, and a bundle that would replace
// a bundle still waiting for its day. It prints the changes of types, and the bundles that still wait for their day.
func (c *Publish) succeed(ctx context.Context, chain *Chain, state fleetproto.State, files map[string][]byte,
	live fleetproto.State) error {
	today := dte.Date(chain.Now())
	next := state.Over(live).On(today)
	for _, r := range state.Rules {
		var replaced *fleetproto.Rule
		var changed []string
		for _, l := range live.On(today) {
			switch {
			case l.SameDocument(r) && l.From > r.From && l.From <= today:
				return fmt.Errorf("%s would never be in force: it begins on %s, and %s on %s", r, r.From, l, l.From)
			case !l.SameGeneration(r) || l.Digest == r.Digest:
			case l.From <= r.From && bundle.Compare(r.Version, l.Version) <= 0:
				return fmt.Errorf("%s is not newer than %s, which is desired: branches would refuse it; dtectl fleet "+
					"back goes back to what was desired before", r, l.Version)
			case l.From <= r.From && (replaced == nil || replaced.From < l.From):
				replaced = &l
			case l.From > r.From && !slices.ContainsFunc(next, func(o fleetproto.Rule) bool {
				return o.SameGeneration(l) && o.From >= l.From
			}):
				return fmt.Errorf("%s begins on %s, and %s would be lost, which begins on %s: give it a version below "+
					"that, or publish a successor of %s in the same order", r, r.From, l, l.From, l)
			}
			if l.SameDocument(r) && l.From > today && slices.Contains(next, l) && l.Digest != r.Digest {
				changed = append(changed, fmt.Sprintf("%s still begins on %s (before this, dtectl fleet back ends it)",
					l, l.From))
			}
		}
		if replaced != nil {
			more, err := c.replaces(ctx, chain, r, files[fleetproto.RuleKey(r.File)], *replaced)
			if err != nil {
				return err
			}
			changed = append(more, changed...)
		}
		for _, change := range changed {
			term.Printf("%s: %s\n", r, change)
		}
	}
	return nil
}

// replaces compares a bundle (r, the bytes of its file) with the bundle that it replaces, and returns the
// changes of the type.
func (c *Publish) replaces(ctx context.Context, chain *Chain, r fleetproto.Rule, file []byte,
	replaced fleetproto.Rule) (changed []string, err error) {
	held, err := chain.Store.Fetch(ctx, fleetproto.RuleKey(replaced.File), fleetproto.MaxRule)
	if err != nil {
		return nil, fmt.Errorf("reading %s, which %s replaces: %w", replaced, r.Version, err)
	}
	before, err := bundle.Reopen(held.Data, replaced.Digest)
	if err != nil {
		return nil, fmt.Errorf("%s in the chain's store: %w", replaced, err)
	}
	b, err := bundle.Inspect(file)
	if err == nil && !c.FewerCases {
		_, err = bundle.CompareCases(b.Different(), before)
	}
	if err == nil {
		changed, err = b.SucceedsType(before)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r, err)
	}
	return changed, nil
}

// Percent is a share in units of 1/10,000, written as a percentage of at most two decimals: "5", "0.25".
type Percent int

var percentForm = regexp.MustCompile(`^(\d{1,3})(?:\.(\d{1,2}))?%?$`)

func (p *Percent) UnmarshalText(text []byte) error {
	m := percentForm.FindStringSubmatch(string(text))
	if m == nil {
		return fmt.Errorf("%q is not a percentage of at most two decimals", text)
	}
	n, err := strconv.Atoi(m[1] + (m[2] + "00")[:2])
	if err != nil || n > fleetproto.Whole {
		return fmt.Errorf("%q is above 100", text)
	}
	*p = Percent(n)
	return nil
}

func (p Percent) String() string {
	text := strings.TrimRight(fmt.Sprintf("%d.%02d", p/100, p%100), "0")
	return strings.TrimSuffix(text, ".") + " %"
}

// Moment is a time on the command line: RFC 3339, or a day or an hour of El Salvador, "2026-12-01", "2026-12-01T06:00".
type Moment struct{ time.Time }

func (m *Moment) UnmarshalText(text []byte) (err error) {
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02 15:04", time.RFC3339} {
		if m.Time, err = time.ParseInLocation(layout, string(text), dte.Zone); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%q is not a time: 2026-12-01, 2026-12-01T06:00 (El Salvador) or RFC 3339", text)
}

// FirstDay starts a demonstration's chain. It waits until the given number of boxes report, enrols them, and publishes
// to them the bundles that they already run. A started chain does not change.
func FirstDay(ctx context.Context, settings string, boxes int, group string, files []string) error {
	chain, err := (&Command{Centre: settings}).ProvideChain()
	if err != nil {
		return err
	}
	surveyor := NewSurveyor(chain)
	for {
		s, err := surveyor.Read(ctx)
		if err == nil && s.Desired(group) != nil {
			return nil
		}
		if err == nil && len(s.Branches) >= boxes {
			if s.Counts().Waiting > 0 {
				if err := (&Enrol{All: true}).Run(ctx, chain); err != nil {
					return err
				}
			}
			break
		}
		if err := fairqueue.Sleep(ctx, time.Second); err != nil { // the store may still be starting
			return err
		}
	}
	all := Percent(fleetproto.Whole)
	if err := (&Publish{Group: group, Files: files, Share: &all, Running: true, MinSuccess: boxes,
		Reason: "what runs already"}).Run(ctx, chain); err != nil {
		return fmt.Errorf("publishing what runs already: %w", err)
	}
	return (&Roll{Follow: true}).Run(ctx, chain)
}
