package storage

import (
	"testing"

	"dtegate/cmd/cmdtest/metrictest"
)

// The time of the latest backup is known after a restart. A failed attempt does not count, and a restored store does
// not claim the backup that it came from.
func TestLastBackup(t *testing.T) {
	s, fs := newStore(t)
	put(t, s, "a", 1)
	if at, err := s.LastBackup(); err != nil || !at.IsZero() {
		t.Errorf("before the first: %v, %v", at, err)
	}
	if v := metrictest.Value(t, s, "dte_store_backup_timestamp_seconds"); v != 0 {
		t.Errorf("the metric says %v", v)
	}
	taken := backup(t, s, backupDir).Taken
	if _, err := s.Backup(ctx, backupDir, nil); err == nil {
		t.Error("a second one into the same folder was made")
	}
	sound(t, s)
	s = openStore(t, fs)
	if at, err := s.LastBackup(); err != nil || !at.Equal(taken) {
		t.Errorf("after a restart %v, %v; it was taken at %v", at, err, taken)
	}
	if v := metrictest.Value(t, s, "dte_store_backup_timestamp_seconds"); v != float64(taken.Unix()) {
		t.Errorf("the metric says %v", v)
	}
	lose(t, s, fs)
	if _, err := Assemble(ctx, Sources{Backups: []string{backupDir}}, options(fs), nil); err != nil {
		t.Fatal(err)
	}
	restored, err := OpenReadOnly(options(fs))
	if err != nil {
		t.Fatal(err)
	}
	if at, err := restored.LastBackup(); err != nil || !at.IsZero() {
		t.Errorf("restored: %v, %v", at, err)
	}
	if err := restored.Close(); err != nil {
		t.Error(err)
	}
}
