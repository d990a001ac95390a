package engine

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/bell"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/rulebook"
	"dtegate/engine/seller"
	"dtegate/engine/sign"
	"dtegate/storage"
)

// contingency is life without MH: it watches MH, puts the branch in contingency and takes it out again, and sends what is owed,
// each step from the store alone. Its loop is in run.go.
type contingency struct {
	docs    holder
	store   *storage.Store
	signer  *sign.Signer
	client  *authority.Client
	rules   func() *rulebook.Book
	issuer  seller.Issuer
	log     *slog.Logger
	now     func() time.Time
	rand    io.Reader
	sends   *atomic.Int64
	metrics *metrics
	options Contingency
	back    <-chan struct{} // Options.Reachable
	every   time.Duration   // how often is looked for what is owed

	// mu: a sale reads the period and is stored under it, so that no document of a period is stored behind its end.
	mu         sync.RWMutex
	period     *Period     // nil: MH is there
	begun      []time.Time // the periods of the last hour
	suspicion  bell.Bell   // MH may be away: it is probed
	work       bell.Bell   // something may be sent
	forwarding forwarding
}

// holder is what a contingency needs of who holds the documents and asks MH about them.
type holder interface {
	move(context.Context, storage.Entry, storage.Change, *record.Head) (storage.Entry, error)
	adoptHeld(ctx context.Context, entry storage.Entry, h *record.Head, held *authority.Response, doubt time.Duration) (storage.Entry, error)
	settleRefusal(ctx context.Context, code storage.Code, document string, refused authority.Outcome, sent time.Time) authority.Outcome
	query(ctx context.Context, code storage.Code, document string) authority.Outcome
	// decidable is when a query that does not find a document proves that MH does not hold it.
	decidable(*record.Head) time.Time
	mayBeFurther(storage.Code, *record.Head) bool
	contingencyForm(ctx context.Context, code storage.Code, jws []byte, marks []dte.Member) (storage.Part, error)
	expireCorrections(context.Context) (progress bool, err error)
}

func newContingency(e *Engine, o Options) *contingency {
	c := &contingency{docs: e, store: e.store, signer: e.signer, client: e.client, rules: e.rules, issuer: e.issuer, log: e.log, now: e.now, rand: e.rand,
		sends: &e.sends, metrics: e.metrics, options: o.Contingency, back: o.Reachable, every: e.every, suspicion: bell.New(), work: bell.New()}
	c.options.setDefaults()
	return c
}

// series is that of a kind of record.
func (c *contingency) series(kind string) string { return c.issuer.Ambiente + "/" + kind }
