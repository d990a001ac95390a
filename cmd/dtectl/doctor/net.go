package doctor

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"dtegate/engine/authority/connpool"
	"dtegate/engine/dte"
)

// reachBudget is how long doctor waits for an answer.
const reachBudget = 3 * time.Second

// authority walks the way to MH as the appliance does, by the same code and within the same limit, and names the step
// that fails, or how long each took. It returns what MH's clock says; zero when it says nothing. It sends no
// credentials and no document.
func (d *doctor) authority(ctx context.Context) (clock time.Time) {
	u, err := url.Parse(d.cfg.Authority.URL)
	if err != nil || u.Hostname() == "" {
		d.fail("authority", "correct authority.url in the configuration", "%q is no address", d.cfg.Authority.URL)
		return clock
	}
	way := d.cfg.Authority.Link()
	defer way.Close()
	steps, err := way.Connect(ctx)
	if err != nil {
		unconnected(&d.report, steps, way.Limit(), err)
		return clock
	}
	if len(steps.Certificate) > 0 {
		if end := steps.Certificate[0].NotAfter; end.Sub(d.now()) < 7*24*time.Hour {
			d.warn("authority", "MH must renew it; the branch cannot", "MH's TLS certificate ends on %s", dte.Date(end))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, reachBudget)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		d.fail("authority", "correct authority.url in the configuration", "%v", err)
		return clock
	}
	req.Header.Set("User-Agent", "dtectl doctor")
	began := time.Now()
	resp, err := way.RoundTrip(req)
	if err != nil {
		d.fail("authority", "see whether a proxy is in the way, or MH is down; meanwhile documents go out in "+
			"contingency", "no answer: %v", err)
		return clock
	}
	_ = resp.Body.Close()
	// Whatever the status: somebody speaks HTTP there.
	connected(&d.report, u.Host, steps, way.Limit(), time.Since(began))
	if clock, err = http.ParseTime(resp.Header.Get("Date")); err != nil {
		return time.Time{}
	}
	return clock
}

// unconnected reports the step that failed.
func unconnected(to *report, steps connpool.Steps, limit time.Duration, err error) {
	what, do := "connection", "see whether a firewall is in the way, or MH is down; meanwhile documents go out in "+
		"contingency"
	switch steps.Failed {
	case "lookup":
		what, do = "name", "see whether the branch has Internet and its name server answers; meanwhile documents go "+
			"out in contingency"
	case "tls":
		what, do = "TLS", "see whether the clock is right and something on the way takes TLS apart; install "+
			"ca-certificates"
	}
	took := steps.Lookup + steps.TCP + steps.TLS
	to.fail("authority", do, "%s: %v; %s (authority.connect_timeout %v)", what, err, times(steps), limit)
	if took > limit*9/10 {
		to.warn("authority", "raise authority.connect_timeout, if the link is slow and not dead",
			"the connection took its whole time, %v", limit)
	}
}

// connected reports how long each step took, and a link that leaves little room below the limit.
func connected(to *report, host string, steps connpool.Steps, limit, answer time.Duration) {
	if total := steps.Lookup + steps.TCP + steps.TLS; total > limit/2 {
		to.warn("authority", "raise authority.connect_timeout, or see why the link is slow: beyond it the branch goes "+
			"into contingency",
			"%s answers, but connecting takes %v of the %v of authority.connect_timeout: %s", host,
			total.Round(time.Millisecond), limit, times(steps))
		return
	}
	to.ok("authority", "%s answers: %s, answer %v; connecting may take %v (authority.connect_timeout)", host,
		times(steps), answer.Round(time.Millisecond), limit)
}

func times(s connpool.Steps) string {
	return fmt.Sprintf("name %v, connection %v, TLS %v", s.Lookup.Round(time.Millisecond),
		s.TCP.Round(time.Millisecond), s.TLS.Round(time.Millisecond))
}
