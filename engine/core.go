package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
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

// core is what all parts of an engine share: what they read, and the one way to change a document.
type core struct {
	*register.Register // what was issued, and the lock of each document

	store   *storage.Store
	signer  *sign.Signer
	client  *authority.Client
	shelf   *shelf.Shelf          // may be nil
	rules   func() *rulebook.Book // in force
	issuer  seller.Issuer
	outbox  *outbox.Outbox // what the receivers and the archive are owed
	log     *slog.Logger
	now     func() time.Time
	rand    io.Reader
	sends   atomic.Int64
	onAct   func(Act)
	unread  *record.Unread
	metrics *metrics
}

func newCore(o Options) *core {
	c := &core{Register: register.New(o.Store, o.Shelf, o.Issuer, o.Logger), store: o.Store, signer: o.Signer, client: o.Authority, shelf: o.Shelf, issuer: o.Issuer,
		rules: func() *rulebook.Book { return o.Rules }, log: o.Logger, now: o.Now, rand: o.Rand, onAct: o.Acted, unread: record.NewUnread(o.Logger), metrics: newMetrics()}
	if c.shelf != nil {
		c.rules = c.shelf.Book
	}
	c.sends.Store(o.Now().UnixMilli())
	return c
}

// sendID is idEnvio, a free correlative of the envelope (MT1 §4.2).
func (c *core) sendID() int64 { return c.sends.Add(1) }

// move takes a document from one state to another, with what follows from the step: its place in a queue, and the counters of
// its origin, in the same batch.
func (c *core) move(ctx context.Context, entry storage.Entry, change storage.Change, h *record.Head) (storage.Entry, error) {
	if change.Due == nil {
		change.Due = h.OweDelivery(entry.State, change.To, c.outbox.Mails(), c.outbox.Archive() != nil, c.now())
	}
	var err error
	if change.Head, err = h.Encode(); err != nil {
		return entry, refusal.Internal(err)
	}
	if change.Counters, err = c.effect(entry, h, change.To); err != nil {
		return entry, refusal.Internal(err)
	}
	// What MH has answered is written down, though the time of who asked is over.
	next, err := record.Move(context.WithoutCancel(ctx), c.store, entry.Code, entry.State, change)
	if err != nil {
		return entry, refusal.Internal(fmt.Errorf("recording the outcome: %w", err))
	}
	c.moved(entry, next, h)
	return next, nil
}

// moved tells who follows the documents that one has changed.
func (c *core) moved(before, now storage.Entry, h *record.Head) {
	c.Touch(now.ID)
	if now.Due != nil && now.Due.Queue == record.QueueDeliver {
		c.outbox.Ring()
	}
	if before.State != now.State {
		c.shelf.Judge(before, h, now.State)
	}
}

// effect returns what moving a stored document does to its origin's counters.
func (c *core) effect(entry storage.Entry, h *record.Head, to storage.State) ([]storage.Counter, error) {
	if h.Origin == "" {
		return nil, nil
	}
	code, err := dte.ParseCode(h.Origin)
	if err != nil {
		return nil, fmt.Errorf("reading origin: %w", err)
	}
	how := record.Types[h.Document].Against
	if len(record.Effect(how, entry.State, to, []record.Draw{{}}, storage.Code(code))) == 0 {
		return nil, nil
	}
	part, err := c.store.Part(entry.Code, record.PartDraws)
	if err != nil {
		return nil, err
	}
	var draws []record.Draw
	if err := json.Unmarshal(part, &draws); err != nil {
		return nil, fmt.Errorf("decoding draws: %w", err)
	}
	return record.Effect(how, entry.State, to, draws, storage.Code(code)), nil
}

// changeDelivery changes what a document's record knows of its delivery; a pending invalidation keeps its place in the queue.
func (c *core) changeDelivery(ctx context.Context, code storage.Code, change func(*record.Delivery)) error {
	ctx = context.WithoutCancel(ctx) // what was sent is written down, or it is sent twice
	entry, h, release, err := c.Lock(ctx, code)
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
	_, err = c.move(ctx, entry, to, h)
	return err
}

// Catalogue returns the text of a code of MH's catalogues, such as ("CAT-017", "01"), from the rules in force; false if there
// is no such code.
func (c *core) Catalogue(catalogue, code string) (string, bool) {
	return c.rules().Catalogue(catalogue, code)
}

// recordAct tells whoever keeps the record of acts. Those of an operator are recorded where they are ordered.
func (c *core) recordAct(by seller.Caller, what string, code dte.Code, detail string) {
	if c.onAct != nil && !by.Operator {
		c.onAct(Act{TokenID: by.TokenID, From: by.From, What: what, Code: code, Detail: detail})
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
func (c *core) show(now standing) (*record.View, error) {
	if now.jws == nil {
		return c.public(now.entry)
	}
	document := now.document
	if document == nil {
		var err error
		if document, err = record.Payload(now.jws); err != nil {
			return nil, refusal.Internal(err)
		}
	}
	r, err := c.ViewOf(now.entry, now.head, document, now.jws)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	return r, nil
}

func (c *core) public(entry storage.Entry) (*record.View, error) {
	r, err := c.View(entry)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	return r, nil
}
