// Package certificate serves TLS on the LAN. The box has its own certificate authority, whose fingerprint the tills
// pin. Certificate files are read again when they change.
package certificate

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Files of an authority's folder.
const (
	authorityFile = "ca.pem" // the public certificate, which tills trust or pin
	authorityKey  = "ca.key"
	serverFile    = "server.pem" // certificate, authority and key in one file, so that a renewal is one rename
)

const (
	authorityLife = 20 * 365 * 24 * time.Hour
	serverLife    = 397 * 24 * time.Hour // the longest that browsers and systems accept
	renewBefore   = serverLife / 3
	backdated     = time.Hour // for a client whose clock is behind
)

// ErrExists: the box already has an authority, and a new one would lock out the tills that trust it.
var ErrExists = errors.New("there is an authority already")

// Own is the box's own certificate authority. It may sign only for private addresses, and for the names and addresses
// that the box and its settings had when the authority was made: its key cannot imitate another site.
type Own struct {
	Folder string
	Names  []string // in addition to the box's own names
	Now    func() time.Time
	Write  func(path string, data []byte) error // must be atomic, and make the file readable only by its owner
}

// ServerFile returns the path of the file with certificate and key.
func (o *Own) ServerFile() string { return filepath.Join(o.Folder, serverFile) }

// AuthorityFile returns the path of the certificate that tills trust.
func (o *Own) AuthorityFile() string { return filepath.Join(o.Folder, authorityFile) }

// Create makes the authority and a first certificate. Error: ErrExists.
func (o *Own) Create() error {
	if _, err := os.Stat(o.AuthorityFile()); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s: %w", o.Folder, ErrExists), err)
	}
	if err := os.MkdirAll(o.Folder, 0o700); err != nil {
		return fmt.Errorf("making authority: %w", err)
	}
	host, _ := os.Hostname()
	names, addresses := split(append(boxNames(), o.Names...))
	t := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "DTE gateway " + host},
		NotBefore: o.Now().Add(-backdated), NotAfter: o.Now().Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		// For TLS servers only: the authority's signatures are not valid for mail or programs.
		ExtKeyUsage:                 []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: names, PermittedIPRanges: private,
	}
	for _, a := range addresses {
		if !within(private, a) {
			t.PermittedIPRanges = append(t.PermittedIPRanges, &net.IPNet{IP: a, Mask: net.CIDRMask(8*len(a), 8*len(a))})
		}
	}
	certificate, key, err := signed(t, t, nil)
	if err != nil {
		return fmt.Errorf("making authority: %w", err)
	}
	// Write the public file after the key: if the public file is missing after a crash, Create makes both again.
	if err := o.Write(filepath.Join(o.Folder, authorityKey), key); err != nil {
		return err
	}
	if err := o.Write(o.AuthorityFile(), certificate); err != nil {
		return err
	}
	return o.Renew()
}

// signed makes a key and its certificate, both in PEM. signer is the authority's key; nil: self-signed.
func signed(t, authority *x509.Certificate, signer *ecdsa.PrivateKey) (certificate, key []byte, err error) {
	made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, authority, made.Public(), cmp.Or(signer, made))
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(made)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), err
}

// Renew signs a new certificate for the present names and addresses of the box.
func (o *Own) Renew() error {
	authority, err := o.Authority()
	if err != nil {
		return err
	}
	signer, err := o.signer()
	if err != nil {
		return err
	}
	names, addresses := split(o.names(authority))
	until := slices.MinFunc([]time.Time{o.Now().Add(serverLife), authority.NotAfter}, time.Time.Compare)
	certificate, key, err := signed(&x509.Certificate{Subject: pkix.Name{CommonName: names[0]},
		NotBefore: o.Now().Add(-backdated), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, DNSNames: names, IPAddresses: addresses}, authority, signer)
	if err != nil {
		return fmt.Errorf("renewing certificate: %w", err)
	}
	return o.Write(o.ServerFile(), slices.Concat(certificate,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw}), key))
}

