package engine

import (
	"context"
	"crypto/sha256"
	"errors"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// idempotency returns the request's key within its point of sale, or nil if the request has no key.
func idempotency(req Request) *storage.Idempotency {
	if req.IdempotencyKey == "" {
		return nil
	}
	// The same body on another endpoint is another sale.
	return &storage.Idempotency{Key: record.IdempotencyKey(req.Caller.Point.ID, req.IdempotencyKey),
		Digest: sha256.Sum256(append([]byte(req.Document), req.Digest[:]...))}
}

// Repeated returns the document that was issued under a request's key, as it stands now, or nil.
func (e *Engine) Repeated(ctx context.Context, req Request) (*record.View, error) {
	if key := idempotency(req); key != nil {
		return e.answerRepeated(ctx, key, req)
	}
	return nil, nil
}

func (e *Engine) answerRepeated(ctx context.Context, key *storage.Idempotency, req Request) (*record.View, error) {
	code, first, err := e.store.Lookup(key.Key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, refusal.Internal(err)
	}
	if first != key.Digest {
		return nil, &refusal.Error{Code: refusal.CodeKeyConflict,
			Message: "La Idempotency-Key ya se usó con otra solicitud", Document: dte.Code(code).String()}
	}
	entry, err := e.settleDocument(ctx, code, false)
	if err != nil {
		return nil, err
	}
	return e.public(entry)
}
