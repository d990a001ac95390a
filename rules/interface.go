package rules

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"dtegate/rules/abi"
	"dtegate/rules/fuel"
)

var exports = map[string]signature{
	"dte_describe": {nil, []byte{i64}},
	"dte_buffer":   errno(i32),
	"dte_evaluate": errno(i32),
}

// checkModule returns an error with one sentence for each fault that keeps a compiled module from being a rule.
func checkModule(m wazero.CompiledModule) error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrModule}, args...)...))
	}
	for _, f := range m.ImportedFunctions() {
		module, name, _ := f.Import()
		if module == fuel.ImportModule { // fuel.Meter added this import; a guest may not import it
			continue
		}
		have := signature{f.ParamTypes(), f.ResultTypes()}
		if want, ok := functions[name]; module != wasi || !ok {
			fault("it imports %s.%s, which rules do not get", module, name)
		} else if !have.is(want.signature) {
			fault("it imports %s.%s as %v, which is %v", module, name, have, want.signature)
		}
	}
	if m.ExportedMemories()["memory"] == nil {
		fault("it exports no memory called memory")
	}
	all := m.ExportedFunctions()
	for _, name := range slices.Sorted(maps.Keys(exports)) {
		f, ok := all[name]
		if !ok {
			fault("it does not export %s", name)
			continue
		}
		if have := (signature{f.ParamTypes(), f.ResultTypes()}); !have.is(exports[name]) {
			fault("it exports %s as %v; the interface says %v", name, have, exports[name])
		}
	}
	if f, ok := all["_initialize"]; ok && len(f.ParamTypes())+len(f.ResultTypes()) > 0 {
		fault("it exports _initialize as %v; it takes and gives nothing", signature{f.ParamTypes(), f.ResultTypes()})
	}
	return errors.Join(faults...)
}

func (s signature) is(o signature) bool {
	return slices.Equal(s.params, o.params) && slices.Equal(s.results, o.results)
}

// The functions that a guest gets: the ten of wasi_snapshot_preview1 that a plain Go guest imports. No function reaches
// a file, the network, the real clock or real randomness. Each call does little work, and costs as much fuel as any
// call that leaves the module.
const (
	wasi         = "wasi_snapshot_preview1"
	maxSaid      = 512 // bytes kept of a guest's output
	maxPieces    = 8   // buffers that one fd_write may pass
	maxRandom    = 256 // bytes of one random_get
	errnoSuccess = 0
	errnoBadf    = 8
	errnoInval   = 28
)

// surroundings is what an instance perceives of the outside: a clock that advances by a millisecond at each reading,
// and random numbers that are always the same. surroundings also keeps the beginning of the text that the guest writes.
type surroundings struct {
	looks  uint64
	chance *rand.PCG
	said   []byte
	meter  *meter
}

type surroundingsKey struct{}

// surround returns a context with new surroundings, for all calls of an instance.
func surround(ctx context.Context) (context.Context, *surroundings) {
	s := &surroundings{chance: rand.NewPCG(1, 2)}
	return context.WithValue(ctx, surroundingsKey{}, s), s
}

// text returns the guest's output for an error message; a Go guest's panic is in it.
func (s *surroundings) text() string {
	if len(s.said) == 0 {
		return ""
	}
	return "; it wrote " + strconv.Quote(string(s.said))
}

type function struct {
	signature signature
	// call runs the function with the parameters on the stack, and returns an errno.
	call func(*surroundings, api.Memory, []uint64) uint64
}

type signature struct{ params, results []api.ValueType }

func (s signature) String() string {
	text := func(types []api.ValueType) string {
		b := []byte{'('}
		for i, t := range types {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(b, api.ValueTypeName(t)...)
		}
		return string(append(b, ')'))
	}
	return text(s.params) + " → " + text(s.results)
}

func errno(params ...api.ValueType) signature {
	return signature{params, []api.ValueType{api.ValueTypeI32}}
}

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
)

