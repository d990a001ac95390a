package bundles

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/term"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundle"
)

// bundleFile is a bundle to send. The branches verify its signatures.
type bundleFile struct {
	bundle *bundle.Bundle
	data   []byte
}

func (f bundleFile) String() string { return f.bundle.Manifest.Name + " " + f.bundle.Manifest.Version }

func readBundles(paths []string) (list []bundleFile, err error) {
	for _, path := range paths {
		data, err := adminclient.ReadNamed(path)
		if err != nil {
			return nil, fmt.Errorf("reading rule bundle: %w", err)
		}
		b, err := bundle.Inspect(data) // as strictly as a branch: do not send a bundle that a branch would refuse
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		list = append(list, bundleFile{b, data})
	}
	return list, nil
}

type PushCommand struct {
	Files  []string `arg:"" type:"existingfile" help:"Signed bundles."`
	DryRun bool     `help:"Only go through the steps; change nothing."`
	Reason string   `help:"Why, for the branch's record; required unless --dry-run."`
	Fewer  bool     `name:"fewer-cases" help:"A bundle may carry fewer golden cases than the bundle that it replaces."`
	adminclient.Flags
}

// Run sends the bundles in order and stops at the first failure; the error names the bundles not sent. It can be
// repeated: it skips a bundle that is already in force or coming in the branch.
func (c *PushCommand) Run(ctx context.Context, b *adminclient.Gateway) error {
	if c.Reason == "" && !c.DryRun {
		return errors.New("--reason: why, for the branch's record")
	}
	files, err := readBundles(c.Files)
	if err != nil {
		return err
	}
	query := url.Values{"reason": {c.Reason}}
	if c.DryRun {
		query.Set("dry", "1")
	}
	if c.Fewer {
		query.Set("fewer_cases", "1")
	}
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
		at := slices.IndexFunc(has.Rules, func(r rulestore.ShownBundle) bool { return r.Digest == f.bundle.Digest })
		if at >= 0 && (has.Rules[at].State == rulestore.Live || has.Rules[at].State == rulestore.Coming) {
			term.Printf("%s was %s already\n", f, has.Rules[at].State)
			continue
		}
		var a rulestore.Activation
		if err := b.Ask(ctx, http.MethodPost, "/admin/rules", query, f.data, &a); err != nil {
			return failed(i, err)
		}
		if err := printActivation(&a); err != nil {
			return failed(i, err)
		}
	}
	return nil
}

// printActivation prints every step of a bundle's admission, and returns an error if a step failed.
func printActivation(a *rulestore.Activation) error {
	w := term.Columns(term.Out)
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
		name := "the bundle" // without a good signature the name cannot be trusted
		if a.Rule.Name != "" {
			name = a.Rule.Name + " " + a.Rule.Version
		}
		return fmt.Errorf("%s is refused at the step %s", name, a.Refused)
	case a.State == rulestore.Coming:
		term.Printf("%s %s takes over on %s\n", a.Rule.Name, a.Rule.Version, a.From)
	case a.State != "":
		term.Printf("%s %s is %s\n", a.Rule.Name, a.Rule.Version, a.State)
	default: // a dry push
		term.Printf("%s %s would pass\n", a.Rule.Name, a.Rule.Version)
	}
	return nil
}

type listCommand struct {
	All bool `help:"Also list bundles that were superseded or taken off."`
	adminclient.ShowFlags
}

// Run prints one line for each bundle that is live, coming or not usable (with --all, for every bundle), and the last
// automatic return. It fails if a rule has ended without a successor, or may not be used.
func (c *listCommand) Run(ctx context.Context, b *adminclient.Gateway) error {
	return adminclient.Show(ctx, b, c.JSON, http.MethodGet, "/admin/rules", c.print)
}

func (c *listCommand) print(s *rulestore.Listing) error {
	list := slices.DeleteFunc(s.Rules, func(r rulestore.ShownBundle) bool {
		return !c.All && r.State != rulestore.Live && r.State != rulestore.Coming && (r.Trouble == nil || r.Off != nil)
	})
	expired, refused := 0, 0
	err := term.Table(term.Out, "NAME\tSCHEMA\tVERSION\tSTATE\tFROM\tUNTIL\tDIGEST\tBY\tNOTE", list,
		func(r rulestore.ShownBundle) []any {
			note := ""
			switch {
			case r.Off != nil:
				note = r.Off.Way + ": " + r.Off.Reason
			case r.Trouble != nil:
				refused++
				note = "computes nothing: " + r.Trouble.Text
			case r.Expired:
				expired++
				note = "ended, and no other bundle has taken over"
			case r.Expires != "":
				note = "no other bundle takes over then"
			}
			return []any{r.Name, r.Schema, r.Version, r.State, r.From, r.Until, fmt.Sprintf("%.12s", r.Digest), r.Who,
				brief(note)}
		})
	if r := s.Return; r != nil {
		term.Printf("returned %s to %s %s: %s\n", adminclient.Local(r.At), r.To.Name, r.To.Version, brief(r.Reason))
	}
	for _, n := range s.Notes {
		term.Printf("note     %s\n", n)
	}
	switch {
	case err != nil:
		return err
	case refused > 0:
		return fmt.Errorf("%d rules in the store may not compute", refused)
	case expired > 0:
		return fmt.Errorf("%d rules go on past their last day", expired)
	}
	return nil
}

