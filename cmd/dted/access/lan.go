package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/cmd/dted/config"
	"dtegate/engine/audit"
	"dtegate/gateway/certificate"
)

// What is recorded of the own authority.
const (
	tlsFound   = "tls.found"
	tlsReplace = "tls.replace"
)

// renewEvery is how often it is asked whether the box's own certificate should be renewed.
const renewEvery = time.Hour

// lan is TLS on the listeners.
type lan struct {
	log     *slog.Logger
	trail   *audit.Trail
	own     *certificate.Own // nil: no listener needs it
	api     *certificate.Keeper
	ops     *certificate.Keeper
	expiry  *prometheus.GaugeVec
	broken  *prometheus.GaugeVec
	said    map[string]string // the fault of a certificate that was logged last
	renewal time.Time         // the next look at the own certificate
	pin     string            // of the own authority
}

// openLAN reads the certificates of the listeners that are encrypted, and renews the box's own if it is due.
func openLAN(cfg *config.Config, trail *audit.Trail, log *slog.Logger) (*lan, error) {
	l := &lan{log: log, trail: trail, said: make(map[string]string),
		expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dte_tls_certificate_expiry_timestamp_seconds",
			Help: "When a listener's certificate, or the box's own authority, ends."}, []string{"certificate"}),
		broken: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dte_tls_certificate_broken",
			Help: "1 while a certificate's files cannot be used or renewed; the one before goes on being served."},
			[]string{"certificate"})}
	if cfg.OwnAuthority() {
		l.own = cfg.BoxAuthority()
		authority, err := l.own.Authority()
		if err != nil {
			return nil, err
		}
		if err := l.found(authority); err != nil {
			return nil, err
		}
		l.renew()
	}
	open := func(of config.Listener) (*certificate.Keeper, error) {
		switch {
		case !of.Encrypted():
			return nil, nil
		case of.Own():
			return certificate.Open(l.own.ServerFile(), l.own.ServerFile())
		}
		return certificate.Open(of.Certificate, of.Key)
	}
	var err error
	if l.api, err = open(cfg.API.Listener); err != nil {
		return nil, err
	}
	if l.ops, err = open(cfg.Ops.Listener); err != nil {
		return nil, err
	}
	l.look()
	return l, nil
}

// look reads the files that changed, and renews.
func (l *lan) look() {
	if l.own != nil && !time.Now().Before(l.renewal) {
		l.renew()
	}
	for name, k := range map[string]*certificate.Keeper{"api": l.api, "ops": l.ops} {
		if k == nil {
			continue
		}
		changed, err := k.Check()
		l.tell(name, err)
		if changed {
			l.log.Info("another certificate is live", "listener", name, "until", k.Expiry())
			l.recordReplaced()
		}
		l.expiry.WithLabelValues(name).Set(float64(k.Expiry().Unix()))
	}
}

// took shows the own authority.
func (l *lan) took(authority *x509.Certificate) {
	l.pin = certificate.Fingerprint(authority)
	l.expiry.WithLabelValues("ca").Set(float64(authority.NotAfter.Unix()))
}

// found takes the own authority at a start, and records one that the trail does not know.
func (l *lan) found(authority *x509.Certificate) error {
	last, err := l.trail.Last(func(a *audit.Act) bool { return a.What == tlsFound || a.What == tlsReplace })
	if err != nil {
		return fmt.Errorf("reading what is known of the own authority: %w", err)
	}
	l.took(authority)
	switch {
	case last == nil:
		l.record(audit.Act{Who: "the installation", From: "the TLS folder, while stopped", What: tlsFound})
	case last.Target != l.pin:
		l.record(audit.Act{Who: "somebody", From: "the TLS folder, while stopped", What: tlsReplace})
	}
	return nil
}

// recordReplaced records that dtectl made another authority, if it did.
func (l *lan) recordReplaced() {
	if l.own == nil {
		return
	}
	authority, err := l.own.Authority()
	if err != nil || certificate.Fingerprint(authority) == l.pin {
		return
	}
	l.took(authority)
	l.record(audit.Act{Who: "somebody", From: "the TLS folder", What: tlsReplace})
}

// record records what became of the own authority.
func (l *lan) record(a audit.Act) {
	a.Target, a.Outcome = l.pin, audit.Done
	if err := l.trail.Record(context.Background(), a); err != nil {
		l.log.Error("another authority is not recorded", "error", err)
	}
}

func (l *lan) renew() {
	l.renewal = time.Now().Add(renewEvery)
	why, err := l.own.Due()
	if err == nil && why != "" {
		if err = l.own.Renew(); err == nil {
			err = l.trail.Record(context.Background(), audit.Act{Who: "dted", From: "the box", What: "tls.renew",
				Detail: why, Outcome: audit.Done})
		}
	}
	if err == nil {
		err = l.own.CheckKey()
	}
	l.tell("ca", err)
}

// tell shows a fault, and logs it when it is another than before.
func (l *lan) tell(name string, err error) {
	text, bad := "", 0.0
	if err != nil {
		text, bad = err.Error(), 1
	}
	l.broken.WithLabelValues(name).Set(bad)
	if text != "" && text != l.said[name] {
		l.log.Error("a certificate cannot be used: the one before goes on being served", "certificate", name, "error",
			err)
	}
	l.said[name] = text
}

// configs are what the listeners serve; nil: plain HTTP.
func (l *lan) configs() (api, ops *tls.Config) {
	if l.api != nil {
		api = l.api.Config()
	}
	if l.ops != nil {
		ops = l.ops.Config()
	}
	return api, ops
}

// Collect adds the metrics.
func (l *lan) Collect(ch chan<- prometheus.Metric) {
	l.expiry.Collect(ch)
	l.broken.Collect(ch)
}
