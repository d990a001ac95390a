package doctor

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/storage"
)

const repairRemedy = "dtectl fsck with the appliance stopped, then dtectl recover; see Store damaged in the runbook"

// store checks the store and returns its latest time, zero if unknown.
func (d *doctor) store(ctx context.Context) (last time.Time) {
	s, err := storage.OpenReadOnly(d.cfg.Store(slog.New(slog.DiscardHandler)))
	switch {
	case errors.Is(err, storage.ErrInUse):
		d.running(ctx)
		return last
	case errors.Is(err, storage.ErrNoStore):
		d.fail("store", "if this branch has sold before: dtectl recover rebuilds its store from the second copy, "+
			"from the copy that it shipped to the chain's store, or from a backup; for a branch that never sold: "+
			"dtectl init makes an empty store, once", "%v", err)
		return last
	case errors.Is(err, storage.ErrLayout):
		d.fail("store", "install the version that wrote the store; see Install in the runbook", "%v", err)
		return last
	case errors.Is(err, storage.ErrCorrupt):
		d.fail("store", repairRemedy, "%v", err)
		return last
	case err != nil:
		d.fail("store", "dtectl fsck shows more; dtectl recover makes a store from other media", "%v", err)
		return last
	}
	defer s.Close() // nothing was written
	if r := s.Restored(); r != nil {
		d.fail("store", "dtectl recover", "%v: run dtectl recover (nothing is missing until %s)", storage.ErrRestored,
			adminclient.Local(r.TakenAt()))
	} else if m, err := s.LookAtMark(""); err != nil {
		d.fail("store", repairRemedy, "%v", storage.Explain(err))
	} else if m.Kind != storage.MarkSound {
		d.fail("store", markRemedy(s, m), "%s: %s", storage.ErrMark, m.What)
	} else {
		d.ok("store", "%s opens and agrees with its mark", d.cfg.Data)
	}
	d.stoppedBackup(s)
	d.read(s.LastReading())
	if err := d.cfg.CheckRehearsal(s.LastID()); err != nil {
		d.fail("store", "use two stores: dtectl init makes a store", "%v", err)
	}
	d.listen()
	d.witnesses(s)
	d.stopped(s)
	last, _, err = s.LastBeat()
	if err != nil {
		d.fail("store", repairRemedy, "%v", storage.Explain(err))
	}
	return last
}

// markRemedy returns the advice for a mark that is missing or wrong.
func markRemedy(s *storage.Store, m storage.MarkState) string {
	const anew = "; if the store's own mark cannot be found, dtectl recover checks the store and makes a new mark"
	if m.Used != "" && m.Used != m.Path {
		at, err := s.LookAtMark(m.Used)
		if err == nil && (at.Kind == storage.MarkSound || at.Kind == storage.MarkAhead) {
			return "the store's mark is " + m.Used + ": dtectl recover moves it here"
		}
	}
	switch m.Kind {
	case storage.MarkMissing:
		return "mount its medium, or name the right path in the configuration" + anew
	case storage.MarkOld:
		return "the store last used another mark than this file: find that mark, or the right disk" + anew
	case storage.MarkForeign:
		return "that medium belongs to another box: put in the right medium" + anew
	case storage.MarkUnreadable:
		return "see whether the medium is dying" + anew
	}
	return "the mark is right and the store is an old copy: find the right disk, or take the documents of the other " +
		"media with dtectl recover, which shows the loss"
}

// Limits of the alerts DTENotProtected and DTEMark: doctor and monitoring judge a box by the same limits.
const (
	backupLate = 3 * 24 * time.Hour
	proofLate  = 15 * time.Minute
)

func (d *doctor) backedUp(at time.Time) {
	const do = "dtectl backup DIR, at night while the branch sells; see Backup old in the runbook"
	switch {
	case at.IsZero():
		d.warn("backup", do, "this store has no checked backup")
	case d.branchNow().Sub(at) > backupLate:
		d.warn("backup", do, "no backup for three days: the latest is of %s", adminclient.Local(at))
	default:
		d.ok("backup", "the latest is of %s", adminclient.Local(at))
	}
}

func (d *doctor) stoppedBackup(s *storage.Store) {
	switch at, err := s.LastBackup(); {
	case err != nil:
		d.fail("store", repairRemedy, "%v", storage.Explain(err))
	case s.LastID() > 0: // an empty store needs no backup
		d.backedUp(at)
	}
}

