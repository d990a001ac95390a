package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"dtegate/engine/fleet/wire"
)

// branch is what the store knows of one.
type branch struct {
	Name      string
	Enrolment *wire.Enrolment // the highest; nil: no box is enrolled
	// Status is what its box says; of a branch without an enrolment, what a box says that could be enrolled. nil: nothing that can be believed.
	Status *wire.Status
	// Stranger is a box that is not the enrolled one and writes the branch's status: one that waits to take its place, or one that
	// was replaced and still runs (Former, its epoch).
	Stranger *wire.Status
	Former   int64
	Seen     time.Time // the store's time of the status; zero: there is none
	Fault    string    // why what rests in the store is not believed
}

func (b *branch) group() string {
	if b.Status != nil {
		return b.Status.Group
	}
	if b.Stranger != nil {
		return b.Stranger.Group
	}
	return ""
}

// survey is a chain at a moment.
type survey struct {
	At       time.Time // by the store's clock
	Branches []*branch // ordered by name
	Groups   []*version
	Took     time.Duration
}

// desired is what a group shall run; nil: nothing was published.
func (s *survey) desired(group string) *version {
	if i := slices.IndexFunc(s.Groups, func(v *version) bool { return v.Group == group }); i >= 0 {
		return s.Groups[i]
	}
	return nil
}

// surveyor reads a chain again and again, of the statuses only those that have changed. For one goroutine.
type surveyor struct {
	c          *chain
	statuses   map[string]known // by key
	enrolments *enrolments
	skew       time.Duration // the store's clock is ahead of ours
}

// known is a branch as it was read, with what tells that it still is so.
type known struct {
	tag   string
	epoch int64
	b     *branch
}

func newSurveyor(c *chain) *surveyor {
	return &surveyor{c: c, statuses: make(map[string]known), enrolments: newEnrolments(c)}
}

// read makes a survey.
func (s *surveyor) read(ctx context.Context) (*survey, error) {
	began := s.c.now()
	epochs, err := s.enrolments.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing enrolments: %w", err)
	}
	var keys []wire.Entry
	for e, err := range s.c.store.List(ctx, wire.StatusFolder) {
		if err != nil {
			return nil, fmt.Errorf("listing statuses: %w", err)
		}
		if _, ok := wire.BranchOf(e.Key); ok {
			keys = append(keys, e)
		}
	}
	branches, err := s.branches(ctx, keys, epochs)
	if err != nil {
		return nil, err
	}
	out := &survey{Branches: branches}
	groups, err := s.c.groups(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing groups: %w", err)
	}
	for _, g := range groups {
		head, err := s.c.head(ctx, g)
		if err != nil {
			return nil, fmt.Errorf("reading what %s shall run: %w", g, err)
		}
		out.Groups = append(out.Groups, head)
	}
	out.At, out.Took = s.c.now().Add(s.skew), s.c.now().Sub(began)
	return out, nil
}

// branches reads those that have a status or an enrolment.
func (s *surveyor) branches(ctx context.Context, keys []wire.Entry, epochs map[string]int64) ([]*branch, error) {
	found := make(map[string]known, len(keys))
	var mu sync.Mutex
	err := together(len(keys), func(i int) error {
		e := keys[i]
		name, _ := wire.BranchOf(e.Key)
		k, ok := s.statuses[e.Key]
		if ok && e.Tag != "" && k.tag == e.Tag && k.epoch == epochs[name] {
			same := *k.b // others may be looking at the last survey
			same.Seen, k.b = e.Modified, &same
		} else {
			b, now, err := s.branch(ctx, name, epochs[name])
			if err != nil {
				return err
			}
			k = known{e.Tag, epochs[name], b}
			if !now.IsZero() {
				mu.Lock()
				s.skew = now.Sub(s.c.now())
				mu.Unlock()
			}
		}
		mu.Lock()
		defer mu.Unlock()
		found[e.Key] = k
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.statuses = found
	list := make([]*branch, 0, len(found))
	for _, k := range found {
		list = append(list, k.b)
	}
	for name, epoch := range epochs {
		if _, ok := found[wire.StatusKey(name)]; ok {
			continue
		}
		e, err := s.enrolments.get(ctx, name, epoch)
		if err != nil {
			return nil, err
		}
		list = append(list, &branch{Name: name, Enrolment: e})
	}
	slices.SortFunc(list, func(a, b *branch) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// branch reads one's status and says whose it is. An error is the store's; what is wrong with an object is a fault of the branch.
func (s *surveyor) branch(ctx context.Context, name string, epoch int64) (b *branch, now time.Time, err error) {
	b = &branch{Name: name}
	if epoch > 0 {
		if b.Enrolment, err = s.enrolments.get(ctx, name, epoch); err != nil {
			return nil, now, err
		}
	}
	o, err := s.c.store.Get(ctx, wire.StatusKey(name), wire.MaxJWS)
	if errors.Is(err, wire.ErrTooLarge) {
		b.Fault = err.Error()
		return b, now, nil
	}
	if err != nil {
		return nil, now, fmt.Errorf("reading the status of %s: %w", name, err)
	}
	b.Seen = o.Modified
	if b.Enrolment == nil {
		b.Status, err = wire.OpenStatus(o.Data, name)
	} else if b.Status, err = wire.OpenStatus(o.Data, name, b.Enrolment.BoxKeyOf()); err != nil {
		if stranger, own := wire.OpenStatus(o.Data, name); own == nil {
			b.Stranger = stranger
			b.Former, err = s.former(ctx, name, epoch, stranger.Key)
		}
	}
	if err != nil && b.Stranger == nil {
		b.Status, b.Fault, err = nil, err.Error(), nil
	}
	return b, o.Now, err
}

// former is the epoch at which a key was a branch's before; 0: it never was.
func (s *surveyor) former(ctx context.Context, name string, epoch int64, key string) (int64, error) {
	for n := epoch - 1; n > 0; n-- {
		e, err := s.enrolments.get(ctx, name, n)
		if strangers(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if e.Key == key {
			return n, nil
		}
	}
	return 0, nil
}
