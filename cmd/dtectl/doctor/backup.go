package doctor

import (
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/storage"
)

// Limits of monitoring's alerts, DTENotProtected and DTEMark: the two say the same of the same box.
const (
	backupLate = 3 * 24 * time.Hour
	proofLate  = 15 * time.Minute
)

// media judges what is known of the media that a store, its mark, its backups and its second copy lie on.
type media struct {
	*report
	now time.Time
}

func (d *doctor) onMedia() media { return media{&d.report, d.branchNow()} }

// backedUp says how old the latest backup is.
func (m media) backedUp(at time.Time) {
	const do = "dtectl backup DIR, at night while the branch sells; the runbook tells more under Backup old"
	switch {
	case at.IsZero():
		m.warn("backup", do, "this store has none that was checked to its last row")
	case m.now.Sub(at) > backupLate:
		m.warn("backup", do, "none for three days: the latest is of %s", adminclient.Local(at))
	default:
		m.ok("backup", "the latest is of %s", adminclient.Local(at))
	}
}

// stoppedBackup asks a store that nobody has open.
func (d *doctor) stoppedBackup(s *storage.Store) {
	switch at, err := s.LastBackup(); {
	case err != nil:
		d.fail("store", repairRemedy, "%v", storage.Explain(err))
	case s.LastID() > 0: // an empty store misses none
		d.onMedia().backedUp(at)
	}
}

// markOf says whether the running appliance has found its mark as it was written.
func (m media) markOf(proved time.Time) {
	if m.now.Sub(proved) > proofLate {
		m.fail("mark", "do not restart; mount its medium again, and see Mark lost in the runbook",
			"it is not what was written since %s: the next start will refuse the store", adminclient.Local(proved))
	}
}
