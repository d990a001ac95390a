package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"dtegate/rules/bundle"
)

// ErrVersion means that a bundle's version is not higher than every version that was in force here.
var ErrVersion = errors.New("the version is not newer than one that was in force here")

// Check has the conditions that a bundle must meet before it may be activated.
type Check struct {
	Keys bundle.Keys
	// Named requires that the signatures call their keys by the names in Keys: a push then finds a misspelt name.
	Named bool
	// Floor returns the version that the bundle's version must exceed, or "" if any version is good. An error of Floor
	// ends the admission. If Floor is nil, any version is good.
	Floor func(*bundle.Bundle) (string, error)
	// Interpreter, if not nil, runs the golden cases first: compiled code computes a document only after they have
	// passed.
	Interpreter *Host
	// Case runs one golden case and compares the output byte by byte. Unless Case is nil, the bundle of a document or
	// an event must have a golden case.
	Case func(ctx context.Context, r *Rule, golden []byte) error
	// Pace is called between two pieces of work and may pause to let other work run. Nil: no pauses.
	Pace func()
}

// Names of the steps, in their order.
const (
	StepSignature   = "signature"   // enough pinned keys signed, no part was altered, the manifest is well-formed
	StepVersion     = "version"     // the version is above Check.Floor
	StepModule      = "module"      // metering and compiling; imports, exports, description and parameters are right
	StepInterpreter = "interpreter" // the golden cases, interpreted
	StepCompiler    = "compiler"    // the golden cases in the host's own engine
	StepFuel        = "fuel"        // the budget exceeds the fuel of the cases by a margin
)

// FuelMargin is the smallest permitted ratio of a bundle's budget to the most fuel that one of its golden cases used. A
// ratio of ten is good. A margin is needed because the fuel of a call depends a little on the instance's earlier calls.
const FuelMargin = 2

// Step is a step that a bundle passed or failed.
type Step struct {
	Name   string  `json:"name"`
	Detail string  `json:"detail,omitempty"` // for people
	MS     float64 `json:"ms"`
	Error  string  `json:"error,omitempty"`
	Err    error   `json:"-"` // nil: passed
}

// Run runs a step and notes how long it took.
func (s *Step) Run(run func() (detail string, err error)) error {
	began := time.Now()
	if s.Detail, s.Err = run(); s.Err != nil {
		s.Error = s.Err.Error()
	}
	s.MS = float64(time.Since(began).Microseconds()) / 1000
	return s.Err
}

// Admit takes a bundle through the steps until one fails. It returns the rule, ready to run, and the steps that ran.
// The error is that of the last step. The rules in force do not change. Admit takes seconds: never call it while a
// request waits.
func (h *Host) Admit(ctx context.Context, data []byte, c Check) (*Rule, []Step, error) {
	a := &admission{host: h, check: c, data: data}
	for _, s := range []struct {
		name string
		run  func(context.Context) (detail string, err error)
	}{{StepSignature, a.signature}, {StepVersion, a.version}, {StepModule, a.module}, {StepInterpreter, a.interpreter},
		{StepCompiler, a.compiler}, {StepFuel, a.fuel}} {
		step := Step{Name: s.name}
		err := step.Run(func() (string, error) { return s.run(ctx) })
		a.steps = append(a.steps, step)
		a.callPace()
		if err != nil {
			err = fmt.Errorf("%s: %w", s.name, err)
			if a.rule != nil {
				err = errors.Join(err, a.rule.Close(ctx))
			}
			return nil, a.steps, err
		}
	}
	return a.rule, a.steps, nil
}

type admission struct {
	host   *Host
	check  Check
	data   []byte
	bundle *bundle.Bundle
	rule   *Rule
	steps  []Step
}

func (a *admission) callPace() {
	if a.check.Pace != nil {
		a.check.Pace()
	}
}

