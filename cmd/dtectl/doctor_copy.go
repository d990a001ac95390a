package main

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"dtegate/storage"
)

// scrubLate is when a copy that nobody has read through is a warning; the appliance does it every day.
const scrubLate = 7 * 24 * time.Hour

// witnesses looks at what other media know, beside a store that nobody has open.
func (d *doctor) witnesses(s *storage.Store) {
	const do = "dtectl reconcile takes what the medium has of the same history; it says what to do with the rest"
	for _, w := range s.Behind() {
		d.fail("store", do, "nothing is numbered: %v", &w)
	}
	if d.cfg.SecondCopy == "" {
		return
	}
	c, err := s.LookAtCopy(d.cfg.SecondCopy)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.warn("second copy", "mount its medium", "%v", err)
	case errors.Is(err, storage.ErrNoStore):
		d.warn("second copy", "move it away, or put the right card in: the appliance begins a new one by itself", "%s: %v", d.cfg.SecondCopy, err)
	case err != nil:
		d.warn("second copy", "the appliance writes it anew from the store; a medium that does this again is to be replaced", "%v", err)
	case !c.There:
		d.warn("second copy", "start the appliance: it writes one", "there is none in %s yet", d.cfg.SecondCopy)
	case c.Witness != nil && s.Behind() == nil && s.Restored() == nil:
		d.fail("second copy", do, "%v", c.Witness)
	default:
		d.scrubbed(c.Scrub)
	}
}

// scrubbed says when the copy was last read through, and what of it is bad.
func (d *doctor) scrubbed(c storage.Scrub) {
	const replace = "replace the medium: dtectl doctor and the log name the segments"
	switch {
	case len(c.Bad) > 0:
		d.fail("second copy", replace, "%d bad segments could not be written anew: %s", len(c.Bad), strings.Join(c.Bad, "; "))
	case c.Last.IsZero():
		d.ok("second copy", "not read through yet: the appliance does that a few minutes after its start, then every day")
	case d.branchNow().Sub(c.Last) > scrubLate:
		d.warn("second copy", "let the appliance run; see its log for why it does not come to it", "last read through on %s", local(c.Last))
	case c.Found > 0:
		d.warn("second copy", replace, "last read through on %s; %d bad segments since it was begun, %d written anew", local(c.Last), c.Found, c.Mended)
	default:
		d.ok("second copy", "last read through on %s, %d segments, none bad", local(c.Last), c.Segments)
	}
}

// read says when the appliance last read the store's tables through, and what it found.
func (d *doctor) read(r storage.Reading) {
	switch {
	case r.Damaged > 0:
		d.fail("store", repairRemedy, "read through on %s: %d tables are damaged", local(r.At), r.Damaged)
	case r.At.IsZero():
		d.ok("store", "not read through yet: the appliance does that ten minutes after its start, then every day")
	case d.branchNow().Sub(r.At) > scrubLate:
		d.warn("store", "let the appliance run; see its log for why it does not come to it", "last read through on %s", local(r.At))
	default:
		d.ok("store", "last read through on %s, nothing damaged", local(r.At))
	}
}

// runningReading asks a running appliance for the same.
func (d *doctor) runningReading(ctx context.Context) {
	var s struct {
		Read *storage.Reading `json:"store_read"`
	}
	if err := askOps(ctx, d.cfg, http.MethodGet, "/status", nil, &s); err == nil && s.Read != nil {
		d.read(*s.Read)
	}
}

// runningCopy asks a running appliance for the same.
func (d *doctor) runningCopy(ctx context.Context) {
	var s struct {
		Copy   *storage.SecondCopy `json:"second_copy"`
		Backup *time.Time          `json:"backup"`
		Proved *time.Time          `json:"mark_proved"`
	}
	if err := askOps(ctx, d.cfg, http.MethodGet, "/status", nil, &s); err != nil {
		return // what /readyz says comes first
	}
	if s.Proved != nil {
		d.markOf(*s.Proved)
	}
	if s.Backup != nil {
		d.backedUp(*s.Backup)
	}
	if s.Copy == nil {
		return
	}
	if !s.Copy.Live {
		d.fail("second copy", "see Second medium in the runbook", "not written since %s: %s", local(s.Copy.Since), s.Copy.Why)
		return
	}
	d.scrubbed(s.Copy.Scrub)
}
