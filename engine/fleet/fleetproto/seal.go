package fleetproto

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"dtegate/engine/archive"
	"dtegate/rules/signed"
)

// Key is the public key of a director or of a box.
type Key = signed.Key

// Signer is the private key of a director or of a box.
type Signer = signed.Signer

var (
	// ErrFormat: the object has a wrong form or a value that is not allowed.
	ErrFormat = errors.New("not an object of a chain")
	// ErrSignature: the object has no valid signature by a key that may sign it.
	ErrSignature = errors.New("not signed by the key that must sign it")
	// ErrOther: the object is well-formed, but belongs to another chain, branch, group, epoch or number.
	ErrOther = errors.New("signed for another place")
)

var envelopeFaults = signed.Faults{Format: ErrFormat, TooLarge: archive.ErrTooLarge, Signature: ErrSignature}

// Fingerprint returns a text by which people compare public keys: the first half of the key's SHA-256 in hex.
func Fingerprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:16])
}

// Public returns the public half of a key.
func Public(s Signer) Key {
	public, _ := s.Private.Public().(ed25519.PublicKey)
	return Key{ID: s.ID, Public: public}
}

// Chain identifies a chain. Every signed object names it, so that boxes refuse objects of a test chain, or of another
// chain of the same director.
type Chain struct {
	Name     string // the setting fleet.chain
	Ambiente string // "00" test, "01" production
}

// Head is the first member of every signed object.
type Head struct {
	Kind     string `json:"kind"` // what the object is: "desired", "enrolment", …
	Chain    string `json:"chain" is:"name"`
	Ambiente string `json:"ambiente" is:"ambiente"`
}

// address identifies an object: its kind, owner, epoch and number. The object's key in the store contains the same
// values.
type address struct {
	kind, owner string // kind: "act", …; owner: a branch, or the group of a desired state
	epoch       int64
	number      int64
}

func (p address) String() string {
	return fmt.Sprintf("%s %d of %s, epoch %d", p.kind, p.number, p.owner, p.epoch)
}

// Signed is a payload to be signed, for a chain and an address. The tags of its members state the permitted values (see
// bound). The payload's method check finds all other faults.
type Signed interface{ at() (*Head, address) }

// Seal checks and signs an object. It cuts the texts and lists of a Status or an Act to their bounds, because a long
// reason must not keep a box from reporting.
func (c Chain) Seal(object Signed, s Signer) ([]byte, error) {
	head, at := object.at()
	*head = Head{Kind: at.kind, Chain: c.Name, Ambiente: c.Ambiente}
	if at.kind == "status" || at.kind == "act" {
		_ = bound("", reflect.ValueOf(object).Elem(), "", true) // encode reports the same error
	}
	b, err := encode(at.kind, object)
	if err != nil {
		return nil, err
	}
	text, err := signed.Sign(b, s)
	if err != nil {
		return nil, fmt.Errorf("signing %s: %w", at.kind, err)
	}
	if len(text) > MaxJWS {
		return nil, fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", archive.ErrTooLarge, at.kind, len(text),
			MaxJWS)
	}
	return []byte(text), nil
}

// open reads an object (data), which must belong to the address want, and be signed by one of keys. It returns the name
// of that key. It verifies the signature before it reads the payload. Errors: ErrFormat, ErrSignature, ErrOther.
func (c Chain) open(data []byte, keys []Key, want address, into Signed) (signer string, err error) {
	e, payload, err := signed.ParseEnvelope(want.kind, data, envelopeFaults)
	if err != nil {
		return "", err
	}
	if len(e.Signatures) != 1 {
		return "", fmt.Errorf("%w: %s has %d signatures, not one", ErrSignature, want.kind, len(e.Signatures))
	}
	text, err := e.Text()
	if err != nil {
		return "", err
	}
	found, err := signed.Signatures(text, payload, keys)
	if err != nil || len(found) == 0 || !found[0].Fits {
		return "", errors.Join(fmt.Errorf("%w: %s", ErrSignature, want.kind), err)
	}
	return found[0].Key, c.parse(payload, want, into)
}

// open reads an object as Chain.open does, and returns the object.
func open[T Signed](c Chain, data []byte, keys []Key, want address, into T) (T, error) {
	_, err := c.open(data, keys, want, into)
	if err != nil {
		into = *new(T)
	}
	return into, err
}

func (c Chain) unproven(data []byte, want address, into Signed) error {
	_, payload, err := signed.ParseEnvelope(want.kind, data, envelopeFaults)
	if err != nil {
		return err
	}
	return c.parse(payload, want, into)
}

// parse reads a payload and checks that it belongs to this chain and address. Errors: ErrFormat, ErrOther.
func (c Chain) parse(payload []byte, want address, into Signed) error {
	if err := parse(want.kind, payload, into); err != nil {
		return err
	}
	switch h, at := into.at(); {
	case h.Kind != want.kind:
		return fmt.Errorf("%w: its kind is %q, not %q", ErrFormat, h.Kind, want.kind)
	case h.Chain != c.Name || h.Ambiente != c.Ambiente:
		return fmt.Errorf("%w: %s of the chain %q, ambiente %s, not of %q, ambiente %s", ErrOther, want.kind, h.Chain,
			h.Ambiente, c.Name, c.Ambiente)
	case at != want:
		return fmt.Errorf("%w: %s instead of %s", ErrOther, at, want)
	}
	return nil
}

// encode returns a payload as JSON, and parses the JSON as the receiver will, to find faults.
func encode(name string, p any) ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", name, err)
	}
	return b, parse(name, b, reflect.New(reflect.TypeOf(p).Elem()).Interface())
}

func parse(name string, data []byte, into any) error {
	if _, err := (signed.Form{Name: name, Wrong: ErrFormat}).Parse(data, into); err != nil {
		return err
	}
	err := bound("", reflect.ValueOf(into).Elem(), "", false)
	if more, ok := into.(interface{ check() error }); ok && err == nil {
		err = more.check()
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrFormat, name, err)
	}
	return nil
}
