// Package outbox delivers documents: it mails and archives them, mails letters about them, and prints them. Begin at
// Run. Pending deliveries are in the store; only the pauses after a server's failure are not.
package outbox

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/mail"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/storage"
)

// Outbox delivers the documents of one branch. Make it with New; it is safe for concurrent use.
type Outbox struct {
	o        Options
	metrics  *metrics
	delivery deliveries
}

// Documents are the operations on documents that the outbox needs; the engine has them.
type Documents struct {
	// Document returns a document that the caller may read.
	Document func(context.Context, dte.Code, record.Caller) (*record.View, error)
	// View returns the public record of a document whose state is no longer Signed.
	View func(storage.Entry) (*record.View, error)
	// ChangeDelivery changes the delivery in a document's record.
	ChangeDelivery func(context.Context, storage.Code, func(*record.Delivery)) error
	// Catalogue returns the text of a code of MH's catalogues.
	Catalogue func(catalogue, code string) (string, bool)
	// Mailed records that a caller mails a document to an address that is not in the document.
	Mailed func(c record.Caller, code dte.Code, to string)
}

// Options of New. Every field but Delivery is required.
type Options struct {
	Delivery  Delivery
	Documents Documents
	Store     *storage.Store
	Lost      *record.LostRecords // the lost records of Store
	Issuer    record.Issuer
	Logger    *slog.Logger
	Now       func() time.Time
	Rand      io.Reader // source of the letters' codes
	// GiveWay returns the function, or nil, that a long layout calls between two pieces to let sales go first.
	GiveWay func() (rest func())
}

// New returns an outbox; it starts nothing.
func New(o Options) *Outbox {
	box := &Outbox{o: o, metrics: newMetrics()}
	d := &box.o.Delivery
	d.GiveUpAfter = cmp.Or(d.GiveUpAfter, 5*24*time.Hour)
	if d.Printer == nil {
		d.Mail, d.Archive = nil, nil
	}
	box.delivery.init(o.Now)
	return box
}

// Ring makes Run look soon for due deliveries.
func (box *Outbox) Ring() { box.delivery.bell.Ring() }

func (box *Outbox) Mails() bool { return box.o.Delivery.Mail != nil }

// Archive returns the archive of the documents, or nil.
func (box *Outbox) Archive() *archive.Archive { return box.o.Delivery.Archive }

type metrics struct{ mailed, archived *prometheus.CounterVec }

func newMetrics() *metrics {
	return &metrics{
		mailed: record.NewCounters("dte_mail_total", "Attempts to mail a document, by result: sent, refused (for "+
			"good), later, setup (the server refuses this box), given_up.", "result", "sent", "refused", "later",
			"setup", "given_up"),
		archived: record.NewCounters("dte_archive_total", "Attempts to archive a document, by result: stored, "+
			"conflict, invalid (both for good), later, setup (the archive refuses this box), full.", "result",
			"stored", "conflict", "invalid", "later", "setup", "full"),
	}
}

// Counters returns the counters of the deliveries. The other metrics are computed when they are collected.
func (box *Outbox) Counters() []prometheus.Collector {
	return []prometheus.Collector{box.metrics.mailed, box.metrics.archived}
}

// Delivery holds the settings for delivering documents to receivers and archive. Every field may be zero.
type Delivery struct {
	Printer *pdf.Printer     // nil: nothing is printed, mailed or archived
	Mail    *mail.Sender     // nil: nothing is mailed
	Archive *archive.Archive // nil: nothing is archived
	Domain  string           // the right side of Message-IDs: the sender's own domain
	// Contingency mails a document of a contingency twice: when it is issued, and when MH has sealed it.
	Contingency bool
	GiveUpAfter time.Duration // how long attempts to mail a message go on, default 5 days (RFC 5321 §4.5.4.1)
	// Look gives Trade, Color and Greeting; its other fields come from the document and from Printer.
	Look mail.Look
}

// Indexes of deliveries.servers.
const (
	mailServer = iota
	archiveServer
)

// deliveries is the outbox's state in memory; a restart may lose it.
type deliveries struct {
	servers  [2]breaker // of mail and of the archive, in the order of record.Delivery.Steps
	bell     fairqueue.Bell
	printing *fairqueue.Queue // by token

	mu      sync.Mutex
	waiting map[storage.Code]chan string // channels of tills that wait for a resend, by the letter's code
}

