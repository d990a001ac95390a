package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"dtegate/engine/fairqueue"
	"dtegate/gateway/page"
	"dtegate/gateway/problem"
	"dtegate/storage"
)

// supervisor is the connection to systemd, see sd_notify(3). Without a socket, tell does nothing.
type supervisor struct {
	socket string
	every  time.Duration // interval of the commits
	log    *slog.Logger
}

// beatEvery is how often Pulse commits if systemd sets no watchdog. A restart then knows the time to within seconds.
const beatEvery = 10 * time.Second

// systemd reads the supervisor's settings from the environment, and plans three commits within the watchdog's timeout.
func systemd(log *slog.Logger) supervisor {
	s := supervisor{socket: os.Getenv("NOTIFY_SOCKET"), log: log}
	if pid := os.Getenv("WATCHDOG_PID"); pid == "" || pid == strconv.Itoa(os.Getpid()) {
		usec, _ := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
		s.every = time.Duration(usec) * time.Microsecond / 3
	}
	s.every = cmp.Or(s.every, beatEvery)
	return s
}

// tell sends the lines of state, such as READY=1, to the supervisor.
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
		s.log.Warn("supervisor cannot be notified", "state", state, "error", err)
	}
}

// Pulse makes the store commit at intervals, and reports each commit: nothing else resets the supervisor's watchdog.
type Pulse struct {
	beat  func() error // returns when the commit is on the disk
	ready func() error
	tell  func(string)
	every time.Duration
}

// NewPulse returns a Pulse that writes the gate's trusted time to the store and reports each commit to systemd. For
// unsure, see storage.Store.Beat.
func NewPulse(store *storage.Store, g *Gate, unsure func() time.Time, ready func() error, log *slog.Logger) Pulse {
	s := systemd(log)
	return Pulse{beat: func() error { return store.Beat(g.clock.Trusted(), unsure()) }, ready: ready, tell: s.tell,
		every: s.every}
}

// Stopping informs the supervisor that the appliance ends.
func (p *Pulse) Stopping() { p.tell("STOPPING=1") }

// patience is how long READY is delayed while the branch cannot issue. Then READY is sent anyway: most reasons (missing
// rules, a wrong clock) can be mended while the appliance runs.
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
		if fairqueue.Sleep(ctx, wait) != nil {
			return nil
		}
	}
}

// Reach remembers whether MH answers, and the time of the last change. A server error does not count as an answer.
type Reach struct {
	next http.RoundTripper
	now  func() time.Time

	mu    sync.Mutex
	state page.Reach
}

func NewReach(next http.RoundTripper, now func() time.Time) *Reach {
	return &Reach{next: next, now: now}
}

// RoundTrip passes a call on and remembers whether MH answered.
func (r *Reach) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(req)
	if errors.Is(err, context.Canceled) {
		return resp, err // the caller gave up
	}
	why := ""
	switch {
	case err != nil:
		why = reason(err)
	case resp.StatusCode >= http.StatusInternalServerError:
		why = "HTTP " + resp.Status
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if up := why == ""; !r.state.Asked || r.state.Up != up {
		r.state.Asked, r.state.Up, r.state.Since = true, up, r.now()
	}
	r.state.Why = why
	return resp, err
}

func (r *Reach) Show() page.Reach {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// reason returns the part of a network error that is useful to people.
func reason(err error) string {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return "DNS: " + dns.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// Seal keeps other processes of dted's account out of dted's memory, which holds the signing key unencrypted. Only root
// may attach to the process or read /proc/PID/mem, and no dump is written (prctl(2), PR_SET_DUMPABLE). If the kernel
// refuses, dted logs a warning and continues.
func Seal() error {
	const setDumpable = 4 // PR_SET_DUMPABLE
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setDumpable, 0, 0); errno != 0 {
		return fmt.Errorf("keeping other processes out of the memory: %w", errno)
	}
	return nil
}
