package storage

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dtegate/storage/disktest"
)

// chained is a head that keeps the journal of its series: a chain of hashes, salted where a history diverges.
type chained map[string][][32]byte

func (c chained) sell(name string, salt byte) {
	var b []byte
	if n := len(c[name]); n > 0 {
		b = c[name][n-1][:]
	}
	c[name] = append(slices.Clone(c[name]), sha256.Sum256(append(slices.Clone(b), salt)))
}

func (c chained) head(sequences map[string]uint32) *Head {
	h := &Head{Series: make(map[string]Reach), links: func(ends map[string]Reach) (map[string][32]byte, error) {
		found := make(map[string][32]byte)
		for name, end := range ends {
			found[name] = c[name][end.Position-1]
		}
		return found, nil
	}}
	for name, links := range c {
		if n := len(links); n > 0 {
			h.Series[name] = Reach{sequences[name], uint64(n), uint64(n), links[n-1]}
		}
	}
	return h
}

// TestRelate_Plan draws histories that go on, stand still and diverge, with media that keep journals or numbers alone:
// the relation of a to b is the reverse of that of b to a, that of two journals is the truth, and no number is proposed
// that any head knows.
func TestRelate_Plan(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	sequences := map[string]uint32{"a": 1, "b": 2, "c": 3}
	opposite := map[Relation]Relation{Same: Same, Behind: Ahead, Ahead: Behind, Diverged: Diverged, Foreign: Foreign}
	seen := make(map[Relation]int)
	for round := range 4000 {
		one := chained{}
		for range rng.IntN(6) {
			one.sell([]string{"a", "b", "c"}[rng.IntN(3)], 0)
		}
		other := maps.Clone(one)
		mine, theirs := rng.IntN(3), rng.IntN(3)
		for i := range mine {
			one.sell([]string{"a", "b", "c"}[rng.IntN(3)], byte(1+i))
		}
		for i := range theirs {
			other.sell([]string{"a", "b", "c"}[rng.IntN(3)], byte(11+i))
		}
		a, b := one.head(sequences), other.head(sequences)
		want := map[[2]bool]Relation{{false, false}: Same, {true, false}: Ahead, {false, true}: Behind,
			{true, true}: Diverged}[[2]bool{mine > 0, theirs > 0}]
		switch rng.IntN(7) {
		case 0:
			a.Numbers, a.Slack, want = true, rng.Uint64N(3), -1
		case 1:
			b.Numbers, b.Slack, want = true, rng.Uint64N(3), -1
		case 2:
			binary.BigEndian.PutUint64(a.Store[:], 1)
			binary.BigEndian.PutUint64(b.Store[:], 2)
			want = Foreign
		case 3: // a medium that names no store may be this store's
			a.Store[0] = 1
		case 4:
			b.Store[0] = 1
		}
		ab, list, err := Relate(a, b)
		ba, _, more := Relate(b, a)
		if err != nil || more != nil || ba != opposite[ab] || want >= 0 && ab != want {
			t.Fatalf("round %d: %d, the other way round %d, want %d: %v, %v", round, ab, ba, want, one, other)
		}
		if (ab == Behind || ab == Diverged) && list == nil || ab == Same && list != nil {
			t.Fatalf("round %d: %d names %v", round, ab, list)
		}
		seen[ab]++
		plan, slack := Plan([]string{"new"}, a, b)
		for name := range plan {
			plan[name] += slack
		}
		for _, h := range []*Head{a, b} {
			for name, reach := range h.Series {
				if plan[name] < reach.Last+h.Slack {
					t.Fatalf("round %d: %s goes on behind %d, and %+v", round, name, plan[name], reach)
				}
			}
			if plan["new"] < h.Slack {
				t.Fatalf("round %d: a new series goes on behind %d", round, plan["new"])
			}
		}
	}
	if t.Logf("%v", seen); len(seen) != 5 {
		t.Errorf("not every relation was met: %v", seen)
	}
}

