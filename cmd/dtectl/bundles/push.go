package bundles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/term"
	"dtegate/engine/rulestore"
)

type PushCommand struct {
	Files  []string `arg:"" type:"existingfile" help:"Signed bundles."`
	Dry    bool     `help:"Only go through the steps; change nothing."`
	Reason string   `help:"Why, for the branches' records; required unless --dry."`
	Fewer  bool     `name:"fewer-cases" help:"A bundle may carry fewer golden cases than the bundle that it replaces."`
	adminclient.BranchFlags
}

// Run shows every step of every branch. It can be repeated: a branch that has a bundle already is left as it is. Run
// fails when a branch did, and names the branches that failed.
func (c *PushCommand) Run(ctx context.Context, top *adminclient.Options) error {
	if c.Reason == "" && !c.Dry {
		return errors.New("--reason: why, for the branches' records")
	}
	files, err := readBundles(c.Files)
	if err != nil {
		return err
	}
	query := url.Values{"reason": {c.Reason}}
	if c.Dry {
		query.Set("dry", "1")
	}
	if c.Fewer {
		query.Set("fewer_cases", "1")
	}
	return c.Each(ctx, top, func(ctx context.Context, b *adminclient.Gateway, out io.Writer) error {
		return push(ctx, b, out, files, query)
	})
}

// push sends bundles to a branch in their order. The first bundle that fails ends it; the error names those that were
// not sent.
func push(ctx context.Context, b *adminclient.Gateway, out io.Writer, files []*bundleFile, query url.Values) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	var has rulestore.Listing
	if err := b.Ask(ctx, http.MethodGet, "/admin/rules", nil, nil, &has); err != nil {
		return err
	}
	failed := func(i int, err error) error {
		for _, f := range files[i+1:] {
			err = fmt.Errorf("%w; not sent: %s", err, f)
		}
		return err
	}
	for i, f := range files {
		if state := stateOf(&has, f.digest); state == rulestore.Live || state == rulestore.Coming {
			term.Fprintf(out, "%s was %s already\n", f, state)
			continue
		}
		var a rulestore.Activation
		if err := b.Ask(ctx, http.MethodPost, "/admin/rules", query, f.data, &a); err != nil {
			return failed(i, err)
		}
		if err := printSteps(out, &a); err != nil {
			return failed(i, err)
		}
	}
	return nil
}
