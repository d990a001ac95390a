// Package sign has the issuer's RSA key and the right to use it. It reads a key from MH's certificate file
// ([ParseCertificate]) or a PKCS#8 PEM ([ParsePEM]), and keeps it on disk only under a passphrase ([Seal], [Open]). In
// memory a key can only make a JWS compact with the header {"alg":"RS512"}, as MH's own signer does (svfe-api-firmador
// 2.0.0, jose4j). A key cannot be printed, logged or encoded.
//
// A document is signed with a [Right] to one form of the document: a Right signs once.
package sign

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Sizes of a key's modulus, in bits. MH's certificates have 2048.
const (
	minBits = 2048
	maxBits = 8192
)

var (
	// ErrEncrypted means that a private key is itself encrypted. MH's certificates have an unencrypted key.
	ErrEncrypted = errors.New("the private key is encrypted (PKCS#8 EncryptedPrivateKeyInfo): an unencrypted one is " +
		"needed")
	// ErrKey means that a private key cannot sign RS512 for MH: not PKCS#8, not RSA, or of an unused size.
	ErrKey = errors.New("not a usable RSA private key")
)

// Key is a private RSA key that stays inside this package. Many goroutines may use it.
type Key struct {
	private *rsa.PrivateKey // a pointer: no fmt verb prints the key inside
	demo    bool            // made by Generate in this process
	until   time.Time
}

// NotAfter returns when the key's certificate ends; zero if the end is unknown, as for a PEM.
func (k *Key) NotAfter() time.Time { return k.until }

// Generate makes a new key of the given size in bits, 1024 to 8192. It is for demonstrations and tests: MH does not
// know it. A key of less than 2048 bits signs six times as fast, for tests with millions of signatures; ParsePEM,
// ParseCertificate and Open refuse it.
func Generate(bits int) (*Key, error) {
	const least = 1024 // the minimum of crypto/rsa
	if bits < least || bits > maxBits {
		return nil, fmt.Errorf("%w: %d bits, want %d to %d", ErrKey, bits, least, maxBits)
	}
	private, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return nil, fmt.Errorf("generating key: %w", err)
	}
	return &Key{private: private, demo: true}, nil
}

// ParsePEM reads an unencrypted PKCS#8 private key, after any certificates. Errors: ErrEncrypted, ErrKey.
func ParsePEM(data []byte) (*Key, error) {
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			return nil, fmt.Errorf("%w: no PEM block \"PRIVATE KEY\"", ErrKey)
		}
		switch block.Type {
		case "PRIVATE KEY":
			defer clear(block.Bytes)
			return parsePKCS8(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			return nil, ErrEncrypted
		case "RSA PRIVATE KEY":
			return nil, fmt.Errorf("%w: PKCS#1, convert it with \"openssl pkcs8 -topk8 -nocrypt\"", ErrKey)
		}
		data = rest
	}
}

func parsePKCS8(der []byte) (*Key, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		if encrypted(der) {
			return nil, ErrEncrypted
		}
		// The parser's error names structures, never values.
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	private, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%w: it is %T", ErrKey, parsed)
	}
	if bits := private.N.BitLen(); bits < minBits || bits > maxBits {
		return nil, fmt.Errorf("%w: %d bits, want %d to %d", ErrKey, bits, minBits, maxBits)
	}
	return &Key{private: private}, nil
}

// encrypted reports whether the DER is an EncryptedPrivateKeyInfo (RFC 5958 §3).
func encrypted(der []byte) bool {
	var info struct {
		Algorithm struct {
			ID         asn1.ObjectIdentifier
			Parameters asn1.RawValue `asn1:"optional"`
		}
		Data []byte
	}
	rest, err := asn1.Unmarshal(der, &info)
	return err == nil && len(rest) == 0
}

// Public returns the key that verifies the signatures.
func (k *Key) Public() *rsa.PublicKey { return &k.private.PublicKey }

// Check signs a few bytes and verifies them with a second implementation of JWS.
func (k *Key) Check() error {
	if k == nil || k.private == nil {
		return fmt.Errorf("%w: empty", ErrKey)
	}
	probe := []byte(`{"prueba":"firma"}`)
	compact, err := signCompact(k, probe)
	if err != nil {
		return fmt.Errorf("making a test signature: %w", err)
	}
	jws, err := jose.ParseSignedCompact(string(compact), []jose.SignatureAlgorithm{jose.RS512})
	if err != nil {
		return fmt.Errorf("reading the test signature: %w", err)
	}
	got, err := jws.Verify(k.Public())
	if err != nil || string(got) != string(probe) {
		return fmt.Errorf("%w: its test signature does not verify", ErrKey)
	}
	return nil
}

