package setup

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"dtegate/cmd/dtectl/operator"
	"dtegate/engine/authority"
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

// CheckCertificate returns why MH would refuse what a certificate signs: it is another taxpayer's, or not valid on this day.
// MH's own signer checks neither; MH does, after the sale.
func CheckCertificate(c sign.Certificate, nit string, now time.Time) error {
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

// DoubtPassword returns why the contents of a file are probably not the password of MH's API; nil if nothing speaks against it.
func DoubtPassword(file, password string) error {
	if err := authority.Password(password).CheckForm(); err != nil {
		return fmt.Errorf("authority.password_file: what %s holds is hardly the password of MH's API, which has 13 to 25 characters with letters, digits and others: %w", file, err)
	}
	return nil
}

// DoubtedPassword is what to do about what is hardly MH's API password.
const DoubtedPassword = "see whether it is the portal's password or the certificate's: the API has one of its own, and MH locks accounts after wrong ones"

// ReadKey opens the signing key in a file, see issuerKey.
func ReadKey(path, passwordFile string) (*sign.Key, *sign.Certificate, error) {
	data, err := operator.ReadNamed(path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading certificate: %w", err)
	}
	var password []byte
	if passwordFile != "" {
		if password, err = operator.ReadNamed(passwordFile); err != nil {
			return nil, nil, fmt.Errorf("reading certificate password: %w", err)
		}
	}
	return issuerKey(data, password)
}
