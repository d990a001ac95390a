package rules

import (
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

// ErrNoRule means that no rule of this kind and document is in force yet.
var ErrNoRule = errors.New("no rule is in force")

// LoadBundle compiles the bundle's module, and puts the manifest's parameters in the module's order. The manifest must
// give exactly the module's parameters.
func (h *Host) LoadBundle(ctx context.Context, b *bundle.Bundle) (*Rule, error) {
	r := &Rule{Bundle: b}
	wasm, ok := b.Parts[moduleName]
	if !ok {
		return r, nil
	}
	budget := h.options.Fuel
	if b.Manifest.Fuel > 0 {
		budget = b.Manifest.Fuel
	}
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

// Generation is an immutable set of rules. Pick selects the rule of a day.
type Generation struct{ rules []*Rule }

// NewGeneration returns a generation. If two bundles of a document begin on one day, the later version counts. No two
// bundles of a document may have the same version.
func NewGeneration(rules ...*Rule) *Generation {
	g := &Generation{rules: slices.Clone(rules)}
	slices.SortStableFunc(g.rules, func(a, b *Rule) int {
		return bundle.Compare(a.Bundle.Manifest.Version, b.Bundle.Manifest.Version)
	})
	return g
}

// Rules lists the generation's rules, by version.
func (g *Generation) Rules() []*Rule { return g.rules }

// Pick returns the rule in force on a day (yyyy-mm-dd in El Salvador). The rule that began last is in force; of several
// rules that began on one day, the rule with the latest version. A rule past its last day stays in force until another
// begins. Error: ErrNoRule.
func (g *Generation) Pick(kind, document, ambiente, day string) (*Rule, error) {
	var best *Rule
	var from string
	for _, r := range g.rules {
		m := &r.Bundle.Manifest
		if m.Kind != kind || m.Document != document {
			continue
		}
		w, ok := m.Validity[ambiente]
		if !ok || w.From > day {
			continue
		}
		if best == nil || strings.Compare(w.From, from) >= 0 {
			best, from = r, w.From
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%w for %s %s in ambiente %s on %s", ErrNoRule, kind, document, ambiente, day)
	}
	return best, nil
}

// Begins returns the first day (yyyy-mm-dd in El Salvador) on which a rule of a kind and document is in force in an
// ambiente; "" if there is no such rule.
func (g *Generation) Begins(kind, document, ambiente string) (day string) {
	for _, r := range g.rules {
		m := &r.Bundle.Manifest
		if w, ok := m.Validity[ambiente]; ok && m.Kind == kind && m.Document == document &&
			(day == "" || w.From < day) {
			day = w.From
		}
	}
	return day
}
