// Package engine turns a sale into a numbered, signed and stored document, and settles it with the tax authority (MH).
// Begin with issue.go: Issue has the six steps that ARCHITECTURE.md describes.
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
	"runtime"
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
	"dtegate/engine/sign"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// Options of New. Every field without a default is required.
type Options struct {
	Store     *storage.Store
	Signer    *sign.Signer
	Authority *authority.Client
	Shelf     *rulestore.Store
	Issuer    record.Issuer
	DoubtFor  time.Duration // how long MH may work on a document after a sending, default 2 min: see authority.Sender
	// Patience is how long a sale waits for MH if its till sets no wait; default 0: as long as the sender tries.
	Patience time.Duration
	// PassCodes: online, the box leaves all codes of MH's catalogues to MH; otherwise only the codes of payments.
	PassCodes bool
	// Contingency sets how the branch works without MH.
	Contingency  contingency.Options
	Logger       *slog.Logger
	Now          func() time.Time // the clock
	Rand         io.Reader        // source of generation codes, default crypto/rand
	RecoverEvery time.Duration    // how often Run looks for documents that no request settles, default 5 s
	// Delivery sets how documents reach their receivers and the archive; zero: documents are not delivered.
	Delivery outbox.Delivery
	// Reachable, if not nil, receives a value when MH is reachable again. In a contingency, MH is then probed at once.
	Reachable <-chan struct{}
	// Gate is called before a point of sale issues a document or closes a day; Gate's error becomes the answer. For a
	// correction or an invalidation, only the error CodeBoxReplaced counts.
	Gate func(record.Point) error
	// Open reports whether the branch may issue a document type that has a bundle.
	Open func(document string) bool
	// Acted is called after the effect of an Act is stored.
	Acted func(Act)
}

// Engine issues documents. Make an Engine with New; it is safe for concurrent use. Its parts in other packages are
// named fields: the issued documents (documents), the deliveries (outbox), the work without MH (contingency), and the
// check for numbers that the store lacks (numberGuard).
type Engine struct {
	documents   *documents.Register // also holds the lock of each document
	outbox      *outbox.Outbox
	contingency *contingency.Contingency
	numberGuard *documents.NumberGuard

	o       Options
	store   *storage.Store
	lost    *record.LostRecords
	signer  *sign.Signer
	sender  *authority.Sender
	sending atomic.Int64 // documents on their way to MH
	shelf   *rulestore.Store
	rules   func() *rulestore.Book // returns the book in force
	issuer  record.Issuer
	keys    storage.Locks    // by the idempotency keys of running requests, and by "recall"
	large   *fairqueue.Queue // turns of sales with many lines, by token

	counting sync.Mutex
	counted  *Backlog // the last count of the backlog

	log     *slog.Logger
	now     func() time.Time
	sends   atomic.Int64 // the last idEnvio
	metrics *metrics
}

// New returns an engine. It starts nothing: see Run.
func New(o Options) (e *Engine, err error) {
	o.Rand = cmp.Or(o.Rand, rand.Reader)
	if o.Issuer.Ambiente != "00" && o.Issuer.Ambiente != "01" {
		return nil, fmt.Errorf("ambiente is %q, must be 00 or 01", o.Issuer.Ambiente)
	}
	gaps, err := o.Store.Gaps()
	if err != nil {
		return nil, err
	}
	slots := max(1, runtime.GOMAXPROCS(0)/4) // dted has two Ps a core: half of the cores are left for small sales
	lost := make([]authority.Span, len(gaps))
	for i, g := range gaps {
		lost[i] = authority.Span(g)
	}
	e = &Engine{o: o, store: o.Store, lost: record.NewLostRecords(o.Store, o.Logger), signer: o.Signer, shelf: o.Shelf,
		rules: o.Shelf.Book, issuer: o.Issuer, log: o.Logger,
		large: fairqueue.New(fairqueue.Options{Slots: slots, Each: slots, Waiting: 16, Now: o.Now}),
		now:   o.Now, metrics: newMetrics()}
	giveWay := func() func() { return o.Shelf.GiveWay(2) }
	e.sends.Store(o.Now().UnixMilli())
	e.documents = documents.New(o.Store, giveWay, o.Issuer, e.Catalogue)
	e.outbox = outbox.New(outbox.Options{
		Delivery: o.Delivery, Store: e.store, Lost: e.lost, Issuer: e.issuer,
		Logger: e.log, Now: e.now, Rand: o.Rand, GiveWay: giveWay,
		Documents: outbox.Documents{Document: e.documents.Document, View: e.documents.View,
			ChangeDelivery: e.changeDelivery, Catalogue: e.Catalogue,
			Mailed: func(c record.Caller, code dte.Code, to string) { e.recordAct(c, ActMail, code, to) }},
	})
	e.numberGuard = documents.NewNumberGuard(e.store, e.issuer, e.outbox.Archive(), e.log)
	e.sender = &authority.Sender{
		Client: o.Authority, DoubtFor: cmp.Or(o.DoubtFor, 2*time.Minute), Lost: lost, Now: e.now,
		Away:    func() bool { return e.contingency.Current() != nil },
		Suspect: func() { e.contingency.Suspect() },
		Taken:   e.numberGuard.NumberTaken,
	}
	e.contingency, err = contingency.New(contingency.Branch{
		Documents: contingency.Documents{Settle: e.sweep, Move: e.move, AdoptHeld: e.adoptHeld,
			JudgeEvent: e.shelf.JudgeEvent, ExpireCorrections: e.expireCorrections},
		Store: e.store, Lost: e.lost, Signer: e.signer, Sender: e.sender, Rules: e.rules, Issuer: e.issuer,
		Logger: e.log, Now: e.now, Rand: o.Rand, SendID: e.sendID, Reachable: o.Reachable,
		Every: cmp.Or(o.RecoverEvery, 5*time.Second), SettleAfter: settleAfter,
	}, o.Contingency)
	return e, err
}

