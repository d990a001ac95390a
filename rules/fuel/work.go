package fuel

import "fmt"

// work estimates the work of compiling a module, in ns of the processor that the figures were measured on (wazero
// 1.12's compiler on an EPYC of 2.x GHz), from above: what is compiled is compiled in no more than the estimate.
type work int

// What a compiler works longer for than in proportion to the bytes. Its phases walk over each value that is alive at
// each piece of straight code, and over each pair of values that are selected where control flow merges; those of loops
// once more for each loop, until nothing changes. After each call it reads every
// global again. A plain Go guest is estimated at 3.6 s.
const (
	maxWork = 15_000_000_000

	typeWork     = 10_000 // of each type
	functionWork = 20_000 // of each function
	valueWork    = 3000   // of each parameter and result of a type, a function or a call
	stepWork     = 1000   // of each instruction
	moveWork     = 1000   // of each value that is selected, for each way into the merge
	pairWork     = 1      // of each pair of these, for each way and each loop
	alongWork    = 4      // of each of these for each piece of code
	pieceWork    = 3      // of each pair of pieces of code
	loopWork     = 60     // of each loop for each piece
	reloadWork   = 300    // of each global for each call, after which a compiler reads the globals again
	localWork    = 10     // of each local for each piece
	heightWork   = 5      // of each value on the operand stack for each piece
	accessWork   = 80     // of each memory access for each piece: what bounds were checked is remembered
)

// add adds to the estimate. Sums of a module of limited size are far from 63 bits.
func (w *work) add(n int) { *w += work(n) }

// function adds the work of one function, and refuses the module when the sum is beyond the limit.
func (w *work) function(f *scan, s signature) error {
	w.add(functionWork + valueWork*(s.params+s.results+f.passed) + stepWork*f.instructions)
	w.add(f.moved*(moveWork+alongWork*f.pieces) + f.squared*pairWork*(1+f.loops))
	w.add(loopWork*f.loops*f.pieces + reloadWork*f.reloads())
	w.add(f.pieces * (pieceWork*f.pieces + localWork*f.locals + heightWork*f.highest + accessWork*f.accesses))
	if *w > maxWork {
		return fmt.Errorf("to compile the module up to here is estimated at %.1f s, more than %d s: its control flow is too tangled or too wide (%d pieces of code, %d locals, %d values that are selected where it merges)",
			float64(*w)/1e9, maxWork/1_000_000_000, f.pieces, f.locals, f.moved)
	}
	return nil
}
