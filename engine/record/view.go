package record

import (
	"time"

	"dtegate/engine/authority"
)

// View is a document as the API shows it (SPEC 2.2).
type View struct {
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
	Rule           RuleRef
	Warnings       []string
	Invalidation   *Invalidation // nil until somebody asked for it

	// Stored is how many bytes of facts and signed document this request has had stored: 0 of what was there already.
	Stored int64
}
