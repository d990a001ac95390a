package rulestore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dtegate/engine/fairqueue"
	"dtegate/engine/record"
	"dtegate/storage"
)

// Limits of a shadow: how many differing documents it keeps, how many sales may wait, and how long it may run.
const (
	shadowKept    = 100
	shadowWaiting = 256
	shadowLongest = 31 * 24 * time.Hour
)

// shadow is a candidate that computes live sales in addition to the active rule. Only the active rule's answer is used.
type shadow struct {
	candidate *Rule
	offered   chan storage.Code

	mu   sync.Mutex
	seen ShadowResult // its Until and Most never change
}

type shadows struct {
	running, latest atomic.Pointer[shadow] // latest: running or ended
	changed         fairqueue.Bell         // rings when a shadow starts or is stopped
}

// ShadowResult is what a shadow has found so far.
type ShadowResult struct {
	Rule    record.RuleRef `json:"rule"`
	Began   time.Time      `json:"began"`
	Until   time.Time      `json:"until"`
	Most    int            `json:"most"` // the limit of Count
	Running bool           `json:"running"`
	Count   int            `json:"documents"`
	Results map[string]int `json:"results"` // as in BacktestTotals
	// Dropped counts sales that came faster than the shadow could compute them.
	Dropped int `json:"dropped"`
	// Differing has the first hundred documents that differ.
	Differing []*Comparison `json:"differing"`
}

// OfferToShadow passes a stored sale to the running shadow, if any, without waiting: a busy shadow skips the sale.
func (s *Store) OfferToShadow(document string, code storage.Code) {
	sh := s.shadows.running.Load()
	if sh == nil || sh.candidate.Document != document {
		return
	}
	select {
	case sh.offered <- code:
	default:
		sh.mu.Lock()
		sh.seen.Dropped++
		sh.mu.Unlock()
	}
}

// Shadow lets a candidate compute live sales, in addition to the rule in force. It replaces any other shadow, and ends
// after a number of sales (most) or a time (long). The candidate's faults are in the Activation.
func (s *Store) Shadow(ctx context.Context, data []byte, most int, long time.Duration) (*Activation, error) {
	if most <= 0 || long <= 0 || long > shadowLongest {
		return nil, fmt.Errorf("a shadow runs for at least one document, and at most %v", shadowLongest)
	}
	candidate, a, err := s.try(ctx, data)
	if candidate == nil || err != nil {
		return a, err
	}
	now := s.o.Now()
	sh := &shadow{candidate: candidate, offered: make(chan storage.Code, shadowWaiting),
		seen: ShadowResult{Rule: candidate.Ref, Began: now.UTC(), Until: now.Add(long).UTC(), Most: most,
			Results: make(map[string]int), Differing: []*Comparison{}}}
	s.shadows.latest.Store(sh)
	s.shadows.running.Store(sh)
	s.shadows.changed.Ring()
	return a, nil
}

// StopShadow ends the shadow. Shadowed still returns the shadow's findings.
func (s *Store) StopShadow() {
	s.shadows.running.Store(nil)
	s.shadows.changed.Ring()
}

// Shadowed returns the findings of the latest shadow, or nil.
func (s *Store) Shadowed() *ShadowResult {
	sh := s.shadows.latest.Load()
	if sh == nil {
		return nil
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r := sh.seen
	r.Running = s.shadows.running.Load() == sh
	r.Results, r.Differing = maps.Clone(r.Results), slices.Clone(r.Differing)
	return &r
}

func (s *Store) look(ctx context.Context, sh *shadow, code storage.Code) {
	entry, h, err := record.Read(s.o.Store, code)
	var d *storedDocument
	if err == nil {
		d, err = s.readStored(entry, h)
	}
	var c *Comparison
	if err == nil {
		c, err = d.compare(ctx, sh.candidate)
	}
	if err != nil {
		s.o.Logger.Error("comparing a sale with the shadow", "error", err)
		return
	}
	s.metrics.shadowed.WithLabelValues(c.Result).Inc()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.seen.Count++
	sh.seen.Results[c.Result]++
	if c.Result != MadeSame && len(sh.seen.Differing) < shadowKept {
		sh.seen.Differing = append(sh.seen.Differing, c)
	}
	if sh.seen.Count >= sh.seen.Most {
		s.shadows.running.CompareAndSwap(sh, nil)
	}
}
