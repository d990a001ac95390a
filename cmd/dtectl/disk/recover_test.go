package disk

import (
	"context"
	"errors"
	"fmt"
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
	"dtegate/cmd/dted/config"
	"dtegate/engine/audit"
	"dtegate/storage"
)

// harmed flips a bit in the middle of the box's files of a kind.
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

// The runbook's commands for a damaged store, in their order, as an operator types them, for a box whose table and log
// are rotten and whose card is whole.
func TestRecover_Runbook(t *testing.T) {
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
	commands := barebox.RunbookCommands(t, "Recover")
	if len(commands) < 5 {
		t.Fatal(commands)
	}
	var said string
	for _, c := range commands {
		i := slices.Index(c, "dtectl")
		if i < 0 {
			continue // a span of the system's
		}
		c = c[i+1:]
		cmd := exec.Command(bin, append(c, "-c", b.Options.Config)...)
		cmd.Dir = b.Dir
		out, err := cmd.CombinedOutput()
		if err != nil && (c[0] != "fsck" || strings.Contains(said, "settled")) {
			t.Fatalf("dtectl %v: %v\n%s", c, err, out)
		}
		said += string(out)
	}
	for _, want := range []string{"second copy", "the damaged store lies in", "settled", "repaired from other media",
		"no problem found"} {
		if !strings.Contains(said, want) {
			t.Errorf("none of the commands says %q", want)
		}
	}
	if !strings.Contains(said, "lacks nothing until") {
		t.Error("nothing says until when the repaired store is whole")
	}
	if t.Failed() {
		t.Log(said)
	}
}

// rottenTable is a box whose store has one bad block in a table, after the rows of the series; its second copy is
// whole.
func rottenTable(t *testing.T) *barebox.Box {
	t.Helper()
	b := barebox.New(t, "127.0.0.1:1")
	b.WithCard()
	s := b.Copied()
	b.Fill(s, "2026-02-01", 240)
	b.Must(s.Close())
	s = b.Store()
	b.Must(s.Close()) // the log's rows are in tables now
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
	largest[len(largest)*6/10] ^= 1 // after the block with the series' rows
	b.Must(os.WriteFile(path, largest, 0o600))
	return b
}

