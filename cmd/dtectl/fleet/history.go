package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"dtegate/cmd/term"
	"dtegate/engine/fleet/fleetproto"
)

type Log struct {
	JSON     bool     `help:"Write one JSON array."`
	Since    Moment   `help:"Since this time; default: the last 7 days." placeholder:"T"`
	Branches []string `arg:"" optional:"" help:"Only these branches; default: all, and what was published."`
}

// event is a line of the log: what a branch did, or what the centre ordered.
type event struct {
	At     time.Time `json:"at"`
	Branch string    `json:"branch,omitempty"`
	Group  string    `json:"group,omitempty"`
	Number int64     `json:"number"` // number of the act or of the version
	What   string    `json:"what"`
	Detail string    `json:"detail,omitempty"`
	Fault  string    `json:"fault,omitempty"` // why the object is missing or not authentic; "": authentic
}

// Run reads the acts of branches and the published versions, and verifies each.
func (c *Log) Run(ctx context.Context, chain *Chain) error {
	events, err := c.events(ctx, chain)
	if err != nil {
		return err
	}
	return term.List(c.JSON, "WHEN\tWHO\tN\tWHAT\tDETAIL", events, func(e event) []any {
		return []any{local(e.At), cmp.Or(e.Branch, e.Group+" (centre)"), e.Number, e.What,
			strings.TrimSpace(e.Detail + " " + e.Fault)}
	})
}

func (c *Log) events(ctx context.Context, chain *Chain) (events []event, err error) {
	since := cmp.Or(c.Since.Time, chain.Now().AddDate(0, 0, -7))
	var folders []string
	for _, b := range c.Branches {
		folders = append(folders, fleetproto.ActsFolder+b+"/")
	}
	if len(folders) == 0 {
		folders = []string{fleetproto.ActsFolder}
		if events, err = chain.orders(ctx, since); err != nil {
			return nil, err
		}
	}
	acts, err := chain.acts(ctx, folders, since)
	events = append(events, acts...)
	slices.SortStableFunc(events, func(a, b event) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Branch, b.Branch), cmp.Compare(a.Number, b.Number))
	})
	return events, err
}

func (c *Chain) orders(ctx context.Context, since time.Time) (events []event, err error) {
	groups, err := c.Groups(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		v, err := c.Head(ctx, g)
		for ; err == nil && v != nil && !v.Issued.Before(since); v, err = c.Before(ctx, v) {
			e := event{At: v.Issued, Group: g, Number: v.Version, What: "desired", Detail: describe(v.Live)}
			if r := v.Rollout; r != nil {
				e.Detail = r.Name + " " + describe(r.State) + ", " + ringIn("en", r)
			}
			e.Detail += ", by " + v.By
			if v.Reason != "" {
				e.Detail += ": " + v.Reason
			}
			events = append(events, e)
		}
		if alone(err) { // other groups are not affected
			events = append(events, event{At: c.Now(), Group: g, What: "?", Fault: "NOT BELIEVED: " + err.Error()})
		} else if err != nil {
			return nil, err
		}
	}
	return events, nil
}

// acts returns the branches' acts since a time, by the store's clock.
func (c *Chain) acts(ctx context.Context, folders []string, since time.Time) (events []event, err error) {
	held := newEnrolments(c)
	epochs, err := held.list(ctx)
	if err != nil {
		return nil, err
	}
	var known map[string]seen // read before the list: else a new act would seem lost
	if err := c.recall(seenFile, &known); err != nil {
		return nil, err
	}
	var found []object
	last := make(map[string]int64) // number of the last act listed of each branch; the list is sorted
	for _, folder := range folders {
		for o, err := range c.objects(ctx, folder, fleetproto.ActKey) {
			if err != nil {
				return nil, err
			}
			if gap := o.number - last[o.owner] - 1; gap > 0 && epochs[o.owner] > 0 {
				events = append(events, event{At: o.Modified, Branch: o.owner, Number: last[o.owner] + 1, What: "?",
					Fault: fmt.Sprintf("MISSING: the store has lost %d acts before number %d", gap, o.number)})
			}
			last[o.owner] = o.number
			if !o.Modified.Before(since) {
				found = append(found, o)
			}
		}
	}
	for b, s := range known {
		if gap := s.Acts - last[b]; gap > 0 && slices.ContainsFunc(folders, func(folder string) bool {
			return strings.HasPrefix(fleetproto.ActsFolder+b+"/", folder)
		}) {
			events = append(events, event{At: c.Now(), Branch: b, Number: last[b] + 1, What: "?",
				Fault: fmt.Sprintf("MISSING: the store has lost the last %d acts that this centre knows of", gap)})
		}
	}
	for _, folder := range folders {
		b := strings.Trim(strings.TrimPrefix(folder, fleetproto.ActsFolder), "/")
		if b != "" && epochs[b]+last[b] == 0 {
			return nil, fmt.Errorf("no branch %s is enrolled", b)
		}
	}
	var mu sync.Mutex
	err = together(len(found), func(i int) error {
		e, err := c.act(ctx, held, found[i])
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
		return err
	})
	return events, err
}

// act reads an act and verifies it with the keys of all boxes that the branch has had.
func (c *Chain) act(ctx context.Context, held *enrolments, at object) (event, error) {
	e := event{At: at.Modified, Branch: at.owner, Number: at.number, What: "?"}
	o, err := c.Store.Fetch(ctx, at.Key, fleetproto.MaxJWS)
	if err != nil && !alone(err) {
		return e, fmt.Errorf("reading act %d of %s: %w", at.number, at.owner, err)
	}
	var boxes []fleetproto.Key
	for _, n := range held.of(at.owner) {
		if enrolled, err := held.get(ctx, at.owner, n); err == nil {
			boxes = append(boxes, enrolled.BoxKeyOf())
		}
	}
	var a *fleetproto.Act
	if err == nil {
		a, err = c.Identity.OpenAct(o.Data, at.owner, at.number, boxes...)
	}
	if err != nil {
		e.Fault = "NOT BELIEVED: " + err.Error()
		return e, nil
	}
	e.At, e.What = a.At, a.What
	words := []string{a.Rule, a.Rollout, a.Reason}
	if a.Version > 0 {
		words = append(words, "version "+strconv.FormatInt(a.Version, 10))
	}
	e.Detail = strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", ")
	return e, nil
}
