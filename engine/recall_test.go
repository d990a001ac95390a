package engine

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
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage/disktest"
)

// recalling is an operator's request.
func recalling(r *record.View, kind int64, replacement string) InvalidationRequest {
	req := invalidation(r, kind, replacement)
	req.Caller = record.Caller{Operator: true}
	return req
}

// TestRecall: each verdict is what the law and the record say, a preview changes nothing, and only what is possible is
// sent.
func TestRecall(t *testing.T) {
	w := newWorld(t)
	defer w.close()
	recall := NewRecall(w.engine)
	spare := w.issued(invoice("spare", item(1, "1", "1")), record.EstadoProcessed)
	early := w.issued(voucher("early", item(1, "1", "100")), record.EstadoProcessed)
	held := w.issued(voucher("held", item(1, "1", "100")), record.EstadoProcessed)
	note := w.issued(noteOn("05", "note", held, item(1, "1", "10")), record.EstadoProcessed)
	charged := w.issued(voucher("charged", item(1, "1", "100")), record.EstadoProcessed)
	debit := w.issued(noteOn("06", "debit", charged, item(1, "1", "10")), record.EstadoProcessed)
	w.issued(noteOn("05", "credit", charged, item(1, "1", "105")), record.EstadoProcessed)
	gone := w.issued(invoice("gone", item(1, "1", "1")), record.EstadoProcessed)
	if _, err := w.engine.Invalidate(t.Context(), invalidation(gone, 2, "")); err != nil {
		t.Fatal(err)
	}
	if err := w.sim.Chaos(simulator.Chaos{Reject: 1}); err != nil {
		t.Fatal(err)
	}
	wrong := w.issued(invoice("rejected", item(1, "1", "1")), record.EstadoRejected)
	refusedByMH := w.issued(invoice("refused", item(1, "1", "1")), record.EstadoProcessed)
	if err := w.sim.Chaos(simulator.Chaos{RejectEvents: 1}); err != nil {
		t.Fatal(err)
	}
	if a, err := recall.Invalidate(t.Context(), recalling(refusedByMH, 2, ""), false); err != nil ||
		a.Verdict != RecallRefused || a.Invalidation.Response.DescripcionMsg == "" {
		t.Fatalf("an event that MH refuses: %+v, %v", a, err)
	}
	late := w.issued(voucher("late", item(1, "1", "100")), record.EstadoProcessed)
	unknown := recalling(spare, 2, "")
	unknown.Code[0]++
	bad := recalling(spare, 2, "")
	bad.Responsible.DocumentType = "99"
	sent := w.sim.Received().Invalidations
	for _, c := range []struct {
		name    string
		req     InvalidationRequest
		month   bool // on 2026-12-15
		verdict string
		until   string
		held    int64
	}{
		{"rescinded", recalling(spare, 2, ""), false, RecallPossible, "2027-02-21", 0},
		{"voucher", recalling(early, 2, ""), false, RecallPossible, "2026-12-14", 0},
		{"an error, replaced", recalling(refusedByMH, 1, spare.Code), false, RecallRefused, "2027-02-21", 0},
		{"an error, not replaced", recalling(spare, 1, ""), false, RecallReplacement, "2027-02-21", 0},
		{"replaced by itself", recalling(spare, 1, spare.Code), false, RecallNotValid, "2027-02-21", 0},
		{"replaced, where none may be", recalling(spare, 2, early.Code), false, RecallNotValid, "2027-02-21", 0},
		{"a credit note is never replaced", recalling(note, 1, ""), false, RecallPossible, "2026-12-14", 0},
		{"held by a note", recalling(held, 2, ""), false, RecallHeld, "2026-12-14", 1},
		{"a debit note that is used", recalling(debit, 2, ""), false, RecallHeld, "2026-12-14", 0},
		{"taken back before", recalling(gone, 2, ""), false, RecallInvalidated, "", 0},
		{"not accepted", recalling(wrong, 2, ""), false, RecallNotAccepted, "", 0},
		{"unknown", unknown, false, RecallUnknown, "", 0},
		{"who asks is nobody", bad, false, RecallNotValid, "2027-02-21", 0},
		{"late", recalling(late, 2, ""), true, RecallLate, "2026-12-14", 0},
	} {
		w.clock.set(start)
		if c.month {
			w.clock.set(time.Date(2026, 12, 15, 6, 1, 0, 0, time.UTC))
		}
		a, err := recall.Appraise(t.Context(), c.req)
		if err != nil || a.Verdict != c.verdict || a.Until != c.until || a.Held != c.held ||
			(len(a.Faults) > 0) != (c.verdict == RecallNotValid || c.verdict == RecallReplacement) {
			t.Errorf("%s: %+v, %v", c.name, a, err)
		}
		if c.verdict == RecallPossible {
			continue
		}
		if done, err := recall.Invalidate(t.Context(), c.req, false); err != nil || done.Verdict != c.verdict {
			t.Errorf("%s, invalidated: %+v, %v", c.name, done, err)
		}
	}
	if got := w.sim.Received().Invalidations; got != sent {
		t.Errorf("%d events were sent", got-sent)
	}
	w.clock.set(start)
	for range 2 { // the second time nothing is sent
		if a, err := recall.Invalidate(t.Context(), recalling(spare, 2, ""), false); err != nil ||
			a.Verdict != RecallInvalidated || a.Invalidation.Response.SelloRecibido == "" {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if a, err := recall.Invalidate(t.Context(), recalling(refusedByMH, 2, ""), true); err != nil ||
		a.Verdict != RecallInvalidated {
		t.Errorf("again: %+v, %v", a, err)
	}
	if got := w.sim.Received().Invalidations; got != sent+2 {
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
			inBubble(t, func(b *box) { b.recallUntil(documents, k, away) })
			if t.Failed() {
				t.Fatalf("with a crash at point %d, MH away: %v", k, away)
			}
		}
	}
}

func (b *box) recallUntil(documents, k int, away bool) {
	var sales []*record.View
	for i := range documents {
		sales = append(sales, b.issue(sale(fmt.Sprint(i), 100+i)))
	}
	list := func() (done int) {
		recall := NewRecall(b.engine)
		for _, r := range sales {
			a, err := recall.Invalidate(context.Background(), recalling(r, 2, ""), false)
			if err != nil {
				return done
			}
			if a.Verdict == RecallInvalidated {
				done++
			}
		}
		return done
	}
	points := 0
	var after *disktest.Disk
	disk, wire, lost := b.fs, b.wire, fork(b.rand)
	b.at(func(point string) {
		if !strings.HasSuffix(point, "/fesv/anulardte") {
			return
		}
		if points++; points == k {
			after = disk.Crash(lost.IntN(101), lost)
			wire.sever()
		}
	})
	list()
	if after != nil {
		b.close()
		b.fs = after
		if away {
			b.cable.set(refusing)
		}
		b.start()
		if away {
			list()
			b.cable.set(plugged)
		}
	}
	b.at(nil)
	for range 5 {
		if list() == documents {
			break
		}
		time.Sleep(2 * time.Minute)
	}
	for _, sold := range sales {
		r := b.document(sold.Code)
		if r.Estado != record.EstadoInvalidated {
			b.t.Errorf("%s is %s", r.Code, r.Estado)
			continue
		}
		if held, there := b.sim.Document(r.Invalidation.Code); !there || !held.Accepted {
			b.t.Errorf("%s names the event %s, which MH has not", r.Code, r.Invalidation.Code)
		}
	}
	if n := b.sim.Received().Invalidations; n != documents {
		b.t.Errorf("MH took %d invalidations", n)
	}
	b.audit()
}

// TestRecall_GivesWay: while a sale is on its way to MH, an invalidation of a list waits, at most two seconds; and only
// one is sent at a time.
func TestRecall_GivesWay(t *testing.T) {
	for delay, want := range map[time.Duration]bool{time.Second: true, 5 * time.Second: false} {
		inBubble(t, func(b *box) {
			first, second := b.issue(sale("a", 100)), b.issue(sale("b", 200))
			b.chaos(simulator.Chaos{DelayMS: int(delay.Milliseconds())})
			var mu sync.Mutex
			var points []string
			b.at(func(point string) {
				mu.Lock()
				defer mu.Unlock()
				points = append(points, point)
			})
			sold := make(chan struct{})
			go func() { defer close(sold); b.issue(sale("c", 300)) }()
			time.Sleep(10 * time.Millisecond)
			recall := NewRecall(b.engine)
			other := make(chan error)
			go func() {
				_, err := recall.Invalidate(context.Background(), recalling(second, 2, ""), false)
				other <- err
			}()
			if _, err := recall.Invalidate(context.Background(), recalling(first, 2, ""), false); err != nil {
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
	inBubble(t, func(b *box) {
		r := b.issue(sale("a", 100))
		b.cable.set(refusing)
		b.issue(sale("b", 200))
		time.Sleep(time.Minute)
		requests := 0
		b.at(func(point string) {
			if strings.HasSuffix(point, "anulardte") {
				requests++
			}
		})
		_, err := NewRecall(b.engine).Invalidate(context.Background(), recalling(r, 2, ""), false)
		var refused *refusal.Error
		if !errors.As(err, &refused) || refused.Code != refusal.CodeUnavailable || refused.RetryAfter == 0 ||
			requests != 0 {
			t.Errorf("%v after %d requests", err, requests)
		}
		b.cable.set(plugged)
		b.drained()
		if a, err := NewRecall(b.engine).Invalidate(context.Background(), recalling(r, 2, ""), false); err != nil ||
			a.Verdict != RecallInvalidated {
			t.Errorf("%+v, %v", a, err)
		}
		b.audit()
	})
}