// TestAssemble_Matrix checks the proposal for each loss of each medium of a box that sold 5 and then 5 more in series a
// and b; the backup is of the first half.
func TestAssemble_Matrix(t *testing.T) {
	const whole, nothing = "whole", "nothing"
	gone := func(path string) func(*testing.T, *disktest.Disk) {
		return func(t *testing.T, d *disktest.Disk) { must(t, d.RemoveAll(path)) }
	}
	all := func(steps ...func(*testing.T, *disktest.Disk)) func(*testing.T, *disktest.Disk) {
		return func(t *testing.T, d *disktest.Disk) {
			for _, step := range steps {
				step(t, d)
			}
		}
	}
	store, mark, copied := gone("box/store"), gone(markPath), gone(card)
	rot := func(prefix, ext string) func(*testing.T, *disktest.Disk) {
		return func(t *testing.T, d *disktest.Disk) {
			for _, path := range d.Files() {
				if n := size(t, d, path); strings.HasPrefix(path, prefix) && strings.HasSuffix(path, ext) && n > 0 {
					harm(t, d, path, n/2)
				}
			}
		}
	}
	last := func(d *disktest.Disk) string {
		numbers, err := segmentNumbers(d, card)
		must(t, err)
		return segmentPath(d, card, numbers[len(numbers)-1])
	}
	s, fs := newStore(t)
	sound(t, s)
	s = live(t, fs)
	for n := uint64(1); n <= 10; n++ {
		put(t, s, []string{"a", "b"}[n%2], n)
	}
	backup(t, s, backupDir)
	sound(t, s)
	older := fs.Copy()
	s = live(t, fs)
	for n := uint64(11); n <= 20; n++ {
		put(t, s, []string{"a", "b"}[n%2], n)
	}
	sound(t, s)
	cardOf := func(from *disktest.Disk) func(*testing.T, *disktest.Disk) {
		return func(t *testing.T, d *disktest.Disk) { takeCard(t, from, d) }
	}
	other, foreign := newStore(t)
	sound(t, other)
	other = live(t, foreign)
	put(t, other, "theirs", 98)
	sound(t, other)
	other = live(t, foreign)
	put(t, other, "theirs", 99)
	backup(t, other, "foreign")
	sound(t, other)
	folderOf := func(from *disktest.Disk, folder string) func(*testing.T, *disktest.Disk) {
		return func(t *testing.T, d *disktest.Disk) {
			must(t, d.RemoveAll(folder))
			for _, path := range from.Files() {
				if strings.HasPrefix(path, folder+"/") {
					must(t, d.MkdirAll(d.PathDir(path), 0o700))
					writeFile(t, d, path, readFile(t, from, path))
				}
			}
			must(t, syncDir(d, folder))
		}
	}
	markOf := func(from *disktest.Disk) func(*testing.T, *disktest.Disk) {
		return func(t *testing.T, d *disktest.Disk) { writeFile(t, d, markPath, readFile(t, from, markPath)) }
	}
	oldStore, oldMark := folderOf(older, "box/store"), markOf(older)
	theirBackup, theirs := folderOf(foreign, "foreign"), "error: "+ErrForeign.Error()
	ourOptions := func(d *disktest.Disk) Options {
		o := options(d)
		o.Ours = func(series []string) error {
			return onlyIf(slices.Contains(series, "theirs") && !slices.Contains(series, "a"), errors.New("of theirs"))
		}
		return o
	}
	for _, tt := range []struct {
		name string
		harm func(*testing.T, *disktest.Disk)
		from Sources
		want string
	}{
		{"nothing is lost", func(*testing.T, *disktest.Disk) {}, Sources{Copy: card, Backups: []string{backupDir}},
			nothing},
		{"store gone, card, mark", store, Sources{Copy: card}, "settled"},
		{"store gone, card", all(store, mark), Sources{Copy: card}, "a: 11-N; b: 11-N"},
		{"store gone, card torn", all(store, mark, func(t *testing.T, d *disktest.Disk) {
			b := readFile(t, d, last(d))
			writeFile(t, d, last(d), b[:len(b)-3])
		}), Sources{Copy: card}, "a: 11-N; b: 11-N"},
		{"store gone, card of before", all(store, cardOf(older)), Sources{Copy: card}, "a: 6-10; b: 6-10"},
		{"store gone, foreign card", all(store, cardOf(foreign)), Sources{Copy: card}, theirs},
		{"store gone, foreign card, no mark", all(store, mark, cardOf(foreign)), Sources{Copy: card}, theirs},
		{"store gone, foreign card and mark", all(store, cardOf(foreign), markOf(foreign)), Sources{Copy: card},
			theirs},
		{"store gone, foreign card rotten, no mark", all(store, mark, cardOf(foreign), rot(card, ".copy")),
			Sources{Copy: card}, theirs},
		{"store gone, foreign card, backup", all(store, cardOf(foreign)), Sources{Copy: card,
			Backups: []string{backupDir}}, theirs},
		{"store gone, foreign card, backup, no mark", all(store, mark, cardOf(foreign)), Sources{Copy: card,
			Backups: []string{backupDir}}, theirs},
		{"store gone, foreign backup, no mark", all(store, mark, copied, theirBackup),
			Sources{Backups: []string{"foreign"}}, theirs},
		{"store gone, foreign backup without its list, no mark", all(store, mark, copied, theirBackup,
			gone("foreign/"+backupFile)), Sources{Backups: []string{"foreign"}}, theirs},
		{"store gone, card, foreign backup, no mark", all(store, mark, theirBackup), Sources{Copy: card,
			Backups: []string{"foreign"}}, "a: 11-N; b: 11-N"},
		{"store gone, card, foreign mark", all(store, markOf(foreign)), Sources{Copy: card}, theirs},
		{"foreign store, no mark", all(folderOf(foreign, "box/store"), mark), Sources{Copy: card}, theirs},
		{"foreign store rotten, no mark", all(folderOf(foreign, "box/store"), rot("box/store/MANIFEST", ""), mark),
			Sources{Copy: card}, theirs},
		{"list rotten, foreign card, no mark", all(rot("box/store/MANIFEST", ""), mark, cardOf(foreign)),
			Sources{Copy: card}, "a: 11-N; b: 11-N"},
		{"store gone, card rotten, backup", all(store, rot(card, ".copy")), Sources{Copy: card,
			Backups: []string{backupDir}}, "a: "},
		{"store gone, card gone", all(store, copied), Sources{Copy: card}, "error: " + ErrNoStore.Error()},
		{"store gone, backup, mark", all(store, copied), Sources{Backups: []string{backupDir}}, "a: 6-10; b: 6-10"},
		{"store gone, backup", all(store, copied, mark), Sources{Backups: []string{backupDir}}, "a: 6-N; b: 6-N"},
		{"store gone, what was shipped is lost by half", all(store, mark, cardOf(older)),
			Sources{Copy: card, Last: map[string]uint64{"a": 9}, Lacks: "piece 7"},
			"a: 6-N; b: 6-N"},
		{"store gone, backup and card", store, Sources{Copy: card, Backups: []string{backupDir}}, "settled"},
		{"store of before, card", oldStore, Sources{Copy: card}, "settled"},
		{"store of before, mark of before, card", all(oldStore, oldMark), Sources{Copy: card}, whole},
		{"store of before, card rotten", all(oldStore, rot(card, ".copy")), Sources{Copy: card}, "a: 9; b: 7"},
		{"store of before, mark", all(oldStore, copied), Sources{}, "a: 6-10; b: 6-10"},
		{"store of before, backup, mark", all(oldStore, copied), Sources{Backups: []string{backupDir}},
			"a: 6-10; b: 6-10"},
		{"tables rotten, card", rot("box/store/", ".sst"), Sources{Copy: card}, "settled"},
		{"list rotten, card", rot("box/store/MANIFEST", ""), Sources{Copy: card}, "settled"},
		{"list rotten, card, no mark", all(rot("box/store/MANIFEST", ""), mark), Sources{Copy: card},
			"a: 11-N; b: 11-N"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			disk := fs.Copy()
			tt.harm(t, disk)
			dry := disk.Copy()
			tt.from.Dry = true
			before, dryErr := Assemble(ctx, tt.from, ourOptions(dry), nil)
			tt.from.Dry = false
			made, err := Assemble(ctx, tt.from, ourOptions(disk), nil)
			got := ""
			switch {
			case errors.Is(err, ErrSound):
				got = nothing
			case err != nil:
				got = fmt.Sprint("error: ", err)
			case made.Whole:
				got = whole
			default:
				var lost []string
				for _, n := range made.Owed.Series {
					if n.Lost() != "" {
						lost = append(lost, n.Lost())
					}
				}
				if got = strings.Join(lost, "; "); lost == nil {
					got = "settled"
				}
			}
			if got != tt.want && !(strings.HasPrefix(tt.want, "error: ") && strings.Contains(got, tt.want[7:])) &&
				!(tt.want == "a: " && strings.HasPrefix(got, tt.want)) {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if err == nil && (dryErr != nil || before.Whole != made.Whole ||
				fmt.Sprint(before.Owed) != fmt.Sprint(made.Owed)) {
				t.Errorf("a dry run says %+v, %v, then it is %+v", before, dryErr, made)
			}
			if err != nil {
				return
			}
			s := openStore(t, disk)
			if !made.Whole {
				must(t, settle(s, 5, "matrix"))
			}
			for _, series := range []string{"a", "b"} {
				if e := put(t, s, series, 1000+uint64(series[0])); e.Number <= 10 {
					t.Errorf("%s goes on at %d", series, e.Number)
				}
			}
			sound(t, s)
		})
	}
}

