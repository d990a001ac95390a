package disk

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
	"dtegate/cmd/cmdtest/barebox"
	"dtegate/engine"
	"dtegate/engine/audit"
	"dtegate/storage"
)

// harmed turns a bit over in the middle of the box's files of a kind.
func harmed(b *barebox.Box, pattern string) {
	b.T.Helper()
	paths, err := filepath.Glob(b.At(pattern))
	if err != nil || len(paths) == 0 {
		b.T.Fatal(pattern, paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		b.Must(err)
		if len(text) > 0 {
			text[len(text)/2] ^= 1
			b.Must(os.WriteFile(path, text, 0o600))
		}
	}
}

// The runbook's commands for a damaged store, in their order, as an operator types them: against a box whose table and log are
// rotten, with a whole card.
func TestRepair_Runbook(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	b.WithCard()
	for _, day := range []string{"2026-11-01", "2026-11-11"} {
		s := b.Copied()
		b.Fill(s, day, 10)
		b.Must(s.Close())
	}
	harmed(b, "data/*.sst")
	harmed(b, "data/*.log")
	programs := t.TempDir()
	if err := cmdtest.Programs("../../..", programs, "dtectl"); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(programs, "dtectl")
	commands := barebox.RunbookCommands(t, "Store damaged")
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
		cmd := exec.Command(bin, append(c, "-c", b.Options.Config)...)
		cmd.Dir = b.Dir
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
	if strings.Contains(said, "as it was at") || !strings.Contains(said, "lacks nothing until") {
		t.Error("nothing says until when the repaired store is whole")
	}
	if t.Failed() {
		t.Log(said)
	}
}

// rottenTable is a box whose store has one bad block in a table, behind the rows of the series; its second copy is whole.
func rottenTable(t *testing.T) *barebox.Box {
	t.Helper()
	b := barebox.New(t, "127.0.0.1:1")
	b.WithCard()
	s := b.Copied()
	b.Fill(s, "2026-02-01", 240)
	b.Must(s.Close())
	s = b.Store()
	b.Must(s.Close()) // what the log held is in tables now
	tables, err := filepath.Glob(b.At("data/*.sst"))
	b.Must(err)
	var largest []byte
	var path string
	for _, table := range tables {
		text, err := os.ReadFile(table)
		if b.Must(err); len(text) > len(largest) {
			largest, path = text, table
		}
	}
	largest[len(largest)*6/10] ^= 1 // behind the block with the series' rows
	b.Must(os.WriteFile(path, largest, 0o600))
	return b
}

// A repair that ended before it was recorded is in the trail once the next program opens the store, and once only.
func TestRepair_Unrecorded(t *testing.T) {
	b := rottenTable(t)
	ctx := context.Background()
	if _, err := storage.Repair(ctx, storage.RepairFrom{Copy: b.Config.SecondCopy}, b.Config.Store(slog.New(slog.DiscardHandler)), nil); err != nil {
		t.Fatal(err)
	}
	s := b.Store()
	list, err := s.Unrecorded()
	if b.Must(err); len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	// The power goes after the act, before the store forgets the repair.
	b.Must(audit.New(s, "00", nil, time.Now).Record(ctx, audit.Act{What: "store.repair", Target: list[0].Damaged}), s.Close())
	for range 2 {
		if said, err := barebox.Output(t, func() error { return (&Repair{}).Run(ctx, b.Options) }); !errors.Is(err, storage.ErrSound) {
			t.Fatalf("%s, %v", said, err)
		}
	}
	s = b.Store()
	acts, err := audit.New(s, "00", nil, time.Now).Acts(9)
	if b.Must(err); len(acts) != 1 {
		t.Errorf("%+v", acts)
	}
	if list, err = s.Unrecorded(); err != nil || list != nil {
		t.Errorf("%+v, %v", list, err)
	}
	b.Must(s.Close())
}

// A table alone is rotten: fsck says which documents and that the second copy has them, the store goes on where it was, and the
// trail says what was done.
func TestRepair_Whole(t *testing.T) {
	b := rottenTable(t)
	ctx := context.Background()
	out, err := barebox.Output(t, func() error { return (&Fsck{}).Run(ctx, b.Options) })
	if err == nil || !regexp.MustCompile(`document  00/01/M001/P001/\d+  \d+  [0-9A-F-]{36}  .* cannot be read; whole in .*second copy`).MatchString(out) || strings.Contains(out, "in no medium") {
		t.Errorf("fsck: %s, %v", out, err)
	}
	if strings.Contains(out, "pebble") {
		t.Errorf("the storage engine's words come with --verbose alone: %s", out)
	}
	said, err := barebox.Output(t, func() error { return (&Repair{}).Run(ctx, b.Options) })
	if err != nil || !strings.Contains(said, "records          240") || !strings.Contains(said, "the store goes on where it was") {
		t.Fatalf("%s, %v", said, err)
	}
	if said, err = barebox.Output(t, func() error { return (&Fsck{}).Run(ctx, b.Options) }); err != nil || !strings.Contains(said, "1…240") {
		t.Errorf("%s, %v", said, err)
	}
	if said, err = barebox.Output(t, func() error { return (&Audit{Limit: 9}).Run(ctx, b.Options) }); err != nil || !strings.Contains(said, "store.repair") || !strings.Contains(said, "rows of second copy") {
		t.Errorf("%s, %v", said, err)
	}
	if said, err = barebox.Output(t, func() error { return (&Repair{}).Run(ctx, b.Options) }); err == nil || !strings.Contains(err.Error(), "not damaged") {
		t.Errorf("%s, %v", said, err)
	}
}

// The series of a document follows from the document.
func TestRepair_SeriesOf(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	s := b.Store()
	b.Fill(s, "2026-11-01", 3)
	err := s.Records(1, func(e storage.Entry) error {
		if got := engine.SeriesOf(e); got != e.Series || got == "" {
			t.Errorf("%q, not %q", got, e.Series)
		}
		return nil
	})
	b.Must(err, s.Close())
	if got := engine.SeriesOf(storage.Entry{Head: []byte(`{"what":"an act"}`)}); got != "" {
		t.Errorf("%q", got)
	}
}
