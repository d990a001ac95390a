package ship_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/engine/fleet/ship"
	"dtegate/storage"
	"dtegate/storage/storetest"
)

// branch is a seller whose media are lost, put back and made again.
type branch struct {
	*seller
	dice    *mathrand.Rand
	answers map[storage.Code]uint64 // the number of each answered sale that must live
	keys    map[storage.Code][32]byte
	used    map[uint64]storage.Code // all numbers that were ever answered
	backup  string
	upto    uint64 // the last number in the backup
	did     []string
	cards   string // has the cards that are not in the box, each in a folder
	in      string // the card that is in the box
	begun   time.Time
}

func newBranch(t *testing.T, seed uint64) *branch {
	begun := time.Now()
	return &branch{seller: newSeller(t), dice: mathrand.New(mathrand.NewPCG(seed, 3)), begun: begun,
		answers: make(map[storage.Code]uint64), keys: make(map[storage.Code][32]byte),
		used: make(map[uint64]storage.Code), cards: t.TempDir(), in: "own"}
}

// sells makes some sales, as tills do: each with a key of its own.
func (b *branch) sells(n int) {
	b.t.Helper()
	for range n {
		var code storage.Code
		var key [32]byte
		_, _ = rand.Read(code[:])
		_, _ = rand.Read(key[:])
		e, err := b.db.Append(b.t.Context(), storage.Keys{Series: syncSeries,
			Idempotency: &storage.Idempotency{Key: key}}, storage.Draft{Code: code, State: 1, Head: []byte(`{"a":1}`)})
		if err != nil {
			b.t.Fatalf("%v: %v", b.did, err)
		}
		if _, twice := b.used[e.Number]; twice {
			b.t.Fatalf("%v: number %d is answered twice", b.did, e.Number)
		}
		b.used[e.Number], b.answers[code], b.keys[code] = code, e.Number, key
	}
}

// holds compares a store with the answers: each sale has its number, and its key finds it.
func (b *branch) holds(db *storage.Store, where string) {
	b.t.Helper()
	lost := 0
	for code, number := range b.answers {
		e, err := db.Get(code)
		found, _, err2 := db.Lookup(b.keys[code])
		if err != nil || err2 != nil || e.Number != number || found != code {
			lost++
		}
	}
	if last, err := db.LastNumber(syncSeries); err != nil || last < uint64(len(b.used)) {
		b.t.Fatalf("%v: %s goes on behind number %d of %d: %v", b.did, where, last, len(b.used), err)
	}
	if report, err := db.Fsck(b.t.Context()); err != nil || len(report.Problems) > 0 {
		b.t.Fatalf("%v: %s: %v %+v", b.did, where, err, report)
	}
	if lost > 0 {
		b.t.Fatalf("%v: %s lacks %d of %d answered sales; %+v", b.did, where, lost, len(b.answers), b.ship.Shipped())
	}
}

// fetched brings the branch's copy from the chain's store.
func (b *branch) fetched() string {
	b.t.Helper()
	dir := b.t.TempDir()
	got, err := ship.Fetch(context.Background(), b.store, chain, []fleetproto.Key{fleetproto.Public(director)},
		"centro", 0, dir, nil)
	if err != nil || len(got.Missing) > 0 {
		b.t.Fatalf("%v: %+v %v", b.did, got, err)
	}
	return dir
}

// burnt makes another box from the chain's store, and compares it.
func (b *branch) burnt() {
	b.t.Helper()
	if len(b.used) == 0 {
		return
	}
	o := b.options
	dir := b.t.TempDir()
	o.Dir, o.MarkPath, o.SecondCopy, o.Carry = filepath.Join(dir, "data"), filepath.Join(dir, "mark"), "", nil
	made, err := storage.Assemble(b.t.Context(), storage.Sources{Copy: b.fetched()}, o, nil)
	if err != nil || len(storetest.Missing(made)) > 0 {
		b.t.Fatalf("%v: %+v %v", b.did, made, err)
	}
	db, err := storage.Open(o)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			b.t.Error(err)
		}
	}()
	if err := storetest.Settle(b.t.Context(), db, 0, "the box burnt", syncSeries); err != nil {
		b.t.Fatal(err)
	}
	b.holds(db, "the chain's store")
}

// remake makes the box's store again from a folder, and settles it.
func (b *branch) remake(mark bool, fill func() error) {
	b.t.Helper()
	err := os.RemoveAll(b.options.Dir)
	if !mark {
		err = errors.Join(err, os.RemoveAll(b.options.MarkPath))
	}
	if err = errors.Join(err, fill()); err != nil {
		b.t.Fatalf("%v: %v", b.did, err)
	}
	b.open()
	if err := storetest.Settle(b.t.Context(), b.db, 0, "the disk died", syncSeries); err != nil {
		b.t.Fatalf("%v: %v", b.did, err)
	}
	b.close()
	b.open()
}

