package health

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"dtegate/gateway/problem"
	"dtegate/storage"
)

// supervisor is systemd, as sd_notify(3) has it; without one nobody is told.
type supervisor struct {
	socket string
	every  time.Duration // how often it wants to hear of a commit
	log    *slog.Logger
}

// beatEvery is how often the store proves itself when nobody waits for it: a restart knows the time to some seconds.
const beatEvery = 10 * time.Second

// systemd reads what the supervisor gave this process. Three chances in its patience (sd_watchdog_enabled(3) wants two).
func systemd(log *slog.Logger) supervisor {
	s := supervisor{socket: os.Getenv("NOTIFY_SOCKET"), log: log}
	if pid := os.Getenv("WATCHDOG_PID"); pid == "" || pid == strconv.Itoa(os.Getpid()) {
		usec, _ := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
		s.every = time.Duration(usec) * time.Microsecond / 3
	}
	s.every = cmp.Or(s.every, beatEvery)
	return s
}

// tell sends assignments, one a line. A supervisor that does not listen is logged and no reason to stop.
func (s supervisor) tell(state string) {
	if s.socket == "" {
		return
	}
	conn, err := net.Dial("unixgram", s.socket)
	if err == nil {
		_, err = conn.Write([]byte(state))
		_ = conn.Close()
	}
	if err != nil {
		s.log.Warn("supervisor is not told", "state", state, "error", err)
	}
}

// Pulse has the store commit again and again, and tells the supervisor after each commit: nothing else feeds the
// watchdog.
type Pulse struct {
	beat  func() error // returns when the disk has it
	ready func() error
	tell  func(string)
	every time.Duration
}

// NewPulse proves the store to systemd, and leaves in the store the time that the gate trusts.
func NewPulse(store *storage.Store, g *Gate, ready func() error, log *slog.Logger) Pulse {
	s := systemd(log)
	return Pulse{beat: func() error { return store.Beat(g.clock.trusted()) }, ready: ready, tell: s.tell, every: s.every}
}

// Stopping tells the supervisor that the appliance ends.
func (p *Pulse) Stopping() { p.tell("STOPPING=1") }

// patience is how long the start is held back for a branch that cannot issue. Then the supervisor may go on: what is
// wrong is told by /readyz, and most of it (rules to be pushed, a clock to be set) is mended in a running appliance.
const patience = time.Minute

func (p *Pulse) Run(ctx context.Context) error {
	began, ready := time.Now(), false
	for {
		if err := p.beat(); err != nil {
			return err
		}
		state, status := "WATCHDOG=1", "issuing"
		err := p.ready()
		if err != nil {
			status = "not issuing: " + problem.OperatorText(err)
		}
		if !ready && (err == nil || time.Since(began) >= patience) {
			ready = true
			state += "\nREADY=1"
		}
		p.tell(state + "\nSTATUS=" + status)
		wait := p.every
		if !ready {
			wait = min(wait, time.Second)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}
