package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"text/tabwriter"

	"dtegate/cmd/dtectl/fleet/controlplane"
	"dtegate/cmd/term"
	"dtegate/engine/fleet/fleetproto"
)

// Log is dtectl fleet log.
type Log struct {
	JSON     bool                `help:"Write JSON lines."`
	Since    controlplane.Moment `help:"From when on; default: the last 7 days." placeholder:"T"`
	Group    string              `help:"Only what was published for this group; acts of branches are left out." `
	Branches []string            `arg:"" optional:"" help:"Only these branches; default: all, and what was published."`
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
		e := json.NewEncoder(term.Data())
		for _, ev := range events {
			if err := e.Encode(ev); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(term.Out, 0, 0, 2, ' ', 0)
	for _, e := range events {
		term.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", controlplane.Local(e.At), cmp.Or(e.Branch, e.Group+" (centre)"),
			e.Number, e.What, strings.TrimSpace(e.Detail+" "+e.Fault))
	}
	return w.Flush()
}

func (c *Log) events(ctx context.Context, chain *controlplane.Chain) (events []controlplane.Event, err error) {
	since := c.Since.Time
	if since.IsZero() {
		since = chain.Now().AddDate(0, 0, -7)
	}
	if len(c.Branches) == 0 {
		if events, err = chain.Orders(ctx, c.Group, since); err != nil {
			return nil, err
		}
	}
	if c.Group == "" {
		folders := []string{fleetproto.ActsFolder}
		if len(c.Branches) > 0 {
			folders = nil
			for _, b := range c.Branches {
				folders = append(folders, fleetproto.ActsFolder+b+"/")
			}
		}
		for _, folder := range folders {
			acts, err := chain.Acts(ctx, folder, since)
			if err != nil {
				return nil, err
			}
			events = append(events, acts...)
		}
	}
	slices.SortStableFunc(events, func(a, b controlplane.Event) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Branch, b.Branch), cmp.Compare(a.Number, b.Number))
	})
	return events, nil
}
