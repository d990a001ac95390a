package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func newOwn(t *testing.T) (*Own, *time.Time) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	o := &Own{Folder: filepath.Join(t.TempDir(), "tls"), Names: []string{"caja.example", "10.9.8.7"},
		Now:   func() time.Time { return now },
		Write: func(path string, data []byte) error { return os.WriteFile(path, data, 0o600) }}
	if err := o.Create(); err != nil {
		t.Fatal(err)
	}
	return o, &now
}

// handshake asks a server for its certificate, as does a till that trusts the authority.
func handshake(t *testing.T, k *Keeper, trusted *x509.Certificate, name string, now time.Time) (*x509.Certificate,
	error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	go func() { _ = tls.Server(b, k.Config()).Handshake() }() // errors show on the other side
	roots := x509.NewCertPool()
	roots.AddCert(trusted)
	c := tls.Client(a, &tls.Config{RootCAs: roots, ServerName: name, Time: func() time.Time { return now }})
	if err := c.Handshake(); err != nil {
		return nil, err
	}
	return c.ConnectionState().PeerCertificates[0], nil
}

func TestOwn(t *testing.T) {
	o, now := newOwn(t)
	ca, err := o.Authority()
	if err != nil {
		t.Fatal(err)
	}
	k, err := Open(o.ServerFile(), o.ServerFile())
	if err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	for _, name := range []string{host, "localhost", "127.0.0.1", "::1", "caja.example", "10.9.8.7"} {
		if _, err := handshake(t, k, ca, name, *now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := handshake(t, k, ca, "other.example", *now); err == nil {
		t.Error("a name that the box does not have")
	}
	if why, err := o.Due(); why != "" || err != nil {
		t.Errorf("due at once: %q, %v", why, err)
	}
	if err := o.Create(); !errors.Is(err, ErrExists) {
		t.Errorf("a second authority: %v", err)
	}
	// When a third of its life is left it is renewed, by the same authority, and served without a restart.
	*now = k.Expiry().Add(-serverLife / 3)
	if why, err := o.Due(); why != "" || err != nil {
		t.Errorf("due too early: %q, %v", why, err)
	}
	*now = now.Add(time.Second)
	if why, err := o.Due(); why == "" || err != nil {
		t.Errorf("not due: %v", err)
	}
	old := k.Expiry()
	if err := o.Renew(); err != nil {
		t.Fatal(err)
	}
	if changed, err := k.Check(); !changed || err != nil ||
		!k.Expiry().Equal(now.Add(serverLife).Truncate(time.Second)) {
		t.Errorf("renewed: %v %v, %v after %v", changed, err, k.Expiry(), old)
	}
	if _, err := handshake(t, k, ca, "caja.example", *now); err != nil {
		t.Error(err)
	}
	// Near the authority's end no certificate can last longer than the present one: it is not renewed for ever.
	present := *now
	*now = ca.NotAfter.Add(-serverLife / 3)
	if err := o.Renew(); err != nil {
		t.Fatal(err)
	}
	if leaf, err := Read(o.ServerFile()); err != nil || !leaf.NotAfter.Equal(ca.NotAfter) {
		t.Errorf("near the authority's end, on %v, the certificate ends on %v: %v", ca.NotAfter, leaf.NotAfter, err)
	}
	for _, left := range []time.Duration{serverLife / 3, serverLife / 4, time.Hour} {
		*now = ca.NotAfter.Add(-left)
		if why, err := o.Due(); why != "" || err != nil {
			t.Errorf("due %v before the authority's end: %q, %v", left, why, err)
		}
	}
	if *now = present; o.Renew() != nil {
		t.Fatal("not renewed")
	}
	// For a new name the certificate is renewed where the authority may sign the name; else the name is left out.
	o.Names = append(o.Names, "10.1.1.1", "bank.example")
	if why, err := o.Due(); why != "the box is now reached as 10.1.1.1" || err != nil {
		t.Errorf("%q, %v", why, err)
	}
	if err := o.Renew(); err != nil {
		t.Fatal(err)
	}
	if why, err := o.Due(); why != "" || err != nil {
		t.Errorf("due after its renewal: %q, %v", why, err)
	}
}

// Whoever has the authority's key cannot stand in for another site, even where a system trusts the authority.
func TestOwn_Constrained(t *testing.T) {
	o, now := newOwn(t)
	ca, err := o.Authority()
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour),
		NotAfter:    now.Add(time.Hour),
		DNSNames:    []string{"bank.example", "evilcaja.example", "caja.example", "1.caja.example", "CAJA.example"},
		IPAddresses: []net.IP{{8, 8, 8, 8}, {10, 9, 8, 7}, {192, 168, 0, 1}}}
	signer, err := o.signer()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(nil, leaf, ca, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	// One forged name spoils a certificate: each name has its own. May agrees with what clients believe.
	forged := 0
	for _, name := range append(slices.Clone(c.DNSNames), "8.8.8.8", "10.9.8.7", "192.168.0.1") {
		alone := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter}
		if ip := net.ParseIP(name); ip != nil {
			alone.IPAddresses = []net.IP{ip}
		} else {
			alone.DNSNames = []string{name}
		}
		der, err := x509.CreateCertificate(nil, alone, ca, signer.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		one, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		_, err = one.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: *now})
		if May(ca, name) != (err == nil) {
			t.Errorf("may sign for %s: %v, clients: %v", name, May(ca, name), err)
		}
		if err != nil {
			forged++
		}
	}
	if forged != 3 {
		t.Errorf("%d names are foreign", forged)
	}
}

