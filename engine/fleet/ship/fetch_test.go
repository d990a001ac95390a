package ship_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
	"dtegate/engine/fleet/ship"
)

// TestFetch_Campaign: whatever subset of the acknowledged objects a store loses, truncates, alters, swaps or puts back,
// a rebuild is either complete, at least up to the piece that the box's last status names, or names what it lacks. Then
// the living box finds the same, and the store is whole again.
func TestFetch_Campaign(t *testing.T) {
	seeds := uint64(25)
	if os.Getenv("DTE_SOAK") == "1" {
		seeds = 20_000
	}
	complete := 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			w, dice := newWorld(t), rand.New(rand.NewPCG(seed, 32))
			for n := range 1 + dice.IntN(3) {
				w.sellDay(n, 1+dice.IntN(12))
				if dice.IntN(3) > 0 {
					w.check()
				}
			}
			w.status()
			atLeast := contents(t, w.dir)
			w.sellDay(9, dice.IntN(3))
			keys := w.store.Keys("")
			var did []string
			for range 1 + dice.IntN(6)*dice.IntN(6) {
				key := keys[dice.IntN(len(keys))]
				b := w.store.Held(key)
				if len(b) == 0 {
					continue
				}
				how := dice.IntN(5)
				did = append(did, fmt.Sprint(key, " ", how))
				switch how {
				case 0, 1:
					w.store.Lose(key)
				case 2:
					_ = w.store.Overwrite(t.Context(), key, b[:dice.IntN(len(b))])
				case 3:
					b[dice.IntN(len(b))] ^= 1 << dice.IntN(8)
					_ = w.store.Overwrite(t.Context(), key, b)
				case 4:
					_ = w.store.Overwrite(t.Context(), key, w.store.Held(keys[dice.IntN(len(keys))]))
				}
			}
			got, f, err := w.fetch()
			switch {
			case err != nil:
			case f.Lacks() == "" && got != contents(t, w.dir) && !isBegin(got, atLeast, contents(t, w.dir)):
				t.Fatalf("seed %d: %v\nnot complete, and not said: %+v\n%s\n%s", seed, did, f, got, contents(t, w.dir))
			case f.Lacks() == "":
				complete++
			}
			for epoch, key := range []fleetproto.Signer{box, other} { // the centre's, and the agent's
				w.store.Lose(fleetproto.BoxKey("centro", int64(epoch+1)))
				w.enrol(key, int64(epoch+1))
			}
			time.Sleep(24 * time.Hour)
			if dice.IntN(2) == 0 {
				w.start(box, 1)
			}
			w.check()
			w.status()
			if got, f, err := w.fetch(); err != nil || f.Lacks() != "" || got != contents(t, w.dir) ||
				w.ship.Shipped().Lacks != "" {
				t.Fatalf("seed %d: %v\nthe box has not mended it: %+v %s %v", seed, did, f, f.Lacks(), err)
			}
		})
	}
	if complete == 0 || complete == int(seeds) {
		t.Errorf("%d of %d were complete: the campaign tries nothing", complete, seeds)
	}
}

// TestFetch_Parallel: a store that takes 45 ms for an answer returns a thousand pieces in the time of a hundred.
func TestFetch_Parallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const count = 1000
		previous := ""
		for n := int64(1); n <= count; n++ {
			data, err := chain.SealPiece(fleetproto.Piece{Branch: "centro", Epoch: 1, Number: n, Previous: previous,
				File: "0000000001.copy", Offset: 4 * (n - 1)}, []byte("sale"), box)
			if err == nil {
				err = w.store.Create(t.Context(), fleetproto.SegmentKey("centro", 1, n), data)
			}
			if err != nil {
				t.Fatal(err)
			}
			previous = fleetproto.Digest(data)
		}
		w.store.Fault = func(fleettest.Request) fleettest.Fault {
			time.Sleep(45 * time.Millisecond)
			return fleettest.None
		}
		began, shown := time.Now(), int64(0)
		f, err := ship.Fetch(t.Context(), w.store, chain, []fleetproto.Key{fleetproto.Public(director)}, "centro", 0,
			t.TempDir(), func(done, total int64) {
				if done < shown || done > total {
					t.Errorf("%d of %d behind %d", done, total, shown)
				}
				shown = done
			})
		took := time.Since(began)
		if err != nil || f.Pieces != count || took > 4*time.Second || shown == 0 {
			t.Errorf("%v, %+v %v", took, f, err)
		}
		t.Logf("%d pieces in %v", count, took)
	})
}

