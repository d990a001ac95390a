package rules

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"dtegate/rules/abi"
	w "dtegate/rules/asmtest"
	"dtegate/rules/bundle"
)

func keypair(id byte) (bundle.Key, bundle.Signer) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{id}, 32))
	return bundle.Key{ID: string(id), Public: private.Public().(ed25519.PublicKey)}, bundle.Signer{ID: string(id),
		Private: private}
}

// signed packs a module with one golden case, and the total that the case expects.
func signed(t testing.TB, g w.Module, version string, fuel int64, signers ...bundle.Signer) []byte {
	t.Helper()
	return signedCases(t, g, map[string]string{"seven": "7"}, version, fuel, signers...)
}

func signedCases(t testing.TB, g w.Module, cases map[string]string, version string, fuel int64,
	signers ...bundle.Signer) []byte {
	t.Helper()
	parts := map[string][]byte{"module.wasm": g.Bytes(), "schema.json": []byte("{}"), "overlay.json": []byte("{}")}
	for name, total := range cases {
		parts["cases/"+name+".json"] = []byte(total)
	}
	data, err := bundle.Write(parts, bundle.Manifest{Name: "dte01", Version: version, Kind: "document", Document: "01",
		Schema: 2, ABI: 1, Fuel: fuel,
		Validity: map[string]bundle.Window{"00": {From: "2026-01-01"}}, Params: []bundle.Param{{Name: "rate",
			Value: "0.13", Source: "x"}}}, signers...)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// total runs a case of signed.
func total(ctx context.Context, r *Rule, golden []byte) error {
	want, err := strconv.ParseInt(string(golden), 10, 64)
	if err != nil {
		return err
	}
	var out abi.Output
	if err := r.Module.Evaluate(ctx, &abi.Input{Params: r.Params, Lines: []int64{1}, N: 1}, &out); err != nil {
		return err
	}
	if out.Summary[0] != want {
		return fmt.Errorf("total is %d, want %d", out.Summary[0], want)
	}
	return nil
}

// counting is a guest that counts its calls in its memory, and answers 7 in the first few.
func counting(honest int) w.Module {
	g := constant(7)
	total := w.Join(w.I32Const(w.BufferAt), w.I64Const(8), w.Op(w.I64Store, 3, 40)) // the summary's first field
	g.Functions[w.Evaluate].Code = w.Join(
		w.I32Const(8), w.I32Const(8), w.Op(w.I32Load, 2, 0), w.I32Const(1), []byte{w.I32Add}, w.Op(w.I32Store, 2, 0),
		g.Functions[w.Evaluate].Code,
		w.I32Const(8), w.Op(w.I32Load, 2, 0), w.I32Const(honest), []byte{w.I32GtU, w.If, w.Empty}, total, []byte{w.End})
	return g
}

// alternating is a guest that counts its calls in its memory, and answers 7 and 8 by turns.
func alternating() w.Module {
	g := constant(7)
	g.Functions[w.Evaluate].Code = w.Join(
		w.I32Const(8), w.I32Const(8), w.Op(w.I32Load, 2, 0), w.I32Const(1), []byte{w.I32Add}, w.Op(w.I32Store, 2, 0),
		g.Functions[w.Evaluate].Code,
		w.I32Const(w.BufferAt), w.I64Const(8), w.I32Const(8), w.Op(w.I32Load, 2, 0), w.I32Const(1),
		[]byte{0x71, w.I64ExtendU, w.I64Sub}, w.Op(w.I64Store, 3, 40))
	return g
}

// wordy is a guest with a fault whose message is too long for an admission.
func wordy() w.Module {
	return w.Guest(`{"abi":1,"name":"x","params":[{"name":"rate"}],"faults":[{"code":"X","message":"`+
		strings.Repeat("ñ", maxMessage+1)+`"}]}`, nil, nil, nil)
}

// TestLoadBundle_Wordy: a bundle that was admitted before messages had a limit is loaded at each start.
func TestLoadBundle_Wordy(t *testing.T) {
	_, s := keypair('1')
	b, err := bundle.Inspect(signed(t, wordy(), "2.0.1", 0, s))
	if err != nil {
		t.Fatal(err)
	}
	r, err := host(t, Options{}).LoadBundle(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAdmit(t *testing.T) {
	k1, s1 := keypair('1')
	k2, s2 := keypair('2')
	good := signed(t, constant(7), "2.0.1", 0, s1, s2)
	renamed := signed(t, constant(7), "2.0.1", 0, s1, bundle.Signer{ID: "other", Private: s2.Private})
	for _, c := range []struct {
		name   string
		data   []byte
		step   string // where it ends
		want   error
		text   string
		change func(*Check)
	}{
		{name: "good", data: good, step: StepFuel},
		{name: "signed by one of two", data: signed(t, constant(7), "2.0.1", 0, s1), step: StepSignature,
			want: bundle.ErrSignature, text: "1 of the 2 pinned keys have signed (1), 2 must"},
		{name: "another name for its key", data: renamed, step: StepFuel},
		{name: "another name for its key, pushed", data: renamed, step: StepSignature, want: bundle.ErrSignature,
			text: `sign it with --key-id 2`, change: func(c *Check) { c.Named = true }},
		{name: "the right names, pushed", data: good, step: StepFuel, change: func(c *Check) { c.Named = true }},
		{name: "not newer", data: signed(t, constant(7), "2.0.0", 0, s1, s2), step: StepVersion, want: ErrVersion,
			text: "dte01 2.0.0 is not newer than 2.0.0"},
		{name: "older, though longer", data: signed(t, constant(7), "1.10.10", 0, s1, s2), step: StepVersion,
			want: ErrVersion},
		{name: "the first of its name", data: good, step: StepFuel,
			change: func(c *Check) { c.Floor = func(*bundle.Bundle) (string, error) { return "", nil } }},
		{name: "an unreadable floor", data: good, step: StepVersion, want: errFloor,
			change: func(c *Check) { c.Floor = func(*bundle.Bundle) (string, error) { return "", errFloor } }},
		{name: "no module", data: signed(t, w.Module{}, "2.0.1", 0, s1, s2), step: StepModule, want: ErrModule},
		{name: "a long message", data: signed(t, wordy(), "2.0.1", 0, s1, s2), step: StepModule, text: "over 300 letters"},
		{name: "asks for too much fuel", data: signed(t, constant(7), "2.0.1", 1e12, s1, s2), step: StepModule,
			want: ErrModule, text: "asks for 1000000000000 units"},
		{name: "wrong cents", data: signed(t, constant(8), "2.0.1", 0, s1, s2), step: StepInterpreter,
			text: "cases/seven.json: total is 8, want 7"},
		{name: "wrong cents, compiler alone", data: signed(t, constant(8), "2.0.1", 0, s1, s2), step: StepCompiler,
			text: "total is 8, want 7", change: func(c *Check) { c.Interpreter = nil }},
		{name: "another answer to the same question", data: signed(t, counting(1), "2.0.1", 0, s1, s2),
			step: StepInterpreter, text: "cases/seven.json (the second time): total is 8"},
		{name: "an answer that depends on the case before", data: signedCases(t, alternating(),
			map[string]string{"a": "7", "b": "8"}, "2.0.1", 0, s1, s2),
			step: StepInterpreter, text: "cases/b.json (the second time): total is 7"},
		{name: "traps", data: signed(t, w.Guest("", nil, nil, nil), "2.0.1", 0, s1, s2), step: StepInterpreter,
			want: ErrTrap},
		{name: "loops", data: signed(t, w.Guest("", nil, []byte{w.Loop, w.Empty, w.Br, 0, w.End, w.Unreachable}, nil),
			"2.0.1", 0, s1, s2), step: StepInterpreter, want: ErrFuel, text: "used more than 200000 units"},
		{name: "no margin", data: signed(t, constant(7), "2.0.1", 3, s1, s2), step: StepFuel, want: ErrModule,
			text: "used 2 of 3 units"},
		{name: "enough margin", data: signed(t, constant(7), "2.0.1", 4, s1, s2), step: StepFuel},
	} {
		h, interpreter := host(t, Options{Fuel: 200_000}), host(t, Options{Engine: "interpreter", Fuel: 200_000})
		check := Check{Keys: bundle.Keys{Pinned: []bundle.Key{k1, k2}, Threshold: 2}, Interpreter: interpreter,
			Case: total,
			Floor: func(b *bundle.Bundle) (string, error) {
				return map[string]string{"dte01 2": "2.0.0"}[fmt.Sprint(b.Manifest.Name, " ", b.Manifest.Schema)], nil
			}}
		if c.change != nil {
			c.change(&check)
		}
		r, steps, err := h.Admit(context.Background(), c.data, check)
		last := steps[len(steps)-1]
		if last.Name != c.step || !errors.Is(err, last.Err) {
			t.Errorf("%s: it ended at %s with %v: %v", c.name, last.Name, last.Err, err)
		}
		if c.want == nil && c.text == "" {
			if err != nil || r == nil || len(steps) != 6 || len(h.modules) != 1 {
				t.Errorf("%s: %+v, %v", c.name, steps, err)
			}
		} else if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: want %q, got %v", c.name, c.text, err)
		} else if len(h.modules) != 0 {
			t.Errorf("%s: it left %d modules behind", c.name, len(h.modules))
		}
		if n := len(interpreter.modules); n != 0 {
			t.Errorf("%s: the interpreter holds %d modules", c.name, n)
		}
	}
}

var errFloor = errors.New("no floor")

// TestAdmit_Event: a bundle without a module passes the checks that apply to it.
func TestAdmit_Event(t *testing.T) {
	k, s := keypair('1')
	data, err := bundle.Write(map[string][]byte{"schema.json": []byte("{}"), "overlay.json": []byte("{}"),
		"cases/one.json": []byte("{}")},
		bundle.Manifest{Name: "contingencia", Version: "1.0.0", Kind: "event", Document: "contingencia",
			Validity: map[string]bundle.Window{"00": {From: "2026-01-01"}}}, s)
	if err != nil {
		t.Fatal(err)
	}
	h := host(t, Options{})
	filled := func(context.Context, *Rule, []byte) error { return nil }
	r, steps, err := h.Admit(context.Background(), data, Check{Keys: bundle.Keys{Pinned: []bundle.Key{k}}, Case: filled,
		Interpreter: h})
	if err != nil || r.Module != nil || len(steps) != 6 {
		t.Errorf("%+v, %v", steps, err)
	}
}
