package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"dtegate/engine/fleet/fleetproto"
)

// Event is a line of the log: what a branch did, or what the centre ordered.
type Event struct {
	At     time.Time `json:"at"`
	Branch string    `json:"branch,omitempty"`
	Group  string    `json:"group,omitempty"`
	Number int64     `json:"number"` // of the act, or of the version
	What   string    `json:"what"`
	Detail string    `json:"detail,omitempty"`
	Fault  string    `json:"fault,omitempty"` // it is not believed, and why
}

// Orders are the versions that were published.
func (c *Chain) Orders(ctx context.Context, group string, since time.Time) (events []Event, err error) {
	groups := []string{group}
	if group == "" {
		if groups, err = c.Groups(ctx); err != nil {
			return nil, err
		}
	}
	for _, g := range groups {
		v, err := c.Head(ctx, g)
		for ; err == nil && v != nil && !v.Issued.Before(since); v, err = c.Before(ctx, v) {
			e := Event{At: v.Issued, Group: g, Number: v.Version, What: "desired", Detail: Describe(v.Live)}
			if r := v.Rollout; r != nil {
				e.Detail = r.Name + " " + Describe(r.State) + ", " + RingWords(r, 0)
				e.Detail = strings.TrimSuffix(e.Detail, " (0)")
			}
			e.Detail += ", by " + v.By
			if v.Reason != "" {
				e.Detail += ": " + v.Reason
			}
			events = append(events, e)
		}
		if Strangers(err) { // of this group alone
			events = append(events, Event{At: c.Now(), Group: g, What: "?", Fault: "NOT BELIEVED: " + err.Error()})
		} else if err != nil {
			return nil, err
		}
	}
	return events, nil
}

// Acts are what branches did, by the store's time of the objects not before a time.
func (c *Chain) Acts(ctx context.Context, folder string, since time.Time) ([]Event, error) {
	held := NewEnrolments(c)
	epochs, err := held.list(ctx)
	if err != nil {
		return nil, err
	}
	var entries []fleetproto.Entry
	last := make(map[string]int64) // the act before, by branch: a list is ordered
	var events []Event
	for entry, err := range c.Store.List(ctx, folder) {
		if err != nil {
			return nil, err
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(entry.Key, fleetproto.ActsFolder), "/")
		number, _ := fleetproto.NumberOf(entry.Key)
		if gap := number - last[name] - 1; gap > 0 && epochs[name] > 0 {
			events = append(events, Event{At: entry.Modified, Branch: name, Number: last[name] + 1, What: "?",
				Fault: fmt.Sprintf("MISSING: the store has lost %d acts before number %d", gap, number)})
		}
		last[name] = number
		if !entry.Modified.Before(since) {
			entries = append(entries, entry)
		}
	}
	var mu sync.Mutex
	err = together(len(entries), func(i int) error {
		entry := entries[i]
		name, _, _ := strings.Cut(strings.TrimPrefix(entry.Key, fleetproto.ActsFolder), "/")
		number, ok := fleetproto.NumberOf(entry.Key)
		if !ok || entry.Key != fleetproto.ActKey(name, number) {
			return nil
		}
		e, err := c.act(ctx, held, name, number, epochs[name])
		if err != nil {
			return err
		}
		if e.At.IsZero() {
			e.At = entry.Modified
		}
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
		return nil
	})
	return events, err
}

// act reads one that a box of the branch has signed, whichever of its boxes.
func (c *Chain) act(ctx context.Context, held *enrolments, name string, number, epoch int64) (Event, error) {
	e := Event{Branch: name, Number: number, What: "?"}
	o, err := c.Store.Get(ctx, fleetproto.ActKey(name, number), fleetproto.MaxJWS)
	if err != nil && !errors.Is(err, fleetproto.ErrTooLarge) {
		return e, fmt.Errorf("reading act %d of %s: %w", number, name, err)
	}
	var boxes []fleetproto.Key
	for n := epoch; n > 0; n-- {
		if enrolled, err := held.Get(ctx, name, n); err == nil {
			boxes = append(boxes, enrolled.BoxKeyOf())
		}
	}
	var a *fleetproto.Act
	if err == nil {
		a, err = c.Identity.OpenAct(o.Data, name, number, boxes...)
	}
	if err != nil {
		e.Fault = "NOT BELIEVED: " + err.Error()
		return e, nil
	}
	e.At, e.What = a.At, a.What
	var words []string
	for _, w := range []string{a.Rule, a.Rollout, a.Reason} {
		if w != "" {
			words = append(words, w)
		}
	}
	if a.Version > 0 {
		words = append(words, "version "+strconv.FormatInt(a.Version, 10))
	}
	e.Detail = strings.Join(words, ", ")
	return e, nil
}
