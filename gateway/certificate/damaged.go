package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
)

// Authority returns the authority's certificate. A certificate without a valid signature of its own is damaged, and is
// an error.
func (o *Own) Authority() (*x509.Certificate, error) {
	c, err := Read(o.AuthorityFile())
	if err != nil {
		return nil, err
	}
	if err := c.CheckSignatureFrom(c); err != nil {
		return nil, fmt.Errorf("certificate %s is damaged: %w", o.AuthorityFile(), err)
	}
	return c, nil
}

// CheckKey returns an error if the authority's key cannot sign the next certificate. The tills notice nothing until the
// present certificate ends.
func (o *Own) CheckKey() error {
	authority, err := o.Authority()
	if err != nil {
		return err
	}
	key, err := o.signer()
	if err != nil {
		return err
	}
	if !key.PublicKey.Equal(authority.PublicKey) {
		return fmt.Errorf("reading authority's key: %s is not the key of %s", filepath.Join(o.Folder, authorityKey),
			o.AuthorityFile())
	}
	return nil
}

// checkServer is nil when a till that trusts the authority takes what the file of certificate, authority and key
// serves. Whatever is damaged in it, Renew makes it anew.
func (o *Own) checkServer(authority *x509.Certificate) error {
	served, err := tls.LoadX509KeyPair(o.ServerFile(), o.ServerFile())
	switch {
	case err != nil:
		return err
	case len(served.Certificate) != 2 || !bytes.Equal(served.Certificate[1], authority.Raw):
		return errors.New("the authority in it is another")
	}
	return served.Leaf.CheckSignatureFrom(authority)
}

// checkChain parses the certificates behind the first: a till refuses all when one is damaged.
func checkChain(served *tls.Certificate) error {
	for _, der := range served.Certificate[1:] {
		if _, err := x509.ParseCertificate(der); err != nil {
			return err
		}
	}
	return nil
}
