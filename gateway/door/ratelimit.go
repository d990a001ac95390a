package door

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/engine/audit"
	"dtegate/engine/fairqueue"
)

// Limits of the acts about failed logins, so that nobody can fill the store with them. In each period of loginActs,
// there is one act for each address, for at most maxLogins addresses. All further addresses share one act.
const (
	loginActs = time.Minute
	maxLogins = 8
)

// Logins counts wrong admin tokens, and records them in the audit trail.
type Logins struct {
	record func(context.Context, audit.Act) error // nil: there is no audit trail
	log    *slog.Logger
	now    func() time.Time
	count  prometheus.Counter

	mu   sync.Mutex
	wait map[string]*loginFailures // failures not recorded yet, by address
	wake fairqueue.Bell
}

type loginFailures struct {
	n     int
	since time.Time
}

// NewLogins returns a counter of wrong admin tokens. record writes an act to the audit trail, unless it is nil.
func NewLogins(record func(context.Context, audit.Act) error, log *slog.Logger, now func() time.Time) *Logins {
	return &Logins{record: record, log: log, now: now, wait: make(map[string]*loginFailures),
		wake: fairqueue.NewBell(),
		count: prometheus.NewCounter(prometheus.CounterOpts{Name: "dte_admin_login_failures_total",
			Help: "Requests to the operators' listener with a wrong admin token."})}
}

func (l *Logins) Failed(address string) {
	l.count.Inc()
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.wait[address]
	if f == nil {
		if len(l.wait) >= maxLogins {
			address = "many addresses"
		}
		if f = l.wait[address]; f == nil {
			f = &loginFailures{since: l.now()}
			l.wait[address] = f
		}
	}
	f.n++
	l.wake.Ring()
}

// Run records failures until ctx ends: the first at once, later ones once a minute.
func (l *Logins) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			l.tell()
			return
		case <-l.wake:
		}
		l.tell()
		_ = fairqueue.Sleep(ctx, loginActs) // if ctx has ended, the select above returns
	}
}

func (l *Logins) tell() {
	l.mu.Lock()
	list := l.wait
	l.wait = make(map[string]*loginFailures)
	l.mu.Unlock()
	if l.record == nil {
		return
	}
	for address, f := range list {
		err := l.record(context.Background(), audit.Act{Who: "somebody", From: address, What: "admin.login",
			Outcome: audit.Refused,
			Detail:  fmt.Sprintf("%d wrong admin tokens since %s", f.n, f.since.UTC().Format(time.RFC3339))})
		if err != nil {
			l.log.Error("failed logins are not in the trail", "address", address, "count", f.n, "error", err)
		}
	}
}

func (l *Logins) Counter() prometheus.Counter { return l.count }

// Buckets are leaky buckets, one for each name. A bucket is stored as the time when it will be empty (GCRA).
type Buckets struct {
	every time.Duration // the time that one attempt costs
	burst int

	mu    sync.Mutex
	empty map[string]time.Time
	swept int // number of names after the last sweep
}

// NewBuckets returns buckets that admit, for each name, burst attempts at once and n in each period on average.
func NewBuckets(n int, each time.Duration, burst int) *Buckets {
	return &Buckets{every: each / time.Duration(n), burst: burst, empty: make(map[string]time.Time)}
}

// Take admits one attempt and returns 0, or admits nothing and returns how long the caller must wait.
func (b *Buckets) Take(name string, now time.Time) time.Duration { return b.TakeMany(name, 1, now) }

// TakeMany is Take for n attempts at once; n is at most burst.
func (b *Buckets) TakeMany(name string, n int, now time.Time) time.Duration {
	cost := time.Duration(n) * b.every
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.empty) > max(10_000, 2*b.swept) { // remove the names with empty buckets
		for k, t := range b.empty {
			if t.Before(now) {
				delete(b.empty, k)
			}
		}
		b.swept = len(b.empty) // sweep again only when the number has doubled
	}
	at := b.empty[name]
	if at.Before(now) {
		at = now
	}
	if wait := at.Add(cost).Sub(now) - time.Duration(b.burst)*b.every; wait > 0 {
		return wait
	}
	b.empty[name] = at.Add(cost)
	return 0
}

// GiveBack takes back one attempt that Take admitted.
func (b *Buckets) GiveBack(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, ok := b.empty[name]; ok {
		b.empty[name] = at.Add(-b.every)
	}
}
