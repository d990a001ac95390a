package health

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"
)

type answering func() (*http.Response, error)

func (a answering) RoundTrip(*http.Request) (*http.Response, error) { return a() }

func TestReach(t *testing.T) {
	now := time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)
	r := &Reach{now: func() time.Time { return now }}
	if r.Show().Asked {
		t.Error("asked before it was")
	}
	began := now
	for i, step := range []struct {
		status int
		err    error
		up     bool
		why    string
		same   bool // as long as before
	}{
		{status: 200, up: true},
		{status: 400, up: true, same: true},
		{err: context.Canceled, up: true, same: true},
		{status: 503, why: "HTTP 503"},
		{err: context.DeadlineExceeded, why: "timeout", same: true},
		{err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}, why: "dial: connection refused",
			same: true},
		{status: 200, up: true},
	} {
		now = now.Add(time.Minute)
		if !step.same {
			began = now
		}
		r.next = answering(func() (*http.Response, error) {
			return &http.Response{StatusCode: step.status, Status: "503"}, step.err
		})
		_, _ = r.RoundTrip(nil)
		if got := r.Show(); !got.Asked || got.Up != step.up || got.Why != step.why || !got.Since.Equal(began) {
			t.Errorf("step %d: %+v", i, got)
		}
	}
}
