// Package codes lists every code that an answer of the appliance can hold: those of the member type of an error, and those
// of the elements of its member errors. It is the one source of the list: the contract, the page /docs and deploy/CODES.md
// show it, and a test finds each code of the sources in it.
package codes

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
