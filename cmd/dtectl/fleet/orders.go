package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dtegate/cmd/term"
	"dtegate/engine/archive"
	"dtegate/engine/fleet/fleetproto"
)

// Version is a desired state with the digest of its object.
type Version struct {
	*fleetproto.Desired
	Digest string
	// Last is the object that the next version follows: this version, or the last object after it that the director did
	// not sign.
	Last fleetproto.Verified
	// Lost are the versions that this centre or a box of the group knows and the store lacks.
	Lost []fleetproto.Verified
	// Hole is the first earlier version that the store does not list: a new box, which reads from version 1, stops
	// there. 0: none.
	Hole int64
	// Unread is the last version above this one that the store lists and does not return: what it orders is not known.
	// 0: none.
	Unread int64
}

// maxMends is the largest length of Desired.Mends in a new version; the latest entries are kept. A lost version that
// only a box reports is ignored once maxForeignVersions lost versions are known: each report could invent another
// version.
const maxMends = 500

// maxForeignVersions is the largest number of other authors' objects that are skipped among a group's versions.
const maxForeignVersions = 50

// Head returns a group's last version that the director signed; nil if the group has no object. A list may lag: like a
// box, Head also requests the versions after the listed versions, until a version is missing. It skips objects that the
// director did not sign; if the director signed none, it returns an error.
func (c *Chain) Head(ctx context.Context, group string) (*Version, error) {
	var numbers []int64
	for o, err := range c.objects(ctx, fleetproto.DesiredFolder(group), fleetproto.DesiredKey) {
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, o.number) // ascending, as their keys
	}
	var head *Version
	var last fleetproto.Verified
	var fault error
	unread := int64(0)
	for i, n := range slices.Backward(numbers) {
		if above := len(numbers) - 1 - i; above == maxForeignVersions {
			return nil, fmt.Errorf("%d objects that this director did not sign lie on top of %s: if the key is being "+
				"changed, run dtectl fleet rekey; else the store's owner must delete them: %w", above, group, fault)
		}
		v, err := c.Version(ctx, group, n)
		if err == nil {
			head, last = v, v.Last
			break
		}
		if !alone(err) {
			return nil, err
		}
		if fault = err; errors.Is(err, archive.ErrUnread) {
			unread = max(unread, n)
		}
	}
	if head == nil && fault != nil {
		return nil, fmt.Errorf("director.public has signed nothing of %s; if the key is being changed, run dtectl "+
			"fleet rekey: %w", group, fault)
	}
	for skipped := 0; skipped < maxForeignVersions; {
		o, err := c.Store.Fetch(ctx, fleetproto.DesiredKey(group, last.Version+1), fleetproto.MaxJWS)
		if errors.Is(err, archive.ErrNotFound) {
			break
		}
		if err != nil && !alone(err) {
			return nil, err
		}
		last = fleetproto.Verified{Version: last.Version + 1, Digest: fleetproto.Digest(o.Data)}
		if errors.Is(err, archive.ErrUnread) {
			unread = last.Version
		}
		if d, err := c.Identity.OpenDesired(o.Data, c.keys(), group, last.Version); err == nil {
			head, unread = &Version{Desired: d, Digest: last.Digest}, 0
		} else if skipped++; head == nil {
			return nil, err
		}
		head.Last, numbers = last, append(numbers, last.Version)
	}
	n := int64(1)
	for _, there := range numbers {
		if there == n {
			n++
		}
	}
	if head != nil {
		if head.Unread = unread; n < head.Version {
			head.Hole = n
		}
	}
	return head, nil
}

// Version reads a version that the director has signed.
func (c *Chain) Version(ctx context.Context, group string, n int64) (*Version, error) {
	o, err := c.Store.Fetch(ctx, fleetproto.DesiredKey(group, n), fleetproto.MaxJWS)
	if err != nil {
		return nil, err
	}
	d, err := c.Identity.OpenDesired(o.Data, c.keys(), group, n)
	if err != nil {
		return nil, err
	}
	c.keepVersion(group, n, o.Data)
	digest := fleetproto.Digest(o.Data)
	return &Version{Desired: d, Digest: digest, Last: fleetproto.Verified{Version: n, Digest: digest}}, nil
}

