package fuel

// Instructions that metering looks at or writes.
const (
	opUnreachable   = 0x00
	opBlock         = 0x02
	opLoop          = 0x03
	opIf            = 0x04
	opElse          = 0x05
	opEnd           = 0x0b
	opBr            = 0x0c
	opBrIf          = 0x0d
	opBrTable       = 0x0e
	opReturn        = 0x0f
	opCall          = 0x10
	opCallIndirect  = 0x11
	opDrop          = 0x1a
	opSelect        = 0x1b
	opSelectTyped   = 0x1c
	opLocalGet      = 0x20
	opLocalTee      = 0x22
	opGlobalGet     = 0x23
	opGlobalSet     = 0x24
	opTableSet      = 0x26
	opI32Load       = 0x28
	opI64Store32    = 0x3e
	opMemorySize    = 0x3f
	opMemoryGrow    = 0x40
	opI32Const      = 0x41
	opI64Const      = 0x42
	opF32Const      = 0x43
	opF64Const      = 0x44
	opI32Eqz        = 0x45
	opI64LtS        = 0x53
	opI64Sub        = 0x7d
	opI64ShrU       = 0x88
	opI64ExtendI32U = 0xad
	opI64Extend32S  = 0xc4
	opRefNull       = 0xd0
	opRefIsNull     = 0xd1
	opRefFunc       = 0xd2
	prefixed        = 0xfc
	opMemoryCopy    = prefixed<<8 | 10
	opMemoryFill    = prefixed<<8 | 11
)

// instruction reads one instruction with its immediates and tells its price. One that metering does not know is a
// fault: its length, and so what follows, would be a guess.
func (m *module) instruction(r *reader, locals int) (op, price int) {
	op, price = int(r.byte()), 1
	switch {
	case op == opBlock, op == opLoop, op == opIf:
		r.signed(33)
	case op <= 0x01, op == opElse, op == opEnd, op == opReturn, op == opDrop, op == opSelect, op == opRefIsNull,
		op >= opI32Eqz && op <= opI64Extend32S: // no immediates
	case op == opBr, op == opBrIf, op > opGlobalSet && op <= opTableSet:
		r.u32()
	case op == opRefFunc:
		m.reference(r)
	case op >= opLocalGet && op <= opLocalTee:
		if n := r.u32(); n >= locals {
			r.fail("local %d of %d", n, locals) // it would be the one that metering adds
		}
	case op == opGlobalGet, op == opGlobalSet:
		if n := r.u32(); n >= m.globals {
			r.fail("global %d of %d", n, m.globals) // it would be the fuel's own
		}
	case op == opBrTable:
		for range r.count() {
			r.u32()
		}
		r.u32()
	case op == opCall:
		if r.u32() < m.imported {
			price = crossing
		}
	case op == opCallIndirect:
		r.u32()
		r.u32()
		price = indirect
	case op == opSelectTyped:
		r.bytes(r.count())
	case op >= opI32Load && op <= opI64Store32:
		r.u32()
		r.u32()
	case op == opMemorySize, op == opMemoryGrow:
		r.zero()
		if op == opMemoryGrow {
			price = crossing
		}
	case op == opI32Const:
		r.signed(32)
	case op == opI64Const:
		r.signed(64)
	case op == opF32Const:
		r.bytes(4)
	case op == opF64Const:
		r.bytes(8)
	case op == opRefNull:
		r.byte()
	case op == prefixed:
		return prefixed<<8 | m.prefixed(r), price
	default:
		r.fail("instruction %#x is not one that rules are given", op)
	}
	return op, price
}

// prefixed reads the rest of an instruction that begins with 0xfc.
func (m *module) prefixed(r *reader) int {
	sub := r.u32()
	switch {
	case sub <= 7: // saturating conversions
	case sub == opMemoryCopy&0xff:
		r.zero()
		r.zero()
	case sub == opMemoryFill&0xff:
		r.zero()
	default:
		r.fail("instruction 0xfc %d is not one that rules are given", sub)
	}
	return sub & 0xff
}

// zero reads the index of the one memory.
func (r *reader) zero() {
	if r.byte() != 0 {
		r.fail("a memory other than the first")
	}
}
