// Package bundletest makes rule bundles for tests: good ones with another version, and every kind of bad one.
package bundletest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"dtegate/plugins/plugintest"
	"dtegate/rules/abi"
	w "dtegate/rules/asmtest"
	"dtegate/rules/bundle"
)

// Change alters a bundle before it is signed.
type Change func(parts map[string][]byte, m *bundle.Manifest)

// Edition is a plugin's bundle with another version, changed and signed anew.
func Edition(t testing.TB, name, version string, changes ...Change) []byte {
	t.Helper()
	return EditionSigned(t, name, version, plugintest.Signer(), changes...)
}

// EditionSigned is Edition with another signer.
func EditionSigned(t testing.TB, name, version string, signer bundle.Signer, changes ...Change) []byte {
	t.Helper()
	parts, m := plugintest.Parts(t, name)
	parts, m.Params, m.Validity, m.Version = maps.Clone(parts), append([]bundle.Param{}, m.Params...),
		maps.Clone(m.Validity), version
	for _, change := range changes {
		change(parts, &m)
	}
	key := fmt.Sprint(name, version, signer)
	if data, ok := plain.Load(key); ok && len(changes) == 0 {
		return bytes.Clone(data.([]byte))
	}
	data := plugintest.Edition(t, name, parts, m, signer)
	if len(changes) == 0 {
		plain.Store(key, bytes.Clone(data))
	}
	return data
}

var plain sync.Map // editions without a change

// In sets the days of both ambientes.
func In(from, until string) Change {
	return func(_ map[string][]byte, m *bundle.Manifest) {
		for ambiente := range m.Validity {
			m.Validity[ambiente] = bundle.Window{From: from, Until: until}
		}
	}
}

// Param gives a parameter another value.
func Param(name, value string) Change {
	return func(_ map[string][]byte, m *bundle.Manifest) {
		for i := range m.Params {
			if m.Params[i].Name == name {
				m.Params[i].Value = value
			}
		}
	}
}

// Recompiled replaces the module by an equivalent module, which differs only in a custom section.
func Recompiled(mark string) Change {
	return func(parts map[string][]byte, _ *bundle.Manifest) {
		section := append([]byte{byte(len(mark))}, mark...)
		parts["module.wasm"] = slices.Concat(parts["module.wasm"], []byte{0, byte(len(section))}, section)
	}
}

// Rebuilt replaces the module by an equivalent module that differs even for a cache of compiled code: in a text of the
// Go runtime.
func Rebuilt(mark byte) Change {
	return func(parts map[string][]byte, _ *bundle.Manifest) {
		text := []byte("invalid memory address or nil pointer dereference")
		other := append([]byte{mark}, text[1:]...)
		parts["module.wasm"] = bytes.Replace(parts["module.wasm"], text, other, 1)
	}
}

// Cases repeats the golden cases under other names until there are the given number.
func Cases(n int) Change {
	return func(parts map[string][]byte, _ *bundle.Manifest) {
		var cases []string
		for name := range parts {
			if strings.HasPrefix(name, "cases/") {
				cases = append(cases, name)
			}
		}
		slices.Sort(cases)
		for i := range n - len(cases) {
			parts[fmt.Sprintf("cases/again-%d.json", i)] = parts[cases[i%len(cases)]]
		}
	}
}

// Refusals leaves only the golden cases that make no document.
func Refusals(parts map[string][]byte, _ *bundle.Manifest) {
	maps.DeleteFunc(parts, func(name string, data []byte) bool {
		return strings.HasPrefix(name, "cases/") && !strings.HasPrefix(name, "cases/refused")
	})
}

// Caseless removes the golden cases.
func Caseless(parts map[string][]byte, _ *bundle.Manifest) {
	maps.DeleteFunc(parts, func(name string, _ []byte) bool { return strings.HasPrefix(name, "cases/") })
}

// Pieces of code that never end well.
var (
	Trap = []byte{w.Unreachable}
	Loop = []byte{w.Loop, w.Empty, w.Br, 0, w.End, w.Unreachable}
)

// lines of the golden case of Small.
const lines = 7

// constantAt is where the answer of Constant lies: between the description and the buffer.
const constantAt = 48 << 10

// Constant is Small with a guest that answers with out, for example with the real module's answer to a test's sale. The
// guest has a thousandth of the real module's size.
func Constant(t testing.TB, name string, out *abi.Output) Change {
	t.Helper()
	r, _ := plugintest.Load(t, name, "compiler")
	answer := string(w.Answer(out, len(r.Module.Description().LineOutputs)))
	code := w.Join(w.I32Const(w.BufferAt), w.I32Const(constantAt), w.I32Const(len(answer)), []byte{0xfc, 10, 0, 0},
		w.I32Const(len(answer)), []byte{w.Return})
	return small(t, name, code, map[int]string{constantAt: answer})
}

// Small replaces the module by a guest of a few hundred bytes with the plugin's description. The guest refuses a sale
// of seven lines (the bundle's only golden case) or of the largest number of lines, and runs code for all other sales.
// The bundle passes every step of an activation. The module takes further scalars, besides the plugin's.
func Small(t testing.TB, name string, code []byte, further ...abi.Field) Change {
	t.Helper()
	return small(t, name, code, nil, further...)
}

func small(t testing.TB, name string, code []byte, data map[int]string, further ...abi.Field) Change {
	t.Helper()
	r, _ := plugintest.Load(t, name, "compiler")
	taken := *r.Module.Description()
	taken.Scalars = append(slices.Clip(taken.Scalars), further...)
	d := &taken
	description, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	other := func(n int) []byte { // code that tests whether the input has another number of lines than n
		input := abi.AppendInput(nil, &abi.Input{Params: make([]int64, len(d.Params)), Scalars: make([]int64,
			len(d.Scalars)), Lines: make([]int64, n*len(d.Columns)), N: n})
		return w.Join(w.Op(w.LocalGet, 0), w.I32Const(len(input)), []byte{0x47})
	}
	answer := string(w.Answer(&abi.Output{Faults: []abi.Fault{{Code: 0, Line: -1, Column: -1}}},
		len(d.LineOutputs)))
	at := 1024 + (len(description)+8)&^7
	g := w.Guest(string(description), nil, w.Join(
		other(lines), other(abi.MaxLines), []byte{0x71, w.If, w.Empty}, code, []byte{w.End},
		w.I32Const(w.BufferAt), w.I32Const(at), w.I32Const(len(answer)), []byte{0xfc, 10, 0, 0},
		w.I32Const(len(answer))), nil)
	g.Data[at] = answer
	maps.Copy(g.Data, data)
	line := `{"cantidad":1,"precioUni":1,"tipoItem":1,"uniMedida":59}`
	golden := fmt.Sprintf(`{"why":"seven lines","facts":{"cuerpoDocumento":[%s]},"faults":[{"path":"","code":%q}]}`,
		strings.TrimSuffix(strings.Repeat(line+",", lines), ","), d.Faults[0].Code)
	return func(parts map[string][]byte, m *bundle.Manifest) {
		Caseless(parts, m)
		m.Fuel = 100_000 // what a manifest declares: over ten times what the rule takes
		parts["module.wasm"], parts["cases/seven.json"] = g.Bytes(), []byte(golden)
	}
}
