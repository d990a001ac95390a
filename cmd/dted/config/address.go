package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
)

// CheckURL refuses an address to which nothing secret may be sent: anything but https, and plain HTTP to this machine
// itself. Plain HTTP takes one of the spellings that every resolver reads alike: localhost, 127.0.0.0/8 as four
// numbers, ::1.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("is not a URL") // its words would quote what is in it
	case u.User != nil:
		return errors.New("must not hold a user or a password")
	case u.Opaque != "" || u.Hostname() == "":
		return errors.New("is not of the form https://host:port")
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return fmt.Errorf("is of the scheme %q, must be https", u.Scheme)
	case !thisMachine(u.Hostname()):
		return fmt.Errorf("is plain HTTP to %q: must be https, except to this machine itself (127.0.0.1, [::1], "+
			"localhost)", u.Hostname())
	}
	return nil
}

// thisMachine tells whether a host is an address of the loopback interface, in its usual spelling.
func thisMachine(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Is4() && ip.IsLoopback() || ip == netip.IPv6Loopback()
}

// checkProduction refuses, in production, plain HTTP on the ways that passwords, documents and links go. A rehearsal on
// one machine may use it there.
func (c *Config) checkProduction() error {
	if c.Ambiente != "01" {
		return nil
	}
	var faults []error
	check := func(name, text string) {
		if text == "" {
			return // check says what is missing
		}
		if err := CheckURL(text); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
	}
	check("authority.url", c.Authority.URL)
	check("api.public_url", c.API.PublicURL)
	store := func(name string, a *Archive) {
		if a == nil {
			return
		}
		check(name+".endpoint", a.Endpoint)
		if u, err := url.Parse(a.Endpoint); err == nil && u.Scheme == "http" && !a.PathStyle {
			faults = append(faults, fmt.Errorf("%s.path_style: must be true with plain HTTP: else the bucket's name "+
				"goes before the host, and that is another machine's", name))
		}
	}
	store("archive", c.Archive)
	if c.Fleet != nil && c.Fleet.Store != c.Archive {
		store("fleet.store", c.Fleet.Store)
	}
	return errors.Join(faults...)
}
