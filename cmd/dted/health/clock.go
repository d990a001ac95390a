package health

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"syscall"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/engine/refusal"
)

// How far the clock may be off before nothing is issued, beside config.ClockBack and config.ClockFar.
const (
	clockAhead = 15 * time.Minute // ahead of the anchor, counted by the time that has really passed since
	clockNear  = 15 * time.Minute // within this of MH's clock it is right, whatever else was thought
	clockDrift = 1000             // one part in so many may a clock gain on the time that passes, all its life
)

// clock decides whether the time of the box may stand on a document. Three witnesses: the time that the last process left
// in the store, the time that passes (which no setting of the clock alters), and the date of MH's answers. MH can clear
// any doubt. MH alone can raise one only before a process has issued its first document, and only while nobody agrees with the
// box: the kernel's time server or the archive. A wrong clock at MH must not stop the branches. MH and the archive together can
// raise one at any time, whatever a time server says.
type clock struct {
	synced func() bool // the kernel's clock follows a time server
	once   sync.Once
	first  chan struct{} // closed when MH was asked for the time, or cannot be

	now     func() time.Time     // the box's clock
	elapsed func() time.Duration // since the process began
	log     *slog.Logger

	mu    sync.Mutex
	right time.Time // the latest time that was taken for right, the store's at first
	// anchor is the time from which the clock is measured, and anchored when that was, by elapsed: this process's first look, or MH's
	// latest answer that agreed. No other look moves it, therefore steps that are small each cannot add up.
	anchor   time.Time
	anchored time.Duration
	doubt    error         // nil: none
	skew     time.Duration // to MH's clock, by its latest answer
	known    bool          // there was one

	issued       bool // this process has issued a document
	disputed     bool // MH says another time; the archive is asked
	contradicted bool // that counts: MH said so before the first document, or the archive says so too
	joined       bool // the archive says so too: no time server outvotes both
}

// newClock begins with the time that the store knows, zero for none, and asks now for the box's.
func newClock(stored time.Time, now func() time.Time, log *slog.Logger) *clock {
	began := time.Now()
	return &clock{right: stored, log: log, synced: kernelSynced, first: make(chan struct{}), now: func() time.Time { return now().Round(0) },
		elapsed: func() time.Duration { return time.Since(began) }}
}

// clockRetry is when a till may try again.
const clockRetry = 15 * time.Second

// check is nil while the clock is taken for right.
func (c *clock) check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, elapsed := c.now(), c.elapsed()
	expected, back, ahead := c.right, config.ClockBack, config.ClockFar
	if !c.anchor.IsZero() {
		passed := elapsed - c.anchored
		expected, back, ahead = c.anchor.Add(passed), config.ClockBack+passed/clockDrift, clockAhead+passed/clockDrift
	}
	off := now.Sub(expected)
	if c.contradicted && !c.joined && c.synced() {
		c.outvote("the kernel's time server")
	}
	switch {
	case c.contradicted && c.skew < 0:
		c.suspect(c.skew, "atrasado %v respecto de la hora de Hacienda", "%v behind MH's")
	case c.contradicted:
		c.suspect(c.skew, "adelantado %v respecto de la hora de Hacienda", "%v ahead of MH's")
	case c.right.IsZero():
		c.trust(now, elapsed)
	case off < -back:
		c.suspect(off, "atrasado %v respecto de la última hora confiable", "%v behind the latest time that was right")
	case off > ahead:
		c.suspect(off, "adelantado %v respecto de la última hora confiable", "%v ahead of the latest time that was right")
	default:
		c.trust(now, elapsed)
	}
	return c.doubt
}

// suspect doubts the clock, which is off by so much; the formats say how far, in Spanish and in English.
func (c *clock) suspect(off time.Duration, spanish, english string) {
	if c.doubt == nil {
		c.log.Error("clock is wrong: nothing new is issued", "off", off.Round(time.Second), "right", c.right)
	}
	c.doubt = &refusal.Error{Code: refusal.CodeClockWrong, RetryAfter: clockRetry,
		Message: "El reloj del equipo está " + fmt.Sprintf(spanish, off.Abs().Round(time.Second)) + ": no se emiten documentos nuevos hasta que esté en hora",
		English: "The box's clock is " + fmt.Sprintf(english, off.Abs().Round(time.Second)) + ": nothing new is issued until it is right"}
}

