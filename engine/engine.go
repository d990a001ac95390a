// Package engine turns a sale into a numbered, signed and stored document, and settles the document with the tax authority (MH).
// Begin with issue.go: Issue has the six steps that ARCHITECTURE.md describes.
package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/contingency"
	"dtegate/engine/outbox"
	"dtegate/engine/rulebook"
	"dtegate/engine/seller"
	"dtegate/engine/shelf"
	"dtegate/engine/sign"
	"dtegate/engine/witness"
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
	// Reachable gets a value when MH can be reached again: in a contingency, MH is then probed at once. May be nil.
	Reachable <-chan struct{}
	// Gate is asked before a new document of a point of sale; its error, best a *refusal.Error, is the answer. Default: always open.
	Gate func(seller.Point) error
	// Acted is told of what a token changes or sends that is no sale, once it is stored; nil tells nobody.
	Acted func(Act)
}

// Engine issues documents. Make one with New; it is safe for concurrent use. The parts of the engine that do more than issue
// are in files of their own; a part uses only the parts that are listed above it.
type Engine struct {
	*core
	*origins
	*sales
	*settlement
	*invalidations
	*corrections

	witness *witness.Guard
	keys    storage.Locks // idempotency keys at work
	gate    func(seller.Point) error
	owed    backlogCache
}

// New returns an engine. It starts nothing: see Run.
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
	c := newCore(o)
	e = &Engine{core: c, gate: o.Gate}
	c.outbox = outbox.New(outbox.Options{Delivery: o.Delivery, Documents: keeper{e}, Store: c.store, Issuer: c.issuer, Logger: c.log, Now: c.now, Rand: c.rand,
		GiveWay: func() func() {
			if c.shelf == nil {
				return nil
			}
			return c.shelf.GiveWay(2)
		}})
	e.origins = &origins{c}
	e.sales = &sales{core: c, origins: e.origins, large: newLarge(c.now)}
	e.invalidations = &invalidations{c, e.origins}
	e.witness = witness.New(c.store, c.issuer, c.outbox.Archive(), c.log)
	if e.settlement, err = newSettlement(c, o); err != nil {
		return nil, err
	}
	e.corrections = &corrections{c, e.sales, e.settlement}
	e.sender.Taken = e.witness.NumberTaken
	e.contingency, err = contingency.New(contingency.Branch{Documents: deferred{e}, Store: c.store, Signer: c.signer, Sender: e.sender, Rules: c.rules, Issuer: c.issuer,
		Logger: c.log, Now: c.now, Rand: c.rand, SendID: c.sendID, Reachable: o.Reachable, Every: o.RecoverEvery, SettleAfter: settleAfter}, o.Contingency)
	return e, err
}

// Run works until ctx ends, and then returns nil. At the start, and then every Options.RecoverEvery, it settles documents that
// were signed and that no request settles any more. It watches MH, and sends what is owed.
func (e *Engine) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { e.outbox.Run(ctx) })
	e.contingency.Run(ctx)
	wg.Wait()
	return nil
}

// Contingency returns the contingency of the branch.
func (e *Engine) Contingency() *contingency.Contingency { return e.contingency }

// Witness returns the guard that is told about numbers which the store lacks.
func (e *Engine) Witness() *witness.Guard { return e.witness }

// sweep settles documents that nobody settles any more, and sends pending invalidations.
func (e *Engine) sweep(ctx context.Context, before time.Time) {
	if err := e.Recover(ctx, before); err != nil && ctx.Err() == nil {
		e.log.Error("recovering documents", "error", err)
	}
	if err := e.resumeInvalidations(ctx, before); err != nil && ctx.Err() == nil {
		e.log.Error("resuming invalidations", "error", err)
	}
}
