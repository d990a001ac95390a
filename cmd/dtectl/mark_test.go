package main

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/barebox"
)

// types runs a command line as an operator types it.
func types(b *barebox.Box, t *testing.T, args ...string) (string, error) {
	t.Helper()
	return barebox.Output(t, func() error {
		var c cli
		command, err := parser(context.Background(), &c).Parse(append(args, "-c", b.Options.Config))
		if err != nil {
			t.Fatal(err)
		}
		return command.Run(&c.Options)
	})
}

// says runs a command, checks whether it succeeds, and checks that it prints each of the texts.
func says(b *barebox.Box, t *testing.T, well bool, line string, texts ...string) string {
	t.Helper()
	said, err := types(b, t, strings.Fields(line)...)
	if (err == nil) != well {
		t.Fatalf("dtectl %s: %v\n%s", line, err, said)
	}
	if err != nil {
		said += err.Error()
	}
	for _, text := range texts {
		if !strings.Contains(said, text) {
			t.Errorf("dtectl %s does not say %q:\n%s", line, text, said)
		}
	}
	return said
}

// The runbook's commands for a lost mark, in their order, for a box with a whole card: the box continues where it was.
func TestNewMark_Runbook(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	b.WithCard()
	s := b.Copied()
	b.Fill(s, "2026-11-01", 10)
	b.Must(s.Beat(time.Now(), time.Time{}), s.Close(), os.Remove(b.Config.Mark))
	var said strings.Builder
	count := 0
	for _, c := range barebox.RunbookCommands(t, "Recover") {
		i := slices.Index(c, "dtectl")
		if i < 0 {
			continue // the system's
		}
		out, err := types(b, t, c[i+1:]...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", c, err, out)
		}
		said.WriteString(out)
		count++
	}
	if count < 3 {
		t.Errorf("the runbook has %d commands", count)
	}
	for _, want := range []string{"no mark is there", "10 records of 1 series", "ends exactly where the store ends",
		"there is a new mark", "no problem found", "mark.new"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("none of the commands says %q:\n%s", want, &said)
		}
	}
	s = b.Store()
	b.Fill(s, "2026-12-01", 1)
	last, err := s.LastNumber("00/01/M001/P001/2026")
	if b.Must(err, s.Close()); last != 11 {
		t.Errorf("the series goes on at %d", last)
	}
}

// Without a card nothing proves the store: recover says so, changes nothing, and gives up the numbers that may have
// been used.
func TestNewMark_Doubted(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	s := b.Store()
	b.Fill(s, "2026-11-01", 3)
	b.Must(s.Close(), os.Remove(b.Config.Mark))
	says(b, t, false, "doctor", "no mark is there", "dtectl recover checks the store")
	says(b, t, false, "recover --dry-run", "no mark is there", "there is no second copy",
		`--accept-loss "M001P001 01: 4-N"`, `--accept-loss "others: 1-N"`)
	says(b, t, false, "recover", "there is no second copy", `--accept-loss "M001P001 01: 4-N"`)
	says(b, t, true, "recover --accept-loss 00/01/M001/P001/2026:4-503 --accept-loss others:1-500",
		"00/01/M001/P001/2026  504", "00/03/M001/P001/2026  501")
	says(b, t, true, "fsck", "given up  00/01/M001/P001/2026  4…503",
		"no mark is there; not proven: there is no second copy")
	says(b, t, true, "audit", "not proven: there is no second copy")
	says(b, t, true, "recover", "nothing to recover")
}

// The mark moves to another medium; the file that it leaves behind is no longer the mark, and doctor distinguishes the
// two.
func TestMark_Move(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	s := b.Store()
	b.Fill(s, "2026-11-01", 3)
	b.Must(s.Close(), exec.Command("cp", b.Config.Mark, b.At("copied")).Run())
	text, err := os.ReadFile(b.Options.Config)
	b.Must(err)
	old := b.Config.Mark
	b.Must(os.WriteFile(b.Options.Config, []byte(strings.Replace(string(text), `mark = "mark"`, `mark = "stick/mark"`,
		1)), 0o600))
	says(b, t, false, "doctor", old, "dtectl recover moves it here")
	says(b, t, false, "recover --dry-run", old, "dtectl recover moves it here")
	says(b, t, true, "recover", "is no longer the mark")
	says(b, t, true, "audit", "mark.move")
	says(b, t, true, "recover", "nothing to recover")
	// The configuration is put back, with a copy of the old file.
	b.Must(os.WriteFile(b.Options.Config, text, 0o600), exec.Command("cp", b.At("copied"), old).Run())
	says(b, t, false, "doctor", "it is old", "stick/mark: dtectl recover moves it here")
	says(b, t, true, "recover", "is no longer the mark")
	if said := says(b, t, true, "fsck"); strings.Contains(said, "problem  ") {
		t.Error(said)
	}
	// Another box's medium.
	other := barebox.New(t, "127.0.0.1:1")
	b.Must(exec.Command("cp", other.Config.Mark, old).Run())
	says(b, t, false, "doctor", "that medium belongs to another box")
}
