package main

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/storage"
)

// types runs a command line as an operator types it.
func (b *box) types(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return output(t, func() error {
		var c cli
		command, err := parser(context.Background(), &c).Parse(append(args, "-c", b.top.Config))
		if err != nil {
			t.Fatal(err)
		}
		return command.Run(&c)
	})
}

// says runs a command that must end well or not, and say each of the texts.
func (b *box) says(t *testing.T, well bool, line string, texts ...string) string {
	t.Helper()
	said, err := b.types(t, strings.Fields(line)...)
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

// The runbook's commands for a lost mark, in their order, against a box with a whole card: it goes on where it was.
func TestNewMark_Runbook(t *testing.T) {
	b := newBox(t, "127.0.0.1:1")
	b.withCard(t)
	s := b.copied()
	b.fill(s, "2026-11-01", 10)
	b.must(s.Beat(time.Now()), s.Close(), os.Remove(b.cfg.Mark))
	var said strings.Builder
	count := 0
	for _, c := range runbookCommands(t, "No mark at the start") {
		i := slices.Index(c, "dtectl")
		if i < 0 {
			continue // the system's
		}
		out, err := b.types(t, c[i+1:]...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", c, err, out)
		}
		said.WriteString(out)
		count++
	}
	if count < 4 {
		t.Errorf("the runbook has %d commands", count)
	}
	for _, want := range []string{"no mark is there", "reconcile --new-mark", "10 documents of 1 series", "ends exactly where the store ends", "there is a new mark", "no problem found", "mark.new"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("none of the commands says %q:\n%s", want, &said)
		}
	}
	s = b.store()
	b.fill(s, "2026-12-01", 1)
	last, err := s.LastNumber("00/01/M001/P001/2026")
	if b.must(err, s.Close()); last != 11 {
		t.Errorf("the series goes on at %d", last)
	}
}

// Without a card nothing proves the store: that is said, nothing is altered, and the numbers that may have been used are given up.
func TestNewMark_Doubted(t *testing.T) {
	b := newBox(t, "127.0.0.1:1")
	s := b.store()
	b.fill(s, "2026-11-01", 3)
	b.must(s.Close(), os.Remove(b.cfg.Mark))
	b.says(t, false, "doctor", "no mark is there", "reconcile --new-mark")
	b.says(t, false, "reconcile", "no mark is there", "reconcile --new-mark")
	b.says(t, false, "reconcile --new-mark", "there is no second copy", "Nothing was altered", "--new-mark --advance 10000")
	b.says(t, true, "reconcile --new-mark --advance 500", "00/01/M001/P001/2026  504", "00/03/M001/P001/2026  501")
	b.says(t, true, "fsck", "given up  00/01/M001/P001/2026  4…503", "no mark is there; not proven: there is no second copy")
	b.says(t, true, "audit", "not proven: there is no second copy")
	b.says(t, false, "reconcile --new-mark --advance 500", "nothing to reconcile")
}

// The mark moves to another medium; the file that it leaves behind is none any more, and doctor says which is which.
func TestMark_Move(t *testing.T) {
	b := newBox(t, "127.0.0.1:1")
	s := b.store()
	b.fill(s, "2026-11-01", 3)
	b.must(s.Close(), exec.Command("cp", b.cfg.Mark, b.at("copied")).Run())
	text, err := os.ReadFile(b.top.Config)
	b.must(err)
	old := b.cfg.Mark
	b.must(os.WriteFile(b.top.Config, []byte(strings.Replace(string(text), `mark = "mark"`, `mark = "stick/mark"`, 1)), 0o600))
	b.says(t, false, "doctor", old, "dtectl mark move brings it here")
	b.says(t, true, "mark show", "missing, configured", "sound, last used by the store")
	b.says(t, true, "mark move", "is none any more")
	b.says(t, true, "mark show "+b.at("copied"), "sound, configured", "old\n")
	b.says(t, true, "audit", "mark.move")
	b.says(t, false, "mark move", "already")
	// The configuration is put back, with a copy of the old file.
	b.must(os.WriteFile(b.top.Config, text, 0o600), exec.Command("cp", b.at("copied"), old).Run())
	b.says(t, false, "doctor", "it is an old one", "stick/mark: dtectl mark move brings it here")
	b.says(t, true, "mark move")
	if said := b.says(t, true, "fsck"); strings.Contains(said, "problem  ") {
		t.Error(said)
	}
	// Another box's medium.
	other := newBox(t, "127.0.0.1:1")
	b.must(exec.Command("cp", other.cfg.Mark, old).Run())
	b.says(t, false, "doctor", "that medium belongs to another box")
	if m := (storage.MarkState{Kind: storage.MarkAhead}); !strings.Contains(markRemedy(b.readOnly(t), m), "Do not make a new mark") {
		t.Error("a mark that is ahead")
	}
}

func (b *box) readOnly(t *testing.T) *storage.Store {
	s, err := storage.OpenReadOnly(storage.Options{Dir: b.cfg.Data, MarkPath: b.cfg.Mark, Now: time.Now})
	b.must(err)
	t.Cleanup(func() { b.must(s.Close()) })
	return s
}