// A repair that ended before it was recorded is in the trail as soon as the next program opens the store, and once
// only.
func TestRecover_Unrecorded(t *testing.T) {
	b := rottenTable(t)
	ctx := context.Background()
	if _, err := storage.Assemble(ctx, storage.Sources{Copy: b.Config.SecondCopy},
		b.Config.Store(slog.New(slog.DiscardHandler)), nil); err != nil {
		t.Fatal(err)
	}
	s := b.Store()
	list, err := s.Unrecorded()
	if b.Must(err); len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	// The power fails after the act, before the store forgets the repair.
	b.Must(audit.New(s, "00", nil, time.Now).Record(ctx, audit.Act{What: "store.repair", Target: list[0].Damaged}),
		s.Close())
	for range 2 {
		if said := recovered(b, 0); !strings.Contains(said, "nothing to recover") {
			t.Fatal(said)
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

// Only a table is rotten: fsck names the documents and reports that the second copy has them, the store continues where
// it was, and the trail records the repair.
func TestRecover_Whole(t *testing.T) {
	b := rottenTable(t)
	ctx := context.Background()
	out, err := barebox.Output(t, func() error { return (&Fsck{}).Run(ctx, loaded(b)) })
	if err == nil || !regexp.MustCompile(
		`document  00/01/M001/P001/\d+  \d+  [0-9A-F-]{36}  .* cannot be read`).MatchString(out) ||
		!strings.Contains(out, "recover --dry-run") {
		t.Errorf("fsck: %s, %v", out, err)
	}
	if strings.Contains(out, "pebble") {
		t.Errorf("the storage engine's words come with --verbose alone: %s", out)
	}
	if said := recovered(b, exitToDo, "--dry-run"); !strings.Contains(said, "nothing is missing") {
		t.Error(said)
	}
	said := recovered(b, 0)
	if !strings.Contains(said, "records          240") || !strings.Contains(said, "every series continues after its last number") {
		t.Fatal(said)
	}
	if said, err = barebox.Output(t, func() error { return (&Fsck{}).Run(ctx, loaded(b)) }); err != nil ||
		!strings.Contains(said, "1…240") {
		t.Errorf("%s, %v", said, err)
	}
	if said, err = barebox.Output(t, func() error { return (&Audit{Limit: 9}).Run(ctx, loaded(b)) }); err != nil ||
		!strings.Contains(said, "store.repair") || !strings.Contains(said, "rows of second copy") {
		t.Errorf("%s, %v", said, err)
	}
	if said := recovered(b, 0); !strings.Contains(said, "nothing to recover") {
		t.Error(said)
	}
}

// loaded reads the box's configuration as it is now.
func loaded(b *barebox.Box) *config.Config {
	b.T.Helper()
	cfg, err := config.Load(b.Options.Config)
	b.Must(err)
	return cfg
}

// recovered runs dtectl recover and checks the exit status.
func recovered(b *barebox.Box, status int, args ...string) string {
	b.T.Helper()
	c := &Recover{}
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "--dry-run":
			c.DryRun = true
		case "--from":
			i++
			c.From = append(c.From, args[i])
		default:
			c.AcceptLoss = append(c.AcceptLoss, args[i])
		}
	}
	said, err := barebox.Output(b.T, func() error { return c.Run(context.Background(), loaded(b)) })
	if strings.Contains(said, `\n`) {
		b.T.Errorf("it prints line breaks as text:\n%s", said)
	}
	var with interface{ ExitCode() int }
	if got := 0; err != nil {
		if got = 1; errors.As(err, &with) {
			got = with.ExitCode()
		}
		if got != status {
			b.T.Fatalf("exit status %d instead of %d: %v\n%s", got, status, err, said)
		}
		return said + err.Error()
	}
	if status != 0 {
		b.T.Fatalf("it ends well instead of with %d:\n%s", status, said)
	}
	return said
}

func says(b *barebox.Box, said string, texts ...string) {
	b.T.Helper()
	for _, text := range texts {
		if !strings.Contains(said, text) {
			b.T.Errorf("it does not say %q:\n%s", text, said)
		}
	}
}

func output(b *barebox.Box, run func() error) string {
	b.T.Helper()
	said, err := barebox.Output(b.T, run)
	if err != nil {
		b.T.Errorf("%v: %s", err, said)
	}
	return said
}

const mainSeries = "00/01/M001/P001/2026"

// nightAndDay is a box whose store and mark were put back to last night's state; its card was not.
func nightAndDay(t *testing.T) *barebox.Box {
	b := barebox.New(t, "127.0.0.1:1")
	b.WithCard()
	s := b.Copied()
	b.Fill(s, "2026-11-01", 10)
	for from, to := range map[string]string{b.Config.Data: "old", b.Config.Mark: "old.mark", b.At("card"): "oldcard"} {
		b.Must(s.Close(), exec.Command("cp", "-r", from, b.At(to)).Run())
	}
	s = b.Copied()
	b.Fill(s, "2026-11-21", 15)
	b.Must(s.Close(), os.RemoveAll(b.Config.Data), os.Rename(b.At("old"), b.Config.Data),
		os.Rename(b.Config.Mark, b.At("right.mark")), os.Rename(b.At("old.mark"), b.Config.Mark))
	return b
}

// An old store is put back: recover takes the day from the card; a dry run announces this and changes nothing.
func TestRecover_TakesCopy(t *testing.T) {
	b := nightAndDay(t)
	ctx := context.Background()
	says(b, recovered(b, exitToDo, "--dry-run"), "M001P001 01 10", "M001P001 01 25", "nothing is missing")
	says(b, recovered(b, 0), "M001P001 01 10", "M001P001 01 25", "every series continues after its last number")
	says(b, output(b, func() error { return (&Fsck{}).Run(ctx, loaded(b)) }), "1…25")
	says(b, output(b, func() error { return (&Audit{Limit: 9}).Run(ctx, loaded(b)) }), "rows of second copy")
}

// TestRecover_Archive: dted was stopped before it had read the archive to its end. A person must know that more can come.
func TestRecover_Archive(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	s := b.Store()
	b.Fill(s, "2026-11-21", 10)
	b.Must(s.Hold([]storage.Witness{{Medium: "archive", Path: "x.json", Series: []storage.Lead{{Series: mainSeries,
		Here: 10, There: 12}}}}), s.Beat(time.Now(), time.Now().Add(-72*time.Hour)), s.Close())
	says(b, recovered(b, exitLoss), "may not have read the whole archive", `--accept-loss "M001P001 01: 11-N"`)
}

// The card knows more than the store, which has noted that; then the card cannot be read, in whole or at its end:
// nothing is given up. Once it can be read again, recover takes everything.
func TestRecover_UnreadableCard(t *testing.T) {
	b := nightAndDay(t)
	s := b.Copied()
	if len(s.Behind()) != 1 {
		t.Fatal(s.Behind())
	}
	b.Must(s.Close(), exec.Command("cp", "-r", b.At("card"), b.At("sound")).Run())
	segments, err := filepath.Glob(b.At("card/*.copy"))
	b.Must(err)
	for i := range segments { // the newest, then one more each time: reading a folder gives an I/O error
		path := segments[len(segments)-1-i]
		b.Must(os.Remove(path), os.Mkdir(path, 0o700))
		says(b, recovered(b, exitSource, mainSeries+": 11-25"), "no number is given up")
	}
	b.Must(os.RemoveAll(b.At("card")))
	// Without the card its numbers are still known: they are given up by name.
	says(b, recovered(b, exitLoss), `--accept-loss "M001P001 01: 11-25"`)
	b.Must(os.Rename(b.At("sound"), b.At("card")))
	says(b, recovered(b, 0), "M001P001 01 25", "every series continues after its last number")
}

// A segment of the card cannot be read: the rest is taken, the missing part is listed and accepted by name.
func TestRecover_DamagedCard(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	b.WithCard()
	s := b.Copied()
	b.Fill(s, "2026-11-01", 30)
	b.Must(s.Close(), os.RemoveAll(b.Config.Data), os.Remove(b.Config.Mark))
	segments, err := filepath.Glob(b.At("card/*.copy"))
	b.Must(err)
	text, err := os.ReadFile(segments[0])
	b.Must(err)
	text[len(text)/2] ^= 1
	b.Must(os.WriteFile(segments[0], text, 0o600))
	ctx := context.Background()
	said := recovered(b, exitLoss)
	says(b, said, "missing   "+mainSeries, "number ", `--accept-loss "others: 1-N"`)
	lost := regexp.MustCompile(`--accept-loss "M001P001 01: ([^"]*), 31-N"`).FindStringSubmatch(said)
	if lost == nil {
		t.Fatal(said)
	}
	recovered(b, exitLoss, "M001P001 01: none", "others: none")
	recovered(b, exitLoss, "M001P001 01: "+lost[1])
	said = recovered(b, 0, "M001P001 01: "+lost[1], "others: none")
	says(b, said, mainSeries+"  31")
	says(b, output(b, func() error { return (&Audit{Limit: 9}).Run(ctx, loaded(b)) }),
		"rebuilt from a second copy; accepted as lost: M001P001 01: ")
	says(b, output(b, func() error { return (&Fsck{}).Run(ctx, loaded(b)) }), "missing   "+mainSeries)
}

// A box dies after its backup; its mark, on another medium, does not.
func TestRecover_Backup(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	s := b.Store()
	b.Fill(s, "2026-11-01", 20)
	b.Must(s.Close())
	ctx := context.Background()
	says(b, output(b, func() error { return (&Backup{Dir: b.At("backup")}).Run(ctx, b.Options) }), "records    20")
	says(b, output(b, func() error { return (&Backup{Dir: b.At("backup"), Check: true}).Run(ctx, b.Options) }),
		"records    20")
	if _, err := barebox.Output(t, func() error {
		return (&Backup{Dir: b.At("backup")}).Run(ctx,
			b.Options)
	}); err == nil {
		t.Error("a second backup went into the same folder")
	}
	s = b.Store()
	b.Fill(s, "2026-11-21", 5)
	b.Must(s.Close())
	says(b, recovered(b, 0, "--from", b.At("backup")), "nothing to recover")
	b.Must(os.RemoveAll(b.Config.Data))
	recovered(b, exitSource)
	says(b, recovered(b, exitLoss, "--dry-run", "--from", b.At("backup")), `--accept-loss "M001P001 01: 21-25"`)
	if _, err := os.Stat(b.Config.Data); err == nil {
		t.Error("a dry run made a store")
	}
	says(b, recovered(b, exitLoss, "--from", b.At("backup")), mainSeries+"  20            25     21-25",
		`--accept-loss "M001P001 01: 21-25"`)
	recovered(b, exitLoss, "M001P001 01: 21-24")
	recovered(b, 1, "M001P001 02: 21-25")
	says(b, recovered(b, 0, "M001P001 01: 21-25"), mainSeries+"  27", "00/14/M001/P002/2026  2\n")
	says(b, output(b, func() error { return (&Fsck{}).Run(ctx, loaded(b)) }), "given up  "+mainSeries+"  21…26")
}

// Nobody knows the last numbers: a person names the last number of each series.
func TestRecover_MarkLost(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	s := b.Store()
	b.Fill(s, "2026-11-01", 3)
	b.Must(s.Close())
	ctx := context.Background()
	output(b, func() error { return (&Backup{Dir: b.At("backup")}).Run(ctx, b.Options) })
	b.Must(os.RemoveAll(b.Config.Data), os.Remove(b.Config.Mark))
	says(b, recovered(b, exitLoss, "--from", b.At("backup")), "the mark is lost", `--accept-loss "M001P001 01: 4-N"`,
		`--accept-loss "others: 1-N"`)
	recovered(b, exitLoss, "M001P001 01: 4-5000")
	says(b, recovered(b, 0, "M001P001 01: 4-5000", "others: 1-1000"), mainSeries+"  5001", "00/03/M001/P001/2026  1001")
	// A store that owes nothing moves too, but only on an explicit request.
	says(b, recovered(b, 0, "00/01/M001/P001/2027: 1-76"), "2027 continues with number 77")
	recovered(b, 1, "00/01/M001/P001/2027: 70-99")
}

// What is another branch's is named, wherever it lies, and nothing is made of it, even if nothing of the branch's own
// is left to tell. An establishment that the branch was given later is its own.
func TestRecover_Foreign(t *testing.T) {
	for name, harm := range map[string]func(*barebox.Box) []string{
		"card": func(b *barebox.Box) []string {
			b.Must(os.RemoveAll(b.Config.Data), os.Remove(b.Config.Mark), os.RemoveAll(b.At("backup")))
			return nil
		},
		"backup": func(b *barebox.Box) []string {
			b.Must(os.RemoveAll(b.Config.Data), os.Remove(b.Config.Mark), os.RemoveAll(b.At("card")))
			return []string{"--from", b.At("backup")}
		},
		"store and mark": func(b *barebox.Box) []string { b.Must(os.RemoveAll(b.At("card"))); return nil },
		"store": func(b *barebox.Box) []string {
			b.Must(os.RemoveAll(b.At("card")), os.Remove(b.Config.Mark))
			return nil
		},
		"damaged store": func(b *barebox.Box) []string {
			b.Must(os.RemoveAll(b.At("card")), os.Remove(b.Config.Mark))
			harmed(b, "data/MANIFEST*")
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := barebox.New(t, "127.0.0.1:1")
			b.WithCard()
			s := b.Copied()
			b.Fill(s, "2026-11-01", 5)
			_, err := s.Backup(context.Background(), b.At("backup"), nil)
			b.Must(err, s.Close())
			text, err := os.ReadFile(b.Options.Config)
			b.Must(err)
			configured := func(first, second string) {
				b.T.Helper()
				b.Must(os.WriteFile(b.Options.Config, fmt.Appendf(nil, strings.ReplaceAll(string(text), `"M001"`, "%q"),
					first, second), 0o600))
			}
			configured("M007", "M008")
			args := harm(b)
			for _, more := range [][]string{{"--dry-run"}, {}, {"M001P001 01: none", "others: none"}} {
				says(b, recovered(b, exitSource, append(more, args...)...), "another branch's", "M001")
			}
			if _, err := os.Stat(b.Config.Data); err == nil && (name == "card" || name == "backup") {
				t.Error("a store was made")
			}
			configured("M007", "M001")
			status := exitLoss
			if name == "store and mark" {
				status = 0
			}
			recovered(b, status, args...)
		})
	}
}

