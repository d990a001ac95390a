package bundle

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"

	"dtegate/rules/signed"
)

// Key is a public key that may sign bundles, Signer one that signs them.
type (
	Key    = signed.Key
	Signer = signed.Signer
)

// faults are what a signed manifest is refused for.
var faults = signed.Faults{Format: ErrFormat, TooLarge: ErrTooLarge, Signature: ErrSignature}

// Keys are the public keys that an appliance pins, and how many different ones must have signed a bundle: at least
// one. To rotate: pin the new key beside the old one everywhere, sign with both (Cosign), then unpin the old one.
type Keys struct {
	Pinned    []Key
	Threshold int
}

// Check tells what is wrong with a set of pinned keys, so that a slip in the configuration is found at start and not
// by a bundle that nobody can sign.
func (k Keys) Check() error {
	var faults []error
	different := 0
	for i, key := range k.Pinned {
		if len(key.Public) != ed25519.PublicKeySize {
			faults = append(faults, fmt.Errorf("rules key %q: it is not an Ed25519 key", key.ID))
		}
		twin := slices.IndexFunc(k.Pinned[:i], func(o Key) bool { return o.ID == key.ID || o.Public.Equal(key.Public) })
		if twin >= 0 {
			faults = append(faults, fmt.Errorf("rules key %q: it has the name or the key of %q", key.ID, k.Pinned[twin].ID))
			continue
		}
		different++
	}
	if need := max(1, k.Threshold); different < need {
		faults = append(faults, fmt.Errorf("rules threshold: %d different keys are pinned, %d must sign", different, need))
	}
	return errors.Join(faults...)
}

// Vouch returns the IDs of the pinned keys that have signed a bundle. ErrSignature when they are too few.
func (k Keys) Vouch(b *Bundle) (signers []string, err error) {
	for i, key := range k.Pinned {
		if slices.ContainsFunc(k.Pinned[:i], func(o Key) bool { return o.Public.Equal(key.Public) }) {
			continue // the same key under two names is one signer
		}
		ok, err := signed.SignedBy(b.signed, b.payload, key.Public)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSignature, err)
		}
		if ok {
			signers = append(signers, key.ID)
		}
	}
	if need := max(1, k.Threshold); len(signers) < need {
		return signers, fmt.Errorf("%w: %d of the %d pinned keys have signed (%s), %d must", ErrSignature, len(signers), len(k.Pinned), strings.Join(signers, ", "), need)
	}
	return signers, nil
}

// vouch is Vouch for a bundle that is being read.
func (k Keys) vouch(b *Bundle) error {
	signers, err := k.Vouch(b)
	b.Signers = signers
	return err
}

func sign(payload []byte, signers []Signer) (string, error) {
	text, err := signed.Sign(payload, signers...)
	if err != nil {
		return "", fmt.Errorf("signing bundle: %w", err)
	}
	return text, nil
}

// Cosign adds a signature to a bundle that one of the known keys has signed, so that the signers of a threshold need
// not share a machine. The bundle keeps its digest.
func Cosign(data []byte, known []Key, s Signer) ([]byte, error) {
	b, err := Keys{Pinned: known}.Read(data)
	if err != nil {
		return nil, fmt.Errorf("adding a signature: %w", err)
	}
	added, err := sign(b.payload, []Signer{s})
	if err != nil {
		return nil, err
	}
	merged, err := merge(b.signed, added)
	if err != nil {
		return nil, fmt.Errorf("adding a signature: %w", err)
	}
	return pack(merged, b.Parts)
}

// merge gives the serialization of two over the same payload.
func merge(first, second string) (string, error) {
	a, _, err := signed.ParseEnvelope(signature, []byte(first), faults)
	if err != nil {
		return "", err
	}
	b, _, err := signed.ParseEnvelope(signature, []byte(second), faults)
	if err != nil {
		return "", err
	}
	a.Signatures = append(a.Signatures, b.Signatures...)
	return a.Text()
}