// trust takes the box's time for right.
func (c *clock) trust(now time.Time, elapsed time.Duration) {
	if c.doubt != nil {
		c.log.Info("clock is right again", "now", now)
	}
	if c.anchor.IsZero() {
		c.anchor, c.anchored = now, elapsed
	}
	c.right, c.doubt = now, nil
}

// trusted is the latest time that was taken for right.
func (c *clock) trusted() time.Time {
	_ = c.check()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.right
}

// state is what the metrics show; known is false before MH's first answer.
func (c *clock) state() (doubted bool, skew time.Duration, known bool) {
	doubted = c.check() != nil
	c.mu.Lock()
	defer c.mu.Unlock()
	return doubted, c.skew, c.known
}

// observe takes what an answer of MH says of the time.
func (c *clock) observe(date string) {
	said, err := http.ParseTime(date)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.skew, c.known = now.Sub(said), true
	switch {
	case c.skew.Abs() <= clockNear:
		c.disputed, c.contradicted, c.joined = false, false, false
		c.anchor, c.anchored = now, c.elapsed()
		c.trust(now, c.anchored)
		c.answered()
	default:
		c.disputed = true
		c.contradicted = c.contradicted || !c.issued
	}
}

// askFirst is how long, from the start of the process, the first sale waits for MH to say what time it is.
const askFirst = 2 * time.Second

// answered ends the wait of the first sale: MH has said the time, or cannot be reached.
func (c *clock) answered() { c.once.Do(func() { close(c.first) }) }

// awaitFirst waits until MH was asked for the time, and not beyond askFirst.
func (c *clock) awaitFirst() {
	select {
	case <-c.first:
		return
	default:
	}
	left := askFirst - c.elapsed()
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-c.first:
	case <-timer.C:
	}
}

// admitted notes that a new document was let through: MH raises no doubt any more.
func (c *clock) admitted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.issued = true
}

// second takes the time that another server says: where it agrees with the box against MH, MH's clock is wrong; where it agrees
// with MH, the box's is.
func (c *clock) second(date string) {
	said, err := http.ParseTime(date)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch off := c.now().Sub(said); {
	case !c.disputed:
	case off.Abs() <= clockNear:
		c.outvote("the archive")
	case (off - c.skew).Abs() <= clockNear:
		c.contradicted, c.joined = true, true
	}
}

// outvote drops MH's doubt. The caller holds mu.
func (c *clock) outvote(by string) {
	if c.contradicted {
		c.log.Warn("MH's clock is taken for wrong", "skew", c.skew.Round(time.Second), "box agrees with", by)
	}
	c.disputed, c.contradicted, c.joined = false, false, false
}

// isDisputed reports whether MH says another time than the box.
func (c *clock) isDisputed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.disputed
}

// askSecond asks the archive for the time, while MH contradicts the box.
func (g *Gate) askSecond(ctx context.Context) {
	if g.archive == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, g.archive, nil)
	if err != nil {
		return
	}
	if resp, err := g.second.RoundTrip(req); err == nil {
		_ = resp.Body.Close()
		g.clock.second(resp.Header.Get("Date"))
	}
}

// archiveAddress is where the archive answers, "" without one.
func archiveAddress(cfg *config.Config) string {
	if cfg.Archive == nil {
		return ""
	}
	return cfg.Archive.Endpoint
}

// kernelSynced tells that the kernel's clock follows a time server (adjtimex(2)). Setting the clock by hand ends that.
func kernelSynced() bool {
	const timeError, statusUnsynced = 5, 0x40 // TIME_ERROR, STA_UNSYNC
	var t syscall.Timex
	state, err := syscall.Adjtimex(&t)
	return err == nil && state != timeError && t.Status&statusUnsynced == 0
}
