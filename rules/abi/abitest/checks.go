package abitest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"dtegate/rules"
	"dtegate/rules/abi"
)

// refusal is the first fault that refuses the document.
func (x *examination) refusal(out *abi.Output) (abi.Fault, bool) {
	i := slices.IndexFunc(out.Faults, func(f abi.Fault) bool { return !x.report.Description.Faults[f.Code].Warning })
	if i < 0 {
		return abi.Fault{}, false
	}
	return out.Faults[i], true
}

// takes: the module accepts the documents, and no amount of its answers is absent.
func (x *examination) takes(ctx context.Context) error {
	var out abi.Output
	for i := range x.documents {
		for _, m := range x.engines {
			if err := m.Evaluate(ctx, &x.documents[i], &out); err != nil {
				return fmt.Errorf("document %d: %w", i, err)
			}
			if f, refused := x.refusal(&out); refused {
				x.find("document %d is refused: %+v %s", i, f, x.report.Description.Faults[f.Code].Code)
			}
			if slices.Contains(out.Lines, abi.Absent) || slices.Contains(out.Summary, abi.Absent) {
				x.find("document %d: an amount of the answer is −2⁶³", i)
			}
		}
	}
	return nil
}

// determinism: the same bytes and the same fuel in both engines, and the same bytes whatever the earlier calls were.
func (x *examination) determinism(ctx context.Context) error {
	var probes []*rules.Probe
	for _, m := range x.engines {
		p, err := m.Probe(ctx)
		if err != nil {
			return err
		}
		defer p.Close(ctx)
		probes = append(probes, p)
	}
	all := slices.Concat(x.documents, x.made)
	first := make([][]byte, len(all))
	for turn := range 3 * len(all) {
		i := turn % len(all)
		if turn/len(all) == 1 { // the second round goes backwards
			i = len(all) - 1 - i
		}
		var used [2]int64
		for e, p := range probes {
			answer, fuel, err := x.send(p, abi.AppendInput(nil, &all[i]), -1)
			if err != nil {
				return fmt.Errorf("input %d: %w", i, err)
			}
			if first[i] == nil {
				first[i] = bytes.Clone(answer)
			} else if !bytes.Equal(answer, first[i]) {
				x.find("input %d: it answers %x, and before %x", i, answer, first[i])
			}
			used[e] = fuel
		}
		if used[0] != used[1] {
			x.find("input %d: it used %d units compiled and %d interpreted", i, used[0], used[1])
		}
	}
	return nil
}

// send sends a message to a probe; length -1 is the true length.
func (x *examination) send(p *rules.Probe, message []byte, length int) ([]byte, int64, error) {
	if length < 0 {
		length = len(message)
	}
	d := x.report.Description
	room := abi.OutputSize(abi.MaxLines, len(d.LineOutputs), len(d.Summary), len(d.Taxes))
	return p.Send(message, room, length, x.engines[0].Fuel())
}

// sizes: no line, and as many lines as are allowed, are answered within the budget.
func (x *examination) sizes(ctx context.Context) error {
	for _, in := range slices.Concat(x.documents, x.made) {
		width := len(x.report.Description.Columns)
		for _, n := range []int{0, abi.MaxLines} {
			big := in
			if n == 0 {
				big.Lines, big.N = nil, 0
			} else if in.N > 0 && width > 0 {
				big = repeated(in, n)
			}
			for _, m := range x.engines {
				if err := m.Evaluate(ctx, &big, new(abi.Output)); err != nil {
					return fmt.Errorf("%d lines: %w", big.N, err)
				}
			}
		}
	}
	return nil
}

// extremes: whatever numbers the facts hold, the module answers amounts or existing faults, the same in both engines.
func (x *examination) extremes(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(9, 2))
	all := slices.Concat(x.documents, x.made)
	for range 300 {
		in := extreme(rng, x.report.Description, all[rng.IntN(len(all))])
		var outs [2]abi.Output
		for e, m := range x.engines {
			if err := m.Evaluate(ctx, &in, &outs[e]); err != nil {
				return fmt.Errorf("%+v: %w", in, err)
			}
		}
		if !same(&outs[0], &outs[1]) {
			x.find("%+v: compiled %+v, interpreted %+v", in, outs[0], outs[1])
		}
	}
	return nil
}

func same(a, b *abi.Output) bool {
	return slices.Equal(a.Lines, b.Lines) && slices.Equal(a.Summary, b.Summary) && slices.Equal(a.Taxes, b.Taxes) &&
		slices.Equal(a.Faults, b.Faults)
}

