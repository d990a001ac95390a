package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage/disktest"
)

// recalling is an operator's request.
func recalling(r *record.View, kind int64, replacement string) engine.InvalidationRequest {
	req := enginetest.Invalidation(r, kind, replacement)
	req.Caller = record.Caller{Operator: true}
	return req
}

// TestRecall: each verdict is what the law and the record say, a preview changes nothing, and only what is possible is
// sent.
func TestRecall(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	recall := w.Engine
	spare := w.Issued(enginetest.Invoice("spare", enginetest.Item(1, "1", "1")), record.EstadoProcessed)
	early := w.Issued(enginetest.Voucher("early", enginetest.Item(1, "1", "100")), record.EstadoProcessed)
	held := w.Issued(enginetest.Voucher("held", enginetest.Item(1, "1", "100")), record.EstadoProcessed)
	note := w.Issued(enginetest.NoteOn("05", "note", held, enginetest.Item(1, "1", "10")), record.EstadoProcessed)
	charged := w.Issued(enginetest.Voucher("charged", enginetest.Item(1, "1", "100")), record.EstadoProcessed)
	debit := w.Issued(enginetest.NoteOn("06", "debit", charged, enginetest.Item(1, "1", "10")), record.EstadoProcessed)
	w.Issued(enginetest.NoteOn("05", "credit", charged, enginetest.Item(1, "1", "105")), record.EstadoProcessed)
	gone := w.Issued(enginetest.Invoice("gone", enginetest.Item(1, "1", "1")), record.EstadoProcessed)
	if _, err := w.Engine.Invalidate(t.Context(), enginetest.Invalidation(gone, 2, "")); err != nil {
		t.Fatal(err)
	}
	if err := w.Sim.Chaos(simulator.Chaos{Reject: 1}); err != nil {
		t.Fatal(err)
	}
	wrong := w.Issued(enginetest.Invoice("rejected", enginetest.Item(1, "1", "1")), record.EstadoRejected)
	refusedByMH := w.Issued(enginetest.Invoice("refused", enginetest.Item(1, "1", "1")), record.EstadoProcessed)
	if err := w.Sim.Chaos(simulator.Chaos{RejectEvents: 1}); err != nil {
		t.Fatal(err)
	}
	if a, err := recall.Recall(t.Context(), recalling(refusedByMH, 2, ""), false); err != nil ||
		a.Verdict != engine.RecallRefused || a.Invalidation.Response.DescripcionMsg == "" {
		t.Fatalf("an event that MH refuses: %+v, %v", a, err)
	}
	late := w.Issued(enginetest.Voucher("late", enginetest.Item(1, "1", "100")), record.EstadoProcessed)
	unknown := recalling(spare, 2, "")
	unknown.Code[0]++
	bad := recalling(spare, 2, "")
	bad.Responsible.DocumentType = "99"
	sent := w.Sim.Received().Invalidations
	for _, c := range []struct {
		name    string
		req     engine.InvalidationRequest
		month   bool // on 2026-12-15
		verdict string
		until   string
		held    int64
	}{
		{"rescinded", recalling(spare, 2, ""), false, engine.RecallPossible, "2027-02-21", 0},
		{"voucher", recalling(early, 2, ""), false, engine.RecallPossible, "2026-12-14", 0},
		{"an error, replaced", recalling(refusedByMH, 1, spare.Code), false, engine.RecallRefused, "2027-02-21", 0},
		{"an error, not replaced", recalling(spare, 1, ""), false, engine.RecallReplacement, "2027-02-21", 0},
		{"replaced by itself", recalling(spare, 1, spare.Code), false, engine.RecallNotValid, "2027-02-21", 0},
		{"replaced, where none may be", recalling(spare, 2, early.Code), false, engine.RecallNotValid, "2027-02-21", 0},
		{"a credit note is never replaced", recalling(note, 1, ""), false, engine.RecallPossible, "2026-12-14", 0},
		{"held by a note", recalling(held, 2, ""), false, engine.RecallHeld, "2026-12-14", 1},
		{"a debit note that is used", recalling(debit, 2, ""), false, engine.RecallHeld, "2026-12-14", 0},
		{"taken back before", recalling(gone, 2, ""), false, engine.RecallInvalidated, "", 0},
		{"not accepted", recalling(wrong, 2, ""), false, engine.RecallNotAccepted, "", 0},
		{"unknown", unknown, false, engine.RecallUnknown, "", 0},
		{"who asks is nobody", bad, false, engine.RecallNotValid, "2027-02-21", 0},
		{"late", recalling(late, 2, ""), true, engine.RecallLate, "2026-12-14", 0},
	} {
		w.Clock.Set(enginetest.Start)
		if c.month {
			w.Clock.Set(time.Date(2026, 12, 15, 6, 1, 0, 0, time.UTC))
		}
		a, err := recall.Appraise(t.Context(), c.req)
		if err != nil || a.Verdict != c.verdict || a.Until != c.until || a.Held != c.held ||
			(len(a.Faults) > 0) != (c.verdict == engine.RecallNotValid || c.verdict == engine.RecallReplacement) {
			t.Errorf("%s: %+v, %v", c.name, a, err)
		}
		if c.verdict == engine.RecallPossible {
			continue
		}
		if done, err := recall.Recall(t.Context(), c.req, false); err != nil || done.Verdict != c.verdict {
			t.Errorf("%s, invalidated: %+v, %v", c.name, done, err)
		}
	}
	if got := w.Sim.Received().Invalidations; got != sent {
		t.Errorf("%d events were sent", got-sent)
	}
	w.Clock.Set(enginetest.Start)
	for range 2 { // the second time nothing is sent
		if a, err := recall.Recall(t.Context(), recalling(spare, 2, ""), false); err != nil ||
			a.Verdict != engine.RecallInvalidated || a.Invalidation.Response.SelloRecibido == "" {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if a, err := recall.Recall(t.Context(), recalling(refusedByMH, 2, ""), true); err != nil ||
		a.Verdict != engine.RecallInvalidated {
		t.Errorf("again: %+v, %v", a, err)
	}
	if got := w.Sim.Received().Invalidations; got != sent+2 {
		t.Errorf("%d events were sent, want 2", got-sent)
	}
}

// TestRecall_Killed: a list of documents is taken back while the power fails at any request, before it or after MH's
// answer, and while MH is away when the branch starts again. Each time the list is begun anew: in the end MH has taken
// back each document, by the one event that its record names.
func TestRecall_Killed(t *testing.T) {
	const documents = 3
	for _, away := range []bool{false, true} {
		for k := 1; k <= 2*documents+1; k++ {
			if testing.Short() && k%2 == 0 {
				continue
			}
			enginetest.InBubble(t, func(b *enginetest.Box) { recallUntil(b, documents, k, away) })
			if t.Failed() {
				t.Fatalf("with a crash at point %d, MH away: %v", k, away)
			}
		}
	}
}

func recallUntil(b *enginetest.Box, documents, k int, away bool) {
	var sales []*record.View
	for i := range documents {
		sales = append(sales, b.Issue(enginetest.Sale(fmt.Sprint(i), 100+i)))
	}
	list := func() (done int) {
		recall := b.Engine
		for _, r := range sales {
			a, err := recall.Recall(context.Background(), recalling(r, 2, ""), false)
			if err != nil {
				return done
			}
			if a.Verdict == engine.RecallInvalidated {
				done++
			}
		}
		return done
	}
	points := 0
	var after *disktest.Disk
	disk, wire, lost := b.Fs, b.Wire, enginetest.Fork(b.Rand)
	b.At(func(point string) {
		if !strings.HasSuffix(point, "/fesv/anulardte") {
			return
		}
		if points++; points == k {
			after = disk.Crash(lost.IntN(101), lost)
			wire.Sever()
		}
	})
	list()
	if after != nil {
		b.Close()
		b.Fs = after
		if away {
			b.Cable.Set(enginetest.Refusing)
		}
		b.Start()
		if away {
			list()
			b.Cable.Set(enginetest.Plugged)
		}
	}
	b.At(nil)
	for range 5 {
		if list() == documents {
			break
		}
		time.Sleep(2 * time.Minute)
	}
	for _, sold := range sales {
		r := b.Document(sold.Code)
		if r.Estado != record.EstadoInvalidated {
			b.T.Errorf("%s is %s", r.Code, r.Estado)
			continue
		}
		if held, there := b.Sim.Document(r.Invalidation.Code); !there || !held.Accepted {
			b.T.Errorf("%s names the event %s, which MH has not", r.Code, r.Invalidation.Code)
		}
	}
	if n := b.Sim.Received().Invalidations; n != documents {
		b.T.Errorf("MH took %d invalidations", n)
	}
	b.Audit()
}

// TestRecall_GivesWay: while a sale is on its way to MH, an invalidation of a list waits, at most two seconds; and only
// one is sent at a time.
func TestRecall_GivesWay(t *testing.T) {
	for delay, want := range map[time.Duration]bool{time.Second: true, 5 * time.Second: false} {
		enginetest.InBubble(t, func(b *enginetest.Box) {
			first, second := b.Issue(enginetest.Sale("a", 100)), b.Issue(enginetest.Sale("b", 200))
			b.Chaos(simulator.Chaos{DelayMS: int(delay.Milliseconds())})
			var mu sync.Mutex
			var points []string
			b.At(func(point string) {
				mu.Lock()
				defer mu.Unlock()
				points = append(points, point)
			})
			sold := make(chan struct{})
			go func() { defer close(sold); b.Issue(enginetest.Sale("c", 300)) }()
			time.Sleep(10 * time.Millisecond)
			recall := b.Engine
			other := make(chan error)
			go func() {
				_, err := recall.Recall(context.Background(), recalling(second, 2, ""), false)
				other <- err
			}()
			if _, err := recall.Recall(context.Background(), recalling(first, 2, ""), false); err != nil {
				t.Error(err)
			}
			if err := <-other; err != nil {
				t.Error(err)
			}
			<-sold
			mu.Lock()
			defer mu.Unlock()
			var order []string
			for _, p := range points {
				if strings.HasSuffix(p, "anulardte") || strings.HasSuffix(p, "recepciondte") {
					order = append(order, p)
				}
			}
			sale, event := slices.Index(order, "after /fesv/recepciondte"), slices.Index(order,
				"before /fesv/anulardte")
			if (sale < event) != want {
				t.Errorf("MH takes %v: %v", delay, order)
			}
			if i := slices.Index(order, "after /fesv/anulardte"); slices.Index(order[event+1:i],
				"before /fesv/anulardte") >= 0 {
				t.Errorf("two at a time: %v", order)
			}
		})
	}
}

// Without MH nothing of a list is begun.
func TestRecall_Contingency(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		r := b.Issue(enginetest.Sale("a", 100))
		b.Cable.Set(enginetest.Refusing)
		b.Issue(enginetest.Sale("b", 200))
		time.Sleep(time.Minute)
		requests := 0
		b.At(func(point string) {
			if strings.HasSuffix(point, "anulardte") {
				requests++
			}
		})
		_, err := b.Engine.Recall(context.Background(), recalling(r, 2, ""), false)
		var refused *refusal.Error
		if !errors.As(err, &refused) || refused.Code != refusal.CodeUnavailable || refused.RetryAfter == 0 ||
			requests != 0 {
			t.Errorf("%v after %d requests", err, requests)
		}
		b.Cable.Set(enginetest.Plugged)
		b.Drained()
		if a, err := b.Engine.Recall(context.Background(), recalling(r, 2, ""), false); err != nil ||
			a.Verdict != engine.RecallInvalidated {
			t.Errorf("%+v, %v", a, err)
		}
		b.Audit()
	})
}
