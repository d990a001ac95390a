package sign

import (
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"time"
)

// ErrNotDemo is the refusal to write out a key that was not made by Generate in this process.
var ErrNotDemo = errors.New("only a key made for a demonstration can be written out")

// DemoCertificate writes a file in the layout of MH's certificates for a key that Generate made, so that a
// demonstration starts as a real installation does: from a .crt and a password. MH knows no such certificate. The
// file holds the private key in the clear, as MH's do. Errors: ErrNotDemo.
func DemoCertificate(k *Key, nit, password string, notBefore, notAfter time.Time) ([]byte, error) {
	if k == nil || k.private == nil || !k.demo {
		return nil, ErrNotDemo
	}
	private, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, fmt.Errorf("encoding private key: %w", err)
	}
	defer clear(private)
	public, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		return nil, fmt.Errorf("encoding public key: %w", err)
	}
	digest := sha512.Sum512([]byte(password))
	clave := hex.EncodeToString(digest[:])
	encode := base64.StdEncoding.EncodeToString
	file := certificadoMH{
		ID: "000000000000000000000000", NIT: nit, Activo: "true",
		PublicKey:  llave{KeyType: "PUBLIC", Algorithm: "RSA", Encodied: encode(public), Format: "X.509", Clave: clave},
		PrivateKey: llave{KeyType: "PRIVATE", Algorithm: "RSA", Encodied: encode(private), Format: "PKCS#8", Clave: clave},
		NotBefore:  epoch(notBefore), NotAfter: epoch(notAfter),
	}
	out, err := xml.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("encoding certificate: %w", err)
	}
	return append(out, '\n'), nil
}

// DemoSeal is Seal at a thousandth of its cost, for a key that Generate made: its passphrase can be guessed. Errors:
// ErrNotDemo, and Seal's.
func DemoSeal(k *Key, passphrase []byte) ([]byte, error) {
	if k == nil || !k.demo {
		return nil, ErrNotDemo
	}
	return seal(k, passphrase, 1000)
}

// epoch writes an instant as Jackson's JavaTimeModule does.
func epoch(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }
