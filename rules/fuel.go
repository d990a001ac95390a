package rules

import (
	"errors"
	"runtime"
	"syscall"
	"time"

	"github.com/tetratelabs/wazero/api"

	"dtegate/rules/fuel"
)

// sliceFuel is the most fuel that a guest has at once. A guest without fuel calls the host. The host then grants the
// next slice of the budget. Only between slices can the garbage collector stop the guest, or the host end it. A slice
// lasts 16 µs in our compiled rules, and 70 ms in a guest that waits for memory at each step.
const sliceFuel = 20_000

// meter grants the fuel of an instance's calls in slices. It belongs to the goroutine that calls the instance.
type meter struct {
	fuel, stack api.MutableGlobal // globals of the guest: the rest of the slice and of the stack
	limit       time.Duration     // limit of a call's processor time
	reserve     int64             // the part of the budget that is not granted yet; negative if the call needed more
	sliced      bool              // the call has spent a slice, and the goroutine is locked to its thread
	since       time.Time         // when the first slice was spent
	worked      time.Duration     // processor time that the thread had used when the first slice was spent
	late        bool              // the call was ended because of limit
}

func (m *meter) begin(budget int64) {
	m.reserve, m.late = budget, false
	m.grant()
	m.stack.Set(fuel.Stack)
}

// end ends a call. It returns the fuel left, negative if the call needed more than its budget.
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

// errEnded ends a guest's call; instance.leave returns the reason.
var errEnded = errors.New("the host has ended the call")

// spent is called by a guest that has used up its slice or its stack. It grants the next slice, or ends the call with a
// panic: the engine returns the panic as the call's error.
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

// overdue reports whether the call has worked longer than the limit since its first slice. Only processor time counts:
// a busy box must not make a call fail. The clock is cheaper and is read first: processor time cannot exceed the
// clock's time.
func (m *meter) overdue() bool {
	if !m.sliced {
		runtime.LockOSThread() // otherwise the processor time of other threads would count
		m.sliced, m.since, m.worked = true, time.Now(), ThreadTime()
		return false
	}
	return time.Since(m.since) > m.limit && ThreadTime()-m.worked > m.limit
}

// ThreadTime returns the processor time that the calling thread has used. On systems other than Linux, it returns the
// time by the clock.
func ThreadTime() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if syscall.Getrusage(thread, &u) != nil {
		return time.Since(started)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var started = time.Now()
