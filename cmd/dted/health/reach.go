package health

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"dtegate/gateway/page"
)

// Reach remembers whether MH answers, and since when. A server error is no answer.
type Reach struct {
	next http.RoundTripper
	now  func() time.Time

	mu    sync.Mutex
	state page.Reach
}

func NewReach(next http.RoundTripper, now func() time.Time) *Reach {
	return &Reach{next: next, now: now}
}

// RoundTrip passes a call on.
func (r *Reach) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(req)
	if errors.Is(err, context.Canceled) {
		return resp, err // nobody waited for it
	}
	why := ""
	switch {
	case err != nil:
		why = reason(err)
	case resp.StatusCode >= http.StatusInternalServerError:
		why = "HTTP " + resp.Status
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if up := why == ""; !r.state.Asked || r.state.Up != up {
		r.state.Asked, r.state.Up, r.state.Since = true, up, now
	}
	if r.state.Why = why; why == "" {
		r.state.Last = now
	}
	return resp, err
}

func (r *Reach) Show() page.Reach {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// reason is the innermost cause that says something to people.
func reason(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.As(err, &dns):
		return "DNS: " + dns.Err
	case errors.As(err, &op):
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}
