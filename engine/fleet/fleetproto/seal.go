package fleetproto

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"dtegate/rules/signed"
)

// Key is the public key of a director or of a box.
type Key = signed.Key

// Signer is the private key of a director or of a box.
type Signer = signed.Signer

var (
	// ErrFormat: it is not of the form, or says what it may not.
	ErrFormat = errors.New("not an object of a chain")
	// ErrSignature: none of the keys that may sign it has.
	ErrSignature = errors.New("not signed by the key that must sign it")
	// ErrOther: it is signed and sound, and belongs elsewhere: another branch, group, number or kind.
	ErrOther = errors.New("signed for another place")
)

var envelopeFaults = signed.Faults{Format: ErrFormat, TooLarge: ErrTooLarge, Signature: ErrSignature}

// Fingerprint returns the text by which people compare a public key: the first half of its SHA-256 in hex.
func Fingerprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:16])
}

// Public returns the public half of a key.
func Public(s Signer) Key {
	public, _ := s.Private.Public().(ed25519.PublicKey)
	return Key{ID: s.ID, Public: public}
}

// Chain is which chain an object belongs to. Every signed object names it, therefore an object of a test chain, or of
// another chain that the same director leads, is worth nothing here.
type Chain struct {
	Name     string // as fleet.chain has it
	Ambiente string // "00" test, "01" production
}

// Head is what every signed object begins with.
type Head struct {
	Kind     string `json:"kind"` // what the object is: "desired", "enrolment", …
	Chain    string `json:"chain"`
	Ambiente string `json:"ambiente"`
}

func (h *Head) check() error {
	faults := []error{fieldError("head.chain", CheckName(h.Chain))}
	if h.Ambiente != "00" && h.Ambiente != "01" {
		faults = append(faults, fmt.Errorf("head.ambiente: %q is not 00 or 01", h.Ambiente))
	}
	return errors.Join(faults...)
}

// checker is a payload: check says what is wrong with it.
type checker interface{ check() error }

// signable is a payload that is signed. No such payload is written or read but for a chain.
type signable interface {
	checker
	head() *Head
}

// encode writes a payload, and reads it as the other side would.
func encode(name string, payload checker) ([]byte, error) {
	b, err := json.Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", name, err)
	}
	again, _ := reflect.New(reflect.TypeOf(payload).Elem()).Interface().(checker)
	return b, parse(name, b, again)
}

// seal checks and signs a payload of a kind.
func (c Chain) seal(kind string, payload signable, s Signer) ([]byte, error) {
	*payload.head() = Head{Kind: kind, Chain: c.Name, Ambiente: c.Ambiente}
	if err := payload.head().check(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, kind, err)
	}
	b, err := encode(kind, payload)
	if err != nil {
		return nil, err
	}
	text, err := signed.Sign(b, s)
	if err != nil {
		return nil, fmt.Errorf("signing %s: %w", kind, err)
	}
	if len(text) > MaxJWS {
		return nil, fmt.Errorf("%w: %s has %d bytes, at most %d are taken", ErrTooLarge, kind, len(text), MaxJWS)
	}
	return []byte(text), nil
}

// open reads a payload of a kind that one of the keys has signed for this chain. It verifies the signature before it
// looks at the payload. It returns the name of the key.
func (c Chain) open(kind string, data []byte, keys []Key, into signable) (signer string, err error) {
	e, payload, err := signed.ParseEnvelope(kind, data, envelopeFaults)
	if err != nil {
		return "", err
	}
	if len(e.Signatures) != 1 {
		return "", fmt.Errorf("%w: %s bears %d signatures, not one", ErrSignature, kind, len(e.Signatures))
	}
	text, err := e.Text()
	if err != nil {
		return "", err
	}
	for _, key := range keys {
		ok, err := signed.SignedBy(text, payload, key.Public)
		if err != nil {
			return "", fmt.Errorf("%w: %s: %w", ErrSignature, kind, err)
		}
		if ok {
			return key.ID, c.parse(kind, payload, into)
		}
	}
	return "", fmt.Errorf("%w: %s", ErrSignature, kind)
}

// unproven reads a payload of a kind whose signature nothing proves yet.
func (c Chain) unproven(kind string, data []byte, into signable) error {
	_, payload, err := signed.ParseEnvelope(kind, data, envelopeFaults)
	if err != nil {
		return err
	}
	return c.parse(kind, payload, into)
}

// parse reads a payload of a kind that is of this chain. Errors: ErrFormat, ErrOther.
func (c Chain) parse(kind string, payload []byte, into signable) error {
	if err := parse(kind, payload, into); err != nil {
		return err
	}
	switch h := into.head(); {
	case h.Kind != kind:
		return fmt.Errorf("%w: its kind is %q, not %q", ErrFormat, h.Kind, kind)
	case h.Chain != c.Name || h.Ambiente != c.Ambiente:
		return fmt.Errorf("%w: %s of the chain %q, ambiente %s, not of %q, ambiente %s", ErrOther, kind, h.Chain,
			h.Ambiente, c.Name, c.Ambiente)
	}
	return nil
}

// parse reads a payload strictly and checks it.
func parse(name string, payload []byte, into checker) error {
	if _, err := (signed.Form{Name: name, Wrong: ErrFormat}).Parse(payload, into); err != nil {
		return err
	}
	if err := into.check(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrFormat, name, err)
	}
	return nil
}
