// Package fuel rewrites a WebAssembly module: the new module counts what it executes, and calls its host when it has
// used up its fuel. A limit in fuel is the same on every machine and in every engine, unlike a limit by the clock.
//
// Fuel. A mutable global holds the remaining fuel. Every function entry and every loop header subtracts the price of
// its region, and calls the host if the result is below zero. The host ends the call, or sets the global and lets the
// module continue. A budget may thus be granted in slices, which change neither the module's result nor its use of
// fuel. No module runs long without calling its host. A region is the code between one header and the headers inside
// it. Control only flows forward through a region, so each of its instructions runs at most once per passage. The price
// is 1, and 1 more for each Grain instructions. Instructions that take longer than an addition count as several (see
// instruction.price). These are divisions, calls that leave the module, and calls with many parameters or results. A
// merge of control flow counts by the locals that a compiler must move there. Copying or filling memory is priced by
// the length, growing memory by its new size. A guest pays for a region's whole length, not for the path taken, and
// thus for more instructions than it executes. Declare a budget from measured use (see bundle.Manifest), never from a
// guess.
//
// Stack. A second global holds the bytes of stack that a function may use. A function that calls others subtracts an
// upper bound of its frame from the global at its entry, calls the host if the result is below zero, and writes the
// rest back before each of its calls. A function without calls is not charged, because its frame is at most maxFrame.
// Engines limit the stack too, but at different depths. With this limit, the same recursion ends at the same call in
// every engine.
//
// Limits. Engines reserve memory for as many items as a module declares. Every count is therefore compared with the
// module's bytes and with a limit (see below). The time to compile depends on how tangled the functions are; it is
// estimated first, and a module that needs too much is refused (see work).
//
// The rewrite understands the instructions of WebAssembly 1.0 with sign extension, saturating conversion, multiple
// values, reference types and copies of memory. It refuses all others (vectors, threads, tail calls, exceptions,
// passive segments, tables that grow). The engine that runs the result checks whether the module is valid. Custom
// sections, which are for debuggers, are left out. The host's function is imported after the module's own imports, so
// the index of each of the module's functions rises by one.
package fuel

import (
	"errors"
	"fmt"
)

const (
	// ImportModule and ImportName name the function that the host gives to every metered module. The function has no
	// parameters and no results. The module calls it when the fuel or the stack is negative; the host then makes the
	// fuel zero or more, or ends the call.
	ImportModule, ImportName = "dte_host", "dte_spent"
	// Export is the name of the global with the remaining fuel, an i64. It is negative when the module calls the host.
	Export = "dte_fuel"
	// StackExport is the name of the global that holds the remaining bytes of stack, an i64. If it is negative when the
	// module calls the host, the host must end the call. The host sets it to Stack before each call.
	StackExport = "dte_stack"
	// StartExport is the name of the module's start function, if the module has one. The host must call it first,
	// because the engine no longer does.
	StartExport = "dte_start"
	// Grain is how many instructions, or bytes of a copy, one unit of fuel covers at most.
	Grain = 64
	// Stack is how many bytes of stack one call of a module may use. Each function with calls counts at least minFrame,
	// so calls nest at most Stack/minFrame = 1024 deep.
	Stack = 4 << 20
)

// ErrModule means that a module is malformed, uses a feature that cannot be metered, or exceeds a limit; the message
// names the fault, the place and the limit.
var ErrModule = errors.New("cannot be metered")

// Meter rewrites a module. start is the fuel of a new instance, for its start function. The same module always gives
// the same bytes.
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

// Prices in instructions. They were measured: if the guest's memory is in the processor's caches, no instruction takes
// longer than 1.5 ns times its price, and a unit at most 100 ns (see TestMeter_Worst). A guest that waits at each step
// for memory outside the caches takes up to 3.5 µs a unit. Prices for such a guest would make ordinary loops fifty
// times as expensive; instead, the host ends the guest by time.
const (
	crossing   = 512 // a call that leaves the module; ref.func; a growth of memory, without the part for the size
	indirect   = 16  // a call through a table
	passing    = 2   // each parameter or result of a call beyond freeValues
	freeValues = 4   // parameters and results that a call's own price covers
	copying    = 8   // memory.copy, without the part for the length
	filling    = 20  // memory.fill, without the part for the length
	moving     = 2   // each local or result beyond freeMoves that may have to be moved where control flow merges
	freeMoves  = 16  // moves at a merge that the prices of its branches cover
	forking    = 1   // added to the price 1 of a branch, for moves between registers
)

// shape describes an instruction without an index: how many operands it pops and pushes, and its price.
type shape struct{ pop, push, price int8 }

// plain lists the instructions without an index. Their only immediates are the two numbers of a memory access. Price 0
// stands for any other instruction.
var plain = plainInstructions()

