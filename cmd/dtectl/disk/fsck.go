package disk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/gateway/adminapi"
	"dtegate/storage"
)

type Fsck struct {
	archiveFlags
	Verbose bool `help:"Also print the storage engine's own messages about the damage."`
}

// Run reads every key of the store, even of a store that the appliance refuses to open. It changes nothing, and fails
// if anything is wrong.
func (c *Fsck) Run(ctx context.Context, cfg *config.Config) error {
	if c.Archive {
		return c.check(ctx, cfg)
	}
	if c.Read || c.Shared || c.Repair {
		return errors.New("--read, --shared and --repair go with --archive")
	}
	report, err := storage.Check(ctx, cfg.Store(slog.Default()))
	if err != nil {
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
		return fmt.Errorf("checking who wrote the rules and the acts: %w", err)
	case bad > 0:
		return fmt.Errorf("neither this box nor a pinned key vouches for %d rules or acts: such a rule "+
			"computes nothing", bad)
	}
	term.Printf("no problem found\n")
	return nil
}

// affectedText names a damaged document and its damaged parts.
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

type archiveFlags struct {
	Archive bool `help:"Compare the archive with the store instead; the appliance may be running."`
	Read    bool `help:"With --archive: read every object, instead of trusting the archive's own digests."`
	Shared  bool `help:"With --archive: other branches share its paths; does not name their objects."`
	Repair  bool `help:"With --archive: have the running appliance put back what is missing."`
}

// check prints one line for each object that differs from the store, and fails if there are any. It reads a stopped
// appliance's store itself; a running appliance makes the check while it issues.
func (f *archiveFlags) check(ctx context.Context, cfg *config.Config) error {
	if cfg.Archive == nil {
		return errors.New("[archive]: is not in the configuration")
	}
	r := &archiveReport{bar: term.NewGauge(term.Err)}
	store, err := storage.OpenReadOnly(cfg.Store(slog.Default()))
	var totals *outbox.ArchiveTotals
	switch {
	case errors.Is(err, storage.ErrInUse):
		totals, err = f.running(ctx, cfg, r)
	case err == nil && f.Repair:
		err = errors.Join(errors.New("--repair: needs the running appliance, which puts the documents back"),
			store.Close())
	case err == nil:
		totals, err = f.stopped(ctx, cfg, store, r)
		err = errors.Join(err, store.Close())
	}
	r.bar.Clear()
	if err != nil {
		return err
	}
	return r.end(totals)
}

func (f *archiveFlags) stopped(ctx context.Context, cfg *config.Config, store *storage.Store,
	r *archiveReport) (*outbox.ArchiveTotals, error) {
	bucket, err := cfg.Archive.Open()
	if err != nil {
		return nil, err
	}
	c := &outbox.ArchiveCheck{Store: store, Archive: bucket, Slug: cfg.Issuer.Slug, Ambiente: cfg.Ambiente,
		Read: f.Read, Shared: f.Shared, Found: r.found, Progress: r.progress}
	return c.Run(ctx)
}

func (f *archiveFlags) running(ctx context.Context, cfg *config.Config, r *archiveReport) (*outbox.ArchiveTotals,
	error) {
	g, err := adminclient.OwnGateway(cfg)
	if err != nil {
		return nil, err
	}
	if f.Repair {
		r.repair = func(codes []string) error { return g.SettleDeliveries(ctx, "retry", codes, true) }
	}
	query := make(url.Values)
	for name, set := range map[string]bool{"read": f.Read, "shared": f.Shared} {
		if set {
			query.Set(name, "1")
		}
	}
	last, err := g.Follow(ctx, http.MethodGet, "/admin/archive/check", query, nil, func(l *adminapi.Line) error {
		if l.Found != nil {
			return r.found(*l.Found)
		}
		return r.progress(int64(l.Progress.Documents), int64(l.Progress.Of))
	})
	if err != nil {
		return nil, err
	}
	return last.Checked, nil
}

// repairAtOnce is the largest number of documents in one request to repair the archive.
const repairAtOnce = 100

type archiveReport struct {
	bar    *term.Gauge
	repair func(codes []string) error // nil: nothing is repaired
	lost   []string                   // documents that wait for repair
}

func (r *archiveReport) progress(done, total int64) error {
	r.bar.Show(float64(done)/float64(max(total, 1)), fmt.Sprintf("%d of %d objects", done, total))
	return nil
}

func (r *archiveReport) found(f outbox.ArchiveFinding) error {
	what := ""
	if f.What != "" {
		what = "  (" + f.What + ")"
	}
	r.bar.Clear()
	term.Printf("%-8s %s%s\n", f.Kind, f.Key, what)
	if r.repair == nil || f.Kind != outbox.ArchiveMissing {
		return nil
	}
	if r.lost = append(r.lost, f.Code); len(r.lost) < repairAtOnce {
		return nil
	}
	return r.flush()
}

func (r *archiveReport) flush() error {
	if len(r.lost) == 0 {
		return nil
	}
	defer func() { r.lost = r.lost[:0] }()
	return r.repair(r.lost)
}

func (r *archiveReport) end(t *outbox.ArchiveTotals) error {
	if err := r.flush(); err != nil {
		return err
	}
	missing, altered, foreign := t.Findings[outbox.ArchiveMissing], t.Findings[outbox.ArchiveAltered],
		t.Findings[outbox.ArchiveForeign]
	term.Printf("documents %d archived, %d objects\n", t.Documents, t.Objects)
	if missing+altered+foreign == 0 {
		term.Printf("no problem found\n")
		return nil
	}
	return fmt.Errorf("the archive differs from the store: %d missing, %d altered, %d foreign", missing, altered,
		foreign)
}
