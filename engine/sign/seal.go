package sign

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// iterations of PBKDF2-HMAC-SHA512 between the passphrase and the key: about 0.4 s to open. go-jose refuses to open
// more than a million.
const iterations = 600_000

// minPassphrase is the least that Seal takes, in bytes. The iterations slow a guesser down; they do not save a word.
const minPassphrase = 12

// ErrSealed is a file that is not a sealed key.
var ErrSealed = errors.New("not a sealed key (JWE compact, PBES2-HS512+A256KW, A256GCM)")

// headerUntil is the protected header that keeps Key.NotAfter, in seconds since 1970 as RFC 7519 has it.
const headerUntil jose.HeaderKey = "exp"

// Seal encrypts a key for the disk: JWE compact (RFC 7516) of its PKCS#8, PBES2-HS512+A256KW with A256GCM. It takes
// about 0.4 s.
func Seal(k *Key, passphrase []byte) ([]byte, error) { return seal(k, passphrase, iterations) }

// seal takes the iterations, so that tests need not wait.
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
		return nil, fmt.Errorf("sealing key: the passphrase has %d bytes, want %d or more", len(passphrase), minPassphrase)
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

// Open decrypts what Seal made. Errors: ErrSealed; ErrPassword, also for a file that was altered, which looks the
// same; ErrKey.
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
