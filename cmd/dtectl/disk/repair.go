package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine"
	"dtegate/engine/audit"
	"dtegate/engine/dte"
	"dtegate/storage"
)

// Repair is dtectl repair.
type Repair struct {
	Copy       string   `help:"The second copy, instead of the configured one." type:"existingdir" placeholder:"DIR"`
	Backup     []string `help:"Also take rows from these backups." type:"existingdir" placeholder:"DIR"`
	AcceptMark bool     `help:"Trust the high-water mark to tell which numbers were spent, and reconcile at once, when nothing is missing."`
}

// Run makes a damaged store anew of what it still reads, the second copy, backups and the archive. The damaged one stays beside
// it. What nothing has is listed, and the store issues once that is accepted.
func (c *Repair) Run(ctx context.Context, top *adminclient.Options) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	from := storage.RepairFrom{Copy: cfg.SecondCopy, Backups: c.Backup, Part: archivedParts(cfg), Series: engine.SeriesOf}
	if c.Copy != "" {
		from.Copy = c.Copy
	}
	bar := term.NewBar(term.Err)
	said, err := storage.Repair(ctx, from, cfg.Store(slog.New(slog.DiscardHandler)), bar.Show)
	bar.End()
	switch {
	case errors.Is(err, storage.ErrSound): // perhaps after a repair that ended before it was recorded
		return errors.Join(err, recordRepairs(ctx, cfg))
	case errors.Is(err, storage.ErrInUse):
		return fmt.Errorf("stop the appliance first: %w", err)
	case err != nil:
		return err
	}
	printRepaired(term.Out, said)
	if said.Whole {
		return recordRepairs(ctx, cfg)
	}
	return reconcile(ctx, cfg, Reconcile{AcceptMark: c.AcceptMark && len(said.Missing) == 0, Reason: restoredReason})
}

// archivedParts asks the configured archive for signed forms; nil when there is none that can be asked.
func archivedParts(cfg *config.Config) func(context.Context, storage.Entry, string) ([]byte, error) {
	if cfg.Archive == nil {
		return nil
	}
	bucket, err := cfg.Archive.Open()
	if err != nil {
		term.Printf("the archive is not asked: %v\n", err)
		return nil
	}
	return partsOf(func(ctx context.Context, e storage.Entry) ([]byte, error) {
		return engine.ArchivedPart(ctx, bucket, cfg.Issuer.Slug, e)
	})
}

// partsOf asks an archive once for each document, and no more once it does not answer.
func partsOf(archived func(context.Context, storage.Entry) ([]byte, error)) func(context.Context, storage.Entry, string) ([]byte, error) {
	var last storage.Code
	var held []byte
	var gone error
	return func(ctx context.Context, e storage.Entry, _ string) ([]byte, error) {
		if gone != nil {
			return nil, nil
		}
		if e.Code != last {
			held, gone = archived(ctx, e)
			last = e.Code
		}
		return held, gone
	}
}

func printRepaired(out io.Writer, r *storage.Repaired) {
	for _, s := range r.Sources {
		term.Fprintf(out, "%-16s %d rows", s.Name, s.Taken)
		if len(s.Bad) > 0 {
			term.Fprintf(out, "; cannot be read: %s", strings.Join(s.Bad, ", "))
		}
		if len(s.Diverged) > 0 {
			term.Fprintf(out, "; holds another history of %s, of which nothing was taken", strings.Join(s.Diverged, ", "))
		}
		term.Fprintf(out, "\n")
	}
	term.Fprintf(out, "records          %d\nthe damaged store lies in %s; delete it when nobody misses anything\n", r.Documents, r.Damaged)
	for _, l := range r.Lacking {
		term.Fprintf(out, "lacks            %s  %d  %s  %s\n", l.Series, l.From, dte.Code(l.Code), l.What)
	}
	if r.Whole {
		term.Fprintf(out, "nothing is missing: the store goes on where it was\n")
	}
}

// recordRepairs writes the repairs of a store that issues at once into its trail; of another one, reconcile does.
func recordRepairs(ctx context.Context, cfg *config.Config) (err error) {
	o := cfg.Store(slog.New(slog.DiscardHandler))
	o.OpenBehind = true
	store, err := storage.Open(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return recordRepairsIn(ctx, cfg, store)
}

func recordRepairsIn(ctx context.Context, cfg *config.Config, store *storage.Store) error {
	box, _, err := cfg.MakeBox()
	if err != nil {
		return err
	}
	return audit.New(store, cfg.Ambiente, box, cfg.Now).RecordRepairs(ctx, adminclient.Who(), "dtectl")
}
