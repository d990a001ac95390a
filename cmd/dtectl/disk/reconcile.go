package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/storage"
)

// Reconcile is dtectl reconcile.
type Reconcile struct {
	AcceptMark    bool              `help:"One beyond what the high-water mark says, in every series."`
	TrustCopy     bool              `help:"Nothing was spent that the store lacks: it was rebuilt from a second copy that was live to the end."`
	AcceptMissing bool              `help:"The documents that are listed as missing stay missing: the series go on behind them."`
	Advance       uint64            `help:"Move every series so many numbers forward: more than can have been spent since the backup."`
	Skip          map[string]uint64 `help:"SERIES=NUMBER: the last number that this series has spent; goes with either of the others." placeholder:"SERIES=NUMBER"`
	NewMark       bool              `help:"The high-water mark is lost: prove the store, and make a new mark. Where that is not proven, --advance goes with it."`
	Reason        string            `help:"For the journal." default:"restored from a backup"`
}

// restoredReason is --reason's default.
const restoredReason = "restored from a backup"

// Run gives a store back what its second copy holds of the same history, then settles a restored store or one that is
// behind another medium, or says what is to be settled. On any other store --skip alone gives numbers up, for a branch that
// comes from another program in the middle of a year.
func (c *Reconcile) Run(ctx context.Context, top *adminclient.Options) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	return reconcile(ctx, cfg, *c)
}

