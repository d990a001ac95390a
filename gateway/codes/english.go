package codes

import "dtegate/engine/refusal"

// English is the message of an error that was written for tills, for an operator: english when the error has one, else what the
// list says of its code.
func English(code, message, english string) string {
	if english != "" {
		return english
	}
	if c, ok := Find(code); ok {
		return c.Meaning.EN
	}
	return message
}

// OperatorMessage is the message of an error in English.
func OperatorMessage(e *refusal.Error) string {
	if e.Operator {
		return e.Message
	}
	return English(e.Code, e.Message, e.English)
}

// Spanish is what the list says of a code, for a till that must not read what was written for operators.
func Spanish(code string) string {
	if c, ok := Find(code); ok {
		return c.Meaning.ES
	}
	return "La solicitud no se puede atender"
}
