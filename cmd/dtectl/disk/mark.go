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
	"dtegate/engine/audit"
	"dtegate/storage"
)

// Mark is dtectl mark.
type Mark struct {
	Show markShow `cmd:"" help:"Say of each mark file whether it is the store's (the appliance must be stopped)."`
	Move markMove `cmd:"" help:"Bring the mark to where the configuration now says (the appliance must be stopped)."`
}

type markShow struct {
	Path []string `arg:"" optional:"" help:"Other files to look at, beside the configured one and the one that the store used last." type:"path"`
}

// Run compares mark files with the store, and alters nothing.
func (c *markShow) Run(top *adminclient.Options) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	s, err := storage.OpenReadOnly(cfg.Store(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	defer s.Close() // nothing was written
	used, err := s.MarkedAt()
	if err != nil {
		return err
	}
	paths := []string{cfg.Mark}
	for _, path := range append([]string{used}, c.Path...) {
		if path != "" && path != cfg.Mark {
			paths = append(paths, path)
		}
	}
	for i, path := range paths {
		m, err := s.LookAtMark(path)
		if err != nil {
			return err
		}
		role := ""
		switch path {
		case cfg.Mark:
			role = ", configured"
		case used:
			role = ", last used by the store"
		}
		term.Printf("%s%s\n  %s\n", m.Kind, role, m.What)
		if i == 0 {
			if do := MarkRemedy(s, m); do != "" {
				term.Printf("  → %s\n", do)
			}
		}
	}
	return nil
}

// MarkRemedy is what to do about the configured mark; "" when nothing is.
func MarkRemedy(s *storage.Store, m storage.MarkState) string {
	used, err := s.MarkedAt()
	elsewhere := false
	if err == nil && used != "" && used != m.Path {
		other, err := s.LookAtMark(used)
		elsewhere = err == nil && (other.Kind == storage.MarkSound || other.Kind == storage.MarkAhead)
	}
	const anew = "if the store's own mark cannot be found, dtectl reconcile --new-mark proves the store and makes another"
	switch m.Kind {
	case storage.MarkSound:
		return ""
	case storage.MarkMissing, storage.MarkOld:
		if elsewhere {
			return "the store's mark is " + used + ": dtectl mark move brings it here"
		}
		if m.Kind == storage.MarkOld {
			return "this file is not the newest mark, the store knows that: find the newest; " + anew
		}
		return "mount its medium, or name the right path in the configuration; " + anew
	case storage.MarkForeign:
		return "that medium belongs to another box: put the right one in; " + anew
	case storage.MarkUnreadable:
		return "see whether the medium is dying; " + anew
	}
	return "the mark is right and the store is old: find the right disk; dtectl reconcile takes what the second copy has, and says what to do with the rest. Do not make a new mark"
}

type markMove struct {
	From string `arg:"" optional:"" help:"Where the mark lies now; without it, where the store used it last." type:"path"`
}

// Run brings the mark to the configured path.
func (c *markMove) Run(ctx context.Context, top *adminclient.Options) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	o := cfg.Store(slog.Default())
	from, err := storage.MoveMark(c.From, o)
	switch {
	case errors.Is(err, storage.ErrInUse):
		return fmt.Errorf("stop the appliance first: %w", err)
	case err != nil:
		return fmt.Errorf("%w; dtectl mark show says which file is what", err)
	}
	o.OpenBehind = true
	store, err := storage.Open(o)
	if err != nil {
		return err
	}
	term.Printf("the mark is now %s; %s is none any more\n", cfg.Mark, from)
	if store.Restored() == nil && store.Behind() == nil { // else nothing is written before that is settled
		err = recordMark(ctx, cfg, store, "mark.move", "moved from "+from)
	}
	return errors.Join(err, store.Close())
}

