package health

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"dtegate/cmd/dted/health/clock"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/storage"
)

// A box starts with a clock that may be wrong. MH is simulated, and its clock may be wrong too; there is an archive.
// Before its first document MH is asked, over real HTTP.
func TestClock_AskedBeforeFirstSale(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		box     time.Duration // how far the box is ahead of the archive
		mh      time.Duration // how far MH is ahead of the archive
		synced  bool          // the kernel follows a time server
		archive bool
		away    bool // MH cannot be reached
		right   bool
	}{
		"right":                                  {right: true},
		"ten minutes ahead":                      {box: 10 * time.Minute, right: true},
		"a day ahead":                            {box: day},
		"a day ahead, and MH away":               {box: day, away: true, right: true}, // nobody can know
		"a day ahead, the archive says so too":   {box: day, archive: true},
		"a day behind":                           {box: -day},
		"MH a day behind, and nobody else":       {mh: -day},
		"MH a day behind, a time server":         {mh: -day, synced: true, right: true},
		"MH a day behind, the archive":           {mh: -day, archive: true, right: true},
		"MH a month ahead, the archive":          {mh: 30 * day, archive: true, right: true},
		"everybody says another time than box's": {box: 2 * day, mh: day, archive: true},
	} {
		t.Run(name, func(t *testing.T) {
			var box atomic.Int64
			box.Store(int64(c.box))
			sim := simulator.New(simulator.Options{Seed: 1, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
			if err := sim.Chaos(simulator.Chaos{ClockMS: c.mh.Milliseconds(), Outage: c.away}); err != nil {
				t.Fatal(err)
			}
			mh := httptest.NewServer(sim.Protocol())
			defer mh.Close()
			archive := httptest.NewServer(http.NotFoundHandler())
			defer archive.Close()
			g := &Gate{health: func() error { return nil }, behind: func() []storage.Witness { return nil },
				disk: newDisk(t.TempDir(), 0, slog.New(slog.DiscardHandler)), authority: mh.URL,
				transport: new(http.Transport), second: http.DefaultTransport,
				clock: clock.New(time.Time{}, time.Now, slog.New(slog.DiscardHandler))}
			if c.archive {
				g.archive = archive.URL
			}
			g.clock.Now = func() time.Time { return time.Now().Round(0).Add(time.Duration(box.Load())) }
			// however slow this machine is, the wait is not over
			g.clock.Elapsed = func() time.Duration { return -time.Hour }
			g.clock.Synced = func() bool { return c.synced }
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); _ = g.Run(ctx) }()
			defer func() { cancel(); <-done }()
			if err := g.Admit(); (err == nil) != c.right {
				t.Fatalf("the first sale: %v", err)
			}
			if c.right {
				// After the first sale, MH's clock stops nobody.
				g.clock.Observe(time.Now().Add(90 * day).UTC().Format(http.TimeFormat))
				if err := g.Admit(); err != nil {
					t.Errorf("MH's clock goes wrong later: %v", err)
				}
				return
			}
			box.Store(int64(c.mh)) // somebody sets the clock
			ask(ctx, http.MethodGet, g.authority, g)
			if err := g.Admit(); err != nil {
				t.Errorf("after the clock was set as MH says: %v", err)
			}
		})
	}
}