// TestWitness_Covers: a later Witness replaces an earlier one of its medium only if it knows no less of any series.
func TestWitness_Covers(t *testing.T) {
	at := func(there, position uint64, hash byte) []Lead {
		return []Lead{{Series: "b"}, {Series: "a", There: there, End: Reach{Position: position, Hash: [32]byte{hash}}}}
	}
	w := Witness{Medium: WitnessCopy, Series: at(7, 20, 1)}
	for name, c := range map[string]struct {
		old  Witness
		want bool
	}{
		"the same":                           {Witness{Medium: WitnessCopy, Series: at(7, 20, 1)}, true},
		"less":                               {Witness{Medium: WitnessCopy, Series: at(6, 19, 2)}, true},
		"a number more":                      {Witness{Medium: WitnessCopy, Series: at(8, 20, 1)}, false},
		"a change more":                      {Witness{Medium: WitnessCopy, Series: at(7, 21, 1)}, false},
		"another series":                     {Witness{Medium: WitnessCopy, Series: []Lead{{Series: "c"}}}, false},
		"another medium":                     {Witness{Medium: WitnessMark, Series: at(7, 20, 1)}, false},
		"another history":                    {Witness{Medium: WitnessCopy, Series: at(7, 20, 2)}, true},
		"another history that diverged":      {Witness{Medium: WitnessCopy, Series: at(7, 20, 2), Diverged: true}, false},
		"the same history, and has diverged": {Witness{Medium: WitnessCopy, Series: at(7, 20, 1), Diverged: true}, true},
	} {
		if got := w.covers(c.old); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAddFormer: a former identity is listed once, however often the store is restored.
func TestAddFormer(t *testing.T) {
	s, _ := newStore(t)
	first, other := [16]byte{1}, [16]byte{2}
	for range 2 {
		b := s.db.NewBatch()
		if err := errors.Join(addFormer(b, s.db, first, [16]byte{}, other, first), b.Commit(nil)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := readJSON[[][16]byte](s.db, keyFormer); err != nil || !slices.Equal(got, [][16]byte{first, other}) {
		t.Errorf("%v, %v", got, err)
	}
	sound(t, s)
}
