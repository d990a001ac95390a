// Package documents reads the issued documents of a branch for the API: one, many, lists with their sums, late results,
// the day's counts. It has the lock of each document: readers wait while a document is being settled.
//
// This file reads single documents. list.go has lists and late results, ledger.go the lists' data in memory, closing.go
// the closing of a point of sale, month.go the accountant's month, authorisation.go MH's tests.
package documents

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// Register reads the documents of one store. Make it with New; it is safe for concurrent use.
type Register struct {
	store  *storage.Store
	issuer record.Issuer
	codes  storage.Locks // of documents that are being settled or changed, by code
	ledger *ledger

	catalogue Catalogue
	rest      func() func() // makes a function; a long read calls it every few records, to let sales go first
}

// Catalogue returns the text of a code of MH's catalogues, or false if the code does not exist.
type Catalogue func(list, code string) (string, bool)

func New(store *storage.Store, rest func() func(), issuer record.Issuer, catalogue Catalogue) *Register {
	return &Register{store: store, issuer: issuer, catalogue: catalogue, rest: rest, ledger: newLedger(store, rest)}
}

// Document returns a stored document, once it is settled: of the caller's branch or, for an operator, of any branch.
func (r *Register) Document(ctx context.Context, code dte.Code, c record.Caller) (*record.View, error) {
	entry, err := r.Settled(ctx, code)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, refusal.NotFound(code)
	}
	if err != nil {
		return nil, fmt.Errorf("reading document %s: %w", code, err)
	}
	if record.Estado(entry.State) == "" {
		return nil, refusal.NotFound(code)
	}
	h, err := record.DecodeHead(entry)
	if err != nil {
		return nil, err
	}
	if h.BranchID != c.Point.BranchID && !c.Operator {
		return nil, refusal.NotFound(code)
	}
	if !c.Reads(h) {
		return nil, &refusal.Error{Code: refusal.CodePermission,
			Message: "El token no puede leer documentos de este tipo: necesita el permiso " + record.PermissionRead}
	}
	v, err := r.View(entry)
	if errors.Is(err, record.ErrLost) {
		return nil, &refusal.Error{Code: refusal.CodeInternal, Err: err,
			Message: "El equipo perdió los datos firmados de " + h.ControlNumber +
				": búsquelo en la consulta de Hacienda por su código"}
	}
	return v, err
}

// View returns the public record of a stored document whose state is no longer Signed.
func (r *Register) View(entry storage.Entry) (*record.View, error) {
	h, err := record.DecodeHead(entry)
	if err != nil {
		return nil, err
	}
	jws, err := record.SignedForm(r.store, entry.Code, h)
	if err != nil {
		return nil, fmt.Errorf("reading signed document: %w", err)
	}
	document, err := record.Payload(jws)
	if err != nil {
		return nil, err
	}
	return r.ViewOf(entry, h, document, jws)
}

// ViewOf is View for a caller that already has the document's head, text and signature.
func (r *Register) ViewOf(entry storage.Entry, h *record.Head, document, jws []byte) (*record.View, error) {
	estado := record.Estado(entry.State)
	if estado == "" {
		return nil, fmt.Errorf("record %s is in state %d, which has no public name", dte.Code(entry.Code), entry.State)
	}
	v := &record.View{
		ID:             int64(entry.ID),
		Document:       h.Document,
		Tipo:           record.TypeOf(h.Document).Name,
		Code:           dte.Code(entry.Code).String(),
		ControlNumber:  h.ControlNumber,
		Estado:         estado,
		Ambiente:       record.AmbienteName(h.Ambiente),
		Total:          h.Total,
		JSON:           document,
		JWS:            jws,
		Sello:          h.Seal(entry.State),
		Response:       h.Response,
		SequenceNumber: strconv.FormatUint(entry.Number, 10),
		SequenceID:     int64(entry.SequenceID),
		Serie:          h.Serie,
		EmisorID:       h.EmisorID, BranchID: h.BranchID, PointID: h.PointID, TokenID: h.TokenID,
		CreatedAt:    h.CreatedAt,
		Date:         h.Date,
		Rule:         h.Rule,
		Warnings:     h.Warnings,
		Invalidation: h.Invalidation,
	}
	if entry.State == record.Rejected {
		v.TechnicalError = "Rechazado por Hacienda: " + record.RefusalText(h.Response)
		return v, nil
	}
	v.JSONURL = outbox.ArchivePath(r.issuer.Slug, h, "json", v.Code)
	v.PDFURL = outbox.ArchivePath(r.issuer.Slug, h, "pdf", v.Code)
	return v, nil
}

// Settled returns a record. For a Signed document it first waits for the request that settles the document, if any.
func (r *Register) Settled(ctx context.Context, code dte.Code) (storage.Entry, error) {
	entry, err := r.store.Get(storage.Code(code))
	if err != nil || entry.State != record.Signed {
		return entry, err
	}
	release, err := r.Hold(ctx, code)
	if err != nil {
		return storage.Entry{}, refusal.Unavailable(err, "El documento aún se está transmitiendo")
	}
	defer release()
	return r.store.Get(storage.Code(code))
}

// Hold prevents changes of a document until release is called.
func (r *Register) Hold(ctx context.Context, code dte.Code) (release func(), err error) {
	return r.codes.Acquire(ctx, string(code[:]))
}

// Lock returns a document's record and prevents its changes. Unless err is set, the caller must call release.
func (r *Register) Lock(ctx context.Context, code storage.Code) (entry storage.Entry, h *record.Head, release func(),
	err error) {
	if release, err = r.Hold(ctx, dte.Code(code)); err != nil {
		return entry, nil, nil, err
	}
	if entry, err = r.store.Get(code); err == nil {
		h, err = record.DecodeHead(entry)
	}
	if err != nil {
		release()
		return entry, nil, nil, err
	}
	return entry, h, release, nil
}

// Touch must be called after a document has changed.
func (r *Register) Touch(id uint64) { r.ledger.touch(id) }

func (r *Register) Counter() prometheus.Collector { return r.ledger.read }

// StoredBefore returns a function that sums, by token, the bytes that sales and corrections stored on a day (yyyy-mm-dd
// in El Salvador) before the call of StoredBefore. The function lets sales go first.
func (r *Register) StoredBefore(now time.Time) func(ctx context.Context, day string) (map[int64]int64, error) {
	upTo := r.store.LastID()
	return func(ctx context.Context, day string) (map[int64]int64, error) {
		used, rest := make(map[int64]int64), r.rest()
		for d, err := range record.OfDay(ctx, r.store, record.Day(day), 0) {
			if err != nil {
				return nil, fmt.Errorf("reading what was stored on %s: %w", day, err)
			}
			if d.ID > upTo {
				break
			}
			rest()
			if d.Head.Date == day {
				used[d.Head.TokenID] += d.Head.Bytes
			}
			for _, c := range d.Head.Corrections {
				if dte.Date(c.At) == day && c.At.Before(now) {
					used[c.TokenID] += c.Bytes
				}
			}
		}
		return used, nil
	}
}
