package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/cmdtest/skip"
)

// TestFleetSale measures the cost of a chain for a sale: a box of a chain is compared with a box without one, for each
// way of shipping, while the store answers and while it is silent. All sell without MH, one sale each in turn.
func TestFleetSale(t *testing.T) {
	skip.Unless(t, *budgets, "make bench-chain")
	row := rows(t)
	alone := func(copied bool) *branch {
		b := newBranch(t, everyRule...)
		if copied {
			b.prefix("second_copy = \"copy\"\n")
		}
		return b
	}
	agent := newBranch(t, everyRule...)
	agent.withFleet(t)
	silent := newBranch(t, everyRule...)
	silent.withFleet(t)
	silent.hush(t)
	async, _ := shipping(t, "async")
	sync, _ := shipping(t, "sync")
	mute, _ := shipping(t, "sync")
	mute.hush(t)

	boxes := []*bench{}
	for _, b := range []*branch{alone(false), alone(true), agent, silent, async, sync, mute} {
		n := &bench{branch: b, row: row}
		n.startLazily()
		defer n.stop()
		n.outage(t)
		boxes = append(boxes, n)
	}
	waits := func() bool {
		_, shown := sync.getOps("/metrics")
		return bytes.Contains(shown, []byte("\ndte_fleet_ship_sync 1\n"))
	}
	for deadline := time.Now().Add(time.Minute); !waits(); <-time.After(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("sales never wait for the chain's store")
		}
	}
	const rounds, warm = 600, 30
	took := make([][]time.Duration, len(boxes))
	for i := range rounds + warm {
		for k := range boxes {
			at := (i + k) % len(boxes) // no box always follows the same box
			d := timed(func() { boxes[at].sell(t, i%8+1) })
			if i >= warm {
				took[at] = append(took[at], d)
			}
		}
	}
	const plain, copied = 0, 1
	for _, c := range []struct {
		name          string
		box, beside   int
		median, worst float64
	}{
		{"the agent on / of no chain", 2, plain, 1.1, 2},
		{"the agent on, the store silent / of no chain", 3, plain, 1.1, 2},
		{"ship = async / a second copy alone", 4, copied, 1.15, 2.5},
		{"ship = sync, the store on this machine / a second copy alone", 5, copied, 4, 6},
		{"ship = sync, the store silent / a second copy alone", 6, copied, 1.15, 2.5},
	} {
		for q, limit := range map[float64]float64{.5: c.median, .99: c.worst} {
			row(fmt.Sprintf("sale, p%g: %s", 100*q, c.name), float64(quantile(took[c.box],
				q))/float64(quantile(took[c.beside], q)), limit, "x")
		}
	}
	fmt.Printf("of no chain: p50 %v, p99 %v; a second copy alone: p50 %v, p99 %v\n", quantile(took[plain], .5),
		quantile(took[plain], .99),
		quantile(took[copied], .5), quantile(took[copied], .99))
}

func (b *branch) settings() []byte {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "dted.toml"))
	if err != nil {
		b.t.Fatal(err)
	}
	return text
}

// prefix puts lines before the tables of the configuration.
func (b *branch) prefix(lines string) {
	b.write("dted.toml", append([]byte(lines), b.settings()...))
}

// hush makes the chain's store accept connections and never answer.
func (b *branch) hush(t *testing.T) {
	t.Helper()
	l := cmdtest.Listen(t)
	go func() {
		var held []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				for _, c := range held {
					_ = c.Close()
				}
				return
			}
			held = append(held, c)
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	before, rest, _ := bytes.Cut(b.settings(), []byte("store = {endpoint = \""))
	_, after, _ := bytes.Cut(rest, []byte("\""))
	b.write("dted.toml", append(append(before, ("store = {endpoint = \"http://"+l.Addr().String()+"\"")...), after...))
}
