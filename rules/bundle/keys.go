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

// ParsePrivate reads the form that MarshalPrivate writes.
func ParsePrivate(b []byte) (ed25519.PrivateKey, error) {
	return parseKey[ed25519.PrivateKey](b, x509.ParsePKCS8PrivateKey)
}

// ParsePublic reads the form that MarshalPublic writes.
func ParsePublic(b []byte) (ed25519.PublicKey, error) {
	return parseKey[ed25519.PublicKey](b, x509.ParsePKIXPublicKey)
}

func parseKey[K any](b []byte, parse func([]byte) (any, error)) (key K, err error) {
	block, _ := pem.Decode(b)
	if block == nil {
		return key, errors.New("reading rules key: not PEM")
	}
	k, err := parse(block.Bytes)
	if err != nil {
		return key, fmt.Errorf("reading rules key: %w", err)
	}
	key, ok := k.(K)
	if !ok {
		return key, errors.New("reading rules key: not an Ed25519 key")
	}
	return key, nil
}
