// Package clock decides whether the box's time may be the time of a document.
package clock

import (
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"syscall"
	"time"

	"dtegate/engine/fairqueue"
	"dtegate/engine/refusal"
)

// How far the clock may be off before issuing stops.
const (
	Back       = 2 * time.Minute     // behind the latest trusted time
	Far        = 31 * 24 * time.Hour // ahead of the last process's time: the box may have been off for long
	clockAhead = 15 * time.Minute    // ahead of the anchor plus the time elapsed since the anchor
	clockNear  = 15 * time.Minute    // a clock this close to MH's is right, whatever the other sources say
	clockDrift = 1000                // a clock may drift by one part in 1000 of the elapsed time
)

// Clock compares the box's time with three sources: the time that the last process left in the store, the elapsed time
// (setting the clock does not alter it), and the date of MH's answers. MH can clear any doubt. MH alone can raise a
// doubt only before the process's first document, and only while neither the kernel's time server nor the archive
// agrees with the box, because a wrong clock at MH must not stop the branches. MH and the archive together can raise a
// doubt at any time, even against a time server.
type Clock struct {
	Synced  func() bool          // the kernel's clock follows a time server
	Now     func() time.Time     // the box's clock
	Elapsed func() time.Duration // since the process began

	once  sync.Once
	first chan struct{} // closed once MH was asked or cannot be reached
	log   *slog.Logger

	mu    sync.Mutex
	right time.Time // the latest time that was right, at first the store's time
	// Check compares the box's clock with anchor plus the time elapsed since then. anchor is a time that was right: the
	// time of this process's first Check, or of MH's latest answer that agreed with the box. Nothing else moves it, so
	// that small steps of the clock cannot add up. anchored is the value of Elapsed at anchor.
	anchor   time.Time
	anchored time.Duration
	doubt    error         // nil: no doubt
	skew     time.Duration // how far the box's clock was ahead of MH's at MH's latest answer
	known    bool          // MH has answered

	issued       bool // this process has issued a document
	disputed     bool // MH's time differs from the box's; the archive is asked
	contradicted bool // MH's time counts: it differed before the first document, or the archive agrees with MH
	joined       bool // the archive agrees with MH: a time server cannot outvote both
}

// New returns a Clock. stored is the time that the last process left in the store, or zero; now is the box's clock.
func New(stored time.Time, now func() time.Time, log *slog.Logger) *Clock {
	began := time.Now()
	return &Clock{right: stored, log: log, Synced: kernelSynced, first: make(chan struct{}),
		Now: func() time.Time { return now().Round(0) }, Elapsed: func() time.Duration { return time.Since(began) }}
}

// clockRetry is how long a till waits before it tries again.
const clockRetry = 15 * time.Second

// Check returns nil while the clock counts as right.
func (c *Clock) Check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, elapsed := c.Now(), c.Elapsed()
	expected, back, ahead := c.right, Back, Far
	if !c.anchor.IsZero() {
		passed := elapsed - c.anchored
		expected, back, ahead = c.anchor.Add(passed), Back+passed/clockDrift, clockAhead+passed/clockDrift
	}
	off := now.Sub(expected)
	if c.contradicted && !c.joined && c.Synced() {
		c.outvote("the kernel's time server")
	}
	switch {
	case c.contradicted:
		c.suspect(c.skew, "la hora de Hacienda", "MH's")
	case !c.right.IsZero() && (off < -back || off > ahead):
		c.suspect(off, "la última hora confiable", "the latest time that was right")
	default:
		c.trust(now, elapsed)
	}
	return c.doubt
}

// suspect puts the clock in doubt. off is the clock's lead over another time; spanish and english name that time.
func (c *Clock) suspect(off time.Duration, spanish, english string) {
	if c.doubt == nil {
		c.log.Error("clock is wrong: nothing new is issued", "off", off.Round(time.Second), "right", c.right)
	}
	es, en := "adelantado", "ahead of"
	if off < 0 {
		es, en = "atrasado", "behind"
	}
	by := off.Abs().Round(time.Second)
	c.doubt = &refusal.Error{Code: refusal.CodeClockWrong, RetryAfter: clockRetry,
		Message: fmt.Sprintf("El reloj del equipo está %s %v respecto de %s: no se emiten documentos nuevos hasta que "+
			"esté en hora", es, by, spanish),
		English: fmt.Sprintf("The box's clock is %v %s %s: nothing new is issued until it is right", by, en, english)}
}

func (c *Clock) trust(now time.Time, elapsed time.Duration) {
	if c.doubt != nil {
		c.log.Info("clock is right again", "now", now)
	}
	if c.anchor.IsZero() {
		c.anchor, c.anchored = now, elapsed
	}
	c.right, c.doubt = now, nil
}

// Trusted returns the latest time that was right.
func (c *Clock) Trusted() time.Time {
	_ = c.Check()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.right
}

// State returns the values of the metrics. skew is how far the clock is ahead of MH's, known from MH's first answer on.
func (c *Clock) State() (doubted bool, skew time.Duration, known bool) {
	doubted = c.Check() != nil
	c.mu.Lock()
	defer c.mu.Unlock()
	return doubted, c.skew, c.known
}

func (c *Clock) Observe(date string) {
	said, err := http.ParseTime(date)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	c.skew, c.known = now.Sub(said), true
	if c.skew.Abs() > clockNear {
		c.disputed, c.contradicted = true, c.contradicted || !c.issued
		return
	}
	c.disputed, c.contradicted, c.joined = false, false, false
	c.anchor, c.anchored = now, c.Elapsed()
	c.trust(now, c.anchored)
	c.Answered()
}

// AskFirst is how long the first sale waits for MH's time, counted from the start of the process.
const AskFirst = 2 * time.Second

// Answered ends the first sale's wait: MH has answered, or cannot be reached.
func (c *Clock) Answered() { c.once.Do(func() { close(c.first) }) }

// AwaitFirst waits until MH was asked for the time, at most AskFirst.
func (c *Clock) AwaitFirst() { fairqueue.Await(AskFirst-c.Elapsed(), c.first) }

// Admitted records that a new document was admitted. From then on, MH's time alone raises no doubt.
func (c *Clock) Admitted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.issued = true
}

// Second compares the clock with the Date header of the archive's answer, while MH's time differs from the box's. If
// the archive agrees with one of the two, the other is wrong.
func (c *Clock) Second(date string) {
	said, err := http.ParseTime(date)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch off := c.Now().Sub(said); {
	case !c.disputed:
	case off.Abs() <= clockNear:
		c.outvote("the archive")
	case (off - c.skew).Abs() <= clockNear:
		c.contradicted, c.joined = true, true
	}
}

// outvote ends the doubt that MH's time raised. by names the source that agrees with the box. The caller holds mu.
func (c *Clock) outvote(by string) {
	if c.contradicted {
		c.log.Warn("MH's clock seems wrong", "skew", c.skew.Round(time.Second), "box agrees with", by)
	}
	c.disputed, c.contradicted, c.joined = false, false, false
}

// IsDisputed reports whether MH's time differs from the box's.
func (c *Clock) IsDisputed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.disputed
}

// kernelSynced reports whether the kernel's clock follows a time server (adjtimex(2)), and was not set by hand since.
func kernelSynced() bool {
	const timeError, statusUnsynced = 5, 0x40 // TIME_ERROR, STA_UNSYNC
	var t syscall.Timex
	state, err := syscall.Adjtimex(&t)
	return err == nil && state != timeError && t.Status&statusUnsynced == 0
}
