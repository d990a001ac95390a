package fleet

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/archive"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/sign"
	"dtegate/rules/bundle"
)

type Keygen struct {
	Name string `arg:"" type:"path" help:"Makes NAME.jwe (the sealed key), NAME.pub and NAME.passphrase."`
}

// Run never overwrites a key.
func (c *Keygen) Run() error {
	sealed, public, file := c.Name+".jwe", c.Name+".pub", c.Name+".passphrase"
	for _, path := range []string{sealed, public} {
		if _, err := os.Stat(path); err == nil {
			return fmt.Errorf("%s exists", path)
		}
	}
	passphrase, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		passphrase = []byte(config.Secret())
		err = config.WriteFile(file, passphrase)
	}
	if err != nil {
		return fmt.Errorf("preparing passphrase: %w", err)
	}
	half, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("making the director's key: %w", err)
	}
	secret, err := sign.SealPrivate(private, []byte(strings.TrimSpace(string(passphrase))))
	open, failed := bundle.MarshalPublic(half)
	if err = errors.Join(err, failed); err == nil {
		err = errors.Join(config.WriteFile(sealed, secret), config.WriteFile(public, open))
	}
	if err != nil {
		return err
	}
	term.Printf("key          %s (sealed)\npassphrase   %s: keep it elsewhere\npublic       %s: fleet.director_key of "+
		"every box\nfingerprint  %s\n", sealed, file, public, fleetproto.Fingerprint(half))
	return nil
}

type Rekey struct {
	Old    string           `arg:"" type:"existingfile" help:"The old public key; director.public is the new one."`
	Except []string         `help:"Enrolments by a thief: they are not signed again." placeholder:"BRANCH/EPOCH"`
	Back   map[string]int64 `mapsep:"," help:"Last version that no thief published." placeholder:"GROUP=VERSION"`
	DryRun bool             `help:"Show what would be signed again, and write nothing."`

	moves bool // there is something to sign
}

// Run signs again, with the new key, each enrolment that the old key signed, and publishes one new version after the
// last version of each group. From then on, a box that pins the new key, alone or after the old key, accepts no new
// object signed by the old key. The next run continues an interrupted run. An object that the old key signs after a
// complete run is never signed again.
func (c *Rekey) Run(ctx context.Context, chain *Chain) error {
	text, err := os.ReadFile(c.Old)
	if err != nil {
		return err
	}
	public, err := bundle.ParsePublic(text)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Old, err)
	}
	if public.Equal(chain.Director.Public) {
		return fmt.Errorf("%s is director.public of fleet.toml: that must be the new key (dtectl fleet keygen)", c.Old)
	}
	return c.run(ctx, chain, fleetproto.Key{ID: fleetproto.Fingerprint(public), Public: public})
}

func (c *Rekey) run(ctx context.Context, chain *Chain, old fleetproto.Key) error {
	director, err := chain.Sign()
	if err != nil {
		return err
	}
	both := *chain
	both.former = []fleetproto.Key{old}
	surveyor := NewSurveyor(&both)
	if _, err = surveyor.enrolments.list(ctx); err == nil {
		err = c.checkOld(ctx, surveyor.enrolments)
	}
	switch lost := surveyor.enrolments.lost(); {
	case err != nil:
		return err
	case !c.DryRun:
		s, err := restored(ctx, &both, surveyor)
		if err == nil {
			err = s.whole()
		}
		if err != nil {
			return err
		}
	case len(lost) > 0:
		term.Printf("the store has lost %s: without --dry-run this centre first puts back what it kept, and signs "+
			"that too\n", strings.Join(slices.Sorted(maps.Keys(lost)), ", "))
	}
	// Sign the enrolments first: a box that accepts the new key's order then finds an enrolment of the new key.
	groups, err := c.enrolments(ctx, chain, surveyor.enrolments, director)
	if err != nil {
		return err
	}
	var faults []error
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		if err := c.group(ctx, chain, &both, group, groups[group]); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", group, err))
		}
	}
	switch err := errors.Join(faults...); {
	case err != nil:
		return err
	case !c.moves:
		term.Printf("nothing to sign: %s, given as the old key, signed only objects that %s (director.public, the new "+
			"key) has signed again or left as they are\n", old.ID, fleetproto.Fingerprint(chain.Director.Public))
	case !c.DryRun:
		term.Printf("moved from the key %s to %s: where director_key still has the old key, put the new key after it\n",
			old.ID, fleetproto.Fingerprint(chain.Director.Public))
	}
	return nil
}

