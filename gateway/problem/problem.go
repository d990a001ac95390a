// Package problem has the errors that callers of the appliance see: a status, a code, and a text, in Spanish for tills
// and in English for operators. The only HTTP that it knows is the status numbers.
package problem

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/refusal"
)

// Problem is an error as callers see it.
type Problem struct {
	Status         int
	Type           string
	Message        string
	Faults         []dte.Fault // paths of the request
	RequiredFields []string    // SPEC section 7, RECEPTOR_VALIDATION_ERROR
	RetryAfter     time.Duration
	Document       string // IDEMPOTENCY_CONFLICT: codigoGeneracion of the document made under that key
	Operator       bool   // the texts are English
	English        string // the message for an operator; "": the text of the list of codes
}

func (p *Problem) Error() string { return fmt.Sprintf("%d %s: %s", p.Status, p.Type, p.Message) }

// ForTill returns a problem in Spanish.
func ForTill(status int, kind, message string) *Problem {
	return &Problem{Status: status, Type: kind, Message: message}
}

// ForOperator returns a problem, in English, that only operators meet.
func ForOperator(status int, kind, message string) *Problem {
	return &Problem{Status: status, Type: kind, Message: message, Operator: true}
}

// TooMany returns a 429 for a till that asks for too much and must wait.
func TooMany(wait time.Duration, message string) *Problem {
	return &Problem{Status: http.StatusTooManyRequests, Type: "RATE_LIMITED", RetryAfter: wait, Message: message}
}

// WrongParameters returns a 400 with the faults of a till's query, nil if there are none.
func WrongParameters(faults []dte.Fault) error {
	if len(faults) == 0 {
		return nil
	}
	return &Problem{Status: http.StatusBadRequest, Type: refusal.CodeValidation, Message: "La consulta no es válida",
		Faults: faults}
}

// WrongQuery returns a 400 for a parameter of an operator's query; want describes in English a valid value.
func WrongQuery(name, want string) error {
	return &Problem{Status: http.StatusBadRequest, Type: refusal.CodeValidation, Message: "The query is not valid",
		Operator: true, Faults: []dte.Fault{{Path: name, Code: dte.FaultFormat, Message: want}}}
}

// From returns the problem of an engine's error.
func From(e *refusal.Error) *Problem {
	return &Problem{Status: Status(e.Code), Type: e.Code, Message: e.Message, Faults: e.Faults,
		RetryAfter: e.RetryAfter, Document: e.Document, Operator: e.Operator, English: e.English}
}

// Renamed returns an engine's error with the request's names in its faults. Any other error is returned unchanged.
func Renamed(err error, rename func([]dte.Fault) []dte.Fault) error {
	var refused *refusal.Error
	if !errors.As(err, &refused) {
		return err
	}
	c := *refused
	c.Faults = rename(refused.Faults)
	return &c
}

// InEnglish returns the problem for an operator. Texts for tills are replaced by the texts of the list of codes.
func (p *Problem) InEnglish() *Problem {
	if p.Operator {
		return p
	}
	e := p.translated(func(t Text) string { return t.EN }, func(text string) string { return text })
	e.Message = cmp.Or(p.English, e.Message)
	return e
}

// InSpanish returns the problem for a till. Texts for operators are replaced by the texts of the list of codes.
func (p *Problem) InSpanish() *Problem {
	if !p.Operator {
		return p
	}
	return p.translated(func(t Text) string { return t.ES },
		func(string) string { return "La solicitud no se puede atender" })
}

// translated returns the problem with the list's text for each code, and otherwise(message) for an unlisted code.
func (p *Problem) translated(of func(Text) string, otherwise func(string) string) *Problem {
	text := func(code, message string) string {
		c, _ := Find(code)
		return cmp.Or(of(c.Meaning), otherwise(message))
	}
	t := *p
	t.Message, t.Faults = text(p.Type, p.Message), slices.Clone(p.Faults)
	for i, f := range t.Faults {
		t.Faults[i].Message = text(f.Code, f.Message)
	}
	return &t
}

// OperatorMessage returns the English message of an error.
func OperatorMessage(e *refusal.Error) string { return From(e).InEnglish().Message }

// OperatorText returns an error as a text for operators: in English, with its code and its cause.
func OperatorText(err error) string {
	var e *refusal.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	text := e.Code + ": " + OperatorMessage(e)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Code is a stable name of an error or fault. A code is never renamed, and never used for another meaning.
type Code struct {
	Name string
	// Status are the HTTP statuses of answers with this code as type; empty if only elements of errors have the code.
	Status []int
	// Fault: elements of errors can have the code.
	Fault bool
	// Operator: only the operators' listener, with English texts, answers the code.
	Operator bool
	Meaning  Text
	Action   Text // what the cashier or the till's programmer should do
}

// Text is one sentence in each language, without its full stop.
type Text struct{ ES, EN string }

// All returns the whole list: first the types of answers, then the codes that only elements of errors have.
func All() []Code {
	return slices.Concat(types, operators, values, sales, references)
}

// Types returns the codes that tills can meet in the member type of an answer.
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
	return slices.DeleteFunc(All(), func(c Code) bool { return !c.Fault })
}

// Status returns the HTTP status of a code, 0 if no answer has it as its type.
func Status(code string) int {
	if c, ok := Find(code); ok && len(c.Status) > 0 {
		return c.Status[0]
	}
	return 0
}
