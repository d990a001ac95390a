package doctor

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/storage"
)

// scrubLate is when a copy that nobody has read through is a warning; the appliance does it every day.
const scrubLate = 7 * 24 * time.Hour

// witnesses looks at what other media know, beside a store that nobody has open.
func (d *doctor) witnesses(s *storage.Store) {
	const do = "dtectl recover takes what the medium has of the same history; it says what is lost"
	for _, w := range s.Behind() {
		d.fail("store", do, "nothing is numbered: %v", &w)
	}
	held, err := s.Held()
	if err != nil {
		d.fail("store", "dtectl fsck", "which series are held cannot be read: %v", err)
	}
	for _, h := range held {
		d.fail("store", "find the last number of the series, then dtectl recover", "nothing is numbered: %v", h)
	}
	if d.cfg.SecondCopy == "" {
		return
	}
	c, err := s.LookAtCopy(d.cfg.SecondCopy)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, storage.ErrNotMounted):
		d.warn("second copy", "mount its medium", "%v", err)
	case errors.Is(err, storage.ErrNoStore):
		d.warn("second copy", "move it away, or put the right card in: the appliance begins a new one by itself",
			"%s: %v", d.cfg.SecondCopy, err)
	case err != nil:
		d.warn("second copy", "the appliance writes it anew from the store; a medium that does this again is to be "+
			"replaced", "%v", err)
	case !c.There:
		d.warn("second copy", "start the appliance: it writes one", "there is none in %s yet", d.cfg.SecondCopy)
	case c.Witness != nil && s.Behind() == nil && s.Restored() == nil:
		d.fail("second copy", do, "%v", c.Witness)
	default:
		d.onMedia().scrubbed(c.Scrub)
	}
}

// scrubbed says when the copy was last read through, and what of it is bad.
func (m media) scrubbed(c storage.Scrub) {
	const replace = "replace the medium: dtectl doctor and the log name the segments"
	switch {
	case len(c.Bad) > 0:
		m.fail("second copy", replace, "%d bad segments could not be written anew: %s", len(c.Bad), strings.Join(c.Bad,
			"; "))
	case c.Last.IsZero():
		m.ok("second copy", "not read through yet: the appliance does that a few minutes after its start, then every day")
	case m.now.Sub(c.Last) > scrubLate:
		m.warn("second copy", "let the appliance run; see its log for why it does not come to it",
			"last read through on %s", adminclient.Local(c.Last))
	case c.Found > 0:
		m.warn("second copy", replace, "last read through on %s; %d bad segments since it was begun, %d written anew",
			adminclient.Local(c.Last), c.Found, c.Mended)
	default:
		m.ok("second copy", "last read through on %s, %d segments, none bad", adminclient.Local(c.Last), c.Segments)
	}
}

// read says when the appliance last read the store's tables through, and what it found.
func (m media) read(r storage.Reading) {
	switch {
	case r.Damaged > 0:
		m.fail("store", repairRemedy, "read through on %s: %d tables are damaged", adminclient.Local(r.At), r.Damaged)
	case r.At.IsZero():
		m.ok("store", "not read through yet: the appliance does that ten minutes after its start, then every day")
	case m.now.Sub(r.At) > scrubLate:
		m.warn("store", "let the appliance run; see its log for why it does not come to it", "last read through on %s",
			adminclient.Local(r.At))
	default:
		m.ok("store", "last read through on %s, nothing damaged", adminclient.Local(r.At))
	}
}

// runningStatus judges what a running appliance says of its own store, mark, backups and second copy.
func (d *doctor) runningStatus(ctx context.Context) {
	s, err := adminclient.AskStatus(ctx, d.cfg)
	if err != nil {
		return // what /readyz says comes first
	}
	if r := s.Refused; r != nil {
		d.fail("authority", "set a new password in MH's portal, then as root: "+strings.ReplaceAll(r.Do, "\n", "; ")+
			"; see MH's password in the runbook", "%s; sales go on in contingency", r.Why)
	}
	if s.Read != nil {
		d.onMedia().read(*s.Read)
	}
	if s.Proved != nil {
		d.onMedia().markOf(*s.Proved)
	}
	if s.Backup != nil {
		d.onMedia().backedUp(*s.Backup)
	}
	for _, l := range s.Owed.LostRecords {
		d.warn("lost", "see Lost records in the runbook", "%s: %s", l.Name(), l.Why)
	}
	if s.Copy == nil {
		return
	}
	if !s.Copy.Live {
		d.fail("second copy", "see Second medium in the runbook", "not written since %s: %s",
			adminclient.Local(s.Copy.Since), s.Copy.Why)
		return
	}
	d.onMedia().scrubbed(s.Copy.Scrub)
}