// The new box's clock is years behind: the series that may have begun since the backup are asked for all the same.
func TestRecover_ClockBehind(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	year := time.Now().Year() + 2
	s, err := storage.Open(storage.Options{Dir: b.Config.Data, MarkPath: b.Config.Mark,
		Now: func() time.Time { return time.Date(year, 12, 31, 0, 0, 0, 0, time.UTC) }})
	b.Must(err)
	b.Fill(s, fmt.Sprint(year, "-12-01"), 3)
	b.Must(s.Close())
	output(b, func() error { return (&Backup{Dir: b.At("backup")}).Run(context.Background(), b.Options) })
	b.Must(os.RemoveAll(b.Config.Data), os.Remove(b.Config.Mark))
	says(b, recovered(b, exitLoss, "--from", b.At("backup")), `--accept-loss "others: 1-N"`)
	says(b, recovered(b, 0, fmt.Sprintf("00/01/M001/P001/%d: 4-9", year), "others: 1-5"),
		fmt.Sprintf("00/03/M001/P002/%d  6", year),
		fmt.Sprintf("00/01/M001/P001/%d  6", year+1))
}

// The backup is of the old year, and the branch has sold in the new year: a series is asked for by its whole name. The
// last receipts are of the new year; their low numbers do not show that the old series lost nothing.
func TestRecover_NewYear(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	year := time.Now().Year() - 1
	s := b.Store()
	b.Fill(s, fmt.Sprint(year, "-12-30"), 3)
	b.Must(s.Close())
	output(b, func() error { return (&Backup{Dir: b.At("backup")}).Run(context.Background(), b.Options) })
	b.Must(os.RemoveAll(b.Config.Data), os.Remove(b.Config.Mark))
	old := fmt.Sprint("00/01/M001/P001/", year)
	says(b, recovered(b, exitLoss, "--from", b.At("backup")), `--accept-loss "`+old+`: 4-N"`,
		`--accept-loss "others: 1-N"`, "series of a new year")
	recovered(b, 1, "M001P001 01: none", "others: none")
	says(b, recovered(b, 0, old+": 4-9", "others: 1-2"), old+"  10", fmt.Sprint("00/01/M001/P001/", year+1, "  3"))
}

