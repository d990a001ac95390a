package rules

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"dtegate/rules/abi"
	"dtegate/rules/fuel"
)

// leastBuffer is the smallest buffer that the host requests from dte_buffer, in bytes.
const leastBuffer = 64 << 10

// instance is one running copy of a module, for one call at a time. It is closed after the first error.
type instance struct {
	code     *code
	module   api.Module
	memory   api.Memory
	meter    meter
	evaluate api.Function
	context  context.Context // has the surroundings for the host's functions
	around   *surroundings
	buffer   uint32 // address of the message buffer
	size     uint32 // length of the message buffer
	message  []byte // the encoded message; its memory is reused
	stack    [1]uint64
}

// instantiate starts an instance in the module's room. A Go guest sets up its heap now.
func (c *code) instantiate(ctx context.Context, r *room) (*instance, error) {
	i := &instance{code: c}
	i.context, i.around = surround(context.WithoutCancel(ctx))
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	var err error
	if i.module, err = r.runtime.InstantiateModule(i.context, r.compiled, config); err != nil {
		return nil, fmt.Errorf("%w: starting an instance: %s", ErrTrap, firstLine(err))
	}
	i.memory, i.evaluate = i.module.Memory(), i.module.ExportedFunction("dte_evaluate")
	global := func(name string) api.MutableGlobal { return i.module.ExportedGlobal(name).(api.MutableGlobal) }
	// fuel.Meter has added these globals.
	i.meter = meter{fuel: global(fuel.Export), stack: global(fuel.StackExport), limit: c.host.options.Timeout}
	i.around.meter = &i.meter
	for _, name := range []string{fuel.StartExport, "_initialize"} {
		start := i.module.ExportedFunction(name)
		if start == nil {
			continue
		}
		budget := c.host.options.StartFuel
		i.meter.begin(budget)
		_, err := start.Call(i.context)
		if _, err := i.leave(budget, name, err); err != nil {
			return nil, errors.Join(err, i.close())
		}
	}
	return i, nil
}

func (i *instance) close() error { return i.module.Close(i.context) }

// leave ends a call that began with budget and returned err. what is the name of the called function. leave returns the
// used fuel, or why the call failed. Calls that share a budget also share begin and leave.
func (i *instance) leave(budget int64, what string, err error) (used int64, _ error) {
	left := i.meter.end()
	switch {
	case err == nil || errors.Is(err, ErrTrap):
		return budget - left, err
	case left < 0:
		return 0, fmt.Errorf("%w: %s used more than %d units", ErrFuel, what, budget)
	case int64(i.meter.stack.Get()) < 0:
		return 0, fmt.Errorf("%w: %s used more than %d bytes of stack", ErrTrap, what, fuel.Stack)
	case i.meter.late:
		return 0, fmt.Errorf("%w: %s worked longer than %v, with %d of %d units left", ErrTimeout, what, i.meter.limit,
			left, budget)
	}
	return 0, fmt.Errorf("%w: %s: %s%s", ErrTrap, what, firstLine(err), i.around.text())
}

// firstLine returns the first line of an error. The engine's stack trace follows; it has numbers instead of names.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func (i *instance) describe() ([]byte, error) {
	budget := i.code.host.options.Fuel
	i.meter.begin(budget)
	r, err := i.module.ExportedFunction("dte_describe").Call(i.context)
	if _, err := i.leave(budget, "dte_describe", err); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModule, err)
	}
	at, length := uint32(r[0]>>32), uint32(r[0])
	if length > maxDescription {
		return nil, fmt.Errorf("%w: dte_describe points at %d bytes, more than %d", ErrModule, length, maxDescription)
	}
	text, ok := i.memory.Read(at, length)
	if !ok {
		return nil, fmt.Errorf("%w: dte_describe points at %d bytes at %d, outside its memory", ErrModule, length, at)
	}
	return text, nil
}

