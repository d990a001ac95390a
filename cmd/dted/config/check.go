package config

import (
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Now returns the branch's time: the box's clock plus Authority.Ahead, which rehearses a later day.
func (c *Config) Now() time.Time { return time.Now().Add(time.Duration(c.Authority.Ahead)) }

func (c *Config) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(c.Rules.Keys) < c.Rules.Threshold {
		fault("rules.key: %d keys cannot give %d signatures", len(c.Rules.Keys), c.Rules.Threshold)
	}
	for name, l := range c.Listeners() {
		if (l.Certificate == "") != (l.Key == "") {
			fault("%s.certificate, %s.key: each needs the other", name, name)
		}
		if l.TLS == "off" && l.Certificate != "" {
			fault("%s.tls: is off, and %s.certificate is given", name, name)
		}
	}
	faults = append(faults, c.rehearsable(), c.checkProduction())
	if c.API.Listen == c.Ops.Listen && c.API.Listen != "" && !strings.HasSuffix(c.API.Listen, ":0") {
		fault("ops.listen: is %q, the address of the tills (api.listen)", c.Ops.Listen)
	}
	if c.Issuer.LogoURL != "" && c.Print.Logo == "" {
		fault("issuer.logo_url: is only sent to tills, and not printed: name the picture's file in print.logo, or " +
			"leave logo_url empty")
	}
	if len(c.Branch.Closed) > 0 && len(c.Branch.Hours) == 0 {
		fault("branch.closed: needs branch.hours")
	}
	if f := c.Fleet; f != nil {
		if f.Ship != "" && c.SecondCopy == "" {
			fault("fleet.ship: ships the second copy, therefore it needs second_copy")
		}
		if f.Store == nil {
			fault("fleet.store: is missing, and there is no [archive] to use instead")
		}
	}
	if c.Contingency.Hurry > 1 && c.Ambiente != "00" {
		fault("contingency.hurry: is %d, must be 1 in production", c.Contingency.Hurry)
	}
	if len(c.Points) == 0 {
		fault("point_of_sale: at least one is needed")
	}
	seen := make(map[Point]bool)
	for _, p := range c.Points {
		id, codes := Point{ID: p.ID}, Point{Establishment: p.Establishment, PointOfSale: p.PointOfSale}
		if seen[id] || seen[codes] {
			fault("point_of_sale: id %d or %s%s appears twice", p.ID, p.Establishment, p.PointOfSale)
		}
		seen[id], seen[codes] = true, true
	}
	return errors.Join(faults...)
}

// Encrypted reports whether the listener speaks TLS.
func (l *Listener) Encrypted() bool {
	host, _, err := net.SplitHostPort(l.Listen)
	ip := net.ParseIP(host)
	inside := err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
	return l.TLS != "off" && (l.TLS == "on" || l.Certificate != "" || !inside)
}

// Own reports whether the listener uses a certificate of the box's own authority.
func (l *Listener) Own() bool { return l.Encrypted() && l.Certificate == "" }

// Listeners yields each listener with the name of its section.
func (c *Config) Listeners() iter.Seq2[string, *Listener] {
	return func(yield func(string, *Listener) bool) {
		_ = yield("api", &c.API.Listener) && yield("ops", &c.Ops.Listener)
	}
}

// OwnAuthority reports whether any listener needs the box's own certificate authority.
func (c *Config) OwnAuthority() bool { return c.API.Own() || c.Ops.Own() }

func checkListen(text string) error {
	_, port, err := net.SplitHostPort(text)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 && port != "0" {
		return fmt.Errorf("is %q, must be an address and a port, \"127.0.0.1:8080\"", text)
	}
	return nil
}

// CheckURL refuses an address to which no secret may be sent. It accepts https, and plain HTTP to this machine if every
// resolver reads the host alike: localhost, 127.0.0.0/8 as four numbers, or ::1.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("is not a URL") // the parser's text would quote the URL
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

// thisMachine reports whether a host is a loopback address in its usual spelling.
func thisMachine(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Is4() && ip.IsLoopback() || ip == netip.IPv6Loopback()
}

// checkProduction refuses, in production, to send passwords, documents and links in plain HTTP to another machine.
func (c *Config) checkProduction() error {
	if c.Ambiente != "01" {
		return nil
	}
	var faults []error
	check := func(name, text string) {
		if text == "" {
			return // the tag "required" finds a missing setting
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
			faults = append(faults, fmt.Errorf("%s.path_style: must be true with plain HTTP: otherwise the bucket's "+
				"name precedes the host, which names another machine", name))
		}
	}
	store("archive", c.Archive)
	if c.Fleet != nil && c.Fleet.Store != c.Archive {
		store("fleet.store", c.Fleet.Store)
	}
	return errors.Join(faults...)
}

// rehearsable checks that a rehearsal cannot be mistaken for real sales: a rehearsal of production has ambiente "01",
// and its authority is on this machine, where MH's server never is.
func (c *Config) rehearsable() error {
	a := &c.Authority
	switch {
	case a.Ahead > 0 && c.Ambiente == "01" && !a.Rehearsal:
		return errors.New("authority.ahead: needs the test ambiente or authority.rehearsal")
	case a.Ahead == 0 && !a.Rehearsal:
		return nil
	case a.Rehearsal && c.Ambiente != "01":
		return errors.New(`authority.rehearsal: needs ambiente "01"; the test ambiente needs no rehearsal`)
	}
	if u, err := url.Parse(a.URL); err != nil || !thisMachine(u.Hostname()) {
		return errors.New("authority.rehearsal, authority.ahead: the simulated authority is on this machine: " +
			"authority.url must be a loopback address")
	}
	return nil
}

// nameOfPage matches a host's name as browsers write it in an origin.
var nameOfPage = regexp.MustCompile(`^[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?$`)

// checkOrigin refuses a text that no browser sends as the origin of a page. Origins are compared as text: an origin
// with a path, a capital letter or the scheme's own port would never match. It also refuses patterns, and "null":
// every file and every sandboxed frame sends this origin.
func checkOrigin(text string) error {
	u, err := url.Parse(text)
	if err == nil && (u.Scheme == "https" || u.Scheme == "http") {
		host := u.Hostname()
		good := nameOfPage.MatchString(host)
		if ip, err := netip.ParseAddr(host); err == nil {
			good = ip.String() == host && ip.Zone() == ""
		}
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		page := u.Scheme + "://" + host
		port, err := strconv.ParseUint(u.Port(), 10, 16)
		if err == nil && port != 0 && port != map[string]uint64{"https": 443, "http": 80}[u.Scheme] {
			page += ":" + strconv.FormatUint(port, 10)
		}
		if good && text == page {
			return nil
		}
	}
	return fmt.Errorf("is %q, must be scheme, host and port alone, exactly as browsers write them "+
		"(\"https://caja.example.com\"): in lower case, without a path or the scheme's own port, international names "+
		"as xn--, IPv6 in its short form", text)
}
