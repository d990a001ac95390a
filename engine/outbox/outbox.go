// Package outbox delivers documents: it mails them to their receivers, archives them (begin with deliver.go), mails
// letters about them, and prints them. What is still to be delivered is in the store; a restart loses nothing but the
// memory of pauses.
package outbox

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/record"
	"dtegate/engine/seller"
	"dtegate/storage"
)

// Outbox delivers the documents of one branch. Make it with New; it is safe for concurrent use.
type Outbox struct {
	options  Delivery
	docs     Documents
	store    *storage.Store
	lost     *record.LostRecords
	issuer   seller.Issuer
	log      *slog.Logger
	now      func() time.Time
	rand     io.Reader // of the letters' codes
	giveWay  func() (rest func())
	metrics  *metrics
	delivery deliveries
}

// Documents are the operations on documents that the outbox needs; the engine has them.
type Documents struct {
	// Document returns a document that the caller may read.
	Document func(context.Context, dte.Code, seller.Caller) (*record.View, error)
	// View returns the public record of a document whose state is no longer Signed.
	View func(storage.Entry) (*record.View, error)
	// ChangeDelivery changes the delivery in a document's record.
	ChangeDelivery func(context.Context, storage.Code, func(*record.Delivery)) error
	// Catalogue is the text of a code of MH's catalogues.
	Catalogue func(catalogue, code string) (string, bool)
	// Mailed records the act that a document is mailed to an address that is not in the document.
	Mailed func(c seller.Caller, code dte.Code, to string)
}

// Options of New. Every field but Delivery is required.
type Options struct {
	Delivery  Delivery
	Documents Documents
	Store     *storage.Store
	Lost      *record.LostRecords // of Store
	Issuer    seller.Issuer
	Logger    *slog.Logger
	Now       func() time.Time
	Rand      io.Reader // of the letters' codes
	// GiveWay returns what a long printed version calls between two of its pieces, nil for nothing.
	GiveWay func() (rest func())
}

// New returns an outbox; it starts nothing.
func New(o Options) *Outbox {
	box := &Outbox{
		options: o.Delivery.withDefaults(),
		docs:    o.Documents,
		store:   o.Store,
		lost:    o.Lost,
		issuer:  o.Issuer,
		log:     o.Logger,
		now:     o.Now,
		rand:    o.Rand,
		giveWay: o.GiveWay,
		metrics: newMetrics(),
	}
	box.delivery.init(o.Now)
	return box
}

// Ring makes Run look soon at what is due.
func (box *Outbox) Ring() { box.delivery.bell.Ring() }

// Mails reports whether documents are mailed.
func (box *Outbox) Mails() bool { return box.options.Mail != nil }

// Printing returns the queue in which callers wait to print.
func (box *Outbox) Printing() *fairqueue.Queue { return box.delivery.printing }

// Archive returns the archive of the documents, nil for none.
func (box *Outbox) Archive() *archive.Archive { return box.options.Archive }

type metrics struct{ mailed, archived *prometheus.CounterVec }

func newMetrics() *metrics {
	m := &metrics{
		mailed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_mail_total",
			Help: "Attempts to mail a document, by result: sent, refused (for good), later, setup (the server does " +
				"not take this box), given_up."}, []string{"result"}),
		archived: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dte_archive_total",
			Help: "Attempts to archive a document, by result: stored, conflict, invalid (both for good), later, setup " +
				"(the store does not take this box), full."}, []string{"result"}),
	}
	// At 0 from the start: a series that began at 1 would hide its first from Prometheus' increase.
	for _, result := range []string{"sent", "refused", "later", "setup", "given_up"} {
		m.mailed.WithLabelValues(result)
	}
	for _, result := range []string{"stored", "conflict", "invalid", "later", "setup", "full"} {
		m.archived.WithLabelValues(result)
	}
	return m
}

// Counters returns the metrics that are counted when things happen.
func (box *Outbox) Counters() []prometheus.Collector {
	return []prometheus.Collector{box.metrics.mailed, box.metrics.archived}
}
