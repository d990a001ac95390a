package doctor

import (
	"time"

	"dtegate/engine/dte"
	"dtegate/gateway/certificate"
)

// tlsSoon is when the end of a listener's certificate should be known to people; the box renews its own long before.
const tlsSoon = 21 * 24 * time.Hour

// tls looks at the certificates of the listeners that are encrypted.
func (d *doctor) tls() {
	if own := d.cfg.BoxAuthority(); d.cfg.OwnAuthority() {
		if _, err := own.Authority(); err == nil { // else files says so
			if err := own.CheckKey(); err != nil {
				d.fail("tls", "put the file back from central IT's copy, or make another authority with dtectl tls "+
					"new --replace, which each till must then trust", "the next certificate cannot be signed: %v", err)
			}
		}
	}
	for name, l := range d.cfg.Listeners() {
		if !l.Encrypted() {
			if l.TLS == "off" {
				d.ok("tls", "%s: plain HTTP, as the configuration says", name)
			}
			continue
		}
		file, do := l.Certificate, "put a new certificate and its key there: the appliance takes them "+
			"without a restart"
		if file == "" {
			file, do = d.cfg.BoxAuthority().ServerFile(), "dtectl tls new makes the box's own authority; a running "+
				"appliance renews its certificate"
		}
		leaf, err := certificate.Read(file)
		switch {
		case err != nil: // the start makes the box's own anew; of another, and of what that needs, files says so
		case d.now().After(leaf.NotAfter):
			d.fail("tls", do, "%s: the certificate ended on %s", name, dte.Date(leaf.NotAfter))
		case leaf.NotAfter.Sub(d.now()) < tlsSoon:
			d.warn("tls", do, "%s: the certificate ends on %s", name, dte.Date(leaf.NotAfter))
		default:
			d.ok("tls", "%s: until %s", name, dte.Date(leaf.NotAfter))
		}
	}
}