// The box burns, the card does not.
func TestRecover_Card(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	b.WithCard()
	s := b.Copied()
	b.Fill(s, "2026-11-01", 30)
	b.Must(s.Close(), exec.Command("cp", b.Config.Mark, b.At("kept")).Run(), os.RemoveAll(b.Config.Data),
		os.Remove(b.Config.Mark))
	says(b, recovered(b, exitLoss), "records          30", `--accept-loss "M001P001 01: 31-N"`)
	says(b, recovered(b, 0, "M001P001 01: none", "others: none"), mainSeries+"  31")
	output(b, func() error { return (&Fsck{}).Run(context.Background(), loaded(b)) })
	// If the mark survives on another medium, nobody is asked: one number, which may have been given, is left out.
	b.Must(os.RemoveAll(b.Config.Data), os.Rename(b.At("kept"), b.Config.Mark))
	says(b, recovered(b, 0), mainSeries+"  32")
}

// A sale may be answered before it is shipped: a shipped copy that ends where the store ends proves no new mark. The
// card does.
func TestRecover_ShippedProvesNoEnd(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	b.WithCard()
	s := b.Copied()
	b.Fill(s, "2026-11-01", 3)
	b.Must(s.Close(), os.Remove(b.Config.Mark), exec.Command("cp", "-r", b.At("card"), b.Config.Data+".copy").Run(),
		os.Rename(b.At("card"), b.At("drawer")))
	proves := func() error {
		r := &recovery{Recover: &Recover{DryRun: true, From: []string{b.Config.Data + ".copy"}}, cfg: loaded(b)}
		r.o = r.cfg.Store(slog.New(slog.DiscardHandler))
		b.Must(r.sources(context.Background()))
		_, err := r.newMark(context.Background())
		return err
	}
	var with exitError
	if err := proves(); !errors.As(err, &with) || with.status != exitLoss {
		t.Errorf("without the card: %v", err)
	}
	b.Must(os.Rename(b.At("drawer"), b.At("card")))
	if err := proves(); !errors.As(err, &with) || with.status != exitToDo {
		t.Errorf("with the card: %v", err)
	}
}

