package main

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/storage"
)

// withCard gives a box a second copy.
func (b *box) withCard(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(b.top.Config)
	b.must(err, config.WriteFile(b.top.Config, append([]byte("second_copy = \"card\"\n"), text...)))
	b.cfg, err = config.Load(b.top.Config)
	b.must(err)
}

func (b *box) copied() *storage.Store {
	s, err := storage.Open(storage.Options{Dir: b.cfg.Data, MarkPath: b.cfg.Mark, SecondCopy: b.cfg.SecondCopy, Now: time.Now})
	b.must(err)
	return s
}

// Store and mark are put back as they were last night: reconcile takes the day from the card.
func TestReconcile_TakesCopy(t *testing.T) {
	b := newBox(t, "127.0.0.1:1")
	b.withCard(t)
	s := b.copied()
	b.fill(s, "2026-11-01", 10)
	b.must(s.Close(), exec.Command("cp", "-r", b.cfg.Data, b.at("old")).Run(), exec.Command("cp", b.cfg.Mark, b.at("old.mark")).Run())
	s = b.copied()
	b.fill(s, "2026-11-21", 15)
	b.must(s.Close(), os.RemoveAll(b.cfg.Data), os.Rename(b.at("old"), b.cfg.Data), os.Rename(b.at("old.mark"), b.cfg.Mark))
	ctx := context.Background()
	d := &doctor{cfg: b.cfg, now: time.Now}
	d.store(ctx)
	if !slices.ContainsFunc(d.findings, func(f finding) bool {
		return f.Status == statusFail && f.Check == "second copy" && strings.Contains(f.What, "00/01/M001/P001/2026: 10 here, 25 there")
	}) {
		t.Errorf("doctor: %+v", d.findings)
	}
	text, err := output(t, func() error { return (&reconcileCommand{}).Run(ctx, b.top) })
	if err != nil || !strings.Contains(text, "00/01/M001/P001/2026: 10 here, 25 there") {
		t.Fatalf("%s, %v", text, err)
	}
	if text, err = output(t, func() error { return (&fsckCommand{}).Run(ctx, b.top) }); err != nil || !strings.Contains(text, "1…25") {
		t.Errorf("%s, %v", text, err)
	}
	if text, err = output(t, func() error { return (&auditCommand{Limit: 9}).Run(ctx, b.top) }); err != nil || !strings.Contains(text, "taken from the second copy") {
		t.Errorf("%s, %v", text, err)
	}
}

// A card of which a segment cannot be read: the rest is taken, what is missing is listed, and accepted by name.
func TestRebuild_Damaged(t *testing.T) {
	b := newBox(t, "127.0.0.1:1")
	b.withCard(t)
	s := b.copied()
	b.fill(s, "2026-11-01", 30)
	b.must(s.Close(), os.RemoveAll(b.cfg.Data), os.Remove(b.cfg.Mark))
	path := b.at("card/0000000001.copy")
	text, err := os.ReadFile(path)
	b.must(err)
	text[len(text)/2] ^= 1
	b.must(os.WriteFile(path, text, 0o600))
	ctx := context.Background()
	said, err := output(t, func() error { return (&rebuildCommand{Dir: b.at("card")}).Run(ctx, b.top) })
	if err != nil || !strings.Contains(said, "number ") || !strings.Contains(said, "--trust-copy --accept-missing") {
		t.Fatalf("%s, %v", said, err)
	}
	if said, err = output(t, func() error { return (&reconcileCommand{TrustCopy: true}).Run(ctx, b.top) }); err == nil {
		t.Fatalf("reconciled without a word about what is missing: %s", said)
	}
	said, err = output(t, func() error { return (&reconcileCommand{TrustCopy: true, AcceptMissing: true}).Run(ctx, b.top) })
	if err != nil || !strings.Contains(said, "00/01/M001/P001/2026  31") {
		t.Fatalf("%s, %v", said, err)
	}
	if said, err = output(t, func() error { return (&auditCommand{Limit: 9}).Run(ctx, b.top) }); err != nil || !strings.Contains(said, "missing documents accepted") {
		t.Errorf("%s, %v", said, err)
	}
	if said, err = output(t, func() error { return (&fsckCommand{}).Run(ctx, b.top) }); err != nil || !strings.Contains(said, "missing   00/01/M001/P001/2026") {
		t.Errorf("%s, %v", said, err)
	}
}
