package dte

// Stable codes of a Fault. A code is never renamed nor reused.
const (
	FaultRequired  = "REQUIRED"  // nothing gives the value
	FaultType      = "TYPE"      // a number where a text belongs, null where none may be
	FaultPattern   = "PATTERN"   // a text of the wrong form
	FaultLength    = "LENGTH"    // a text too short or too long, in characters
	FaultRange     = "RANGE"     // a number too small or too large
	FaultPrecision = "PRECISION" // a number with too many decimals
	FaultEnum      = "ENUM"      // a value that is not one of the few allowed
	FaultFormat    = "FORMAT"    // not a date, not an e-mail address
	FaultCount     = "COUNT"     // too few or too many items
	FaultDuplicate = "DUPLICATE" // an item, or a member's name, twice
	FaultCondition = "CONDITION" // breaks a rule that depends on another value
	FaultCatalogue = "CATALOGUE" // not a code of MH's catalogue
	FaultUnknown   = "UNKNOWN"   // a member that the schema does not know
	FaultSyntax    = "SYNTAX"    // not JSON
)

// Fault is one breach, told to whoever sent the facts.
type Fault struct {
	Path    string // where, in fact form: "cuerpoDocumento[3].precioUni"; "" is the whole
	Code    string // one of the constants
	Message string // Spanish: what is wrong and what is allowed
}

// Error is the fault in one line, for logs.
func (f Fault) Error() string {
	if f.Path == "" {
		return f.Code + ": " + f.Message
	}
	return f.Path + ": " + f.Code + ": " + f.Message
}
