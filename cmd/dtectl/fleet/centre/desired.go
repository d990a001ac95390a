package centre

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"dtegate/engine/fleet/wire"
)

// Version is a desired state with the object that it came in.
type Version struct {
	*wire.Desired
	Digest string
}

// Head is the last version of a group; nil: nothing was published yet. A list may lag, therefore it is asked on from there until
// there is none, as a box does.
func (c *Chain) Head(ctx context.Context, group string) (*Version, error) {
	var last int64
	for e, err := range c.Store.List(ctx, wire.DesiredFolder(group)) {
		if err != nil {
			return nil, err
		}
		if n, ok := wire.NumberOf(e.Key); ok {
			last = max(last, n)
		}
	}
	var head *Version
	if last > 0 {
		var err error
		if head, err = c.Version(ctx, group, last); err != nil {
			return nil, err
		}
	}
	for {
		next, err := c.Version(ctx, group, last+1)
		if errors.Is(err, wire.ErrNotFound) {
			return head, nil
		}
		if err != nil {
			return nil, err
		}
		head, last = next, last+1
	}
}

// Version reads one that the director has signed.
func (c *Chain) Version(ctx context.Context, group string, n int64) (*Version, error) {
	o, err := c.Store.Get(ctx, wire.DesiredKey(group, n), wire.MaxJWS)
	if err != nil {
		return nil, err
	}
	d, err := wire.OpenDesired(o.Data, []wire.Key{c.Director}, group, n)
	if err != nil {
		return nil, err
	}
	return &Version{d, wire.Digest(o.Data)}, nil
}

// Before is the version that a version was made behind; nil: it is the first.
func (c *Chain) Before(ctx context.Context, v *Version) (*Version, error) {
	if v.Version == 1 {
		return nil, nil
	}
	b, err := c.Version(ctx, v.Group, v.Version-1)
	if err != nil {
		return nil, fmt.Errorf("reading version %d of %s: %w", v.Version-1, v.Group, err)
	}
	return b, v.Follows(b.Desired, b.Digest)
}

// Next publishes the version behind the head, as change makes it of what is desired now. Nobody else can have published
// that number: the store creates it once. Without a time in expires it is good for as long as the head was from its beginning.
func (c *Chain) Next(ctx context.Context, head *Version, group, reason string, expires time.Time, change func(*wire.Desired) error) (*wire.Desired, error) {
	now := c.Now().UTC().Truncate(time.Second)
	d, life := wire.Desired{Group: group, Version: 1}, DefaultLife
	if head != nil {
		life = head.Expires.Sub(head.Issued)
		d = *head.Desired
		d.Version, d.Previous = head.Version+1, head.Digest
		if head.Rollout != nil { // change must not alter what was read
			r := *head.Rollout
			d.Rollout = &r
		}
	}
	if expires.IsZero() {
		expires = now.Add(life)
	}
	d.Issued, d.Expires, d.By, d.Reason = now, expires.UTC().Truncate(time.Second), c.Who, reason
	if err := change(&d); err != nil {
		return nil, err
	}
	director, err := c.Sign()
	if err != nil {
		return nil, err
	}
	data, err := wire.SealDesired(d, director)
	if err != nil {
		return nil, err
	}
	key := wire.DesiredKey(group, d.Version)
	if err := c.CreateOnce(ctx, key, data); err != nil {
		if errors.Is(err, wire.ErrExists) {
			return nil, fmt.Errorf("version %d of %s was published by somebody else at this moment: look at dtectl fleet status, then try again", d.Version, group)
		}
		return nil, fmt.Errorf("publishing version %d of %s: %w (it may be there: look at dtectl fleet status)", d.Version, group, err)
	}
	return &d, nil
}

// DefaultLife is how long a desired state is good for: a store that shows boxes an old state for longer makes them alarm. dtectl
// fleet roll signs it again when half of it is over.
const DefaultLife = 90 * 24 * time.Hour

// CreateOnce creates an object; one that is there with the same bytes was put there by this attempt or an equal one.
func (c *Chain) CreateOnce(ctx context.Context, key string, data []byte) error {
	err := c.Store.Create(ctx, key, data)
	if err == nil {
		return nil
	}
	held, failed := c.Store.Get(ctx, key, int64(len(data)))
	switch {
	case failed == nil && bytes.Equal(held.Data, data):
		return nil
	case failed == nil, errors.Is(failed, wire.ErrTooLarge):
		return fmt.Errorf("%w: %s", wire.ErrExists, key)
	}
	return err
}
