package fleet

import (
	"crypto/ed25519"
	"maps"
	"slices"
	"sync"
	"time"

	"dtegate/engine/fleet/wire"
)

// core is what all parts of an agent stand on: its options, the line to the store, its memory, and what is wrong. The goroutine of Step
// alone changes it.
type core struct {
	*line
	o     Options
	fence *Fence
	saved string // what State holds
	dirty bool   // something happened that the centre waits for

	mu       sync.Mutex // of what follows, for those who look
	state    state
	desired  *wire.Desired // the last version that was verified; nil: none, or none by a key that is pinned today
	progress *wire.Progress
	troubles map[string]string // by what they are about
	asked    time.Time         // the store answered about the desired state
}

// note keeps what is wrong with one of the agent's works, and logs it when it begins.
func (c *core) note(about string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.troubles[about]
	if err == nil {
		delete(c.troubles, about)
		c.dirty = c.dirty || before != ""
		return
	}
	if c.troubles[about] = err.Error(); before == "" {
		c.o.Logger.Warn("the chain's centre", "about", about, "error", err)
		c.dirty = true
	}
}

// trouble is what is wrong, in one line, but for one of the agent's works.
func (c *core) trouble(but string) (text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, about := range slices.Sorted(maps.Keys(c.troubles)) {
		if about == but {
			continue
		}
		if text != "" {
			text += "; "
		}
		text += about + ": " + c.troubles[about]
	}
	return text
}

// public is the box's own public key.
func (c *core) public() ed25519.PublicKey {
	public, _ := c.o.Box.Private.Public().(ed25519.PublicKey)
	return public
}