// TestFetch_Rotated: the director's key was changed. A box that knows only the new key gets that error, and not that
// there is no copy; with both keys, or after the box was enrolled again, the copy is found.
func TestFetch_Rotated(t *testing.T) {
	w := newWorld(t)
	w.grow("0000000001.copy", "head")
	w.steps()
	next := signer("director", 9)
	fetch := func(keys ...fleetproto.Key) (string, error) {
		dir := t.TempDir()
		_, err := ship.Fetch(t.Context(), w.store, chain, keys, "centro", 0, dir, nil)
		return contents(t, dir), err
	}
	if _, err := fetch(fleetproto.Public(next)); !errors.Is(err, ship.ErrNothing) ||
		!errors.Is(err, fleetproto.ErrSignature) || !strings.Contains(err.Error(), "fleet.director_key") {
		t.Error(err)
	}
	if got, err := fetch(fleetproto.Public(next), fleetproto.Public(director)); err != nil ||
		got != contents(t, w.dir) {
		t.Error(got, err)
	}
	data, err := chain.Seal(&fleetproto.Enrolment{Branch: "centro", Epoch: 3,
		Key: fleetproto.EncodeKey(fleetproto.Public(box).Public), At: time.Now(), By: "ana"}, next)
	if err == nil {
		err = w.store.Create(t.Context(), fleetproto.BoxKey("centro", 3), data)
	}
	if err != nil {
		t.Fatal(err)
	}
	head := contents(t, w.dir)
	w.grow("0000000001.copy", "-more")
	w.start(box, 3)
	w.steps()
	dir := t.TempDir()
	f, err := ship.Fetch(t.Context(), w.store, chain, []fleetproto.Key{fleetproto.Public(next),
		fleetproto.Public(director)}, "centro", 1, dir, nil)
	if err != nil || f.Epoch != 1 || contents(t, dir) != head {
		t.Errorf("of epoch 1: %+v %v", f, err)
	}
	f, err = ship.Fetch(t.Context(), w.store, chain, []fleetproto.Key{fleetproto.Public(next),
		fleetproto.Public(director)}, "centro", 0, t.TempDir(), nil)
	if err != nil || f.Epoch != 3 || len(f.Older) != 1 || f.Older[0] != 1 {
		t.Errorf("of the last epoch: %+v %v", f, err)
	}
	if _, err := ship.Fetch(t.Context(), w.store, chain, []fleetproto.Key{fleetproto.Public(director)}, "centro", 2,
		t.TempDir(), nil); !errors.Is(err, ship.ErrNothing) {
		t.Errorf("of a box that shipped nothing: %v", err)
	}
	if got, err := fetch(fleetproto.Public(next)); err != nil || got != contents(t, w.dir) {
		t.Error(got, err)
	}
}

