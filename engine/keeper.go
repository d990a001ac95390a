package engine

import (
	"context"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/seller"
	"dtegate/storage"
)

// keeper is the engine as those see it who send what it keeps.
type keeper struct{ e *Engine }

// Document returns a document that the caller may read.
func (k keeper) Document(ctx context.Context, code dte.Code, c seller.Caller) (*record.View, error) {
	return k.e.Document(ctx, code, c)
}

// View makes the public record of a document that has left Signed.
func (k keeper) View(entry storage.Entry) (*record.View, error) { return k.e.View(entry) }

// ChangeDelivery changes what a document's record knows of its delivery.
func (k keeper) ChangeDelivery(ctx context.Context, code storage.Code, change func(*record.Delivery)) error {
	return k.e.changeDelivery(ctx, code, change)
}

// Catalogue is the text of a code of MH's catalogues.
func (k keeper) Catalogue(catalogue, code string) (string, bool) {
	return k.e.Catalogue(catalogue, code)
}

// Mailed records the act that a document is mailed to an address that is not in the document.
func (k keeper) Mailed(c seller.Caller, code dte.Code, to string) {
	k.e.recordAct(c, ActMail, code, to)
}

// deferred is the engine as the contingency sees it.
type deferred struct{ e *Engine }

// Settle settles documents that nobody settles any more, and sends pending invalidations.
func (d deferred) Settle(ctx context.Context, before time.Time) { d.e.sweep(ctx, before) }

// Move takes a document to another state, with what follows from the step.
func (d deferred) Move(ctx context.Context, entry storage.Entry, change storage.Change, h *record.Head) (storage.Entry, error) {
	return d.e.move(ctx, entry, change, h)
}

// AdoptHeld makes the form that MH holds the record of a document.
func (d deferred) AdoptHeld(ctx context.Context, entry storage.Entry, h *record.Head, held *authority.Response, doubt time.Duration) (storage.Entry, error) {
	return d.e.adoptHeld(ctx, entry, h, held, doubt)
}

// ExpireCorrections takes the documents out of their queue that can no longer be corrected.
func (d deferred) ExpireCorrections(ctx context.Context) (bool, error) {
	return d.e.expireCorrections(ctx)
}
