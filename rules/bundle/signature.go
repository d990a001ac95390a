package bundle

import (
	"cmp"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dtegate/rules/signed"
)

// Key is the public key of a signer of bundles. Signer is a private key that signs.
type (
	Key    = signed.Key
	Signer = signed.Signer
)

var faults = signed.Faults{Format: ErrFormat, TooLarge: ErrTooLarge, Signature: ErrSignature}

// Keys are the public keys that an appliance pins, and how many different keys must have signed a bundle: at least one.
// To replace a key, pin the new key everywhere in addition to the old key, sign with both (Cosign), then unpin the old
// key.
type Keys struct {
	Pinned    []Key
	Threshold int
}

// Check returns the faults of a set of pinned keys. Call it when the program starts, before a mistake in the
// configuration makes a bundle fail.
func (k Keys) Check() error {
	var faults []error
	for i, key := range k.Pinned {
		if len(key.Public) != ed25519.PublicKeySize {
			faults = append(faults, fmt.Errorf("rules key %q: it is not an Ed25519 key", key.ID))
		}
		twin := slices.IndexFunc(k.Pinned[:i], func(o Key) bool { return o.ID == key.ID || o.Public.Equal(key.Public) })
		if twin >= 0 {
			faults = append(faults, fmt.Errorf("rules key %q: it has the name or the key of %q", key.ID,
				k.Pinned[twin].ID))
		}
	}
	if need := max(1, k.Threshold); len(k.Pinned) < need {
		faults = append(faults, fmt.Errorf("rules threshold: %d keys are pinned, %d must sign", len(k.Pinned), need))
	}
	return errors.Join(faults...)
}

// Vouch returns the IDs of the pinned keys that have signed a bundle. Error: ErrSignature if they are too few.
func (k Keys) Vouch(b *Bundle) (signers []string, err error) {
	found, err := k.try(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	for _, f := range found {
		if f.Fits {
			signers = append(signers, f.Key)
		}
	}
	if need := max(1, k.Threshold); len(signers) < need {
		return signers, fmt.Errorf("%w: %s, %d must", ErrSignature, k.missing(found, signers), need)
	}
	return signers, nil
}

// Misnamed returns a warning if a signature of a bundle names its key differently than this set does, otherwise "". A
// wrong name is harmless, because names prove nothing.
func (k Keys) Misnamed(b *Bundle) string {
	found, _ := k.try(b) // Vouch reports this error
	for _, f := range found {
		if f.Fits && f.Named != "" && f.Named != f.Key {
			return fmt.Sprintf("the signature calls its key %q, and that key is pinned here as %q: sign it with "+
				"--key-id %s", f.Named, f.Key, f.Key)
		}
	}
	return ""
}

// try finds which pinned keys have made the signatures of a bundle. One key under two names is one signer.
func (k Keys) try(b *Bundle) ([]signed.Found, error) {
	var different []Key
	for _, key := range k.Pinned {
		if !slices.ContainsFunc(different, func(o Key) bool { return o.Public.Equal(key.Public) }) {
			different = append(different, key)
		}
	}
	return signed.Signatures(b.signed, b.payload, different)
}

func (k Keys) missing(found []signed.Found, signers []string) string {
	text := fmt.Sprintf("%d of the %d pinned keys have signed", len(signers), len(k.Pinned))
	if len(signers) > 0 {
		return text + " (" + strings.Join(signers, ", ") + ")"
	}
	var pinned, strange []string
	for _, key := range k.Pinned {
		pinned = append(pinned, strconv.Quote(key.ID))
	}
	for _, f := range found {
		name := strconv.Quote(f.Named)
		if slices.Contains(pinned, name) {
			return fmt.Sprintf("%s: the signature that calls its key %s does not fit: the bundle was tampered with, "+
				"or another key of that name signed it", text, name)
		}
		strange = append(strange, name)
	}
	return fmt.Sprintf("%s: it is signed by %s, and pinned here are %s", text, strings.Join(strange, ", "),
		strings.Join(pinned, ", "))
}

// Cosign adds a signature to a bundle that one of the known keys has signed. The signers can thus work on different
// machines. The bundle keeps its digest.
func Cosign(data []byte, known []Key, s Signer) ([]byte, error) {
	b, err := Keys{Pinned: known}.Read(data)
	if err != nil {
		return nil, fmt.Errorf("adding a signature: %w", err)
	}
	added, err := signed.Sign(b.payload, s)
	if err != nil {
		return nil, fmt.Errorf("signing bundle: %w", err)
	}
	merged, err := merge(b.signed, added)
	if err != nil {
		return nil, fmt.Errorf("adding a signature: %w", err)
	}
	return pack(merged, b.Parts)
}

// merge returns an envelope with the signatures of two envelopes of one payload.
func merge(first, second string) (string, error) {
	a, _, err := signed.ParseEnvelope(signature, []byte(first), faults)
	b, _, bad := signed.ParseEnvelope(signature, []byte(second), faults)
	if err = cmp.Or(err, bad); err != nil {
		return "", err
	}
	a.Signatures = append(a.Signatures, b.Signatures...)
	return a.Text()
}

// MarshalPrivate encodes a signing key as PKCS#8 PEM. The result is secret.
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
