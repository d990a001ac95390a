package doctor

import (
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dted/config"
)

// Doctor's lines on backup and mark begin at the limits of monitoring's alerts.
func TestDoctor_BackupAndMark(t *testing.T) {
	now := time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		look   func(d *doctor)
		status string // "": no line
		says   string
	}{
		{func(d *doctor) { d.backedUp(now.Add(-backupLate)) }, statusOK, "the latest is of"},
		{func(d *doctor) { d.backedUp(now.Add(-backupLate - time.Second)) }, statusWarn,
			"no backup for three days"},
		{func(d *doctor) { d.backedUp(time.Time{}) }, statusWarn, "has no checked backup"},
		{func(d *doctor) { d.markOf(now.Add(-time.Minute)) }, "", ""},
		{func(d *doctor) { d.markOf(now.Add(-proofLate - time.Second)) }, statusFail,
			"the next start will refuse"},
	} {
		d := &doctor{cfg: new(config.Config), now: func() time.Time { return now }}
		c.look(d)
		if c.status == "" && d.findings != nil || c.status != "" && (len(d.findings) != 1 ||
			d.findings[0].Status != c.status || !strings.Contains(d.findings[0].What, c.says)) {
			t.Errorf("%q: %+v", c.says, d.findings)
		}
	}
}
