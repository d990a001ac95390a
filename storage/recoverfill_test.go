package storage

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestRecover_SameBadCard: a card with one bad place, named again and again, makes one new store at most, whether what it
// lacks is settled or not; then it needs no room either.
func TestRecover_SameBadCard(t *testing.T) {
	const right = "other2/right"
	fs, _ := oldAndNew(t)
	numbers, err := segmentNumbers(fs, card)
	must(t, err)
	unsettled, settled, tried, room := 0, 0, 0, 0
	places := 3
	if soak {
		places = 12
	}
	for i := range numbers {
		n := len(readFile(t, fs, segmentPath(fs, card, numbers[i])))
		for at := 100; at < n; at += n / places {
			disk, path := onlyCard(t, fs), segmentPath(fs, card, numbers[i])
			must(t, makeParents(disk, right+"/x"))
			harm(t, disk, path, int64(at)) // one bad place
			for _, n := range numbers {
				writeFile(t, disk, segmentPath(disk, right, n), readFile(t, disk, segmentPath(disk, card, n)))
			}
			made, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
			if err != nil || len(made.missing()) == 0 {
				continue
			}
			tried++
			s := openStore(t, disk)
			must(t, s.Close())
			loop := false
			for range 3 { // RUNBOOK: clean the card, and repeat
				_, err = Assemble(ctx, Sources{Copy: card}, options(disk), nil)
				loop = err == nil
			}
			full := disk.Copy()
			full.SetUsage(vfs.DiskUsage{AvailBytes: 100, TotalBytes: 1 << 20})
			if _, err = Assemble(ctx, Sources{Copy: card}, options(full), nil); !errors.Is(err, ErrSound) {
				room++
			}
			if loop {
				unsettled++
			}
			s = openStore(t, disk)
			trustCopy(t, s)
			must(t, s.Close())
			s = live(t, disk)
			put(t, s, "a", 900)
			sound(t, s)
			stores := 0
			for k := range uint64(4) {
				_, err = Assemble(ctx, Sources{Copy: right}, options(disk), nil)
				if errors.Is(err, ErrSound) {
					break
				}
				must(t, err)
				stores++
				s = openStore(t, disk)
				o, err := s.Owed(nil)
				must(t, err)
				if o != nil {
					if _, err = s.Settle(ctx, nil, o.losses(0), "x"); err != nil {
						t.Fatal(err)
					}
				}
				must(t, s.Close())
				s = live(t, disk)
				put(t, s, "a", 901+k)
				sound(t, s)
			}
			if stores > 2 {
				settled++
			}
		}
	}
	if unsettled+settled+room > 0 || tried == 0 {
		t.Errorf("of %d cards %d make a store each time, %d once what they lack is settled; %d want room for it", tried,
			unsettled, settled, room)
	}
}

// TestNewMark_OldDisk: a disk that was taken for dead comes back without its mark; the card is of the store that
// was made since. Once the loss is named, the box starts with the card.
func TestNewMark_OldDisk(t *testing.T) {
	disk := carded(t)
	older := disk.Copy() // the card
	s := live(t, disk)
	for n := uint64(50); n < 53; n++ {
		put(t, s, "a", n)
	}
	sound(t, s)
	old := disk.Copy() // the disk
	must(t, errors.Join(disk.RemoveAll("box/store"), syncDir(disk, "box")))
	takeCard(t, older, disk)
	_, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
	must(t, err)
	s = openStore(t, disk)
	trustCopy(t, s) // names what the mark knew
	must(t, s.Close())
	s = live(t, disk)
	for n := uint64(100); n < 110; n++ {
		put(t, s, "a", n)
	}
	sound(t, s)
	must(t, errors.Join(disk.RemoveAll("box/store"), disk.RemoveAll(markPath)))
	for _, path := range old.Files() {
		if strings.HasPrefix(path, "box/store/") {
			must(t, makeParents(disk, path))
			writeFile(t, disk, path, readFile(t, old, path))
		}
	}
	must(t, errors.Join(syncDir(disk, "box/store"), syncDir(disk, "box"), syncDir(disk, "other")))
	_, _ = Assemble(ctx, Sources{Copy: card}, options(disk), nil)
	_, _ = NewMark(ctx, MarkAim{Second: card}, options(disk), nil)
	s = openStore(t, disk)
	o, err := s.Owed(nil)
	must(t, err)
	_, err = s.Settle(ctx, nil, o.losses(0), "named")
	must(t, errors.Join(err, s.Close()))
	if _, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil); !errors.Is(err, ErrSound) {
		t.Errorf("the same command again: %v", err)
	}
	s = openStoreWith(t, withCard(disk))
	if s.Behind() != nil {
		t.Errorf("the box starts and gives no number: %v", s.Behind())
	}
	must(t, s.Close())
}

