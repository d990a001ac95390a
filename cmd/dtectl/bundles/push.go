package bundles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"dtegate/cmd/dtectl/operator"
	"dtegate/cmd/screen"
)

type PushCommand struct {
	Files  []string `arg:"" type:"existingfile" help:"Signed bundles."`
	Dry    bool     `help:"Only go through the steps; change nothing."`
	Reason string   `help:"Why, for the branches' records; required unless --dry."`
	operator.BranchFlags
}

// Run can be repeated: a branch that has a bundle already is left as it is. It fails when one branch did, and names
// those.
func (c *PushCommand) Run(ctx context.Context, top *operator.Options) error {
	if c.Reason == "" && !c.Dry {
		return errors.New("--reason: why, for the branches' records")
	}
	files, err := readBundles(c.Files)
	if err != nil {
		return err
	}
	list, err := c.Open(top)
	if err != nil {
		return err
	}
	results, faults := make([]*pushed, len(list)), make([]error, len(list))
	c.All(list, func(i int) error {
		results[i] = c.push(ctx, list[i], files)
		faults[i] = results[i].err
		return faults[i]
	})
	if err := report(screen.Out, results); err != nil {
		return err
	}
	return c.Failed(list, faults)
}

// pushed is what became of a branch.
type pushed struct {
	branch *operator.Gateway
	lines  [][3]string // bundle, result, time or reason
	err    error
}

// push sends bundles in their order; the first that fails ends it.
func (c *PushCommand) push(ctx context.Context, b *operator.Gateway, files []*bundleFile) *pushed {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	p := &pushed{branch: b}
	add := func(f *bundleFile, result, detail string) {
		p.lines = append(p.lines, [3]string{f.String(), result, detail})
	}
	if p.err = operator.Awake(ctx, b, c.Patience); p.err != nil {
		add(files[0], "FAILED", p.err.Error())
		return p
	}
	var has shelfListing
	if p.err = b.Ask(ctx, http.MethodGet, "/admin/rules", nil, nil, &has); p.err != nil {
		add(files[0], "FAILED", p.err.Error())
		return p
	}
	for _, f := range files {
		if state := has.state(f.digest); state == "live" || state == "coming" {
			add(f, state, "was there already")
			continue
		}
		query := url.Values{"reason": {c.Reason}}
		if c.Dry {
			query.Set("dry", "1")
		}
		var a activation
		began := time.Now()
		if p.err = b.Ask(ctx, http.MethodPost, "/admin/rules", query, f.data, &a); p.err != nil {
			add(f, "FAILED", p.err.Error())
			return p
		}
		if a.Refused != "" {
			p.err = fmt.Errorf("%s: %s", a.Refused, a.Error)
			add(f, "REFUSED", p.err.Error())
			return p
		}
		detail := fmt.Sprintf("%d steps, %v", len(a.Steps), time.Since(began).Round(time.Millisecond))
		switch a.State {
		case "":
			a.State = "would pass"
		case "coming":
			detail = "from " + a.From + ", " + detail
		}
		add(f, a.State, detail)
	}
	return p
}

// report prints a line a branch and bundle.
func report(out io.Writer, results []*pushed) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	screen.Fprintf(w, "BRANCH\tBUNDLE\tRESULT\t\n")
	for _, r := range results {
		for _, l := range r.lines {
			screen.Fprintf(w, "%s\t%s\t%s\t%s\n", r.branch.URL, l[0], l[1], l[2])
		}
	}
	return w.Flush()
}

type activateCommand struct {
	Files  []string `arg:"" type:"existingfile" help:"Signed bundles."`
	Reason string   `required:"" help:"Why, for the branch's record."`
	operator.BranchFlags
}

// Run is a push that shows every step of every branch.
func (c *activateCommand) Run(ctx context.Context, top *operator.Options) error {
	files, err := readBundles(c.Files)
	if err != nil {
		return err
	}
	return c.Each(ctx, top, func(ctx context.Context, b *operator.Gateway, out io.Writer) error {
		for _, f := range files {
			var a activation
			if err := b.Ask(ctx, http.MethodPost, "/admin/rules", url.Values{"reason": {c.Reason}}, f.data, &a); err != nil {
				return err
			}
			if err := a.print(out); err != nil {
				return err
			}
		}
		return nil
	})
}
