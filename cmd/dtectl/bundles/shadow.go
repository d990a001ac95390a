package bundles

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/term"
	"dtegate/engine/rulestore"
)

type shadowCommand struct {
	Start rulesShadowStart `cmd:"" default:"withargs" help:"Begin, instead of any other."`
	Show  rulesShadowShow  `cmd:"" help:"Show what differed."`
	Stop  rulesShadowStop  `cmd:"" help:"End it."`
}

type rulesShadowStart struct {
	File      string        `arg:"" type:"existingfile" help:"Signed bundle; its version does not matter."`
	Documents int           `default:"1000" help:"End after so many sales of its type."`
	For       time.Duration `default:"24h" help:"End after this time."`
	adminclient.BranchFlags
}

// Run starts a shadow; tills never wait for it.
func (c *rulesShadowStart) Run(ctx context.Context, top *adminclient.Options) error {
	data, err := adminclient.ReadNamed(c.File)
	if err != nil {
		return fmt.Errorf("reading rule bundle: %w", err)
	}
	return c.Each(ctx, top, func(ctx context.Context, b *adminclient.Gateway, out io.Writer) error {
		var a rulestore.Activation
		query := url.Values{"documents": {strconv.Itoa(c.Documents)}, "for": {c.For.String()}}
		if err := b.Ask(ctx, http.MethodPost, "/admin/rules/shadow", query, data, &a); err != nil {
			return err
		}
		return printSteps(out, &a)
	})
}

type rulesShadowShow struct{ adminclient.BranchFlags }

// Run prints the differences.
func (c *rulesShadowShow) Run(ctx context.Context, top *adminclient.Options) error {
	return c.Each(ctx, top, func(ctx context.Context, b *adminclient.Gateway, out io.Writer) error {
		return showShadow(ctx, b, out, http.MethodGet)
	})
}

type rulesShadowStop struct{ adminclient.BranchFlags }

// Run ends the shadow and prints the differences.
func (c *rulesShadowStop) Run(ctx context.Context, top *adminclient.Options) error {
	return c.Each(ctx, top, func(ctx context.Context, b *adminclient.Gateway, out io.Writer) error {
		return showShadow(ctx, b, out, http.MethodDelete)
	})
}

func showShadow(ctx context.Context, b *adminclient.Gateway, out io.Writer, method string) error {
	var s rulestore.ShadowResult
	if err := b.Ask(ctx, method, "/admin/rules/shadow", nil, nil, &s); err != nil {
		return err
	}
	word := "over"
	if s.Running {
		word = "runs until " + adminclient.Local(s.Until)
	}
	term.Fprintf(out, "%s %s: %d of %d sales, %d too fast for it; %s\n", s.Rule.Name, s.Rule.Version, s.Count,
		s.Most, s.Dropped, word)
	printCounts(out, s.Results)
	for _, c := range s.Differing {
		printComparison(out, c)
	}
	return nil
}
