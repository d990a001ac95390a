package bundles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/term"
	"dtegate/engine/rulestore"
)

// stateOf is the state of a bundle on a branch, "" where the branch does not have it.
func stateOf(l *rulestore.Listing, digest string) string {
	for _, r := range l.Rules {
		if r.Digest == digest {
			return r.State
		}
	}
	return ""
}

// printSteps shows every step of an activation; it fails when one did.
func printSteps(out io.Writer, a *rulestore.Activation) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range a.Steps {
		word, text := "ok", s.Detail
		if s.Error != "" {
			word, text = "FAILED", s.Error
		}
		term.Fprintf(w, "%s\t%s\t%.0f ms\t%s\n", s.Name, word, s.MS, text)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	switch {
	case a.Refused != "":
		name := "the bundle" // until its signature is good, nobody knows whose it is
		if a.Rule.Name != "" {
			name = a.Rule.Name + " " + a.Rule.Version
		}
		return fmt.Errorf("%s is refused at the step %s", name, a.Refused)
	case a.State == rulestore.Coming:
		term.Fprintf(out, "%s %s takes over on %s\n", a.Rule.Name, a.Rule.Version, a.From)
	case a.State != "":
		term.Fprintf(out, "%s %s is %s\n", a.Rule.Name, a.Rule.Version, a.State)
	default: // a dry push
		term.Fprintf(out, "%s %s would pass\n", a.Rule.Name, a.Rule.Version)
	}
	return nil
}

type listCommand struct {
	All  bool `help:"Also those that were superseded or taken off."`
	JSON bool `name:"json" help:"Write one JSON object: what the appliance says of its rules, all of them."`
	adminclient.BranchFlags
}

// Run prints a line a bundle.
func (c *listCommand) Run(ctx context.Context, top *adminclient.Options) error {
	if !c.JSON {
		return c.Each(ctx, top, c.list)
	}
	if c.Branches != "" {
		return errors.New("--json: is for one branch")
	}
	b, err := c.Flags.Open(top)
	if err != nil {
		return err
	}
	var s json.RawMessage
	if err := b.Ask(ctx, http.MethodGet, "/admin/rules", nil, nil, &s); err != nil {
		return err
	}
	return term.JSON(s)
}

func (c *listCommand) list(ctx context.Context, b *adminclient.Gateway, out io.Writer) error {
	var s rulestore.Listing
	if err := b.Ask(ctx, http.MethodGet, "/admin/rules", nil, nil, &s); err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	term.Fprintf(w, "NAME\tSCHEMA\tVERSION\tSTATE\tFROM\tUNTIL\tDIGEST\tBY\tNOTE\n")
	for _, r := range s.Rules {
		if !c.All && r.State != rulestore.Live && r.State != rulestore.Coming && (r.Trouble == nil || r.Off != nil) {
			continue
		}
		note := ""
		switch {
		case r.Off != nil:
			note = r.Off.Way + ": " + r.Off.Reason
		case r.Trouble != nil:
			note = "computes nothing: " + r.Trouble.Text
		case r.Expired:
			note = "its time is over, and nothing has taken over"
		case r.Expires != "":
			note = "nothing takes over then"
		}
		term.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%.12s\t%s\t%s\n", r.Name, r.Schema, r.Version, r.State, r.From,
			r.Until, r.Digest, r.Who, brief(note))
	}
	return w.Flush()
}

// brief is the first line of a text, for lists: what a module wrote before it died is a page.
func brief(text string) string {
	const most = 160
	text, _, _ = strings.Cut(text, "\n")
	text, _, _ = strings.Cut(text, "; it wrote ")
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

type statusCommand struct{ adminclient.BranchFlags }

// Run fails when a rule's time is over without a successor.
func (c *statusCommand) Run(ctx context.Context, top *adminclient.Options) error {
	return c.Each(ctx, top, c.status)
}

func (c *statusCommand) status(ctx context.Context, b *adminclient.Gateway, out io.Writer) error {
	var s rulestore.Listing
	if err := b.Ask(ctx, http.MethodGet, "/admin/rules", nil, nil, &s); err != nil {
		return err
	}
	counts, expired, refused := make(map[string]int), 0, 0
	for _, r := range s.Rules {
		counts[r.State]++
		if r.Trouble != nil && r.Off == nil {
			refused++
			term.Fprintf(out, "%s %s %s computes nothing: %s\n", r.Trouble.Why, r.Name, r.Version,
				brief(r.Trouble.Text))
		}
		if r.Expired {
			expired++
		}
	}
	term.Fprintf(out, "%s, %s: %d live, %d coming, %d spare, %d retired\n", s.Day, s.Engine, counts[rulestore.Live],
		counts[rulestore.Coming], counts[rulestore.Spare], counts[rulestore.Retired])
	for _, r := range s.Rules {
		if r.State == rulestore.Coming {
			term.Fprintf(out, "coming   %s %s on %s\n", r.Name, r.Version, r.From)
		}
		if r.Expires != "" {
			term.Fprintf(out, "ends     %s %s after %s, and nothing takes over\n", r.Name, r.Version, r.Expires)
		}
	}
	if r := s.Return; r != nil {
		term.Fprintf(out, "returned %s to %s %s: %s\n", adminclient.Local(r.At), r.To.Name, r.To.Version,
			brief(r.Reason))
	}
	for _, n := range s.Notes {
		term.Fprintf(out, "note     %s\n", n)
	}
	if refused > 0 {
		return fmt.Errorf("%d rules in the store may not compute", refused)
	}
	if expired > 0 {
		return fmt.Errorf("%d rules go on past their last day", expired)
	}
	return nil
}
