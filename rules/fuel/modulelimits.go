package fuel

// Limits of a module, each far above what compilers of rules make. rules/abi/README.md tells authors.
const (
	maxParams    = 32     // of a function; a plain Go guest has 1
	maxValues    = 16     // results of a function; parameters and results of a block
	maxTypes     = 10_000 // function types
	maxImports   = 100    // functions; ten are given
	maxFunctions = 20_000 // a plain Go guest has 3,000
	maxTable     = 65_536 // items of the one table
	maxGlobals   = 1000
	maxExports   = 1000
	maxSegments  = 100_000  // of the table, of the memory
	maxElements  = 100_000  // items of all segments of the table
	maxLocals    = 1000     // of a function, its parameters included
	maxBody      = 64 << 10 // bytes of a function; the largest of a plain Go guest has 12,000
	maxMoves     = 100_000  // values moved where control flow merges, in a function; a plain Go guest has 11,000
	maxReloads   = 500_000  // globals, once for each call, in a function: 170 bytes each in the compiler; a plain Go guest has 1700
	maxHeight    = 10_000   // values on the operand stack of a function

	minFrame = 4 << 10 // bytes of stack that each function which calls is charged at least
	maxFrame = 1 << 20 // bytes of stack that a function may need, by the estimate
)
