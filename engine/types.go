package engine

import (
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/seller"
)

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
	// Digest is that of the request's body as a JSON value (dte.Value.Digest); the same key with another digest is refused.
	Digest [32]byte
	// BytesDigest, if not nil, is the SHA-256 of the body's bytes, which older stores keep for a key instead. It is asked for
	// only when the digests differ, and only while the request lasts.
	BytesDigest func() [32]byte
	Caller      seller.Caller
	// Wait, if not 0, is how long the caller waits for MH; then the document is issued in contingency, and what became of
	// its normal form is found out later.
	Wait time.Duration
	// Warnings are for analisisHacienda.observaciones: what whoever read the request would have the till know.
	Warnings []string
	// Unread are the facts, by path, that faults of the request left out. Check adds nothing up that depends on one.
	Unread []string
	// TestContingency simulates a transmission failure for this document alone (SPEC 4.1, tests only).
	TestContingency bool
}
