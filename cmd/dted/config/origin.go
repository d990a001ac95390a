package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// checkOrigins refuses an origin that no page has.
func (l *Listener) checkOrigins() error {
	var faults []error
	for i, origin := range l.BrowserOrigins {
		if err := checkOrigin(origin); err != nil {
			faults = append(faults, fmt.Errorf("api.browser_origins: %q %w", origin, err))
		}
		if slices.Contains(l.BrowserOrigins[:i], origin) {
			faults = append(faults, fmt.Errorf("api.browser_origins: %q stands twice", origin))
		}
	}
	return errors.Join(faults...)
}

// checkOrigin refuses a text that no browser sends as the origin of a page: an origin is compared as it is written, so
// that one with a path, a capital letter or the scheme's own port would never match. A pattern is none, nor is "null",
// which every file and sandboxed frame has.
func checkOrigin(text string) error {
	u, err := url.Parse(text)
	switch {
	case text == "*" || strings.Contains(text, "*"):
		return errors.New("is a pattern: each origin is listed exactly")
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("is not of the form https://host or https://host:port")
	case text != u.Scheme+"://"+u.Host:
		return errors.New("must be scheme, host and port alone, in lower case, without a path or a slash behind them")
	case u.Host != strings.ToLower(u.Host) || !hostOfPage(u.Hostname()):
		return errors.New("has a host that browsers write otherwise: in lower case, international names as xn--, IPv6 " +
			"in its short form")
	case strings.HasSuffix(u.Host, ":"):
		return errors.New("has an empty port")
	}
	if port := u.Port(); port != "" {
		n, err := strconv.Atoi(port)
		switch {
		case err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != port:
			return errors.New("has a port that is none")
		case u.Scheme == "https" && n == 443, u.Scheme == "http" && n == 80:
			return errors.New("names the port that its scheme has anyway: browsers leave it out")
		}
	}
	return nil
}

// hostOfPage tells whether a host is written as a browser writes it.
func hostOfPage(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.String() == host && ip.Zone() == ""
	}
	return host != "" && !strings.HasPrefix(host, ".") && !strings.Contains(host, "..") &&
		!strings.ContainsFunc(host, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_'
		})
}
