package sign

import (
	"crypto/ed25519"
	"crypto/x509"
	"fmt"
)

// SealPrivate encrypts an Ed25519 key for the disk as Seal does the issuer's: the director's key of a chain (see engine/fleet).
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

// OpenPrivate decrypts what SealPrivate made. Errors: ErrSealed; ErrPassword, also for a file that was altered.
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
