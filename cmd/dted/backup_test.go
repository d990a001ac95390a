package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dtegate/storage"
)

// TestBackup_Running: a selling branch makes a whole backup of itself, and only for who holds the admin token.
func TestBackup_Running(t *testing.T) {
	b := newBranch(t)
	b.start()
	for i := range 5 {
		b.insist(1, fmt.Sprint("sale ", i), hammerSale(1, i))
	}
	ask := func(method, token, body string) (status int, state backupState) {
		t.Helper()
		req, err := http.NewRequest(method, "http://"+b.ops+"/admin/backup", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		status, answer, err := do(req)
		if err != nil || status == http.StatusOK && json.Unmarshal(answer, &state) != nil {
			t.Fatalf("%v %s", err, answer)
		}
		return status, state
	}
	dir := filepath.Join(b.dir, "backup")
	body := fmt.Sprintf(`{"dir":%q}`, dir)
	if status, _ := ask(http.MethodPost, "wrong", body); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d", status)
	}
	if status, _ := ask(http.MethodPost, testAdmin, `{"dir":"backup"}`); status != http.StatusBadRequest {
		t.Errorf("a relative folder: %d", status)
	}
	await := func() backupState {
		t.Helper()
		for {
			if _, s := ask(http.MethodGet, testAdmin, ""); s.Backup != nil || s.Error != "" {
				return s
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	if status, _ := ask(http.MethodPost, testAdmin, body); status != http.StatusOK {
		t.Errorf("begun: %d", status)
	}
	b.insist(1, "meanwhile", hammerSale(1, 5))
	if s := await(); s.Error != "" || s.Backup.Documents < 5 || s.Done == 0 || s.Done != s.Total {
		t.Errorf("%+v", s)
	}
	if status, _ := ask(http.MethodPost, testAdmin, body); status != http.StatusOK {
		t.Errorf("again: %d", status)
	}
	if s := await(); !strings.Contains(s.Error, "there already") {
		t.Errorf("over another: %+v", s)
	}
	b.stop()
	if _, err := storage.CheckBackup(context.Background(), dir, storage.Options{}, nil); err != nil {
		t.Error(err)
	}
	b.fsck(6, 1)
}
