package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// archiveOne puts both files of a document (JSON and PDF) into the archive and records the result in s. Both files show
// the document as MH sealed it, even after an invalidation, because an archived file never changes.
func (box *Outbox) archiveOne(ctx context.Context, s *record.Step, entry storage.Entry, h *record.Head) {
	now := box.o.Now()
	if box.o.Delivery.Archive == nil {
		s.Postpone(now, errors.New("no archive is configured"), false)
		return
	}
	if open, why := box.delivery.servers[archiveServer].leftAlone(now); open {
		s.Postpone(now, why, true)
		return
	}
	held, err := box.putBoth(ctx, entry, h, s.Held)
	if err != nil && ctx.Err() != nil {
		return
	}
	result := "later"
	for kind, name := range map[error]string{nil: "stored", archive.ErrConflict: "conflict",
		archive.ErrInvalid: "invalid", archive.ErrSetup: "setup", archive.ErrFull: "full"} {
		if errors.Is(err, kind) {
			result = name
		}
	}
	switch {
	case err == nil:
		s.End(record.StepDone, nil)
		s.Held = held
		box.delivery.servers[archiveServer].reset()
	case result == "conflict", result == "invalid":
		s.End(record.StepFailed, err)
		box.o.Logger.Error("the archive does not take a document", "code", dte.Code(entry.Code).String(), "error", err)
	default:
		s.Postpone(box.o.Now(), err, true)
		box.delivery.servers[archiveServer].fail(box.o.Now(), err)
		box.o.Logger.Warn("archiving a document", "code", dte.Code(entry.Code).String(), "error", err)
	}
	box.metrics.archived.WithLabelValues(result).Inc()
}

