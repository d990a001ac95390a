package problem

import (
	"maps"
	"net/http"

	"dtegate/engine/refusal"
)

// statuses is the one table from the engine's codes to HTTP.
var statuses = map[string]int{
	refusal.CodeValidation:     http.StatusBadRequest,
	refusal.CodeKeyConflict:    http.StatusUnprocessableEntity,
	refusal.CodeNotFound:       http.StatusNotFound,
	refusal.CodeNoContingency:  http.StatusNotFound,
	refusal.CodeNotProcessed:   http.StatusConflict,
	refusal.CodeNotInvalidable: http.StatusConflict,
	refusal.CodeNotCorrectable: http.StatusConflict,
	refusal.CodeOriginType:     http.StatusBadRequest,
	refusal.CodeOriginStatus:   http.StatusBadRequest,
	refusal.CodeItemNotFound:   http.StatusBadRequest,
	refusal.CodeOverReturn:     http.StatusBadRequest,
	refusal.CodePermission:     http.StatusForbidden,
	refusal.CodeNoRecipient:    http.StatusConflict,
	refusal.CodeNotYet:         http.StatusConflict,
	refusal.CodeUnavailable:    http.StatusServiceUnavailable,
	refusal.CodeStorageFull:    http.StatusServiceUnavailable,
	refusal.CodeBusy:           http.StatusTooManyRequests,
	refusal.CodeClockWrong:     http.StatusServiceUnavailable,
	refusal.CodeStoreBehind:    http.StatusServiceUnavailable,
	refusal.CodeBoxReplaced:    http.StatusServiceUnavailable,
	refusal.CodePointClosed:    http.StatusServiceUnavailable,
	refusal.CodeRuleFailed:     http.StatusServiceUnavailable,
	refusal.CodeInternal:       http.StatusInternalServerError,
}

// Status returns the HTTP status of a code of the engine, 0 if the engine has no such code.
func Status(code string) int { return statuses[code] }

// Statuses returns the HTTP status of every code of the engine.
func Statuses() map[string]int { return maps.Clone(statuses) }
