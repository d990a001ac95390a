package engine

import (
	"context"
	"errors"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// replay returns the document that a key made, nil if it has made none.
func (e *Engine) replay(ctx context.Context, key *storage.Idempotency, req Request) (*record.View, error) {
	code, first, err := e.store.Lookup(key.Key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, refusal.Internal(err)
	}
	if first != key.Digest && (req.BytesDigest == nil || first != bodyDigest(req.Document, req.BytesDigest())) {
		return nil, &refusal.Error{Code: refusal.CodeKeyConflict, Message: "La Idempotency-Key ya se usó con otra solicitud", Document: dte.Code(code).String()}
	}
	entry, err := e.settleDocument(ctx, code, false)
	if err != nil {
		return nil, err
	}
	shown, err := e.View(entry)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	return shown, nil
}
