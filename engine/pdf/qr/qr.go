// Package qr makes the QR code of ISO/IEC 18004: bytes, error correction level M (15 % may be smeared), versions 1 to 20, of
// which the public consultation takes 8. It is our own because the known libraries take 3 to 5 ms for it, more
// than all else on a ticket together; here it is a tenth of that.
package qr

import (
	"errors"
	"strconv"
)

// Quiet is the white border that scanners need, in modules.
const Quiet = 4

// Code is a QR code, row by row, without its white border.
type Code struct {
	size int
	dark []bool
	kept []bool // finders, timing and the like: no data, no mask
}

// By version, level M: codewords of error correction in a block, and blocks.
var (
	qrCheck  = [...]int{0, 10, 16, 26, 18, 24, 16, 18, 22, 22, 26, 30, 22, 22, 24, 24, 28, 28, 26, 26, 26}
	qrBlocks = [...]int{0, 1, 1, 1, 2, 2, 4, 4, 4, 5, 5, 5, 8, 9, 9, 10, 10, 11, 13, 14, 16}
)

var errQRLength = errors.New("too long, at most 666")

// Encode makes the QR code of a content of at most 666 bytes.
func Encode(content string) (*Code, error) {
	version, room, head := 0, 0, 0
	for {
		if version++; version == len(qrCheck) {
			return nil, errQRLength
		}
		room = qrWords(version) - qrCheck[version]*qrBlocks[version]
		if head = 12; version > 9 {
			head = 20
		}
		if head+8*len(content) <= 8*room {
			break
		}
	}
	// Mode 4 is bytes; the count, the content, four zeros, and padding follow. Both head lengths leave the
	// content half a byte off.
	data := make([]byte, 0, room+2)
	if head == 12 {
		data = append(data, 4<<4|byte(len(content)>>4))
	} else {
		data = append(data, 4<<4|byte(len(content)>>12), byte(len(content)>>4))
	}
	half := byte(len(content)) << 4
	for i := range len(content) {
		data = append(data, half|content[i]>>4)
		half = content[i] << 4
	}
	data = append(data, half)
	for pad := byte(0xEC); len(data) < room; pad ^= 0xEC ^ 0x11 {
		data = append(data, pad)
	}
	m := newMatrix(version)
	m.place(interleave(data[:room], version))
	m.mask()
	return m, nil
}

// qrWords is how many codewords a version holds.
func qrWords(version int) int {
	n := (16*version+128)*version + 64
	if version >= 2 {
		align := version/7 + 2
		n -= (25*align-10)*align - 55
		if version >= 7 {
			n -= 36
		}
	}
	return n / 8
}

// interleave splits the data into blocks, adds the check words of each, and takes words from all of them in turn.
func interleave(data []byte, version int) []byte {
	count, check := qrBlocks[version], qrCheck[version]
	short := len(data) / count
	long := count - len(data)%count // the first block with one word more
	divisor := generator(check)
	blocks, checks := make([][]byte, count), make([][]byte, count)
	for i := range blocks {
		n := short
		if i >= long {
			n++
		}
		blocks[i], data = data[:n], data[n:]
		checks[i] = remainder(blocks[i], divisor)
	}
	var out []byte
	for i := range short + 1 {
		for _, b := range blocks {
			if i < len(b) {
				out = append(out, b[i])
			}
		}
	}
	for i := range check {
		for _, c := range checks {
			out = append(out, c[i])
		}
	}
	return out
}

// times multiplies in the field of 256 elements modulo x^8+x^4+x^3+x^2+1.
func times(a, b byte) byte {
	p := 0
	for i := 7; i >= 0; i-- {
		p = p<<1 ^ (p>>7)*0x11D
		if b>>i&1 == 1 {
			p ^= int(a)
		}
	}
	return byte(p)
}

// generator is the Reed-Solomon polynomial of a degree, without its leading 1.
func generator(degree int) []byte {
	g := make([]byte, degree)
	g[degree-1] = 1
	root := byte(1)
	for range degree {
		for j := range g {
			g[j] = times(g[j], root)
			if j+1 < degree {
				g[j] ^= g[j+1]
			}
		}
		root = times(root, 2)
	}
	return g
}

func remainder(data, divisor []byte) []byte {
	r := make([]byte, len(divisor))
	for _, b := range data {
		factor := b ^ r[0]
		copy(r, r[1:])
		r[len(r)-1] = 0
		for i, d := range divisor {
			r[i] ^= times(d, factor)
		}
	}
	return r
}

// newMatrix draws what every code of a version has.
func newMatrix(version int) *Code {
	size := 17 + 4*version
	m := &Code{size, make([]bool, size*size), make([]bool, size*size)}
	for i := range size {
		m.set(6, i, i%2 == 0)
		m.set(i, 6, i%2 == 0)
	}
	for _, at := range [][2]int{{3, 3}, {size - 4, 3}, {3, size - 4}} {
		m.rings(at[0], at[1], 4)
	}
	if version > 1 {
		n := version/7 + 2
		step := (size - 13 + 2*n - 3) / (2*n - 2) * 2
		centers := []int{6}
		for i := n - 2; i >= 0; i-- {
			centers = append(centers, size-7-i*step)
		}
		for i, x := range centers {
			for j, y := range centers {
				if corner := i == 0 && (j == 0 || j == n-1) || i == n-1 && j == 0; !corner {
					m.rings(x, y, 2)
				}
			}
		}
	}
	if version >= 7 {
		word := version<<12 | bch(version, 12, versionCode)
		for i := range 18 {
			a, b := size-11+i%3, i/3
			m.set(a, b, word>>i&1 == 1)
			m.set(b, a, word>>i&1 == 1)
		}
	}
	m.format(0)
	return m
}