// Run works until ctx ends, and then returns nil. At the start, and every Options.RecoverEvery, it settles signed
// documents that no request settles. It also watches MH and sends the pending deliveries.
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

// TypeAt returns the document type that requests to a URL path issue by the rules in force, or nil.
func (e *Engine) TypeAt(path string) *bundle.Type {
	return e.rules().TypeAt(path, e.issuer.Ambiente, dte.Date(e.now()))
}

// TypeOf returns the type of a document as the bundle describes it that computes a correction, or else as it is known.
func (e *Engine) TypeOf(r *record.View) *bundle.Type {
	return cmp.Or(e.shelf.TypeOn(r.Document, r.Date), record.TypeOf(r.Document))
}

// Issued returns the document types with a rule in force that the branch may issue today, in the order of CAT-002.
func (e *Engine) Issued() []*bundle.Type {
	today := dte.Date(e.now())
	types := slices.DeleteFunc(e.rules().Types(e.issuer.Ambiente, today), func(t *bundle.Type) bool {
		_, err := e.rules().Pick(t.Document, e.issuer.Ambiente, today)
		return err != nil || !e.o.Open(t.Document)
	})
	slices.SortFunc(types, func(a, b *bundle.Type) int { return strings.Compare(a.Document, b.Document) })
	return types
}

func (e *Engine) Documents() *documents.Register { return e.documents }

func (e *Engine) Outbox() *outbox.Outbox { return e.outbox }

func (e *Engine) Contingency() *contingency.Contingency { return e.contingency }

// NumberGuard returns the guard that stops numbering if MH or the archive knows numbers that the store lacks.
func (e *Engine) NumberGuard() *documents.NumberGuard { return e.numberGuard }

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
	Document string // the document's type, a code of CAT-002
	// Facts are the till's values, under the names of the document: receptor, cuerpoDocumento, resumen and the rule's
	// own inputs (isRetenIva, descuentoGlobal). The engine adds identificacion and emisor.
	Facts dte.Value
	// Origin is the document that a note or return is issued against. In each line of a return's cuerpoDocumento,
	// numItem is a line of the origin, and cantidad is the quantity given back.
	Origin *Origin
	// IdempotencyKey, if not empty, makes the request repeatable: the same key gets the first request's document.
	IdempotencyKey string
	// Body is the till's request. A known key with a body of another digest (dte.Value.Digest) is refused.
	Body   dte.Value
	Caller record.Caller
	// Wait, if not 0, is how long the caller waits for MH. Then the document is issued in contingency, if its type may.
	Wait     time.Duration
	Warnings []string // messages to the till, for analisisHacienda.observaciones
	// Unread are the paths of facts that the gateway could not read. Check computes no amount from them.
	Unread []string
	// TestContingency simulates a transmission failure for this document alone (SPEC 4.1, tests only).
	TestContingency bool
}

// Kinds of acts that are passed to Options.Acted. A sale is not an act: its record names the token.
const (
	ActInvalidate = "document.invalidate"
	ActCorrect    = "document.correct"
	ActMail       = "document.mail" // to an address that is not on the document
)

