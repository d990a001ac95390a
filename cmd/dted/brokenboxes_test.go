package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/boxtest"
)

// If dted refuses to start, it uses the words that dtectl doctor prints; TestDoctor_BrokenBoxes checks those.
func TestStart_BrokenBoxes(t *testing.T) {
	t.Parallel()
	start := func(b *boxtest.Box) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a start that succeeds ends by itself
		defer cancel()
		return run(ctx, b.Config(), slog.New(slog.DiscardHandler))
	}
	sound, refused := boxtest.New(t, "127.0.0.1:1"), 0
	for _, c := range boxtest.Boxes {
		if !c.Refused {
			continue
		}
		refused++
		t.Run(c.Name, func(t *testing.T) {
			b := sound.Copy(t)
			c.Break(b)
			if err := start(b); err == nil || !strings.Contains(err.Error(), c.Says) {
				t.Errorf("dtectl doctor says %q, dted: %v", c.Says, err)
			}
		})
	}
	if refused < 30 {
		t.Errorf("only %d boxes are refused", refused)
	}
}
