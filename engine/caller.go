package engine

import (
	"dtegate/engine/dte"
)

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
