package sign

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha512"
	"encoding/base64"
	"errors"
)

// ErrForeign means that a JWS was not signed with this key as Sign signs.
var ErrForeign = errors.New("not a signature of this key")

// Verify is nil when the signer's own key made the JWS. What an earlier key signed is foreign too.
func (s *Signer) Verify(jws []byte) error {
	dot := bytes.LastIndexByte(jws, '.')
	if !bytes.HasPrefix(jws, []byte(header)) || dot < len(header) {
		return ErrForeign
	}
	signature, err := base64.RawURLEncoding.AppendDecode(nil, jws[dot+1:])
	if err != nil {
		return ErrForeign
	}
	digest := sha512.Sum512(jws[:dot])
	if rsa.VerifyPKCS1v15(s.key.Public(), crypto.SHA512, digest[:], signature) != nil {
		return ErrForeign
	}
	return nil
}
