package sign

import (
	"bytes"
	"crypto/rsa"
	"crypto/sha512"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// maxCertificate is the largest size of a certificate file, in bytes. MH's files have about 5,000 bytes.
const maxCertificate = 1 << 20

var (
	// ErrCertificate means that a file is not MH's certificate, or lacks a part of it. It wraps ErrKey.
	ErrCertificate = fmt.Errorf("%w: not a certificate of MH (XML with root CertificadoMH)", ErrKey)
	// ErrPassword means that a password does not open the key. A certificate's password is that of its private key, not
	// the password of MH's API or of the portal.
	ErrPassword = errors.New("the password does not open the private key")
)

// Certificate is what MH's file says about its key. The caller decides whether the key is valid, as with MH's signer.
type Certificate struct {
	NIT       string    // without hyphens, as in the file
	NotBefore time.Time // zero if missing or unreadable
	NotAfter  time.Time
	Active    bool
}

// certificadoMH is the layout of the file (class CertificadoMH of MH's signer, through Jackson's XmlMapper).
type certificadoMH struct {
	XMLName    xml.Name `xml:"CertificadoMH"`
	ID         string   `xml:"_id"`
	NIT        string   `xml:"nit"`
	PublicKey  llave    `xml:"publicKey"`
	PrivateKey llave    `xml:"privateKey"`
	Activo     string   `xml:"activo"`
	NotBefore  string   `xml:"certificado>basicEstructure>validity>notBefore"`
	NotAfter   string   `xml:"certificado>basicEstructure>validity>notAfter"`
}

type llave struct {
	KeyType   string `xml:"keyType"`
	Algorithm string `xml:"algorithm"`
	Encodied  string `xml:"encodied"` // sic: base64 of the DER
	Format    string `xml:"format"`
	Clave     string `xml:"clave"` // lower-case hex SHA-512 of the password
}

// ParseCertificate opens the file that MH gives an issuer (NIT.crt): XML with an unencrypted PKCS#8 key and the SHA-512
// of a password. Errors: ErrCertificate, ErrPassword, ErrEncrypted, ErrKey; no error quotes the file.
func ParseCertificate(data []byte, password string) (*Key, Certificate, error) {
	file, err := decodeCertificate(data)
	if err != nil {
		return nil, Certificate{}, err
	}
	for _, part := range []struct{ name, text string }{
		{"nit", file.NIT}, {"privateKey/encodied", file.PrivateKey.Encodied}, {"privateKey/clave",
			file.PrivateKey.Clave},
	} {
		if strings.TrimSpace(part.text) == "" {
			return nil, Certificate{}, fmt.Errorf("%w: %s is missing", ErrCertificate, part.name)
		}
	}
	digest := sha512.Sum512([]byte(password))
	clave := strings.ToLower(strings.TrimSpace(file.PrivateKey.Clave))
	if subtle.ConstantTimeCompare([]byte(clave), []byte(hex.EncodeToString(digest[:]))) != 1 {
		return nil, Certificate{}, ErrPassword
	}
	key, err := decodePrivate(file.PrivateKey.Encodied)
	if err != nil {
		return nil, Certificate{}, fmt.Errorf("reading privateKey/encodied: %w", err)
	}
	if text := file.PublicKey.Encodied; strings.TrimSpace(text) != "" {
		public, err := publicKey(decodeBase64(text))
		if err != nil {
			return nil, Certificate{}, err
		}
		if !key.Public().Equal(public) { // MH's error 802
			return nil, Certificate{}, fmt.Errorf("%w: its public key is not its private key's", ErrCertificate)
		}
	}
	key.until = instant(file.NotAfter)
	return key, Certificate{
		NIT: strings.TrimSpace(file.NIT), Active: strings.TrimSpace(file.Activo) == "true",
		NotBefore: instant(file.NotBefore), NotAfter: key.until,
	}, nil
}

// decodeCertificate reads the XML and refuses anything after its root.
func decodeCertificate(data []byte) (*certificadoMH, error) {
	if len(data) > maxCertificate {
		return nil, fmt.Errorf("%w: %d bytes", ErrCertificate, len(data))
	}
	d := xml.NewDecoder(bytes.NewReader(data))
	var file certificadoMH
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrCertificate, position(d))
	}
	for {
		switch token, err := d.Token(); {
		case errors.Is(err, io.EOF):
			return &file, nil
		case err != nil:
			return nil, fmt.Errorf("%w: %s", ErrCertificate, position(d))
		default:
			if text, ok := token.(xml.CharData); !ok || len(bytes.TrimSpace(text)) > 0 {
				return nil, fmt.Errorf("%w: more after its end, %s", ErrCertificate, position(d))
			}
		}
	}
}