// TestFetch_CutShort: a fetch that ends at any request continues where it was: it does not fetch again what it has,
// except the few objects after its last note, and the folder ends like that of an uninterrupted fetch.
func TestFetch_CutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for n := range 3 {
			w.sellDay(n, 6)
			w.check()
		}
		for i := range 40 {
			w.grow("0000000099.copy", fmt.Sprintf("tail %d;", i))
			w.steps()
		}
		keys, _ := w.read()
		whole := contents(t, w.dir)
		fetch := func(dir string) (ship.Fetched, error) {
			return ship.Fetch(t.Context(), w.store, chain, []fleetproto.Key{fleetproto.Public(director)}, "centro", 0,
				dir, nil)
		}
		requests := 0
		for _, n := range keys {
			requests += n
		}
		for cut := 1; cut <= requests; cut++ {
			dir := t.TempDir()
			var n atomic.Int64
			var brought sync.Map
			w.store.Seen = func(r fleettest.Request, err error) {
				if err == nil && strings.HasPrefix(r.Key, fleetproto.CopyFolder) {
					brought.Store(r.Key, true)
				}
			}
			w.store.Fault = func(fleettest.Request) fleettest.Fault {
				if n.Add(1) >= int64(cut) {
					return fleettest.Failed
				}
				return fleettest.None
			}
			if _, err := fetch(dir); err == nil {
				t.Fatalf("cut at %d: no error", cut)
			}
			var again atomic.Int64
			w.store.Fault = nil
			w.store.Seen = func(r fleettest.Request, err error) {
				if _, before := brought.Load(r.Key); err == nil && before {
					again.Add(1)
				}
			}
			f, err := fetch(dir)
			w.store.Seen = nil
			if err != nil || contents(t, dir) != whole {
				t.Fatalf("cut at %d: %+v %v", cut, f, err)
			}
			if again.Load() > 32 { // requests under way, or answered and not yet used
				t.Errorf("cut at %d: %d objects were fetched again", cut, again.Load())
			}
			if err := ship.Remove(dir); err != nil {
				t.Error(err)
			}
		}
		// A fetch of another box does not continue with this box's folder.
		dir := t.TempDir()
		if _, err := fetch(dir); err != nil {
			t.Fatal(err)
		}
		w.dir = t.TempDir()
		w.disk = &fleettest.File{}
		w.start(other, 2)
		w.grow("0000000001.copy", "another box")
		w.steps()
		if f, err := fetch(dir); err != nil || f.Epoch != 2 || f.Before != 0 || contents(t, dir) != contents(t, w.dir) {
			t.Errorf("%+v %v", f, err)
		}
	})
}

