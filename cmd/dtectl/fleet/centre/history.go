package centre

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"dtegate/engine/fleet/wire"
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
		if groups, err = c.groups(ctx); err != nil {
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
		if err != nil {
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
	var entries []wire.Entry
	for entry, err := range c.Store.List(ctx, folder) {
		if err != nil {
			return nil, err
		}
		if !entry.Modified.Before(since) {
			entries = append(entries, entry)
		}
	}
	var events []Event
	var mu sync.Mutex
	err = together(len(entries), func(i int) error {
		entry := entries[i]
		name, _, _ := strings.Cut(strings.TrimPrefix(entry.Key, wire.ActsFolder), "/")
		number, ok := wire.NumberOf(entry.Key)
		if !ok || entry.Key != wire.ActKey(name, number) {
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
	o, err := c.Store.Get(ctx, wire.ActKey(name, number), wire.MaxJWS)
	if err != nil && !errors.Is(err, wire.ErrTooLarge) {
		return e, fmt.Errorf("reading act %d of %s: %w", number, name, err)
	}
	var boxes []wire.Key
	for n := epoch; n > 0; n-- {
		if enrolled, err := held.Get(ctx, name, n); err == nil {
			boxes = append(boxes, enrolled.BoxKeyOf())
		}
	}
	var a *wire.Act
	if err == nil {
		a, err = wire.OpenAct(o.Data, name, number, boxes...)
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
