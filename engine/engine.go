// Package engine decides what is issued, when it is sent and what is owed: it turns a sale into a numbered, signed,
// stored document and settles it with the tax authority. ARCHITECTURE.md mirrors the steps of Issue.
package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/contingency"
	"dtegate/engine/dte"
	"dtegate/engine/fair"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/register"
	"dtegate/engine/rulebook"
	"dtegate/engine/seller"
	"dtegate/engine/shelf"
	"dtegate/engine/sign"
	"dtegate/storage"
)

// Options of New. Every field without a default is required.
type Options struct {
	Store     *storage.Store
	Signer    *sign.Signer
	Authority *authority.Client
	// Rules is what a Shelf holds, or a book that never changes.
	Shelf  *shelf.Shelf
	Rules  *rulebook.Book
	Issuer seller.Issuer
	Policy authority.Policy
	// Contingency is how the branch lives without MH.
	Contingency contingency.Options
	Logger      *slog.Logger     // default slog.Default
	Now         func() time.Time // the clock
	Rand        io.Reader        // of generation codes, default crypto/rand
	// RecoverEvery is how often documents that nobody settles any more are looked for, default 5 s.
	RecoverEvery time.Duration
	// Delivery is how documents reach their receivers and the archive; zero: not at all.
	Delivery outbox.Delivery
	// Reachable gets a value when MH can be reached again after it could not: a contingency is probed at once. May be nil.
	Reachable <-chan struct{}
	// Gate is asked before a new document of a point of sale; its error, best a *refusal.Error, is the answer. Default: always open.
	Gate func(seller.Point) error
	// Acted is told of what a token changes or sends that is no sale, once it is stored; nil tells nobody.
	Acted func(Act)
}

// Engine issues documents. Make one with New; it is safe for concurrent use.
type Engine struct {
	*register.Register // what was issued, and the lock of each document

	store   *storage.Store
	signer  *sign.Signer
	client  *authority.Client
	shelf   *shelf.Shelf          // may be nil
	rules   func() *rulebook.Book // in force
	issuer  seller.Issuer
	log     *slog.Logger
	now     func() time.Time
	rand    io.Reader
	every   time.Duration
	sends   atomic.Int64  // idEnvio, a free correlative of the envelope (MT1 §4.2)
	keys    storage.Locks // idempotency keys at work
	large   *fair.Queue   // sales of many lines, by token
	traffic traffic       // documents on their way to MH
	gate    func(seller.Point) error
	onAct   func(Act)
	metrics *metrics

	contingency *contingency.Contingency
	ahead       atomic.Pointer[refusal.Error] // a witness outside of the box knows more numbers than the store
	sender      *authority.Sender
	owed        owedCache
	outbox      *outbox.Outbox // what the receivers and the archive are owed
}

// New returns an engine; it starts nothing.
func New(o Options) (e *Engine, err error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.RecoverEvery == 0 {
		o.RecoverEvery = 5 * time.Second
	}
	if o.Gate == nil {
		o.Gate = func(seller.Point) error { return nil }
	}
	if o.Issuer.Ambiente != "00" && o.Issuer.Ambiente != "01" {
		return nil, fmt.Errorf("ambiente is %q, must be 00 or 01", o.Issuer.Ambiente)
	}
	e = &Engine{
		store: o.Store, signer: o.Signer, client: o.Authority, issuer: o.Issuer,
		log: o.Logger, now: o.Now, rand: o.Rand, every: o.RecoverEvery, gate: o.Gate, onAct: o.Acted, metrics: newMetrics(),
	}
	e.large = newLarge(o.Now)
	e.outbox = outbox.New(outbox.Options{Delivery: o.Delivery, Documents: keeper{e}, Store: e.store, Issuer: e.issuer, Logger: e.log, Now: e.now, Rand: e.rand,
		GiveWay: func() func() {
			if e.shelf == nil {
				return nil
			}
			return e.shelf.GiveWay(2)
		}})
	e.Register = register.New(o.Store, o.Shelf, o.Issuer, o.Logger)
	e.sends.Store(o.Now().UnixMilli())
	if e.shelf = o.Shelf; e.shelf != nil {
		e.rules = e.shelf.Book
	} else {
		e.rules = func() *rulebook.Book { return o.Rules }
	}
	gaps, err := o.Store.Gaps()
	if err != nil {
		return nil, err
	}
	lost := make([]authority.Span, len(gaps))
	for i, g := range gaps {
		lost[i] = authority.Span(g)
	}
	e.sender = authority.NewSender(authority.SenderOptions{Client: e.client, Policy: o.Policy, Lost: lost, Now: e.now, Taken: e.numberTaken,
		Away: func() bool { return e.contingency.Current() != nil }, Suspect: func() { e.contingency.Suspect() }})
	e.contingency, err = contingency.New(contingency.Branch{Documents: deferred{e}, Store: e.store, Signer: e.signer, Sender: e.sender, Rules: e.rules, Issuer: e.issuer,
		Logger: e.log, Now: e.now, Rand: e.rand, SendID: func() int64 { return e.sends.Add(1) }, Reachable: o.Reachable, Every: o.RecoverEvery, SettleAfter: settleAfter}, o.Contingency)
	return e, err
}

