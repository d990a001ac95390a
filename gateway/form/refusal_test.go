package form

import (
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/refusal"
)

// TestRefusal: the receptor's own code is only for missing members that SPEC requires of a receptor.
func TestRefusal(t *testing.T) {
	const own = "RECEPTOR_VALIDATION_ERROR"
	for want, list := range map[string][]dte.Fault{
		own: {{Path: "receptor", Code: dte.FaultRequired}, {Path: "receptor.nit",
			Code: dte.FaultRequired}},
		refusal.CodeValidation: {{Path: "receptor.correo", Code: dte.FaultRequired}, {Path: "receptor.nit",
			Code: dte.FaultFormat}, {Path: "nit", Code: dte.FaultRequired}, {Path: "items", Code: dte.FaultRequired}},
	} {
		for _, f := range list {
			r := (&Filled{form: &Form{receptor: []string{"nombre", "nit"}},
				reader: reader{[]dte.Fault{f}}}).Refusal()
			if r.Code != want || (len(r.RequiredFields) == 2) != (want == own) {
				t.Errorf("%+v: %+v", f, r)
			}
		}
	}
}
