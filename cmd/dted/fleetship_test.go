package main

import (
	"bytes"
	"crypto/ed25519"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dtegate/engine/fleet/ship"
	"dtegate/engine/fleet/wire"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// TestFleet_Rebuild: a box ships its second copy, and burns with every medium. Another one makes the store again of what the
// chain's store holds, with every number.
func TestFleet_Rebuild(t *testing.T) {
	t.Parallel()
	b, c := shipping(t, "async")
	b.start()
	const sales = 3
	b.sellMany(sales)
	if said, _ := b.dtectl("doctor"); !strings.Contains(said, "the second copy is shipped, async") {
		t.Error(said)
	}
	size := func(dir string) (n int64) {
		paths, err := filepath.Glob(filepath.Join(dir, "*.copy"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil {
				n += info.Size()
			}
		}
		return n
	}
	public := wire.Key{Public: c.director.Private.Public().(ed25519.PublicKey)}
	for deadline := time.Now().Add(time.Minute); ; <-time.After(500 * time.Millisecond) {
		dir := t.TempDir()
		if _, err := ship.Fetch(t.Context(), c.store, []wire.Key{public}, "centro", 0, dir); err == nil && size(dir) >= size(filepath.Join(b.dir, "copy")) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the copy is not shipped:\n%s", b.log.String())
		}
	}
	b.burnAndRebuild(sales)
}

// TestFleet_Sync: with ship = "sync" the box may burn in the moment in which a till has its answer.
func TestFleet_Sync(t *testing.T) {
	t.Parallel()
	b, _ := shipping(t, "sync")
	b.start()
	waits := func() bool {
		_, shown := b.getOps("/metrics")
		return bytes.Contains(shown, []byte("\ndte_fleet_ship_sync 1\n"))
	}
	for deadline := time.Now().Add(time.Minute); !waits(); <-time.After(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("sales never wait for the chain's store:\n%s", b.log.String())
		}
	}
	const sales = 3
	b.sellMany(sales)
	b.burnAndRebuild(sales)
}

// shipping is a branch of a chain, enrolled, that ships its second copy.
func shipping(t *testing.T, mode string) (*branch, *chain) {
	b := newBranch(t)
	c := b.withFleet(t)
	text, err := os.ReadFile(filepath.Join(b.dir, "dted.toml"))
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("group = \"norte\"\n"), []byte("group = \"norte\"\nship = \""+mode+"\"\n"), 1)
	b.write("dted.toml", append([]byte("second_copy = \"copy\"\n"), text...))
	box := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
	key, err := bundle.MarshalPrivate(box)
	if err != nil {
		t.Fatal(err)
	}
	b.write("fleet.key", key)
	c.enrol(1, wire.EncodeKey(box.Public().(ed25519.PublicKey)))
	return b, c
}

func (b *branch) sellMany(sales int) {
	b.t.Helper()
	for i := range sales {
		if status, answer, err := b.post("/dte/dte01", 1, "", hammerSale(1, i)); err != nil || status != http.StatusCreated {
			b.t.Fatalf("%d %v %s", status, err, answer)
		}
	}
}

// burnAndRebuild kills the appliance, takes its store and its media away, and makes the store again of what the chain's store holds:
// the series goes on behind so many sales.
func (b *branch) burnAndRebuild(sales uint64) {
	t := b.t
	t.Helper()
	b.kill()
	for _, name := range []string{"data", "mark", "copy"} {
		if err := os.RemoveAll(filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	said, _ := b.dtectl("rebuild", "--fleet") // what is then to be reconciled, it says
	if !strings.Contains(said, "fetched the second copy of centro") || !strings.Contains(said, "epoch 1") {
		t.Error(said)
	}
	o := b.storeOptions()
	s, err := storage.OpenReadOnly(o)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	last := uint64(0)
	for _, year := range []string{time.Now().UTC().Format("2006"), time.Now().UTC().Add(-6 * time.Hour).Format("2006")} {
		if n, err := s.LastNumber("00/01/M001/P001/" + year); err == nil {
			last = max(last, n)
		}
	}
	if last != sales {
		t.Errorf("number %d instead of %d:\n%s", last, sales, said)
	}
}
