package engine

import (
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
)

// Point is the point of sale that a document is issued from. Its two codes make the middle of the control
// number (MF2 p.28): Establishment is a letter M, B, S or P and three digits, PointOfSale a P and three digits.
type Point struct {
	ID            int64
	BranchID      int64
	Establishment string
	PointOfSale   string
}

// Caller is who asks: the token and what it is bound to.
type Caller struct {
	TokenID     int64
	Point       Point
	Permissions []string
	From        string // address that the request came from
	// OwnTypes: it reads no type of document but those that it may issue, and the returns of its point of sale.
	OwnTypes bool
	// MailsOthers: it may mail a document to an address that the document does not bear.
	MailsOthers bool
}

// Request is one sale to be turned into a document.
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
	Caller      Caller
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

// Record is a document as the API shows it (SPEC 2.2).
type Record struct {
	ID            int64
	Document      string // CAT-002
	Tipo          string // FACTURA_CONSUMIDOR_FINAL, ...
	Code          string // codigoGeneracion, upper case
	ControlNumber string
	Estado        string // one of the public states
	Ambiente      string // TEST or PROD
	Total         string // in USD, two decimals
	JSON          []byte // the bytes that were signed
	JWS           []byte
	Sello         string // "" until MH gives one
	Response      *authority.Response
	JSONURL       string // "" where SPEC says null
	PDFURL        string

	SequenceNumber string
	SequenceID     int64
	Serie          string

	EmisorID, BranchID, PointID, TokenID int64

	TechnicalError string // "" where SPEC says null
	CreatedAt      time.Time
	Rule           record.RuleRef
	Warnings       []string
	Invalidation   *record.Invalidation // nil until somebody asked for it

	// Stored is how many bytes of facts and signed document this request has had stored: 0 of what was there already.
	Stored int64
}
