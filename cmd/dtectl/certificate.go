package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/sign"
)

// What init and doctor say of MH's certificate file, in the same words.

// issuerKey is the key of MH's certificate file or of a PEM, and what the certificate says of it. certificate is nil for a PEM,
// which says nothing.
func issuerKey(data, password []byte) (key *sign.Key, certificate *sign.Certificate, err error) {
	if strings.HasPrefix(strings.TrimSpace(string(data)), "-----BEGIN") {
		key, err = sign.ParsePEM(data)
		return key, nil, err
	}
	key, c, err := sign.ParseCertificate(data, strings.TrimRight(string(password), "\r\n"))
	switch {
	case err == nil:
		return key, &c, nil
	case errors.Is(err, sign.ErrPassword) && len(password) == 0:
		err = errors.New("MH's certificate has a password: give it in a file with --certificate-password")
	case errors.Is(err, sign.ErrPassword):
		err = fmt.Errorf("%w: it is the one chosen for the private key when the certificate was made in MH's portal, neither that of MH's API nor that of the portal", err)
	case errors.Is(err, sign.ErrCertificate):
		err = fmt.Errorf("%w: take the file from MH's portal again and copy it as it is, no editor and no mail may have altered it", err)
	}
	return nil, nil, err
}

// checkCertificate says why a certificate signs nothing that MH takes: it is of another taxpayer, or not of this day. MH's own
// signer looks at neither; MH does, after the sale.
func checkCertificate(c sign.Certificate, nit string, now time.Time) error {
	switch {
	case c.NIT != nit:
		return fmt.Errorf("the certificate is of NIT %s, the configuration names %s (issuer.nit): install the issuer's own", dte.FormatNIT(c.NIT), dte.FormatNIT(nit))
	case !c.NotAfter.IsZero() && now.After(c.NotAfter):
		return fmt.Errorf("the certificate ended on %s: MH refuses what it signs; make a new one in MH's portal of the same ambiente, and give its file", dte.Date(c.NotAfter))
	case now.Before(c.NotBefore):
		return fmt.Errorf("the certificate begins on %s, and this box's clock says %s: see whether the clock is right (timedatectl)", dte.Date(c.NotBefore), dte.Date(now))
	}
	return nil
}
