package bundle

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// MarshalPrivate encodes a signing key as PKCS#8 PEM. It is a secret.
func MarshalPrivate(k ed25519.PrivateKey) ([]byte, error) {
	b, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, fmt.Errorf("encoding rules key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b}), nil
}

// MarshalPublic encodes a public key as PKIX PEM.
func MarshalPublic(k ed25519.PublicKey) ([]byte, error) {
	b, err := x509.MarshalPKIXPublicKey(k)
	if err != nil {
		return nil, fmt.Errorf("encoding rules key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: b}), nil
}

// ParsePrivate reads what MarshalPrivate wrote.
func ParsePrivate(b []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, errors.New("reading rules key: not PEM")
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading rules key: %w", err)
	}
	if k, ok := k.(ed25519.PrivateKey); ok {
		return k, nil
	}
	return nil, errors.New("reading rules key: not an Ed25519 key")
}

// ParsePublic reads what MarshalPublic wrote.
func ParsePublic(b []byte) (ed25519.PublicKey, error) {
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, errors.New("reading rules key: not PEM")
	}
	k, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading rules key: %w", err)
	}
	if k, ok := k.(ed25519.PublicKey); ok {
		return k, nil
	}
	return nil, errors.New("reading rules key: not an Ed25519 key")
}