func (b *branch) rebuild(from string) {
	b.t.Helper()
	mark := b.dice.IntN(2) == 0
	b.remake(mark, func() error {
		made, err := storage.Assemble(b.t.Context(), storage.Sources{Copy: from}, b.options, nil)
		if missing := storetest.Missing(made); len(missing) > 0 {
			err = errors.Join(err, fmt.Errorf("missing: %v", missing))
		}
		return err
	})
}

// newCard makes the folder of the second copy empty, or gives it its earlier content from another folder.
func (b *branch) newCard(aside bool) {
	b.t.Helper()
	paths, err := filepath.Glob(filepath.Join(b.dir, "*.copy"))
	old := filepath.Join(b.dir, fmt.Sprintf("old-%d", len(b.did)))
	if aside {
		err = errors.Join(err, os.Mkdir(old, 0o700))
	}
	for _, path := range paths {
		if aside {
			err = errors.Join(err, os.Rename(path, filepath.Join(old, filepath.Base(path))))
			continue
		}
		err = errors.Join(err, os.Remove(path))
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// step does something to the branch. If media are lost here, another medium has everything.
func (b *branch) step() {
	b.t.Helper()
	var steps = []struct {
		name string
		do   func()
	}{
		{"restart", func() { b.close(); b.open() }},
		{"new card", func() { b.close(); b.newCard(false); b.open() }},
		{"copy aside", func() { b.close(); b.newCard(true); b.open() }},
		{"rebuild from the card", func() {
			if len(b.used) == 0 {
				return
			}
			b.close()
			b.rebuild(b.dir)
		}},
		{"rebuild from the chain", func() {
			if len(b.used) == 0 {
				return
			}
			from := b.fetched()
			b.close()
			if b.dice.IntN(2) == 0 {
				b.newCard(false)
			}
			b.rebuild(from)
		}},
		{"ship state lost", func() { b.close(); b.disk = &fleettest.File{}; b.open() }},
		{"clock", func() {
			b.clock.Store(int64([]time.Duration{0, -time.Hour, 26 * time.Hour,
				-6 * 365 * 24 * time.Hour}[b.dice.IntN(4)]))
		}},
		{"backup", func() {
			b.backup = b.t.TempDir() + "/backup"
			got, err := b.db.Backup(b.t.Context(), b.backup, nil)
			if err != nil {
				b.t.Fatal(err)
			}
			b.upto = got.Last[syncSeries]
		}},
		{"restore", func() {
			if b.backup == "" {
				return
			}
			b.close()
			b.newCard(b.dice.IntN(2) == 0) // the copy may be of a store that was made after the backup
			b.remake(true, func() error {
				_, err := storage.Assemble(b.t.Context(), storage.Sources{Backups: []string{b.backup}}, b.options, nil)
				return err
			})
			for code, number := range b.answers { // which is known and accepted
				if number > b.upto {
					delete(b.answers, code)
				}
			}
		}},
	}
	s := steps[b.dice.IntN(len(steps))]
	b.did = append(b.did, s.name)
	s.do()
}

// card puts another card into the box, and keeps the files of the card that was there; name is of the new card.
func (b *branch) card(name string) {
	b.t.Helper()
	b.did = append(b.did, name)
	move := func(from, to string) {
		paths, err := filepath.Glob(filepath.Join(from, "*.copy"))
		err = errors.Join(err, os.MkdirAll(to, 0o700))
		for _, path := range paths {
			err = errors.Join(err, os.Rename(path, filepath.Join(to, filepath.Base(path))))
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	move(b.dir, filepath.Join(b.cards, b.in))
	b.in = name
	move(filepath.Join(b.cards, name), b.dir)
}

// image makes a card that has what the card in the box has now.
func (b *branch) image(name string) {
	b.t.Helper()
	if err := os.CopyFS(filepath.Join(b.cards, name), os.DirFS(b.dir)); err != nil {
		b.t.Fatal(err)
	}
}

// unshipped compares what the chain's store has before and after a function, which must ship nothing.
func (b *branch) unshipped(do func()) {
	b.t.Helper()
	before := contents(b.t, b.fetched())
	if do(); contents(b.t, b.fetched()) != before {
		b.t.Errorf("%v: something was shipped", b.did)
	}
	if status := b.ship.Shipped(); status.Why == "" {
		b.t.Errorf("%v: %+v", b.did, status)
	}
}

// TestShip_Cards: the chain's copy of a branch never has bytes of a card that the branch's store does not continue, and
// once a card of the branch has been in the box for a while, the chain's copy is whole. Another branch's card has a file
// of the same name, because both copies began in the same second.
func TestShip_Cards(t *testing.T) {
	for name, do := range map[string]func(b *branch, in func(card string)){
		"another branch's":        func(b *branch, in func(string)) { b.unshipped(func() { in("other") }) },
		"another branch's, later": func(b *branch, in func(string)) { b.unshipped(func() { in("later") }) },
		"another branch's, while the box ships": func(b *branch, _ func(string)) {
			b.faults(func(r fleettest.Request) fleettest.Fault {
				if r.Verb == "create" {
					return fleettest.Failed
				}
				return fleettest.None
			})
			b.sells(1)
			b.unshipped(func() {
				b.card("other")
				b.faults(func(fleettest.Request) fleettest.Fault { return fleettest.None })
				time.Sleep(5 * time.Minute)
			})
		},
		"another branch's, while the box stops": func(b *branch, _ func(string)) {
			b.card("other")
			b.close()
			b.open()
		},
		"a new card, and the old one unshipped": func(b *branch, in func(string)) {
			b.faults(func(fleettest.Request) fleettest.Fault { return fleettest.Failed })
			b.sells(3)
			time.Sleep(time.Minute)
			b.faults(func(fleettest.Request) fleettest.Fault { return fleettest.None })
			b.close()
			b.card("new")
			b.open()
			time.Sleep(5 * time.Minute)
			b.burnt()
		},
		"an image of the card": func(b *branch, in func(string)) {
			b.image("image")
			b.sells(2)
			in("own") // the last file is confirmed now
			b.faults(func(fleettest.Request) fleettest.Fault { return fleettest.Failed })
			b.sells(2)
			in("own")
			b.faults(func(fleettest.Request) fleettest.Fault { return fleettest.None })
			in("image")
			b.burnt()
		},
		"the copy began again in the second of the shipped one": func(b *branch, _ func(string)) {
			b.close()
			b.newCard(false)
			b.clock.Store(int64(-time.Since(b.begun)))
			b.remake(true, func() error {
				_, err := storage.Assemble(b.t.Context(), storage.Sources{Copy: b.fetched()}, b.options, nil)
				return err
			})
			b.sells(20)
			time.Sleep(10 * time.Minute)
			b.burnt()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				other, b := newBranch(t, 1), newBranch(t, 1)
				later := newBranch(t, 1)
				for _, o := range []*branch{other, later, b} {
					o.sells(3)
					time.Sleep(time.Minute)
					o.sells(2)
					time.Sleep(time.Minute)
				}
				other.sells(20) // its file is longer than what the branch has shipped of its own
				later.close()
				later.open()
				later.sells(2)
				others := map[string]*branch{"other": other, "later": later}
				for name, o := range others {
					o.close()
					if err := os.CopyFS(filepath.Join(b.cards, name), os.DirFS(o.dir)); err != nil {
						t.Fatal(err)
					}
				}
				do(b, func(card string) {
					b.close()
					b.card(card)
					b.open()
					b.sells(2)
					time.Sleep(5 * time.Minute)
				})
				b.close()
				b.card("own")
				b.open()
				b.sells(2)
				time.Sleep(10 * time.Minute)
				if status := b.ship.Shipped(); status.Why != "" || status.Behind != 0 || b.cloned > 0 {
					how, _ := b.db.SecondCopy()
					t.Errorf("%+v, %+v, cloned %d", status, how, b.cloned)
				}
				b.burnt()
				for name, o := range others {
					if contents(t, filepath.Join(b.cards, name)) != contents(t, o.dir) {
						t.Errorf("card %s was written", name)
					}
				}
			})
		})
	}
}

// TestShip_Media: whatever happens to the branch's card, store, mark, clock and the shipper's own state, while the
// chain's store answers, each sale that waited for it comes back from it, once.
func TestShip_Media(t *testing.T) {
	first, seeds := uint64(32), uint64(2) // 32: a clock that was set back before a restoration
	if os.Getenv("DTE_SOAK") == "1" {
		first, seeds = 0, 300
	}
	if n, err := strconv.ParseUint(os.Getenv("DTE_SEED"), 10, 64); err == nil {
		first, seeds = n, 1
	}
	waited := 0
	for seed := first; seed < first+seeds && !t.Failed(); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBranch(t, seed)
				if seed%3 == 2 {
					b.close()
					b.mode.Sync = false
					b.open()
				}
				for range 12 {
					if b.dice.IntN(3) > 0 { // else the next comes at once
						time.Sleep(time.Minute)
					}
					left, live := b.left.Load(), b.ship.Shipped().Why == "" // only then a sale waits
					b.sells(b.dice.IntN(4))
					status := b.ship.Shipped()
					if b.mode.Sync && live && status.Why == "" && b.left.Load() == left {
						waited++
						b.burnt()
					}
					time.Sleep(5 * time.Minute)
					if status = b.ship.Shipped(); status.Why != "" || status.Behind != 0 || b.cloned > 0 {
						how, _ := b.db.SecondCopy()
						t.Fatalf("%v: minutes later %+v, %+v, cloned %d", b.did, status, how, b.cloned)
					}
					b.burnt()
					b.step()
					b.holds(b.db, "the box")
				}
			})
		})
	}
	t.Logf("%d times all was in the chain's store at once", waited)
}
