package bundle

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// envelope is the signed manifest: the JSON serialization of a JWS, flattened with one signature, general with several
// (RFC 7515 §7.2).
type envelope struct {
	Payload    string         `json:"payload"`
	Signatures []oneSignature `json:"signatures,omitempty"`
	oneSignature
}

// oneSignature has no unprotected header: nobody would have signed it.
type oneSignature struct {
	Protected string `json:"protected,omitempty"`
	Signature string `json:"signature,omitempty"`
}

// protected is the header that a signature covers.
type protected struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
}

var (
	envelopeNames  = regexp.MustCompile(`^(|payload|protected|signature|signatures(\[\d+\](\.(protected|signature))?)?)$`)
	protectedNames = regexp.MustCompile(`^(|alg|kid)$`)
)

// parseEnvelope reads a signed manifest and returns it with its payload. This is the only reader of the form in the
// house, so whoever admits a bundle and whoever opens it again cannot differ about what it says. It refuses members that
// the form does not have, in any other case of letters too, members that stand twice, anything behind, and base64url
// that could be written in another way. White space and the order of members are free: text writes them in one way.
func parseEnvelope(b []byte) (*envelope, []byte, error) {
	if len(b) > maxJWS {
		return nil, nil, fmt.Errorf("%w: %s has %d bytes, at most %d are taken", ErrTooLarge, signature, len(b), maxJWS)
	}
	e := new(envelope)
	if _, err := parseStrict(signature, b, envelopeNames, e); err != nil {
		return nil, nil, err
	}
	if e.oneSignature != (oneSignature{}) {
		if e.Signatures != nil {
			return nil, nil, fmt.Errorf("%w: %s has both signature and signatures", ErrFormat, signature)
		}
		e.Signatures = []oneSignature{e.oneSignature}
	}
	if len(e.Signatures) == 0 || len(e.Signatures) > maxSignatures {
		return nil, nil, fmt.Errorf("%w: %s bears %d signatures: 1 to %d are taken", ErrSignature, signature, len(e.Signatures), maxSignatures)
	}
	for i, s := range e.Signatures {
		header, err := decodeBase64(fmt.Sprintf("signatures[%d].protected", i), s.Protected)
		if err != nil {
			return nil, nil, err
		}
		var p protected
		if _, err := parseStrict(fmt.Sprintf("%s: signatures[%d].protected", signature, i), header, protectedNames, &p); err != nil {
			return nil, nil, err
		}
		if p.Algorithm != "EdDSA" {
			return nil, nil, fmt.Errorf("%w: signatures[%d].protected: the algorithm is %q, not EdDSA", ErrSignature, i, p.Algorithm)
		}
		if _, err := decodeBase64(fmt.Sprintf("signatures[%d].signature", i), s.Signature); err != nil {
			return nil, nil, err
		}
	}
	e.oneSignature = oneSignature{}
	payload, err := decodeBase64("payload", e.Payload)
	return e, payload, err
}

// text is the one way in which an envelope is written.
func (e *envelope) text() (string, error) {
	one := *e
	if len(one.Signatures) == 1 {
		one.oneSignature, one.Signatures = one.Signatures[0], nil
	}
	b, err := json.Marshal(one)
	if err != nil {
		return "", fmt.Errorf("encoding %s: %w", signature, err)
	}
	return string(b), nil
}

// decodeBase64 reads base64url without padding, line breaks, or bits that say nothing.
func decodeBase64(what, text string) ([]byte, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || text == "" || strings.ContainsAny(text, "\r\n") { // Go's decoder skips line breaks
		return nil, fmt.Errorf("%w: %s: %s is not base64url without padding", ErrFormat, signature, what)
	}
	return b, nil
}