// Run settles what a crash left open, at once, and later whatever a request gave up on; it watches MH, and sends what is
// owed. It returns when ctx ends, with nil.
func (e *Engine) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { e.outbox.Run(ctx) })
	e.contingency.Run(ctx)
	wg.Wait()
	return nil
}

// Contingency is how the branch lives without MH.
func (e *Engine) Contingency() *contingency.Contingency { return e.contingency }

// sweep settles documents that nobody settles any more, and sends pending invalidations.
func (e *Engine) sweep(ctx context.Context, before time.Time) {
	if err := e.Recover(ctx, before); err != nil && ctx.Err() == nil {
		e.log.Error("recovering documents", "error", err)
	}
	if err := e.resumeInvalidations(ctx, before); err != nil && ctx.Err() == nil {
		e.log.Error("resuming invalidations", "error", err)
	}
}

// settleAfter is how long a request may hold a document before the recovery takes over: longer than the policy's
// three transmissions and three queries of 8 s.
const settleAfter = 2 * time.Minute

// Recover settles, once, every signed document that was due before the given time.
func (e *Engine) Recover(ctx context.Context, before time.Time) error {
	for {
		open, err := e.store.Due(record.QueueSettle, before, 100)
		if err != nil {
			return fmt.Errorf("listing unsettled documents: %w", err)
		}
		settled := 0
		for _, entry := range open {
			_, err := e.settle(ctx, entry.Code, true)
			switch {
			case errors.Is(err, errPutOff):
				continue
			case err != nil:
				return fmt.Errorf("settling document %s: %w", dte.Code(entry.Code), err)
			}
			settled++
		}
		if settled == 0 {
			return nil
		}
	}
}

// changeDelivery changes what a document's record knows of its delivery; a pending invalidation keeps its place in the queue.
func (e *Engine) changeDelivery(ctx context.Context, code storage.Code, change func(*record.Delivery)) error {
	ctx = context.WithoutCancel(ctx) // what was sent is written down, or it is sent twice
	entry, h, release, err := e.Lock(ctx, code)
	if err != nil {
		return err
	}
	defer release()
	if entry.State != record.Accepted && entry.State != record.Invalidated {
		return nil
	}
	var d record.Delivery
	if h.Delivery != nil {
		d = *h.Delivery
	}
	before := d
	change(&d)
	if d == before {
		return nil
	}
	h.Delivery = &d
	c := storage.Change{To: entry.State}
	if h.Invalidation.Pending() {
		c.Due = entry.Due
	}
	_, err = e.move(ctx, entry, c, h)
	return err
}

// Catalogue is the text of a code of MH's catalogues, ("CAT-017", "01"), as the rules in force have it.
func (e *Engine) Catalogue(catalogue, code string) (string, bool) {
	return e.rules().Catalogue(catalogue, code)
}
