package contingency

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/bell"
	"dtegate/engine/record"
	"dtegate/engine/rulebook"
	"dtegate/engine/seller"
	"dtegate/engine/sign"
	"dtegate/storage"
)

// Branch is the part of a branch that its contingency uses. Every field but Reachable is required.
type Branch struct {
	Documents Documents
	Store     *storage.Store
	Signer    *sign.Signer
	Sender    *authority.Sender
	Rules     func() *rulebook.Book // in force
	Issuer    seller.Issuer
	Logger    *slog.Logger
	Now       func() time.Time
	Rand      io.Reader    // of generation codes
	SendID    func() int64 // idEnvio, a free correlative of the envelope (MT1 §4.2)
	// Reachable gets a value when MH can be reached again after it could not: a contingency is probed at once. May be nil.
	Reachable <-chan struct{}
	// Every is how often is looked for what is owed; SettleAfter how long a request may hold a document that it has signed.
	Every, SettleAfter time.Duration
}

// Documents are the operations on documents that the contingency needs; the engine has them.
type Documents interface {
	// Settle asks MH about every document that was signed and due before a moment, and that nobody settles any more.
	Settle(ctx context.Context, before time.Time)
	// Move takes a document to another state, with what follows from the step.
	Move(context.Context, storage.Entry, storage.Change, *record.Head) (storage.Entry, error)
	// AdoptHeld makes the form that MH holds the record of a document. doubt is how far the times of its sendings and MH's may differ.
	AdoptHeld(ctx context.Context, entry storage.Entry, h *record.Head, held *authority.Response, doubt time.Duration) (storage.Entry, error)
	// ExpireCorrections takes the documents out of their queue that can no longer be corrected.
	ExpireCorrections(context.Context) (progress bool, err error)
}

// common is what the parts of a contingency share.
type common struct {
	branch  Branch
	unread  *record.Unread
	options Options
	metrics *metrics
	work    bell.Bell // something may be sent
}

// series is that of a kind of record.
func (c *common) series(kind string) string { return c.branch.Issuer.Ambiente + "/" + kind }

// putOff puts a document off.
func (c *common) putOff(ctx context.Context, d document, at time.Time) error {
	_, err := c.branch.Documents.Move(ctx, d.entry, storage.Change{To: d.entry.State, Due: &storage.Due{Queue: d.entry.Due.Queue, At: at}}, d.head)
	return err
}

// finish takes a record out of its queue.
func (c *common) finish(ctx context.Context, entry storage.Entry, to storage.State) error {
	if _, err := record.Move(ctx, c.branch.Store, entry.Code, entry.State, storage.Change{To: to}); err != nil {
		return fmt.Errorf("closing record: %w", err)
	}
	return nil
}
