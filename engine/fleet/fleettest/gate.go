package fleettest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"dtegate/engine/fleet"
	"dtegate/rules/bundle"
)

// Gate is a shelf of rules that computes nothing. Like the branch's own shelf it admits bundles by the keys, the
// version floor and the dates, and it remembers what a store would. It is for chains of thousands of boxes, and for
// crashes at every step.
type Gate struct {
	Keys     bundle.Keys
	Ambiente string
	// Today is a day, "2026-11-23".
	Today func() string
	// Refuse returns why a bundle that passes the checks is refused; nil, or "": it is admitted.
	Refuse func(*bundle.Bundle) string
	// Ends is the last day of bundles, by "name version": after it, nobody goes back to them.
	Ends map[string]string
	// Commit is called before and after each durable change. Nil: no call.
	Commit func(what string, done bool)

	mu   sync.Mutex
	list []held
	// Remark is the remark about each bundle that Admit admits.
	Remark string
	// Changes are the changes so far: "admit rule 1.0.0", "back to rule 1.0.0", "return from rule 1.0.0".
	Changes []string
}

type held struct {
	fleet.Bundle
	cancelled bool
}

var _ fleet.Rules = (*Gate)(nil)

// Bundles implements fleet.Rules.
func (g *Gate) Bundles() []fleet.Bundle {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []fleet.Bundle
	for i := range g.list {
		b := g.list[i].Bundle
		b.Where = g.where(&b)
		list = append(list, b)
	}
	return list
}

func (g *Gate) where(b *fleet.Bundle) fleet.Where {
	if b.Off != "" {
		return fleet.Retired
	}
	switch {
	case g.above(b) != nil:
		return fleet.Spare
	case b.From > g.Today():
		return fleet.Coming
	}
	return fleet.Live
}

// above returns a bundle that is in force in place of b, today or on b's first day, whatever its generation.
func (g *Gate) above(b *fleet.Bundle) *held {
	for i, o := range g.list {
		if o.Off == "" && o.From <= max(b.From, g.Today()) && outranks(&o.Bundle, b) {
			return &g.list[i]
		}
	}
	return nil
}

func outranks(o, b *fleet.Bundle) bool {
	return o.Kind == b.Kind && o.Document == b.Document && (o.From > b.From || o.From == b.From &&
		bundle.Compare(o.Version, b.Version) > 0)
}

// Admit implements fleet.Rules.
func (g *Gate) Admit(_ context.Context, file []byte, o fleet.Order) (fleet.Admission, error) {
	b, err := g.Keys.Read(file)
	if err != nil {
		return fleet.Admission{Refused: "signature", Reason: err.Error()}, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	m := b.Manifest
	window := m.Validity[g.Ambiente]
	made := held{fleet.Bundle{Digest: b.Digest, Name: m.Name, Version: m.Version, Kind: m.Kind, Document: m.Document,
		Schema: m.Schema, From: window.From, Ordered: fleet.Ordered(o.Who)}, false}
	for _, h := range g.list {
		switch {
		case h.Digest == b.Digest && g.where(&h.Bundle) != fleet.Spare && h.Off == "":
			return fleet.Admission{}, nil
		case h.Kind != m.Kind || h.Document != m.Document || h.Schema != m.Schema:
		case !h.cancelled && h.From <= max(g.Today(), window.From) && bundle.Compare(m.Version, h.Version) <= 0:
			return fleet.Admission{Refused: "floor", Reason: "not above " + h.Version}, nil
		case h.Digest != b.Digest && h.Version == m.Version:
			return fleet.Admission{Refused: "dates", Reason: h.Version + " was here before"}, nil
		}
	}
	if o := g.above(&made.Bundle); o != nil {
		return fleet.Admission{Refused: "dates", Reason: "never in force: " + o.Version + " begins on " + o.From}, nil
	}
	if g.Refuse != nil {
		if why := g.Refuse(b); why != "" {
			return fleet.Admission{Refused: "cases", Reason: why}, nil
		}
	}
	g.commit("admit "+m.Name+" "+m.Version, func() {
		// the bundle may have been cancelled before
		g.list = append(slices.DeleteFunc(g.list, func(h held) bool { return h.Digest == b.Digest }), made)
	})
	return fleet.Admission{Reason: g.Remark}, nil
}

// commit makes a change; Commit may crash before or after it.
func (g *Gate) commit(what string, change func()) {
	if g.Commit != nil {
		g.Commit(what, false)
	}
	change()
	g.Changes = append(g.Changes, what)
	if g.Commit != nil {
		g.Commit(what, true)
	}
}

// StepBack implements fleet.Rules, with the refusals of the branch's own shelf.
func (g *Gate) StepBack(_ context.Context, to fleet.Bundle, o fleet.Order) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, err := g.known(to, o)
	if err != nil {
		return err
	}
	if h := g.list[at]; h.From > g.Today() || g.Ends[h.Name+" "+h.Version] != "" &&
		g.Ends[h.Name+" "+h.Version] < g.Today() {
		return fmt.Errorf("%s %s begins on %s and ended on %q", to.Name, to.Version, h.From,
			g.Ends[h.Name+" "+h.Version])
	}
	var off []int
	for i, h := range g.list {
		if h.Off == "" && h.From <= g.Today() && outranks(&h.Bundle, &g.list[at].Bundle) {
			off = append(off, i)
		}
	}
	if len(off) == 0 && g.list[at].Off == "" {
		return fmt.Errorf("%s %s is live", to.Name, to.Version)
	}
	g.commit("back to "+to.Name+" "+to.Version, func() {
		for _, i := range off {
			g.list[i].Off, g.list[i].Reason = offBy(o), o.Reason
		}
		g.list[at].Off, g.list[at].Reason = "", ""
	})
	return nil
}