// recordMark records who made or moved the mark.
func recordMark(ctx context.Context, cfg *config.Config, store *storage.Store, what, detail string) error {
	box, _, err := cfg.MakeBox()
	if err != nil {
		return err
	}
	return audit.New(store, cfg.Ambiente, box, cfg.Now).Record(ctx, audit.Act{Who: adminclient.Who(), From: "dtectl", What: what,
		Target: cfg.Mark, Detail: detail, Outcome: audit.Done})
}

// newMark proves the store and makes it a new mark. It returns whether the store is still to be reconciled. With doubts it needs
// --advance, and c.Reason gets them.
func (c *Reconcile) newMark(ctx context.Context, cfg *config.Config) (owed bool, err error) {
	if c.AcceptMark || c.TrustCopy {
		return false, errors.New("--new-mark goes with neither --accept-mark nor --trust-copy: the mark is gone, and the store is there")
	}
	o := cfg.Store(slog.Default())
	bar := term.NewBar(term.Err)
	p, err := storage.NewMark(ctx, cfg.SecondCopy, c.Advance > 0, o, bar.Show)
	bar.End()
	switch {
	case errors.Is(err, storage.ErrMarkSound):
		return true, nil // an attempt before this one came as far
	case errors.Is(err, storage.ErrInUse):
		return false, fmt.Errorf("stop the appliance first: %w", err)
	case errors.Is(err, storage.ErrCorrupt):
		return false, fmt.Errorf("%w: dtectl repair mends the store first", err)
	case errors.Is(err, storage.ErrMark):
		return false, fmt.Errorf("%w. The mark is right and the store is old: find the right disk, or settle it with dtectl reconcile", err)
	case err != nil:
		return false, err
	}
	printProof(term.Out, p)
	switch {
	case p.Owed:
		c.Reason = "no mark: " + p.Mark.What + "; not proven: " + strings.Join(p.Doubts, "; ") + c.why()
		c.Reason = strings.ToValidUTF8(c.Reason[:min(len(c.Reason), 900)], "")
		return true, nil
	case !p.Made:
		term.Printf(`
Nothing was altered. If the store is whole but for that, move every series further than it can have got since. Numbers that are
left out harm nothing, one that is used twice is refused. Compare with the tills' last receipts, then for example

  dtectl reconcile --new-mark --advance 10000

`)
		return false, errors.New("the store is not proven to hold all that was issued")
	}
	store, err := storage.Open(o)
	if err != nil {
		return false, err
	}
	term.Printf("there is a new mark at %s; every series goes on where it was\n", cfg.Mark)
	err = recordMark(ctx, cfg, store, "mark.new", "proven by the walk through the store and by the second copy; before: "+p.Mark.What+c.why())
	return false, errors.Join(err, store.Close())
}

// why is the reason that a person gave, for the record.
func (c *Reconcile) why() string {
	if c.Reason == "" || c.Reason == restoredReason {
		return ""
	}
	return "; reason: " + c.Reason
}

// printProof says what was proven, and what was not.
func printProof(out io.Writer, p *storage.MarkProof) {
	term.Fprintf(out, "the mark   %s\n", p.Mark.What)
	if p.Aside != "" {
		term.Fprintf(out, "           it was set aside as %s\n", p.Aside)
	}
	if p.Series > 0 || p.Documents > 0 {
		term.Fprintf(out, "the store  %d records of %d series, every row and every chain walked: no problem\n", p.Documents, p.Series)
	}
	if !p.Last.IsZero() {
		term.Fprintf(out, "           the last moment that it knows is %s. Did the branch sell after that? Then this is an old disk: stop here\n", adminclient.Local(p.Last))
	}
	if len(p.Doubts) == 0 {
		term.Fprintf(out, "the copy   ends exactly where the store ends: the store holds all that was issued\n")
	}
	for _, doubt := range p.Doubts {
		term.Fprintf(out, "not proven %s\n", doubt)
	}
	term.Fprintf(out, "MH         cannot be asked for the last number of a series; it refuses a number that is used twice\n")
}
