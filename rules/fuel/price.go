package fuel

// Prices in instructions. They are measured: no instruction of a guest whose memory is in the processor's caches works
// longer than 1.5 ns for each instruction that it is charged, so that a unit is at most 100 ns (see
// TestMeter_Worst). What waits for memory that is in no cache at each step works up to 3.5 µs a unit. A price for that would
// make honest loads fifty times as dear; the host ends such a guest by its time.
const (
	crossing   = 512 // a call that leaves the module, ref.func, a growth of memory apart from its size
	indirect   = 16  // a call through a table
	passing    = 2   // each parameter or result of a call beyond freeValues
	freeValues = 4   // parameters and results that a call's own price covers
	copying    = 8   // memory.copy, apart from its length
	filling    = 20  // memory.fill, apart from its length
	moving     = 2   // each local or result beyond freeMoves that may have to be moved where control flow merges
	freeMoves  = 16  // moves at a merge that the prices of its branches cover
	forking    = 1   // a branch, beside its own 1, for what a compiler moves between registers
)

// shape is what an instruction without an index takes from the operand stack and leaves there, and its price.
type shape struct{ pop, push, price int8 }

// plain are the instructions that have no index of anything: at most the two numbers of a memory access. The others
// have no price here.
var plain = plainInstructions()

func plainInstructions() (all [256]shape) {
	all[0x01], all[opDrop], all[opSelect], all[opRefIsNull] = shape{0, 0, 1}, shape{1, 0, 1}, shape{3, 1, 1}, shape{1, 1, 1}
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
