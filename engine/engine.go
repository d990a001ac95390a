// Package engine turns a sale into a numbered, signed and stored document, and settles the document with the tax
// authority (MH). Begin with issue.go: Issue has the six steps that ARCHITECTURE.md describes.
package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/contingency"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/engine/seller"
	"dtegate/engine/sign"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// Options of New. Every field without a default is required.
type Options struct {
	Store     *storage.Store
	Signer    *sign.Signer
	Authority *authority.Client
	// Rules is what a Shelf holds, or a book that never changes.
	Shelf  *rulestore.Store
	Rules  *rulestore.Book
	Issuer seller.Issuer
	Policy authority.Policy
	// Patience is how long a sale waits for MH whose till says nothing of that; default 0: as long as the policy takes.
	Patience time.Duration
	// PassCodes passes on codes that MH's catalogues lack. Codes of payments and of their terms are always passed on.
	PassCodes bool
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
	// Gate is asked before a new document of a point of sale; its error, best a *refusal.Error, is the answer. Default:
	// always open.
	Gate func(seller.Point) error
	// Open reports whether the branch may issue a type of document: a signed bundle alone opens no door. Default: every
	// type.
	Open func(document string) bool
	// Acted is told of what a token changes or sends that is no sale, once it is stored. Default: nobody is.
	Acted func(Act)
}

// Engine issues documents. Make one with New; it is safe for concurrent use. Its chapters are the files of this
// package; what it shares with other packages has a named field: what was issued (documents), what receivers and the
// archive are owed (outbox), the branch without MH (contingency), the numbers that the store lacks (witness).
type Engine struct {
	documents   *documents.Register // and the lock of each document
	outbox      *outbox.Outbox
	contingency *contingency.Contingency
	witness     *documents.Guard

	o       Options
	store   *storage.Store
	lost    *record.LostRecords
	signer  *sign.Signer
	sender  *authority.Sender
	traffic traffic                // documents on their way to MH
	shelf   *rulestore.Store       // may be nil
	rules   func() *rulestore.Book // in force
	issuer  seller.Issuer
	keys    storage.Locks    // idempotency keys at work
	large   *fairqueue.Queue // sales of many lines, by token

	counting sync.Mutex
	counted  *Backlog // a moment ago

	log     *slog.Logger
	now     func() time.Time
	sends   atomic.Int64 // the last idEnvio
	metrics *metrics
}

// New returns an engine. It starts nothing: see Run.
func New(o Options) (e *Engine, err error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Gate == nil {
		o.Gate = func(seller.Point) error { return nil }
	}
	if o.Open == nil {
		o.Open = func(string) bool { return true }
	}
	if o.Acted == nil {
		o.Acted = func(Act) {}
	}
	if o.Issuer.Ambiente != "00" && o.Issuer.Ambiente != "01" {
		return nil, fmt.Errorf("ambiente is %q, must be 00 or 01", o.Issuer.Ambiente)
	}
	gaps, err := o.Store.Gaps()
	if err != nil {
		return nil, err
	}
	lost := make([]authority.Span, len(gaps))
	for i, g := range gaps {
		lost[i] = authority.Span(g)
	}
	e = &Engine{o: o, store: o.Store, lost: record.NewLostRecords(o.Store, o.Logger), signer: o.Signer, shelf: o.Shelf,
		rules: func() *rulestore.Book { return o.Rules }, issuer: o.Issuer, large: newLarge(o.Now), log: o.Logger,
		now: o.Now, metrics: newMetrics()}
	giveWay := func() func() { return nil }
	if e.shelf != nil {
		e.rules, giveWay = e.shelf.Book, func() func() { return e.shelf.GiveWay(2) }
	}
	if o.Rules != nil {
		if err := record.Learn(o.Rules.Types(o.Issuer.Ambiente, dte.Date(o.Now()))...); err != nil {
			return nil, err
		}
	}
	e.sends.Store(o.Now().UnixMilli())
	e.documents = documents.New(o.Store, o.Shelf, o.Issuer, e.Catalogue)
	e.outbox = outbox.New(outbox.Options{
		Delivery: o.Delivery, Store: e.store, Lost: e.lost, Issuer: e.issuer,
		Logger: e.log, Now: e.now, Rand: o.Rand, GiveWay: giveWay,
		Documents: outbox.Documents{Document: e.documents.Document, View: e.documents.View,
			ChangeDelivery: e.changeDelivery, Catalogue: e.Catalogue,
			Mailed: func(c seller.Caller, code dte.Code, to string) { e.recordAct(c, ActMail, code, to) }},
	})
	e.witness = documents.NewGuard(e.store, e.issuer, e.outbox.Archive(), e.log)
	e.sender = authority.NewSender(&authority.Sender{
		Client: o.Authority, Policy: o.Policy, Lost: lost, Now: e.now,
		Away:    func() bool { return e.contingency.Current() != nil },
		Suspect: func() { e.contingency.Suspect() },
	})
	e.sender.Taken = e.witness.NumberTaken
	e.contingency, err = contingency.New(contingency.Branch{
		Documents: contingency.Documents{Settle: e.sweep, Move: e.move, AdoptHeld: e.adoptHeld,
			JudgeEvent: e.shelf.JudgeEvent, ExpireCorrections: e.expireCorrections},
		Store: e.store, Lost: e.lost, Signer: e.signer, Sender: e.sender, Rules: e.rules, Issuer: e.issuer,
		Logger: e.log, Now: e.now, Rand: o.Rand, SendID: e.sendID, Reachable: o.Reachable,
		Every: cmp.Or(o.RecoverEvery, 5*time.Second), SettleAfter: settleAfter,
	}, o.Contingency)
	return e, err
}

