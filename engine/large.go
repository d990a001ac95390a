package engine

import (
	"context"
	"errors"
	"runtime"
	"time"

	"dtegate/engine/fair"
	"dtegate/engine/refusal"
	"dtegate/engine/rulebook"
)

// manyLines is from how many lines a sale waits for a turn: 2,000 lines take some 60 ms of the processor, 500 a quarter.
const manyLines = 500

// newLarge shares the processor among sales of many lines: half of the cores' number are computed and signed at once, so that
// a till with a few lines finds a core beside them. Tokens take turns.
func newLarge(now func() time.Time) *fair.Queue {
	slots := max(1, runtime.GOMAXPROCS(0)/2)
	return fair.New(fair.Options{Slots: slots, Each: slots, Waiting: 16, Now: now})
}

// turn waits for the turn of a sale of many lines and returns the function that ends it; a sale of few needs none. It is asked
// before any lock but the idempotency key's, and ended before MH is waited for.
func (s *sales) turn(ctx context.Context, req Request) (end func(), err error) {
	if req.Facts.Get(rulebook.LinesName).Len() < manyLines {
		return func() {}, nil
	}
	end, err = s.large.Enter(ctx, req.Caller.TokenID)
	var busy *fair.Busy
	if errors.As(err, &busy) {
		return nil, &refusal.Error{Code: refusal.CodeBusy, RetryAfter: busy.Wait, Message: "Este token tiene demasiadas ventas grandes en espera"}
	}
	if err != nil {
		return nil, refusal.Unavailable(err, "Hay demasiadas ventas grandes a la vez")
	}
	return end, nil
}