// Act is something that a token changed or sent, except a sale. See Options.Acted.
type Act struct {
	TokenID int64
	From    string // address
	What    string
	Code    dte.Code // of the document
	Detail  string
}

// Backlog is the branch's pending work and the deadlines of that work.
type Backlog struct {
	contingency.Backlog
	Delivery outbox.Undelivered `json:"delivery"` // the pending deliveries to the receivers and the archive
}

// CountBacklog counts the pending work. A count is reused for two seconds. If counting fails, the result is the last
// count with Lost at least 1: a failure must never look like an empty backlog.
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

// sendID returns the next idEnvio: a number for the envelope, which the sender chooses (MT1 §4.2).
func (e *Engine) sendID() int64 { return e.sends.Add(1) }

// move changes a document's state and, in the same batch, the document's queue and the counters of its origin.
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
	e.documents.Touch(next.ID)
	if next.Due != nil && next.Due.Queue == record.QueueDeliver {
		e.outbox.Ring()
	}
	if entry.State != next.State {
		e.shelf.Judge(entry, h, next.State)
	}
	return next, nil
}

// counterChanges returns the changes that a stored document's move makes to its origin's counters.
func (e *Engine) counterChanges(entry storage.Entry, h *record.Head, to storage.State) ([]storage.Counter, error) {
	if h.Origin == "" {
		return nil, nil
	}
	code, err := dte.ParseCode(h.Origin)
	if err != nil {
		return nil, fmt.Errorf("reading origin: %w", err)
	}
	how, from := record.TypeOf(h.Document).Effect, entry.State
	// A document with a pending invalidation counts as not accepted: no credit note may use the amount of a debit note
	// that MH may have invalidated.
	if was, err := record.DecodeHead(entry); err != nil {
		return nil, err
	} else if was.Invalidation.Pending() {
		from = record.Signed
	}
	if to == record.Accepted && h.Invalidation.Pending() {
		to = record.Signed
	}
	if len(record.Effect(how, from, to, []record.Draw{{}}, storage.Code(code))) == 0 {
		return nil, nil
	}
	var draws []record.Draw
	part, err := record.Part(e.store, entry.Code, record.PartDraws)
	switch {
	// the amounts stay taken from the origin: nothing is credited or returned twice
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
	return record.Effect(how, from, to, draws, storage.Code(code)), nil
}

// changeDelivery changes the delivery in a document's record. A pending invalidation keeps its due time.
func (e *Engine) changeDelivery(ctx context.Context, code storage.Code, change func(*record.Delivery)) error {
	ctx = context.WithoutCancel(ctx) // an unrecorded delivery would be sent twice
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

// CloseDay closes a day of the caller's point of sale. A box that may not number sales cannot close a day.
func (e *Engine) CloseDay(ctx context.Context, date string, c record.Caller) (*documents.Closing, bool, error) {
	if err := cmp.Or(e.o.Gate(c.Point), e.numberGuard.Behind()); err != nil {
		return nil, false, err
	}
	return e.documents.CloseDay(ctx, date, c, e.now())
}

// checkReplaced returns the gate's error if another box has the branch, or if a copy of this box runs. This box then
// sends what it already signed, but signs nothing new: the other box may correct or invalidate the same document.
func (e *Engine) checkReplaced(at record.Point) error {
	err := e.o.Gate(at)
	if refused, ok := errors.AsType[*refusal.Error](err); ok && refused.Code == refusal.CodeBoxReplaced {
		return err
	}
	return nil
}

// Catalogue returns the text of a code of MH's catalogues in force, such as ("CAT-017", "01"); false: unknown.
func (e *Engine) Catalogue(catalogue, code string) (string, bool) {
	return e.rules().Catalogue(catalogue, code)
}

// CodeLists returns MH's catalogues in force, or nil if no catalogues are in force.
func (e *Engine) CodeLists() *dte.Catalogues { return e.rules().Catalogues() }

// recordAct passes an act to Options.Acted. The admin API records an operator's acts.
func (e *Engine) recordAct(by record.Caller, what string, code dte.Code, detail string) {
	if !by.Operator {
		e.o.Acted(Act{TokenID: by.TokenID, From: by.From, What: what, Code: code, Detail: detail})
	}
}

// standing is a stored document that this process holds in memory, to avoid reading it again.
type standing struct {
	entry    storage.Entry
	head     *record.Head
	jws      []byte // the form that head.Form names; nil: read it from the store
	document []byte // the payload of jws; nil: decode it from jws
}

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
