package document

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// protected is the only header that MH's own signer writes: RSASSA-PKCS1-v1_5 with SHA-512, no typ, kid or x5c.
const protected = `{"alg":"RS512"}`

// verify returns the payload of a compact JWS whose header is exactly protected and whose signature was made with the
// registered key.
func verify(jws string, key *rsa.PublicKey) ([]byte, error) {
	parts := strings.Split(jws, ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("%d parts instead of 3", len(parts))
	}
	var raw [3][]byte
	for i, part := range parts {
		var err error
		// Strict: no two texts may decode to the same signature.
		if raw[i], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil {
			return nil, fmt.Errorf("decoding part %d: %w", i+1, err)
		}
	}
	if string(raw[0]) != protected {
		return nil, fmt.Errorf("the header is %q", raw[0])
	}
	digest := sha512.Sum512([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(key, crypto.SHA512, digest[:], raw[2]); err != nil {
		return nil, fmt.Errorf("verifying: %w", err)
	}
	if len(raw[1]) == 0 {
		return nil, errors.New("nothing was signed")
	}
	return raw[1], nil
}