// Restore puts back the versions that the store has lost, if this centre has kept them, and returns their names. An
// error in one group does not stop the other groups.
func (c *Chain) Restore(ctx context.Context) (put []string, err error) {
	for _, group := range c.keptGroups() {
		more, fault := c.restore(ctx, group)
		if put = append(put, more...); fault != nil {
			err = errors.Join(err, fmt.Errorf("putting back what %s shall run: %w", group, fault))
		}
	}
	return put, err
}

// restore puts a group's versions back, as long as no earlier version is missing. It also puts back versions that an
// earlier key signed, if the director's current key signed a later version. If another object is in the place of the
// director's last version, restore overwrites it: somebody may have overwritten all versions of the group.
func (c *Chain) restore(ctx context.Context, group string) (put []string, err error) {
	held := make(map[int64]bool)
	for o, err := range c.objects(ctx, fleetproto.DesiredFolder(group), fleetproto.DesiredKey) {
		if err != nil {
			return nil, err
		}
		held[o.number] = true
	}
	kept := c.keptVersions(group)
	var last, signed int64
	for _, n := range kept {
		if _, err := c.kept(group, n); err == nil {
			signed = n
		}
	}
	if held[signed] {
		if _, err := c.Version(ctx, group, signed); alone(err) {
			data, err := c.kept(group, signed)
			if err == nil {
				err = c.Store.Overwrite(ctx, fleetproto.DesiredKey(group, signed), data)
			}
			if err != nil {
				return put, err
			}
			put = append(put, fmt.Sprintf("version %d of %s", signed, group))
		}
	}
	for _, n := range kept {
		if held[n] {
			last = n
		}
		for held[last+1] {
			last++
		}
		if held[n] || n > last+1 || n > signed {
			continue
		}
		data, err := c.kept(group, n)
		if err == nil || errors.Is(err, fleetproto.ErrSignature) {
			err = c.CreateOnce(ctx, fleetproto.DesiredKey(group, n), data)
		}
		if err != nil {
			return put, err
		}
		held[n], put = true, append(put, fmt.Sprintf("version %d of %s", n, group))
	}
	return put, nil
}

// Before returns the director's version before v, or nil if v is the first: the version with the digest v.Previous or,
// if the director signed no such object, the version that the last of v.Mends names.
func (c *Chain) Before(ctx context.Context, v *Version) (*Version, error) {
	named := append([]fleetproto.Verified{{Version: v.Version - 1, Digest: v.Previous}},
		v.Mends[max(0, len(v.Mends)-1):]...)
	var fault error
	for i, n := range named {
		if n.Version == 0 {
			return nil, nil
		}
		data, _ := c.kept(v.Group, n.Version)
		if fleetproto.Digest(data) != n.Digest {
			o, err := c.Store.Fetch(ctx, fleetproto.DesiredKey(v.Group, n.Version), fleetproto.MaxJWS)
			if data = o.Data; err != nil && !alone(err) {
				return nil, err
			}
		}
		if fleetproto.Digest(data) != n.Digest {
			fault = fmt.Errorf("%w: the store has altered version %d of %s", fleetproto.ErrOther, n.Version, v.Group)
			continue
		}
		b := &Version{Digest: n.Digest}
		if b.Desired, fault = c.Identity.OpenDesired(data, c.keys(), v.Group, n.Version); i == len(named)-1 {
			b.Desired, fault = c.Identity.ReadDesired(data, v.Group, n.Version) // an earlier key may have signed it
		}
		if fault == nil {
			return b, nil
		}
	}
	return nil, fault
}