var functions = map[string]function{
	"args_get":          {errno(i32, i32), nothing},
	"args_sizes_get":    {errno(i32, i32), none},
	"environ_get":       {errno(i32, i32), nothing},
	"environ_sizes_get": {errno(i32, i32), none},
	"sched_yield":       {errno(), nothing},
	"clock_time_get":    {errno(i32, i64, i32), clock},
	"random_get":        {errno(i32, i32), random},
	"fd_write":          {errno(i32, i32, i32, i32), write},
	"poll_oneoff":       {errno(i32, i32, i32, i32), poll},
	"proc_exit": {signature{params: []api.ValueType{i32}}, func(_ *surroundings, _ api.Memory, p []uint64) uint64 {
		panic(fmt.Errorf("it left with proc_exit(%d)", uint32(p[0]))) // the engine makes this panic the call's error
	}},
}

func defineFunctions(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder(wasi)
	for name, f := range functions {
		call := func(ctx context.Context, m api.Module, stack []uint64) {
			s, ok := ctx.Value(surroundingsKey{}).(*surroundings)
			if !ok || m.Memory() == nil {
				panic(fmt.Errorf("%s was called outside of an instance", name))
			}
			if answer := f.call(s, m.Memory(), stack); len(f.signature.results) > 0 {
				stack[0] = answer
			}
		}
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(call), f.signature.params,
			f.signature.results).Export(name)
	}
	if _, err := b.Instantiate(ctx); err != nil {
		return err
	}
	spent := func(ctx context.Context, _ api.Module, _ []uint64) {
		ctx.Value(surroundingsKey{}).(*surroundings).meter.spent()
	}
	host := r.NewHostModuleBuilder(fuel.ImportModule)
	host.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(spent), nil, nil).Export(fuel.ImportName)
	_, err := host.Instantiate(ctx)
	return err
}

func nothing(*surroundings, api.Memory, []uint64) uint64 { return errnoSuccess }

// none answers that the guest has no arguments, or no environment.
func none(_ *surroundings, m api.Memory, p []uint64) uint64 {
	return check(m.WriteUint32Le(uint32(p[0]), 0) && m.WriteUint32Le(uint32(p[1]), 0))
}

func clock(s *surroundings, m api.Memory, p []uint64) uint64 {
	s.looks++
	return check(m.WriteUint64Le(uint32(p[2]), s.looks*1e6)) // ns
}

func random(s *surroundings, m api.Memory, p []uint64) uint64 {
	if uint32(p[1]) > maxRandom {
		return errnoInval
	}
	b, ok := m.Read(uint32(p[0]), uint32(p[1]))
	for i := 0; i < len(b); i += 8 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], s.chance.Uint64())
		copy(b[i:], word[:])
	}
	return check(ok)
}

// write keeps the beginning of a guest's standard output and error, and discards the rest.
func write(s *surroundings, m api.Memory, p []uint64) uint64 {
	if fd := uint32(p[0]); fd != 1 && fd != 2 {
		return errnoBadf
	}
	if uint32(p[2]) > maxPieces {
		return errnoInval
	}
	var written uint32
	for i := range uint32(p[2]) {
		at, ok1 := m.ReadUint32Le(uint32(p[1]) + 8*i)
		length, ok2 := m.ReadUint32Le(uint32(p[1]) + 8*i + 4)
		b, ok3 := m.Read(at, length)
		if !ok1 || !ok2 || !ok3 {
			return errnoInval
		}
		s.said = append(s.said, b[:min(len(b), maxSaid-len(s.said))]...)
		written += length
	}
	return check(m.WriteUint32Le(uint32(p[3]), written))
}

