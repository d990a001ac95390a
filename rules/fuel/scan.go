package fuel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// scan walks the code of one function, and finds the cost of running and of compiling the function.
type scan struct {
	m          *module
	r          *reader
	results    int
	locals     int // of the function, its parameters included
	blocks     []block
	sets       []uint64 // see touched
	words      int      // of each set
	prices     []int    // of each region, in instructions
	insertions []insertion
	calls      bool // the function calls functions of the module

	groups, declared, begin int // groups of its locals; offsets of the locals and of its first instruction

	height, highest int // of the operand stack
	// Estimates of the compiler's work:
	instructions int
	values       int // values that instructions compute
	widest       int // most parameters and results of one call
	passed       int // parameters and results of all calls
	called       int // calls, including those that metering adds
	accesses     int // memory accesses
	pieces       int // pieces of straight code, between two branches or labels
	merged       int // values that are selected where control flow merges
	moved        int // values that a compiler considers for a merge, for each way into it
	squared      int // like moved, with the square of each merge's number of values
	loops        int
}

// block is an open block, loop or if, or the function itself.
type block struct {
	op              int
	region          int
	base            int // height of the operand stack below its parameters
	params, results int
	branches        int // to its label
}

func newScan(m *module, r *reader, s signature, locals int) *scan {
	f := &scan{m: m, r: r, results: s.results, locals: locals, prices: []int{locals / 4}, pieces: 3,
		words: (locals + 63) / 64}
	f.put(insertion{at: r.at, kind: charge})
	f.open(instruction{push: s.results}, 0)
	return f
}

// put notes code that metering adds, and counts its call: every insertion except ref.func contains one call.
func (f *scan) put(i insertion) {
	f.insertions = append(f.insertions, i)
	if i.kind != reference {
		f.called++
	}
}

func (f *scan) open(i instruction, region int) {
	f.blocks = append(f.blocks, block{op: i.op, region: region, base: f.height - i.pop, params: i.pop, results: i.push})
	for range 2 * f.words {
		f.sets = append(f.sets, 0)
	}
}

// touched returns the locals that the innermost open block uses; written returns the locals that it sets. Both have one
// bit for each local.
func (f *scan) touched() []uint64 { return f.sets[len(f.sets)-2*f.words:][:f.words] }
func (f *scan) written() []uint64 { return f.sets[len(f.sets)-f.words:] }

func (f *scan) inner() *block { return &f.blocks[len(f.blocks)-1] }

func (f *scan) run() error {
	for len(f.blocks) > 0 && f.r.err == nil {
		at := f.r.at
		f.step(at, f.m.next(f.r, f.locals))
	}
	if f.r.err == nil && f.r.left() > 0 {
		f.r.fail("something follows the function's end")
	}
	return f.r.err
}

func (f *scan) step(at int, i instruction) {
	if f.r.err != nil {
		return
	}
	b := f.inner()
	f.prices[b.region] += i.price
	f.instructions++
	switch i.op {
	case opBlock:
		f.pieces++
		f.open(i, b.region)
	case opLoop:
		f.pieces += 4 // including the pieces of the charge
		f.loops++
		f.open(i, len(f.prices))
		f.put(insertion{at: f.r.at, kind: charge, region: len(f.prices)})
		f.prices = append(f.prices, 0)
	case opIf:
		f.pieces += 3
		f.prices[b.region] += forking
		f.take(1, 0)
		f.open(i, b.region)
	case opElse:
		if b.op != opIf {
			f.r.fail("an else without its if")
			return
		}
		b.branches++ // the way from the first half
		f.height = b.base + b.params
	case opEnd:
		f.end()
	case opBr, opBrIf, opBrTable:
		f.branch(i)
	case opUnreachable, opReturn:
		f.pieces++
		f.height = b.base
	default:
		f.plain(at, i)
	}
}

// plain handles an instruction after which control always passes to the next one.
func (f *scan) plain(at int, i instruction) {
	f.take(i.pop, i.push)
	switch i.op {
	case opLocalGet, opLocalSet, opLocalTee:
		f.touched()[i.index/64] |= 1 << (i.index % 64)
		if i.op != opLocalGet {
			f.written()[i.index/64] |= 1 << (i.index % 64)
		}
		return
	case opCall, opCallIndirect:
		f.passed += i.pop + i.push
		f.widest = max(f.widest, i.pop+i.push)
		if i.op == opCallIndirect || i.index >= f.m.imported {
			f.calls = true
			own := insertion{at: at, kind: call, index: i.index}
			if i.index >= 0 {
				own.instead = f.r.at - at
			}
			f.put(own)
		} else {
			f.called++
		}
	case opRefFunc:
		f.put(insertion{at: at, instead: f.r.at - at, kind: reference, index: i.index})
	case opMemoryCopy, opMemoryFill:
		f.pieces += 4
		f.accesses += 2
		f.put(insertion{at: at, kind: length})
	case opMemoryGrow:
		f.pieces += 4
		f.put(insertion{at: f.r.at, kind: growth})
	}
	if i.op >= opI32Load && i.op <= opI64Store32 {
		f.accesses++
	}
	f.values += i.push
}

// take pops values from the operand stack and pushes others. In unreachable code the stack may hold fewer values than
// an instruction pops.
func (f *scan) take(pop, push int) {
	f.height = max(f.height-pop, f.inner().base) + push
	if f.highest = max(f.highest, f.height); f.highest > maxHeight {
		f.r.fail("its operand stack has %d values, more than %d", f.highest, maxHeight)
	}
}

