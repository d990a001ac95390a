package bundle

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
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
	Digest   string // SHA-256 of the signed manifest, in hex: names the bundle, whoever signed it
	Parts    map[string][]byte
	// Signers are the IDs of the pinned keys that signed it; none after Reopen.
	Signers []string

	payload []byte // the manifest as it is signed
	signed  string // the JWS around it
}

// Read opens a bundle that at least threshold different pinned keys have signed.
func Read(data []byte, pinned []Key, threshold int) (*Bundle, error) {
	return Keys{Pinned: pinned, Threshold: threshold}.Read(data)
}

// Read opens a bundle that enough of the keys have signed. The signature is checked before anything else is looked at.
func (k Keys) Read(data []byte) (*Bundle, error) {
	return read(data, k.verify)
}

// Reopen opens a bundle that this appliance has admitted before, by the digest in its own record: its keys may have
// been rotated since.
func Reopen(data []byte, digest string) (*Bundle, error) {
	return read(data, func(signed []byte) ([]byte, []string, error) {
		var jws serialized
		if err := json.Unmarshal(signed, &jws); err != nil {
			return nil, nil, fmt.Errorf("%w: %s: %w", ErrFormat, signature, err)
		}
		payload, err := base64.RawURLEncoding.DecodeString(jws.Payload)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %s: %w", ErrFormat, signature, err)
		}
		if got := sum(payload); got != digest {
			return nil, nil, fmt.Errorf("%w: the manifest has the digest %s, the record says %s", ErrDigest, got, digest)
		}
		return payload, nil, nil
	})
}

// read opens a bundle; trust gives the manifest that is signed and who vouches for it.
func read(data []byte, trust func(signed []byte) (payload []byte, signers []string, err error)) (*Bundle, error) {
	if len(data) > maxBundle {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are taken", ErrTooLarge, len(data), maxBundle)
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
	b := &Bundle{Parts: make(map[string][]byte), signed: string(signed)}
	if b.payload, b.Signers, err = trust(signed); err != nil {
		return nil, err
	}
	if b.Manifest, err = ParseManifest(b.payload); err != nil {
		return nil, err
	}
	b.Digest = sum(b.payload)
	if err := b.readParts(archive.File[1:]); err != nil {
		return nil, err
	}
	return b, b.complete()
}

// readParts reads the parts, each of which the manifest must name by its digest.
func (b *Bundle) readParts(files []*zip.File) error {
	room := int64(maxBundle)
	for _, f := range files {
		want, named := b.Manifest.Parts[f.Name]
		if _, twice := b.Parts[f.Name]; !named || twice {
			return fmt.Errorf("%w: %s is not a part of the manifest, or stands twice", ErrDigest, f.Name)
		}
		part, err := readFile(f, room)
		if err != nil {
			return err
		}
		room -= int64(len(part))
		if sum(part) != want {
			return fmt.Errorf("%w: %s", ErrDigest, f.Name)
		}
		b.Parts[f.Name] = part
	}
	for name := range b.Manifest.Parts {
		if _, ok := b.Parts[name]; !ok {
			return fmt.Errorf("%w: %s is missing", ErrDigest, name)
		}
	}
	return nil
}

// Cases are the bundle's golden cases, by name in order: the parts cases/*.json. What one holds is between the
// bundle's author and who runs it.
func (b *Bundle) Cases() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(b.Parts)), func(name string) bool {
		return !strings.HasPrefix(name, "cases/") || !strings.HasSuffix(name, ".json")
	})
}

// sum is the SHA-256 of data, in hex.
func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
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
	var b bytes.Buffer
	b.Grow(int(min(f.UncompressedSize64, uint64(limit))) + bytes.MinRead) // what it says of itself, which may be a lie
	if _, err := b.ReadFrom(io.LimitReader(r, limit+1)); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, f.Name, err)
	}
	if int64(b.Len()) > limit {
		return nil, fmt.Errorf("%w: %s has more than the %d bytes that are left for it", ErrTooLarge, f.Name, limit)
	}
	return b.Bytes(), nil
}

// Write signs a bundle. The same parts and keys give the same bytes.
func Write(parts map[string][]byte, m Manifest, signers ...Signer) ([]byte, error) {
	m.Parts = make(map[string]string, len(parts))
	for name, part := range parts {
		m.Parts[name] = sum(part)
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
	return pack(signed, parts)
}

// pack writes the archive. The same signature and parts give the same bytes.
func pack(signed string, parts map[string][]byte) ([]byte, error) {
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
