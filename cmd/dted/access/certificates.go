package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/engine/audit"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/gateway/certificate"
)

// Acts in the audit trail about the box's own certificate authority.
const (
	tlsFound   = "tls.found"
	tlsReplace = "tls.replace"
)

// renewEvery is how often dted checks whether the box's own certificate is due for renewal.
const renewEvery = time.Hour

type lan struct {
	own     *certificate.Own               // the box's own certificate authority; nil if no listener needs it
	keepers map[string]*certificate.Keeper // one for each encrypted listener: "api", "ops"
	expiry  *prometheus.GaugeVec
	damaged *prometheus.GaugeVec
	said    map[string]string // the last fault logged, by certificate
	renewal time.Time         // when the box's own certificate is next checked
	pin     string            // fingerprint of the own authority
}

// openLAN reads the certificates of the encrypted listeners, and renews the box's own certificate if it is due.
func (a *Control) openLAN() error {
	a.lan = lan{keepers: make(map[string]*certificate.Keeper), said: make(map[string]string),
		expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dte_tls_certificate_expiry_timestamp_seconds",
			Help: "When a listener's certificate, or the box's own authority, ends."}, []string{"certificate"}),
		damaged: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dte_tls_certificate_broken",
			Help: "1 while a certificate's files cannot be used or renewed; the previous one is still served."},
			[]string{"certificate"})}
	if a.cfg.OwnAuthority() {
		a.lan.own = a.cfg.BoxAuthority()
		authority, err := a.lan.own.Authority()
		if err != nil {
			return err
		}
		if err := a.found(authority); err != nil {
			return err
		}
		a.renew()
	}
	for name, l := range a.cfg.Listeners() {
		if !l.Encrypted() {
			continue
		}
		file, key := l.Certificate, l.Key
		if l.Own() {
			file, key = a.lan.own.ServerFile(), a.lan.own.ServerFile()
		}
		k, err := certificate.Open(file, key)
		if err != nil {
			return err
		}
		a.lan.keepers[name] = k
	}
	a.lookAtCertificates()
	return nil
}

// lookAtCertificates reads the certificate files that changed, and renews the box's own certificate if it is due.
func (a *Control) lookAtCertificates() {
	if a.lan.own != nil && !time.Now().Before(a.lan.renewal) {
		a.renew()
	}
	for name, k := range a.lan.keepers {
		changed, err := k.Check()
		a.tell(name, err)
		if changed {
			a.log.Info("another certificate is live", "listener", name, "until", k.Expiry())
			a.recordReplaced()
		}
		a.lan.expiry.WithLabelValues(name).Set(float64(k.Expiry().Unix()))
	}
}

func (a *Control) took(authority *x509.Certificate) {
	a.lan.pin = certificate.Fingerprint(authority)
	a.lan.expiry.WithLabelValues("ca").Set(float64(authority.NotAfter.Unix()))
}

// found remembers the box's own authority at a start, and records an authority that the audit trail does not know.
func (a *Control) found(authority *x509.Certificate) error {
	last, err := a.trail.Last(func(act *audit.Act) bool { return act.What == tlsFound || act.What == tlsReplace })
	if err != nil {
		return fmt.Errorf("reading what is known of the own authority: %w", err)
	}
	a.took(authority)
	switch {
	case last == nil:
		a.record(audit.Act{Who: "the installation", From: "the TLS folder, while stopped", What: tlsFound})
	case last.Target != a.lan.pin:
		a.record(audit.Act{Who: "somebody", From: "the TLS folder, while stopped", What: tlsReplace})
	}
	return nil
}

// recordReplaced records a new authority if dtectl has made one.
func (a *Control) recordReplaced() {
	if a.lan.own == nil {
		return
	}
	authority, err := a.lan.own.Authority()
	if err != nil || certificate.Fingerprint(authority) == a.lan.pin {
		return
	}
	a.took(authority)
	a.record(audit.Act{Who: "somebody", From: "the TLS folder", What: tlsReplace})
}

func (a *Control) record(act audit.Act) {
	act.Target, act.Outcome = a.lan.pin, audit.Done
	a.trail.Note(a.log, act)
}

func (a *Control) renew() {
	a.lan.renewal = time.Now().Add(renewEvery)
	why, err := a.lan.own.Due()
	if err == nil && why != "" {
		if err = a.lan.own.Renew(); err == nil {
			err = a.trail.Record(context.Background(), audit.Act{Who: "dted", From: "the box", What: "tls.renew",
				Detail: why, Outcome: audit.Done})
		}
	}
	if err == nil {
		err = a.lan.own.CheckKey()
	}
	a.tell("ca", err)
}

// tell exports whether a certificate has a fault, and logs a fault that differs from the last fault.
func (a *Control) tell(name string, err error) {
	text, bad := "", 0.0
	if err != nil {
		text, bad = err.Error(), 1
	}
	a.lan.damaged.WithLabelValues(name).Set(bad)
	if text != "" && text != a.lan.said[name] {
		a.log.Error("a certificate cannot be used: the previous one is still served", "certificate", name, "error", err)
	}
	a.lan.said[name] = text
}

// TLS returns the TLS configuration of a listener, "api" or "ops", or nil for plain HTTP.
func (a *Control) TLS(listener string) *tls.Config {
	if k := a.lan.keepers[listener]; k != nil {
		return k.Config()
	}
	return nil
}

// Certificates returns when each certificate ends.
func (a *Control) Certificates() (list []fleetproto.Certificate) {
	add := func(name string, ends time.Time) {
		list = append(list, fleetproto.Certificate{Name: name, Ends: ends.UTC()})
	}
	if !a.signing.IsZero() {
		add("signing", a.signing)
	}
	for name := range a.cfg.Listeners() {
		if k := a.lan.keepers[name]; k != nil {
			add(name, k.Expiry())
		}
	}
	if a.lan.own != nil {
		if authority, err := a.lan.own.Authority(); err == nil {
			add("ca", authority.NotAfter)
		}
	}
	return list
}
