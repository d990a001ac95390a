package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"dtegate/storage"
)

// TestBackup_Running: a branch makes a complete backup of itself while it sells.
func TestBackup_Running(t *testing.T) {
	b := newBranch(t)
	b.start()
	for i := range 5 {
		b.insist(1, fmt.Sprint("sale ", i), hammerSale(1, i))
	}
	dir := filepath.Join(b.dir, "backup")
	begin := func(dir string, want int) {
		t.Helper()
		if status, answer := b.admin(http.MethodPost, "/admin/backup", fmt.Appendf(nil, `{"dir":%q}`,
			dir)); status != want {
			t.Errorf("%s: %d %s", dir, status, answer)
		}
	}
	await := func() (s backupState) {
		t.Helper()
		soon(t, "the backup is over", func() bool {
			_, answer := b.admin(http.MethodGet, "/admin/backup", nil)
			s = backupState{}
			return json.Unmarshal(answer, &s) == nil && (s.Backup != nil || s.Error != "")
		})
		return s
	}
	begin("backup", http.StatusBadRequest) // relative
	begin(dir, http.StatusOK)
	b.insist(1, "meanwhile", hammerSale(1, 5))
	if s := await(); s.Error != "" || s.Backup.Documents < 5 || s.Done == 0 || s.Done != s.Total {
		t.Errorf("%+v", s)
	}
	begin(dir, http.StatusOK)
	if s := await(); !strings.Contains(s.Error, "there already") {
		t.Errorf("over another: %+v", s)
	}
	b.stop()
	if _, err := storage.CheckBackup(context.Background(), dir, storage.Options{}, nil); err != nil {
		t.Error(err)
	}
	b.fsck(6, 1)
}
