package fleet_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/fleettest"
)

// The first number after a start, and the first of a year, waits for the store's answer; a store that is silent, or that
// cannot answer now, delays only that sale, by two seconds.
func TestFence_Await(t *testing.T) {
	for _, name := range []string{"an answer", "silence", "failures", "an answer before the sale"} {
		silent, early := name == "silence" || name == "failures", name == "an answer before the sale"
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				offset := time.Until(time.Date(time.Now().Year(), 12, 31, 23, 0, 0, 0, time.FixedZone("", -6*3600)))
				now := func() time.Time { return time.Now().Add(offset).In(time.FixedZone("", -6*3600)) }
				w.store = fleettest.New(now)
				quiet := make(chan struct{})
				w.store.Fault = func(fleettest.Request) fleettest.Fault {
					time.Sleep(50 * time.Millisecond)
					if name == "failures" {
						return fleettest.Failed
					}
					if silent {
						<-quiet
					}
					return fleettest.None
				}
				agent, err := fleet.New(fleet.Options{Store: w.store, Chain: chain, Branch: "centro", Group: "norte",
					Director: []fleetproto.Key{public(director)}, Box: w.box,
					Rules: w.gate, State: w.disk, Last: fleettest.NoNumbers, Logger: slog.New(slog.DiscardHandler), Now: now,
					Rand: rand.New(rand.NewPCG(1, 1))})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); _ = agent.Run(ctx) }()
				defer func() { stop(); close(quiet); <-ended }()
				waited := func() time.Duration {
					began := time.Now()
					agent.Fence().Await(now())
					return time.Since(began)
				}
				least, most := 40*time.Millisecond, 100*time.Millisecond
				if silent {
					least, most = 2*time.Second, 2100*time.Millisecond
				}
				if early {
					least, most = 0, 0
					time.Sleep(2 * time.Minute)
				}
				if d := waited(); d < least || d > most {
					t.Errorf("the first sale waited %s", d)
				}
				if early {
					return
				}
				if d := waited(); d != 0 {
					t.Errorf("the second sale waited %s", d)
				}
				midnight := time.Date(now().Year(), 12, 31, 24, 0, 1, 0, now().Location())
				time.Sleep(midnight.Sub(now()))
				if d := waited(); d < least || d > most {
					t.Errorf("the first sale of January waited %s", d)
				}
				if d := waited(); d != 0 {
					t.Errorf("the second sale of January waited %s", d)
				}
				if silent {
					return
				}
				// The first sale after the enrolment waits for the comparison of its epoch, whose answer is late.
				var epochs []int64
				agent.Fence().Compare(func(epoch int64) <-chan struct{} {
					epochs = append(epochs, epoch)
					return quiet
				})
				if d := waited(); d != 0 {
					t.Errorf("a sale of a box that is not enrolled waited %s", d)
				}
				w.enrol(1, w.box, director)
				time.Sleep(3 * time.Minute)
				if d := waited(); d < 2*time.Second || d > 2100*time.Millisecond || !slices.Equal(epochs, []int64{1}) {
					t.Errorf("the first sale after the enrolment waited %s; compared: epochs %v", d, epochs)
				}
				if d := waited(); d != 0 {
					t.Errorf("the second sale after the enrolment waited %s", d)
				}
			})
		})
	}
}
