package fleet

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
)

// Doctor is dtectl fleet doctor.
type Doctor struct {
	JSON    bool `help:"Write one JSON array."`
	Writers int  `default:"16" help:"Writers that race for one key."`
	Rounds  int  `default:"20" help:"Races, and writings that are read back."`
}

// Run races writers against the store and names what it does not keep. It writes small objects under fleet/v1/doctor/
// and leaves them: a store takes nothing back. Its exit status is 1 where a check fails.
func (c *Doctor) Run(ctx context.Context, top *Command) error {
	if c.Writers < 2 || c.Rounds < 1 {
		return fmt.Errorf("--writers %d --rounds %d: a race needs two writers, and one round", c.Writers, c.Rounds)
	}
	centre, err := config.LoadCentre(top.Centre)
	if err != nil {
		return err
	}
	store, err := centre.OpenStore()
	if err != nil {
		return err
	}
	x := newExamination(store, c.Writers, c.Rounds, time.Now)
	x.examine(ctx)
	if c.JSON {
		err = term.JSON(x.findings)
	} else {
		err = printFindings(term.Out, x.findings)
	}
	if err != nil {
		return err
	}
	if n := x.failed(); n > 0 {
		return fmt.Errorf("%d checks fail: a chain must not be run on this store", n)
	}
	return nil
}

// finding is one line of the report.
type finding struct {
	Status string `json:"status"` // ok, warn or fail
	Check  string `json:"check"`
	What   string `json:"what"`
	Do     string `json:"do,omitempty"` // never empty unless ok
}

func printFindings(out io.Writer, findings []finding) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range findings {
		term.Fprintf(w, "%s\t%s\t%s\n", f.Status, f.Check, f.What)
		if f.Do != "" {
			term.Fprintf(w, "\t\t→ %s\n", f.Do)
		}
	}
	return w.Flush()
}
