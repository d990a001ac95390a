package bundle

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dtegate/rules/signed"
)

var (
	ErrFormat    = errors.New("not a rule bundle")
	ErrSignature = errors.New("not signed by enough pinned keys")
	ErrDigest    = errors.New("tampered with: a part is not the one that was signed")
	ErrTooLarge  = errors.New("larger than a rule bundle may be")
)

const (
	signature  = "manifest.jws"
	maxBundle  = 32 << 20 // bytes, packed and unpacked alike
	maxParts   = 1000
	maxJWS     = 1 << 20
	maxText    = 256 << 10 // of a part, except those below; MH's largest layout has 72 KB
	maxLists   = 1 << 20   // of the catalogues; MH's have 90 KB
	maxCase    = 4 << 20   // of a golden case; 2,000 lines have 1.4 MB
	moduleName = "module.wasm"
	lists      = "catalogues.json"
)

// Bundle is a bundle whose archive has the only permitted form (see unpack) and whose parts have the signed digests.
type Bundle struct {
	Manifest Manifest
	Digest   string // SHA-256 of the signed manifest, in hex: identifies the bundle, regardless of its signers
	Parts    map[string][]byte
	// Signers are the IDs of the pinned keys that signed the bundle; empty after Reopen and Inspect.
	Signers []string

	payload []byte // the manifest in its signed form
	signed  string // the JWS that contains payload, as Envelope.Text writes it
	packed  []file // the parts in compressed form, as they were read; nil after Forget

	admitted bool // set by Reopen: limits of parts do not apply, because they may be newer than the bundle
}

// Read opens a bundle that enough of the keys have signed. It checks the signatures before it reads manifest and parts.
func (k Keys) Read(data []byte) (*Bundle, error) {
	return read(data, func(b *Bundle) (err error) {
		b.Signers, err = k.Vouch(b)
		return err
	})
}

// Reopen opens a bundle that this appliance has admitted before, by the digest in the appliance's record. The bundle's
// keys need no longer be pinned (see Keys.Vouch).
func Reopen(data []byte, digest string) (*Bundle, error) {
	return read(data, func(b *Bundle) error {
		if b.Digest != digest {
			return fmt.Errorf("%w: the manifest has the digest %s, the record says %s", ErrDigest, b.Digest, digest)
		}
		b.admitted = true
		return nil
	})
}

// Inspect opens a bundle without checking its signatures, to show it or to send it to branches: they verify it.
func Inspect(data []byte) (*Bundle, error) {
	return read(data, func(*Bundle) error { return nil })
}

// Pack writes a bundle as it is stored: the signed manifest and the compressed parts. It uses the compressed parts that
// were read, because compressing takes most of the time. It fails after Forget.
func (b *Bundle) Pack() ([]byte, error) {
	if b.packed == nil {
		return nil, errors.New("packing a bundle after Forget")
	}
	return packAround(b.signed, b.packed)
}

// Forget releases the compressed parts.
func (b *Bundle) Forget() { b.packed = nil }

// read opens a bundle. It calls trust when payload, digest and signatures are known, before it reads the parts.
func read(data []byte, trust func(*Bundle) error) (*Bundle, error) {
	files, err := unpack(data)
	if err != nil {
		return nil, err
	}
	envelope, err := files[0].content(maxJWS)
	if err != nil {
		return nil, err
	}
	b := &Bundle{Parts: make(map[string][]byte), packed: files[1:]}
	e, payload, err := signed.ParseEnvelope(signature, envelope, faults)
	if err != nil {
		return nil, err
	}
	b.payload, b.Digest = payload, sum(payload)
	if b.signed, err = e.Text(); err != nil {
		return nil, err
	}
	if err := trust(b); err != nil {
		return nil, err
	}
	if b.Manifest, err = ParseManifest(b.payload); err != nil {
		return nil, err
	}
	if err := b.readParts(files[1:]); err != nil {
		return nil, err
	}
	return b, b.complete()
}

// readParts reads the parts. The manifest must name each of them and its digest.
func (b *Bundle) readParts(files []file) error {
	room := int64(maxBundle)
	for _, f := range files {
		want, named := b.Manifest.Parts[f.name]
		if !named {
			return fmt.Errorf("%w: %s is not a part of the manifest", ErrDigest, f.name)
		}
		part, err := f.content(room)
		if err != nil {
			return err
		}
		room -= int64(len(part))
		if sum(part) != want {
			return fmt.Errorf("%w: %s", ErrDigest, f.name)
		}
		b.Parts[f.name] = part
	}
	for name := range b.Manifest.Parts {
		if _, ok := b.Parts[name]; !ok {
			return fmt.Errorf("%w: %s is missing", ErrDigest, name)
		}
	}
	return nil
}

// Cases returns the names of the bundle's golden cases, sorted: the parts cases/*.json.
func (b *Bundle) Cases() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(b.Parts)), func(name string) bool {
		return !strings.HasPrefix(name, "cases/") || !strings.HasSuffix(name, ".json")
	})
}

// Different returns the number of different golden cases of the bundle.
func (b *Bundle) Different() int {
	sums := make(map[string]bool)
	for _, name := range b.Cases() {
		sums[b.Manifest.Parts[name]] = true
	}
	return len(sums)
}

// CompareCases returns an error if cases, the number of different golden cases of a bundle, is below that of the bundle
// it replaces (before): nothing would check what the removed cases checked.
func CompareCases(cases int, before *Bundle) (string, error) {
	m, n := &before.Manifest, before.Different()
	if cases < n {
		return "", fmt.Errorf("cases: it has %d different golden cases; %s %s, which it replaces, has %d; "+
			"if this is intended, repeat with --fewer-cases", cases, m.Name, m.Version, n)
	}
	return fmt.Sprintf("%d golden cases, %d before", cases, n), nil
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

func (b *Bundle) complete() error {
	needs := map[string][]string{"document": {moduleName, "schema.json", "overlay.json"}, "event": {"schema.json",
		"overlay.json"}, "catalogue": {lists}}
	for _, name := range needs[b.Manifest.Kind] {
		if _, ok := b.Parts[name]; !ok {
			return fmt.Errorf("%w: a bundle of kind %s needs the part %s", ErrFormat, b.Manifest.Kind, name)
		}
	}
	for name, part := range b.Parts {
		most := cmp.Or(map[string]int{moduleName: maxBundle, lists: maxLists}[name], maxText)
		if strings.HasPrefix(name, "cases/") {
			most = maxCase
		}
		if len(part) > most && !b.admitted {
			return fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", ErrTooLarge, name, len(part), most)
		}
	}
	return nil
}

// Write signs a bundle, and opens the result (see Inspect). The same parts and keys give the same bytes.
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
	text, err := signed.Sign(payload, signers...)
	if err != nil {
		return nil, fmt.Errorf("signing bundle: %w", err)
	}
	data, err := pack(text, parts)
	if err != nil {
		return nil, err
	}
	if _, err := Inspect(data); err != nil {
		return nil, fmt.Errorf("reading what was written: %w", err)
	}
	return data, nil
}
