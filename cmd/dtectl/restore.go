package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/engine/dte"
	"dtegate/storage"
)

type restoreCommand struct {
	Dir        string `arg:"" type:"existingdir" help:"The backup."`
	AcceptMark bool   `help:"Trust the high-water mark beside the store to tell which numbers were spent since, and reconcile at once."`
}

// Run makes a store of a backup where the configuration says, never over another, and prints what must be reconciled.
func (c *restoreCommand) Run(ctx context.Context, top *cli) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	o := cfg.Store(slog.Default())
	bar := newBar(os.Stderr)
	b, err := storage.Restore(ctx, c.Dir, o, bar.show)
	bar.end()
	return restored(ctx, cfg, b, c.AcceptMark, err)
}

type rebuildCommand struct {
	Dir        string `arg:"" type:"existingdir" help:"The second copy, on the medium that outlived the box."`
	AcceptMark bool   `help:"Trust the high-water mark beside the store, and reconcile at once."`
}

// Run makes a store of a second copy, as restore does of a backup.
func (c *rebuildCommand) Run(ctx context.Context, top *cli) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	bar := newBar(os.Stderr)
	b, err := storage.Rebuild(ctx, c.Dir, cfg.Store(slog.Default()), bar.show)
	bar.end()
	return restored(ctx, cfg, b, c.AcceptMark, err)
}

// restored describes what was made of a backup or a copy, and what must be reconciled.
func restored(ctx context.Context, cfg *config.Config, b *storage.Backup, acceptMark bool, err error) error {
	if errors.Is(err, storage.ErrExists) {
		return fmt.Errorf("%s is there: a store is never overwritten; move it away first: %w", cfg.Data, err)
	}
	if err := describeBackup(os.Stdout, b, err); err != nil {
		return err
	}
	return reconcile(ctx, cfg, reconcileCommand{AcceptMark: acceptMark})
}

type reconcileCommand struct {
	AcceptMark bool              `help:"One beyond what the high-water mark says, in every series."`
	TrustCopy  bool              `help:"Nothing was spent that the store lacks: it was rebuilt from a second copy that was live to the end."`
	Advance    uint64            `help:"Move every series so many numbers forward: more than can have been spent since the backup."`
	Skip       map[string]uint64 `help:"SERIES=NUMBER: the last number that this series has spent; goes with either of the others." placeholder:"SERIES=NUMBER"`
	Reason     string            `help:"For the journal." default:"restored from a backup"`
}

// Run settles a restored store, or says what is to be settled. On any other store --skip alone gives numbers up, for a
// branch that comes from another program in the middle of a year.
func (c *reconcileCommand) Run(ctx context.Context, top *cli) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	return reconcile(ctx, cfg, *c)
}

func reconcile(ctx context.Context, cfg *config.Config, c reconcileCommand) (err error) {
	store, err := storage.Open(cfg.Store(slog.Default()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	c.Reason = cmp.Or(c.Reason, "restored from a backup")
	r := store.Restored()
	if r == nil {
		return c.skip(ctx, cfg, store)
	}
	possible := possibleSeries(cfg, r.Taken, time.Now())
	printRestoration(os.Stdout, r)
	var plan []storage.Skip
	switch {
	case c.AcceptMark && (c.Advance > 0 || c.TrustCopy) || c.TrustCopy && c.Advance > 0:
		return errors.New("one of --accept-mark, --advance and --trust-copy")
	case c.TrustCopy && !r.Copy:
		return errors.New("--trust-copy: the store came from a backup, which lacks what was issued after it")
	case c.TrustCopy:
		plan = r.Advance(0, nil)
	case c.AcceptMark:
		if plan, err = r.AcceptMark(possible); err != nil {
			return err
		}
	case c.Advance > 0:
		plan = r.Advance(c.Advance, possible)
	default:
		return nil
	}
	for series, number := range c.Skip {
		plan = append(plan, storage.Skip{Series: series, To: number})
	}
	if err := store.Reconcile(ctx, plan, c.Reason); err != nil {
		return err
	}
	if err := recordReconciled(ctx, cfg, store, len(plan), c.Reason); err != nil {
		return err
	}
	fmt.Println("reconciled: these series go on at")
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	report := make(map[string]uint64)
	for _, k := range plan {
		report[k.Series] = max(report[k.Series], k.To)
	}
	for _, series := range sortedKeys(report) {
		fmt.Fprintf(w, "  %s\t%d\n", series, report[series]+1)
	}
	return w.Flush()
}

// skip gives numbers up in a store that owes no reconciliation.
func (c *reconcileCommand) skip(ctx context.Context, cfg *config.Config, store *storage.Store) error {
	if c.AcceptMark || c.TrustCopy || c.Advance > 0 || len(c.Skip) == 0 {
		return errors.New("nothing to reconcile: the store was not restored from a backup, or is settled already")
	}
	for _, series := range sortedKeys(c.Skip) {
		if err := store.SkipTo(ctx, series, c.Skip[series], c.Reason); err != nil {
			return err
		}
		fmt.Printf("%s goes on at %d\n", series, c.Skip[series]+1)
	}
	return recordReconciled(ctx, cfg, store, len(c.Skip), c.Reason)
}

func printRestoration(out io.Writer, r *storage.Restoration) {
	fmt.Fprintf(out, "\nThis store is as it was at %s. What was issued after that is not in it:\nits numbers must not be used again. The appliance issues nothing before that is settled.\n\n", local(r.Taken))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SERIES\tIN THE BACKUP\tMARK")
	for _, b := range r.Series {
		mark := fmt.Sprint(b.Marked)
		if r.MarkLost {
			mark = "lost"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\n", b.Series, b.Last, mark)
	}
	if r.Begun > 0 {
		fmt.Fprintf(w, "(begun after the backup)\t0\tup to %d\n", r.Begun)
	}
	_ = w.Flush() // to a terminal
	fmt.Fprintln(out)
	if r.MarkLost && r.Copy {
		fmt.Fprint(out, "The high-water mark was lost with the box. If the second copy was live to the end (the appliance logs when it is\nnot, and so do its metrics), the store lacks nothing:\n\n  dtectl reconcile --trust-copy\n\nOtherwise compare with the tills' last receipts and use --advance.\n\n")
		return
	}
	if r.MarkLost {
		fmt.Fprint(out, "The high-water mark was lost with the store. Find the last number of each series: on the tills' last\nreceipts, in what was mailed, in MH's portal. Then move all of them far enough, for example\n\n  dtectl reconcile --advance 10000\n\n")
		return
	}
	fmt.Fprint(out, "The mark knows the last numbers, to within one. Compare it with the tills' last receipts, then\n\n  dtectl reconcile --accept-mark\n\n")
}

// documentTypes are those of CAT-002 that a branch issues, and 18, the return.
var documentTypes = []string{"01", "03", "05", "06", "07", "14", "18"}

// possibleSeries are the series that the branch can have issued documents from between two times.
func possibleSeries(cfg *config.Config, from, to time.Time) []string {
	var list []string
	for year := dte.Year(from); year <= dte.Year(to); year++ {
		for _, p := range cfg.Points {
			for _, document := range documentTypes {
				list = append(list, fmt.Sprintf("%s/%s/%s/%s/%d", cfg.Ambiente, document, p.Establishment, p.PointOfSale, year))
			}
		}
	}
	return list
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
