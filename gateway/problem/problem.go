// Package problem contains the list of the codes that callers of the appliance see: for each code the status and the
// texts, in Spanish for tills and in English for operators.
package problem

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/refusal"
)

func ForTill(code, message string) *refusal.Error {
	return &refusal.Error{Code: code, Message: message}
}

// ForOperator returns an error in English, for the operators' listener only.
func ForOperator(code, message string) *refusal.Error {
	return &refusal.Error{Code: code, Message: message, Operator: true}
}

// TooMany returns a 429. The caller must wait before its next request.
func TooMany(wait time.Duration, message string) *refusal.Error {
	return &refusal.Error{Code: refusal.CodeBusy, RetryAfter: wait, Message: message}
}

// WrongParameters returns a 400 with the faults of a till's query, or nil if there are no faults.
func WrongParameters(faults []dte.Fault) error {
	if len(faults) == 0 {
		return nil
	}
	return &refusal.Error{Code: refusal.CodeValidation, Message: "La consulta no es válida", Faults: faults}
}

// WrongQuery returns a 400 for a parameter of an operator's query; want describes a valid value in English.
func WrongQuery(name, want string) error {
	return &refusal.Error{Code: refusal.CodeValidation, Message: "The query is not valid", Operator: true,
		Faults: []dte.Fault{{Path: name, Code: dte.FaultFormat, Message: want}}}
}

// Renamed returns a *refusal.Error with its faults changed by rename; other errors are unchanged.
func Renamed(err error, rename func([]dte.Fault) []dte.Fault) error {
	refused, ok := errors.AsType[*refusal.Error](err)
	if !ok {
		return err
	}
	c := *refused
	c.Faults = rename(refused.Faults)
	return &c
}

// InEnglish returns the error for an operator. Texts for tills are replaced by the texts of the list of codes.
func InEnglish(e *refusal.Error) *refusal.Error {
	if e.Operator {
		return e
	}
	t := translated(e, func(t Text) string { return t.EN }, func(text string) string { return text })
	t.Message = cmp.Or(e.English, t.Message)
	return t
}

// InSpanish returns the error for a till. Texts for operators are replaced by the texts of the list of codes.
func InSpanish(e *refusal.Error) *refusal.Error {
	if !e.Operator {
		return e
	}
	return translated(e, func(t Text) string { return t.ES },
		func(string) string { return "La solicitud no se puede atender" })
}

// translated replaces the texts of an error and of its faults. A code in the list of codes gets the list's text, in the
// language that in() selects; any other code gets the text that otherwise() makes of its message.
func translated(e *refusal.Error, in func(Text) string, otherwise func(string) string) *refusal.Error {
	text := func(code, message string) string {
		c, _ := Find(code)
		return cmp.Or(in(c.Meaning), otherwise(message))
	}
	t := *e
	t.Message, t.Faults = text(e.Code, e.Message), slices.Clone(e.Faults)
	for i, f := range t.Faults {
		t.Faults[i].Message = text(f.Code, f.Message)
	}
	return &t
}

// OperatorText returns the text of an error for operators: the code, the English message and the cause.
func OperatorText(err error) string {
	e, ok := errors.AsType[*refusal.Error](err)
	if !ok {
		return err.Error()
	}
	text := e.Code + ": " + InEnglish(e).Message
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Code is an entry of the list of codes. A code is never renamed, and never gets another meaning.
type Code struct {
	Name string
	// Status are the HTTP statuses of the answers of this type; empty for a code that occurs only in errors.
	Status []int
	// Fault: the code can occur in the answer's list "errors".
	Fault bool
	// Operator: only the operators' listener answers with this code, which has no Spanish texts.
	Operator bool
	Meaning  Text
	Action   Text // what the cashier or the till's programmer should do
}

// Text is a sentence in Spanish and English, without a full stop.
type Text struct{ ES, EN string }

// All returns the list of codes: first the types of answers, then the codes that occur only in errors.
func All() []Code {
	return slices.Concat(types, operators, values, sales, references)
}

// Types returns the codes that an answer to a till can have as its type.
func Types() []Code { return types }

// Find returns the entry of a code, or false if the list lacks the code: a rule may have codes of its own.
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

// Faults returns the codes that can occur in the answer's list "errors".
func Faults() []Code {
	return slices.DeleteFunc(All(), func(c Code) bool { return !c.Fault })
}

// Status returns the HTTP status of answers of this type; 0 if the code occurs only in errors.
func Status(code string) int {
	if c, ok := Find(code); ok && len(c.Status) > 0 {
		return c.Status[0]
	}
	return 0
}