// TestRecover_FilledWhileDamaged: a store with accepted holes rots somewhere, and the right card repairs and fills it: what
// was filled is on the second copy too.
func TestRecover_FilledWhileDamaged(t *testing.T) {
	const right = "other2/right"
	fs, _ := oldAndNew(t)
	numbers, err := segmentNumbers(fs, card)
	must(t, err)
	filled, rates := 0, []int64{6}
	if soak {
		rates = []int64{2, 4, 6, 8}
	}
	for i := range numbers {
		for _, rate := range rates {
			disk, path := onlyCard(t, fs), segmentPath(fs, card, numbers[i])
			must(t, makeParents(disk, right+"/x"))
			for _, n := range numbers {
				writeFile(t, disk, segmentPath(disk, right, n), readFile(t, fs, segmentPath(fs, card, n)))
			}
			bad := readFile(t, disk, path)
			for at := 300; at < len(bad); at += 300 {
				bad[at] ^= 1
			}
			writeFile(t, disk, path, bad)
			made, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil)
			if must(t, err); len(made.missing()) == 0 {
				continue
			}
			s := openStore(t, disk)
			trustCopy(t, s)
			must(t, s.Close())
			s = live(t, disk)
			put(t, s, "a", 900)
			sound(t, s)
			// one bad place in the largest table
			big, most := "", int64(0)
			for _, f := range disk.Files() {
				if strings.HasPrefix(f, "box/store/") && strings.HasSuffix(f, ".sst") && size(t, disk, f) > most {
					big, most = f, size(t, disk, f)
				}
			}
			if big == "" {
				t.Fatal("no table")
			}
			harm(t, disk, big, most*rate/10)
			made, err = Assemble(ctx, Sources{Copy: right}, options(disk), nil)
			if errors.Is(err, ErrSound) {
				continue
			}
			must(t, err)
			gave := 0
			for _, x := range made.Sources {
				if x.Name != ownMedium {
					gave += x.Taken
				}
			}
			if gave == 0 {
				continue
			}
			filled++
			s, err = Open(options(disk))
			must(t, err)
			if s.Restored() != nil {
				o, err := s.Owed(nil)
				must(t, err)
				_, err = s.Settle(ctx, nil, o.losses(0), "x")
				must(t, err)
			}
			must(t, s.Close())
			s = live(t, disk)
			put(t, s, "a", 901)
			report, err := s.Fsck(ctx)
			must(t, errors.Join(err, s.Close()))
			again, err := Assemble(ctx, Sources{Copy: card}, options(onlyCard(t, disk)), nil)
			if must(t, err); again.Documents < report.Documents {
				t.Errorf("segment %d, bad at %d0 %%: the second copy has %d documents of %d", i, rate, again.Documents,
					report.Documents)
			}
		}
	}
	if filled == 0 {
		t.Error("nothing was filled")
	}
}

// TestRecover_ForkAndFill: a medium that has another end of one series, and documents that are missing: they are taken by the
// command that names the loss.
func TestRecover_ForkAndFill(t *testing.T) {
	const right = "other2/right"
	fs, _ := oldAndNew(t)
	numbers, err := segmentNumbers(fs, card)
	must(t, err)
	rng := newRand(12)
	forked := 0
	rounds := 30
	if soak {
		rounds = 150
	}
	for range rounds {
		disk := onlyCard(t, fs)
		must(t, makeParents(disk, right+"/x"))
		for _, n := range numbers {
			writeFile(t, disk, segmentPath(disk, right, n), readFile(t, fs, segmentPath(fs, card, n)))
		}
		for range 2 {
			p := segmentPath(fs, card, numbers[rng.IntN(len(numbers))])
			harm(t, disk, p, rng.Int64N(size(t, disk, p)))
		}
		p := segmentPath(fs, card, numbers[len(numbers)-1])
		harm(t, disk, p, size(t, disk, p)-1-rng.Int64N(700))
		if _, err := Assemble(ctx, Sources{Copy: card}, options(disk), nil); err != nil {
			continue
		}
		s := openStore(t, disk)
		trustCopy(t, s)
		must(t, s.Close())
		s = live(t, disk)
		put(t, s, "a", 900)
		sound(t, s)
		_, err := Assemble(ctx, Sources{Copy: right}, options(disk), nil)
		if err != nil && !errors.Is(err, ErrDiverged) {
			continue
		}
		forked++
		s, err = Open(options(disk))
		must(t, err)
		if o, _ := s.Owed(nil); o != nil {
			_, err = s.Settle(ctx, nil, o.losses(0), "x")
			must(t, err)
		}
		r1, err := s.Fsck(ctx)
		must(t, errors.Join(err, s.Close()))
		made, err := Assemble(ctx, Sources{Copy: right}, options(disk), nil)
		if err == nil {
			t.Errorf("settled with %d documents; the same command again: %d", r1.Documents, made.Documents)
		}
	}
	if forked == 0 {
		t.Error("nothing was filled")
	}
}
