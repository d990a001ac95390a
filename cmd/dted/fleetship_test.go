package main

import (
	"bytes"
	"crypto/ed25519"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/ship"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// TestFleet_Rebuild: a box ships its second copy, and burns with every medium. Another box makes the store again from
// the chain's store, with every number.
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
	public := fleetproto.Key{Public: c.director.Private.Public().(ed25519.PublicKey)}
	for deadline := time.Now().Add(time.Minute); ; <-time.After(500 * time.Millisecond) {
		dir := t.TempDir()
		if _, err := ship.Fetch(t.Context(), c.store, testChain, []fleetproto.Key{public}, "centro", 0, dir,
			nil); err == nil && size(dir) >= size(filepath.Join(b.dir, "copy")) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the copy is not shipped:\n%s", b.log.String())
		}
	}
	b.burn()
	b.initRefused()
	c.statusNames(map[string]uint64{"00/01/M001/P001/2026": sales + 2}, func() {
		said, ok := b.dtectl("recover")
		trusted, all := b.dtectl("recover", "--accept-loss", "M001P001 01: none", "--accept-loss", "others: none")
		if ok || all || !strings.Contains(said, "NOT COMPLETE") || !strings.Contains(said, "to 9 of the copy") ||
			!strings.Contains(said, "00/01/M001/P001/2026: numbers ") ||
			!strings.Contains(said, "No number is proposed") || !strings.Contains(trusted, "the copy is not complete") {
			t.Errorf("%s\n%s", said, trusted)
		}
		b.remove("data", "mark")
	})
	b.rebuild(sales)
}

// initRefused tries to make an empty store in place of the burnt store.
func (b *branch) initRefused() {
	b.t.Helper()
	path := filepath.Join(b.dir, "dted.toml")
	text, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	refused := func(want string, flags ...string) {
		b.t.Helper()
		if said, ok := b.dtectl(append([]string{"init", "--certificate", path}, flags...)...); ok ||
			!strings.Contains(said, want) {
			b.t.Errorf("init %v: %s", flags, said)
		}
	}
	refused("dtectl recover")
	refused("dtectl recover", "--new-branch", "centro")
	b.write("dted.toml", regexp.MustCompile(`store = \{endpoint = "[^"]*"`).ReplaceAll(text,
		[]byte(`store = {endpoint = "http://127.0.0.1:1"`)))
	refused("--new-branch centro makes an empty store")
	refused("--new-branch centro makes an empty store", "--new-branch", "norte")
	refused("not a certificate", "--new-branch", "centro") // and continues
	b.write("dted.toml", text)
}

// statusNames makes the box's last status name piece 9 and these numbers, while fn runs: as if the store had lost the
// last pieces.
func (c *chain) statusNames(last map[string]uint64, fn func()) {
	c.t.Helper()
	key := fleetproto.StatusKey("centro", 1)
	held, err := c.store.Fetch(c.t.Context(), key, fleetproto.MaxJWS)
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := testChain.OpenStatus(held.Data, "centro", 1)
	if err != nil {
		c.t.Fatal(err)
	}
	s.Copy.Segment, s.Last = 9, last
	data, err := testChain.Seal(s, fleetproto.Signer{ID: "centro", Private: shippingKey})
	for _, object := range [][]byte{data, held.Data} {
		if err == nil {
			err = c.store.Overwrite(c.t.Context(), key, object)
		}
		if err != nil {
			c.t.Fatal(err)
		}
		fn()
		fn = func() {}
	}
}

// TestFleet_Sync: with ship = "sync" the box may burn at the moment in which a till gets its answer.
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
	b.burn()
	b.rebuild(sales)
}

// shippingKey is the box's.
var shippingKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))

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
	key, err := bundle.MarshalPrivate(shippingKey)
	if err != nil {
		t.Fatal(err)
	}
	b.write("fleet.key", key)
	c.enrol(1, fleetproto.EncodeKey(shippingKey.Public().(ed25519.PublicKey)), fleetproto.Point{Establishment: "M001",
		Point: "P001"})
	return b, c
}

func (b *branch) sellMany(sales int) {
	b.t.Helper()
	for i := range sales {
		if status, answer, err := b.post("/dte/dte01", 1, "", hammerSale(1, i)); err != nil ||
			status != http.StatusCreated {
			b.t.Fatalf("%d %v %s", status, err, answer)
		}
	}
}

// burn kills the appliance, and removes its store and its media.
func (b *branch) burn() {
	b.t.Helper()
	b.kill()
	b.remove("data", "mark", "copy")
}

func (b *branch) remove(names ...string) {
	b.t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(b.dir, name)); err != nil {
			b.t.Fatal(err)
		}
	}
}

// rebuild makes the store again from the chain's store: the series continues after this many sales.
func (b *branch) rebuild(sales uint64) {
	t := b.t
	t.Helper()
	said, _ := b.dtectl("recover") // recover prints what must then be settled
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
	for _, year := range []string{time.Now().UTC().Format("2006"),
		time.Now().UTC().Add(-6 * time.Hour).Format("2006")} {
		if n, err := s.LastNumber("00/01/M001/P001/" + year); err == nil {
			last = max(last, n)
		}
	}
	if last != sales {
		t.Errorf("number %d instead of %d:\n%s", last, sales, said)
	}
}
