package bundle

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
)

var (
	ErrFormat    = errors.New("not a rule bundle")
	ErrSignature = errors.New("not signed by enough pinned keys")
	ErrDigest    = errors.New("a part is not the one that was signed")
	ErrTooLarge  = errors.New("larger than a rule bundle may be")
)

const (
	signature  = "manifest.jws"
	maxBundle  = 32 << 20 // bytes, packed and unpacked alike
	maxParts   = 1000
	maxJWS     = 1 << 20
	moduleName = "module.wasm"
)

// Bundle is a bundle whose signature and digests hold.
type Bundle struct {
	Manifest Manifest
	Digest   string // SHA-256 of the signed manifest, in hex: names the bundle
	Parts    map[string][]byte
}

// Key is a public key that may sign bundles.
type Key struct {
	ID     string
	Public ed25519.PublicKey
}

// Signer is a key that signs bundles.
type Signer struct {
	ID      string
	Private ed25519.PrivateKey
}

// Read opens a bundle that at least threshold different pinned keys have signed. The signature is checked before
// anything else is looked at.
func Read(data []byte, pinned []Key, threshold int) (*Bundle, error) {
	if len(data) > maxBundle {
		return nil, ErrTooLarge
	}
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if len(archive.File) == 0 || len(archive.File) > maxParts || archive.File[0].Name != signature {
		return nil, fmt.Errorf("%w: its first file must be %s", ErrFormat, signature)
	}
	signed, err := readFile(archive.File[0], maxJWS)
	if err != nil {
		return nil, err
	}
	payload, err := verify(signed, pinned, threshold)
	if err != nil {
		return nil, err
	}
	b := &Bundle{Parts: make(map[string][]byte)}
	if b.Manifest, err = parseManifest(payload); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(payload)
	b.Digest = hex.EncodeToString(sum[:])
	room := int64(maxBundle)
	for _, f := range archive.File[1:] {
		want, named := b.Manifest.Parts[f.Name]
		if _, twice := b.Parts[f.Name]; !named || twice {
			return nil, fmt.Errorf("%w: %s is not a part of the manifest, or stands twice", ErrDigest, f.Name)
		}
		part, err := readFile(f, room)
		if err != nil {
			return nil, err
		}
		room -= int64(len(part))
		if sum := sha256.Sum256(part); hex.EncodeToString(sum[:]) != want {
			return nil, fmt.Errorf("%w: %s", ErrDigest, f.Name)
		}
		b.Parts[f.Name] = part
	}
	for name := range b.Manifest.Parts {
		if _, ok := b.Parts[name]; !ok {
			return nil, fmt.Errorf("%w: %s is missing", ErrDigest, name)
		}
	}
	return b, b.complete()
}

// complete checks that a bundle has the parts of its kind.
func (b *Bundle) complete() error {
	needs := map[string][]string{"document": {moduleName, "schema.json", "overlay.json"}, "event": {"schema.json", "overlay.json"}, "catalogue": {"catalogues.json"}}
	for _, name := range needs[b.Manifest.Kind] {
		if _, ok := b.Parts[name]; !ok {
			return fmt.Errorf("%w: a bundle of kind %s needs the part %s", ErrFormat, b.Manifest.Kind, name)
		}
	}
	return nil
}

func readFile(f *zip.File, limit int64) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, f.Name, err)
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, f.Name, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%w: %s", ErrTooLarge, f.Name)
	}
	return b, nil
}

// verify returns the payload of a JWS with at least threshold good signatures of different pinned keys.
func verify(signed []byte, pinned []Key, threshold int) ([]byte, error) {
	jws, err := jose.ParseSignedJSON(string(signed), []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	var payload []byte
	good := 0
	for i, k := range pinned {
		if slices.ContainsFunc(pinned[:i], func(o Key) bool { return o.Public.Equal(k.Public) }) {
			continue // the same key under two names is one signer
		}
		if p, ok := verifyOne(jws, k.Public); ok {
			payload = p
			good++
		}
	}
	if good < max(1, threshold) {
		return nil, fmt.Errorf("%w: %d of %d needed", ErrSignature, good, max(1, threshold))
	}
	return payload, nil
}

func verifyOne(jws *jose.JSONWebSignature, public ed25519.PublicKey) ([]byte, bool) {
	if len(jws.Signatures) == 1 {
		p, err := jws.Verify(public)
		return p, err == nil
	}
	_, _, p, err := jws.VerifyMulti(public)
	return p, err == nil
}

// Write signs a bundle. The same parts and keys give the same bytes.
func Write(parts map[string][]byte, m Manifest, signers ...Signer) ([]byte, error) {
	m.Parts = make(map[string]string, len(parts))
	for name, part := range parts {
		sum := sha256.Sum256(part)
		m.Parts[name] = hex.EncodeToString(sum[:])
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	b := &Bundle{Manifest: m, Parts: parts}
	if err := b.complete(); err != nil {
		return nil, err
	}
	payload, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding manifest: %w", err)
	}
	signed, err := sign(payload, signers)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	if err := addFile(w, signature, []byte(signed)); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if err := addFile(w, name, parts[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("writing bundle: %w", err)
	}
	return out.Bytes(), nil
}

func sign(payload []byte, signers []Signer) (string, error) {
	var keys []jose.SigningKey
	for _, s := range signers {
		keys = append(keys, jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: s.Private, KeyID: s.ID}})
	}
	signer, err := jose.NewMultiSigner(keys, nil)
	if err != nil {
		return "", fmt.Errorf("signing bundle: %w", err)
	}
	jws, err := signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("signing bundle: %w", err)
	}
	return jws.FullSerialize(), nil
}

func addFile(w *zip.Writer, name string, data []byte) error {
	f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err == nil {
		_, err = f.Write(data)
	}
	if err != nil {
		return fmt.Errorf("writing bundle: %w", err)
	}
	return nil
}