// TestFetch_PowerCut: a power cut at any write and any sync of a fetch leaves a folder that the next fetch of this box
// completes, and of which a fetch of another box uses nothing. What was not synced is lost, in part or whole, or is not.
func TestFetch_PowerCut(t *testing.T) {
	w := newWorld(t)
	whole := []string{1: "", 2: ""}
	for epoch, key := range []fleetproto.Signer{1: box, 2: other} {
		if epoch == 0 {
			continue
		}
		w.dir, w.disk = t.TempDir(), &fleettest.File{}
		w.start(key, int64(epoch))
		for i := range 75 * epoch {
			w.grow(fmt.Sprintf("%010d.copy", 1+i/75), strings.Repeat(fmt.Sprint(i, " of ", epoch, ";"), epoch))
			w.steps()
		}
		w.statusOf(key, int64(epoch))
		whole[epoch] = contents(t, w.dir)
	}
	fetch := func(dir string, epoch int64, show func(done, total int64)) (ship.Fetched, error) {
		return ship.Fetch(t.Context(), w.store, chain, []fleetproto.Key{fleetproto.Public(director)}, "centro", epoch,
			dir, show)
	}
	dir := filepath.Join(t.TempDir(), "data.copy")
	read := func() (files map[string]string, note string) {
		files = make(map[string]string)
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			b, bad := os.ReadFile(filepath.Join(dir, e.Name()))
			files[e.Name()], err = string(b), errors.Join(err, bad)
		}
		b, bad := os.ReadFile(dir + ".fetched")
		if err != nil || bad != nil && !errors.Is(bad, fs.ErrNotExist) {
			t.Fatal(err, bad)
		}
		return files, string(b)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := fetch(dir, 1, nil); err != nil {
		t.Fatal(err)
	}
	files, note := read() // on the medium
	synced, written := maps.Clone(files), ""
	tried := make(map[string]bool)
	kept, parted, begun := 0, 0, 0
	after := func(what string, files map[string]string, note string) {
		image := filepath.Join(t.TempDir(), "data.copy")
		err := os.Mkdir(image, 0o700)
		for name, text := range files {
			err = errors.Join(err, os.WriteFile(filepath.Join(image, name), []byte(text), 0o600))
		}
		if note != "" {
			err = errors.Join(err, os.WriteFile(image+".fetched", []byte(note), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		id := contents(t, image) + note
		if tried[id] {
			return
		}
		tried[id] = true
		epoch := 1 + int64(len(tried)%2)
		f, err := fetch(image, epoch, nil)
		if err != nil || f.Missing != nil || contents(t, image) != whole[epoch] {
			t.Fatalf("%s, epoch %d: %+v %v\n%s", what, epoch, f, err, contents(t, image))
		}
		switch f.Before {
		case 0:
			begun++
		case f.Bytes:
			kept++
		default:
			parted++
		}
		if err := ship.Remove(image); err != nil {
			t.Error(err)
		}
	}
	cut := func(what string) {
		all, newest := read()
		after(what+", everything is kept", all, newest)
		after(what+", the rest is lost", files, note)
		after(what+", only the note is kept", files, newest)
		after(what+", only the note is lost", all, note)
		zeros := maps.Clone(files)
		for name, text := range all {
			if n := len(zeros[name]); n < len(text) {
				zeros[name] += strings.Repeat("\x00", len(text)-n)
			}
		}
		after(what+", sizes and the note are kept", zeros, newest)
	}
	ship.OnSync(t, func(path string) {
		if !strings.HasPrefix(path, filepath.Dir(dir)) {
			return // of an image
		}
		cut("before the sync of " + filepath.Base(path))
		all, newest := read()
		switch path {
		case dir:
			files = make(map[string]string)
			for name := range all {
				files[name] = synced[name]
			}
		case dir + ".fetched.new":
			b, err := os.ReadFile(path)
			if written = string(b); err != nil {
				t.Error(err)
			}
		case filepath.Dir(dir):
			note = newest
			if newest != "" && newest != written {
				note = newest[:len(newest)/2]
			}
		default:
			name := filepath.Base(path)
			synced[name] = all[name]
			if _, ok := files[name]; ok {
				files[name] = all[name]
			}
		}
		cut("after the sync of " + filepath.Base(path))
	})
	_, err := fetch(dir, 2, func(done, _ int64) { cut(fmt.Sprint("before object ", done)) })
	if err != nil || contents(t, dir) != whole[2] {
		t.Fatal(err, contents(t, dir))
	}
	t.Logf("%d states of the folder: %d begun anew, %d continued, %d complete", len(tried), begun, parted, kept)
}

// TestFetch_Resumed: whatever a fetch could not read, and whatever the box shipped between two fetches, the last fetch
// brings everything.
func TestFetch_Resumed(t *testing.T) {
	seeds := uint64(10)
	if os.Getenv("DTE_SOAK") == "1" {
		seeds = 2000
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			w, dir, dice := newWorld(t), t.TempDir(), rand.New(rand.NewPCG(seed, 24))
			fetch := func() (ship.Fetched, error) {
				return ship.Fetch(t.Context(), w.store, chain, []fleetproto.Key{fleetproto.Public(director)}, "centro",
					0, dir, nil)
			}
			for n := range 2 + dice.IntN(4) {
				w.sellDay(n, 1+dice.IntN(20))
				if dice.IntN(3) > 0 {
					w.check()
				}
				cut := 1 + dice.IntN(40)
				var mu sync.Mutex // requests come side by side
				w.store.Fault = func(r fleettest.Request) fleettest.Fault {
					mu.Lock()
					defer mu.Unlock()
					cut--
					switch of := strings.Contains(r.Key, "/part/"); {
					case cut == 0:
						return fleettest.Failed
					case of && dice.IntN(4) == 0:
						return fleettest.Stale // there is no such object, for now
					}
					return fleettest.None
				}
				_, _ = fetch()
				w.store.Fault = nil
			}
			if f, err := fetch(); err != nil || contents(t, dir) != contents(t, w.dir) {
				t.Fatalf("seed %d: %+v %v", seed, f, err)
			}
		})
	}
}

// isBegin reports whether a fetched copy begins like a copy that a status named, with or without more of the copy after
// it.
func isBegin(got, atLeast, all string) bool {
	lines := func(s string) map[string]string {
		m := make(map[string]string)
		for line := range strings.Lines(s) {
			name, text, _ := strings.Cut(line, ": ")
			text, _ = strconv.Unquote(strings.TrimSpace(text))
			m[name] = text
		}
		return m
	}
	g, l, a := lines(got), lines(atLeast), lines(all)
	for name, text := range l {
		if !strings.HasPrefix(g[name], text) {
			return false
		}
	}
	for name, text := range g {
		if !strings.HasPrefix(a[name], text) {
			return false
		}
	}
	return true
}

// TestFetch_Again: a fetch into the same folder asks again for what the store did not return, and for what the folder
// has lost since; it does not take a hole, or half a file, for bytes that it has.
func TestFetch_Again(t *testing.T) {
	for name, c := range map[string]struct {
		before, after func(w *world, dir string)
		lacks         string // of the first fetch
		had           int64  // bytes that the second fetch finds
	}{
		"whole": {had: 12},
		"a piece that was lost": {before: func(w *world, _ string) { w.lose(2) }, lacks: "piece 2", had: 4,
			after: func(w *world, _ string) { w.store.Put(fleetproto.SegmentKey("centro", 1, 2), w.taken) }},
		"half a file": {after: func(w *world, dir string) { w.cut(dir, 6) }},
		"no file":     {after: func(w *world, dir string) { w.cut(dir, -1) }},
	} {
		w, dir := newWorld(t), t.TempDir()
		for _, text := range []string{"head", "-one", "-two"} {
			w.grow("0000000001.copy", text)
			w.steps()
		}
		w.status()
		w.taken = w.store.Held(fleetproto.SegmentKey("centro", 1, 2))
		fetch := func() (ship.Fetched, error) {
			return ship.Fetch(t.Context(), w.store, chain, []fleetproto.Key{fleetproto.Public(director)}, "centro", 0, dir, nil)
		}
		if c.before != nil {
			c.before(w, dir)
		}
		if f, err := fetch(); err != nil || !strings.Contains(f.Lacks(), c.lacks) || (f.Lacks() == "") != (c.lacks == "") {
			t.Errorf("%s: at first %+v %v", name, f, err)
		}
		if c.after != nil {
			c.after(w, dir)
		}
		if f, err := fetch(); err != nil || f.Lacks() != "" || f.Before != c.had || f.Bytes != 12 ||
			contents(t, dir) != contents(t, w.dir) {
			t.Errorf("%s: then %+v %v\n%s", name, f, err, contents(t, dir))
		}
	}
}

// cut shortens the fetched file, or removes it.
func (w *world) cut(dir string, size int64) {
	w.t.Helper()
	file := filepath.Join(dir, "0000000001.copy")
	err := os.Remove(file)
	if size >= 0 {
		err = os.WriteFile(file, make([]byte, size), 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestFetch_Newer: a later box counts if it has shipped anything, whoever enrolled it; one that reports that it has
// shipped nothing does not. A status that cannot be read now is no missing status.
func TestFetch_Newer(t *testing.T) {
	w := newWorld(t)
	w.grow("0000000001.copy", "head")
	w.steps()
	w.status()
	old := contents(t, w.dir)
	w.dir, w.disk = t.TempDir(), &fleettest.File{}
	w.start(other, 2)
	w.statusOf(other, 2)
	if got, f, err := w.fetch(); err != nil || got != old || f.Epoch != 1 || f.Newer != nil || f.Lacks() != "" {
		t.Errorf("a box that shipped nothing: %+v %q %v", f, f.Lacks(), err)
	}
	w.store.Fault = func(r fleettest.Request) fleettest.Fault {
		if r.Key == fleetproto.StatusKey("centro", 1) {
			return fleettest.Failed
		}
		return fleettest.None
	}
	if _, f, err := w.fetch(); err == nil {
		t.Errorf("a status that cannot be read now: %q", f.Lacks())
	}
	w.store.Fault = nil
	w.grow("0000000001.copy", "sold")
	w.steps()
	w.store.Put(fleetproto.BoxKey("centro", 2), []byte("junk"))
	if got, f, err := w.fetch(); err != nil || got != old || f.Epoch != 1 || !slices.Equal(f.Newer, []int64{2}) ||
		!strings.Contains(f.Lacks(), "the box of epoch 2 sold after this copy") {
		t.Errorf("a box whose enrolment is lost: %+v %v", f, err)
	}
}
