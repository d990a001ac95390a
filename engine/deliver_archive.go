package engine

import (
	"context"
	"errors"

	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/pdf"
	"dtegate/storage"
)

// archiveOne puts both files of a document into the archive and says in s what came of it. Both are as MH sealed the
// document, whatever became of it since: an object is written once.
func (e *Engine) archiveOne(ctx context.Context, s *step, entry storage.Entry, h *head) {
	now := e.now()
	if e.delivery.Archive == nil {
		s.put(now, errors.New("no archive is configured"), false)
		return
	}
	if open, why := e.delivery.archive.open(now); open {
		s.put(now, why, true)
		return
	}
	err := e.putBoth(ctx, entry, h)
	if err != nil && ctx.Err() != nil {
		return
	}
	result := "later"
	switch {
	case err == nil:
		result = "stored"
		s.end(stepDone, nil)
		e.delivery.archive.reset()
	case errors.Is(err, archive.ErrConflict), errors.Is(err, archive.ErrInvalid):
		result = "conflict"
		if errors.Is(err, archive.ErrInvalid) {
			result = "invalid"
		}
		s.end(stepFailed, err)
		e.log.Error("the archive does not take a document", "code", dte.Code(entry.Code).String(), "error", err)
	default:
		if errors.Is(err, archive.ErrSetup) {
			result = "setup"
		} else if errors.Is(err, archive.ErrFull) {
			result = "full"
		}
		s.put(e.now(), err, true)
		e.delivery.archive.fail(e.now(), err)
		e.log.Warn("archiving a document", "code", dte.Code(entry.Code).String(), "error", err)
	}
	e.metrics.archived.WithLabelValues(result).Inc()
}

func (e *Engine) putBoth(ctx context.Context, entry storage.Entry, h *head) error {
	r, err := e.record(entry)
	if err != nil {
		return err
	}
	d := printable(r)
	d.State, d.Note = pdf.Processed, ""
	printed, err := e.print(ctx, d, pdf.Letter, false)
	if err != nil {
		return err
	}
	if err := e.delivery.Archive.Put(ctx, e.path(h, "json", r.Code), "application/json", archivo(r)); err != nil {
		return err
	}
	return e.delivery.Archive.Put(ctx, e.path(h, "pdf", r.Code), "application/pdf", printed)
}