// Next publishes the head's desired state, altered by the function change, as a new version that mends the lost
// versions. Its number is above the head's and above those of the lost versions; Next fills the numbers in between with
// the head's state. The store creates each number once: nobody else can publish the same number. If expires is zero,
// the new version is valid for as long as the head was.
func (c *Chain) Next(ctx context.Context, head *Version, group, reason string, expires time.Time,
	change func(*fleetproto.Desired)) (*fleetproto.Desired, error) {
	now := c.Now().UTC().Truncate(time.Second)
	d, life := fleetproto.Desired{Group: group, Version: 1}, DefaultLife
	if head != nil {
		if head.Unread > 0 {
			term.Fprintf(term.Err, "version %d of %s cannot be read: what it orders is given up\n", head.Unread, group)
		}
		life = head.Expires.Sub(head.Issued)
		d = *head.Desired
		d.Version, d.Previous = head.Last.Version+1, head.Last.Digest
		d.Mends = append(slices.DeleteFunc(slices.Clone(head.Mends), func(m fleetproto.Verified) bool {
			return m.Digest == head.Previous // the version before the head is not lost
		}), head.Lost...)
		if head.Last.Version != head.Version || len(d.Mends) > 0 {
			d.Mends = append(d.Mends, fleetproto.Verified{Version: head.Version, Digest: head.Digest}) // see Before
		}
		d.Mends = d.Mends[max(0, len(d.Mends)-maxMends):]
		if head.Rollout != nil { // change must not alter the head
			r := *head.Rollout
			d.Rollout = &r
		}
	}
	expires = cmp.Or(expires, now.Add(life)).UTC().Truncate(time.Second)
	d.Issued, d.Expires, d.By, d.Reason = now, expires, c.Who, reason
	director, err := c.Sign()
	if err != nil {
		return nil, err
	}
	for slices.ContainsFunc(d.Mends, func(m fleetproto.Verified) bool { return m.Version >= d.Version }) {
		filler := *head.Desired
		filler.Version, filler.Previous, filler.Mends = d.Version, d.Previous, slices.DeleteFunc(
			slices.Clone(d.Mends), func(m fleetproto.Verified) bool { return m.Version >= d.Version })
		filler.Issued, filler.Expires, filler.By, filler.Reason = d.Issued, d.Expires, d.By,
			"in place of a version that the store has lost"
		digest, err := c.write(ctx, filler, director)
		if err != nil {
			return nil, err
		}
		d.Version, d.Previous = d.Version+1, digest
	}
	if change != nil { // the version is final now: a roll-out's name contains it
		change(&d)
	}
	_, err = c.write(ctx, d, director)
	return &d, err
}

func (c *Chain) order(ctx context.Context, s *Survey, head *Version, reason string,
	change func(*fleetproto.Desired)) error {
	d, err := c.Next(ctx, head, head.Group, reason, time.Time{}, change)
	if err == nil {
		printOrder(d, s)
	}
	return err
}

func printOrder(d *fleetproto.Desired, s *Survey) {
	r := d.Rollout
	if r == nil {
		term.Printf("%s version %d: %s, no roll-out\n", d.Group, d.Version, describe(d.Live))
		return
	}
	m := s.Measure(r, d.Group)
	term.Printf("%s version %d: %s %s, %s (%d)\n", d.Group, d.Version, r.Name, describe(r.State), ringIn("en", r),
		m.Boxes)
	m.tell(term.Out)
	if !r.NotBefore.IsZero() {
		term.Printf("not before %s\n", local(r.NotBefore))
	}
}

func (c *Chain) write(ctx context.Context, d fleetproto.Desired, director fleetproto.Signer) (string, error) {
	data, err := c.Identity.Seal(&d, director)
	if err != nil {
		return "", err
	}
	if err := c.CreateOnce(ctx, fleetproto.DesiredKey(d.Group, d.Version), data); err != nil {
		if errors.Is(err, archive.ErrExists) {
			return "", fmt.Errorf("version %d of %s was published by somebody else at this moment: look at dtectl "+
				"fleet status, then try again", d.Version, d.Group)
		}
		return "", fmt.Errorf("publishing version %d of %s: %w (it may be there: look at dtectl fleet status)",
			d.Version, d.Group, err)
	}
	c.keepVersion(d.Group, d.Version, data)
	return fleetproto.Digest(data), nil
}

// DefaultLife is how long a desired state is valid. After that, boxes report that the store shows an old state.
// dtectl fleet roll signs it again after half of that time.
const DefaultLife = 90 * 24 * time.Hour

// CreateOnce creates an object. An existing object with the same bytes is no error: an earlier attempt wrote it.
func (c *Chain) CreateOnce(ctx context.Context, key string, data []byte) error {
	err := c.Store.Create(ctx, key, data)
	if err == nil {
		return nil
	}
	held, failed := c.Store.Fetch(ctx, key, int64(len(data)))
	switch {
	case failed == nil && bytes.Equal(held.Data, data):
		return nil
	case failed == nil, errors.Is(failed, archive.ErrTooLarge):
		return fmt.Errorf("%w: %s", archive.ErrExists, key)
	}
	return err
}
