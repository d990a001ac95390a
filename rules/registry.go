package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dtegate/rules/abi"
	"dtegate/rules/bundle"
)

// Rule is a bundle that is ready to run. Module is nil for events and catalogues.
type Rule struct {
	Bundle *bundle.Bundle
	Module *Module
	Params []int64 // in the order of the module's description
}

const moduleName = "module.wasm"

// LoadBundle compiles the bundle's module, and puts the manifest's parameters in the module's order. The manifest must
// give exactly the module's parameters.
func (h *Host) LoadBundle(ctx context.Context, b *bundle.Bundle) (*Rule, error) {
	r := &Rule{Bundle: b}
	wasm, ok := b.Parts[moduleName]
	if !ok {
		return r, nil
	}
	budget := cmp.Or(b.Manifest.Fuel, h.options.Fuel)
	if budget > h.options.MaxFuel {
		return nil, fmt.Errorf("%w: the manifest asks for %d units of fuel, at most %d are allowed", ErrModule, budget,
			h.options.MaxFuel)
	}
	var err error
	if r.Module, err = h.load(ctx, wasm, budget); err != nil {
		return nil, err
	}
	if err := r.parametrize(); err != nil {
		return nil, errors.Join(err, r.Close(ctx))
	}
	return r, nil
}

func (r *Rule) parametrize() error {
	m := &r.Bundle.Manifest
	if m.Kind == "document" && m.ABI != abi.Version {
		return fmt.Errorf("%w: the manifest names interface %d, the module speaks %d", ErrModule, m.ABI, abi.Version)
	}
	var faults []error
	values := make(map[string]int64)
	for _, p := range m.Params {
		var err error
		if values[p.Name], err = p.Fixed(); err != nil {
			faults = append(faults, fmt.Errorf("parameter %s: %w", p.Name, err))
		}
	}
	for _, p := range r.Module.Description().Params {
		v, ok := values[p.Name]
		if !ok {
			faults = append(faults, fmt.Errorf("%w: the module needs parameter %s, the manifest has none", ErrModule,
				p.Name))
		}
		r.Params = append(r.Params, v)
		delete(values, p.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		faults = append(faults, fmt.Errorf("%w: the manifest gives parameter %s, the module knows none", ErrModule,
			name))
	}
	return errors.Join(faults...)
}

// Forget releases the data that only an admission needs: the module's bytes and the golden cases.
func (r *Rule) Forget() {
	r.Bundle.Forget()
	maps.DeleteFunc(r.Bundle.Parts, func(name string, _ []byte) bool {
		return name == moduleName || strings.HasPrefix(name, "cases/")
	})
}

// Close frees the rule's module, if it has one.
func (r *Rule) Close(ctx context.Context) error {
	if r.Module == nil {
		return nil
	}
	return r.Module.Close(ctx)
}
