package outbox

import (
	"context"
	"errors"
	"strings"

	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/fair"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/storage"
)

// archiveOne puts both files of a document into the archive and says in s what came of it. Both are as MH sealed the
// document, whatever became of it since: an object is written once.
func (box *archiving) archiveOne(ctx context.Context, s *record.Step, entry storage.Entry, h *record.Head) {
	now := box.now()
	if box.delivery.Archive == nil {
		s.Postpone(now, errors.New("no archive is configured"), false)
		return
	}
	if open, why := box.delivery.archive.leftAlone(now); open {
		s.Postpone(now, why, true)
		return
	}
	held, err := box.putBoth(ctx, entry, h, s.Held)
	if err != nil && ctx.Err() != nil {
		return
	}
	result := "later"
	switch {
	case err == nil:
		result = "stored"
		s.End(record.StepDone, nil)
		s.Held = held
		box.delivery.archive.reset()
	case errors.Is(err, archive.ErrConflict), errors.Is(err, archive.ErrInvalid):
		result = "conflict"
		if errors.Is(err, archive.ErrInvalid) {
			result = "invalid"
		}
		s.End(record.StepFailed, err)
		box.log.Error("the archive does not take a document", "code", dte.Code(entry.Code).String(), "error", err)
	default:
		if errors.Is(err, archive.ErrSetup) {
			result = "setup"
		} else if errors.Is(err, archive.ErrFull) {
			result = "full"
		}
		s.Postpone(box.now(), err, true)
		box.delivery.archive.fail(box.now(), err)
		box.log.Warn("archiving a document", "code", dte.Code(entry.Code).String(), "error", err)
	}
	box.metrics.archived.WithLabelValues(result).Inc()
}

// putBoth puts a document's files into the archive, or finds them there as it held them before.
func (box *archiving) putBoth(ctx context.Context, entry storage.Entry, h *record.Head, held [2]record.ArchivedObject) ([2]record.ArchivedObject, error) {
	r, err := box.docs.View(entry)
	if err != nil {
		return held, err
	}
	for i, ext := range ArchiveFiles {
		key := ArchivePath(box.issuer.Slug, h, ext, r.Code)
		if held[i].Sum != "" {
			// The archive may have lost one of them only, and the other need not be printed today as it was.
			if o, err := box.delivery.Archive.Stat(ctx, key); err == nil && o.Sum == held[i].Sum {
				held[i].Tag = o.Tag
				continue
			}
		}
		kind, data := "application/json", archivo(r)
		if ext == "pdf" {
			d := Printable(r)
			d.State, d.Note, kind = pdf.Processed, "", "application/pdf"
			if data, err = box.Print(ctx, fair.House, d, pdf.Letter, false); err != nil {
				return held, err
			}
		}
		o, err := box.delivery.Archive.Put(ctx, key, kind, data)
		if err != nil {
			return held, err
		}
		held[i] = record.ArchivedObject{Sum: o.Sum, Tag: o.Tag}
	}
	return held, nil
}

// ArchivePath returns the key of a document's file in the archive (SPEC 2.2).
func ArchivePath(slug string, h *record.Head, extension, code string) string {
	return archive.Key(slug, strings.ToLower(record.AmbienteName(h.Ambiente)), h.Date, h.Document, code, extension)
}
