package abitest_test

import (
	"context"
	"slices"
	"testing"

	"dtegate/rules/abi"
	"dtegate/rules/abi/abitest"
	w "dtegate/rules/asmtest"
)

var few = []abi.Input{{N: 3, Lines: []int64{one, 2 * one, 3 * one}}, {N: 1, Lines: []int64{7}}}

// TestRun_Sum: a guest of 400 bytes, without any language, passes.
func TestRun_Sum(t *testing.T) {
	abitest.Run(t, w.NewSum().Module().Bytes(), abitest.Options{Documents: few})
	abitest.Run(t, w.NewSum().Module().Bytes(), abitest.Options{})
}

// TestExamine: each fault of a guest is found, by the check that exists for it.
func TestExamine(t *testing.T) {
	calls := func(n int, then ...byte) []byte { // after n calls
		return w.Join(w.I32Const(8), w.I32Const(8), w.Op(w.I32Load, 2, 0), w.I32Const(1), []byte{w.I32Add},
			w.Op(w.I32Store, 2, 0),
			w.I32Const(8), w.Op(w.I32Load, 2, 0), w.I32Const(n), []byte{w.I32GtU, w.If, w.Empty}, then, []byte{w.End})
	}
	lines := w.Join(w.I32Const(w.BufferAt), w.Op(w.I32Load, 2, 20), w.Op(w.LocalSet, 1))
	wrap := w.Join(w.Op(w.LocalGet, 3), w.Op(w.LocalGet, 4), []byte{w.I64Add}, w.Op(w.LocalSet, 3))
	for _, c := range []struct {
		name, check string
		change      func(*w.Sum)
	}{
		{"refuses everything", "documents", func(s *w.Sum) { s.Before = w.Join(w.I32Const(-1), []byte{w.Return}) }},
		{"answers by what it was asked before", "determinism", func(s *w.Sum) {
			s.Before = calls(3,
				w.Join(w.I64Const(1), w.Op(w.LocalSet, 3))...)
		}},
		{"takes 100 lines", "sizes", func(s *w.Sum) {
			s.Check = w.Join(s.Check, w.Op(w.LocalGet, 1), w.I32Const(100), []byte{w.I32GtU, w.If, w.Empty,
				w.Unreachable, w.End})
		}},
		{"traps on a negative amount", "extremes", func(s *w.Sum) {
			s.Add = w.Join(s.Add, w.Op(w.LocalGet, 4), w.I64Const(0), []byte{w.I64LtS, w.If, w.Empty, w.Unreachable,
				w.End})
		}},
		{"wraps around", "overflow", func(s *w.Sum) { s.Add = wrap }},
		{"names no line", "overflow", func(s *w.Sum) { s.Line = -2 }},
		{"believes every header", "lying headers", func(s *w.Sum) { s.Check = lines }},
		{"traps on a lie", "lying headers", func(s *w.Sum) {
			s.Check = slices.Concat(w.Op(w.LocalGet, 0), w.I32Const(40), []byte{w.I32LtU, w.If, w.Empty, w.Unreachable,
				w.End}, s.Check)
		}},
		{"takes memory", "growth", func(s *w.Sum) {
			s.Before = calls(0, w.Join(w.I32Const(1), []byte{0x40, 0,
				w.Drop})...)
		}},
		{"takes its time", "growth", func(s *w.Sum) {
			s.Before = calls(0, w.Join(w.I32Const(8), w.Op(w.I32Load, 2, 0), w.Op(w.LocalSet, 2), []byte{w.Loop,
				w.Empty},
				w.Op(w.LocalGet, 2), w.I32Const(1), []byte{w.I32Sub}, w.Op(w.LocalTee, 2), w.Op(w.BrIf, 0),
				[]byte{w.End})...)
		}},
	} {
		s := w.NewSum()
		c.change(&s)
		r, err := abitest.Examine(context.Background(), s.Module().Bytes(), abitest.Options{Documents: few, Calls: 100})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if !slices.ContainsFunc(r.Findings, func(f abitest.Finding) bool { return f.Check == c.check }) {
			t.Errorf("%s: not found by %s: %v", c.name, c.check, r.Findings)
		}
	}
	if _, err := abitest.Examine(context.Background(), w.Module{}.Bytes(), abitest.Options{}); err == nil {
		t.Error("no rule module at all was examined")
	}
}
