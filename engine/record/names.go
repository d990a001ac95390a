package record

import "dtegate/engine/authority"

// AmbienteName maps CAT-001 to the API's word.
func AmbienteName(code string) string {
	if code == "01" {
		return "PROD"
	}
	return "TEST"
}

// RefusalText returns MH's words of a refusal, "" without an answer.
func RefusalText(r *authority.Response) string {
	if r == nil {
		return ""
	}
	return r.DescripcionMsg
}

// RuleRef names the rule module that computed a document.
type RuleRef struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Digest  string `json:"digest"`
}

// Public states of a document (SPEC section 3).
const (
	EstadoProcessed   = "PROCESSED"
	EstadoRejected    = "REJECTED"
	EstadoContingency = "CONTINGENCIA"
	EstadoInvalidated = "INVALIDATED"
)
