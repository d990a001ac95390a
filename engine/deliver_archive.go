package engine

import (
	"context"
	"errors"

	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/fair"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/storage"
)

// archiveOne puts both files of a document into the archive and says in s what came of it. Both are as MH sealed the
// document, whatever became of it since: an object is written once.
func (e *Engine) archiveOne(ctx context.Context, s *record.Step, entry storage.Entry, h *record.Head) {
	now := e.now()
	if e.delivery.Archive == nil {
		s.Postpone(now, errors.New("no archive is configured"), false)
		return
	}
	if open, why := e.delivery.archive.open(now); open {
		s.Postpone(now, why, true)
		return
	}
	held, err := e.putBoth(ctx, entry, h, s.Held)
	if err != nil && ctx.Err() != nil {
		return
	}
	result := "later"
	switch {
	case err == nil:
		result = "stored"
		s.End(record.StepDone, nil)
		s.Held = held
		e.delivery.archive.reset()
	case errors.Is(err, archive.ErrConflict), errors.Is(err, archive.ErrInvalid):
		result = "conflict"
		if errors.Is(err, archive.ErrInvalid) {
			result = "invalid"
		}
		s.End(record.StepFailed, err)
		e.log.Error("the archive does not take a document", "code", dte.Code(entry.Code).String(), "error", err)
	default:
		if errors.Is(err, archive.ErrSetup) {
			result = "setup"
		} else if errors.Is(err, archive.ErrFull) {
			result = "full"
		}
		s.Postpone(e.now(), err, true)
		e.delivery.archive.fail(e.now(), err)
		e.log.Warn("archiving a document", "code", dte.Code(entry.Code).String(), "error", err)
	}
	e.metrics.archived.WithLabelValues(result).Inc()
}

// putBoth puts a document's files into the archive, or finds them there as it held them before.
func (e *Engine) putBoth(ctx context.Context, entry storage.Entry, h *record.Head, held [2]record.ArchivedObject) ([2]record.ArchivedObject, error) {
	r, err := e.record(entry)
	if err != nil {
		return held, err
	}
	for i, ext := range archiveFiles {
		key := e.path(h, ext, r.Code)
		if held[i].Sum != "" {
			// The archive may have lost one of them only, and the other need not be printed today as it was.
			if o, err := e.delivery.Archive.Stat(ctx, key); err == nil && o.Sum == held[i].Sum {
				held[i].Tag = o.Tag
				continue
			}
		}
		kind, data := "application/json", archivo(r)
		if ext == "pdf" {
			d := printable(r)
			d.State, d.Note, kind = pdf.Processed, "", "application/pdf"
			if data, err = e.print(ctx, fair.House, d, pdf.Letter, false); err != nil {
				return held, err
			}
		}
		o, err := e.delivery.Archive.Put(ctx, key, kind, data)
		if err != nil {
			return held, err
		}
		held[i] = record.ArchivedObject{Sum: o.Sum, Tag: o.Tag}
	}
	return held, nil
}
