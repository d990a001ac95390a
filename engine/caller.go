package engine

import (
	"slices"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
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

// acted tells whoever keeps the record of acts.
func (e *Engine) acted(c Caller, what string, code dte.Code, detail string) {
	if e.onAct != nil {
		e.onAct(Act{TokenID: c.TokenID, From: c.From, What: what, Code: code, Detail: detail})
	}
}

// may tells whether the caller may issue a type of document; false for a return, which takes its origin's permission.
func (c *Caller) may(document string) bool {
	k := record.Types[document]
	return k.Permission != "" && slices.Contains(c.Permissions, k.Permission)
}

// reads tells whether the caller may read a document of its branch.
func (c *Caller) reads(h *record.Head) bool {
	return !c.OwnTypes || c.may(h.Document) || record.Types[h.Document].Against == record.TakesBack && h.PointID == c.Point.ID
}

// Readable are the types of documents that a caller may list; nil: all.
func (c *Caller) Readable() (types []string) {
	if !c.OwnTypes {
		return nil
	}
	types = []string{}
	for document := range record.Types {
		if c.may(document) {
			types = append(types, document)
		}
	}
	slices.Sort(types)
	return types
}

func errReading() *refusal.Error {
	return &refusal.Error{Code: refusal.CodePermission, Message: "El token no puede leer documentos de este tipo: necesita el permiso " + PermissionRead}
}

// Permissions of this appliance beside those of SPEC 2.8.
const (
	PermissionRead = "CONSULTA" // reads what it may not issue, where the configuration restricts reading
	PermissionMail = "REENVIO"  // mails a document to an address that it does not bear
)
