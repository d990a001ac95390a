package authority

import (
	"errors"
	"net"
	"syscall"
)

// Unreachable reports whether the outcome is Unknown and MH certainly has not received the document.
func (o Outcome) Unreachable() bool { return o.Kind == Unknown && !o.Sent }

// Reason returns the outcome's error as a text for people, at most 300 characters; "" without an error.
func (o Outcome) Reason() string {
	if o.Err == nil {
		return ""
	}
	s := []rune(o.Err.Error())
	return string(s[:min(len(s), 300)])
}

// NoRoute reports whether a call failed because no name or no route was found.
func NoRoute(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) || errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH)
}