// markOf reports a mark whose last reading without a fault is older than proofLate.
func (d *doctor) markOf(proved time.Time) {
	if d.branchNow().Sub(proved) > proofLate {
		d.fail("mark", "do not restart; mount its medium again, and see Mark lost in the runbook",
			"not readable as it was written since %s: the next start will refuse the store", adminclient.Local(proved))
	}
}

// scrubLate: doctor warns if the last complete reading is older than this. One a day is normal.
const scrubLate = 7 * 24 * time.Hour

// witnesses reports the documents that a stopped store lacks and another medium has, and checks the second copy.
func (d *doctor) witnesses(s *storage.Store) {
	const do = "dtectl recover takes the missing documents from the medium, and shows the loss"
	for _, w := range s.Behind() {
		d.fail("store", do, "nothing is numbered: %v", &w)
	}
	held, err := s.Held()
	if err != nil {
		d.fail("store", "dtectl fsck", "the list of held series cannot be read: %v", err)
	}
	for _, w := range held {
		d.fail("store", "find the last number of the series, then run dtectl recover", "nothing is numbered: %v", &w)
	}
	if d.cfg.SecondCopy == "" {
		return
	}
	c, err := s.LookAtCopy(d.cfg.SecondCopy)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, storage.ErrNotMounted):
		d.warn("second copy", "mount its medium", "%v", err)
	case errors.Is(err, storage.ErrNoStore):
		d.warn("second copy", "move the copy away, or put in the right card: the appliance begins a new copy by itself",
			"%s: %v", d.cfg.SecondCopy, err)
	case err != nil:
		d.warn("second copy", "the appliance writes the copy again from the store; if that happens again, replace the "+
			"medium", "%v", err)
	case !c.There:
		d.warn("second copy", "start the appliance: it writes the copy", "there is no copy in %s yet", d.cfg.SecondCopy)
	case c.Witness != nil && s.Behind() == nil && s.Restored() == nil:
		d.fail("second copy", do, "%v", c.Witness)
	default:
		d.scrubbed(c.Scrub)
	}
}

// scrubbed reports when the second copy was last read completely, and which segments are bad.
func (d *doctor) scrubbed(c storage.Scrub) {
	const replace = "replace the medium: dtectl doctor and the log name the segments"
	switch {
	case len(c.Bad) > 0:
		d.fail("second copy", replace, "%d bad segments could not be written again: %s", len(c.Bad), strings.Join(c.Bad,
			"; "))
	case c.Last.IsZero():
		d.ok("second copy", "not read through yet: the appliance does that a few minutes after its start, then every "+
			"day")
	case d.branchNow().Sub(c.Last) > scrubLate:
		d.warn("second copy", "let the appliance run; its log has the reason for the delay",
			"last read through on %s", adminclient.Local(c.Last))
	case c.Found > 0:
		d.warn("second copy", replace,
			"last read through on %s; %d bad segments since the copy began, %d written again",
			adminclient.Local(c.Last), c.Found, c.Mended)
	default:
		d.ok("second copy", "last read through on %s, %d segments, none bad", adminclient.Local(c.Last), c.Segments)
	}
}

// read reports when the appliance last read all tables of the store, and how many were damaged.
func (d *doctor) read(r storage.Reading) {
	switch {
	case r.Damaged > 0:
		d.fail("store", repairRemedy, "read through on %s: %d tables are damaged", adminclient.Local(r.At), r.Damaged)
	case r.At.IsZero():
		d.ok("store", "not read through yet: the appliance does that ten minutes after its start, then every day")
	case d.branchNow().Sub(r.At) > scrubLate:
		d.warn("store", "let the appliance run; its log has the reason for the delay", "last read through on %s",
			adminclient.Local(r.At))
	default:
		d.ok("store", "last read through on %s, nothing damaged", adminclient.Local(r.At))
	}
}

// runningStatus judges a running appliance's store, mark, backups and second copy by its status.
func (d *doctor) runningStatus(ctx context.Context) {
	s, err := adminclient.AskStatus(ctx, d.cfg)
	if err != nil {
		return // the method running has already reported a failure
	}
	if r := s.Refused; r != nil {
		d.fail("authority", "set a new password in MH's portal, then as root: "+strings.ReplaceAll(r.Do, "\n", "; ")+
			"; see MH's password in the runbook", "%s; sales go on in contingency", r.Why)
	}
	if s.Read != nil {
		d.read(*s.Read)
	}
	if s.Proved != nil {
		d.markOf(*s.Proved)
	}
	if s.Backup != nil {
		d.backedUp(*s.Backup)
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
	d.scrubbed(s.Copy.Scrub)
}
