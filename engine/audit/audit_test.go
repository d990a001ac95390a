package audit

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"dtegate/engine/recordmac"
	"dtegate/storage"
)

// Recorded acts are there after a restart, the newest first, bound into the store's hash chain; an act that only began
// has no outcome. TestTrail_Last: the newest act of a kind is found after any number of others; if there is none, the
// search ends.
func TestTrail_Last(t *testing.T) {
	dir := t.TempDir()
	o := storage.Options{Dir: dir + "/data", MarkPath: dir + "/mark", Logger: slog.New(slog.DiscardHandler),
		Now: time.Now}
	if err := storage.Create(o); err != nil {
		t.Fatal(err)
	}
	s, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	trail := New(s, "00", recordmac.New(), time.Now)
	for n := range 70 {
		if err := trail.Record(context.Background(), Act{Who: "ana", What: fmt.Sprint("act ", n),
			Outcome: Done}); err != nil {
			t.Fatal(err)
		}
		for what, there := range map[string]bool{"act 0": true, fmt.Sprint("act ", n): true, "act 70": false} {
			if last, err := trail.Last(func(a *Act) bool { return a.What == what }); err != nil ||
				(last != nil) != there || there && last.What != what {
				t.Fatalf("of %d acts, %s: %+v, %v", n+1, what, last, err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestTrail(t *testing.T) {
	ctx, dir, box := context.Background(), t.TempDir(), recordmac.New()
	o := storage.Options{Dir: dir + "/data", MarkPath: dir + "/mark", Logger: slog.New(slog.DiscardHandler),
		Now: time.Now}
	if err := storage.Create(o); err != nil {
		t.Fatal(err)
	}
	s, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	trail := New(s, "00", box, func() time.Time { now = now.Add(time.Second); return now })
	stateful := func(a *Act) bool { return len(a.State) > 0 }
	if last, err := trail.Last(stateful); err != nil || last != nil {
		t.Fatalf("an empty trail: %+v, %v", last, err)
	}
	pushed, err := trail.Begin(ctx, Act{Who: "ana", From: "10.0.0.9", What: "rules.push"})
	if err != nil {
		t.Fatal(err)
	}
	lost, err := trail.Begin(ctx, Act{Who: "ana", What: "rules.rollback"})
	if err != nil || lost.Number != 2 {
		t.Fatalf("%+v, %v", lost, err)
	}
	if err := trail.Record(ctx, Act{Who: "eva", What: "token.new", Target: "5", Outcome: Done,
		State: []byte(`{"5":"aa"}`)}); err != nil {
		t.Fatal(err)
	}
	pushed.Target, pushed.Outcome = "dte01 2.1.0", Done
	if err := trail.End(ctx, pushed); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = storage.Open(o); err != nil {
		t.Fatal(err)
	}
	trail = New(s, "00", box, time.Now)
	acts, err := trail.Acts(10)
	if err != nil || len(acts) != 3 {
		t.Fatalf("%+v, %v", acts, err)
	}
	for i, want := range []Act{{Number: 3, What: "token.new", Outcome: Done, Target: "5"},
		{Number: 2, What: "rules.rollback"},
		{Number: 1, What: "rules.push", Outcome: Done, Target: "dte01 2.1.0"}} {
		if a := acts[i]; a.Number != want.Number || a.What != want.What || a.Outcome != want.Outcome ||
			a.Target != want.Target || a.At.IsZero() {
			t.Errorf("act %d is %+v, want %+v", i, a, want)
		}
	}
	if one, err := trail.Acts(1); err != nil || len(one) != 1 || one[0].Number != 3 {
		t.Errorf("the newest is %+v, %v", one, err)
	}
	if last, err := trail.Last(stateful); err != nil || last == nil || string(last.State) != `{"5":"aa"}` {
		t.Errorf("the last with a state is %+v, %v", last, err)
	}
	if report, err := s.Fsck(ctx); err != nil || len(report.Problems) > 0 {
		t.Errorf("fsck: %+v, %v", report, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