func (d *deliveries) init(now func() time.Time) {
	d.bell = fairqueue.NewBell()
	// Slots and allowance limit large documents: to lay out 2,000 lines takes 40 MiB and at least a tenth of a second.
	// A ticket takes two milliseconds; tickets never use up the allowance.
	slots := max(2, runtime.NumCPU()) // at least two: one slow caller leaves a slot free
	d.printing = fairqueue.New(fairqueue.Options{Slots: slots, Each: slots / 2, Waiting: 16, Now: now,
		Allowance: fairqueue.Allowance{Burst: 5 * time.Second, Share: .15}})
	d.waiting = make(map[storage.Code]chan string)
	for i := range d.servers {
		d.servers[i].resume()
	}
}

func (box *Outbox) Run(ctx context.Context) {
	if box.o.Delivery.Printer == nil {
		return
	}
	for ctx.Err() == nil {
		next, err := box.deliverDue(ctx)
		if err != nil && ctx.Err() == nil {
			box.o.Logger.Error("delivering", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-box.delivery.bell:
		case <-time.After(next):
		}
	}
}

const (
	deliverBatch  = 16   // small, because a waiting till's resend comes after the batch
	deliverMany   = 5000 // the most records of a queue that a search reads
	deliverAtOnce = 4
)

// deliverDue makes the due deliveries and returns the time until the next may be due.
func (box *Outbox) deliverDue(ctx context.Context) (next time.Duration, err error) {
	next = time.Minute
	for ctx.Err() == nil {
		if err := box.retryAway(ctx); err != nil {
			return next, err
		}
		now := box.o.Now()
		due, err := box.o.Store.Due(record.QueueDeliver, now, deliverBatch)
		if err != nil {
			return next, fmt.Errorf("reading queue %s: %w", record.QueueDeliver, err)
		}
		if len(due) == 0 {
			break
		}
		if err := box.deliverEach(ctx, due, false); err != nil {
			return next, err
		}
	}
	now := box.o.Now()
	first, err := box.o.Store.Due(record.QueueDeliver, now.Add(next), 1)
	if err != nil {
		return next, fmt.Errorf("reading queue %s: %w", record.QueueDeliver, err)
	}
	if len(first) > 0 {
		next = max(0, first[0].Due.At.Sub(now))
	}
	for i := range box.delivery.servers {
		if until := box.delivery.servers[i].retryAt(); !until.IsZero() {
			next = max(0, min(next, until.Sub(now)))
		}
	}
	return next, nil
}

// retryAway looks at each server whose pause is over. It tries one record that waits for the server and, if that
// succeeds, all the others. Each call begins with another record, because a server may fail at one particular record.
func (box *Outbox) retryAway(ctx context.Context) error {
	for i := range box.delivery.servers {
		b := &box.delivery.servers[i]
		if at := b.retryAt(); at.IsZero() || box.o.Now().Before(at) {
			continue
		}
		all, err := box.o.Store.Due(record.QueueDeliver, record.Whenever, deliverMany)
		if err != nil {
			return fmt.Errorf("reading queue %s: %w", record.QueueDeliver, err)
		}
		var waiting []storage.Entry
		for _, entry := range all {
			s, _, _, _, err := owedOf(entry)
			if err != nil {
				continue // deliverDue sets the record aside when it is due
			}
			if one := *s.Steps()[i]; one.Pending() && one.Away {
				waiting = append(waiting, entry)
			}
		}
		if len(waiting) == 0 {
			b.reset()
			continue
		}
		b.turns++
		first := b.turns % len(waiting)
		if err := box.deliverEach(ctx, waiting[first:first+1], true); err != nil {
			return err
		}
		if b.retryAt().IsZero() {
			if err := box.deliverEach(ctx, slices.Delete(waiting, first, first+1), true); err != nil {
				return err
			}
			if b.retryAt().IsZero() {
				b.resume() // search again: the queue may have more than deliverMany records, or new records
			}
		}
	}
	return nil
}

// owedOf returns the delivery steps of a record (document or letter), its document's code, mail address and token.
func owedOf(entry storage.Entry) (steps record.Delivery, document, to string, token int64, err error) {
	if !record.IsDocument(entry.State) {
		l, err := decodeLetter(entry)
		if err != nil {
			return steps, "", "", 0, err
		}
		return record.Delivery{Mail: &l.Step}, l.Document, l.To, l.TokenID, nil
	}
	h, err := record.DecodeHead(entry)
	if err != nil {
		return steps, "", "", 0, err
	}
	if h.Delivery != nil {
		steps = *h.Delivery
	}
	return steps, dte.Code(entry.Code).String(), h.Mail, h.TokenID, nil
}

// deliverEach delivers several records at once. away: the records are not due yet, but their server may be back.
func (box *Outbox) deliverEach(ctx context.Context, entries []storage.Entry, away bool) error {
	var g errgroup.Group
	g.SetLimit(deliverAtOnce)
	for _, entry := range entries {
		g.Go(func() (err error) {
			if ctx.Err() != nil {
				return nil
			}
			defer func() { // a panic at one record does not stop the other deliveries
				if v := recover(); v != nil {
					err = box.o.Lost.SetAside(ctx, entry, fmt.Errorf("delivering it: panic: %v\n%s", v, debug.Stack()))
				}
			}()
			if err := box.o.Lost.Skip(ctx, entry, box.deliverOne(ctx, entry, away)); err != nil {
				return fmt.Errorf("delivering %s: %w", dte.Code(entry.Code), err)
			}
			return nil
		})
	}
	return g.Wait()
}

func stepWanted(s *record.Step, now time.Time, away bool, b *breaker) bool {
	if away {
		open, _ := b.leftAlone(now)
		return s.Pending() && s.Away && !open
	}
	return s.Pending() && !s.Next.After(now)
}

// deliverOne makes the delivery steps of a record that are due now, and records the results.
func (box *Outbox) deliverOne(ctx context.Context, entry storage.Entry, away bool) error {
	if !record.IsDocument(entry.State) {
		return box.deliverLetter(ctx, entry, away)
	}
	h, err := record.DecodeHead(entry)
	if err != nil || h.Delivery == nil {
		return err
	}
	d, now := *h.Delivery, box.o.Now()
	var tried [2]bool
	for i, s := range d.Steps() {
		tried[i] = stepWanted(*s, now, away, &box.delivery.servers[i])
	}
	if tried == [2]bool{} {
		return nil
	}
	if _, err := record.SignedForm(box.o.Store, entry.Code, h); err != nil {
		return err
	}
	if tried[mailServer] {
		box.mailTo(ctx, d.Mail, entry, h.Mail, messageID(entry.Code))
	}
	if tried[archiveServer] {
		box.archiveOne(ctx, d.Archive, entry, h)
	}
	return box.o.Documents.ChangeDelivery(ctx, entry.Code, func(kept *record.Delivery) {
		for i, s := range kept.Steps() {
			if tried[i] { // if ctx ended before the result was known, the step is unchanged
				*s = *d.Steps()[i]
			}
		}
	})
}

// Pauses after a failure of a server: at first one minute, at most five minutes.
const (
	pauseFirst = time.Minute
	PauseMost  = 5 * time.Minute
)

// breaker is the state of a mail or archive server. After a failure the server gets a pause.
type breaker struct {
	mu    sync.Mutex
	until time.Time // when the server is tried again; zero: the server works
	pause time.Duration
	why   error
	turns int // number of attempts of retryAway: each begins with another record
}

// leftAlone reports whether the server is in a pause now, and returns the cause.
func (b *breaker) leftAlone(now time.Time) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Before(b.until), b.why
}

// retryAt returns when the server is tried again, or zero if the server works.
func (b *breaker) retryAt() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.until
}

// fail records that the server could not be used. Simultaneous attempts count once.
func (b *breaker) fail(now time.Time, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !now.Before(b.until) {
		b.pause = min(max(2*b.pause, pauseFirst), PauseMost)
		b.until, b.why = now.Add(b.pause), why
	}
}

// reset records that the server works, or that no record waits for it.
func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until, b.pause, b.why = time.Time{}, 0, nil
}

// resume ends the pause. All records that wait for the server may be tried now.
func (b *breaker) resume() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = time.Unix(0, 0)
}
