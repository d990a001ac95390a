package config

import (
	"errors"
	"net"
	"net/url"
	"time"
)

// How far the clock may be off what the store knows before nothing is issued: a document's date and hour are law, its
// year is its series.
const (
	ClockBack = 2 * time.Minute     // behind the latest time known right
	ClockFar  = 31 * 24 * time.Hour // ahead of what the last process left: nobody knows how long the box was off
)

// Now is the branch's clock: the box's, or in a rehearsal of a later day, so much ahead of it.
func (c *Config) Now() time.Time { return time.Now().Add(time.Duration(c.Authority.Ahead)) }

// rehearsable checks that a rehearsal of production can be taken for nothing else: it is of production, and its
// authority is on this machine, where MH never is.
func (c *Config) rehearsable() error {
	switch ahead := time.Duration(c.Authority.Ahead); {
	case ahead < 0:
		return errors.New("authority.ahead: a rehearsal is of a later day")
	case ahead > 0 && c.Ambiente == "01" && !c.Authority.Rehearsal:
		return errors.New("authority.ahead: a later day is rehearsed in the test ambiente, or with authority.rehearsal")
	case ahead == 0 && !c.Authority.Rehearsal:
		return nil
	}
	if c.Authority.Rehearsal && c.Ambiente != "01" {
		return errors.New(`authority.rehearsal: production is rehearsed, ambiente "01"; the test ambiente needs none`)
	}
	u, err := url.Parse(c.Authority.URL)
	if err == nil {
		if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsLoopback() || u.Hostname() == "localhost" {
			return nil
		}
	}
	return errors.New("authority.rehearsal, authority.ahead: the simulated authority is on this machine, " +
		"authority.url must be one of loopback")
}
