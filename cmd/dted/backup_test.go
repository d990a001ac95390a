package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"dtegate/gateway/adminapi"
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
	order := func(dir string) (int, []adminapi.Line) {
		t.Helper()
		status, answer := b.admin(http.MethodPost, "/admin/backup", fmt.Appendf(nil, `{"dir":%q}`, dir))
		var lines []adminapi.Line
		for d := json.NewDecoder(bytes.NewReader(answer)); status == http.StatusOK && d.More(); {
			lines = append(lines, adminapi.Line{})
			if err := d.Decode(&lines[len(lines)-1]); err != nil {
				t.Fatal(err)
			}
		}
		return status, lines
	}
	if status, _ := order("backup"); status != http.StatusBadRequest {
		t.Errorf("a relative path: %d", status)
	}
	var sales sync.WaitGroup
	sales.Go(func() { b.insist(1, "meanwhile", hammerSale(1, 5)) })
	_, lines := order(dir)
	sales.Wait()
	if n := len(lines); n < 2 || lines[n-1].Backup == nil || lines[n-1].Backup.Documents < 5 ||
		lines[n-2].Progress == nil || lines[n-2].Progress.Documents != lines[n-2].Progress.Of {
		t.Errorf("%+v", lines)
	}
	if _, lines := order(dir); len(lines) != 1 || !strings.Contains(lines[0].Error, "there already") {
		t.Errorf("over another: %+v", lines)
	}
	b.stop()
	if _, err := storage.CheckBackup(context.Background(), dir, storage.Options{}, nil); err != nil {
		t.Error(err)
	}
	b.fsck(6, 1)
}
