package sign

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestParsePEM(t *testing.T) {
	der, err := x509.MarshalPKCS8PrivateKey(testKey().private)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := x509.MarshalPKCS8PrivateKey(curve)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"pkcs8": {block("PRIVATE KEY", der), nil},
		"behind a certificate": {"Bag Attributes\n" + block("CERTIFICATE", []byte("x")) + block("PRIVATE KEY",
			der), nil},
		"encrypted":                 {block("ENCRYPTED PRIVATE KEY", der), ErrEncrypted},
		"encrypted under clear tag": {block("PRIVATE KEY", encryptedInfo(t)), ErrEncrypted},
		"pkcs1":                     {block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(testKey().private)), ErrKey},
		"not rsa":                   {block("PRIVATE KEY", other), ErrKey},
		"cut":                       {block("PRIVATE KEY", der[:len(der)/2]), ErrKey},
		"no block":                  {"MIIE", ErrKey},
		"empty":                     {"", ErrKey},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := ParsePEM([]byte(c.text))
			if !errors.Is(err, c.want) || (k == nil) != (c.want != nil) {
				t.Fatalf("got %v, %v", k, err)
			}
			if err == nil && k.Check() != nil {
				t.Error("the key does not pass its check")
			}
		})
	}
}

// encryptedInfo is an EncryptedPrivateKeyInfo, PBES2, of random octets.
func encryptedInfo(t *testing.T) []byte {
	t.Helper()
	b, err := hex.DecodeString("301c" + "300b" + "06092a864886f70d01050d" + "040d" + "00112233445566778899aabbcc")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCertificate_Parts(t *testing.T) {
	b, err := DemoCertificate(testKey(), "06140101901019", "clave", time.Unix(1_767_225_600, 0),
		time.Unix(1_924_991_999, 0))
	if err != nil {
		t.Fatal(err)
	}
	good := string(b)
	second, err := Generate(2048)
	if err != nil {
		t.Fatal(err)
	}
	public := func(k *Key) string {
		der, err := x509.MarshalPKIXPublicKey(k.Public())
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(der)
	}
	private, err := x509.MarshalPKCS8PrivateKey(testKey().private)
	if err != nil {
		t.Fatal(err)
	}
	text := base64.StdEncoding.EncodeToString(private)
	if strings.Count(good, text) != 1 || strings.Count(good, public(testKey())) != 1 {
		t.Fatal("the certificate is not what this test edits")
	}
	for name, c := range map[string]struct {
		file string
		want error
		says string
	}{
		"line breaks in base64": {strings.Replace(good, text, text[:64]+"\n  "+text[64:], 1), nil, ""},
		"upper-case digest":     {upperDigest(good), nil, ""},
		"no public key":         {strings.Replace(good, public(testKey()), "", 1), nil, ""},
		"illegible validity":    {strings.Replace(good, "1924991999.000000000", "mañana", 1), nil, ""},
		"no private key":        {strings.Replace(good, text, "", 1), ErrCertificate, "privateKey/encodied"},
		"no nit":                {strings.Replace(good, "06140101901019", "", 1), ErrCertificate, "nit"},
		"no digest":             {dropDigest(good), ErrCertificate, "privateKey/clave"},
		"another public key": {strings.Replace(good, public(testKey()), public(second), 1), ErrCertificate,
			"public key"},
		"encrypted key": {strings.Replace(good, text, base64.StdEncoding.EncodeToString(encryptedInfo(t)), 1),
			ErrEncrypted, ""},
		"not base64":           {strings.Replace(good, text, "***", 1), ErrKey, "base64"},
		"cut":                  {good[:len(good)/2], ErrCertificate, "line 1"},
		"another root":         {strings.ReplaceAll(good, "CertificadoMH", "Certificado"), ErrCertificate, ""},
		"two certificates":     {good + good, ErrCertificate, "after its end"},
		"a tag cut at the end": {good + "<", ErrCertificate, "line 2"},
		"an end too many":      {good + "</CertificadoMH>", ErrCertificate, "line 2"},
		"a comment at the end": {good + "<!-- -->", ErrCertificate, "after its end"},
		"too big":              {good + strings.Repeat(" ", maxCertificate), ErrCertificate, "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			k, certificate, err := ParseCertificate([]byte(c.file), "clave")
			if !errors.Is(err, c.want) || (k == nil) != (c.want != nil) {
				t.Fatalf("got %v, %v", k, err)
			}
			if err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), text[:40]) ||
				certificate != Certificate{}) {
				t.Errorf("error %q, certificate %+v", err, certificate)
			}
		})
	}
}

const openClave, closeClave = "<clave>", "</clave>"

