package access

import "dtegate/gateway/page"

// Expiries are the ends of the certificates.
func (a *Control) Expiries() (list []page.Expiry) {
	if !a.signing.IsZero() {
		list = append(list, page.Expiry{Name: "signing", At: a.signing})
	}
	l := a.lan
	if l.api != nil {
		list = append(list, page.Expiry{Name: "api", At: l.api.Expiry()})
	}
	if l.ops != nil {
		list = append(list, page.Expiry{Name: "ops", At: l.ops.Expiry()})
	}
	if l.own != nil {
		if authority, err := l.own.Authority(); err == nil {
			list = append(list, page.Expiry{Name: "ca", At: authority.NotAfter})
		}
	}
	return list
}
