package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest"
	"dtegate/engine"
	"dtegate/engine/audit"
	"dtegate/plugins/plugintest"
	"dtegate/storage"
)

// harmed turns a bit over in the middle of the box's files of a kind.
func (b *box) harmed(pattern string) {
	b.t.Helper()
	paths, err := filepath.Glob(b.at(pattern))
	if err != nil || len(paths) == 0 {
		b.t.Fatal(pattern, paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		b.must(err)
		if len(text) > 0 {
			text[len(text)/2] ^= 1
			b.must(os.WriteFile(path, text, 0o600))
		}
	}
}

// runbookCommands are the dtectl commands that a section of the runbook shows, a line each.
func runbookCommands(t *testing.T, section string) (list [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(plugintest.Root(t), "deploy", "RUNBOOK.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n## "+section+"\n")
	if !ok {
		t.Fatalf("the runbook has no section %s", section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(rest, -1) {
		for line := range strings.Lines(m[1]) {
			list = append(list, strings.Fields(line))
		}
	}
	return list
}

// The runbook's commands for a damaged store, in their order, as an operator types them: against a box whose table and log are
// rotten, with a whole card.
func TestRepair_Runbook(t *testing.T) {
	b := newBox(t, "127.0.0.1:1")
	b.withCard(t)
	for _, day := range []string{"2026-11-01", "2026-11-11"} {
		s := b.copied()
		b.fill(s, day, 10)
		b.must(s.Close())
	}
	b.harmed("data/*.sst")
	b.harmed("data/*.log")
	programs := t.TempDir()
	if err := cmdtest.Programs("../..", programs, "dtectl"); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(programs, "dtectl")
	commands := runbookCommands(t, "Store damaged")
	if len(commands) < 4 {
		t.Fatal(commands)
	}
	var said string
	for _, c := range commands {
		i := slices.Index(c, "dtectl")
		if i < 0 {
			continue // the system's
		}
		c = c[i+1:]
		cmd := exec.Command(bin, append(c, "-c", b.top.Config)...)
		cmd.Dir = b.dir
		out, err := cmd.CombinedOutput()
		if err != nil && (c[0] != "fsck" || strings.Contains(said, "reconciled")) {
			t.Fatalf("dtectl %v: %v\n%s", c, err, out)
		}
		said += string(out)
	}
	for _, want := range []string{"problem", "second copy", "the damaged store lies in", "reconciled", "repaired from other media", "no problem found"} {
		if !strings.Contains(said, want) {
			t.Errorf("none of the commands says %q", want)
		}
	}
	if t.Failed() {
		t.Log(said)
	}
}

// rottenTable is a box whose store has one bad block in a table, behind the rows of the series; its second copy is whole.
func rottenTable(t *testing.T) *box {
	t.Helper()
	b := newBox(t, "127.0.0.1:1")
	b.withCard(t)
	s := b.copied()
	b.fill(s, "2026-02-01", 240)
	b.must(s.Close())
	s = b.store()
	b.must(s.Close()) // what the log held is in tables now
	tables, err := filepath.Glob(b.at("data/*.sst"))
	b.must(err)
	var largest []byte
	var path string
	for _, table := range tables {
		text, err := os.ReadFile(table)
		if b.must(err); len(text) > len(largest) {
			largest, path = text, table
		}
	}
	largest[len(largest)*6/10] ^= 1 // behind the block with the series' rows
	b.must(os.WriteFile(path, largest, 0o600))
	return b
}

// A repair that ended before it was recorded is in the trail once the next program opens the store, and once only.
func TestRepair_Unrecorded(t *testing.T) {
	b := rottenTable(t)
	ctx := context.Background()
	if _, err := storage.Repair(ctx, storage.RepairFrom{Copy: b.cfg.SecondCopy}, b.cfg.Store(slog.New(slog.DiscardHandler)), nil); err != nil {
		t.Fatal(err)
	}
	s := b.store()
	list, err := s.Unrecorded()
	if b.must(err); len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	// The power goes after the act, before the store forgets the repair.
	b.must(audit.New(s, "00", nil, time.Now).Record(ctx, audit.Act{What: "store.repair", Target: list[0].Damaged}), s.Close())
	for range 2 {
		if said, err := output(t, func() error { return (&repairCommand{}).Run(ctx, b.top) }); !errors.Is(err, storage.ErrSound) {
			t.Fatalf("%s, %v", said, err)
		}
	}
	s = b.store()
	acts, err := audit.New(s, "00", nil, time.Now).Acts(9)
	if b.must(err); len(acts) != 1 {
		t.Errorf("%+v", acts)
	}
	if list, err = s.Unrecorded(); err != nil || list != nil {
		t.Errorf("%+v, %v", list, err)
	}
	b.must(s.Close())
}

// A table alone is rotten: fsck says which documents and that the second copy has them, the store goes on where it was, and the
// trail says what was done.
func TestRepair_Whole(t *testing.T) {
	b := rottenTable(t)
	ctx := context.Background()
	out, err := output(t, func() error { return (&fsckCommand{}).Run(ctx, b.top) })
	if err == nil || !regexp.MustCompile(`document  00/01/M001/P001/\d+  \d+  [0-9A-F-]{36}  .* cannot be read; whole in .*second copy`).MatchString(out) || strings.Contains(out, "in no medium") {
		t.Errorf("fsck: %s, %v", out, err)
	}
	said, err := output(t, func() error { return (&repairCommand{}).Run(ctx, b.top) })
	if err != nil || !strings.Contains(said, "documents        240") || !strings.Contains(said, "the store goes on where it was") {
		t.Fatalf("%s, %v", said, err)
	}
	if said, err = output(t, func() error { return (&fsckCommand{}).Run(ctx, b.top) }); err != nil || !strings.Contains(said, "1…240") {
		t.Errorf("%s, %v", said, err)
	}
	if said, err = output(t, func() error { return (&auditCommand{Limit: 9}).Run(ctx, b.top) }); err != nil || !strings.Contains(said, "store.repair") || !strings.Contains(said, "rows of second copy") {
		t.Errorf("%s, %v", said, err)
	}
	if said, err = output(t, func() error { return (&repairCommand{}).Run(ctx, b.top) }); err == nil || !strings.Contains(err.Error(), "not damaged") {
		t.Errorf("%s, %v", said, err)
	}
}

// The series of a document follows from the document.
func TestRepair_SeriesOf(t *testing.T) {
	b := newBox(t, "127.0.0.1:1")
	s := b.store()
	b.fill(s, "2026-11-01", 3)
	err := s.Records(1, func(e storage.Entry) error {
		if got := engine.SeriesOf(e); got != e.Series || got == "" {
			t.Errorf("%q, not %q", got, e.Series)
		}
		return nil
	})
	b.must(err, s.Close())
	if got := engine.SeriesOf(storage.Entry{Head: []byte(`{"what":"an act"}`)}); got != "" {
		t.Errorf("%q", got)
	}
}
