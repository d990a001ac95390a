// Package fuel rewrites a WebAssembly module: the new module counts what it executes, and calls its host when the fuel that it
// was given is used up. This limit is the same on every machine and in every engine; a limit by the clock is not.
//
// Fuel. A mutable global holds the fuel that is left. Every function entry and every loop header subtracts the price of
// its region, and calls the host below zero. The host ends the call, or sets the global and lets the module go on: a budget
// may be given in slices, which change nothing in what a module computes or uses. So no module runs for long without its host. A region is the code between one header and the headers inside it; control only
// flows forward through a region, so each of its instructions runs at most once a passage. The price is 1 and 1 more
// for each Grain instructions. Instructions that work longer than an addition count as several (see instruction.price):
// calls by their parameters and results, a merge of control flow by the locals that a compiler must move there,
// divisions, calls that leave the module. A copy or fill of memory is priced by its length, a growth by the size
// that it reaches. The price is a region's whole length, not the path taken, so a guest with long loops uses more units
// than it executes: a budget is declared from measured use (see bundle.Manifest), never guessed.
//
// Stack. A second global holds the bytes of stack that a function may use. A function that calls others subtracts an upper bound
// of its frame from it at its entry, calls the host below zero, and passes the rest on before each of its calls. A function that
// calls nothing needs no charge, for its frame is at most maxFrame. Engines limit the stack too, but each elsewhere: here
// the same recursion ends at the same call in every engine.
//
// Limits. Engines set memory aside for as many items as a module says that it has, and compile for as long as its
// functions are tangled. Therefore every count is checked here against what is there and against a limit (modulelimits.go),
// and the work of compiling is estimated and refused before it begins (work.go).
//
// The rewrite understands the instructions of WebAssembly 1.0 with sign extension, saturating conversion, multiple
// values, reference types and copies of memory. It refuses every other (vectors, threads, tail calls, exceptions,
// passive segments, tables that grow). Whether the module is valid is for the engine to say that runs the result.
// Custom sections, which are for debuggers, are left out. The host's function is imported behind the module's own imports,
// therefore each function of the module's own has an index that is higher by one.
package fuel

import (
	"errors"
	"fmt"
)

const (
	// ImportModule and ImportName are the function that the host gives to every metered module. It takes and gives nothing. The
	// module calls it when the fuel or the stack is negative: the host makes the fuel zero or more, or ends the call.
	ImportModule, ImportName = "dte_host", "dte_spent"
	// Export is the name of the global that holds the fuel that is left, an i64; negative when the module calls the host.
	Export = "dte_fuel"
	// StackExport is the name of the global that holds the bytes of stack that are left, an i64; negative when the module
	// calls the host because they do not suffice: the host must end the call then. The host sets it to Stack before each call.
	StackExport = "dte_stack"
	// StartExport is the name of the module's start function, if the module has one. It does not run by itself any more:
	// the host calls it first.
	StartExport = "dte_start"
	// Grain is how many instructions, or bytes of a copy, one unit of fuel covers at most.
	Grain = 64
	// Stack is how many bytes of stack one call of a module may use. Each function that calls counts at least
	// minFrame, so that calls nest at most Stack/minFrame = 1024 deep.
	Stack = 4 << 20
)

// ErrModule means that a module is malformed, uses what cannot be metered or is beyond a limit; the message says what,
// where and which limit.
var ErrModule = errors.New("cannot be metered")

// Meter rewrites a module. start is the fuel that a new instance has, for its start function. The same module gives the
// same bytes.
func Meter(wasm []byte, start int64) ([]byte, error) {
	m, err := parse(wasm)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModule, err)
	}
	out, err := m.encode(start)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModule, err)
	}
	return out, nil
}
