package signed

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

const (
	maxEnvelope = 1 << 20 // bytes
	// MaxSignatures limits the signatures of one envelope: each is verified with each tried key.
	MaxSignatures = 16
)

// Envelope is a signed document: a JWS in JSON (RFC 7515 §7.2), in the flattened form if it has one signature, in the
// general form if it has several. Every signature is Ed25519.
type Envelope struct {
	Payload    string      `json:"payload"`
	Signatures []Signature `json:"signatures,omitempty"`
	// Protected and Signature belong to the flattened form; empty in a parsed Envelope
	Protected string `json:"protected,omitempty"`
	Signature string `json:"signature,omitempty"`
}

// Signature has no unprotected header, because no signature would cover it.
type Signature struct {
	Protected string `json:"protected,omitempty"`
	Signature string `json:"signature,omitempty"`
}

// Key is a public key that may sign.
type Key struct {
	ID     string
	Public ed25519.PublicKey
}

// Signer is a key that signs.
type Signer struct {
	ID      string
	Private ed25519.PrivateKey
}

// Faults are the caller's sentinel errors. Every error of ParseEnvelope wraps one of them.
type Faults struct {
	Format    error // the envelope is malformed
	TooLarge  error
	Signature error // the envelope has the right form, but no usable signature
}

type protected struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
}

// ParseEnvelope reads a signed document and returns it with its payload. It does not verify signatures. It is the only
// reader of envelopes, so that all see the same content. It refuses what Form.Parse refuses, and non-canonical
// base64url. It accepts any white space and member order, although Text writes one form. name is the file's name in
// errors.
func ParseEnvelope(name string, b []byte, f Faults) (*Envelope, []byte, error) {
	if len(b) > maxEnvelope {
		return nil, nil, fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", f.TooLarge, name, len(b),
			maxEnvelope)
	}
	e := new(Envelope)
	if _, err := (Form{Name: name, Wrong: f.Format}).Parse(b, e); err != nil {
		return nil, nil, err
	}
	if flat := (Signature{e.Protected, e.Signature}); flat != (Signature{}) {
		if e.Signatures != nil {
			return nil, nil, fmt.Errorf("%w: %s has both signature and signatures", f.Format, name)
		}
		e.Signatures, e.Protected, e.Signature = []Signature{flat}, "", ""
	}
	if len(e.Signatures) == 0 {
		return nil, nil, fmt.Errorf("%w: it is unsigned: %s has no signature", f.Signature, name)
	}
	if len(e.Signatures) > MaxSignatures {
		return nil, nil, fmt.Errorf("%w: %s has %d signatures: at most %d are allowed", f.Signature, name,
			len(e.Signatures), MaxSignatures)
	}
	decode := func(what, text string) ([]byte, error) {
		decoded, err := base64.RawURLEncoding.Strict().DecodeString(text)
		if err != nil || text == "" || strings.ContainsAny(text, "\r\n") { // Go's decoder skips line breaks
			return nil, fmt.Errorf("%w: %s: %s is not base64url without padding", f.Format, name, what)
		}
		return decoded, nil
	}
	for i, s := range e.Signatures {
		header, err := decode(fmt.Sprintf("signatures[%d].protected", i), s.Protected)
		if err != nil {
			return nil, nil, err
		}
		var p protected
		form := Form{Name: fmt.Sprintf("%s: signatures[%d].protected", name, i), Wrong: f.Format}
		if _, err := form.Parse(header, &p); err != nil {
			return nil, nil, err
		}
		if p.Algorithm != "EdDSA" {
			return nil, nil, fmt.Errorf("%w: signatures[%d].protected: the algorithm is %q, not EdDSA", f.Signature, i,
				p.Algorithm)
		}
		if _, err := decode(fmt.Sprintf("signatures[%d].signature", i), s.Signature); err != nil {
			return nil, nil, err
		}
	}
	payload, err := decode("payload", e.Payload)
	return e, payload, err
}

// Text encodes an envelope; the same envelope always gives the same text.
func (e *Envelope) Text() (string, error) {
	one := *e
	if len(one.Signatures) == 1 {
		one.Protected, one.Signature, one.Signatures = one.Signatures[0].Protected, one.Signatures[0].Signature, nil
	}
	b, err := json.Marshal(one)
	if err != nil {
		return "", fmt.Errorf("encoding a signed document: %w", err)
	}
	return string(b), nil
}

// Found is a signature of an envelope. The name proves nothing, because the signer has chosen it.
type Found struct {
	Named string // the name that the signature gives its key
	Fits  bool   // one of the given keys, whose ID is Key, made the signature
	Key   string
}

// Signatures finds which keys made the signatures of an envelope with this payload. The signatures that fit a key come
// first, in the order of the keys.
func Signatures(text string, payload []byte, keys []Key) (found []Found, err error) {
	jws, err := jose.ParseSignedJSON(text, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return nil, err
	}
	made := make(map[int]bool)
	for _, key := range keys {
		if len(key.Public) != ed25519.PublicKeySize {
			continue
		}
		at, verified, err := 0, []byte(nil), error(nil)
		if len(jws.Signatures) == 1 {
			verified, err = jws.Verify(key.Public)
		} else {
			at, _, verified, err = jws.VerifyMulti(key.Public)
		}
		if err == nil && bytes.Equal(verified, payload) {
			made[at] = true
			found = append(found, Found{Named: jws.Signatures[at].Protected.KeyID, Fits: true, Key: key.ID})
		}
	}
	for i, s := range jws.Signatures {
		if !made[i] {
			found = append(found, Found{Named: s.Protected.KeyID})
		}
	}
	return found, nil
}

// Sign returns a payload with the signatures of some keys, as the text of an envelope.
func Sign(payload []byte, signers ...Signer) (string, error) {
	var keys []jose.SigningKey
	for _, s := range signers {
		keys = append(keys, jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: s.Private, KeyID: s.ID}})
	}
	signer, err := jose.NewMultiSigner(keys, nil)
	if err != nil {
		return "", err
	}
	jws, err := signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return jws.FullSerialize(), nil
}