// TestOwn_ServersOnly: what the authority signs verifies as a server's certificate, and for no mail and no program,
// whatever the certificate itself says.
func TestOwn_ServersOnly(t *testing.T) {
	o, now := newOwn(t)
	ca, err := o.Authority()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := o.signer()
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	for name, usage := range map[string]x509.ExtKeyUsage{"server": x509.ExtKeyUsageServerAuth,
		"client": x509.ExtKeyUsageClientAuth,
		"mail":   x509.ExtKeyUsageEmailProtection, "program": x509.ExtKeyUsageCodeSigning} {
		leaf := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour),
			NotAfter:    now.Add(time.Hour),
			DNSNames:    []string{"caja.example"},
			ExtKeyUsage: []x509.ExtKeyUsage{usage, x509.ExtKeyUsageAny}}
		der, err := x509.CreateCertificate(nil, leaf, ca, signer.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: *now, KeyUsages: []x509.ExtKeyUsage{usage}})
		if (err == nil) != (name == "server") {
			t.Errorf("for a %s: %v", name, err)
		}
	}
}

// Files that cannot be used leave the previous certificate in place; a key that comes after its certificate is taken.
func TestKeeper(t *testing.T) {
	o, now := newOwn(t)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "a.pem"), filepath.Join(dir, "a.key")
	put := func(path, from string) {
		t.Helper()
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(path, b, 0o600)
		}
		if err == nil {
			*now = now.Add(time.Hour)
			err = os.Chtimes(path, *now, *now)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(cert, key); err == nil {
		t.Fatal("opened without files")
	}
	put(cert, o.ServerFile())
	put(key, o.ServerFile())
	k, err := Open(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	before := k.Expiry()
	if changed, err := k.Check(); changed || err != nil {
		t.Errorf("nothing changed: %v %v", changed, err)
	}
	if err := o.Renew(); err != nil {
		t.Fatal(err)
	}
	put(cert, o.ServerFile()) // and not the key
	for range 2 {
		if changed, err := k.Check(); changed || err == nil || !k.Expiry().Equal(before) {
			t.Errorf("a certificate without its key: %v %v", changed, err)
		}
	}
	put(key, o.ServerFile())
	if changed, err := k.Check(); !changed || err != nil || k.Expiry().Equal(before) {
		t.Errorf("with its key: %v %v", changed, err)
	}
	chain, err := os.ReadFile(o.ServerFile())
	if err != nil {
		t.Fatal(err)
	}
	damaged := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no certificate")})
	for at, bad := range []string{"", string(damaged)} { // behind a chain of two, of which tills check each
		if err := os.WriteFile(cert, append(chain, bad...), 0o600); err != nil {
			t.Fatal(err)
		}
		*now = now.Add(time.Hour)
		if err := os.Chtimes(cert, *now, *now); err != nil {
			t.Fatal(err)
		}
		if changed, err := k.Check(); changed != (at == 0) || (err != nil) != (at == 1) {
			t.Errorf("a chain that ends in %.30q: %v %v", bad, changed, err)
		}
	}
}

// TestReachable: a till finds the box at its addresses in the LAN, IPv6 too, and nowhere by one that only its own link or
// the box itself knows.
func TestReachable(t *testing.T) {
	var all []net.Addr
	for _, a := range []string{"127.0.0.1/8", "::1/128", "192.168.1.7/24", "169.254.3.4/16", "fe80::1/64", "fd00::7/64",
		"2001:db8::7/64", "10.0.0.7/8"} {
		ip, n, err := net.ParseCIDR(a)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &net.IPNet{IP: ip, Mask: n.Mask})
	}
	want := []string{"192.168.1.7", "fd00::7", "2001:db8::7", "10.0.0.7"}
	if got := reachable(append(all, &net.UnixAddr{Name: "x"})); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestMay: an authority may name a host, the hosts below it and the addresses of its ranges, in any case of letters.
func TestMay(t *testing.T) {
	ca := &x509.Certificate{PermittedDNSDomains: []string{"dte.tienda.example"},
		PermittedIPRanges: []*net.IPNet{{IP: net.IP{10, 0, 0, 0}, Mask: net.CIDRMask(8, 32)}}}
	for name, want := range map[string]bool{"dte.tienda.example": true, "DTE.Tienda.example": true,
		"caja.dte.tienda.example": true, "Caja.DTE.tienda.example": true, "xdte.tienda.example": false,
		"tienda.example": false, "10.255.255.255": true, "11.0.0.0": false, "::1": false, "": false} {
		if got := May(ca, name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