// call runs dte_evaluate on the input, within a budget, and checks every size in the answer. It returns the used fuel.
func (i *instance) call(in *abi.Input, out *abi.Output, budget int64) (used int64, err error) {
	d := i.code.description
	i.message = abi.AppendInput(i.message[:0], in)
	answer, used, err := i.exchange(abi.OutputSize(in.N, len(d.LineOutputs), len(d.Summary), len(d.Taxes)),
		len(i.message), budget)
	if err != nil {
		return 0, err
	}
	if err := decode(answer, out); err != nil {
		return 0, fmt.Errorf("%w: its answer: %w", ErrTrap, err)
	}
	return used, checkAnswer(in, out, d)
}

// exchange writes the message into the guest, lets the guest evaluate the first length bytes and returns the answer.
// The buffer has room bytes or more. The answer is a view of the guest's memory, valid until the next call.
func (i *instance) exchange(room, length int, budget int64) (answer []byte, used int64, err error) {
	i.around.said = i.around.said[:0]
	i.meter.begin(budget)
	what, err := i.run(room, length)
	if used, err = i.leave(budget, what, err); err != nil {
		return nil, 0, err
	}
	status := int32(uint32(i.stack[0]))
	switch {
	case status < 0:
		return nil, used, fmt.Errorf("%w: %w: dte_evaluate returned %d, and a negative number is for a message that "+
			"makes no sense", ErrTrap, ErrRefused, status)
	case uint32(status) > i.size:
		return nil, used, fmt.Errorf("%w: dte_evaluate returned %d, the length of its answer, and the buffer has %d "+
			"bytes", ErrTrap, status, i.size)
	}
	answer, ok := i.memory.Read(i.buffer, uint32(status))
	if !ok {
		return nil, used, fmt.Errorf("%w: its answer lies outside its memory", ErrTrap)
	}
	return answer, used, nil
}

// run makes the buffer large enough, writes the message into it and calls dte_evaluate. The result what names the
// function that run called last.
func (i *instance) run(room, length int) (what string, err error) {
	if need := uint32(max(len(i.message), room)); need > i.size {
		need = max(need, leastBuffer)
		r, err := i.module.ExportedFunction("dte_buffer").Call(i.context, uint64(need))
		if err != nil {
			return "dte_buffer", err
		}
		if uint32(r[0]) == 0 {
			return "dte_buffer", fmt.Errorf("%w: dte_buffer(%d) answered 0, which is not an address: it has no room "+
				"for so many bytes, and the host asks for %d at least", ErrTrap, need, leastBuffer)
		}
		i.buffer, i.size = uint32(r[0]), need
		i.meter.stack.Set(fuel.Stack)
	}
	if !i.memory.Write(i.buffer, i.message) {
		return "dte_buffer", fmt.Errorf("%w: the message of %d bytes does not fit: dte_buffer answered %d, and the "+
			"memory ends at %d", ErrTrap, len(i.message), i.buffer, i.memory.Size())
	}
	i.stack[0] = uint64(uint32(length))
	return "dte_evaluate", i.evaluate.CallWithStack(i.context, i.stack[:])
}

func checkAnswer(in *abi.Input, out *abi.Output, d *abi.Description) error {
	refused := false
	for _, f := range out.Faults {
		if f.Code < 0 || f.Code >= len(d.Faults) || f.Line < -1 || f.Line >= in.N || f.Column < -1 ||
			f.Line < 0 && f.Column >= len(d.Scalars) || f.Line >= 0 && f.Column >= len(d.Columns) {
			return fmt.Errorf("%w: its answer names a fault that the description or the message has not: code %d of "+
				"%d, line %d of %d, column %d (of %d columns; of %d scalars where line is -1)",
				ErrTrap, f.Code, len(d.Faults), f.Line, in.N, f.Column, len(d.Columns), len(d.Scalars))
		}
		refused = refused || !d.Faults[f.Code].Warning
	}
	if refused {
		return nil
	}
	if len(out.Lines) != in.N*len(d.LineOutputs) || len(out.Summary) != len(d.Summary) {
		return fmt.Errorf("%w: its answer has %d line values and %d summary fields: a document that is not refused "+
			"has %d × %d and all %d", ErrTrap,
			len(out.Lines), len(out.Summary), in.N, len(d.LineOutputs), len(d.Summary))
	}
	for _, t := range out.Taxes {
		if t.Tax >= len(d.Taxes) {
			return fmt.Errorf("%w: its answer names tax %d, and the description has %d", ErrTrap, t.Tax, len(d.Taxes))
		}
	}
	return nil
}

