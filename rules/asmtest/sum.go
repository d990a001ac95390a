package asmtest

// Sum is a whole guest without a compiler or a runtime, with the description of a Guest: it copies every line's
// cantidad to ventaGravada, and adds up the amounts. Tests replace its pieces by faulty pieces.
type Sum struct {
	Before []byte // runs first
	Check  []byte // returns −1 for a malformed message; local 1 becomes the number of lines
	Add    []byte // adds local 4 to local 3
	Line   int    // added to the line that an overflow names
}

// Locals of the code.
const (
	sumLength = iota // i32
	sumLines         // i32
	sumTurn          // i32
	sumTotal         // i64
	sumValue         // i64
)

// NewSum returns the correct guest.
func NewSum() Sum {
	return Sum{Check: sumCheck(), Add: sumAdd()}
}

// Module assembles the guest.
func (s Sum) Module() Module {
	g := Guest("", nil, s.evaluate(), nil)
	g.Functions[Evaluate].Locals = []byte{I32, I32, I64, I64}
	return g
}

func store32(at, n int) []byte { return Join(I32Const(BufferAt+at), I32Const(n), Op(I32Store, 2, 0)) }
func load32(at int) []byte     { return Join(I32Const(BufferAt+at), Op(I32Load, 2, 0)) }

// unless returns −1 unless the number on the stack is n.
func unless(n int) []byte { return Join(I32Const(n), []byte{0x47}, minusOne()) }

// minusOne returns −1 if the condition on the stack is true.
func minusOne() []byte { return Join([]byte{If, Empty}, I32Const(-1), []byte{Return, End}) }

// sumCheck: 32 bytes of header, one parameter, no scalar, one column, at most 2000 lines.
func sumCheck() []byte {
	return Join(
		Op(LocalGet, sumLength), I32Const(40), []byte{I32LtU}, minusOne(),
		load32(0), unless(0x31455444), load32(4), unless(1), load32(8), unless(1), load32(12), unless(0),
		load32(20), Op(LocalTee, sumLines), I32Const(2000), []byte{I32GtU}, minusOne(),
		load32(16), Op(LocalGet, sumLines), I32Const(0), []byte{0x47, 0x47}, minusOne(), // a column, if a line
		Op(LocalGet, sumLength), Op(LocalGet, sumLines), I32Const(8), []byte{I32Mul}, I32Const(40), []byte{I32Add,
			0x47}, minusOne(),
	)
}

// sumAdd leaves both blocks around the loop when the sum does not fit.
func sumAdd() []byte {
	sum := Join(Op(LocalGet, sumTotal), Op(LocalGet, sumValue), []byte{I64Add})
	return Join(
		// ((total ^ sum) & (value ^ sum)) < 0
		Op(LocalGet, sumTotal), sum, []byte{0x85}, Op(LocalGet, sumValue), sum, []byte{0x85, 0x83}, I64Const(0),
		[]byte{I64LtS}, Op(BrIf, 2),
		sum, Op(LocalSet, sumTotal),
	)
}

func (s Sum) evaluate() []byte {
	at := Join(Op(LocalGet, sumTurn), I32Const(8), []byte{I32Mul}) // offset of the line
	return Join(s.Before, s.Check,
		[]byte{Block, Empty, Block, Empty, Loop, Empty}, // out of the first: overflow; of the second: done
		Op(LocalGet, sumTurn), Op(LocalGet, sumLines), []byte{0x4f}, Op(BrIf, 1), at, Op(I64Load, 3, BufferAt+40),
		Op(LocalSet, sumValue), s.Add, at, Op(LocalGet, sumValue), Op(I64Store, 3, BufferAt+32),
		Op(LocalGet, sumTurn), I32Const(1), []byte{I32Add}, Op(LocalSet, sumTurn), Op(Br, 0), []byte{End, End},
		store32(8, 1), I32Const(BufferAt), Op(LocalGet, sumLines), Op(I32Store, 2, 12), store32(16, 1),
		store32(20, 0), store32(24, 0), store32(28, 0), Op(LocalGet, sumLines), I32Const(8), []byte{I32Mul},
		Op(LocalGet, sumTotal), Op(I64Store, 3, BufferAt+32), Op(LocalGet, sumLines), I32Const(8), []byte{I32Mul},
		I32Const(40), []byte{I32Add, Return}, []byte{End},
		// The fault 0, in this line and no column.
		store32(8, 1), store32(12, 0), store32(16, 0), store32(20, 0), store32(24, 1), store32(28, 0), store32(32, 0),
		I32Const(BufferAt), Op(LocalGet, sumTurn), I32Const(s.Line), []byte{I32Add}, Op(I32Store, 2, 36),
		store32(40, -1), store32(44, 0), I32Const(48),
	)
}
