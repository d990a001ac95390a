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

// Act is what a token changed or sent that is not a sale. It is told once it is in the store.
type Act struct {
	TokenID int64
	From    string // address
	What    string
	Code    dte.Code // of the document
	Detail  string
}