// checkOld refuses an old key that the boxes no longer obey: in half of the branches or more, the first enrolment is
// signed by neither the old nor the new key. A thief may have invented branches too, but fewer.
func (c *Rekey) checkOld(ctx context.Context, held *enrolments) error {
	for _, group := range held.c.keptGroups() { // a version kept here proves the key, whatever the store has
		if list := held.c.keptVersions(group); len(list) > 0 {
			if _, err := held.c.kept(group, slices.Max(list)); err == nil {
				return nil
			}
		}
	}
	first, others := make(map[string]bool), []string(nil)
	for _, o := range held.near {
		name := o.name()
		if first[o.owner] || slices.Contains(c.Except, name) {
			continue
		}
		first[o.owner] = true
		if _, err := held.get(ctx, o.owner, o.number); foreign(err) {
			others = append(others, name)
		} else if err != nil {
			return err
		}
	}
	if n := len(others); n > 0 && 2*n >= len(first) {
		return fmt.Errorf("neither %s nor director.public has signed %d of %d (%s): give the key that was in use "+
			"until now; leave out, with --except, what no director signed; nothing was signed", held.c.former[0].ID,
			n, len(first), strings.Join(others, ", "))
	}
	return nil
}

// enrolments signs again the survey's enrolments (held) that the old key signed, each branch's highest epoch first: a
// replaced box must not mistake an earlier epoch for the last epoch. It signs none if an earlier run has signed all:
// this centre remembers that run, or the new key has signed versions as well as enrolments. It returns all groups; true
// marks a group that has a branch.
func (c *Rekey) enrolments(ctx context.Context, chain *Chain, held *enrolments, director fleetproto.Signer,
) (map[string]bool, error) {
	both, mine := held.c, newEnrolments(chain)
	mine.tags = held.tags
	branches, groups := make(map[string][]*fleetproto.Enrolment), make(map[string]bool)
	signed := make(map[*fleetproto.Enrolment]bool) // by the new key
	top := make(map[string]int64)                  // the highest epoch that the new key signed, by branch
	ordered, err := both.Groups(ctx)
	if err != nil {
		return nil, err
	}
	var last string
	if err := chain.recall(rekeyedFile, &last); err != nil {
		return nil, err
	}
	done := last == fleetproto.Fingerprint(chain.Director.Public)
	moved, rekeyed := false, false // the new key has signed a version; it has signed an enrolment again
	for _, group := range ordered {
		own, err := chain.signed(ctx, group)
		if err != nil && !foreign(err) {
			return nil, err
		}
		groups[group], moved = false, moved || own != nil
	}
	for group, n := range c.Back {
		if _, err := both.unaltered(ctx, group, n); err != nil {
			return nil, fmt.Errorf("--back %s=%d: %w; nothing was signed", group, n, err)
		}
	}
	for _, name := range c.Except {
		if _, ok := held.tags[fleetproto.BoxesFolder+name+".jws"]; !ok {
			return nil, fmt.Errorf("--except %s: must be BRANCH/EPOCH, an enrolment in the store; nothing was signed",
				name)
		}
	}
	for _, o := range held.near {
		if slices.Contains(c.Except, o.name()) {
			continue
		}
		e, err := held.get(ctx, o.owner, o.number)
		if foreign(err) && !errors.Is(err, archive.ErrNotFound) {
			term.Printf("%s is left as it is: %v\n", o.Key, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if _, err := mine.get(ctx, o.owner, o.number); err == nil {
			signed[e], top[o.owner] = true, max(top[o.owner], cmp.Or(e.Highest, e.Epoch))
			rekeyed = rekeyed || e.Highest > 0
		} else if !foreign(err) {
			return nil, err
		}
		branches[o.owner] = append([]*fleetproto.Enrolment{e}, branches[o.owner]...)
	}
	for _, branch := range slices.Sorted(maps.Keys(branches)) {
		highest := cmp.Or(top[branch], branches[branch][0].Epoch)
		for _, e := range branches[branch] {
			if !signed[e] && (done || moved && rekeyed || e.Epoch > highest) {
				term.Printf("%s, epoch %d is left as it is: an earlier run left it out, or the old key signed it "+
					"after the new key\n", branch, e.Epoch)
				continue
			}
			if e.Group != "" { // even a group without versions: its boxes must learn of the new key
				groups[e.Group] = true
			}
			if signed[e] {
				continue
			}
			term.Printf("%s, epoch %d, key %s, %s, enrolled %s by %s\n", branch, e.Epoch, Fingerprint(e.Key),
				strings.Trim(fmt.Sprint(e.Points), "[]"), local(e.At), e.By)
			if c.moves = true; c.DryRun {
				continue
			}
			if last, back := c.Back[e.Group]; e.After > 0 { // a thief may have named a version that does not exist
				if head, err := both.Head(ctx, e.Group); err != nil && !back {
					return nil, fmt.Errorf("%s, epoch %d: reading %s: %w", branch, e.Epoch, e.Group, err)
				} else if !back && head != nil {
					last = head.Version
				}
				e.After = min(e.After, last)
			}
			e.First = cmp.Or(e.First, e.At)
			e.Highest, e.At, e.By = highest, chain.Now().UTC().Truncate(time.Second), chain.Who
			data, err := both.Identity.Seal(e, director)
			if err == nil {
				err = both.Store.Overwrite(ctx, fleetproto.BoxKey(branch, e.Epoch), data)
			}
			if err != nil {
				return nil, fmt.Errorf("signing epoch %d of %s again: %w", e.Epoch, branch, err)
			}
		}
	}
	if c.DryRun {
		return groups, nil
	}
	return groups, chain.remember(rekeyedFile, fleetproto.Fingerprint(chain.Director.Public))
}

// signed returns the last version of a group that the director's key has signed, in the store or kept by this centre;
// nil: none.
func (c *Chain) signed(ctx context.Context, group string) (*Version, error) {
	head, err := c.Head(ctx, group)
	for _, n := range slices.Backward(c.keptVersions(group)) {
		if _, other := c.kept(group, n); head == nil && other == nil && (err == nil || foreign(err)) {
			return c.unaltered(ctx, group, n)
		}
	}
	return head, err
}

// unaltered reads a version that the director has signed: this centre's copy, if there is one, because a thief of the
// key may have signed another version of that number.
func (c *Chain) unaltered(ctx context.Context, group string, n int64) (*Version, error) {
	data, err := c.kept(group, n)
	if err != nil {
		return c.Version(ctx, group, n)
	}
	v := &Version{Digest: fleetproto.Digest(data)}
	v.Desired, err = c.Identity.OpenDesired(data, c.keys(), group, n)
	return v, err
}

// reads returns the last version that a box can read if it has the version last: the version before the next gap.
func (c *Chain) reads(ctx context.Context, group string, last fleetproto.Verified) (fleetproto.Verified, error) {
	for n := last.Version; ; n++ {
		o, err := c.Store.Fetch(ctx, fleetproto.DesiredKey(group, n), fleetproto.MaxJWS)
		switch {
		case errors.Is(err, archive.ErrNotFound) && n == last.Version: // only this centre has the version
		case errors.Is(err, archive.ErrNotFound):
			return last, nil
		case err != nil && !foreign(err):
			return last, err
		default:
			last = fleetproto.Verified{Version: n, Digest: fleetproto.Digest(o.Data)}
		}
	}
}

// maxClosed is how many closed points of sale rekey takes over, because a thief may have closed more than one version
// can name.
const maxClosed = 4000

// group publishes a group's desired state again, as a new version signed by the new key. For a group without versions,
// it publishes an order that changes nothing. It ignores objects that neither key signed.
func (c *Rekey) group(ctx context.Context, chain, both *Chain, group string, ofBranch bool) error {
	wanted, back := c.Back[group]
	// Once the new key has signed a version, later versions by the old key do not count.
	head, err := chain.signed(ctx, group)
	var numbers []int64
	begun := head != nil
	if begun && !back || err != nil && !foreign(err) {
		return err
	}
	if !begun {
		head, err = both.Head(ctx, group)
		gap := err == nil && !back && head != nil && head.Hole > 0
		if gap { // no box reads the versions after the gap
			err = fmt.Errorf("the store has lost version %d: name the last version that no thief published, --back "+
				"%s=VERSION; %d is the last there is", head.Hole, group, head.Version)
		}
		if (gap || foreign(err)) && !ofBranch {
			term.Printf("%s is left as it is: %v\n", group, err)
			return nil
		}
		if err == nil && back {
			head, err = both.unaltered(ctx, group, wanted)
		}
		if err != nil {
			return err
		}
		for o, err := range both.objects(ctx, fleetproto.DesiredFolder(group), fleetproto.DesiredKey) {
			if err != nil {
				return err
			}
			numbers = append(numbers, o.number) // the list's time is limited: read them after it
		}
	}
	now := chain.Now()
	// enrol closes points of sale for the current year only: a thief closed a point for a later year
	thiefs := func(p fleetproto.ClosedPoint) bool { return p.Year > dte.Year(now) }
	var closed []fleetproto.ClosedPoint // of the head, then of all versions: a closed point of sale stays closed
	if head != nil {
		closed = slices.DeleteFunc(slices.Clone(head.Closed), thiefs)
	}
	for _, n := range numbers {
		v, err := both.unaltered(ctx, group, n)
		if err != nil && !foreign(err) {
			return err
		}
		for i := 0; err == nil && i < len(v.Closed) && len(closed) < maxClosed; i++ {
			if !thiefs(v.Closed[i]) && !slices.Contains(closed, v.Closed[i]) {
				closed = append(closed, v.Closed[i])
			}
		}
	}
	if begun {
		term.Printf("%s: the new key has signed version %d already: --back %s=%d changes nothing of what it desires "+
			"(dtectl fleet publish does)\n", group, head.Version, group, wanted)
	}
	for ; ; begun = true { // with --back, again after each filled gap: boxes may have read the versions above it
		if back {
			held := fleetproto.Verified{Version: head.Version, Digest: head.Digest}
			if head.Last, err = both.reads(ctx, group, held); err != nil || begun && head.Last == held {
				return err
			}
			head.Lost = append(head.Lost, held) // the versions behind a gap may be a thief's
		}
		if head != nil {
			term.Printf("%s version %d of %s by %s: %s\n", group, head.Version, local(head.Issued), head.By,
				describe(head.Live))
		}
		if c.moves = true; c.DryRun {
			return nil
		}
		next, err := chain.Next(ctx, head, group, "the director's key was replaced", now.Add(DefaultLife),
			func(d *fleetproto.Desired) { d.Closed = closed })
		if err != nil {
			return err
		}
		term.Printf("%s version %d is signed by the new key\n", group, next.Version)
		if head, err = chain.Version(ctx, group, next.Version); err != nil || !back {
			return err
		}
	}
}
