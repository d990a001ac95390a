package outbox

import "dtegate/engine/fairqueue"

// Printing returns the queue in which callers wait to print, for the tests.
func (box *Outbox) Printing() *fairqueue.Queue { return box.delivery.printing }
