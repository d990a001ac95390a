// Package register reads what a branch has issued, as the API shows it: one document, many at once, lists with their
// sums, late results, the counts of the day. It also keeps the lock of each document: a reader waits while the document
// is being settled.
//
// A single document is in this file and in view.go, lists are in list.go, late results in changes.go, the day's counts
// in tally.go, the closing of a point of sale in closing.go, what each token has stored in usage.go.
package documents

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/engine/seller"
	"dtegate/engine/totals"
	"dtegate/storage"
)

// Register reads the documents of one store. Make it with New; it is safe for concurrent use.
type Register struct {
	store  *storage.Store
	slug   string        // of the issuer, in addresses of files
	codes  storage.Locks // documents being settled
	ledger *totals.Ledger

	issuer    string // its name
	ambiente  string // CAT-001
	catalogue Catalogue
	rest      func() func() // returns what a long read calls after every few records: it gives way to sales
}

// Catalogue returns the text of a code of MH's catalogues, false if there is no such code.
type Catalogue func(list, code string) (string, bool)

// New returns the register of a store. The shelf, which may be nil, knows when tills sell; long reads then give way to
// them.
func New(store *storage.Store, shelf *rulestore.Store, issuer seller.Issuer, catalogue Catalogue) *Register {
	r := &Register{store: store, slug: issuer.Slug, issuer: issuer.Facts.Get("nombre").Text(),
		ambiente: issuer.Ambiente, catalogue: catalogue}
	r.rest = func() func() {
		if shelf == nil {
			return func() {}
		}
		return shelf.GiveWay(2)
	}
	r.ledger = newLedger(store, r.rest)
	return r
}

// Document returns a stored document of the caller's branch. If the document is being settled, it waits.
func (r *Register) Document(ctx context.Context, code dte.Code, c seller.Caller) (*record.View, error) {
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
			Message: "El token no puede leer documentos de este tipo: necesita el permiso " + seller.PermissionRead}
	}
	v, err := r.View(entry)
	if errors.Is(err, record.ErrLost) {
		return nil, &refusal.Error{Code: refusal.CodeInternal, Err: err,
			Message: "El equipo perdió los datos firmados de " + h.ControlNumber +
				": búsquelo en la consulta de Hacienda por su código"}
	}
	return v, err
}

// Settled returns a record. If its document is being settled, it waits.
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
	return r.codes.Acquire(ctx, code.String())
}

// Lock returns a document's record and prevents changes of it. If err is nil, the caller must call release.
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

// Touch is called when a document has changed.
func (r *Register) Touch(id uint64) { r.ledger.Touch(id) }

// Describe implements prometheus.Collector.
func (r *Register) Describe(ch chan<- *prometheus.Desc) { r.ledger.Describe(ch) }

// Collect implements prometheus.Collector.
func (r *Register) Collect(ch chan<- prometheus.Metric) { r.ledger.Collect(ch) }
