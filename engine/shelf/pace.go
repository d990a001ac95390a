package shelf

import (
	"syscall"
	"time"
)

// Work in the background goes in slices, and gives way to the tills while they sell.
const (
	paceSlice  = 2 * time.Millisecond   // of processor time
	paceBusy   = 100 * time.Millisecond // how long after a sale the tills count as busy
	paceAtMost = 500 * time.Millisecond // of rest after a piece that cannot be divided, as a compilation
)

// pacer gives way to the tills in one piece of background work, which one goroutine does.
type pacer struct {
	shelf *state
	times time.Duration // how many times as long as it worked it rests
	used  time.Duration // processor time when the slice began
	began time.Time     // and the clock: asking it is cheap
	sales int64
	seen  time.Time // when sales were more than before
}

// GiveWay returns a function that background work calls between two of its pieces. While the tills sell, it makes the calling
// goroutine rest times as long as the work took: with 2, the work takes a third of one core. It measures the processor time of
// the thread, because on a busy box the clock would also count the time in which the work waits.
func (s *state) GiveWay(times int) (rest func()) {
	p := &pacer{shelf: s, times: time.Duration(times), used: threadTime(), began: time.Now()}
	return p.rest
}

// rest is called between two pieces of work. It rests when a slice is over and the tills are busy.
func (p *pacer) rest() {
	if time.Since(p.began) < paceSlice {
		return
	}
	worked := time.Since(p.began)
	if ran := threadTime() - p.used; 0 < ran && ran < worked {
		worked = ran // less is another thread's: the goroutine has changed over
	}
	defer func() { p.began, p.used = time.Now(), threadTime() }()
	book := p.shelf.book.Load()
	if book == nil {
		return // a first start
	}
	if sales := book.Picks(); sales != p.sales {
		p.sales, p.seen = sales, time.Now()
	}
	if time.Since(p.seen) < paceBusy {
		time.Sleep(min(p.times*worked, paceAtMost))
	}
}

// threadTime is what the calling thread has run so far.
func threadTime() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thread, &u); err != nil {
		return 0 // then nothing rests
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