// A medium that --from names knows more than the sound store in the box, which may have gone on since: recover takes
// what continues the store's history, and names what does not before anything is numbered.
func TestRecover_NamedKnowsMore(t *testing.T) {
	ctx := context.Background()
	backup := func(b *barebox.Box, to string) {
		s := b.Store()
		_, err := s.Backup(ctx, b.At(to), nil)
		b.Must(err, s.Close())
	}
	sold := func(b *barebox.Box, day string, n int) {
		s := b.Store()
		b.Fill(s, day, n)
		b.Must(s.Close())
	}
	image := func(n int) *barebox.Box { // sold n times; the card is away
		b := nightAndDay(t)
		b.Must(os.Rename(b.At("card"), b.At("found")))
		sold(b, "2026-11-22", n)
		return b
	}
	for name, c := range map[string]struct {
		before func() (b *barebox.Box, from string)
		lost   string // empty: nothing
		next   int
	}{
		"last night's backup, an old image": {func() (*barebox.Box, string) {
			b := barebox.New(t, "127.0.0.1:1")
			sold(b, "2026-11-01", 10)
			b.Must(exec.Command("cp", "-r", b.Config.Data, b.At("old")).Run(),
				exec.Command("cp", b.Config.Mark, b.At("old.mark")).Run())
			sold(b, "2026-11-21", 15)
			backup(b, "backup")
			b.Must(os.RemoveAll(b.Config.Data), os.Rename(b.At("old"), b.Config.Data),
				os.Rename(b.At("old.mark"), b.Config.Mark))
			return b, "backup"
		}, "26-N", 30},
		"a newer backup than the one restored": {func() (*barebox.Box, string) {
			b := barebox.New(t, "127.0.0.1:1")
			sold(b, "2026-11-01", 10)
			backup(b, "older")
			sold(b, "2026-11-21", 15)
			backup(b, "newer")
			b.Must(os.RemoveAll(b.Config.Data), os.Remove(b.Config.Mark))
			recovered(b, 0, "--from", b.At("older"), mainSeries+": none", "others: none")
			return b, "newer"
		}, "11-N", 30},
		"the card of an image that sold on":      {func() (*barebox.Box, string) { return image(1), "found" }, "12-25", 27},
		"the card of an image that sold further": {func() (*barebox.Box, string) { return image(20), "found" }, "none", 32},
		"the right card after a wrong none": {func() (*barebox.Box, string) {
			b := nightAndDay(t)
			b.Must(os.RemoveAll(b.Config.Data), os.Remove(b.Config.Mark), os.Rename(b.At("card"), b.At("found")),
				os.Rename(b.At("oldcard"), b.At("card")))
			recovered(b, 0, mainSeries+": none", "others: none")
			sold(b, "2026-11-22", 20)
			return b, "found"
		}, "none", 32},
		"a card with a bad head": {func() (*barebox.Box, string) {
			b := nightAndDay(t)
			b.Must(os.Rename(b.At("card"), b.At("found")))
			segments, err := filepath.Glob(b.At("found/*.copy"))
			b.Must(err)
			text, err := os.ReadFile(segments[0])
			b.Must(err)
			text[40] ^= 1
			b.Must(os.WriteFile(segments[0], text, 0o600))
			return b, "found"
		}, "", 26},
	} {
		t.Run(name, func(t *testing.T) {
			b, from := c.before()
			from = b.At(from)
			if c.lost == "" {
				says(b, recovered(b, 0, "--from", from), "M001P001 01 25", "every series continues after its last")
				return
			}
			want := `--accept-loss "M001P001 01: ` + c.lost + `"`
			why := "holds another history"
			if name == "last night's backup, an old image" {
				why = "an old one"
			}
			says(b, recovered(b, exitLoss, "--dry-run", "--from", from), why, want)
			says(b, recovered(b, exitLoss, "--from", from), why, want)
			says(b, recovered(b, exitLoss), want) // what was seen is not forgotten without the medium
			lost := strings.Replace(c.lost, "N", "29", 1)
			says(b, recovered(b, 0, "--from", from, "M001P001 01: "+lost, "others: none"),
				fmt.Sprint(mainSeries, "  ", c.next))
			says(b, recovered(b, 0, "--from", from), "nothing to recover", "at most what was accepted as lost")
		})
	}
}

