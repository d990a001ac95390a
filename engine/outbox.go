package engine

import (
	"context"
	"io"
	"log/slog"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/seller"
	"dtegate/storage"
)

// outbox sends what the receivers and the archive are owed: it mails and archives documents, mails letters about them, and
// prints. What is owed is in the store; what the outbox itself remembers, a restart may forget.
type outbox struct {
	docs     documents
	store    *storage.Store
	issuer   seller.Issuer
	log      *slog.Logger
	now      func() time.Time
	rand     io.Reader // of the letters' codes
	metrics  *metrics
	delivery deliveries
	pace     func() (rest func()) // of the one goroutine that calls rest
}

// documents is what the outbox needs of who keeps the documents.
type documents interface {
	// Document returns a document that the caller may read.
	Document(context.Context, dte.Code, seller.Caller) (*record.View, error)
	// record makes the public record of a document that has left Signed.
	record(storage.Entry) (*record.View, error)
	// changeDelivery changes what a document's record knows of its delivery.
	changeDelivery(context.Context, storage.Code, func(*record.Delivery)) error
	// Catalogue is the text of a code of MH's catalogues.
	Catalogue(catalogue, code string) (string, bool)
	acted(c seller.Caller, what string, code dte.Code, detail string)
}

func newOutbox(e *Engine, o Delivery) *outbox {
	box := &outbox{docs: e, store: e.store, issuer: e.issuer, log: e.log, now: e.now, rand: e.rand, metrics: e.metrics, pace: func() func() {
		if e.shelf == nil {
			return nil
		}
		return e.shelf.GiveWay(2)
	}}
	box.delivery.init(o, e.now)
	return box
}
