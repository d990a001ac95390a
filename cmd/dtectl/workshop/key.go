package workshop

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"

	"dtegate/cmd/dted/config"
	"dtegate/rules/bundle"
)

// NewKey makes a signing key, both halves as PEM.
func NewKey(path string) (ed25519.PrivateKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making rules key: %w", err)
	}
	secret, err := bundle.MarshalPrivate(private)
	if err != nil {
		return nil, err
	}
	open, err := bundle.MarshalPublic(public)
	if err != nil {
		return nil, err
	}
	if err := config.WriteFile(path, secret); err != nil {
		return nil, err
	}
	return private, config.WriteFile(path+".pub", open)
}