// TestRecover_TwoCards: each second copy is read, one that --from names and the one in the slot, also if the first makes
// the store: what only the other one has is not given up.
func TestRecover_TwoCards(t *testing.T) {
	dead := func() *barebox.Box {
		b := nightAndDay(t)
		b.Must(os.RemoveAll(b.Config.Data), os.Remove(b.Config.Mark))
		return b
	}
	b := dead() // the better card is in the slot
	says(b, recovered(b, exitLoss, "--dry-run", "--from", b.At("oldcard")), "after that, "+b.At("card"), "would be lost")
	says(b, recovered(b, exitLoss, "--from", b.At("oldcard")), "M001P001 01 25", `--accept-loss "M001P001 01: 26-N"`)
	b = dead() // both are named
	b.Must(os.Rename(b.At("card"), b.At("found")))
	says(b, recovered(b, 0, "--from", b.At("oldcard"), "--from", b.At("found"), mainSeries+": none", "others: none"),
		"M001P001 01 25", "settled")
	says(b, output(b, func() error { return (&Fsck{}).Run(context.Background(), loaded(b)) }), "1…25")
	b = dead() // the card in the slot cannot be read: its numbers are not given up
	b.Must(os.Rename(b.At("card"), b.At("found")), os.WriteFile(b.At("card"), nil, 0o600))
	says(b, recovered(b, exitSource, "--from", b.At("oldcard")), "M001P001 01 10", "put the card in again")
	b.Must(os.Remove(b.At("card")), os.Rename(b.At("found"), b.At("card")))
	says(b, recovered(b, exitLoss, "--from", b.At("oldcard")), `--accept-loss "M001P001 01: 26-N"`)
	b = nightAndDay(t) // beside a sound store, the first card has nothing more, the one in the slot has
	says(b, recovered(b, exitToDo, "--dry-run", "--from", b.At("oldcard")), "M001P001 01 25", "nothing is missing")
	says(b, recovered(b, 0, "--from", b.At("oldcard")), "nothing is missing")
	s := b.Copied() // the named card proves a new mark, not an older one in the slot
	b.Must(s.Close(), os.Remove(b.Config.Mark), os.Rename(b.At("card"), b.At("found")),
		os.Rename(b.At("oldcard"), b.At("card")))
	says(b, recovered(b, exitToDo, "--dry-run", "--from", b.At("found")), "the copy   ends exactly where the store ends")
	says(b, recovered(b, 0, "--from", b.At("found")), "there is a new mark")
	b = dead() // the named card holds nothing
	b.Must(os.Mkdir(b.At("bad"), 0o700), os.WriteFile(b.At("bad/0000000001.copy"), make([]byte, 9999), 0o600))
	says(b, recovered(b, exitLoss, "--from", b.At("bad")), "cannot be read", `--accept-loss "M001P001 01: 26-N"`)
	b = dead() // one card, by another name
	b.Must(os.Symlink(b.At("card"), b.At("link")))
	says(b, recovered(b, exitLoss, "--from", b.At("link")), `--accept-loss "M001P001 01: 26-N"`)
}

