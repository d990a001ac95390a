package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"dtegate/cmd/dtectl/fleet/centre"
	"dtegate/cmd/screen"
	"dtegate/engine/fleet/wire"
	"dtegate/rules/bundle"
)

// Publish is dtectl fleet publish.
type Publish struct {
	Files       []string        `arg:"" type:"existingfile" help:"Signed bundles (.dterule), and at most one settings file (.json)."`
	Group       string          `required:"" help:"Group of branches, as their fleet.group has it."`
	Pilots      []string        `help:"Branches that take it first. Without --share nobody else does until the next ring." placeholder:"A,B"`
	Share       *centre.Percent `help:"Percentage of the branches in the first ring; default 5, and 0 beside pilots." placeholder:"5"`
	NotBefore   centre.Moment   `help:"No branch takes it before." placeholder:"T"`
	Soak        time.Duration   `default:"1h" help:"How long a ring is watched before the next one opens."`
	MinSuccess  int             `default:"1" help:"Branches of the ring that must have taken it, or all of a smaller ring." placeholder:"N"`
	MaxFailures centre.Percent  `default:"0" help:"Percentage of the branches that tried it which may refuse it or go back by themselves; more, and fleet roll holds it." placeholder:"P"`
	Expires     centre.Moment   `help:"Until when the order is good; past it boxes alarm and sell on; default: 90 days." placeholder:"T"`
	Running     bool            `help:"Of the bundles, only those that branches of the group run already: a chain's first order, which fleet back can go back to."`
	Reason      string          `help:"Why, for the log."`
}

// Run puts the files into the store and begins the roll-out.
func (c *Publish) Run(ctx context.Context, top *Command) error {
	chain, err := top.open()
	if err != nil {
		return err
	}
	return c.run(ctx, chain)
}

func (c *Publish) run(ctx context.Context, chain *centre.Chain) error {
	if err := wire.CheckName(c.Group); err != nil {
		return fmt.Errorf("--group: %w", err)
	}
	if c.MinSuccess < 0 || c.Soak < 0 {
		return errors.New("--min-success, --soak: not negative")
	}
	head, err := chain.Head(ctx, c.Group)
	if err != nil {
		return err
	}
	if head != nil && head.Rollout != nil {
		return fmt.Errorf("%s is on its way in %s: let it end (dtectl fleet roll) or take it back (dtectl fleet back) first", head.Rollout.Name, c.Group)
	}
	s, err := centre.NewSurveyor(chain).Read(ctx)
	if err != nil {
		return err
	}
	for _, p := range c.Pilots {
		if !slices.ContainsFunc(s.Branches, func(b *centre.Branch) bool { return b.Name == p && b.Group() == c.Group }) {
			return fmt.Errorf("--pilots: no branch %s of group %s has reported", p, c.Group)
		}
	}
	state, files, err := c.load(chain)
	if err != nil {
		return err
	}
	if c.Running {
		state.Rules = slices.DeleteFunc(state.Rules, func(r wire.Rule) bool { return !runs(s, c.Group, r) })
		if len(state.Rules) == 0 {
			return fmt.Errorf("--running: no branch of %s runs any of these bundles", c.Group)
		}
	}
	if head != nil {
		if err := newer(state, head.Live); err != nil {
			return err
		}
	}
	// The files first: whoever reads the order finds them.
	for key, data := range files {
		if err := chain.CreateOnce(ctx, key, data); err != nil {
			return fmt.Errorf("storing %s: %w", key, err)
		}
	}
	expires := c.Expires.Time
	if expires.IsZero() {
		expires = chain.Now().Add(centre.DefaultLife)
	}
	d, err := chain.Next(ctx, head, c.Group, c.Reason, expires, func(d *wire.Desired) error {
		if !d.Expires.After(d.Issued) {
			return errors.New("--expires: has passed")
		}
		d.Rollout = &wire.Rollout{Name: fmt.Sprintf("r%d", d.Version), State: state, Pilots: c.Pilots, Share: c.share(), NotBefore: c.NotBefore.UTC(), Opened: d.Issued,
			SoakSeconds: int64(c.Soak / time.Second), MinSuccess: c.MinSuccess, MaxFailures: int(c.MaxFailures)}
		if c.NotBefore.IsZero() {
			d.Rollout.NotBefore = time.Time{}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return printOrder(d, s)
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

// load reads the files as branches will: a bundle that no pinned key signed goes nowhere.
func (c *Publish) load(chain *centre.Chain) (state wire.State, files map[string][]byte, err error) {
	files = make(map[string][]byte)
	keys, err := chain.Config.Pinned()
	if len(chain.Config.Keys) > 0 && err != nil {
		return state, nil, err
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
			settings, err := wire.ParseSettings(data)
			if err == nil {
				data, err = wire.EncodeSettings(*settings)
			}
			if err != nil {
				return state, nil, fmt.Errorf("%s: %w", file, err)
			}
			state.Settings = wire.Digest(data)
			files[wire.SettingsKey(state.Settings)] = data
			continue
		}
		read := bundle.Inspect
		if len(chain.Config.Keys) > 0 {
			read = keys.Read
		}
		b, err := read(data)
		if err != nil {
			return state, nil, fmt.Errorf("%s: %w", file, err)
		}
		m := b.Manifest
		rule := wire.Rule{File: wire.Digest(data), Digest: b.Digest, Name: m.Name, Version: m.Version, Bundle: m.Kind, Document: m.Document, Schema: m.Schema}
		if slices.ContainsFunc(state.Rules, rule.SameGeneration) {
			return state, nil, fmt.Errorf("%s: a second bundle of %s %s, generation %d", file, m.Kind, m.Document, m.Schema)
		}
		state.Rules = append(state.Rules, rule)
		files[wire.RuleKey(rule.File)] = data
	}
	return state, files, nil
}

// runs tells that a branch of a group has reported a rule as in force, or on its shelf for later.
func runs(s *centre.Survey, group string, rule wire.Rule) bool {
	return slices.ContainsFunc(s.Branches, func(b *centre.Branch) bool {
		return b.Group() == group && b.Status != nil && slices.ContainsFunc(b.Status.Rules, func(r wire.Running) bool { return r.Digest == rule.Digest })
	})
}

// newer refuses a bundle that is older than what branches run: their floor would refuse it.
func newer(state, live wire.State) error {
	for _, r := range state.Rules {
		for _, l := range live.Rules {
			if r.SameGeneration(l) && bundle.Compare(r.Version, l.Version) < 0 {
				return fmt.Errorf("%s %s is older than %s, which branches run: they would refuse it; dtectl fleet back goes back to what was desired before", r.Name, r.Version, l.Version)
			}
		}
	}
	return nil
}

// printOrder says what a version means for the branches.
func printOrder(d *wire.Desired, s *centre.Survey) error {
	var b bytes.Buffer
	screen.Fprintf(&b, "%s version %d: ", d.Group, d.Version)
	if d.Rollout == nil {
		screen.Fprintf(&b, "%s, no roll-out\n", centre.Describe(d.Live))
	} else {
		r := d.Rollout
		screen.Fprintf(&b, "%s %s, %s\n", r.Name, centre.Describe(r.State), centre.RingWords(r, s.Measure(r, d.Group).Boxes))
		if !r.NotBefore.IsZero() {
			screen.Fprintf(&b, "not before %s\n", centre.Local(r.NotBefore))
		}
	}
	_, err := screen.Out.Write(b.Bytes())
	return err
}
