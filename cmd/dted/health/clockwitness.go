package health

import (
	"context"
	"net/http"
	"time"

	"dtegate/cmd/dted/config"
)

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