// brief returns the first line of a text, without the output of a trapped module, which may fill a page.
func brief(text string) string {
	const most = 160
	text, _, _ = strings.Cut(text, "\n")
	text, _, _ = strings.Cut(text, "; it wrote ")
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

type ruleTarget struct {
	Name    string `arg:"" help:"Name of the rule."`
	Schema  int    `arg:"" help:"Its generation: identificacion.version; 0 for catalogues."`
	Version string `arg:"" help:"Version that was live here."`
	Reason  string `required:"" help:"Why, for the branch's record."`
	adminclient.Flags
}

type rollbackCommand struct {
	ruleTarget
	Expired bool `help:"Permit a rule whose last day has passed."`
}

func (*rollbackCommand) Help() string {
	return "For a bundle that has not begun, or a type's only one: cancel."
}

// Run takes the versions above the named version out of use. The branch's lowest admissible version does not change.
func (c *rollbackCommand) Run(ctx context.Context, b *adminclient.Gateway) error {
	return c.step(ctx, b, "rollback", c.Expired)
}

type reinstateCommand struct{ ruleTarget }

func (*reinstateCommand) Help() string {
	return "Its bundle is live again. For a bundle that an operator took off: rollback."
}

// Run puts back in force a bundle that the branch took out of use by itself.
func (c *reinstateCommand) Run(ctx context.Context, b *adminclient.Gateway) error {
	return c.step(ctx, b, "reinstate", false)
}

type cancelCommand struct{ ruleTarget }

func (*cancelCommand) Help() string {
	return "The bundles in force stay. What had not begun can be pushed again; a type's only bundle returns under a " +
		"higher version. For any other bundle that has begun: rollback."
}

// Run removes a bundle that is not yet in force, or the only bundle of a type.
func (c *cancelCommand) Run(ctx context.Context, b *adminclient.Gateway) error {
	return c.step(ctx, b, "cancel", false)
}

func (c *ruleTarget) step(ctx context.Context, b *adminclient.Gateway, act string, expired bool) error {
	t := rulestore.Target{Name: c.Name, Schema: c.Schema, Version: c.Version, Expired: expired}
	var back rulestore.StepBack
	if err := b.Ask(ctx, http.MethodPost, "/admin/rules/"+act, url.Values{"reason": {c.Reason}}, t, &back); err != nil {
		return err
	}
	if back.To.Name != "" {
		term.Printf("%s %s is live\n", back.To.Name, back.To.Version)
	}
	if back.Expired != "" {
		term.Printf("its last day was %s\n", back.Expired)
	}
	for _, r := range back.Off {
		term.Printf("%s %s is retired\n", r.Name, r.Version)
	}
	return nil
}

type acknowledgeCommand struct {
	Reason string `required:"" help:"Why the return is right, for the branch's record."`
	adminclient.Flags
}

func (*acknowledgeCommand) Help() string {
	return "dtectl doctor no longer reports the return. To undo the return: reinstate."
}

// Run fails if a branch has not returned to an earlier bundle by itself.
func (c *acknowledgeCommand) Run(ctx context.Context, b *adminclient.Gateway) error {
	var back rulestore.StepBack
	if err := b.Ask(ctx, http.MethodPost, "/admin/rules/acknowledge", url.Values{"reason": {c.Reason}}, nil,
		&back); err != nil {
		return err
	}
	term.Printf("the return to %s %s of %s is acknowledged\n", back.To.Name, back.To.Version,
		adminclient.Local(back.At))
	return nil
}

type shadowCommand struct {
	Start rulesShadowStart `cmd:"" default:"withargs" help:"Start a shadow; it replaces any other shadow."`
	Show  rulesShadowShow  `cmd:"" help:"Show what differed."`
	Stop  rulesShadowStop  `cmd:"" help:"End it."`
}

type rulesShadowStart struct {
	File      string        `arg:"" type:"existingfile" help:"Signed bundle; its version does not matter."`
	Documents int           `default:"1000" help:"End after this many sales of its type."`
	For       time.Duration `default:"24h" help:"End after this time."`
	adminclient.Flags
}

// Run starts a shadow rule. Tills never wait for the shadow.
func (c *rulesShadowStart) Run(ctx context.Context, b *adminclient.Gateway) error {
	data, err := adminclient.ReadNamed(c.File)
	if err != nil {
		return fmt.Errorf("reading rule bundle: %w", err)
	}
	var a rulestore.Activation
	query := url.Values{"documents": {strconv.Itoa(c.Documents)}, "for": {c.For.String()}}
	if err := b.Ask(ctx, http.MethodPost, "/admin/rules/shadow", query, data, &a); err != nil {
		return err
	}
	return printActivation(&a)
}

type rulesShadowShow struct{ adminclient.ShowFlags }

func (c *rulesShadowShow) Run(ctx context.Context, b *adminclient.Gateway) error {
	return adminclient.Show(ctx, b, c.JSON, http.MethodGet, "/admin/rules/shadow", printShadow)
}

type rulesShadowStop struct{ adminclient.ShowFlags }

func (c *rulesShadowStop) Run(ctx context.Context, b *adminclient.Gateway) error {
	return adminclient.Show(ctx, b, c.JSON, http.MethodDelete, "/admin/rules/shadow", printShadow)
}

func printShadow(s *rulestore.ShadowResult) error {
	word := "over"
	if s.Running {
		word = "runs until " + adminclient.Local(s.Until)
	}
	term.Printf("%s %s: %d of %d sales, %d left out (too slow); %s\n", s.Rule.Name, s.Rule.Version, s.Count,
		s.Most, s.Dropped, word)
	printCounts(s.Results)
	for _, c := range s.Differing {
		printComparison(c)
	}
	return nil
}
