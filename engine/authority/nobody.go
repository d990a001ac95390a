package authority

import (
	"errors"
	"net"
	"syscall"
)

// Unreachable tells that nobody was there to receive anything.
func (o Outcome) Unreachable() bool { return o.Kind == Unknown && !o.Sent }

// Reason is the outcome's error for people, at most 300 characters; "" without one.
func (o Outcome) Reason() string {
	if o.Err == nil {
		return ""
	}
	s := []rune(o.Err.Error())
	return string(s[:min(len(s), 300)])
}

// NoRoute tells that not even a name or a route was found.
func NoRoute(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) || errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH)
}
