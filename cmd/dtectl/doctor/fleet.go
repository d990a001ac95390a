package doctor

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/dted/health"
	"dtegate/engine/archive"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
)

// fleet checks, by the agent's own rules, that the chain's store admits this box and that no other box has the branch.
func (d *doctor) fleet(ctx context.Context, in *config.Inputs) {
	const check = "fleet"
	c := d.cfg.Fleet
	box, err := c.Box()
	if errors.Is(err, fs.ErrNotExist) {
		d.warn(check, "start dted: it makes the key; then have the box enrolled at the centre",
			"branch %s of group %s: the box has no key yet", c.Branch, c.Group)
		return
	}
	if err != nil {
		d.fail(check, remedies[check], "%v", err)
		return
	}
	public, _ := box.Private.Public().(ed25519.PublicKey)
	own := fleetproto.Fingerprint(public)
	ctx, cancel := context.WithTimeout(ctx, reachBudget)
	defer cancel()
	points := d.cfg.ChainPoints()
	s, answered, err := fleet.Enrolled(ctx, fleet.Options{Store: in.Store, Chain: d.cfg.Chain(), Branch: c.Branch,
		Group: c.Group, Director: in.Directors, Box: box, Points: points, State: config.Keeper(c.State),
		Logger: slog.New(slog.DiscardHandler), Now: d.now})
	switch {
	case archive.Refuses(err):
		d.warn(check, "correct the setting that the error names: access_key, the secret, region or bucket of "+
			"[fleet.store], the bucket's policy or quota; the branch sells without the store", "%s: %v",
			c.Store.Endpoint, err)
	case !answered:
		d.warn(check, "see whether the store runs and accepts this box's secret; the branch sells without the store",
			"%s: the store does not answer: %v", c.Store.Endpoint, err)
	case errors.Is(err, fleetproto.ErrSignature):
		d.warn(check, "if the director's key was changed, fleet.director_key must have the key that is missing, the "+
			"old key first, or enrol the box again; otherwise find out who wrote this enrolment", "branch %s: %v",
			c.Branch, err)
	case err != nil:
		d.warn(check, "see Chain out of step in the runbook", "branch %s: %v", c.Branch, err)
	}
	refused := health.CheckEnrolled(s)
	switch unnamed := fleetproto.Unnamed(points, s.Points); {
	case !answered && s.Highest == 0: // the box has read no enrolment yet
	case refused != nil:
		d.fail(check, "see "+headings[refused.Code]+" in the runbook", "branch %s of group %s: %s; this box's "+
			"fingerprint is %s", c.Branch, c.Group, refused.English, own)
	case len(unnamed) > 0 && s.Behind != "":
		d.fail(check, "see Store behind in the runbook", "branch %s, epoch %d: nothing is numbered at %s: %s", c.Branch,
			s.Epoch, strings.Trim(fmt.Sprint(unnamed), "[]"), s.Behind)
	case len(unnamed) > 0:
		d.fail(check, "have the centre enrol this box again with its points of sale (dtectl fleet enrol there), or "+
			"correct [[point_of_sale]]",
			"branch %s, epoch %d: the enrolment does not name %s: nothing is numbered there", c.Branch, s.Epoch,
			strings.Trim(fmt.Sprint(unnamed), "[]"))
	default:
		d.ok(check, "branch %s of group %s, epoch %d, fingerprint %s", c.Branch, c.Group, s.Epoch, own)
	}
	d.shipping(ctx)
}

// shipping reports which of the branch's data would survive the loss of its box, and whether the store could be rebuilt
// completely from the chain's store.
func (d *doctor) shipping(ctx context.Context) {
	const check = "shipping"
	s := &adminclient.Status{}
	if running, err := adminclient.AskStatus(ctx, d.cfg); err == nil {
		s = running
	}
	switch c := d.cfg; {
	case c.Fleet.Ship == "" && c.SecondCopy == "":
		d.warn(check, "set second_copy, a folder, on a second medium if there is one, and ship in [fleet]",
			"nothing of this branch outlives its disk")
	case c.Fleet.Ship == "":
		d.warn(check, "set ship in [fleet]",
			"the second copy is not shipped: nothing of this branch outlives the box and its media")
	case s.Shipped != nil && s.Shipped.Lacks != "":
		d.fail(check, "see Not shipped in the runbook", "a rebuild today would not be complete: the chain's store has "+
			"lost %s, and this box cannot ship it again", s.Shipped.Lacks)
	case s.Shipped != nil && s.Shipped.Why != "":
		d.warn(check, "see Not shipped in the runbook", "%d changes are not in the chain's store: %s", s.Shipped.Behind,
			s.Shipped.Why)
	case s.Shipped != nil && !s.Shipped.Checked.IsZero():
		d.ok(check, "the second copy is shipped, %s; everything that a rebuild would read was found in the chain's "+
			"store on %s", c.Fleet.Ship, adminclient.Local(s.Shipped.Checked))
	default:
		d.ok(check, "the second copy is shipped, %s", c.Fleet.Ship)
	}
}