// decode reads an answer into out, reusing its slices. An error names the broken rule of rules/abi/README.md, section
// Answer.
func decode(answer []byte, out *abi.Output) error {
	if len(answer) < abi.Header {
		return fmt.Errorf("%d bytes, and the header alone has %d", len(answer), abi.Header)
	}
	word := func(b []byte, at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	if magic, version := word(answer, 0), word(answer, 4); magic != abi.Magic || version != abi.Version {
		return fmt.Errorf("it begins with %#x and %d, want %#x and %d at the offsets 0 and 4", magic, version,
			uint32(abi.Magic), abi.Version)
	}
	var n [5]int
	for i, count := range [...]struct {
		what string
		most int
	}{{"line outputs", abi.MaxWide}, {"lines", abi.MaxLines}, {"summary fields", abi.MaxWide}, {"taxes", abi.MaxWide},
		{"faults", abi.MaxFaults}} {
		if n[i] = int(word(answer, 8+4*i)); n[i] > count.most {
			return fmt.Errorf("%d %s at the offset %d, at most %d", n[i], count.what, 8+4*i, count.most)
		}
	}
	if want := abi.Header + 8*(n[1]*n[0]+n[2]+2*n[3]) + 16*n[4]; len(answer) != want {
		return fmt.Errorf("%d bytes; 32 + 8(no + m + 2t) + 16f is %d with o %d, n %d, m %d, t %d, f %d", len(answer),
			want, n[0], n[1], n[2], n[3], n[4])
	}
	out.Lines = slices.Grow(out.Lines[:0], n[1]*n[0])[:n[1]*n[0]]
	out.Summary = slices.Grow(out.Summary[:0], n[2])[:n[2]]
	out.Taxes, out.Faults = out.Taxes[:0], out.Faults[:0]
	b := answer[abi.Header:]
	b = b[copy(abi.Bytes(out.Lines), b):]
	b = b[copy(abi.Bytes(out.Summary), b):]
	for ; n[3] > 0; n[3]-- {
		index := binary.LittleEndian.Uint64(b)
		if index >= abi.MaxWide {
			return errors.New("the index of a tax is negative or too large")
		}
		out.Taxes = append(out.Taxes, abi.Tax{Tax: int(index), Amount: int64(binary.LittleEndian.Uint64(b[8:]))})
		b = b[16:]
	}
	for ; len(b) > 0; b = b[16:] {
		out.Faults = append(out.Faults, abi.Fault{Code: int(int32(word(b, 0))), Line: int(int32(word(b, 4))),
			Column: int(int32(word(b, 8)))})
	}
	return nil
}

// Probe is one instance of a module, for callers such as package abitest that also send wrong messages. It must not be
// used concurrently.
type Probe struct{ i *instance }

// Probe starts an instance for the caller. The caller must close the Probe.
func (m *Module) Probe(ctx context.Context) (*Probe, error) {
	if m.closed.Load() {
		return nil, ErrClosed
	}
	i, err := m.code.add(ctx)
	if err != nil {
		return nil, err
	}
	return &Probe{i}, nil
}

// Send writes a message into the guest's buffer and calls the guest with length as the message's length, which may be
// wrong on purpose. The buffer has room bytes or more for the answer. Send returns the answer, valid until the next
// call, and the fuel used. If the guest refuses the message, the error is ErrRefused. After any other error the Probe
// is unusable.
func (p *Probe) Send(message []byte, room, length int, budget int64) (answer []byte, used int64, err error) {
	p.i.message = append(p.i.message[:0], message...)
	return p.i.exchange(room, length, budget)
}

// Memory returns the size of the guest's memory in bytes.
func (p *Probe) Memory() uint32 { return p.i.memory.Size() }

func (p *Probe) Close(ctx context.Context) error { return p.i.code.remove(ctx, p.i) }