func (f *scan) branch(i instruction) {
	b := f.inner()
	f.prices[b.region] += forking
	for _, label := range i.labels {
		if label >= len(f.blocks) {
			f.r.fail("a branch to block %d of %d", label, len(f.blocks))
			return
		}
		f.blocks[len(f.blocks)-1-label].branches++
		f.pieces++
	}
	f.take(i.pop, 0)
	if i.op != opBrIf {
		f.height = b.base
	}
}

// end closes the innermost block. Where several ways lead to a label, a compiler selects each value that differs
// between the ways. At the end of a block these are the block's results and the locals set in it; at the head of a
// loop, the loop's parameters and the locals set in it. The region after the moves pays for them.
func (f *scan) end() {
	b := f.inner()
	written, touched := count(f.written()), count(f.touched())
	switch {
	case b.op == opLoop && b.branches > 0:
		f.merge(b.region, b.branches+1, written+b.params, touched+b.params)
	case b.op == opIf:
		f.merge(f.parent().region, b.branches+2, written+b.results, touched+b.results)
	case b.branches > 0:
		f.merge(f.parent().region, b.branches+1, written+b.results, touched+b.results)
	}
	f.height = b.base + b.results
	f.highest = max(f.highest, f.height)
	if len(f.blocks) > 1 {
		inner, outer := f.sets[len(f.sets)-2*f.words:], f.sets[len(f.sets)-4*f.words:]
		for i, word := range inner {
			outer[i] |= word
		}
	}
	f.blocks = f.blocks[:len(f.blocks)-1]
	f.sets = f.sets[:len(f.sets)-2*f.words]
}

func (f *scan) parent() *block { return &f.blocks[max(0, len(f.blocks)-2)] }

// merge adds the cost of a label to which several ways lead. moved and considered count the values at each way.
func (f *scan) merge(region, ways, moved, considered int) {
	f.prices[region] += moving * max(0, moved-freeMoves)
	f.merged += moved
	f.moved += ways * considered
	f.squared += ways * considered * considered
}

func count(set []uint64) (n int) {
	for _, word := range set {
		n += bits.OnesCount64(word)
	}
	return n
}

// frame returns an upper bound of the stack, in bytes, that a call of the function takes. A compiler has at most one
// place for each value, and after each call two more for the address of the memory. An interpreter has a place for each
// local and for each value on the operand stack.
func (f *scan) frame() int {
	return max(minFrame, 256+8*(f.locals+f.values+2*f.called+f.merged+f.widest+f.results))
}

// reloads returns how many values a compiler reads again after the function's calls: the globals, including those of
// metering, and the address of the memory. Most of these values are never used, but need room until the function is
// compiled.
func (f *scan) reloads() int { return f.called * (f.m.globals + 4) }

// reader walks a part of a module. It keeps its first fault; after a fault it reads zeros.
type reader struct {
	b      []byte
	at     int
	err    error
	labels []int // reused
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *reader) left() int { return len(r.b) - r.at }

func (r *reader) byte() byte {
	if b := r.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reader) bytes(n int) []byte {
	if r.err != nil || n < 0 || n > r.left() {
		r.fail("it ends within a value")
		return nil
	}
	r.at += n
	return r.b[r.at-n : r.at]
}

// u32 reads an unsigned LEB128 of at most 32 bits.
func (r *reader) u32() int {
	n, size := binary.Uvarint(r.b[r.at:])
	switch {
	case r.err != nil:
	case size == 0:
		r.fail("it ends within a value")
	case size < 0 || size > 5:
		r.fail("a number is longer than 5 bytes")
	case n > math.MaxUint32:
		r.fail("a number has more than 32 bits")
	default:
		r.at += size
		return int(n)
	}
	return 0
}

// signed reads a signed LEB128 number of at most the given number of bits.
func (r *reader) signed(bits int) (n int64) {
	for shift := 0; ; shift += 7 {
		if shift >= bits {
			r.fail("a number is longer than %d bits", bits)
			return 0
		}
		c := r.byte()
		n |= int64(c&0x7f) << shift
		if c&0x80 != 0 {
			continue
		}
		if over := shift + 7 - bits; over > 0 {
			// The bits beyond the number's size must repeat its sign.
			if top := int8(c<<1) >> (7 - over); top != 0 && top != -1 {
				r.fail("a number has more than %d bits", bits)
				return 0
			}
		}
		if c&0x40 != 0 && shift+7 < 64 {
			n |= -1 << (shift + 7)
		}
		return n
	}
}

// count reads the length of a vector whose items take at least one byte each.
func (r *reader) count() int {
	n := r.u32()
	if n > r.left() {
		r.fail("a vector of %d items does not fit", n)
		return 0
	}
	return n
}

// items reads a count, and fails if the count exceeds most. what is the name of the items in the error.
func (r *reader) items(what string, most int) int {
	n := r.count()
	if n > most {
		r.fail("%d %s, more than %d", n, what, most)
		return 0
	}
	return n
}

func (r *reader) values(what string, most int) int {
	n := r.items(what, most)
	r.bytes(n)
	return n
}

func (r *reader) name() string { return string(r.bytes(r.u32())) }

func appendU32(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)) }

func appendS64(b []byte, n int64) []byte {
	for n < -0x40 || n >= 0x40 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n)&0x7f)
}