// The polynomials of the two protected words, and the pattern that the format is laid over.
const (
	versionCode = 0x1F25
	formatCode  = 0x537
	formatMask  = 0x5412
)

// bch is the remainder that protects the version and the format.
func bch(value, degree, polynomial int) int {
	r := value
	for range degree {
		r = r<<1 ^ (r>>(degree-1))*polynomial
	}
	return r
}

func (m *Code) set(x, y int, dark bool) {
	m.dark[y*m.size+x], m.kept[y*m.size+x] = dark, true
}

// rings draws concentric squares: a finder with its white border (radius 4), or an alignment mark (2).
func (m *Code) rings(x, y, radius int) {
	for dy := -radius; dy <= radius; dy++ {
		for dx := -radius; dx <= radius; dx++ {
			if u, v := x+dx, y+dy; u >= 0 && u < m.size && v >= 0 && v < m.size {
				ring := max(dx, -dx, dy, -dy)
				light := ring == 2 || ring == 4
				if radius == 2 {
					light = ring == 1
				}
				m.set(u, v, !light)
			}
		}
	}
}

// format writes level and mask, twice.
func (m *Code) format(mask int) {
	const levelM = 0
	value := levelM<<3 | mask
	word := (value<<10 | bch(value, 10, formatCode)) ^ formatMask
	for i := range 15 {
		dark := word>>i&1 == 1
		switch { // around the upper left finder
		case i < 6:
			m.set(8, i, dark)
		case i < 8:
			m.set(8, i+1, dark)
		case i == 8:
			m.set(7, 8, dark)
		default:
			m.set(14-i, 8, dark)
		}
		if i < 8 { // and half at each of the others
			m.set(m.size-1-i, 8, dark)
		} else {
			m.set(8, m.size-15+i, dark)
		}
	}
	m.set(8, m.size-8, true)
}

// place writes the words in double columns from the right, up and down.
func (m *Code) place(words []byte) {
	i := 0
	for right := m.size - 1; right >= 1; right -= 2 {
		if right == 6 {
			right = 5
		}
		for n := range m.size {
			y := n
			if (right+1)&2 == 0 {
				y = m.size - 1 - n
			}
			for _, x := range [2]int{right, right - 1} {
				if at := y*m.size + x; !m.kept[at] && i < 8*len(words) {
					m.dark[at] = words[i/8]>>(7-i%8)&1 == 1
					i++
				}
			}
		}
	}
}

// mask flips the data by the one of eight patterns that leaves the fewest shapes that confuse a scanner.
func (m *Code) mask() {
	best, least := 0, 0
	for pattern := range 8 {
		m.flip(pattern)
		m.format(pattern)
		if p := m.penalty(); pattern == 0 || p < least {
			best, least = pattern, p
		}
		m.flip(pattern)
	}
	m.flip(best)
	m.format(best)
}

func (m *Code) flip(pattern int) {
	for y := range m.size {
		for x := range m.size {
			flip := false
			switch pattern {
			case 0:
				flip = (x+y)%2 == 0
			case 1:
				flip = y%2 == 0
			case 2:
				flip = x%3 == 0
			case 3:
				flip = (x+y)%3 == 0
			case 4:
				flip = (x/3+y/2)%2 == 0
			case 5:
				flip = x*y%2+x*y%3 == 0
			case 6:
				flip = (x*y%2+x*y%3)%2 == 0
			case 7:
				flip = ((x+y)%2+x*y%3)%2 == 0
			}
			if at := y*m.size + x; flip && !m.kept[at] {
				m.dark[at] = !m.dark[at]
			}
		}
	}
}

// penalty counts runs, squares, shapes like a finder, and the imbalance of dark and light.
func (m *Code) penalty() int {
	p, dark := 0, 0
	for line := range m.size {
		for _, step := range [2]int{1, m.size} {
			at := line
			if step == 1 {
				at *= m.size
			}
			run, last, window := 0, false, 0
			for i := range m.size {
				d := m.dark[at+i*step]
				if d == last && i > 0 {
					if run++; run == 5 {
						p += 3
					} else if run > 5 {
						p++
					}
				} else {
					run, last = 1, d
				}
				window = window << 1 & 0x7FF
				if d {
					window |= 1
				}
				if i >= 10 && (window == 0b10111010000 || window == 0b00001011101) {
					p += 40
				}
			}
		}
	}
	for y := range m.size {
		for x := range m.size {
			at := y*m.size + x
			if m.dark[at] {
				dark++
			}
			if x > 0 && y > 0 && m.dark[at] == m.dark[at-1] && m.dark[at] == m.dark[at-m.size] && m.dark[at] == m.dark[at-m.size-1] {
				p += 3
			}
		}
	}
	n := m.size * m.size
	return p + 10*(max(20*dark-10*n, 10*n-20*dark)/n)
}

// Path is the code as one filled path of the PDF within a square whose lower left corner is x, y. One path has no
// seams between its rectangles, whatever the viewer.
func (m *Code) Path(x, y, side float64) string {
	unit := side / float64(m.size+2*Quiet)
	out := []byte("q 0 g\n")
	number := func(f float64) {
		out = strconv.AppendFloat(out, f, 'f', 3, 64)
		out = append(out, ' ')
	}
	for r := range m.size {
		for c := 0; c < m.size; c++ {
			from := c
			for c < m.size && m.dark[r*m.size+c] {
				c++
			}
			if c > from {
				number(x + unit*float64(Quiet+from))
				number(y + unit*float64(Quiet+m.size-1-r))
				number(unit * float64(c-from))
				number(unit)
				out = append(out, "re\n"...)
			}
		}
	}
	return string(append(out, "f Q"...))
}
