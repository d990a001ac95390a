package disk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/dte"
	"dtegate/storage"
)

// Fsck is dtectl fsck.
type Fsck struct {
	archiveFlags
	Verbose bool `help:"Also print the storage engine's own messages about the damage."`
}

// Run walks every key of the store, even of a store that the appliance refuses to open. It alters nothing, and exits
// non-zero when anything is wrong.
func (c *Fsck) Run(ctx context.Context, cfg *config.Config) error {
	if c.Archive {
		return c.check(ctx, cfg)
	}
	if c.Read || c.Shared || c.Repair {
		return errors.New("--read, --shared and --repair go with --archive")
	}
	report, err := storage.Check(ctx, cfg.Store(slog.Default()))
	switch {
	case errors.Is(err, storage.ErrInUse):
		return fmt.Errorf("%w: the appliance must be stopped first", err)
	case err != nil:
		return err
	}
	term.Printf("records   %d\nseries    %d\n", report.Documents, report.Series)
	for _, series := range slices.Sorted(maps.Keys(report.Last)) {
		term.Printf("  %s  1…%d\n", series, report.Last[series])
	}
	for _, l := range report.Lost {
		term.Printf("given up  %s  %d…%d on %s: %s\n", l.Series, l.From, l.To, adminclient.Local(l.At), l.Reason)
	}
	for _, m := range report.Missing {
		term.Printf("missing   %v\n", m)
	}
	for _, p := range report.Problems {
		term.Printf("problem   %v\n", p)
		if c.Verbose && p.Detail != "" {
			term.Printf("          %s\n", p.Detail)
		}
	}
	for _, a := range report.Affected {
		term.Printf("document  %s\n", affectedText(a))
	}
	if len(report.Affected) > 0 {
		term.Printf("dtectl recover --dry-run shows what the other media have of these, and what would be lost\n")
	}
	if n := len(report.Problems); n > 0 {
		return fmt.Errorf("%d problems: do not issue from this store", n)
	}
	term.Printf("integrity: whole\n")
	bad, err := printVouched(term.Out, cfg, storage.OpenReadOnly)
	switch {
	case err != nil:
		return fmt.Errorf("asking who wrote the rules and the acts: %w", err)
	case bad > 0:
		return fmt.Errorf("%d rules or acts are not what this box or the pinned keys vouch for: such a rule computes "+
			"nothing", bad)
	}
	term.Printf("no problem found\n")
	return nil
}

// affectedText returns which parts of a document differ from what was written.
func affectedText(a storage.Affected) string {
	numbers := fmt.Sprint(a.From)
	if a.To != a.From {
		numbers = fmt.Sprintf("%d…%d", a.From, a.To)
	}
	text := fmt.Sprintf("%s  %s", a.Series, numbers)
	if a.Code != (storage.Code{}) {
		text += "  " + dte.Code(a.Code).String()
	}
	return text + "  " + a.What + " is altered or cannot be read"
}
