package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/screen"
	"dtegate/engine"
	"dtegate/engine/audit"
	"dtegate/engine/dte"
	"dtegate/storage"
)

type repairCommand struct {
	Copy       string   `help:"The second copy, instead of the configured one." type:"existingdir" placeholder:"DIR"`
	Backup     []string `help:"Also take rows from these backups." type:"existingdir" placeholder:"DIR"`
	AcceptMark bool     `help:"Trust the high-water mark to tell which numbers were spent, and reconcile at once, when nothing is missing."`
}

// Run makes a damaged store anew of what it still reads, the second copy, backups and the archive. The damaged one stays beside
// it. What nothing has is listed, and the store issues once that is accepted.
func (c *repairCommand) Run(ctx context.Context, top *cli) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	from := storage.RepairFrom{Copy: cfg.SecondCopy, Backups: c.Backup, Part: archivedParts(cfg), Series: engine.SeriesOf}
	if c.Copy != "" {
		from.Copy = c.Copy
	}
	bar := newBar(screen.Err)
	said, err := storage.Repair(ctx, from, cfg.Store(slog.New(slog.DiscardHandler)), bar.show)
	bar.end()
	switch {
	case errors.Is(err, storage.ErrInUse):
		return fmt.Errorf("stop the appliance first: %w", err)
	case err != nil:
		return err
	}
	printRepaired(screen.Out, said)
	if said.Whole {
		return recordRepair(ctx, cfg, said)
	}
	return reconcile(ctx, cfg, reconcileCommand{AcceptMark: c.AcceptMark && len(said.Missing) == 0, Reason: repairText(said)})
}

// archivedParts asks the configured archive for signed forms; nil when there is none that can be asked.
func archivedParts(cfg *config.Config) func(context.Context, storage.Entry, string) ([]byte, error) {
	if cfg.Archive == nil {
		return nil
	}
	bucket, err := cfg.Archive.Open()
	if err != nil {
		screen.Printf("the archive is not asked: %v\n", err)
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
		screen.Fprintf(out, "%-16s %d rows", s.Name, s.Taken)
		if len(s.Bad) > 0 {
			screen.Fprintf(out, "; cannot be read: %s", strings.Join(s.Bad, ", "))
		}
		if len(s.Diverged) > 0 {
			screen.Fprintf(out, "; holds another history of %s, of which nothing was taken", strings.Join(s.Diverged, ", "))
		}
		screen.Fprintf(out, "\n")
	}
	screen.Fprintf(out, "documents        %d\nthe damaged store lies in %s; delete it when nobody misses anything\n", r.Documents, r.Damaged)
	for _, l := range r.Lacking {
		screen.Fprintf(out, "lacks            %s  %d  %s  %s\n", l.Series, l.From, dte.Code(l.Code), l.What)
	}
	if r.Whole {
		screen.Fprintf(out, "nothing is missing: the store goes on where it was\n")
	}
}

// repairText is what the trail keeps.
func repairText(r *storage.Repaired) string {
	var from []string
	for _, s := range r.Sources {
		if s.Taken > 0 {
			from = append(from, fmt.Sprintf("%d rows of %s", s.Taken, s.Name))
		}
	}
	return limited(fmt.Sprintf("repaired: %s; the damaged store is in %s", strings.Join(from, ", "), r.Damaged), 1000)
}

// limited cuts a text that is longer than a reason may be.
func limited(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// recordRepair writes the act into the repaired store.
func recordRepair(ctx context.Context, cfg *config.Config, r *storage.Repaired) (err error) {
	store, err := storage.Open(cfg.Store(slog.Default()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	box, _, err := cfg.MakeBox()
	if err != nil {
		return err
	}
	return audit.New(store, cfg.Ambiente, box, time.Now).Record(ctx, audit.Act{Who: who(), From: "dtectl", What: "store.repair",
		Target: r.Damaged, Detail: repairText(r), Outcome: audit.Done})
}
