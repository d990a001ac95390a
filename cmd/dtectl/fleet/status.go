package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"dtegate/cmd/dtectl/fleet/controlplane"
	"dtegate/cmd/term"
)

// Status is dtectl fleet status.
type Status struct {
	JSON     bool     `help:"Write one JSON object."`
	Group    string   `help:"Only this group's branches."`
	Branches []string `arg:"" optional:"" help:"Only these branches."`
	Trouble  bool     `help:"Only branches of which something is to be known."`
	Accept   []string `help:"Somebody has looked at what the store lost or put back of these branches: what this centre remembers of them begins anew." placeholder:"A,B"`
	// Wait is how long to wait until the branches shown have said what became of what is desired.
	Wait time.Duration `help:"Wait so long at most until these branches run, or refused, what is desired." placeholder:"2m"`
}

// Run reads every status and verifies it.
func (c *Status) Run(ctx context.Context, top *Command) error {
	chain, err := top.open()
	if err != nil {
		return err
	}
	surveyor := controlplane.NewSurveyor(chain)
	surveyor.Accept = c.Accept
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
		err = term.JSON(s.Report(c.shows))
	} else {
		err = s.Print(term.Out, c.shows)
	}
	if n := s.Lost(); err == nil && n > 0 {
		return fmt.Errorf("the store has lost or put back something of %d branches or groups: see above", n)
	}
	return err
}

func (c *Status) shows(r *controlplane.Row) bool {
	return (c.Group == "" || r.Group() == c.Group) && (len(c.Branches) == 0 || slices.Contains(c.Branches, r.Name)) &&
		(!c.Trouble || r.Level() > controlplane.Fine)
}
