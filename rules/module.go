package rules

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"dtegate/rules/abi"
)

// Module is a compiled rule module with a pool of instances. It is safe for concurrent use.
type Module struct {
	host        *Host
	compiled    wazero.CompiledModule
	description *abi.Description
	idle        chan *instance
}

// instance is one running copy; it belongs to one call at a time and dies with the first error.
type instance struct {
	module   api.Module
	memory   api.Memory
	evaluate api.Function
	buffer   uint32 // address of the message buffer
	size     uint32 // and its length
	message  []byte // the host's copy, reused
	stack    [1]uint64
}

// Load compiles a module, checks it and asks it to describe itself.
func (h *Host) Load(ctx context.Context, wasm []byte) (*Module, error) {
	if len(wasm) > h.options.MaxModule {
		return nil, fmt.Errorf("%w: it has %d bytes, more than %d", ErrModule, len(wasm), h.options.MaxModule)
	}
	compiled, err := h.runtime.CompileModule(ctx, wasm)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModule, err)
	}
	m := &Module{host: h, compiled: compiled, idle: make(chan *instance, h.options.Instances)}
	if err := checkModule(compiled); err != nil {
		_ = compiled.Close(ctx) // the fault is told already
		return nil, err
	}
	if err := m.describe(ctx); err != nil {
		_ = compiled.Close(ctx)
		return nil, err
	}
	return m, nil
}

// Description is what the module said of itself; do not change it.
func (m *Module) Description() *abi.Description { return m.description }

// Close frees the module. Calls that are under way fail.
func (m *Module) Close(ctx context.Context) error {
	for {
		select {
		case i := <-m.idle:
			_ = i.module.Close(ctx)
		default:
			return m.compiled.Close(ctx)
		}
	}
}

// instantiate starts an instance. Starting may take longer than a call: a Go guest sets its heap up.
func (m *Module) instantiate(ctx context.Context) (*instance, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*m.host.options.Timeout)
	defer cancel()
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize")
	mod, err := m.host.runtime.InstantiateModule(ctx, m.compiled, config)
	if err != nil {
		return nil, fmt.Errorf("%w: starting an instance: %w", ErrTrap, err)
	}
	return &instance{module: mod, memory: mod.Memory(), evaluate: mod.ExportedFunction("dte_evaluate")}, nil
}

func (m *Module) describe(ctx context.Context) error {
	i, err := m.instantiate(ctx)
	if err != nil {
		return err
	}
	callCtx, cancel := context.WithTimeout(ctx, m.host.options.Timeout)
	defer cancel()
	r, err := i.module.ExportedFunction("dte_describe").Call(callCtx)
	if err != nil {
		_ = i.module.Close(ctx)
		return fmt.Errorf("%w: dte_describe: %w", ErrModule, err)
	}
	text, ok := i.memory.Read(uint32(r[0]>>32), uint32(r[0]))
	if !ok || len(text) > 1<<20 {
		_ = i.module.Close(ctx)
		return fmt.Errorf("%w: dte_describe points outside the memory, or at more than 1 MiB", ErrModule)
	}
	if m.description, err = parseDescription(text); err != nil {
		_ = i.module.Close(ctx)
		return err
	}
	m.idle <- i
	return nil
}

// parseDescription reads and checks a description.
func parseDescription(text []byte) (*abi.Description, error) {
	d := new(abi.Description)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("%w: description: %w", ErrModule, err)
	}
	if d.ABI != abi.Version {
		return nil, fmt.Errorf("%w: it speaks interface %d, this host %d", ErrModule, d.ABI, abi.Version)
	}
	kinds := map[string]bool{"amount": true, "integer": true, "flag": true, "enum": true, "set": true, "present": true}
	for _, fields := range [][]abi.Field{d.Scalars, d.Columns, d.LineOutputs} {
		for _, f := range fields {
			if f.Name == "" || !kinds[f.Kind] || len(f.Values) > 62 {
				return nil, fmt.Errorf("%w: description: field %q of kind %q with %d values", ErrModule, f.Name, f.Kind, len(f.Values))
			}
		}
	}
	if len(d.Params)+len(d.Scalars)+len(d.Columns)+len(d.LineOutputs)+len(d.Summary)+len(d.Taxes) > 512 || len(d.Faults) > 512 {
		return nil, fmt.Errorf("%w: description: too many fields", ErrModule)
	}
	return d, nil
}

