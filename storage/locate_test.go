package storage

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// What Locate says is what Repair then finds: a document that a medium holds whole is whole in the repaired store, and one that
// the repaired store lacks is in no medium. Store, second copy and backup are damaged at random.
func TestLocate_Repair(t *testing.T) {
	disk := tableStore(t, 120)
	s := live(t, disk)
	backup(t, s, backupDir)
	want := refer(t, s)
	sound(t, s)
	openAndClose(t, disk)
	table := largest(t, disk)
	rounds := 6
	if soak {
		rounds = 400
	}
	rng := newRand(3)
	held, none := 0, 0
	for round := range rounds {
		d := disk.Copy()
		for _, path := range d.Files() {
			if path == table || strings.HasSuffix(path, ".copy") || strings.HasPrefix(path, backupDir) && strings.HasSuffix(path, ".sst") {
				harm(t, d, path, rng.Int64N(size(t, d, path)))
			}
		}
		report, err := Check(ctx, options(d))
		if err != nil || len(report.Affected) == 0 {
			continue
		}
		before := d.Copy()
		from := RepairFrom{Copy: card, Backups: []string{backupDir}}
		list, _, err := Locate(ctx, from, report.Affected, options(d))
		if err != nil {
			t.Errorf("round %d: %v", round, err)
			continue
		}
		for _, path := range before.Files() {
			if !bytes.Equal(readFile(t, before, path), readFile(t, d, path)) {
				t.Errorf("round %d: %s was altered", round, path)
			}
		}
		said, err := Repair(ctx, from, options(d), nil)
		if err != nil {
			continue // refused, see TestRepair_Campaign
		}
		s, err := OpenReadOnly(options(d))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range list {
			if l.Code == (Code{}) {
				continue
			}
			was, known := want.codes[l.Code]
			if !known {
				continue
			}
			if was.Number != l.From || was.Series != l.Series && l.Series != namelessSeries(was.SequenceID) {
				t.Errorf("round %d: %+v is %+v", round, l, was)
			}
			lacks := slices.ContainsFunc(said.Lacking, func(a Affected) bool { return a.Code == l.Code })
			got, err := s.Get(l.Code)
			whole := err == nil && !lacks && got.Revision == was.Revision
			parts, err := s.Parts(l.Code)
			whole = whole && err == nil && slices.EqualFunc(parts, want.parts[l.Code], func(a, b Part) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) })
			if said := len(l.Media) > 0 && !l.Media[0].Older; said && !whole {
				t.Errorf("round %d: %+v, and the repaired store has not got it: %v", round, l, err)
			} else if said {
				held++
			} else { // it may still come together of several media
				none++
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d documents whole in some medium, %d in none", held, none)
	if held == 0 || none == 0 {
		t.Error("every document ended alike")
	}
}

// Each medium is named by what it holds: the backup of before a change holds an older state, an archive counts by the
// journal's digest alone.
func TestLocate_Media(t *testing.T) {
	disk := tableStore(t, 60)
	s := live(t, disk)
	backup(t, s, backupDir)
	if _, err := s.Advance(ctx, code(5), fresh, Change{To: done, Parts: []Part{{"answer", form(code(5))}}}); err != nil {
		t.Fatal(err)
	}
	sound(t, s)
	list := []Affected{
		{Series: "s1", From: 3, To: 3, Code: code(5), What: "its part"},
		{Series: "s0", From: 2, To: 4, What: "their journal"}, // codes 4, 6 and 8
		{Series: "s0", From: 900, To: 950, What: "their journal"},
		{Series: "s1", From: 77, To: 77, Code: code(7777), What: "it"},
		{Series: "s0", From: 100_000, To: 900_000, What: "their journal"},
	}
	archive := func(_ context.Context, e Entry, name string) ([]byte, error) {
		if e.Code == code(6) {
			return []byte("another document"), nil
		}
		return form(e.Code), nil
	}
	got, sources, err := Locate(ctx, RepairFrom{Copy: card, Backups: []string{backupDir, "nowhere"}, Part: archive}, list, options(disk))
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, l := range got {
		var media []string
		for _, h := range l.Media {
			medium, _, _ := strings.Cut(h.Medium, " ")
			if h.Older {
				medium += " (older)"
			}
			media = append(media, medium)
		}
		slices.Sort(media)
		said = append(said, fmt.Sprintf("%s %d-%d %v %v", l.Series, l.From, l.To, l.Code != (Code{}), media))
	}
	want := []string{
		"s0 2-2 true [archive backup second the]",
		"s0 3-3 true [backup second the]",
		"s0 4-4 true [archive backup second the]",
		"s0 900-950 false []",
		"s0 100000-100943 false []",
		"s0 100944-900000 false []",
		"s1 3-3 true [archive backup (older) second the]",
		"s1 77-77 true []",
	}
	if !slices.Equal(said, want) {
		t.Errorf("%s\nnot\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
	}
	if n := len(sources); n != 1 || sources[0].Name != "backup nowhere" || len(sources[0].Bad) == 0 {
		t.Errorf("%+v", sources)
	}
}
