package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"

	"dtegate/engine/dte"
)

// reachBudget is how long doctor tries to reach MH, from name to answer.
const reachBudget = 3 * time.Second

// authority walks the way to MH step by step, so that the report names the first that fails, and returns what MH's clock
// says; zero when it says nothing. It sends no credentials and no document.
func (d *doctor) authority(ctx context.Context) (clock time.Time) {
	u, err := url.Parse(d.cfg.Authority.URL)
	if err != nil || u.Hostname() == "" {
		d.fail("authority", "correct authority.url in the configuration", "%q is no address", d.cfg.Authority.URL)
		return clock
	}
	ctx, cancel := context.WithTimeout(ctx, reachBudget)
	defer cancel()
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	began := time.Now()
	addresses, err := net.DefaultResolver.LookupHost(ctx, u.Hostname())
	if err != nil {
		d.fail("authority", "see whether the branch has Internet and its name server answers; meanwhile documents go out in contingency", "name: %v", err)
		return clock
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		d.fail("authority", "see whether a firewall is in the way, or MH is down; meanwhile documents go out in contingency", "connection to %s: %v", addresses[0], err)
		return clock
	}
	_ = conn.Close()
	transport := &http.Transport{DisableKeepAlives: true}
	if u.Scheme == "https" && !d.handshake(ctx, net.JoinHostPort(u.Hostname(), port), u.Hostname()) {
		return clock
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		d.fail("authority", "correct authority.url in the configuration", "%v", err)
		return clock
	}
	req.Header.Set("User-Agent", "dtectl doctor")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		d.fail("authority", "see whether a proxy is in the way, or MH is down; meanwhile documents go out in contingency", "no answer: %v", err)
		return clock
	}
	_ = resp.Body.Close()
	// Whatever the status: somebody speaks HTTP there.
	d.ok("authority", "%s answers after %v", u.Host, time.Since(began).Round(time.Millisecond))
	if clock, err = http.ParseTime(resp.Header.Get("Date")); err != nil {
		return time.Time{}
	}
	return clock
}

// handshake looks at MH's certificate.
func (d *doctor) handshake(ctx context.Context, address, name string) bool {
	conn, err := (&tls.Dialer{Config: &tls.Config{ServerName: name}}).DialContext(ctx, "tcp", address)
	if err != nil {
		d.fail("authority", "see whether the clock is right and something on the way takes TLS apart; install ca-certificates", "TLS: %v", err)
		return false
	}
	defer conn.Close()
	leaf := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
	if left := leaf.NotAfter.Sub(d.now()); left < 7*24*time.Hour {
		d.warn("authority", "nothing to do here; MH must renew it", "MH's TLS certificate ends on %s", dte.Date(leaf.NotAfter))
	}
	return true
}
