package rules

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tetratelabs/wazero"

	"dtegate/rules/fuel"
)

// exports are the functions that every module has.
var exports = map[string]signature{
	"dte_describe": {nil, []byte{i64}},
	"dte_buffer":   errno(i32),
	"dte_evaluate": errno(i32),
}

// checkModule says, a sentence a fault, why a compiled module cannot be a rule.
func checkModule(m wazero.CompiledModule) error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrModule}, args...)...))
	}
	for _, f := range m.ImportedFunctions() {
		module, name, _ := f.Import()
		if module == fuel.ImportModule { // fuel.Meter has put it there, and refuses a guest that asks for it
			continue
		}
		have := signature{f.ParamTypes(), f.ResultTypes()}
		if want, ok := functions[name]; module != wasi || !ok {
			fault("it imports %s.%s, which rules are not given", module, name)
		} else if !have.is(want.signature) {
			fault("it imports %s.%s as %v, which is %v", module, name, have, want)
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
