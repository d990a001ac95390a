// Package fuel rewrites a WebAssembly module so that it counts what it executes, and traps when a budget is used up:
// a limit that is the same on every machine and in every engine, where a clock is not.
//
// A mutable global holds the fuel that is left. Every function entry and every loop header takes its region's price
// off it, and traps below zero. A region is the code between one header and the headers inside it; control only flows
// forward through a region, so each of its instructions runs at most once a passage. The price is 1 and 1 more for each
// Grain instructions, so that executed instructions ≤ Grain × fuel used, whatever the guest does: that is what makes
// the budget a bound on time. What works longer than an instruction is priced apart: a copy or fill of memory by its
// length, a call that leaves the module by crossing.
//
// The price is a region's whole length, not the path taken, so a guest with long loops uses more units than it
// executes: a budget is declared from measured use (see bundle.Manifest), never guessed.
//
// The rewrite understands the instructions of WebAssembly 1.0 with sign extension, saturating conversion, multiple
// values, reference types and copies of memory. It refuses every other (vectors, threads, tail calls, exceptions,
// passive segments, tables that grow). Whether the module is valid is for the engine to say that runs the result; but
// engines set memory aside for as many items as a module says that it has, and compile for as long as its functions are
// tangled, so every count is checked here, against what is there and against a limit. Custom sections, which are for debuggers, are left out.
package fuel

import (
	"errors"
	"fmt"
)

const (
	// Export is the name of the global that holds the fuel that is left, an i64; negative after the trap.
	Export = "dte_fuel"
	// Grain is how many instructions, or bytes of a copy, one unit of fuel covers at most.
	Grain = 64

	crossing = 512 // price in instructions of a call that leaves the module, and of growing the memory
	indirect = 16  // of a call through a table

	maxItems     = 100_000   // of a section; a plain Go guest has 3,000 functions
	maxWide      = 1000      // parameters, results
	maxLocals    = 1000      // of a function
	maxAllLocals = 1_000_000 // of the module
	maxBody      = 64 << 10  // bytes of a function; the largest of a plain Go guest has 12,000
	// maxKnots limits the sum over all functions of branches × (branches + locals), which is about what a compiler's
	// time and memory grow with: 5 s of wazero's. A plain Go guest has 5,000,000.
	maxKnots = 40_000_000
)

// ErrModule means that a module is malformed or uses what cannot be metered; the message says what and where.
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
