// Package refusal has the branch's only typed error: the error's code and message are the answer to a till or an
// operator. A table of the gateway maps each code to an HTTP status.
package refusal

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"dtegate/engine/dte"
)

// Codes of Error. The gateway's problem table maps them to HTTP.
const (
	CodeValidation     = "VALIDATION_ERROR"
	CodeKeyConflict    = "IDEMPOTENCY_CONFLICT"
	CodeNotFound       = "DOCUMENT_NOT_FOUND"
	CodeNoContingency  = "NO_CONTINGENCY" // only for operators
	CodeNotProcessed   = "DOCUMENT_NOT_PROCESSED"
	CodeOriginType     = "INVALID_ORIGIN_TYPE"
	CodeOriginStatus   = "INVALID_ORIGIN_STATUS"
	CodeItemNotFound   = "ITEM_NOT_FOUND"
	CodeOverReturn     = "OVER_RETURN_ERROR"
	CodeNotInvalidable = "INVALIDATION_NOT_ALLOWED"
	CodeNotCorrectable = "CORRECTION_NOT_ALLOWED"
	CodePermission     = "PERMISSION_DENIED"
	CodeNotYet         = "NOT_YET_IN_FORCE"
	CodeTypeClosed     = "TYPE_NOT_OPEN"
	CodeUnavailable    = "UNAVAILABLE"
	CodeStorageFull    = "STORAGE_FULL"
	CodeBusy           = "RATE_LIMITED" // the caller's share is used up, until RetryAfter
	CodeClockWrong     = "CLOCK_WRONG"
	CodeStoreBehind    = "STORE_BEHIND"
	CodeBoxReplaced    = "BOX_REPLACED"
	CodePointClosed    = "POINT_OF_SALE_CLOSED"
	CodeNotEnrolled    = "NOT_ENROLLED"
	CodeRuleFailed     = "RULE_FAILED"
	CodeNoRecipient    = "NO_RECIPIENT" // a resend has no address
	CodeInternal       = "INTERNAL"
)

// Error is an error for a caller: a till or an operator.
type Error struct {
	Code       string
	Message    string
	Faults     []dte.Fault
	RetryAfter time.Duration
	Document   string // the code of the document that prevents the request, or ""
	// Operator: Message and Faults are English, for operators; otherwise they are Spanish, for tills.
	Operator       bool
	RequiredFields []string // the members of a receptor that SPEC section 7 requires, with RECEPTOR_VALIDATION_ERROR
	English        string   // the text for operators instead of Message; "": the text of Code in the list of codes
	Err            error    // for the log, never for the caller
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Code, e.Message)
	for _, f := range e.Faults {
		fmt.Fprintf(&b, "; %s %s: %s", f.Path, f.Code, f.Message)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Of returns the error for a request with faults.
func Of(faults []dte.Fault) *Error {
	return &Error{Code: CodeValidation, Message: "La solicitud no cumple lo que exige el documento", Faults: faults}
}

// OfOperator is like Of, but for operators; the texts are English.
func OfOperator(faults []dte.Fault) *Error {
	return &Error{Code: CodeValidation, Message: "The request is not valid", Faults: faults, Operator: true}
}

// Unavailable returns the error for a request that may succeed if it is repeated. err is for the log.
func Unavailable(err error, message string) *Error {
	return &Error{Code: CodeUnavailable, Message: message, RetryAfter: 2 * time.Second, Err: err}
}

// Internal returns the error for a fault of the appliance. It returns nil and an *Error unchanged.
func Internal(err error) error {
	if _, refused := errors.AsType[*Error](err); refused || err == nil {
		return err
	}
	return &Error{Code: CodeInternal,
		Message: "Error interno; la solicitud puede repetirse con la misma Idempotency-Key", Err: err}
}

// NotFound returns the error for a document that the branch does not have, or that the caller may not see.
func NotFound(code dte.Code) *Error {
	return &Error{Code: CodeNotFound, Message: "No existe un documento con el código de generación " + code.String()}
}

// Faults returns the faults in an error, or nil if it has no faults.
func Faults(err error) []dte.Fault {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.Faults
	}
	return nil
}

// LogAttr returns an error as an attribute for the log. The log leaves out the empty attribute of a nil error.
func LogAttr(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.Any("error", err)
}