func reconcile(ctx context.Context, cfg *config.Config, c Reconcile) (err error) {
	taken, err := takeCopy(ctx, cfg)
	if err != nil {
		return err
	}
	if c.NewMark {
		if owed, err := c.newMark(ctx, cfg); err != nil || !owed {
			return err
		}
	}
	o := cfg.Store(slog.Default())
	o.OpenBehind = true
	store, err := storage.Open(o)
	if errors.Is(err, storage.ErrMark) {
		return fmt.Errorf("%w; dtectl mark show says more, and dtectl reconcile --new-mark makes a new one when it is lost", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	r := store.Restored()
	if c.Reason = cmp.Or(c.Reason, restoredReason); r != nil && c.Reason == restoredReason {
		switch {
		case r.Repaired:
			c.Reason = "repaired from other media"
		case r.Copy:
			c.Reason = "rebuilt from a second copy"
		}
	}
	if taken != nil && r == nil {
		if err := recordTaken(ctx, cfg, store, taken); err != nil {
			return err
		}
	}
	switch {
	case r != nil:
		return c.settle(ctx, cfg, store, r)
	case store.Behind() != nil:
		return c.giveUp(ctx, cfg, store)
	case taken != nil && len(c.Skip) == 0:
		return nil
	}
	return c.skip(ctx, cfg, store)
}

// settle makes a restored store one that issues again, by what the operator knows of its last numbers. Without that it says
// what is to be settled.
func (c *Reconcile) settle(ctx context.Context, cfg *config.Config, store *storage.Store, r *storage.Restoration) error {
	printRestoration(term.Out, r)
	if !c.AcceptMark && !c.TrustCopy && c.Advance == 0 {
		return nil
	}
	plan, err := c.plan(r, possibleSeries(cfg, r.Taken, cfg.Now()))
	if err != nil {
		return err
	}
	if c.AcceptMissing {
		store.AcceptMissing()
	}
	for series, number := range c.Skip {
		plan = append(plan, storage.Skip{Series: series, To: number})
	}
	if err := store.Reconcile(ctx, plan, c.Reason); err != nil {
		return err
	}
	if err := recordRepairsIn(ctx, cfg, store); err != nil {
		return err
	}
	if err := recordReconciled(ctx, cfg, store, len(plan), c.Reason+missingText(r.Missing)); err != nil {
		return err
	}
	return printPlan(plan)
}

// plan is where each series goes on, by the one of the three options that was given.
func (c *Reconcile) plan(r *storage.Restoration, possible []string) ([]storage.Skip, error) {
	switch {
	case c.AcceptMark && (c.Advance > 0 || c.TrustCopy) || c.TrustCopy && c.Advance > 0:
		return nil, errors.New("one of --accept-mark, --advance and --trust-copy")
	case c.TrustCopy && !r.Copy:
		return nil, errors.New("--trust-copy: the store came from a backup, which lacks what was issued after it")
	case c.TrustCopy && r.Lacks != "" && r.MarkLost:
		return nil, fmt.Errorf("--trust-copy: the copy is not complete: %s", r.Lacks)
	case c.TrustCopy:
		return r.TrustCopy(possible), nil
	case c.AcceptMark:
		return r.AcceptMark(possible)
	}
	return r.Advance(c.Advance, possible), nil
}

func printPlan(plan []storage.Skip) error {
	term.Printf("reconciled: these series go on at\n")
	w := tabwriter.NewWriter(term.Out, 0, 0, 2, ' ', 0)
	report := make(map[string]uint64)
	for _, k := range plan {
		report[k.Series] = max(report[k.Series], k.To)
	}
	for _, series := range sortedKeys(report) {
		term.Fprintf(w, "  %s\t%d\n", series, report[series]+1)
	}
	return w.Flush()
}

// skip gives numbers up in a store that owes no reconciliation.
func (c *Reconcile) skip(ctx context.Context, cfg *config.Config, store *storage.Store) error {
	held, err := store.Held()
	if err != nil {
		return err
	}
	for _, h := range held {
		term.Printf("%v: nothing is numbered before the series goes on behind all that was issued of it\n", h)
	}
	if len(held) > 0 && len(c.Skip) == 0 {
		return errors.New("find the last number of each of these series (RUNBOOK, Dead box), then: dtectl reconcile --skip SERIES=NUMBER")
	}
	if c.AcceptMark || c.TrustCopy || c.AcceptMissing || c.Advance > 0 || len(c.Skip) == 0 {
		return errors.New("nothing to reconcile: the store was not restored, no medium knows more than it, or that is settled already")
	}
	for _, series := range sortedKeys(c.Skip) {
		if err := store.SkipTo(ctx, series, c.Skip[series], c.Reason); err != nil {
			return err
		}
		term.Printf("%s goes on at %d\n", series, c.Skip[series]+1)
	}
	return recordReconciled(ctx, cfg, store, len(c.Skip), c.Reason)
}

func printRestoration(out io.Writer, r *storage.Restoration) {
	until := "is as it was at"
	if r.Repaired {
		until = "lacks nothing until"
	}
	term.Fprintf(out, "\nThis store %s %s. What was issued after that may not be in it:\nits numbers must not be used again. The appliance issues nothing before that is settled.\n\n", until, adminclient.Local(r.Taken))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	term.Fprintf(w, "SERIES\tIN THE STORE\tMARK\n")
	for _, b := range r.Series {
		mark := fmt.Sprint(b.Marked)
		if r.MarkLost {
			mark = "lost"
		}
		term.Fprintf(w, "%s\t%d\t%s\n", b.Series, b.Last, mark)
	}
	if r.Begun > 0 {
		term.Fprintf(w, "(not named by the mark)\t0\tup to %d\n", r.Begun)
	}
	_ = w.Flush() // to a terminal
	term.Fprintf(out, "\n")
	accept := ""
	if len(r.Missing) > 0 {
		accept = " --accept-missing"
		term.Fprintf(out, "What the store was made of is damaged. These documents are not in the store; MH, the archive, the customers' mail or a backup may\nhave them. The series go on behind them, so that no number is used twice, once you accept that:\n")
		for _, m := range r.Missing {
			term.Fprintf(out, "  %v\n", m)
		}
		term.Fprintf(out, "\n")
	}
	if r.Lacks != "" {
		accept = " --accept-missing"
		term.Fprintf(out, "The copy is not complete: %s.\nPut back what the chain's store has lost, from its own versions, move the store that was made here away, and rebuild again.\n\n", r.Lacks)
		if r.MarkLost {
			term.Fprintf(out, "No number is proposed: more documents may have been issued than any source names here. If the lost objects cannot be had,\ngive this box new points of sale. Or find the last number of each series (the tills' last receipts, what was mailed, MH's\nportal), and use --advance N%s with N above all of them.\n\n", accept)
			return
		}
	}
	if r.Doubt > 0 {
		term.Fprintf(out, "The end of the copy cannot be read: up to %d changes may have been there. Every series goes on so much further.\n\n", r.Doubt)
	}
	if r.MarkLost && r.Copy {
		term.Fprintf(out, "The high-water mark was lost with the box. If the second copy was live to the end (the appliance logs when it is\nnot, and so do its metrics), the store lacks nothing else:\n\n  dtectl reconcile --trust-copy%s\n\nOtherwise compare with the tills' last receipts and use --advance.\n\n", accept)
		return
	}
	if r.MarkLost {
		term.Fprintf(out, "The high-water mark was lost with the store. Find the last number of each series: on the tills' last\nreceipts, in what was mailed, in MH's portal. Then move all of them far enough, for example\n\n  dtectl reconcile --advance 10000\n\n")
		return
	}
	term.Fprintf(out, "The mark knows the last numbers, to within one. Compare it with the tills' last receipts, then\n\n  dtectl reconcile --accept-mark%s\n\n", accept)
}

// takeCopy takes what the configured second copy holds and the store lacks, nil when that is nothing. A copy of which
// nothing can be taken is no error here: the store says then what it is behind.
func takeCopy(ctx context.Context, cfg *config.Config) (*storage.Witness, error) {
	if cfg.SecondCopy == "" {
		return nil, nil
	}
	bar := term.NewBar(term.Err)
	taken, err := storage.TakeCopy(ctx, cfg.SecondCopy, cfg.Store(slog.Default()), bar.Show)
	bar.End()
	switch {
	case errors.Is(err, storage.ErrDiverged), errors.Is(err, storage.ErrCorrupt):
		term.Printf("nothing was taken from the second copy: %v\n", err)
		return nil, nil
	case errors.Is(err, storage.ErrNoStore):
		return nil, nil // there is no copy, or no store: opening it says which
	case errors.Is(err, storage.ErrUnreadable):
		return nil, fmt.Errorf("nothing is given up while the second copy may know more: put the card in again, or in another reader; if it is dead, take it out and repeat this: %w", err)
	case err != nil || taken == nil:
		return nil, err
	}
	term.Printf("taken from the second copy, of the same history, every link verified:\n")
	for _, a := range taken.Series {
		term.Printf("  %v, %d changes\n", a, a.Changes)
	}
	return taken, nil
}

func recordTaken(ctx context.Context, cfg *config.Config, store *storage.Store, taken *storage.Witness) error {
	if store.Behind() != nil {
		return nil // nothing is written before that is settled
	}
	return recordReconciled(ctx, cfg, store, len(taken.Series), "taken from the second copy: "+taken.String())
}

// giveUp settles a store that is behind another medium of which nothing can be taken.
func (c *Reconcile) giveUp(ctx context.Context, cfg *config.Config, store *storage.Store) error {
	behind := store.Behind()
	marks := true
	term.Printf("Other media of this box know more than its store, and nothing is numbered before that is settled:\n")
	for _, w := range behind {
		term.Printf("  %v\n", &w)
		marks = marks && w.Medium == storage.WitnessMark
	}
	if !c.AcceptMissing && !(marks && c.AcceptMark) {
		term.Printf("\nFind the right disk, or the right card, first: what they know was given to customers. When nothing of it can be had,\n\n  dtectl reconcile --accept-missing\n\nmoves every series behind it, and the documents between are lost to this box. MH, the archive and the mail have them.\n")
		return errors.New("nothing is numbered before that is settled")
	}
	last, err := store.LastChange()
	if err != nil {
		return err
	}
	if err := store.GiveUp(ctx, possibleSeries(cfg, last, cfg.Now()), c.Reason); err != nil {
		return err
	}
	var what []string
	for _, w := range behind {
		what = append(what, w.String())
	}
	term.Printf("settled: the series go on behind these numbers\n")
	return recordReconciled(ctx, cfg, store, len(behind), "missing documents accepted: "+strings.Join(what, "; "))
}

// missingText is what the record says of accepted losses.
func missingText(list []storage.Missing) string {
	if len(list) == 0 {
		return ""
	}
	text := "; missing documents accepted"
	for _, m := range list {
		text += "; " + m.String()
	}
	return text
}
