package centre

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

// Branch is what the store knows of one.
type Branch struct {
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

func (b *Branch) Group() string {
	if b.Status != nil {
		return b.Status.Group
	}
	if b.Stranger != nil {
		return b.Stranger.Group
	}
	return ""
}

// Survey is a chain at a moment.
type Survey struct {
	At       time.Time // by the store's clock
	Branches []*Branch // ordered by name
	Groups   []*Version
	Took     time.Duration
}

// Desired is what a group shall run; nil: nothing was published.
func (s *Survey) Desired(group string) *Version {
	if i := slices.IndexFunc(s.Groups, func(v *Version) bool { return v.Group == group }); i >= 0 {
		return s.Groups[i]
	}
	return nil
}

// Surveyor reads a chain again and again, of the statuses only those that have changed. For one goroutine.
type Surveyor struct {
	Chain      *Chain
	statuses   map[string]known // by key
	enrolments *enrolments
	skew       time.Duration // the store's clock is ahead of ours
}

// known is a branch as it was read, with what tells that it still is so.
type known struct {
	tag   string
	epoch int64
	b     *Branch
}

func NewSurveyor(c *Chain) *Surveyor {
	return &Surveyor{Chain: c, statuses: make(map[string]known), enrolments: NewEnrolments(c)}
}

// Read makes a survey.
func (s *Surveyor) Read(ctx context.Context) (*Survey, error) {
	began := s.Chain.Now()
	epochs, err := s.enrolments.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing enrolments: %w", err)
	}
	var keys []wire.Entry
	for e, err := range s.Chain.Store.List(ctx, wire.StatusFolder) {
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
	out := &Survey{Branches: branches}
	groups, err := s.Chain.groups(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing groups: %w", err)
	}
	for _, g := range groups {
		head, err := s.Chain.Head(ctx, g)
		if err != nil {
			return nil, fmt.Errorf("reading what %s shall run: %w", g, err)
		}
		out.Groups = append(out.Groups, head)
	}
	out.At, out.Took = s.Chain.Now().Add(s.skew), s.Chain.Now().Sub(began)
	return out, nil
}

// branches reads those that have a status or an enrolment.
func (s *Surveyor) branches(ctx context.Context, keys []wire.Entry, epochs map[string]int64) ([]*Branch, error) {
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
				s.skew = now.Sub(s.Chain.Now())
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
	list := make([]*Branch, 0, len(found))
	for _, k := range found {
		list = append(list, k.b)
	}
	for name, epoch := range epochs {
		if _, ok := found[wire.StatusKey(name)]; ok {
			continue
		}
		e, err := s.enrolments.Get(ctx, name, epoch)
		if err != nil {
			return nil, err
		}
		list = append(list, &Branch{Name: name, Enrolment: e})
	}
	slices.SortFunc(list, func(a, b *Branch) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// branch reads one's status and says whose it is. An error is the store's; what is wrong with an object is a fault of the branch.
func (s *Surveyor) branch(ctx context.Context, name string, epoch int64) (b *Branch, now time.Time, err error) {
	b = &Branch{Name: name}
	if epoch > 0 {
		if b.Enrolment, err = s.enrolments.Get(ctx, name, epoch); err != nil {
			return nil, now, err
		}
	}
	o, err := s.Chain.Store.Get(ctx, wire.StatusKey(name), wire.MaxJWS)
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
func (s *Surveyor) former(ctx context.Context, name string, epoch int64, key string) (int64, error) {
	for n := epoch - 1; n > 0; n-- {
		e, err := s.enrolments.Get(ctx, name, n)
		if Strangers(err) {
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