// Due returns why the certificate must be renewed, or "".
func (o *Own) Due() (why string, err error) {
	authority, err := o.Authority()
	if err != nil {
		return "", err
	}
	leaf, err := Read(o.ServerFile())
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no certificate", nil
	}
	if err == nil {
		err = o.checkServer(authority)
	}
	if err != nil {
		return "the certificate's file is damaged: " + err.Error(), nil
	}
	if leaf.NotAfter.Sub(o.Now()) < renewBefore && leaf.NotAfter.Before(authority.NotAfter) {
		return "the certificate ends on " + leaf.NotAfter.Format(time.DateOnly), nil
	}
	for _, n := range o.names(authority) {
		if leaf.VerifyHostname(n) != nil {
			return "the box is now reached as " + n, nil
		}
	}
	return "", nil
}

func (o *Own) signer() (*ecdsa.PrivateKey, error) {
	path := filepath.Join(o.Folder, authorityKey)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading authority's key: %w", err)
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("reading authority's key: %s is not PEM", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading authority's key %s: %w", path, err)
	}
	if k, ok := key.(*ecdsa.PrivateKey); ok {
		return k, nil
	}
	return nil, fmt.Errorf("reading authority's key: %s is not ECDSA", path)
}

// Authority returns the authority's certificate, or an error if its own signature is not valid.
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

// CheckKey returns an error if the authority's key cannot sign the next certificate. Without this check, nobody would
// notice before the current certificate ends.
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

// checkServer returns nil if a till that trusts the authority accepts the certificate in the server file.
func (o *Own) checkServer(authority *x509.Certificate) error {
	served, err := tls.LoadX509KeyPair(o.ServerFile(), o.ServerFile())
	switch {
	case err != nil:
		return err
	case len(served.Certificate) != 2 || !bytes.Equal(served.Certificate[1], authority.Raw):
		return errors.New("the file contains another authority")
	}
	return served.Leaf.CheckSignatureFrom(authority)
}

// names returns the box's own names and the configured names for which the authority may sign. A name configured after
// the authority was made needs a new authority; dtectl tls show reports such a name.
func (o *Own) names(authority *x509.Certificate) []string {
	return slices.DeleteFunc(append(boxNames(), o.Names...), func(n string) bool { return !May(authority, n) })
}

// May reports whether an authority may sign for a name or address.
func May(authority *x509.Certificate, name string) bool {
	if ip := address(name); ip != nil {
		return within(authority.PermittedIPRanges, ip)
	}
	return slices.ContainsFunc(authority.PermittedDNSDomains, func(d string) bool {
		return strings.EqualFold(d, name) || strings.HasSuffix(strings.ToLower(name), "."+strings.ToLower(d))
	})
}

// private are the address ranges that the Internet does not route.
var private = func() (list []*net.IPNet) {
	for _, s := range []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "169.254.0.0/16",
		"100.64.0.0/10", "::1/128", "fc00::/7", "fe80::/10"} {
		_, n, err := net.ParseCIDR(s)
		if err != nil {
			panic(err)
		}
		list = append(list, n)
	}
	return list
}()

func within(ranges []*net.IPNet, ip net.IP) bool {
	return slices.ContainsFunc(ranges, func(n *net.IPNet) bool { return n.Contains(ip) })
}

// boxNames returns the box's host name, localhost, and its interfaces' addresses except link-local ones.
func boxNames() []string {
	list := []string{"localhost", "127.0.0.1", "::1"}
	if host, err := os.Hostname(); err == nil && host != "localhost" {
		list = append([]string{host}, list...)
	}
	addresses, _ := net.InterfaceAddrs() // an error: none
	return append(list, reachable(addresses)...)
}

// reachable returns the addresses that other machines can use.
func reachable(addresses []net.Addr) (list []string) {
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			list = append(list, n.IP.String())
		}
	}
	return list
}

func split(list []string) (names []string, addresses []net.IP) {
	for _, n := range list {
		if ip := address(n); ip != nil {
			addresses = append(addresses, ip)
		} else if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names, addresses
}

func address(name string) net.IP {
	ip := net.ParseIP(name)
	if four := ip.To4(); four != nil {
		return four
	}
	return ip
}

// Fingerprint returns the SHA-256 of a certificate in hex: openssl x509 -fingerprint -sha256 without the colons.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// Read returns the first certificate of a PEM file.
func Read(path string) (*x509.Certificate, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading certificate: %w", err)
	}
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("reading certificate %s: %w", path, err)
			}
			return c, nil
		}
	}
	return nil, fmt.Errorf("reading certificate %s: the file contains no certificate", path)
}