// Run works until ctx ends, and then returns nil. At the start, and then every Options.RecoverEvery, it settles
// documents that were signed and that no request settles any more. It watches MH, and sends what is owed.
func (e *Engine) Run(ctx context.Context) error {
	if err := e.lost.Retry(ctx); err != nil && ctx.Err() == nil {
		e.log.Error("trying lost records again", "error", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { e.outbox.Run(ctx) })
	e.contingency.Run(ctx)
	wg.Wait()
	return nil
}

// TypeAt returns the type of document that is issued under a path, as the rules in force describe it; nil if nobody
// knows such a type.
func (e *Engine) TypeAt(path string) *bundle.Type {
	return e.rules().TypeAt(path, e.issuer.Ambiente, dte.Date(e.now()))
}

// Issued returns the types of documents that the branch issues today, by CAT-002: a rule is in force, and the branch may issue the
// type.
func (e *Engine) Issued() []*bundle.Type {
	today := dte.Date(e.now())
	types := slices.DeleteFunc(e.rules().Types(e.issuer.Ambiente, today), func(t *bundle.Type) bool {
		_, err := e.rules().Pick(t.Document, e.issuer.Ambiente, today)
		return err != nil || !e.o.Open(t.Document)
	})
	slices.SortFunc(types, func(a, b *bundle.Type) int { return strings.Compare(a.Document, b.Document) })
	return types
}

// Documents returns what was issued.
func (e *Engine) Documents() *documents.Register { return e.documents }

// Outbox returns what the receivers and the archive are owed.
func (e *Engine) Outbox() *outbox.Outbox { return e.outbox }

// Contingency returns the contingency of the branch.
func (e *Engine) Contingency() *contingency.Contingency { return e.contingency }

// Witness returns the guard that is told about numbers which the store lacks.
func (e *Engine) Witness() *documents.Guard { return e.witness }

// sweep settles documents that nobody settles any more, and sends pending invalidations.
func (e *Engine) sweep(ctx context.Context, before time.Time) {
	if err := e.Recover(ctx, before); err != nil && ctx.Err() == nil {
		e.log.Error("recovering documents", "error", err)
	}
	if err := e.resumeInvalidations(ctx, before); err != nil && ctx.Err() == nil {
		e.log.Error("resuming invalidations", "error", err)
	}
}

// Request is a sale from which a document is made.
type Request struct {
	// Document is the type of CAT-002.
	Document string
	// Facts are what the till said, under the names of the document: receptor, cuerpoDocumento, resumen and the
	// rule's own inputs (isRetenIva, descuentoGlobal). identificacion and emisor are the engine's to add.
	Facts dte.Value
	// Origin, of notes and returns, is the document that they are issued against. A return's cuerpoDocumento then
	// holds numItem, a line of the origin, and cantidad, what comes back of it.
	Origin *Origin
	// IdempotencyKey, if not empty, makes the request repeatable: the same key from the same point of sale
	// returns the document that the first request made.
	IdempotencyKey string
	// Digest is that of the request's body as a JSON value (dte.Value.Digest); the same key with another digest is
	// refused.
	Digest [32]byte
	Caller seller.Caller
	// Wait, if not 0, is how long the caller waits for MH; then the document is issued in contingency, and what became
	// of its normal form is found out later.
	Wait time.Duration
	// Warnings are for analisisHacienda.observaciones: what whoever read the request would have the till know.
	Warnings []string
	// Unread are the facts, by path, that faults of the request left out. Check adds nothing up that depends on one.
	Unread []string
	// TestContingency simulates a transmission failure for this document alone (SPEC 4.1, tests only).
	TestContingency bool
}

// Acts at a till, as Options.Acted is told of them. A sale is none: its record names the token itself.
const (
	ActInvalidate = "document.invalidate"
	ActCorrect    = "document.correct"
	ActMail       = "document.mail" // to an address that the document does not bear
)

// Act is something that a token changed or sent, except a sale. It is passed on when it is in the store.
type Act struct {
	TokenID int64
	From    string // address
	What    string
	Code    dte.Code // of the document
	Detail  string
}

// Backlog is what the branch owes, and by when.
type Backlog struct {
	contingency.Backlog
	// Delivery is what the receivers and the archive are owed.
	Delivery outbox.Undelivered `json:"delivery"`
}

// CountBacklog counts what is owed. A count that is at most two seconds old is returned again. If nothing can be counted
// now, it is the last count with a loss: what is owed must never look as if there were nothing.
func (e *Engine) CountBacklog() *Backlog {
	e.counting.Lock()
	defer e.counting.Unlock()
	now := e.now()
	if last := e.counted; last == nil || now.Before(last.At) || now.Sub(last.At) > 2*time.Second {
		fresh, err := e.countOwed()
		if err != nil {
			e.log.Error("counting what is owed", "error", err)
			fresh = &Backlog{Backlog: contingency.Backlog{Waiting: map[string]int{}}}
			if last != nil {
				*fresh = *last
			}
			fresh.At, fresh.Lost = now.UTC(), max(1, fresh.Lost)
		}
		e.counted = fresh
	}
	shown := *e.counted
	shown.Contingency = e.contingency.Current()
	return &shown
}

func (e *Engine) countOwed() (*Backlog, error) {
	toMH, err := e.contingency.CountBacklog()
	if err != nil {
		return nil, err
	}
	o := &Backlog{Backlog: *toMH}
	return o, e.outbox.CountUndelivered(&o.Delivery)
}

// sendID is idEnvio, a free correlative of the envelope (MT1 §4.2).
func (e *Engine) sendID() int64 { return e.sends.Add(1) }

// move takes a document from one state to another, with what follows from the step: its place in a queue, and the
// counters of its origin, in the same batch.
func (e *Engine) move(ctx context.Context, entry storage.Entry, change storage.Change, h *record.Head) (storage.Entry,
	error) {
	if change.Due == nil {
		change.Due = h.OweDelivery(entry.State, change.To, e.outbox.Mails(), e.outbox.Archive() != nil, e.now())
	}
	var err error
	if change.Head, err = h.Encode(); err != nil {
		return entry, refusal.Internal(err)
	}
	change.Days = h.Days()
	if change.Counters, err = e.counterChanges(entry, h, change.To); err != nil {
		return entry, refusal.Internal(err)
	}
	// MH's answer is stored even if the caller's context has ended.
	next, err := record.Move(context.WithoutCancel(ctx), e.store, entry.Code, entry.State, change)
	if err != nil {
		return entry, refusal.Internal(fmt.Errorf("recording the outcome: %w", err))
	}
	e.afterMove(entry, next, h)
	return next, nil
}

// moved tells who follows the documents that one has changed.
func (e *Engine) afterMove(before, now storage.Entry, h *record.Head) {
	e.documents.Touch(now.ID)
	if now.Due != nil && now.Due.Queue == record.QueueDeliver {
		e.outbox.Ring()
	}
	if before.State != now.State {
		e.shelf.Judge(before, h, now.State)
	}
}

// effect returns what moving a stored document does to its origin's counters.
func (e *Engine) counterChanges(entry storage.Entry, h *record.Head, to storage.State) ([]storage.Counter, error) {
	if h.Origin == "" {
		return nil, nil
	}
	code, err := dte.ParseCode(h.Origin)
	if err != nil {
		return nil, fmt.Errorf("reading origin: %w", err)
	}
	how := record.TypeOf(h.Document).Effect
	if len(record.Effect(how, entry.State, to, []record.Draw{{}}, storage.Code(code))) == 0 {
		return nil, nil
	}
	var draws []record.Draw
	part, err := record.Part(e.store, entry.Code, record.PartDraws)
	switch {
	// what it took of its origin stays taken: nothing is credited or returned twice
	case errors.Is(err, record.ErrLost):
		e.log.Error("the store lost what a document took of its origin", "code", dte.Code(entry.Code).String(),
			"origin", h.Origin)
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(part, &draws); err != nil {
			return nil, fmt.Errorf("decoding draws: %w", err)
		}
	}
	return record.Effect(how, entry.State, to, draws, storage.Code(code)), nil
}

// changeDelivery changes what a document's record knows of its delivery; a pending invalidation keeps its place in the
// queue.
func (e *Engine) changeDelivery(ctx context.Context, code storage.Code, change func(*record.Delivery)) error {
	ctx = context.WithoutCancel(ctx) // what was sent is written down, or it is sent twice
	entry, h, release, err := e.documents.Lock(ctx, code)
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
	to := storage.Change{To: entry.State}
	if h.Invalidation.Pending() {
		to.Due = entry.Due
	}
	_, err = e.move(ctx, entry, to, h)
	return err
}

// CloseDay closes a day of the caller's point of sale: see documents.Register. A box that may not number sales closes
// nothing.
func (e *Engine) CloseDay(ctx context.Context, date string, c seller.Caller) (*documents.Closing, bool, error) {
	if err := e.o.Gate(c.Point); err != nil {
		return nil, false, err
	}
	if err := e.witness.Behind(); err != nil {
		return nil, false, err
	}
	return e.documents.CloseDay(ctx, date, c, e.now())
}

// Catalogue returns the text of a code of MH's catalogues, such as ("CAT-017", "01"), from the rules in force; false if
// there is no such code.
func (e *Engine) Catalogue(catalogue, code string) (string, bool) {
	return e.rules().Catalogue(catalogue, code)
}

// CodeLists returns MH's catalogues in force, nil if there are none.
func (e *Engine) CodeLists() *dte.Catalogues { return e.rules().Catalogues() }

// recordAct tells whoever keeps the record of acts. Those of an operator are recorded where they are ordered.
func (e *Engine) recordAct(by seller.Caller, what string, code dte.Code, detail string) {
	if !by.Operator {
		e.o.Acted(Act{TokenID: by.TokenID, From: by.From, What: what, Code: code, Detail: detail})
	}
}

// standing is a stored document as this process holds it: nothing of it needs to be read again.
type standing struct {
	entry storage.Entry
	head  *record.Head
	jws   []byte // in the form of head; nil: the store has it
	// document is what jws signs; nil: jws has it.
	document []byte
}

// show makes the public record of a document that has left Signed.
func (e *Engine) show(now standing) (r *record.View, err error) {
	if now.jws == nil {
		return e.public(now.entry)
	}
	document := now.document
	if document == nil {
		document, err = record.Payload(now.jws)
	}
	if err == nil {
		r, err = e.documents.ViewOf(now.entry, now.head, document, now.jws)
	}
	return r, refusal.Internal(err)
}

func (e *Engine) public(entry storage.Entry) (*record.View, error) {
	r, err := e.documents.View(entry)
	return r, refusal.Internal(err)
}
