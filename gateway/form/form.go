// Package form reads the body of a request. Tables describe its members; the result is the facts that rules and documents are made
// of, or all faults at once. It knows the tills' names for things and no HTTP.
package form

import (
	"slices"
	"strings"

	"dtegate/engine/dte"
	"dtegate/engine/refusal"
)

// Limits of a request.
const (
	MaxFaults = 50 // the most that one answer lists
	maxItems  = 2000
	maxCodes  = 100 // of one look-up
)

// Form is the table of the members of one request.
type Form struct {
	Document string // the type of document that it makes; "": none
	fields   []field
	receptor []string // SPEC's requiredFields, whose lack has a code of its own
	// either are pairs of members of which one is due: the names of the payload and of the client library for one
	// thing. Both may come if they say the same.
	either [][2]string
	pays   bool   // a payment is due, cash by default (SPEC 2.7)
	origin string // the member that names the document that this one is issued against
}

// Refusal is why a request is refused, without the HTTP status.
type Refusal struct {
	Type, Message  string
	Faults         []dte.Fault
	RequiredFields []string // SPEC section 7, RECEPTOR_VALIDATION_ERROR
}

// Refusal returns why the request is refused. A receptor without what SPEC demands of it has a code of its own.
func (d *Filled) Refusal() *Refusal {
	form, r := d.form, &Refusal{Type: refusal.CodeValidation, Message: "La solicitud no es válida", Faults: d.Faults}
	for _, f := range d.Faults {
		member, inside := strings.CutPrefix(f.Path, "receptor.")
		if f.Code == refusal.CodeOriginType { // what a note's rule says of its original
			r.Type, r.Message = f.Code, f.Message
		}
		missing := f.Code == dte.FaultRequired && (f.Path == "receptor" || inside && slices.Contains(form.receptor, member))
		if missing && len(form.receptor) > 0 {
			r.Type, r.Message, r.RequiredFields = "RECEPTOR_VALIDATION_ERROR", "El receptor no lleva los campos que exige el documento", form.receptor
		}
	}
	return r
}
