package fuel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"dtegate/rules/fuel"
)

// purse gives the guests of a test their budgets in slices, as package rules does.
type purse struct {
	fuel, stack api.MutableGlobal
	slice       int64         // units at once
	reserve     int64         // of the budget
	slices      int           // given since the beginning
	since       time.Duration // the thread's time when the slice was given
	longest     time.Duration // the longest processor time of a slice
}

type purseKey struct{}

// lend gives a runtime the function that metered modules import.
func lend(t testing.TB, r wazero.Runtime) {
	t.Helper()
	spent := func(ctx context.Context, _ api.Module, _ []uint64) { ctx.Value(purseKey{}).(*purse).spent() }
	b := r.NewHostModuleBuilder(fuel.ImportModule)
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(spent), nil, nil).Export(fuel.ImportName)
	if _, err := b.Instantiate(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// budget gives an instance its budget. Its functions must be called with the returned context.
func budget(m api.Module, units, slice int64) (*purse, context.Context) {
	p := &purse{fuel: m.ExportedGlobal(fuel.Export).(api.MutableGlobal),
		stack: m.ExportedGlobal(fuel.StackExport).(api.MutableGlobal), slice: slice, reserve: units}
	p.grant()
	return p, context.WithValue(context.Background(), purseKey{}, p)
}

func (p *purse) grant() {
	n := min(p.slice, p.reserve)
	p.reserve -= n
	p.fuel.Set(uint64(n))
	p.slices++
	p.since = processor()
}

func (p *purse) spent() {
	p.longest = max(p.longest, processor()-p.since)
	p.reserve += int64(p.fuel.Get())
	p.fuel.Set(0)
	switch {
	case p.reserve < 0:
		panic(errors.New("out of fuel"))
	case int64(p.stack.Get()) < 0:
		panic(errors.New("out of stack"))
	}
	p.grant()
}

// left is the fuel that the budget still has.
func (p *purse) left() int64 { return p.reserve + int64(p.fuel.Get()) }
