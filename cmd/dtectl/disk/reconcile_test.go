package disk_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/dtectl/disk"
	"dtegate/cmd/dtectl/doctor"
)

// Store and mark are put back as they were last night: reconcile takes the day from the card.
func TestReconcile_TakesCopy(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	b.WithCard()
	s := b.Copied()
	b.Fill(s, "2026-11-01", 10)
	b.Must(s.Close(), exec.Command("cp", "-r", b.Config.Data, b.At("old")).Run(), exec.Command("cp", b.Config.Mark, b.At("old.mark")).Run())
	s = b.Copied()
	b.Fill(s, "2026-11-21", 15)
	b.Must(s.Close(), os.RemoveAll(b.Config.Data), os.Rename(b.At("old"), b.Config.Data), os.Rename(b.At("old.mark"), b.Config.Mark))
	ctx := context.Background()
	said, _ := barebox.Output(t, func() error { return (&doctor.Command{}).Run(ctx, b.Options) }) // other checks fail too
	if !regexp.MustCompile(`(?m)^fail +second copy +.*00/01/M001/P001/2026: 10 here, 25 there`).MatchString(said) {
		t.Errorf("doctor: %s", said)
	}
	text, err := barebox.Output(t, func() error { return (&disk.Reconcile{}).Run(ctx, b.Options) })
	if err != nil || !strings.Contains(text, "00/01/M001/P001/2026: 10 here, 25 there") {
		t.Fatalf("%s, %v", text, err)
	}
	if text, err = barebox.Output(t, func() error { return (&disk.Fsck{}).Run(ctx, b.Options) }); err != nil || !strings.Contains(text, "1…25") {
		t.Errorf("%s, %v", text, err)
	}
	if text, err = barebox.Output(t, func() error { return (&disk.Audit{Limit: 9}).Run(ctx, b.Options) }); err != nil || !strings.Contains(text, "taken from the second copy") {
		t.Errorf("%s, %v", text, err)
	}
}

// The card knows more, which the store has noted, and cannot be read any more, whole or at its end: nothing is given up. Once it
// can be read again, reconcile takes everything.
func TestReconcile_UnreadableCard(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	b.WithCard()
	s := b.Copied()
	b.Fill(s, "2026-11-01", 10)
	b.Must(s.Close(), exec.Command("cp", "-r", b.Config.Data, b.At("old")).Run(), exec.Command("cp", b.Config.Mark, b.At("old.mark")).Run())
	s = b.Copied()
	b.Fill(s, "2026-11-21", 15)
	b.Must(s.Close(), os.RemoveAll(b.Config.Data), os.Rename(b.At("old"), b.Config.Data), os.Rename(b.At("old.mark"), b.Config.Mark))
	s = b.Copied()
	if len(s.Behind()) != 1 {
		t.Fatal(s.Behind())
	}
	b.Must(s.Close(), exec.Command("cp", "-r", b.At("card"), b.At("sound")).Run())
	ctx := context.Background()
	segments, err := filepath.Glob(b.At("card/*.copy"))
	b.Must(err)
	for i := range segments { // the newest, then one more each time: a folder reads as an I/O error
		path := segments[len(segments)-1-i]
		b.Must(os.Remove(path), os.Mkdir(path, 0o700))
		said, err := barebox.Output(t, func() error { return (&disk.Reconcile{AcceptMissing: true}).Run(ctx, b.Options) })
		if err == nil || !strings.Contains(err.Error(), "nothing is given up") {
			t.Fatalf("%d of %d segments unreadable: %s, %v", i+1, len(segments), said, err)
		}
	}
	b.Must(os.RemoveAll(b.At("card")), os.Rename(b.At("sound"), b.At("card")))
	text, err := barebox.Output(t, func() error { return (&disk.Reconcile{}).Run(ctx, b.Options) })
	if err != nil || !strings.Contains(text, "00/01/M001/P001/2026: 10 here, 25 there") {
		t.Fatalf("%s, %v", text, err)
	}
}

// A card of which a segment cannot be read: the rest is taken, what is missing is listed, and accepted by name.
func TestRebuild_Damaged(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	b.WithCard()
	s := b.Copied()
	b.Fill(s, "2026-11-01", 30)
	b.Must(s.Close(), os.RemoveAll(b.Config.Data), os.Remove(b.Config.Mark))
	segments, err := filepath.Glob(b.At("card/*.copy"))
	b.Must(err)
	path := segments[0]
	text, err := os.ReadFile(path)
	b.Must(err)
	text[len(text)/2] ^= 1
	b.Must(os.WriteFile(path, text, 0o600))
	ctx := context.Background()
	said, err := barebox.Output(t, func() error { return (&disk.Rebuild{Dir: b.At("card")}).Run(ctx, b.Options) })
	if err != nil || !strings.Contains(said, "number ") || !strings.Contains(said, "--trust-copy --accept-missing") {
		t.Fatalf("%s, %v", said, err)
	}
	if said, err = barebox.Output(t, func() error { return (&disk.Reconcile{TrustCopy: true}).Run(ctx, b.Options) }); err == nil {
		t.Fatalf("reconciled without a word about what is missing: %s", said)
	}
	said, err = barebox.Output(t, func() error { return (&disk.Reconcile{TrustCopy: true, AcceptMissing: true}).Run(ctx, b.Options) })
	if err != nil || !strings.Contains(said, "00/01/M001/P001/2026  31") {
		t.Fatalf("%s, %v", said, err)
	}
	if said, err = barebox.Output(t, func() error { return (&disk.Audit{Limit: 9}).Run(ctx, b.Options) }); err != nil || !strings.Contains(said, "rebuilt from a second copy; missing documents accepted") {
		t.Errorf("%s, %v", said, err)
	}
	if said, err = barebox.Output(t, func() error { return (&disk.Fsck{}).Run(ctx, b.Options) }); err != nil || !strings.Contains(said, "missing   00/01/M001/P001/2026") {
		t.Errorf("%s, %v", said, err)
	}
}
