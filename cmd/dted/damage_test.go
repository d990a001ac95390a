package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// rot flips one bit in every n bytes of a file, while others have it open.
func rot(t testing.TB, path string, every int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	one := make([]byte, 1)
	for at := every / 2; at < info.Size(); at += every {
		if _, err := f.ReadAt(one, at); err != nil {
			t.Fatal(err)
		}
		one[0] ^= 1
		if _, err := f.WriteAt(one, at); err != nil {
			t.Fatal(err)
		}
	}
}

// As soon as the disk returns damaged data nothing is issued, and /readyz, the page and the metrics report it within a
// second, not only the refused till.
func TestReady_DamagedStore(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	b.start()
	sold := make([]record, 12)
	for i := range sold {
		sold[i] = b.sold(sale01)
	}
	b.stop()
	b.start() // the log's rows are in tables now
	tables, err := filepath.Glob(filepath.Join(b.dir, "data", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		rot(t, table, 512)
	}
	failed := 0
	for _, r := range sold { // some are in memory
		if status, _, err := b.get("/dte/documento/"+r.Code, 1); err != nil || status >= 500 {
			failed++
		}
	}
	if failed == 0 {
		t.Error("no document is damaged")
	}
	damaged := time.Now()
	said := b.await(http.StatusServiceUnavailable)
	if took := time.Since(damaged); took > time.Second {
		t.Errorf("/readyz says so after %v", took)
	}
	if !strings.Contains(said, "nothing new is issued") {
		t.Errorf("/readyz says %s", said)
	}
	if status, body, err := b.post("/dte/dte01", 1, "", sale01); err != nil ||
		status != http.StatusServiceUnavailable || !strings.Contains(string(body), "avise a soporte") {
		t.Errorf("a sale: %d %.300s %v", status, body, err)
	}
	if b.metric("dte_store_damaged") != 1 {
		t.Error("the metric does not say so")
	}
	if _, page := b.getOps("/?lang=es"); !strings.Contains(string(page), "no puede leer bien su disco") {
		t.Error("the page does not say so")
	}
	b.kill()
}
