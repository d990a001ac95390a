// Package problem has the errors that callers of the appliance see: a status, a code, and a text, in Spanish for tills
// and in English for operators. Of HTTP it knows only the numbers of statuses.
package problem

import (
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
	Document       string // IDEMPOTENCY_CONFLICT: codigoGeneracion of the document that the key made
	Operator       bool   // the texts are English
	English        string // the message for an operator; "": what the list of codes says
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

// WrongQuery returns a 400 for a parameter of an operator's query; want is an English text with what it must be.
func WrongQuery(name, want string) error {
	return &Problem{Status: http.StatusBadRequest, Type: refusal.CodeValidation, Message: "The query is not valid",
		Operator: true,
		Faults:   []dte.Fault{{Path: name, Code: dte.FaultFormat, Message: want}}}
}

// From makes a problem from an error of the engine.
func From(e *refusal.Error) *Problem {
	return &Problem{Status: Status(e.Code), Type: e.Code, Message: e.Message, Faults: e.Faults,
		RetryAfter: e.RetryAfter, Document: e.Document, Operator: e.Operator, English: e.English}
}

// Renamed returns an engine's error with the names of the request in its faults. Any other error is returned unchanged.
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
	e := *p
	e.Message = English(p.Type, p.Message, p.English)
	e.Faults = slices.Clone(p.Faults)
	for i := range e.Faults {
		if c, ok := Find(e.Faults[i].Code); ok {
			e.Faults[i].Message = c.Meaning.EN
		}
	}
	return &e
}

// InSpanish returns the problem for a till. Texts for operators are replaced by the texts of the list of codes.
func (p *Problem) InSpanish() *Problem {
	if !p.Operator {
		return p
	}
	s := *p
	s.Message = Spanish(p.Type)
	s.Faults = slices.Clone(p.Faults)
	for i := range s.Faults {
		s.Faults[i].Message = Spanish(s.Faults[i].Code)
	}
	return &s
}

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