// position returns the line and column of the XML error. The decoder's own errors could quote the file.
func position(d *xml.Decoder) string {
	line, column := d.InputPos()
	return fmt.Sprintf("line %d, column %d", line, column)
}

func decodePrivate(text string) (*Key, error) {
	if strings.Contains(text, "-----BEGIN") {
		return ParsePEM([]byte(strings.TrimSpace(text)))
	}
	der, err := decodeBase64(text)
	if err != nil {
		return nil, err
	}
	defer clear(der)
	return parsePKCS8(der)
}

// ParsePublic reads the public key in MH's certificate file, with or without its private key, or in a PEM. It needs no
// password. Errors: ErrCertificate.
func ParsePublic(data []byte) (*rsa.PublicKey, error) {
	if block, _ := pem.Decode(data); block != nil {
		return publicKey(block.Bytes, nil)
	}
	file, err := decodeCertificate(data)
	if err != nil {
		return nil, err
	}
	return publicKey(decodeBase64(file.PublicKey.Encodied))
}

func publicKey(der []byte, err error) (*rsa.PublicKey, error) {
	if err != nil {
		return nil, fmt.Errorf("reading publicKey/encodied: %w", err)
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	public, ok := parsed.(*rsa.PublicKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%w: publicKey/encodied is not an X.509 public key", ErrCertificate)
	}
	return public, nil
}

// decodeBase64 decodes base64 with or without line breaks. Its error does not quote the text.
func decodeBase64(text string) ([]byte, error) {
	der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return nil, fmt.Errorf("%w: not base64", ErrCertificate)
	}
	return der, nil
}

// instant parses an Instant of Jackson's JavaTimeModule: decimal seconds since 1970 with nanoseconds
// ("1767225600.000000000"), or ISO 8601. Zero: unreadable.
func instant(text string) time.Time {
	text = strings.TrimSpace(text)
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t.UTC()
	}
	whole, fraction, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 40) // years up to 19,000
	if err != nil || strings.Trim(fraction, "0123456789") != "" {
		return time.Time{}
	}
	nanoseconds, err := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, nanoseconds).UTC()
}

// ErrNotDemo means that Generate did not make the key in this process. Only a key of Generate is written to a file.
var ErrNotDemo = errors.New("only a key made for a demonstration can be written out")

// DemoCertificate returns a certificate file in MH's layout, for a key that Generate made. With this file, a
// demonstration starts like a real installation, from a .crt and a password. As in MH's files, the private key is in
// the clear. Errors: ErrNotDemo.
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
		PublicKey: llave{KeyType: "PUBLIC", Algorithm: "RSA", Encodied: encode(public), Format: "X.509", Clave: clave},
		PrivateKey: llave{KeyType: "PRIVATE", Algorithm: "RSA", Encodied: encode(private), Format: "PKCS#8",
			Clave: clave},
		NotBefore: epoch(notBefore), NotAfter: epoch(notAfter),
	}
	out, err := xml.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("encoding certificate: %w", err)
	}
	return append(out, '\n'), nil
}

// DemoSeal is Seal with only 1,000 iterations, for a key that Generate made. Errors: ErrNotDemo, and Seal's.
func DemoSeal(k *Key, passphrase []byte) ([]byte, error) {
	if k == nil || !k.demo {
		return nil, ErrNotDemo
	}
	return seal(k, passphrase, 1000)
}

func epoch(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }
