package disk

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/storage"
)

// A box dies after its backup; its mark, on another medium, does not.
func TestBackup_Restore(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	s := b.Store()
	b.Fill(s, "2026-11-01", 20)
	b.Must(s.Close())
	ctx := context.Background()
	backup := &Backup{Dir: b.At("backup")}
	text, err := barebox.Output(t, func() error { return backup.Run(ctx, b.Options) })
	if err != nil || !strings.Contains(text, "records    20") {
		t.Fatalf("%s, %v", text, err)
	}
	check := &Backup{Dir: b.At("backup"), Check: true}
	if text, err = barebox.Output(t, func() error { return check.Run(ctx, b.Options) }); err != nil || !strings.Contains(text, "records    20") {
		t.Fatalf("%s, %v", text, err)
	}
	if _, err := barebox.Output(t, func() error { return backup.Run(ctx, b.Options) }); err == nil {
		t.Error("a second backup went into the same folder")
	}

	s = b.Store()
	b.Fill(s, "2026-11-21", 5)
	if _, err := barebox.Output(t, func() error { return (&Backup{Dir: b.At("second")}).Run(ctx, b.Options) }); err == nil {
		t.Error("backed up a store that this process has open")
	}
	b.Must(s.Close())
	restore := &Restore{Dir: b.At("backup")}
	if _, err := barebox.Output(t, func() error { return restore.Run(ctx, b.Options) }); err == nil || !strings.Contains(err.Error(), "never overwritten") {
		t.Errorf("over a store: %v", err)
	}
	b.Must(os.RemoveAll(b.Config.Data))
	text, err = barebox.Output(t, func() error { return restore.Run(ctx, b.Options) })
	if err != nil || !strings.Contains(text, "00/01/M001/P001/2026  20            25") || !strings.Contains(text, "--accept-mark") {
		t.Fatalf("%s, %v", text, err)
	}
	if text, err = barebox.Output(t, func() error { return (&Reconcile{}).Run(ctx, b.Options) }); err != nil || !strings.Contains(text, "--accept-mark") {
		t.Fatalf("%s, %v", text, err)
	}
	text, err = barebox.Output(t, func() error { return (&Reconcile{AcceptMark: true}).Run(ctx, b.Options) })
	if err != nil || !strings.Contains(text, "00/01/M001/P001/2026  27") || !strings.Contains(text, "00/14/M001/P002/2026  2\n") {
		t.Fatalf("%s, %v", text, err)
	}
	if text, err = barebox.Output(t, func() error { return (&Reconcile{AcceptMark: true}).Run(ctx, b.Options) }); err == nil {
		t.Errorf("reconciled twice: %s", text)
	}
	if text, err = barebox.Output(t, func() error { return (&Fsck{}).Run(ctx, b.Options) }); err != nil || !strings.Contains(text, "given up  00/01/M001/P001/2026  21…") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestReconcile_MarkLost(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	s := b.Store()
	b.Fill(s, "2026-11-01", 3)
	b.Must(s.Close())
	ctx := context.Background()
	_, err := barebox.Output(t, func() error { return (&Backup{Dir: b.At("backup")}).Run(ctx, b.Options) })
	b.Must(err, os.RemoveAll(b.Config.Data), os.Remove(b.Config.Mark))
	text, err := barebox.Output(t, func() error { return (&Restore{Dir: b.At("backup"), AcceptMark: true}).Run(ctx, b.Options) })
	if err == nil || !strings.Contains(text, "lost") || !strings.Contains(text, "--advance") {
		t.Fatalf("%s, %v", text, err)
	}
	skip := &Reconcile{Advance: 1000, Skip: map[string]uint64{"00/01/M001/P001/2026": 5000}}
	text, err = barebox.Output(t, func() error { return skip.Run(ctx, b.Options) })
	if err != nil || !strings.Contains(text, "00/01/M001/P001/2026  5001") || !strings.Contains(text, "00/03/M001/P001/2026  1001") {
		t.Fatalf("%s, %v", text, err)
	}
	// A store that owes nothing moves too, on an explicit word only.
	more := &Reconcile{Skip: map[string]uint64{"00/01/M001/P001/2027": 76}, Reason: "moved from another program"}
	if text, err = barebox.Output(t, func() error { return more.Run(ctx, b.Options) }); err != nil || !strings.Contains(text, "2027 goes on at 77") {
		t.Fatalf("%s, %v", text, err)
	}
}

// The box burns, the card does not.
func TestRebuild(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	card := b.At("card")
	s, err := storage.Open(storage.Options{Dir: b.Config.Data, MarkPath: b.Config.Mark, SecondCopy: card, Now: time.Now})
	b.Must(err)
	b.Fill(s, "2026-11-01", 30)
	b.Must(s.Close(), os.RemoveAll(b.Config.Data), os.Remove(b.Config.Mark))
	ctx := context.Background()
	text, err := barebox.Output(t, func() error { return (&Rebuild{Dir: card}).Run(ctx, b.Options) })
	if err != nil || !strings.Contains(text, "records    30") || !strings.Contains(text, "--trust-copy") {
		t.Fatalf("%s, %v", text, err)
	}
	text, err = barebox.Output(t, func() error { return (&Reconcile{TrustCopy: true}).Run(ctx, b.Options) })
	if err != nil || !strings.Contains(text, "00/01/M001/P001/2026  31") {
		t.Fatalf("%s, %v", text, err)
	}
	if text, err = barebox.Output(t, func() error { return (&Fsck{}).Run(ctx, b.Options) }); err != nil {
		t.Errorf("%s, %v", text, err)
	}
}
