package main

import (
	"time"

	"dtegate/storage"
)

// Limits of monitoring's alerts, DTEBackupOld and DTEMarkLost: the two say the same of the same box.
const (
	backupLate = 3 * 24 * time.Hour
	proofLate  = 15 * time.Minute
)

// backedUp says how old the latest backup is.
func (d *doctor) backedUp(at time.Time) {
	const do = "dtectl backup DIR, at night while the branch sells; the runbook tells more under Backup old"
	switch {
	case at.IsZero():
		d.warn("backup", do, "this store has none that was checked to its last row")
	case d.branchNow().Sub(at) > backupLate:
		d.warn("backup", do, "none for three days: the latest is of %s", local(at))
	default:
		d.ok("backup", "the latest is of %s", local(at))
	}
}

// stoppedBackup asks a store that nobody has open.
func (d *doctor) stoppedBackup(s *storage.Store) {
	switch at, err := s.LastBackup(); {
	case err != nil:
		d.fail("store", repairRemedy, "%v", storage.Explain(err))
	case s.LastID() > 0: // an empty store misses none
		d.backedUp(at)
	}
}

// markOf says whether the running appliance has found its mark as it was written.
func (d *doctor) markOf(proved time.Time) {
	if d.branchNow().Sub(proved) > proofLate {
		d.fail("mark", "do not restart; mount its medium again, and see Mark lost in the runbook",
			"it is not what was written since %s: the next start will refuse the store", local(proved))
	}
}
