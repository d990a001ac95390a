package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"dtegate/cmd/screen"
)

// ruleTarget names a bundle of a branch.
type ruleTarget struct {
	Name    string `arg:"" help:"Name of the rule, dte01."`
	Schema  int    `arg:"" help:"Its generation: identificacion.version; 0 for catalogues."`
	Version string `arg:"" help:"Version that was live here."`
	Reason  string `required:"" help:"Why, for the branch's record."`
	Expired bool   `help:"Also a rule whose own dates are over."`
	branchFlags
}

type rulesRollbackCommand struct{ ruleTarget }

// Run takes off whatever stands above that version. The floor stays where it is.
func (c *rulesRollbackCommand) Run(ctx context.Context, top *cli) error {
	return c.step(ctx, top, "/admin/rules/rollback")
}

type rulesReinstateCommand struct{ ruleTarget }

// Run cancels a return that the branch made by itself.
func (c *rulesReinstateCommand) Run(ctx context.Context, top *cli) error {
	return c.step(ctx, top, "/admin/rules/reinstate")
}

type rulesCancelCommand struct{ ruleTarget }

// Run takes off what is to come. The same bundle can be pushed again.
func (c *rulesCancelCommand) Run(ctx context.Context, top *cli) error {
	return c.step(ctx, top, "/admin/rules/cancel")
}

type rulesAcknowledgeCommand struct {
	Reason string `required:"" help:"Why it is well, for the branch's record."`
	branchFlags
}

// Run fails where there is nothing to acknowledge.
func (c *rulesAcknowledgeCommand) Run(ctx context.Context, top *cli) error {
	return c.each(ctx, top, func(ctx context.Context, b *gateway, out io.Writer) error {
		var back stepBack
		if err := b.ask(ctx, http.MethodPost, "/admin/rules/acknowledge", url.Values{"reason": {c.Reason}}, nil, &back); err != nil {
			return err
		}
		screen.Fprintf(out, "the return to %s %s of %s is known\n", back.To.Name, back.To.Version, local(back.At))
		return nil
	})
}

func (c *ruleTarget) step(ctx context.Context, top *cli, path string) error {
	return c.each(ctx, top, func(ctx context.Context, b *gateway, out io.Writer) error { return c.stepAt(ctx, b, out, path) })
}

func (c *ruleTarget) stepAt(ctx context.Context, b *gateway, out io.Writer, path string) error {
	var back stepBack
	body := fmt.Appendf(nil, `{"name":%q,"schema":%d,"version":%q,"expired":%t}`, c.Name, c.Schema, c.Version, c.Expired)
	if err := b.ask(ctx, http.MethodPost, path, url.Values{"reason": {c.Reason}}, body, &back); err != nil {
		return err
	}
	if back.To.Name != "" {
		screen.Fprintf(out, "%s %s is live\n", back.To.Name, back.To.Version)
	}
	if back.Expired != "" {
		screen.Fprintf(out, "its own dates were over on %s\n", back.Expired)
	}
	for _, r := range back.Off {
		screen.Fprintf(out, "%s %s is retired\n", r.Name, r.Version)
	}
	return nil
}
