package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"dtegate/storage"
)

// A box dies after its backup; its mark, on another medium, does not.
func TestBackup_Restore(t *testing.T) {
	b := newBox(t, "127.0.0.1:1")
	s := b.store()
	b.fill(s, "2026-11-01", 20)
	b.must(s.Close())
	ctx := context.Background()
	backup := &backupCommand{Dir: b.at("backup")}
	text, err := output(t, func() error { return backup.Run(ctx, b.top) })
	if err != nil || !strings.Contains(text, "documents  20") {
		t.Fatalf("%s, %v", text, err)
	}
	check := &backupCommand{Dir: b.at("backup"), Check: true}
	if text, err = output(t, func() error { return check.Run(ctx, b.top) }); err != nil || !strings.Contains(text, "documents  20") {
		t.Fatalf("%s, %v", text, err)
	}
	if _, err := output(t, func() error { return backup.Run(ctx, b.top) }); err == nil {
		t.Error("a second backup went into the same folder")
	}

	s = b.store()
	b.fill(s, "2026-11-21", 5)
	if _, err := output(t, func() error { return (&backupCommand{Dir: b.at("second")}).Run(ctx, b.top) }); err == nil {
		t.Error("backed up a store that this process has open")
	}
	b.must(s.Close())
	restore := &restoreCommand{Dir: b.at("backup")}
	if _, err := output(t, func() error { return restore.Run(ctx, b.top) }); err == nil || !strings.Contains(err.Error(), "never overwritten") {
		t.Errorf("over a store: %v", err)
	}
	b.must(os.RemoveAll(b.cfg.Data))
	text, err = output(t, func() error { return restore.Run(ctx, b.top) })
	if err != nil || !strings.Contains(text, "00/01/M001/P001/2026  20             25") || !strings.Contains(text, "--accept-mark") {
		t.Fatalf("%s, %v", text, err)
	}
	if text, err = output(t, func() error { return (&reconcileCommand{}).Run(ctx, b.top) }); err != nil || !strings.Contains(text, "--accept-mark") {
		t.Fatalf("%s, %v", text, err)
	}
	text, err = output(t, func() error { return (&reconcileCommand{AcceptMark: true}).Run(ctx, b.top) })
	if err != nil || !strings.Contains(text, "00/01/M001/P001/2026  27") || !strings.Contains(text, "00/14/M001/P002/2026  2\n") {
		t.Fatalf("%s, %v", text, err)
	}
	if text, err = output(t, func() error { return (&reconcileCommand{AcceptMark: true}).Run(ctx, b.top) }); err == nil {
		t.Errorf("reconciled twice: %s", text)
	}
	if text, err = output(t, func() error { return (&fsckCommand{}).Run(ctx, b.top) }); err != nil || !strings.Contains(text, "given up  00/01/M001/P001/2026  21…") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestReconcile_MarkLost(t *testing.T) {
	b := newBox(t, "127.0.0.1:1")
	s := b.store()
	b.fill(s, "2026-11-01", 3)
	b.must(s.Close())
	ctx := context.Background()
	_, err := output(t, func() error { return (&backupCommand{Dir: b.at("backup")}).Run(ctx, b.top) })
	b.must(err, os.RemoveAll(b.cfg.Data), os.Remove(b.cfg.Mark))
	text, err := output(t, func() error { return (&restoreCommand{Dir: b.at("backup"), AcceptMark: true}).Run(ctx, b.top) })
	if err == nil || !strings.Contains(text, "lost") || !strings.Contains(text, "--advance") {
		t.Fatalf("%s, %v", text, err)
	}
	skip := &reconcileCommand{Advance: 1000, Skip: map[string]uint64{"00/01/M001/P001/2026": 5000}}
	text, err = output(t, func() error { return skip.Run(ctx, b.top) })
	if err != nil || !strings.Contains(text, "00/01/M001/P001/2026  5001") || !strings.Contains(text, "00/03/M001/P001/2026  1001") {
		t.Fatalf("%s, %v", text, err)
	}
	// A store that owes nothing moves too, on an explicit word only.
	more := &reconcileCommand{Skip: map[string]uint64{"00/01/M001/P001/2027": 76}, Reason: "moved from another program"}
	if text, err = output(t, func() error { return more.Run(ctx, b.top) }); err != nil || !strings.Contains(text, "2027 goes on at 77") {
		t.Fatalf("%s, %v", text, err)
	}
}

// The box burns, the card does not.
func TestRebuild(t *testing.T) {
	b := newBox(t, "127.0.0.1:1")
	card := b.at("card")
	s, err := storage.Open(storage.Options{Dir: b.cfg.Data, MarkPath: b.cfg.Mark, SecondCopy: card, Now: time.Now})
	b.must(err)
	b.fill(s, "2026-11-01", 30)
	b.must(s.Close(), os.RemoveAll(b.cfg.Data), os.Remove(b.cfg.Mark))
	ctx := context.Background()
	text, err := output(t, func() error { return (&rebuildCommand{Dir: card}).Run(ctx, b.top) })
	if err != nil || !strings.Contains(text, "documents  30") || !strings.Contains(text, "--trust-copy") {
		t.Fatalf("%s, %v", text, err)
	}
	text, err = output(t, func() error { return (&reconcileCommand{TrustCopy: true}).Run(ctx, b.top) })
	if err != nil || !strings.Contains(text, "00/01/M001/P001/2026  31") {
		t.Fatalf("%s, %v", text, err)
	}
	if text, err = output(t, func() error { return (&fsckCommand{}).Run(ctx, b.top) }); err != nil {
		t.Errorf("%s, %v", text, err)
	}
}