func plainInstructions() (all [256]shape) {
	all[0x01], all[opDrop], all[opSelect], all[opRefIsNull] = shape{0, 0, 1}, shape{1, 0, 1}, shape{3, 1, 1},
		shape{1, 1, 1}
	add := func(from, to int, s shape) {
		for op := from; op <= to; op++ {
			all[op] = s
		}
	}
	unary, binary := shape{1, 1, 1}, shape{2, 1, 1}
	add(opI32Load, opI64Load32U, unary)
	add(opI64Load32U+1, opI64Store32, shape{2, 0, 1})
	add(opI32Eqz, opI64Extend32S, unary)
	for _, span := range [][2]int{{0x46, 0x4f}, {0x51, 0x5a}, {0x5b, 0x66}, // comparisons
		{0x6a, 0x78}, {0x7c, 0x8a}, {0x92, 0x98}, {0xa0, 0xa6}} { // arithmetic
		add(span[0], span[1], binary)
	}
	long := func(price int8, ops ...int) {
		for _, op := range ops {
			all[op].price = price
		}
	}
	long(2, 0x6d, 0x6e, 0x6f, 0x70, 0x7f, 0x80, 0x81, 0x82) // divisions of integers
	long(4, 0x91, 0x95, 0x9f, 0xa3)                         // divisions and square roots of floats
	return all
}

// work is an upper estimate of the time to compile a module, in ns of the processor on which the figures were measured
// (wazero 1.12's compiler on an EPYC of 2.x GHz).
type work int

// Costs of compiling that grow faster than the number of bytes. A compiler's phases walk over each live value at each
// piece of straight code, over each pair of values considered where control flow merges, and over loops until nothing
// changes. After each call, the compiled code reads every global again. A plain Go guest is estimated at 3.6 s.
const (
	maxWork = 15_000_000_000

	typeWork     = 10_000 // for each type
	functionWork = 20_000 // for each function
	valueWork    = 3000   // for each parameter and result of a type, a function or a call
	stepWork     = 1000   // for each instruction
	moveWork     = 1000   // for each value considered at a merge, for each way into the merge
	pairWork     = 1      // for each pair of considered values, for each way and each loop
	alongWork    = 4      // for each considered value, for each way, for each piece of code
	pieceWork    = 3      // for each pair of pieces of straight code
	loopWork     = 60     // for each loop for each piece
	reloadWork   = 300    // for each global for each call, because all globals are read again after a call
	localWork    = 10     // for each local for each piece
	heightWork   = 5      // for each value on the operand stack for each piece
	accessWork   = 80     // for each memory access for each piece, because a compiler remembers the checked bounds
)

// function adds the work of one function, and refuses the module if the sum exceeds the limit. A module of limited size
// cannot overflow the sum.
func (w *work) function(f *scan, s signature) error {
	*w += work(functionWork + valueWork*(s.params+s.results+f.passed) + stepWork*f.instructions +
		f.moved*(moveWork+alongWork*f.pieces) + f.squared*pairWork*(1+f.loops) + loopWork*f.loops*f.pieces +
		reloadWork*f.reloads() +
		f.pieces*(pieceWork*f.pieces+localWork*f.locals+heightWork*f.highest+accessWork*f.accesses))
	if *w > maxWork {
		return fmt.Errorf("to compile the module up to here is estimated at %.1f s, more than %d s: its control flow "+
			"is too tangled or too wide (%d pieces of code, %d locals, %d values that are selected where it merges)",
			float64(*w)/1e9, maxWork/1_000_000_000, f.pieces, f.locals, f.moved)
	}
	return nil
}

// Limits of a module, each far above the output of compilers of rules. rules/abi/README.md lists them for authors.
const (
	maxParams    = 32     // of a function; a plain Go guest has 1
	maxValues    = 16     // results of a function; parameters and results of a block
	maxTypes     = 10_000 // function types
	maxImports   = 100    // functions; the host gives ten
	maxFunctions = 20_000 // a plain Go guest has 3,000
	maxTable     = 65_536 // items of the only table
	maxGlobals   = 1000
	maxExports   = 1000
	maxSegments  = 100_000  // segments of the table, and of the memory
	maxElements  = 100_000  // items of all segments of the table
	maxLocals    = 1000     // of a function, its parameters included
	maxBody      = 64 << 10 // bytes of a function; the largest of a plain Go guest has 12,000
	maxMoves     = 100_000  // values moved where control flow merges, in a function; a plain Go guest has 11,000
	// globals × calls in a function, each 170 bytes in the compiler; a plain Go guest has 1700
	maxReloads = 500_000
	maxHeight  = 10_000 // values on the operand stack of a function

	minFrame = 4 << 10 // least number of bytes of stack charged for a function with calls
	maxFrame = 1 << 20 // most bytes of stack that a function may need, by the estimate
)
