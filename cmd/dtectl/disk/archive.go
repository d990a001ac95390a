package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/outbox"
	"dtegate/gateway/adminapi"
	"dtegate/storage"
)

// archiveFlags are the flags of fsck for the archive.
type archiveFlags struct {
	Archive bool `help:"Compare the archive with the store instead; the appliance may be running."`
	Read    bool `help:"With --archive: read every object, instead of trusting the archive's own digests."`
	Shared  bool `help:"With --archive: other branches share its paths; does not name their objects."`
	Repair  bool `help:"With --archive: have the running appliance put back what is missing."`
}

// check prints a line for every object that differs from the store, and exits non-zero when there is one. It reads the
// store of a stopped appliance itself; a running appliance makes the check, and goes on issuing meanwhile.
func (f *archiveFlags) check(ctx context.Context, cfg *config.Config) error {
	if cfg.Archive == nil {
		return errors.New("[archive]: is not in the configuration")
	}
	r := &archiveReport{out: term.Out, bar: term.NewGauge(term.Err)}
	store, err := storage.OpenReadOnly(cfg.Store(slog.Default()))
	var totals *outbox.ArchiveTotals
	switch {
	case errors.Is(err, storage.ErrInUse):
		totals, err = f.running(ctx, cfg, r)
	case err == nil && f.Repair:
		err = errors.Join(errors.New("--repair: the appliance puts documents back, and it is not running"),
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

// repairAtOnce is how many documents one request sets due.
const repairAtOnce = 100

// archiveReport prints findings as they come.
type archiveReport struct {
	out    io.Writer
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
	term.Fprintf(r.out, "%-8s %s%s\n", f.Kind, f.Key, what)
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
	term.Fprintf(r.out, "documents %d archived, %d objects\n", t.Documents, t.Objects)
	if missing+altered+foreign == 0 {
		term.Fprintf(r.out, "no problem found\n")
		return nil
	}
	return fmt.Errorf("the archive differs from the store: %d missing, %d altered, %d foreign", missing, altered,
		foreign)
}