func upperDigest(file string) string {
	from := strings.LastIndex(file, openClave) + len(openClave)
	until := strings.LastIndex(file, closeClave)
	return file[:from] + strings.ToUpper(file[from:until]) + file[until:]
}

func dropDigest(file string) string {
	return file[:strings.LastIndex(file, openClave)] + file[strings.LastIndex(file, closeClave)+len(closeClave):]
}

func TestDemoCertificate_OnlyOfDemoKeys(t *testing.T) {
	sealed, err := seal(testKey(), []byte("correct horse battery"), 1000)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := Open(sealed, []byte("correct horse battery"))
	if err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]*Key{"opened": opened, "nil": nil, "zero": {}} {
		if b, err := DemoCertificate(k, "1", "clave", time.Time{}, time.Time{}); !errors.Is(err, ErrNotDemo) ||
			b != nil {
			t.Errorf("%s key: %v", name, err)
		}
	}
}

func TestKey_Sizes(t *testing.T) {
	for _, bits := range []int{0, 1023, 8193} {
		if _, err := Generate(bits); !errors.Is(err, ErrKey) {
			t.Errorf("%d bits: %v", bits, err)
		}
	}
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(small)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parsePKCS8(der); !errors.Is(err, ErrKey) {
		t.Errorf("a key of 1024 bits: %v", err)
	}
}

// Neither the file on disk nor anything printed holds one of the key's numbers, in any of the usual spellings.
func TestKey_NothingLeaks(t *testing.T) {
	k := testKey()
	sealed, err := seal(k, []byte("correct horse battery"), 1000)
	if err != nil {
		t.Fatal(err)
	}
	var log, encoded bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", k, "value", *k, "in", struct{ k *Key }{k}, "in",
		struct{ k Key }{*k})
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", k, "value", *k)
	j, err := json.Marshal([]any{k, *k, map[string]any{"k": k}, struct{ K Key }{*k}})
	if err != nil {
		t.Fatal(err)
	}
	_ = gob.NewEncoder(&encoded).Encode(k) // refused, or empty
	shown := []string{string(sealed), log.String(), string(j), encoded.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p", "%t"} {
		shown = append(shown, fmt.Sprintf(verb, k), fmt.Sprintf(verb, *k), fmt.Sprintf(verb, struct{ k Key }{*k}),
			fmt.Sprintf(verb, []*Key{k}), fmt.Sprintf(verb, New(k)), fmt.Sprintf(verb, New(k).Right([16]byte{},
				"normal")))
	}
	for _, part := range strings.Split(strings.TrimSpace(string(sealed)), ".") {
		b, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, string(b))
	}
	for _, secret := range k.private.Primes {
		for _, spelling := range []string{
			string(secret.Bytes()), secret.String(), hex.EncodeToString(secret.Bytes()),
			strings.ToUpper(hex.EncodeToString(secret.Bytes())),
			base64.StdEncoding.EncodeToString(secret.Bytes()), base64.RawURLEncoding.EncodeToString(secret.Bytes()),
		} {
			for _, s := range shown {
				if strings.Contains(s, spelling[:24]) {
					t.Fatalf("a prime stands in %.60q", s)
				}
			}
		}
	}
}

func TestSign_AtTheGate(t *testing.T) {
	s := New(testKey())
	s.gate = make(chan struct{}, 1)
	s.gate <- struct{}{} // another signature is being made
	ctx, cancel := context.WithCancel(t.Context())
	r := s.Right([16]byte{1}, "normal")
	done := make(chan error)
	go func() { _, err := r.Sign(ctx, []byte("{}")); done <- err }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	<-s.gate
	if _, err := r.Sign(t.Context(), []byte("{}")); !errors.Is(err, ErrSpent) {
		t.Errorf("an abandoned right signs: %v", err)
	}
	for range 20 { // a select between the two would let half of them through
		if jws, err := s.Right([16]byte{1}, "normal").Sign(ctx, []byte("{}")); !errors.Is(err, context.Canceled) ||
			jws != nil {
			t.Fatalf("signed for a caller that is gone: %v", err)
		}
	}
	soon, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for range 2 {
		if _, err := s.Right([16]byte{1}, "normal").Sign(soon, []byte("{}")); err != nil {
			t.Fatalf("the gate is left shut: %v", err)
		}
	}
}

func TestOpen_NotAKeyFile(t *testing.T) {
	for _, text := range []string{"", "a.b.c.d.e", "-----BEGIN PRIVATE KEY-----", `{"protected":"e30"}`} {
		if _, err := Open([]byte(text), []byte("correct horse battery")); !errors.Is(err, ErrSealed) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
