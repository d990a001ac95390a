package engine

import (
	"dtegate/engine/dte"
	"dtegate/engine/seller"
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

// acted tells whoever keeps the record of acts. Those of an operator are recorded where they are ordered.
func (e *Engine) acted(c seller.Caller, what string, code dte.Code, detail string) {
	if e.onAct != nil && !c.Operator {
		e.onAct(Act{TokenID: c.TokenID, From: c.From, What: what, Code: code, Detail: detail})
	}
}
