// Package codes lists every code that an answer of the appliance can hold: those of the member type of an error, and
// those of the elements of its member errors. It is the one source of the list: the contract, the page /docs and
// deploy/CODES.md show it, and a test finds each code of the sources in it.
package problem

import (
	"maps"
	"net/http"

	"dtegate/engine/refusal"
)

// Code is a stable name of what is wrong. A code is never renamed, and never used for another meaning.
type Code struct {
	Name string
	// Status are the statuses of HTTP that the code has as an answer's type; none when only elements of errors have it.
	Status []int
	// Fault: elements of errors have the code.
	Fault bool
	// Operator: only the operators' listener answers it, whose texts are English.
	Operator bool
	Meaning  Text
	Action   Text // what the cashier should do, or who wrote the till's program
}

// Text is one sentence in each language, without its full stop.
type Text struct{ ES, EN string }

// All returns the whole list: first the types of answers, then the codes that only elements of errors have.
func All() []Code {
	var all []Code
	for _, part := range [][]Code{types, operators, values, sales, references} {
		all = append(all, part...)
	}
	return all
}

// Types returns the codes of the member type that tills can meet.
func Types() []Code { return types }

// Find returns the entry of a code, and false if there is none: an operator's own rules may have codes of their own.
func Find(name string) (Code, bool) {
	c, ok := byName[name]
	return c, ok
}

var byName = func() map[string]Code {
	m := make(map[string]Code)
	for _, c := range All() {
		m[c.Name] = c
	}
	return m
}()

// Faults returns the codes of the elements of errors.
func Faults() []Code {
	var faults []Code
	for _, c := range All() {
		if c.Fault {
			faults = append(faults, c)
		}
	}
	return faults
}

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
	refusal.CodeTypeClosed:     http.StatusConflict,
	refusal.CodeUnavailable:    http.StatusServiceUnavailable,
	refusal.CodeStorageFull:    http.StatusServiceUnavailable,
	refusal.CodeBusy:           http.StatusTooManyRequests,
	refusal.CodeClockWrong:     http.StatusServiceUnavailable,
	refusal.CodeStoreBehind:    http.StatusServiceUnavailable,
	refusal.CodeBoxReplaced:    http.StatusServiceUnavailable,
	refusal.CodePointClosed:    http.StatusServiceUnavailable,
	refusal.CodeNotEnrolled:    http.StatusServiceUnavailable,
	refusal.CodeRuleFailed:     http.StatusServiceUnavailable,
	refusal.CodeInternal:       http.StatusInternalServerError,
}

// Status returns the HTTP status of a code of the engine, 0 if the engine has no such code.
func Status(code string) int { return statuses[code] }

// Statuses returns the HTTP status of every code of the engine.
func Statuses() map[string]int { return maps.Clone(statuses) }

// English returns an operator's message for an error that was written for tills: english if the error has one,
// otherwise the meaning in the list of codes.
func English(code, message, english string) string {
	if english != "" {
		return english
	}
	if c, ok := Find(code); ok {
		return c.Meaning.EN
	}
	return message
}

// OperatorMessage returns the English message of an error.
func OperatorMessage(e *refusal.Error) string {
	if e.Operator {
		return e.Message
	}
	return English(e.Code, e.Message, e.English)
}

// Spanish returns the meaning of a code in the list, for a till that must not get an operator's text.
func Spanish(code string) string {
	if c, ok := Find(code); ok {
		return c.Meaning.ES
	}
	return "La solicitud no se puede atender"
}
