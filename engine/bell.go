package engine

// bell wakes one goroutine. Rings that it has not heard yet count as one.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}