// overflow: a document of three lines with the largest amounts does not fit, and its refusal names a line.
func (x *examination) overflow(ctx context.Context) error {
	d := x.report.Description
	for i, in := range x.documents {
		if in.N == 0 || !slices.ContainsFunc(d.Columns, func(f abi.Field) bool {
			return f.Kind == "amount" && f.Required
		}) {
			continue
		}
		in = repeated(in, 3)
		for j := range in.Lines {
			if d.Columns[j%len(d.Columns)].Kind == "amount" && in.Lines[j] != abi.Absent {
				in.Lines[j] = maxAmount
			}
		}
		var out abi.Output
		if err := x.engines[0].Evaluate(ctx, &in, &out); err != nil {
			return fmt.Errorf("document %d: %w", i, err)
		}
		if f, refused := x.refusal(&out); !refused {
			x.find("document %d with amounts of 92,000,000,000.00 is taken: %v", i, out.Summary)
		} else if f.Line < 0 {
			x.find("document %d with amounts of 92,000,000,000.00 is refused with %s, which names no line", i,
				d.Faults[f.Code].Code)
		}
	}
	return nil
}

// liars: a message with a wrong or missing header is refused by a negative length, and the next message is answered as
// usual.
func (x *examination) liars(ctx context.Context) error {
	in := slices.Concat(x.documents, x.made)[0]
	good := abi.AppendInput(nil, &in)
	p, err := x.engines[0].Probe(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = p.Close(ctx) }()
	want, _, err := x.send(p, good, -1)
	if err != nil {
		return err
	}
	want = bytes.Clone(want)
	for _, lie := range lies(good, in.N) {
		if _, _, err := x.send(p, lie.message, lie.length); !errors.Is(err, rules.ErrRefused) {
			x.find("%s: it should answer a negative length: %v", lie.name, err)
			if err != nil { // the instance cannot be used any more
				_ = p.Close(ctx)
				if p, err = x.engines[0].Probe(ctx); err != nil {
					return err
				}
			}
		}
		if got, _, err := x.send(p, good, -1); err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("after %s it answers a good message with %x, %w", lie.name, got, err)
		}
	}
	return nil
}

type lie struct {
	name    string
	message []byte
	length  int // -1: the message's own
}

// lies are messages that no host sends.
func lies(good []byte, lines int) []lie {
	at := func(name string, offset int, value uint32) lie {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[offset:], value)
		return lie{name, b, -1}
	}
	params := binary.LittleEndian.Uint32(good[8:])
	scalars := binary.LittleEndian.Uint32(good[12:])
	return []lie{
		{"no message", good, 0},
		{"half a header", good, 16},
		{"a message that ends early", good, len(good) - 8},
		{"a message that ends within a number", good, len(good) - 1},
		{"a message longer than its header says", append(bytes.Clone(good), make([]byte, 8)...), -1},
		{"a length beyond the buffer", good, 1 << 30},
		{"a negative length", good, 1<<32 - 1},
		at("another magic number", 0, 0x32455444),
		at("another version", 4, abi.Version+1),
		at("one parameter more", 8, params+1),
		at("2³²−1 parameters", 8, 1<<32-1),
		at("one scalar more", 12, scalars+1),
		at("2³¹ scalars", 12, 1<<31),
		at("2³² bytes of scalars", 12, 1<<29+scalars),
		at("one line more", 20, uint32(lines)+1),
		at("2³²−1 lines", 20, 1<<32-1),
		at("2³⁰ lines of 2³² columns", 16, 1<<30),
		tooManyLines(good),
	}
}

// tooManyLines is a message of 2001 lines, otherwise correct.
func tooManyLines(good []byte) lie {
	b := bytes.Clone(good[:32+8*(binary.LittleEndian.Uint32(good[8:])+binary.LittleEndian.Uint32(good[12:]))])
	columns := binary.LittleEndian.Uint32(good[16:])
	binary.LittleEndian.PutUint32(b[20:], abi.MaxLines+1)
	return lie{fmt.Sprintf("%d lines", abi.MaxLines+1), append(b, make([]byte, 8*columns*(abi.MaxLines+1))...), -1}
}

// growth: once the module has warmed up, its memory does not grow from call to call, and its fuel by a quarter at most.
// A guest that collects its garbage has twice as many calls to reach its usual size.
func (x *examination) growth(ctx context.Context) error {
	in := slices.Concat(x.documents, x.made)[0]
	message := abi.AppendInput(nil, &in)
	p, err := x.engines[0].Probe(ctx)
	if err != nil {
		return err
	}
	defer p.Close(ctx)
	calls := func(n int) (most int64, err error) {
		for range n {
			_, used, err := x.send(p, message, -1)
			if err != nil {
				return 0, err
			}
			most = max(most, used)
		}
		return most, nil
	}
	before, err := calls(2 * x.options.Calls)
	if err != nil {
		return err
	}
	memory := p.Memory()
	after, err := calls(x.options.Calls)
	if err != nil {
		return err
	}
	if grown := p.Memory() - memory; grown > 0 {
		x.find("its memory grew by %d bytes in %d calls", grown, x.options.Calls)
	}
	if after > before+before/4 {
		x.find("its fuel grows from call to call: at most %d units at first, %d after %d calls", before, after,
			x.options.Calls)
	}
	return nil
}
