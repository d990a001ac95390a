package bundles

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/term"
	"dtegate/engine/rulestore"
)

// ruleTarget names a bundle of a branch.
type ruleTarget struct {
	Name    string `arg:"" help:"Name of the rule, dte01."`
	Schema  int    `arg:"" help:"Its generation: identificacion.version; 0 for catalogues."`
	Version string `arg:"" help:"Version that was live here."`
	Reason  string `required:"" help:"Why, for the branch's record."`
	Expired bool   `help:"Also a rule whose own dates are over."`
	adminclient.BranchFlags
}

type rollbackCommand struct{ ruleTarget }

// Run takes off whatever stands above that version. The floor stays where it is.
func (c *rollbackCommand) Run(ctx context.Context, top *adminclient.Options) error {
	return c.step(ctx, top, "/admin/rules/rollback")
}

type reinstateCommand struct{ ruleTarget }

// Run cancels a return that the branch made by itself.
func (c *reinstateCommand) Run(ctx context.Context, top *adminclient.Options) error {
	return c.step(ctx, top, "/admin/rules/reinstate")
}

type cancelCommand struct{ ruleTarget }

// Run takes off what is to come. The same bundle can be pushed again.
func (c *cancelCommand) Run(ctx context.Context, top *adminclient.Options) error {
	return c.step(ctx, top, "/admin/rules/cancel")
}

type acknowledgeCommand struct {
	Reason string `required:"" help:"Why it is well, for the branch's record."`
	adminclient.BranchFlags
}

// Run fails where there is nothing to acknowledge.
func (c *acknowledgeCommand) Run(ctx context.Context, top *adminclient.Options) error {
	return c.Each(ctx, top, func(ctx context.Context, b *adminclient.Gateway, out io.Writer) error {
		var back rulestore.StepBack
		if err := b.Ask(ctx, http.MethodPost, "/admin/rules/acknowledge", url.Values{"reason": {c.Reason}}, nil,
			&back); err != nil {
			return err
		}
		term.Fprintf(out, "the return to %s %s of %s is known\n", back.To.Name, back.To.Version,
			adminclient.Local(back.At))
		return nil
	})
}

func (c *ruleTarget) step(ctx context.Context, top *adminclient.Options, path string) error {
	return c.Each(ctx, top, func(ctx context.Context, b *adminclient.Gateway, out io.Writer) error {
		return c.stepAt(ctx, b, out, path)
	})
}

func (c *ruleTarget) stepAt(ctx context.Context, b *adminclient.Gateway, out io.Writer, path string) error {
	var back rulestore.StepBack
	body := fmt.Appendf(nil, `{"name":%q,"schema":%d,"version":%q,"expired":%t}`, c.Name, c.Schema, c.Version,
		c.Expired)
	if err := b.Ask(ctx, http.MethodPost, path, url.Values{"reason": {c.Reason}}, body, &back); err != nil {
		return err
	}
	if back.To.Name != "" {
		term.Fprintf(out, "%s %s is live\n", back.To.Name, back.To.Version)
	}
	if back.Expired != "" {
		term.Fprintf(out, "its own dates were over on %s\n", back.Expired)
	}
	for _, r := range back.Off {
		term.Fprintf(out, "%s %s is retired\n", r.Name, r.Version)
	}
	return nil
}
