package doctor

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io/fs"

	"dtegate/cmd/dted/start"
	"dtegate/engine/fleet/wire"
)

// fleet looks into the chain's store: whether it lets this box in, and whose the branch is.
func (d *doctor) fleet(ctx context.Context, f *start.Fleet) {
	const check = "fleet"
	c := d.cfg.Fleet
	box, err := c.Box()
	if errors.Is(err, fs.ErrNotExist) {
		d.warn(check, "start dted: it makes the key; then have the box enrolled at the centre", "branch %s of group %s: the box has no key yet", c.Branch, c.Group)
		return
	}
	if err != nil {
		d.fail(check, remedies[check], "%v", err)
		return
	}
	public, _ := box.Private.Public().(ed25519.PublicKey)
	own := wire.Fingerprint(public)
	ctx, cancel := context.WithTimeout(ctx, reachBudget)
	defer cancel()
	var last *wire.Enrolment
	for epoch := int64(1); ; epoch++ {
		held, err := f.Store.Get(ctx, wire.BoxKey(c.Branch, epoch), wire.MaxJWS)
		if errors.Is(err, wire.ErrNotFound) {
			break
		}
		if err != nil {
			d.warn(check, "see whether the store is there and takes this box's credentials; the branch sells without it", "%s: the store does not answer: %v", c.Store.Endpoint, err)
			return
		}
		e, err := wire.OpenEnrolment(held.Data, f.Directors, c.Branch, epoch)
		if errors.Is(err, wire.ErrSignature) {
			d.warn(check, "was the director's key changed? the key that signed it belongs in fleet.director_key, or the box is to be enrolled again; else find out who wrote it",
				"epoch %d of branch %s: %v", epoch, c.Branch, err)
			continue
		}
		if err != nil {
			d.warn(check, "find out who wrote it: only the store's owner can delete it", "epoch %d of branch %s: %v", epoch, c.Branch, err)
			continue
		}
		last = e
	}
	switch {
	case last == nil:
		d.warn(check, "enrol it at the centre: dtectl fleet enrol", "branch %s of group %s: no box is enrolled; this one's fingerprint is %s", c.Branch, c.Group, own)
	case !last.BoxKeyOf().Public.Equal(public):
		d.fail(check, "correct fleet.branch, or enrol this box in the other's place at the centre", "branch %s: another box has it (epoch %d, fingerprint %s); this one's is %s, and it numbers nothing",
			c.Branch, last.Epoch, wire.Fingerprint(last.BoxKeyOf().Public), own)
	default:
		d.ok(check, "branch %s of group %s, epoch %d, fingerprint %s", c.Branch, c.Group, last.Epoch, own)
	}
	d.shipping()
}

// shipping says what of the branch outlives its box.
func (d *doctor) shipping() {
	const check = "shipping"
	switch c := d.cfg; {
	case c.Fleet.Ship == "" && c.SecondCopy == "":
		d.warn(check, "set second_copy, a folder, on a second medium if there is one, and ship in [fleet]", "nothing of this branch outlives its disk")
	case c.Fleet.Ship == "":
		d.warn(check, "set ship in [fleet]", "the second copy is not shipped: nothing of this branch outlives the box and its media")
	default:
		d.ok(check, "the second copy is shipped, %s", c.Fleet.Ship)
	}
}