// String, MarshalText and Format (for every verb of fmt) show only that there is a key.
func (Key) String() string               { return "[signing key]" }
func (Key) MarshalText() ([]byte, error) { return []byte("[signing key]"), nil }
func (Key) Format(f fmt.State, _ rune)   { _, _ = io.WriteString(f, "[signing key]") }

// SealPrivate encrypts the Ed25519 key of a chain's director for the disk, as Seal does.
func SealPrivate(k ed25519.PrivateKey, passphrase []byte) ([]byte, error) {
	return sealPrivate(k, passphrase, iterations)
}

func sealPrivate(k ed25519.PrivateKey, passphrase []byte, iterations int) ([]byte, error) {
	if len(k) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("sealing key: it has %d bytes, an Ed25519 key has %d", len(k), ed25519.PrivateKeySize)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, fmt.Errorf("encoding key: %w", err)
	}
	defer clear(der)
	return sealDER(der, passphrase, iterations, nil)
}

// OpenPrivate decrypts a file of SealPrivate. Errors: ErrSealed; ErrPassword, even if the file was altered.
func OpenPrivate(sealed, passphrase []byte) (ed25519.PrivateKey, error) {
	_, der, err := openDER(sealed, passphrase)
	if err != nil {
		return nil, err
	}
	defer clear(der)
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSealed, err)
	}
	k, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%w: it holds %T, not an Ed25519 key", ErrSealed, parsed)
	}
	return k, nil
}

// iterations is the number of iterations of PBKDF2-HMAC-SHA512 from the passphrase to the key. With it, opening takes
// about 0.4 s. go-jose refuses to open a file with more than a million.
const iterations = 600_000

// minPassphrase is the shortest passphrase of Seal, in bytes: a single word would not be safe.
const minPassphrase = 12

// ErrSealed means that a file is not a sealed key.
var ErrSealed = errors.New("not a sealed key (JWE compact, PBES2-HS512+A256KW, A256GCM)")

// headerUntil is the name of the protected header that contains Key.NotAfter, in seconds since 1970 (RFC 7519).
const headerUntil jose.HeaderKey = "exp"

// Seal encrypts a key for the disk in 0.4 s: JWE (RFC 7516) of its PKCS#8, PBES2-HS512+A256KW with A256GCM.
func Seal(k *Key, passphrase []byte) ([]byte, error) { return seal(k, passphrase, iterations) }

// seal is Seal with the number of iterations as a parameter, for demonstrations and tests.
func seal(k *Key, passphrase []byte, iterations int) ([]byte, error) {
	if k == nil || k.private == nil {
		return nil, fmt.Errorf("%w: empty", ErrKey)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return nil, fmt.Errorf("encoding key: %w", err)
	}
	defer clear(der)
	options := new(jose.EncrypterOptions)
	if !k.until.IsZero() {
		options.WithHeader(headerUntil, k.until.Unix())
	}
	return sealDER(der, passphrase, iterations, options)
}

func sealDER(der, passphrase []byte, iterations int, options *jose.EncrypterOptions) ([]byte, error) {
	if len(passphrase) < minPassphrase {
		return nil, fmt.Errorf("sealing key: the passphrase has %d bytes, want %d or more", len(passphrase),
			minPassphrase)
	}
	encrypter, err := jose.NewEncrypter(jose.A256GCM,
		jose.Recipient{Algorithm: jose.PBES2_HS512_A256KW, Key: passphrase, PBES2Count: iterations}, options)
	if err != nil {
		return nil, fmt.Errorf("preparing encryption: %w", err)
	}
	jwe, err := encrypter.Encrypt(der)
	if err != nil {
		return nil, fmt.Errorf("encrypting key: %w", err)
	}
	compact, err := jwe.CompactSerialize()
	if err != nil {
		return nil, fmt.Errorf("encoding sealed key: %w", err)
	}
	return append([]byte(compact), '\n'), nil
}

