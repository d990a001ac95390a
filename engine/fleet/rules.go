package fleet

import (
	"context"
	"slices"

	"dtegate/engine/fleet/wire"
)

// Rules is the branch's own shelf of rule bundles, as the agent needs it. It has the last word.
type Rules interface {
	// Bundles are all that are on the shelf, or were.
	Bundles() []Bundle
	// Admit takes a bundle's file through every step of the branch's gate. An error is of the branch's own trouble: the agent tries
	// again. One that is there already is admitted.
	Admit(ctx context.Context, file []byte, o Order) (Admission, error)
	// StepBack makes a bundle of the shelf the one in force, also one that was taken off.
	StepBack(ctx context.Context, to Bundle, o Order) error
}

// Order is who wants a change, and why.
type Order struct{ Who, Reason string }

// Admission is what came of a bundle.
type Admission struct {
	Refused string // the step that refused it; "": it is on the shelf
	Reason  string // what the step said; of one that is on the shelf, what is to be known of it
}

// Where a bundle is.
type Where string

const (
	Live    Where = "live"    // in force today
	Coming  Where = "coming"  // in force from a later day
	Spare   Where = "spare"   // superseded by a newer one
	Retired Where = "retired" // taken off
	Unsound Where = "unsound" // it may not compute
)

// Off is who took a bundle off.
type Off string

const (
	OffItself   Off = "itself"   // the branch, because it did harm
	OffCentre   Off = "centre"   // this agent, by order
	OffOperator Off = "operator" // somebody in the branch
)

// Bundle is one on the shelf.
type Bundle struct {
	Digest   string `json:"digest"` // of the signed manifest
	Name     string `json:"name"`
	Version  string `json:"version"`
	Kind     string `json:"kind"` // document, event or catalogue
	Document string `json:"document"`
	Schema   int    `json:"schema,omitempty"`
	From     string `json:"from"` // first day, "2026-12-01"
	Where    Where  `json:"where"`
	// Of a retired one, who took it off and why.
	Off    Off    `json:"off,omitempty"`
	Reason string `json:"reason,omitempty"`
}

func (b *Bundle) sameGeneration(r wire.Rule) bool {
	return b.Kind == r.Bundle && b.Document == r.Document && b.Schema == r.Schema
}

// inForce reports whether a bundle is, or will be, in force.
func (b *Bundle) inForce() bool { return b.Where == Live || b.Where == Coming }

// find is a bundle of the shelf, nil when it was never there.
func find(list []Bundle, digest string) *Bundle {
	if i := slices.IndexFunc(list, func(b Bundle) bool { return b.Digest == digest }); i >= 0 {
		return &list[i]
	}
	return nil
}

// inPlace is the bundle of a rule's generation that is in force or, with none in force, to come; nil: there is none.
func inPlace(list []Bundle, r wire.Rule) (best *Bundle) {
	for i := range list {
		b := &list[i]
		if b.sameGeneration(r) && b.inForce() && (best == nil || best.Where == Coming && b.Where == Live) {
			best = b
		}
	}
	return best
}

// admissionOrder is the order in which kinds of bundles come in: the golden cases of the others need the catalogues.
var admissionOrder = []string{"catalogue", "document", "event"}

func byKind(a, b wire.Rule) int {
	return slices.Index(admissionOrder, a.Bundle) - slices.Index(admissionOrder, b.Bundle)
}