// TestRecover_OldMarkTwoCards: the store is gone, and the mark was put back. The card in the slot knows that the mark is
// old, also if a store was made of an older card before: both do not show where the numbers end.
func TestRecover_OldMarkTwoCards(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	b.WithCard()
	s := b.Copied()
	b.Fill(s, "2026-11-01", 10)
	b.Must(s.Close(), exec.Command("cp", "-r", b.At("card"), b.At("oldcard")).Run(),
		exec.Command("cp", b.Config.Mark, b.At("old.mark")).Run())
	s = b.Copied()
	b.Fill(s, "2026-11-11", 90)
	b.Must(s.Close(), os.RemoveAll(b.Config.Data), os.Rename(b.At("old.mark"), b.Config.Mark))
	says(b, recovered(b, exitLoss, "--from", b.At("oldcard")), "an old one", `--accept-loss "M001P001 01: 101-N"`)
}

// A mark that knows more than store and mark is named, and nothing is said to be whole.
func TestRecover_NamedAside(t *testing.T) {
	b := nightAndDay(t)
	b.Must(os.RemoveAll(b.At("card")))
	says(b, recovered(b, exitSource, "--from", b.At("right.mark")), "the mark says 25", "type dtectl recover")
	b.Must(os.Rename(b.At("right.mark"), b.Config.Mark))
	says(b, recovered(b, exitLoss), `--accept-loss "M001P001 01: 11-25"`)
	recovered(b, 0, "M001P001 01: 11-25")
	b.Must(exec.Command("cp", b.Config.Mark, b.At("same.mark")).Run())
	says(b, recovered(b, 0, "--from", b.At("same.mark")), "nothing to recover")
}