// Open decrypts a key that Seal encrypted. Errors: ErrSealed; ErrPassword, also for altered contents; ErrKey.
func Open(sealed, passphrase []byte) (*Key, error) {
	jwe, der, err := openDER(sealed, passphrase)
	if err != nil {
		return nil, err
	}
	defer clear(der)
	key, err := parsePKCS8(der)
	if seconds, ok := jwe.Header.ExtraHeaders[headerUntil].(float64); ok && err == nil {
		key.until = time.Unix(int64(seconds), 0).UTC()
	}
	return key, err
}

func openDER(sealed, passphrase []byte) (*jose.JSONWebEncryption, []byte, error) {
	jwe, err := jose.ParseEncryptedCompact(strings.TrimSpace(string(sealed)),
		[]jose.KeyAlgorithm{jose.PBES2_HS512_A256KW}, []jose.ContentEncryption{jose.A256GCM})
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrSealed, err)
	}
	der, err := jwe.Decrypt(passphrase)
	if err != nil {
		return nil, nil, fmt.Errorf("opening key file: %w", ErrPassword)
	}
	return jwe, der, nil
}

// ErrSpent means that a right to sign was used a second time.
var ErrSpent = errors.New("this right to sign is spent")

// Signer signs documents. It makes at most GOMAXPROCS signatures at a time, because more would not be faster.
type Signer struct {
	key  *Key
	gate chan struct{}
}

func New(k *Key) *Signer { return &Signer{key: k, gate: make(chan struct{}, runtime.GOMAXPROCS(0))} }

// Right is the right to sign one form of one document, once.
type Right struct {
	signer *Signer
	code   [16]byte
	form   string
	spent  atomic.Bool
}

// Right makes the right to sign a document in a form (normal, contingency, or a correction). Only a Right can sign.
func (s *Signer) Right(code [16]byte, form string) *Right {
	return &Right{signer: s, code: code, form: form}
}

// Sign signs a payload and spends the right. It returns the JWS compact, RS512, with only the header {"alg":"RS512"}
// and exactly the given bytes (MH's signer, svfe-api-firmador 2.0.0). A second call returns ErrSpent.
func (r *Right) Sign(ctx context.Context, payload []byte) ([]byte, error) {
	if r.spent.Swap(true) {
		return nil, fmt.Errorf("%w: %s form of %x", ErrSpent, r.form, r.code)
	}
	if err := ctx.Err(); err != nil { // needed because select would choose at random if the gate is free
		return nil, fmt.Errorf("waiting to sign: %w", err)
	}
	select {
	case r.signer.gate <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting to sign: %w", ctx.Err())
	}
	defer func() { <-r.signer.gate }()
	return signCompact(r.signer.key, payload)
}

// header is {"alg":"RS512"} in base64url, followed by a dot: no typ, no kid, no x5c, as in MH's signer.
const header = "eyJhbGciOiJSUzUxMiJ9."

// signCompact makes the JWS compact (RFC 7515 §7.1) by hand. go-jose's signer encodes header and payload twice: 20 to
// 40 µs and 36 allocations more for a document of ten lines. Check compares the two implementations.
func signCompact(k *Key, payload []byte) ([]byte, error) {
	encoding := base64.RawURLEncoding
	n := len(header) + encoding.EncodedLen(len(payload))
	b := make([]byte, n, n+1+encoding.EncodedLen(k.private.Size()))
	copy(b, header)
	encoding.Encode(b[len(header):], payload)
	digest := sha512.Sum512(b)
	signature, err := rsa.SignPKCS1v15(nil, k.private, crypto.SHA512, digest[:])
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	return encoding.AppendEncode(append(b, '.'), signature), nil
}

// ErrForeign means that a JWS was not made by Sign with this key.
var ErrForeign = errors.New("not a signature of this key")

// Verify returns nil if the signer's own key made the JWS, otherwise ErrForeign, even if an earlier key made it.
func (s *Signer) Verify(jws []byte) error { return Verify(s.key.Public(), jws) }

// Verify returns nil if Sign made the JWS with the private key of a public key, otherwise ErrForeign.
func Verify(by *rsa.PublicKey, jws []byte) error {
	dot := bytes.LastIndexByte(jws, '.')
	if !bytes.HasPrefix(jws, []byte(header)) || dot < len(header) {
		return ErrForeign
	}
	signature, err := base64.RawURLEncoding.AppendDecode(nil, jws[dot+1:])
	if err != nil {
		return ErrForeign
	}
	digest := sha512.Sum512(jws[:dot])
	if rsa.VerifyPKCS1v15(by, crypto.SHA512, digest[:], signature) != nil {
		return ErrForeign
	}
	return nil
}
