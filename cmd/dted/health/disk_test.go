package health

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"dtegate/cmd/dted/config"
	"dtegate/engine/refusal"
)

// TestNewGate: a gate watches the store's own disk, and asks MH and, if there is one, the archive for the time.
func TestNewGate(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	cfg := &config.Config{Data: t.TempDir(), DiskReserve: 3 << 20, Authority: config.Authority{URL: "https://mh.example"}}
	for _, archive := range []string{"", "https://s3.example"} {
		if archive != "" {
			cfg.Archive = &config.Archive{Endpoint: archive}
		}
		g := NewGate(cfg, http.DefaultTransport, quiet)
		if g.authority != "https://mh.example" || g.archive != archive || g.transport != http.DefaultTransport {
			t.Errorf("%+v", g)
		}
		if free, reserve := g.Space(); free <= 0 || reserve != 3<<20 {
			t.Errorf("%d free, %d kept", free, reserve)
		}
	}
}

// TestDisk: nothing new is issued below the reserve, and not again before there is clearly more; the ballast is deleted
// and made again.
func TestDisk(t *testing.T) {
	const reserve = 64 << 10
	d := newDisk(filepath.Join(t.TempDir(), "data"), reserve, slog.New(slog.DiscardHandler))
	var free int64
	d.free = func() (int64, error) { return free, nil }
	for _, step := range []struct {
		free          int64
		room, ballast bool
	}{
		{reserve, true, false}, {2 * reserve, true, true}, {reserve, true, true}, {reserve - 1, false, true},
		{reserve + 1, false, true},
		{reserve / 4, false, true}, {reserve/4 - 1, false, false}, {reserve / 2, false, false}, {reserve + reserve/8,
			true, false},
		{reserve + reserve/2, true, false}, {reserve + reserve/2 + 1, true, true},
	} {
		free = step.free
		d.tend()
		err := d.check()
		var said *refusal.Error
		if (err == nil) != step.room || err != nil && (!errors.As(err, &said) || said.Code != refusal.CodeStorageFull ||
			said.RetryAfter == 0) {
			t.Errorf("%d free: %v", free, err)
		}
		info, err := os.Stat(d.ballast)
		if (err == nil) != step.ballast || err == nil && info.Size() != reserve/4 {
			t.Errorf("%d free: ballast %v, %v", free, info, err)
		}
	}
	d.reserve, free = 2*reserve, 8*reserve
	d.tend()
	if info, err := os.Stat(d.ballast); err != nil || info.Size() != reserve/2 {
		t.Errorf("with a larger reserve: ballast %v, %v", info, err)
	}
	other := filepath.Join(t.TempDir(), "mark")
	err := errors.Join(os.WriteFile(other, []byte("kept"), 0o600), os.Remove(d.ballast), os.Symlink(other, d.ballast))
	if err != nil {
		t.Fatal(err)
	}
	d.tend()
	if b, err := os.ReadFile(other); err != nil || string(b) != "kept" {
		t.Errorf("a link in the ballast's place: %v, the other file has %d bytes", err, len(b))
	}
	d.free = func() (int64, error) { return 0, errors.New("no disk") }
	if err := d.check(); err != nil {
		t.Errorf("who cannot see the disk cannot call it full: %v", err)
	}
}
