// Package bell wakes a goroutine.
package bell

// Bell wakes one goroutine, which receives from it. Rings that the goroutine has not received yet count as one.
type Bell chan struct{}

// New returns a bell that has not been rung.
func New() Bell { return make(Bell, 1) }

// Ring wakes the goroutine without waiting for it.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}