// poll answers that the awaited event has happened: a guest that sleeps wakes at once.
func poll(_ *surroundings, m api.Memory, p []uint64) uint64 {
	if uint32(p[2]) != 1 {
		return errnoInval
	}
	subscription, ok1 := m.Read(uint32(p[0]), 48)
	event, ok2 := m.Read(uint32(p[1]), 32)
	if !ok1 || !ok2 {
		return errnoInval
	}
	kind := subscription[8]
	copy(event, subscription[:8]) // userdata
	clear(event[8:])
	event[10] = kind
	return check(m.WriteUint32Le(uint32(p[3]), 1))
}

func check(ok bool) uint64 {
	if !ok {
		return errnoInval
	}
	return errnoSuccess
}

const (
	maxDescription = 64 << 10 // bytes; the largest of a shipped module has 4.5 KB
	maxMessage     = 300      // letters of a fault's message, because the records of documents keep warnings
)

// parseDescription reads a module's description, and compares the description with the interface's limits. The error
// has a sentence for each fault.
func parseDescription(text []byte) (*abi.Description, error) {
	d := new(abi.Description)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields() // a misspelt field would be lost
	if err := decoder.Decode(d); err != nil {
		return nil, fmt.Errorf("%w: description: %w", ErrModule, err)
	}
	if d.ABI != abi.Version {
		return nil, fmt.Errorf("%w: it speaks interface %d, this host %d", ErrModule, d.ABI, abi.Version)
	}
	c := &checker{}
	if d.Name == "" {
		c.fault("name: is missing")
	}
	c.names("params", len(d.Params), abi.MaxWide, func(i int) string { return d.Params[i].Name })
	c.names("summary", len(d.Summary), abi.MaxWide, func(i int) string { return d.Summary[i] })
	c.names("taxes", len(d.Taxes), abi.MaxWide, func(i int) string { return d.Taxes[i] })
	c.names("faults", len(d.Faults), 512, func(i int) string { return d.Faults[i].Code })
	for i, f := range d.Faults {
		if f.Message == "" {
			c.fault("faults[%d].message: is missing", i)
		}
	}
	inputs := []string{"amount", "integer", "flag", "enum", "set", "present"}
	c.fields("scalars", d.Scalars, inputs)
	c.fields("columns", d.Columns, inputs)
	c.fields("line_outputs", d.LineOutputs, []string{"amount", "set"})
	for i, f := range d.LineOutputs {
		if f.Kind == "set" && len(d.Taxes) > abi.MaxSet {
			c.fault("line_outputs[%d]: a set of %d taxes, more than %d", i, len(d.Taxes), abi.MaxSet)
		}
	}
	return d, errors.Join(c.faults...)
}

type checker struct{ faults []error }

func (c *checker) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf("%w: description: "+format, append([]any{ErrModule}, args...)...))
}

func (c *checker) names(list string, n, most int, name func(int) string) {
	if n > most {
		c.fault("%s: %d of them, at most %d", list, n, most)
		return
	}
	seen := make(map[string]int, n)
	for i := range n {
		if first, twice := seen[name(i)]; twice {
			c.fault("%s[%d]: %q is %s[%d] already", list, i, name(i), list, first)
		}
		if seen[name(i)] = i; name(i) == "" {
			c.fault("%s[%d]: has no name", list, i)
		}
	}
}

func (c *checker) fields(list string, fields []abi.Field, kinds []string) {
	c.names(list, len(fields), abi.MaxWide, func(i int) string { return fields[i].Name })
	for i, f := range fields {
		if !slices.Contains(kinds, f.Kind) {
			c.fault("%s[%d] %s: kind %q is not one of %v", list, i, f.Name, f.Kind, kinds)
		}
		if (f.Kind == "enum") != (len(f.Values) > 0) && f.Kind != "set" {
			c.fault("%s[%d] %s: kind %q with %d values", list, i, f.Name, f.Kind, len(f.Values))
		}
		if f.Kind == "set" && len(f.Values) > abi.MaxSet {
			c.fault("%s[%d] %s: a set of %d values, more than %d", list, i, f.Name, len(f.Values), abi.MaxSet)
		}
	}
}
