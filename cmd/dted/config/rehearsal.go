package config

import (
	"errors"
	"net"
	"net/url"
)

// rehearsable checks that a rehearsal of production can be taken for nothing else: it is of production, and its authority is
// on this machine, where MH never is.
func (c *Config) rehearsable() error {
	if !c.Authority.Rehearsal {
		return nil
	}
	if c.Ambiente != "01" {
		return errors.New(`authority.rehearsal: production is rehearsed, ambiente "01"; the test ambiente needs none`)
	}
	u, err := url.Parse(c.Authority.URL)
	if err == nil {
		if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsLoopback() || u.Hostname() == "localhost" {
			return nil
		}
	}
	return errors.New("authority.rehearsal: the simulated authority is on this machine, authority.url must be one of loopback")
}
