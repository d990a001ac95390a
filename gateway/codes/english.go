package codes

import "dtegate/engine/refusal"

// English returns an operator's message for an error that was written for tills: english if the error has one, otherwise the
// meaning in the list of codes.
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