func (a *admission) signature(context.Context) (string, error) {
	var err error
	if a.bundle, err = a.check.Keys.Read(a.data); err != nil {
		return "", err
	}
	if misnamed := a.check.Keys.Misnamed(a.bundle); a.check.Named && misnamed != "" {
		return "", fmt.Errorf("%w: %s", bundle.ErrSignature, misnamed)
	}
	m := &a.bundle.Manifest
	return fmt.Sprintf("%s %s (%.12s) signed by %v", m.Name, m.Version, a.bundle.Digest, a.bundle.Signers), nil
}

func (a *admission) version(context.Context) (string, error) {
	if a.check.Floor == nil {
		return "no floor", nil
	}
	m := &a.bundle.Manifest
	floor, err := a.check.Floor(a.bundle)
	if err != nil {
		return "", fmt.Errorf("reading the highest version that was in force: %w", err)
	}
	if floor == "" {
		return "the first", nil
	}
	if bundle.Compare(m.Version, floor) <= 0 {
		return "", fmt.Errorf("%w: %s %s is not newer than %s, which was live here", ErrVersion, m.Name, m.Version,
			floor)
	}
	return "after " + floor, nil
}

func (a *admission) module(ctx context.Context) (string, error) {
	var err error
	if a.rule, err = a.host.LoadBundle(ctx, a.bundle); err != nil {
		return "", err
	}
	if a.rule.Module == nil {
		return "none", nil
	}
	d := a.rule.Module.Description()
	for i, f := range d.Faults { // here only: earlier versions admitted longer messages
		if utf8.RuneCountInString(f.Message) > maxMessage {
			return "", fmt.Errorf("%w: description: faults[%d].message: over %d letters", ErrModule, i, maxMessage)
		}
	}
	return fmt.Sprintf("%s: %d parameters, %d columns, %d taxes, %d faults", d.Name, len(d.Params), len(d.Columns),
		len(d.Taxes), len(d.Faults)), nil
}

func (a *admission) interpreter(ctx context.Context) (string, error) {
	if a.check.Interpreter == nil || a.rule.Module == nil {
		return "not asked for", nil
	}
	r, err := a.check.Interpreter.LoadBundle(ctx, a.bundle)
	if err != nil {
		return "", err
	}
	a.callPace()
	detail, err := a.cases(ctx, r)
	return detail, errors.Join(err, r.Close(ctx))
}

func (a *admission) compiler(ctx context.Context) (string, error) {
	if a.check.Case != nil && a.bundle.Manifest.Kind != "catalogue" && len(a.bundle.Cases()) == 0 {
		return "", fmt.Errorf("%w: it has no golden cases", bundle.ErrFormat)
	}
	return a.cases(ctx, a.rule)
}

// cases runs all golden cases twice, the second time in reverse order, to find a module whose answer depends on earlier
// calls.
func (a *admission) cases(ctx context.Context, r *Rule) (string, error) {
	names := a.bundle.Cases()
	if a.check.Case == nil {
		return "not asked for", nil
	}
	run := func(pass string) error {
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := a.check.Case(ctx, r, a.bundle.Parts[name]); err != nil {
				return fmt.Errorf("%s%s: %w", name, pass, err)
			}
			a.callPace()
		}
		return nil
	}
	if err := run(""); err != nil {
		return "", err
	}
	slices.Reverse(names)
	if err := run(" (the second time)"); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d golden cases, twice", len(names)), nil
}

func (a *admission) fuel(context.Context) (string, error) {
	if a.rule.Module == nil {
		return "none", nil
	}
	peak, budget := a.rule.Module.Peak(), a.rule.Module.Fuel()
	if peak*FuelMargin > budget {
		return "", fmt.Errorf("%w: a golden case used %d of %d units; the manifest's fuel must be at least %d times "+
			"as much, preferably ten times", ErrModule, peak, budget, FuelMargin)
	}
	return fmt.Sprintf("at most %d of %d units", peak, budget), nil
}
