package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"dtegate/cmd/screen"
	"dtegate/engine/fleet/wire"
)

// Log is dtectl fleet log.
type Log struct {
	JSON     bool     `help:"Write JSON lines."`
	Since    Moment   `help:"From when on; default: the last 7 days." placeholder:"T"`
	Group    string   `help:"Only what was published for this group; acts of branches are left out." `
	Branches []string `arg:"" optional:"" help:"Only these branches; default: all, and what was published."`
}

// event is a line of the log: what a branch did, or what the centre ordered.
type event struct {
	At     time.Time `json:"at"`
	Branch string    `json:"branch,omitempty"`
	Group  string    `json:"group,omitempty"`
	Number int64     `json:"number"` // of the act, or of the version
	What   string    `json:"what"`
	Detail string    `json:"detail,omitempty"`
	Fault  string    `json:"fault,omitempty"` // it is not believed, and why
}

// Run reads what branches did and what was published, and verifies each.
func (c *Log) Run(ctx context.Context, top *Command) error {
	chain, err := top.open()
	if err != nil {
		return err
	}
	events, err := c.events(ctx, chain)
	if err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(screen.Data())
		for _, ev := range events {
			if err := e.Encode(ev); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(screen.Out, 0, 0, 2, ' ', 0)
	for _, e := range events {
		screen.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", local(e.At), cmp.Or(e.Branch, e.Group+" (centre)"), e.Number, e.What, strings.TrimSpace(e.Detail+" "+e.Fault))
	}
	return w.Flush()
}

func (c *Log) events(ctx context.Context, chain *chain) (events []event, err error) {
	since := c.Since.Time
	if since.IsZero() {
		since = chain.now().AddDate(0, 0, -7)
	}
	if len(c.Branches) == 0 {
		if events, err = chain.orders(ctx, c.Group, since); err != nil {
			return nil, err
		}
	}
	if c.Group == "" {
		folders := []string{wire.ActsFolder}
		if len(c.Branches) > 0 {
			folders = nil
			for _, b := range c.Branches {
				folders = append(folders, wire.ActsFolder+b+"/")
			}
		}
		for _, folder := range folders {
			acts, err := chain.acts(ctx, folder, since)
			if err != nil {
				return nil, err
			}
			events = append(events, acts...)
		}
	}
	slices.SortStableFunc(events, func(a, b event) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Branch, b.Branch), cmp.Compare(a.Number, b.Number))
	})
	return events, nil
}

// orders are the versions that were published.
func (c *chain) orders(ctx context.Context, group string, since time.Time) (events []event, err error) {
	groups := []string{group}
	if group == "" {
		if groups, err = c.groups(ctx); err != nil {
			return nil, err
		}
	}
	for _, g := range groups {
		v, err := c.head(ctx, g)
		for ; err == nil && v != nil && !v.Issued.Before(since); v, err = c.before(ctx, v) {
			e := event{At: v.Issued, Group: g, Number: v.Version, What: "desired", Detail: describe(v.Live)}
			if r := v.Rollout; r != nil {
				e.Detail = r.Name + " " + describe(r.State) + ", " + ringWords(r, 0)
				e.Detail = strings.TrimSuffix(e.Detail, " (0)")
			}
			e.Detail += ", by " + v.By
			if v.Reason != "" {
				e.Detail += ": " + v.Reason
			}
			events = append(events, e)
		}
		if err != nil {
			return nil, err
		}
	}
	return events, nil
}

// acts are what branches did, by the store's time of the objects not before a time.
func (c *chain) acts(ctx context.Context, folder string, since time.Time) ([]event, error) {
	held := newEnrolments(c)
	epochs, err := held.list(ctx)
	if err != nil {
		return nil, err
	}
	var entries []wire.Entry
	for entry, err := range c.store.List(ctx, folder) {
		if err != nil {
			return nil, err
		}
		if !entry.Modified.Before(since) {
			entries = append(entries, entry)
		}
	}
	var events []event
	var mu sync.Mutex
	err = together(len(entries), func(i int) error {
		entry := entries[i]
		name, _, _ := strings.Cut(strings.TrimPrefix(entry.Key, wire.ActsFolder), "/")
		number, ok := wire.NumberOf(entry.Key)
		if !ok || entry.Key != wire.ActKey(name, number) {
			return nil
		}
		e, err := c.act(ctx, held, name, number, epochs[name])
		if err != nil {
			return err
		}
		if e.At.IsZero() {
			e.At = entry.Modified
		}
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
		return nil
	})
	return events, err
}

// act reads one that a box of the branch has signed, whichever of its boxes.
func (c *chain) act(ctx context.Context, held *enrolments, name string, number, epoch int64) (event, error) {
	e := event{Branch: name, Number: number, What: "?"}
	o, err := c.store.Get(ctx, wire.ActKey(name, number), wire.MaxJWS)
	if err != nil && !errors.Is(err, wire.ErrTooLarge) {
		return e, fmt.Errorf("reading act %d of %s: %w", number, name, err)
	}
	var boxes []wire.Key
	for n := epoch; n > 0; n-- {
		if enrolled, err := held.get(ctx, name, n); err == nil {
			boxes = append(boxes, enrolled.BoxKeyOf())
		}
	}
	var a *wire.Act
	if err == nil {
		a, err = wire.OpenAct(o.Data, name, number, boxes...)
	}
	if err != nil {
		e.Fault = "NOT BELIEVED: " + err.Error()
		return e, nil
	}
	e.At, e.What = a.At, a.What
	var words []string
	for _, w := range []string{a.Rule, a.Rollout, a.Reason} {
		if w != "" {
			words = append(words, w)
		}
	}
	if a.Version > 0 {
		words = append(words, "version "+strconv.FormatInt(a.Version, 10))
	}
	e.Detail = strings.Join(words, ", ")
	return e, nil
}