// Cancel implements fleet.Rules.
func (g *Gate) Cancel(_ context.Context, coming fleet.Bundle, o fleet.Order) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, err := g.known(coming, o)
	if err != nil {
		return err
	}
	if h := g.list[at]; h.Off != "" || h.From <= g.Today() {
		return fmt.Errorf("%s %s is off, or has begun on %s", coming.Name, coming.Version, h.From)
	}
	g.commit("cancel "+coming.Name+" "+coming.Version, func() {
		g.list[at].Off, g.list[at].Reason, g.list[at].cancelled = offBy(o), o.Reason, true
	})
	return nil
}

// offBy says who took a bundle off by an order.
func offBy(o fleet.Order) fleet.Off {
	if fleet.Ordered(o.Who) {
		return fleet.OffCentre
	}
	return fleet.OffOperator
}

func (g *Gate) known(b fleet.Bundle, o fleet.Order) (int, error) {
	at := slices.IndexFunc(g.list, func(h held) bool { return h.Digest == b.Digest })
	if at < 0 || o.Reason == "" {
		return at, fmt.Errorf("%s %s was never here, or %q is not a reason", b.Name, b.Version, o.Reason)
	}
	return at, nil
}

// Return makes the branch leave a bundle by itself.
func (g *Gate) Return(digest, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.list {
		if h := &g.list[i]; h.Digest == digest {
			h.Off, h.Reason = fleet.OffItself, reason
			g.Changes = append(g.Changes, "return from "+h.Name+" "+h.Version)
		}
	}
}

// File is a fleetproto.File in memory. It calls Commit before and after each write, as Gate does.
type File struct {
	Commit func(what string, done bool)
	Fail   error // the error of the next writes; nil: they succeed

	mu   sync.Mutex
	data []byte
}

// Load implements fleetproto.File.
func (f *File) Load() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.Clone(f.data), nil
}

// Save implements fleetproto.File.
func (f *File) Save(data []byte) error {
	if f.Fail != nil {
		return f.Fail
	}
	if f.Commit != nil {
		f.Commit("save", false)
	}
	f.mu.Lock()
	f.data = bytes.Clone(data)
	f.mu.Unlock()
	if f.Commit != nil {
		f.Commit("save", true)
	}
	return nil
}

// NoNumbers is fleet.Options.Last of a box that has sold nothing.
func NoNumbers() (map[string]uint64, error) { return nil, nil }
