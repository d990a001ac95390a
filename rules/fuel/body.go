package fuel

import (
	"errors"
	"fmt"
	"slices"
)

// code meters every function of the code section.
func (m *module) code(body []byte) ([]byte, error) {
	r := &reader{b: body}
	n := r.items()
	if n != len(m.functions) {
		return nil, fmt.Errorf("it has %d functions and the code of %d", len(m.functions), n)
	}
	out := appendU32(make([]byte, 0, len(body)+len(body)/8), n)
	for i, t := range m.functions {
		b := r.bytes(r.u32())
		if r.err != nil {
			return nil, fmt.Errorf("code section: %w", r.err)
		}
		if len(b) > maxBody {
			return nil, fmt.Errorf("function %d has %d bytes, more than %d", m.imported+i, len(b), maxBody)
		}
		metered, err := m.function(b, m.params[t])
		if err != nil {
			return nil, fmt.Errorf("function %d: %w", m.imported+i, err)
		}
		out = append(appendU32(out, len(metered)), metered...)
	}
	if r.left() > 0 {
		return nil, errors.New("something follows the last function")
	}
	return out, nil
}

// insertion is a charge to be put into a function's code, in front of offset at.
type insertion struct {
	at     int
	region int // whose price it charges, or:
	bulk   bool
}

// function meters one function.
func (m *module) function(body []byte, params int) ([]byte, error) {
	r := &reader{b: body}
	groups := r.count()
	declared := r.at
	locals := params
	for range groups {
		locals += r.u32()
		r.byte() // the type
		if locals > maxLocals {
			return nil, fmt.Errorf("it has more than %d locals", maxLocals)
		}
	}
	if m.locals += locals; m.locals > maxAllLocals {
		return nil, fmt.Errorf("the functions have more than %d locals", maxAllLocals)
	}
	begin := r.at
	prices, insertions, branches, err := m.scan(r, locals)
	if err != nil {
		return nil, fmt.Errorf("at byte %d: %w", r.at, err)
	}
	if m.knots += branches * (branches + locals); m.knots > maxKnots {
		return nil, fmt.Errorf("up to here the control flow of the functions is too tangled to be compiled: %d of %d", m.knots, maxKnots)
	}
	bulk := slices.ContainsFunc(insertions, func(i insertion) bool { return i.bulk })
	out := make([]byte, 0, len(body)+24*len(insertions)+8)
	if bulk { // one local more, an i32
		out = append(appendU32(out, groups+1), body[declared:begin]...)
		out = append(out, 1, 0x7f)
	} else {
		out = append(out, body[:begin]...)
	}
	at := begin
	for _, i := range insertions {
		out = append(out, body[at:i.at]...)
		at = i.at
		if i.bulk {
			out = m.chargeLength(out, locals)
		} else {
			out = m.charge(out, int64(1+prices[i.region]/Grain))
		}
	}
	return append(out, body[at:]...), nil
}

// scan reads the instructions of a function: the price of each region, in instructions; where charges belong, in order;
// how many places its control flow forks or meets at. Region 0 is the function's own; each loop begins another.
func (m *module) scan(r *reader, locals int) (prices []int, insertions []insertion, branches int, err error) {
	prices = []int{0}
	insertions = []insertion{{at: r.at}}
	inside := []int{0} // the region of each open block
	for len(inside) > 0 && r.err == nil {
		at := r.at
		region := inside[len(inside)-1]
		op, price := m.instruction(r, locals)
		prices[region] += price
		switch op {
		case opBlock, opIf, opLoop, opElse, opBrIf, opBrTable:
			branches++
		}
		switch op {
		case opBlock, opIf:
			inside = append(inside, region)
		case opLoop:
			inside = append(inside, len(prices))
			insertions = append(insertions, insertion{at: r.at, region: len(prices)})
			prices = append(prices, 0)
		case opEnd:
			inside = inside[:len(inside)-1]
		case opMemoryCopy, opMemoryFill:
			insertions = append(insertions, insertion{at: at, bulk: true})
		}
	}
	if r.err == nil && r.left() > 0 {
		r.fail("something follows the function's end")
	}
	return prices, insertions, branches, r.err
}

// charge takes a price off the fuel and traps below zero.
func (m *module) charge(b []byte, price int64) []byte {
	b = m.global(b, opGlobalGet)
	b = appendS64(append(b, opI64Const), price)
	return m.settle(append(b, opI64Sub))
}

// chargeLength takes the price of a copy or fill, whose length lies on the stack and stays there.
func (m *module) chargeLength(b []byte, local int) []byte {
	b = appendU32(append(b, opLocalTee), local)
	b = m.global(b, opGlobalGet)
	b = appendU32(append(b, opLocalGet), local)
	b = append(b, opI64ExtendI32U, opI64Const, 6, opI64ShrU, opI64Sub) // 1<<6 = Grain
	return m.settle(b)
}

// settle stores the fuel that lies on the stack and traps when it is negative.
func (m *module) settle(b []byte) []byte {
	b = m.global(b, opGlobalSet)
	b = m.global(b, opGlobalGet)
	return append(b, opI64Const, 0, opI64LtS, opIf, 0x40, opUnreachable, opEnd)
}

func (m *module) global(b []byte, op byte) []byte { return appendU32(append(b, op), m.globals) }
