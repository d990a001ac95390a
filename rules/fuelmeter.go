package rules

import (
	"errors"
	"runtime"
	"syscall"
	"time"

	"github.com/tetratelabs/wazero/api"

	"dtegate/rules/fuel"
)

// sliceFuel is the most fuel that a guest has at once. A guest whose slice is spent calls the host, which gives the next slice of
// the budget. Between two slices the garbage collector can stop the guest, and the host ends a guest that has worked too
// long. A slice of the shipped rules takes 16 µs compiled; a slice of a guest that waits for memory at each step, 70 ms.
const sliceFuel = 20_000

// meter gives the fuel of an instance's calls out in slices. It belongs to the goroutine that calls the instance.
type meter struct {
	fuel, stack api.MutableGlobal // of the guest: what is left of the slice, and of the stack
	limit       time.Duration     // of the processor's time of a call
	reserve     int64             // fuel of the budget that is in no slice yet; negative when a call needed more
	sliced      bool              // the call has spent a slice, and the goroutine is locked to its thread
	since       time.Time         // when the first slice was spent
	worked      time.Duration     // the processor's time of the thread, then
	late        bool              // the call was ended because of limit
}

// begin gives a call its budget and its stack.
func (m *meter) begin(budget int64) {
	m.reserve, m.late = budget, false
	m.grant()
	m.stack.Set(fuel.Stack)
}

// end ends a call. It returns the fuel that is left, negative when the call needed more than its budget.
func (m *meter) end() int64 {
	if m.sliced {
		runtime.UnlockOSThread()
		m.sliced = false
	}
	if m.reserve < 0 {
		return m.reserve
	}
	return m.reserve + int64(m.fuel.Get())
}

func (m *meter) grant() {
	slice := min(m.reserve, sliceFuel)
	m.reserve -= slice
	m.fuel.Set(uint64(slice))
}

// errEnded ends a guest's call; instance.leave says why.
var errEnded = errors.New("the host has ended the call")

// spent is called by the guest when its slice, or its stack, is negative. It gives the next slice, or ends the call by a panic,
// which the engine turns into the call's error.
func (m *meter) spent() {
	m.reserve += int64(m.fuel.Get())
	if m.reserve < 0 || int64(m.stack.Get()) < 0 {
		panic(errEnded)
	}
	if m.late = m.overdue(); m.late {
		panic(errEnded)
	}
	m.grant()
}

// overdue reports whether the call has worked for longer than the limit since its first slice. What counts is the
// processor's time, so that a busy box fails no call. That time is never more than what has passed by the clock, which is cheaper
// to read.
func (m *meter) overdue() bool {
	if !m.sliced {
		runtime.LockOSThread() // another thread's time would be another's work
		m.sliced, m.since, m.worked = true, time.Now(), processor()
		return false
	}
	return time.Since(m.since) > m.limit && processor()-m.worked > m.limit
}

// processor is the processor's time that the thread has used. It does not fail on Linux; elsewhere the clock alone counts.
func processor() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if syscall.Getrusage(thread, &u) != nil {
		return time.Since(started)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var started = time.Now()