// The mark of a dead box is found before or after its store was made from an old card: its numbers are not given again.
func TestRecover_FoundMark(t *testing.T) {
	for _, settled := range []bool{false, true} {
		b := nightAndDay(t)
		b.Must(os.RemoveAll(b.Config.Data), os.Remove(b.Config.Mark), os.RemoveAll(b.At("card")),
			os.Rename(b.At("oldcard"), b.At("card")))
		if settled {
			recovered(b, 0, mainSeries+": none", "others: none")
		}
		says(b, recovered(b, exitSource, "--from", b.At("right.mark")), "lay it in the place of")
		b.Must(os.Rename(b.At("right.mark"), b.Config.Mark))
		says(b, recovered(b, exitLoss, mainSeries+": none", "others: none"), "25 or more")
		says(b, recovered(b, 0, mainSeries+": 11-25", "others: none"), "settled")
	}
}

// Beside a sound store, a backup that cannot be read is compared by its description, and a folder that is none is named.
func TestRecover_NamedUnreadable(t *testing.T) {
	b := nightAndDay(t)
	s := b.Copied()
	if len(s.Behind()) == 0 {
		t.Fatal("the card is not ahead")
	}
	b.Must(s.Close())
	recovered(b, 0) // takes the card
	s = b.Store()
	_, err := s.Backup(context.Background(), b.At("usb"), nil)
	b.Must(err, s.Close(), os.RemoveAll(b.Config.Data), os.Remove(b.Config.Mark), os.RemoveAll(b.At("card")),
		os.Rename(b.At("oldcard"), b.At("card")))
	recovered(b, 0, mainSeries+": none", "others: none")
	says(b, recovered(b, exitSource, "--from", b.At("usb/store")), "cannot be read", "not every medium")
	harmed(b, "usb/store/*.sst")
	says(b, recovered(b, exitLoss, "--from", b.At("usb")), "cannot be read", `--accept-loss "M001P001 01: 11-N"`)
}

// A dead box is made from an old card; then the right card is put into the same slot: it is read.
func TestRecover_SameSlot(t *testing.T) {
	b := nightAndDay(t)
	b.Must(os.RemoveAll(b.Config.Data), os.Rename(b.At("right.mark"), b.Config.Mark),
		os.Rename(b.At("card"), b.At("right")), os.Rename(b.At("oldcard"), b.At("card")))
	says(b, recovered(b, exitLoss), "M001P001 01 10", `--accept-loss "M001P001 01: 11-25"`)
	b.Must(os.RemoveAll(b.At("card")), os.Rename(b.At("right"), b.At("card")))
	says(b, recovered(b, 0), "M001P001 01 25")
	says(b, recovered(b, 0), "nothing to recover")
}
