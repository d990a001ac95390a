package problem

import (
	"slices"

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
	return slices.Concat(types, operators, values, sales, references)
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
	return slices.DeleteFunc(All(), func(c Code) bool { return !c.Fault })
}

// Status returns the HTTP status of a code, 0 if no answer has it as its type.
func Status(code string) int {
	if c, ok := Find(code); ok && len(c.Status) > 0 {
		return c.Status[0]
	}
	return 0
}

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
