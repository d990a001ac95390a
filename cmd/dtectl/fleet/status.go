package fleet

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"dtegate/cmd/dtectl/fleet/centre"
	"dtegate/cmd/screen"
)

// Status is dtectl fleet status.
type Status struct {
	JSON     bool     `help:"Write one JSON object."`
	Group    string   `help:"Only this group's branches."`
	Branches []string `arg:"" optional:"" help:"Only these branches."`
	Trouble  bool     `help:"Only branches of which something is to be known."`
	// Wait is how long to wait until the branches shown have said what became of what is desired.
	Wait time.Duration `help:"Wait so long at most until these branches run, or refused, what is desired." placeholder:"2m"`
}

// Run reads every status and verifies it.
func (c *Status) Run(ctx context.Context, top *Command) error {
	chain, err := top.open()
	if err != nil {
		return err
	}
	surveyor := centre.NewSurveyor(chain)
	s, err := surveyor.Read(ctx)
	for end := time.Now().Add(c.Wait); err == nil && !s.Settled(c.shows) && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followEvery):
		}
		s, err = surveyor.Read(ctx)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(screen.Data())
		e.SetIndent("", "  ")
		return e.Encode(s.Report(c.shows))
	}
	return s.Print(screen.Out, c.shows)
}

func (c *Status) shows(r *centre.Row) bool {
	return (c.Group == "" || r.Group() == c.Group) && (len(c.Branches) == 0 || slices.Contains(c.Branches, r.Name)) && (!c.Trouble || r.Level() > centre.Fine)
}