// putBoth puts a document's files into the archive, unless the archive still has them unchanged.
func (box *Outbox) putBoth(ctx context.Context, entry storage.Entry, h *record.Head,
	held [2]record.ArchivedObject) ([2]record.ArchivedObject, error) {
	r, err := box.o.Documents.View(entry)
	if err != nil {
		return held, err
	}
	for i, ext := range ArchiveFiles {
		key := ArchivePath(box.o.Issuer.Slug, h, ext, r.Code)
		if held[i].Sum != "" {
			// This file is intact. Do not replace it: a PDF that is printed today may differ.
			if o, err := box.o.Delivery.Archive.Stat(ctx, key); err == nil && o.Sum == held[i].Sum {
				held[i].Tag = o.Tag
				continue
			}
		}
		kind, data := "application/json", archivo(r)
		if ext == "pdf" {
			d := Printable(r)
			d.State, d.Note, kind = pdf.Processed, "", "application/pdf"
			if data, err = box.Print(ctx, fairqueue.House, d, pdf.Letter, false); err != nil {
				return held, err
			}
		}
		o, err := box.o.Delivery.Archive.Put(ctx, key, kind, data)
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

// ArchiveCheck compares a store with its archive, and changes neither. It needs two bytes of memory for each record.
type ArchiveCheck struct {
	Store    *storage.Store
	Archive  *archive.Archive
	Slug     string // of the issuer
	Ambiente string // CAT-001
	// Read makes the check read every object. Otherwise the check compares the archive's ETag with the store's and, if
	// they differ, the SHA-256 that the archive reports.
	Read bool
	// Shared: other branches of the issuer use the same prefix. An object of an unknown document is then no finding.
	Shared   bool
	Progress func(done, total int64) error // done and total count objects
	Found    func(ArchiveFinding) error

	mu     sync.Mutex // guards calls of Progress and Found, and totals.Findings
	totals ArchiveTotals
	owed   [][2]bool // by record and file: true until the listing shows the object
}

// ArchiveFinding is one difference between the archive and the store.
type ArchiveFinding struct {
	Kind string `json:"kind"` // missing, altered, foreign
	Key  string `json:"key"`
	Code string `json:"codigoGeneracion,omitempty"` // of the document, if the store has it
	What string `json:"what,omitempty"`
}

const (
	ArchiveMissing = "missing" // archived according to the store's record, but not found
	ArchiveAltered = "altered" // the bytes differ from the archived bytes, or the archive does not return them
	ArchiveForeign = "foreign" // the object belongs to no document of this store
)

// ArchiveTotals counts what a check compared.
type ArchiveTotals struct {
	Documents int            `json:"documents"` // archived according to the store's records
	Objects   int            `json:"objects"`   // objects that the archive lists
	Findings  map[string]int `json:"findings,omitempty"`
}

const checkAtOnce = 8

var ArchiveFiles = [2]string{"json", "pdf"}

// Run makes the check. It ignores documents that are archived meanwhile.
func (c *ArchiveCheck) Run(ctx context.Context) (*ArchiveTotals, error) {
	c.totals.Findings = make(map[string]int)
	c.owed = make([][2]bool, c.Store.LastID()+1)
	err := c.archived(ctx, func(entry storage.Entry, _ *record.Head) error {
		c.totals.Documents++
		c.owed[entry.ID] = [2]bool{true, true}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err = inParallel(ctx, c.list); err == nil {
		err = inParallel(ctx, c.missing)
	}
	return &c.totals, err
}

func inParallel(ctx context.Context, fn func(context.Context, *errgroup.Group) error) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(checkAtOnce)
	err := fn(ctx, work)
	return cmp.Or(work.Wait(), err) // if a worker failed, its error caused err
}

// archived calls fn with each document that is archived according to its record, up to the last record in owed.
func (c *ArchiveCheck) archived(ctx context.Context, fn func(storage.Entry, *record.Head) error) error {
	err := c.Store.Records(0, func(entry storage.Entry) error {
		if entry.ID >= uint64(len(c.owed)) {
			return record.ErrEnough
		}
		if err := ctx.Err(); err != nil || !record.IsDocument(entry.State) {
			return err
		}
		h, err := record.DecodeHead(entry)
		if err != nil || !h.Archived() {
			return err
		}
		return fn(entry, h)
	})
	if errors.Is(err, record.ErrEnough) {
		return nil
	}
	return err
}

func (c *ArchiveCheck) key(entry storage.Entry, h *record.Head, file int) string {
	return ArchivePath(c.Slug, h, ArchiveFiles[file], dte.Code(entry.Code).String())
}

// list looks up each object of the archive's listing in the store, and clears the object's entry in owed. It reports
// foreign objects, and compares objects that may have been altered.
func (c *ArchiveCheck) list(ctx context.Context, work *errgroup.Group) error {
	total := int64(2 * c.totals.Documents)
	for o, err := range c.Archive.List(ctx, c.Slug+"/DTES/"+strings.ToLower(record.AmbienteName(c.Ambiente))+"/") {
		if err != nil {
			return err
		}
		c.totals.Objects++
		if c.totals.Objects%1000 == 0 {
			c.mu.Lock()
			err := c.Progress(min(int64(c.totals.Objects), total), total)
			c.mu.Unlock()
			if err != nil {
				return err
			}
		}
		entry, h, file, err := c.owner(o.Key)
		if err != nil {
			return err
		}
		switch {
		case h == nil:
			if file < 0 || !c.Shared {
				err = c.found(ArchiveFinding{Kind: ArchiveForeign, Key: o.Key, What: "no document of this store"})
			}
		case c.key(entry, h, file) != o.Key:
			err = c.found(ArchiveFinding{Kind: ArchiveForeign, Key: o.Key, Code: dte.Code(entry.Code).String(),
				What: "the place of its document is " + c.key(entry, h, file)})
		case h.Archived():
			if entry.ID < uint64(len(c.owed)) {
				c.owed[entry.ID][file] = false
			}
			if c.Read || o.Tag == "" || o.Tag != h.Delivery.Archive.Held[file].Tag {
				work.Go(func() error { return c.compare(ctx, entry, h, file) })
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// owner returns the document and the file (index of ArchiveFiles) to which an object's name belongs. h is nil if the
// store lacks the document; file is -1 for any other object.
func (c *ArchiveCheck) owner(key string) (entry storage.Entry, h *record.Head, file int, err error) {
	name, file := path.Base(key), -1
	for i, ext := range ArchiveFiles {
		if path.Ext(name) == "."+ext {
			file = i
		}
	}
	code, err := dte.ParseCode(strings.TrimSuffix(name, path.Ext(name)))
	if err != nil || file < 0 {
		return entry, nil, -1, nil
	}
	if entry, h, err = record.Read(c.Store, storage.Code(code)); errors.Is(err, storage.ErrNotFound) {
		err = nil
	}
	return entry, h, file, err
}

func (c *ArchiveCheck) compare(ctx context.Context, entry storage.Entry, h *record.Head, file int) error {
	key, want := c.key(entry, h, file), h.Delivery.Archive.Held[file]
	look := c.Archive.Stat
	if c.Read {
		look = c.Archive.Read
	}
	o, err := look(ctx, key)
	finding := ArchiveFinding{Kind: ArchiveMissing, Key: key, Code: dte.Code(entry.Code).String()}
	switch {
	case errors.Is(err, archive.ErrNotFound):
		return c.found(finding)
	case errors.Is(err, archive.ErrUnread) && !archive.Refuses(err): // rotten; the account may read the others
		finding.Kind, finding.What = ArchiveAltered, err.Error()
		return c.found(finding)
	case err != nil:
		return fmt.Errorf("checking %s: %w", key, err)
	case o.Sum != want.Sum:
		finding.Kind = ArchiveAltered
		finding.What = fmt.Sprintf("now %d bytes with SHA-256 %s, archived with SHA-256 %s", o.Size, o.Sum, want.Sum)
		return c.found(finding)
	}
	return nil
}

// missing queries each object that the listing lacked, by its key.
func (c *ArchiveCheck) missing(ctx context.Context, work *errgroup.Group) error {
	if !slices.ContainsFunc(c.owed, func(files [2]bool) bool { return files[0] || files[1] }) {
		return nil
	}
	return c.archived(ctx, func(entry storage.Entry, h *record.Head) error {
		for file, owed := range c.owed[entry.ID] {
			if owed {
				work.Go(func() error { return c.compare(ctx, entry, h, file) })
			}
		}
		return nil
	})
}

func (c *ArchiveCheck) found(f ArchiveFinding) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.totals.Findings[f.Kind]++
	return c.Found(f)
}

// CheckArchive makes an ArchiveCheck of this branch while the appliance runs. It sets all fields of c except Read,
// Shared, Progress and Found. Errors: CodeUnavailable without an archive, or those of ArchiveCheck.Run.
func (box *Outbox) CheckArchive(ctx context.Context, c *ArchiveCheck) (*ArchiveTotals, error) {
	if box.o.Delivery.Archive == nil {
		return nil, &refusal.Error{Code: refusal.CodeUnavailable, Message: "No archive is configured", Operator: true}
	}
	c.Store, c.Archive = box.o.Store, box.o.Delivery.Archive
	c.Slug, c.Ambiente = box.o.Issuer.Slug, box.o.Issuer.Ambiente
	return c.Run(ctx)
}