// Evaluate computes one document. On an error the instance is thrown away, and out means nothing.
func (m *Module) Evaluate(ctx context.Context, in *abi.Input, out *abi.Output) error {
	began := time.Now()
	i, err := m.borrow(ctx)
	if err != nil {
		m.host.metrics.failed("start")
		return err
	}
	callCtx, cancel := context.WithTimeout(ctx, m.host.options.Timeout)
	err = i.call(callCtx, in, out, m.description)
	timedOut := callCtx.Err() != nil
	cancel()
	if err != nil {
		_ = i.module.Close(context.WithoutCancel(ctx))
		if timedOut {
			m.host.metrics.failed("timeout")
			return fmt.Errorf("%w: it ran longer than %v: %w", ErrTrap, m.host.options.Timeout, err)
		}
		m.host.metrics.failed("trap")
		return err
	}
	select {
	case m.idle <- i:
	default:
		_ = i.module.Close(context.WithoutCancel(ctx))
	}
	m.host.metrics.evaluated(time.Since(began))
	return nil
}

func (m *Module) borrow(ctx context.Context) (*instance, error) {
	select {
	case i := <-m.idle:
		return i, nil
	default:
		return m.instantiate(ctx)
	}
}

// call runs dte_evaluate over in and checks the answer's every size.
func (i *instance) call(ctx context.Context, in *abi.Input, out *abi.Output, d *abi.Description) error {
	i.message = abi.AppendInput(i.message[:0], in)
	need := uint32(max(len(i.message), abi.OutputSize(in.N, len(d.LineOutputs), len(d.Summary), len(d.Taxes))))
	if need > i.size {
		need = max(need, 64<<10)
		r, err := i.module.ExportedFunction("dte_buffer").Call(ctx, uint64(need))
		if err != nil {
			return fmt.Errorf("%w: dte_buffer: %w", ErrTrap, err)
		}
		i.buffer, i.size = uint32(r[0]), need
	}
	if !i.memory.Write(i.buffer, i.message) {
		return fmt.Errorf("%w: its buffer lies outside its memory", ErrTrap)
	}
	i.stack[0] = uint64(len(i.message))
	if err := i.evaluate.CallWithStack(ctx, i.stack[:]); err != nil {
		return fmt.Errorf("%w: %w", ErrTrap, err)
	}
	length := int32(uint32(i.stack[0]))
	if length < 0 || uint32(length) > i.size {
		return fmt.Errorf("%w: it answered the length %d", ErrTrap, length)
	}
	answer, ok := i.memory.Read(i.buffer, uint32(length)) // a view, good until the next call
	if !ok {
		return fmt.Errorf("%w: its answer lies outside its memory", ErrTrap)
	}
	if err := abi.DecodeOutput(answer, out); err != nil {
		return fmt.Errorf("%w: its answer: %w", ErrTrap, err)
	}
	return checkAnswer(in, out, d)
}

// checkAnswer refuses an answer that does not fit the description.
func checkAnswer(in *abi.Input, out *abi.Output, d *abi.Description) error {
	refused := false
	for _, f := range out.Faults {
		if f.Code < 0 || f.Code >= len(d.Faults) || f.Line < -1 || f.Line >= in.N || f.Column < -1 ||
			f.Line < 0 && f.Column >= len(d.Scalars) || f.Line >= 0 && f.Column >= len(d.Columns) {
			return fmt.Errorf("%w: it names a fault that does not exist: %+v", ErrTrap, f)
		}
		refused = refused || !d.Faults[f.Code].Warning
	}
	if refused {
		return nil
	}
	if len(out.Lines) != in.N*len(d.LineOutputs) || len(out.Summary) != len(d.Summary) {
		return fmt.Errorf("%w: it answered %d line values and %d summary fields", ErrTrap, len(out.Lines), len(out.Summary))
	}
	for _, t := range out.Taxes {
		if t.Tax >= len(d.Taxes) {
			return fmt.Errorf("%w: it names tax %d", ErrTrap, t.Tax)
		}
	}
	return nil
}
