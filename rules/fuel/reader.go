package fuel

import "fmt"

// reader walks a part of a module. Its first fault sticks; everything read after it is zero.
type reader struct {
	b   []byte
	at  int
	err error
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
	var n uint64
	for shift := 0; ; shift += 7 {
		c := r.byte()
		n |= uint64(c&0x7f) << shift
		if c&0x80 == 0 {
			if n > 1<<32-1 {
				r.fail("a number has more than 32 bits")
				return 0
			}
			return int(n)
		}
		if shift == 28 {
			r.fail("a number is longer than 5 bytes")
			return 0
		}
	}
}

// signed skips a signed LEB128 of so many bits and tells its first byte.
func (r *reader) signed(bits int) byte {
	first := r.byte()
	c := first
	for shift := 7; c&0x80 != 0; shift += 7 {
		if shift >= bits {
			r.fail("a number is longer than %d bits", bits)
			return 0
		}
		c = r.byte()
		if over := shift + 7 - bits; over > 0 && c&0x80 == 0 {
			// The bits beyond the number's must repeat its sign.
			if top := int8(c<<1) >> (7 - over); top != 0 && top != -1 {
				r.fail("a number has more than %d bits", bits)
			}
		}
	}
	return first
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

// items is the count of a section's items, which are at most maxItems.
func (r *reader) items() int {
	n := r.count()
	if n > maxItems {
		r.fail("%d items, more than %d", n, maxItems)
		return 0
	}
	return n
}

// types skips a vector of types and tells its length, at most maxWide.
func (r *reader) types() int {
	n := r.count()
	if n > maxWide {
		r.fail("%d parameters or results, more than %d", n, maxWide)
		return 0
	}
	r.bytes(n)
	return n
}

func (r *reader) name() string { return string(r.bytes(r.u32())) }

func appendU32(b []byte, n int) []byte {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

func appendS64(b []byte, n int64) []byte {
	for n < -0x40 || n >= 0x40 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n)&0x7f)
}
