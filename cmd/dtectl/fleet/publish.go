package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dtegate/cmd/screen"
	"dtegate/engine/fleet/wire"
	"dtegate/rules/bundle"
)

// Publish is dtectl fleet publish.
type Publish struct {
	Files       []string      `arg:"" type:"existingfile" help:"Signed bundles (.dterule), and at most one settings file (.json)."`
	Group       string        `required:"" help:"Group of branches, as their fleet.group has it."`
	Pilots      []string      `help:"Branches that take it first. Without --share nobody else does until the next ring." placeholder:"A,B"`
	Share       *Percent      `help:"Percentage of the branches in the first ring; default 5, and 0 beside pilots." placeholder:"5"`
	NotBefore   Moment        `help:"No branch takes it before." placeholder:"T"`
	Soak        time.Duration `default:"1h" help:"How long a ring is watched before the next one opens."`
	MinSuccess  int           `default:"1" help:"Branches of the ring that must have taken it, or all of a smaller ring." placeholder:"N"`
	MaxFailures Percent       `default:"0" help:"Percentage of the branches that tried it which may refuse it or go back by themselves; more, and fleet roll holds it." placeholder:"P"`
	Expires     Moment        `help:"Until when the order is good; past it boxes alarm and sell on; default: 90 days." placeholder:"T"`
	Running     bool          `help:"Of the bundles, only those that branches of the group run already: a chain's first order, which fleet back can go back to."`
	Reason      string        `help:"Why, for the log."`
}

// Run puts the files into the store and begins the roll-out.
func (c *Publish) Run(ctx context.Context, top *Command) error {
	chain, err := top.open()
	if err != nil {
		return err
	}
	return c.run(ctx, chain)
}

func (c *Publish) run(ctx context.Context, chain *chain) error {
	if err := wire.CheckName(c.Group); err != nil {
		return fmt.Errorf("--group: %w", err)
	}
	if c.MinSuccess < 0 || c.Soak < 0 {
		return errors.New("--min-success, --soak: not negative")
	}
	head, err := chain.head(ctx, c.Group)
	if err != nil {
		return err
	}
	if head != nil && head.Rollout != nil {
		return fmt.Errorf("%s is on its way in %s: let it end (dtectl fleet roll) or take it back (dtectl fleet back) first", head.Rollout.Name, c.Group)
	}
	s, err := newSurveyor(chain).read(ctx)
	if err != nil {
		return err
	}
	for _, p := range c.Pilots {
		if !slices.ContainsFunc(s.Branches, func(b *branch) bool { return b.Name == p && b.group() == c.Group }) {
			return fmt.Errorf("--pilots: no branch %s of group %s has reported", p, c.Group)
		}
	}
	state, files, err := c.load(chain)
	if err != nil {
		return err
	}
	if c.Running {
		state.Rules = slices.DeleteFunc(state.Rules, func(r wire.Rule) bool { return !s.runs(c.Group, r) })
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
		if err := chain.createOnce(ctx, key, data); err != nil {
			return fmt.Errorf("storing %s: %w", key, err)
		}
	}
	expires := c.Expires.Time
	if expires.IsZero() {
		expires = chain.now().Add(defaultLife)
	}
	d, err := chain.next(ctx, head, c.Group, c.Reason, expires, func(d *wire.Desired) error {
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
func (c *Publish) load(chain *chain) (state wire.State, files map[string][]byte, err error) {
	files = make(map[string][]byte)
	keys, err := chain.config.Pinned()
	if len(chain.config.Keys) > 0 && err != nil {
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
		if len(chain.config.Keys) > 0 {
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
func (s *survey) runs(group string, rule wire.Rule) bool {
	return slices.ContainsFunc(s.Branches, func(b *branch) bool {
		return b.group() == group && b.Status != nil && slices.ContainsFunc(b.Status.Rules, func(r wire.Running) bool { return r.Digest == rule.Digest })
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
func printOrder(d *wire.Desired, s *survey) error {
	var b bytes.Buffer
	screen.Fprintf(&b, "%s version %d: ", d.Group, d.Version)
	if d.Rollout == nil {
		screen.Fprintf(&b, "%s, no roll-out\n", describe(d.Live))
	} else {
		r := d.Rollout
		screen.Fprintf(&b, "%s %s, %s\n", r.Name, describe(r.State), ringWords(r, s.measure(r, d.Group).Boxes))
		if !r.NotBefore.IsZero() {
			screen.Fprintf(&b, "not before %s\n", local(r.NotBefore))
		}
	}
	_, err := screen.Out.Write(b.Bytes())
	return err
}

// describe names what a state holds.
func describe(s wire.State) string {
	var words []string
	for _, r := range s.Rules {
		words = append(words, r.Name+" "+r.Version)
	}
	if s.Settings != "" {
		words = append(words, "settings "+s.Settings[:12])
	}
	if len(words) == 0 {
		return "as each box is configured"
	}
	return strings.Join(words, ", ")
}

// ringWords is a ring in words.
func ringWords(r *wire.Rollout, boxes int) string { return ringIn("en", r, boxes) }

func ringIn(lang string, r *wire.Rollout, boxes int) string {
	say := func(en, es string) string {
		if lang == "es" {
			return es
		}
		return en
	}
	var words []string
	if r.Held {
		words = append(words, say("HELD", "DETENIDO"))
	}
	if len(r.Pilots) > 0 && r.Share < wire.Whole {
		words = append(words, say("pilots ", "piloto: ")+strings.Join(r.Pilots, " "))
	}
	switch {
	case r.Share == wire.Whole:
		words = append(words, say("all branches", "todas las sucursales"))
	case r.Share > 0:
		words = append(words, Percent(r.Share).String())
	}
	if len(words) == 0 {
		words = append(words, say("no branch", "ninguna sucursal"))
	}
	return fmt.Sprintf("%s: %s (%d)", say("ring", "anillo"), strings.Join(words, ", "), boxes)
}
