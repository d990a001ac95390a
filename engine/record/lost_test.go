package record

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/storage"
)

// TestLostRecords: a record that lacks a piece is set aside as it was read, is listed with the queue in which it
// waited, and returns to that queue. A record that has changed since it was read is not set aside.
func TestLostRecords(t *testing.T) {
	store, ctx, at := openStore(t), t.Context(), time.Unix(1_800_000_000, 0).UTC()
	pending, failed := &Step{Since: at, Next: at}, &Step{Since: at, Result: StepFailed}
	asked := &Invalidation{Estado: EstadoPending, At: at}
	for i, c := range []struct {
		name, queue string
		state       storage.State
		head        Head
	}{
		{"unsettled", QueueSettle, Signed, Head{}},
		{"an invalidation beside deliveries", QueueInvalidate, Accepted, Head{Invalidation: asked,
			Delivery: &Delivery{Mail: pending, Archive: failed}}},
		{"an answered invalidation", QueueDeliver, Invalidated, Head{Invalidation: &Invalidation{
			Estado: EstadoProcessed, At: at}, Delivery: &Delivery{Mail: pending}}},
		{"a delivery beside a failed one", QueueDeliver, Accepted, Head{Delivery: &Delivery{Mail: failed,
			Archive: pending}}},
		{"given up", QueueUndelivered, Accepted, Head{Delivery: &Delivery{Mail: failed}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.head.Document, c.head.ControlNumber = "01", "number"
			head, err := c.head.Encode()
			if err != nil {
				t.Fatal(err)
			}
			code := storage.Code{0: byte(i + 1), 6: 0x40, 8: 0x80}
			read, err := store.Append(ctx, storage.Keys{Series: "s"}, storage.Draft{Code: code, State: c.state,
				Head: head, Due: &storage.Due{Queue: c.queue, At: at}})
			if err != nil {
				t.Fatal(err)
			}
			now, err := Move(ctx, store, code, c.state, storage.Change{To: c.state, Due: read.Due})
			if err != nil {
				t.Fatal(err)
			}
			lost := NewLostRecords(store, slog.New(slog.DiscardHandler))
			queue := func() storage.Due {
				entry, err := store.Get(code)
				if err != nil || entry.Due == nil {
					t.Fatal(entry.Due, err)
				}
				return storage.Due{Queue: entry.Due.Queue, At: entry.Due.At.UTC()}
			}
			if err := lost.Skip(ctx, read, ErrLost); err != nil || queue() != (storage.Due{Queue: c.queue, At: at}) {
				t.Errorf("after a change it waits in %v: %v", queue(), err)
			}
			if err := lost.Skip(ctx, now, context.Canceled); !errors.Is(err, context.Canceled) ||
				queue().Queue != c.queue {
				t.Errorf("for another error it waits in %v: %v", queue(), err)
			}
			if err := lost.Skip(ctx, now, ErrLost); err != nil || queue() != (storage.Due{Queue: QueueLost, At: at}) {
				t.Errorf("set aside, it waits in %v: %v", queue(), err)
			}
			total, list, err := lost.List(10)
			if want := (Lost{Code: dte.Code(code).String(), Control: "number", Series: "s", Number: now.Number,
				Queue: c.queue, Why: ErrLost.Error()}); err != nil || total != 1 || len(list) != 1 || list[0] != want {
				t.Errorf("%d are lost: %+v: %v", total, list, err)
			}
			if err := lost.Retry(ctx); err != nil || queue() != (storage.Due{Queue: c.queue, At: at}) {
				t.Errorf("tried again, it waits in %v: %v", queue(), err)
			}
		})
	}
}
