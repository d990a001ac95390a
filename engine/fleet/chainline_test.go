package fleet_test

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/enginetest"
	fleetwire "dtegate/engine/fleet/fleetproto"
)

// storeLine is a box's connection to the chain's store. It can be away, and one request in fifty fails, or is carried
// out without an answer.
type storeLine struct {
	under  fleetwire.Lister
	mu     sync.Mutex
	rand   *rand.Rand
	state  enginetest.CableState
	since  time.Time // connected since; zero while it is not
	mended bool
}

var errLine = errors.New("the store does not answer")

func (l *storeLine) set(s enginetest.CableState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state = s; s == enginetest.Plugged {
		l.since = time.Now()
	} else {
		l.since = time.Time{}
	}
}

// mend ends the random faults.
func (l *storeLine) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mended = true
}

// up returns since when the store answers; false while it does not.
func (l *storeLine) up() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since, l.state == enginetest.Plugged
}

// pass waits if nobody answers, and returns the fault of this request, if any, before or after it is carried out.
func (l *storeLine) pass(ctx context.Context) (before, behind error) {
	l.mu.Lock()
	state, mended, chance := l.state, l.mended, l.rand.IntN(100)
	l.mu.Unlock()
	switch {
	case state == enginetest.Dropping:
		// The archive's client ends each call after a minute: a check, which has hours for all of its calls, must not
		// hang in the first one after the store is back.
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		<-ctx.Done()
		return ctx.Err(), nil
	case state != enginetest.Plugged || chance == 0 && !mended:
		return errLine, nil
	case chance == 1 && !mended:
		return nil, errLine
	}
	return nil, nil
}

func (l *storeLine) Create(ctx context.Context, key string, data []byte) error {
	before, behind := l.pass(ctx)
	if before != nil {
		return before
	}
	return cmp.Or(l.under.Create(ctx, key, data), behind)
}

func (l *storeLine) Overwrite(ctx context.Context, key string, data []byte) error {
	before, behind := l.pass(ctx)
	if before != nil {
		return before
	}
	return cmp.Or(l.under.Overwrite(ctx, key, data), behind)
}

func (l *storeLine) Fetch(ctx context.Context, key string, limit int64) (archive.Held, error) {
	before, behind := l.pass(ctx)
	if err := cmp.Or(before, behind); err != nil {
		return archive.Held{}, err
	}
	return l.under.Fetch(ctx, key, limit)
}

func (l *storeLine) List(ctx context.Context, prefix string) iter.Seq2[archive.Object, error] {
	return l.ListAfter(ctx, prefix, "")
}

func (l *storeLine) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[archive.Object, error] {
	before, behind := l.pass(ctx)
	if err := cmp.Or(before, behind); err != nil {
		return func(yield func(archive.Object, error) bool) { yield(archive.Object{}, err) }
	}
	return l.under.ListAfter(ctx, prefix, after)
}
