package fuel

import "fmt"

// reader walks a part of a module. Its first fault sticks; everything read after it is zero.
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

// signed reads a signed LEB128 of so many bits.
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
			// The bits beyond the number's must repeat its sign.
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

// items is the count of things of a kind, which are at most so many.
func (r *reader) items(what string, most int) int {
	n := r.count()
	if n > most {
		r.fail("%d %s, more than %d", n, what, most)
		return 0
	}
	return n
}

// values skips a vector of types of values and returns its length.
func (r *reader) values(what string, most int) int {
	n := r.items(what, most)
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
