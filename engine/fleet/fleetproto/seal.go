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
	var f faults
	f.in("head.chain", CheckName(h.Chain))
	f.unless(h.Ambiente == "00" || h.Ambiente == "01", "head.ambiente: %q is not 00 or 01", h.Ambiente)
	return f.joined()
}

// faults are what is wrong with a payload.
type faults []error

// unless adds a fault where something does not hold.
func (f *faults) unless(holds bool, format string, args ...any) {
	if !holds {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// in adds what is wrong with a field.
func (f *faults) in(field string, err error) {
	f.unless(err == nil, "%s: %w", field, err)
}

// joined returns all faults; nil for none.
func (f *faults) joined() error { return errors.Join(*f...) }

// address is what an object is, whose, and which of them. It is also in the object's key.
type address struct {
	kind, owner string // "act"; a branch, or the group of a desired state
	epoch       int64
	number      int64
}

func (p address) String() string {
	return fmt.Sprintf("%s %d of %s, epoch %d", p.kind, p.number, p.owner, p.epoch)
}

// payload is what a file holds: check returns what is wrong with it.
type payload interface{ check() error }

// Signed is a payload that is signed. No such payload is written or read but for a chain and an address.
type Signed interface {
	payload
	at() (*Head, address)
}

// Seal checks and signs an object. It cuts the texts and lists of a Status or an Act to their bounds: a long reason
// must not keep a box from reporting.
func (c Chain) Seal(object Signed, s Signer) ([]byte, error) {
	head, at := object.at()
	*head = Head{Kind: at.kind, Chain: c.Name, Ambiente: c.Ambiente}
	if err := head.check(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, at.kind, err)
	}
	if at.kind == "status" || at.kind == "act" {
		_ = bound("", reflect.ValueOf(object).Elem(), true) // check finds the same
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
		return nil, fmt.Errorf("%w: %s has %d bytes, at most %d are taken", ErrTooLarge, at.kind, len(text), MaxJWS)
	}
	return []byte(text), nil
}

// open reads the object at an address that one of the keys has signed for this chain, and returns the name of the key.
// It verifies the signature before it looks at the payload. Errors: ErrFormat, ErrSignature, ErrOther.
func (c Chain) open(data []byte, keys []Key, want address, into Signed) (signer string, err error) {
	e, payload, err := signed.ParseEnvelope(want.kind, data, envelopeFaults)
	if err != nil {
		return "", err
	}
	if len(e.Signatures) != 1 {
		return "", fmt.Errorf("%w: %s bears %d signatures, not one", ErrSignature, want.kind, len(e.Signatures))
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

// opened returns an object that was read without an error.
func opened[T any](object *T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return object, nil
}

// unproven reads the object at an address whose signature nothing proves yet.
func (c Chain) unproven(data []byte, want address, into Signed) error {
	_, payload, err := signed.ParseEnvelope(want.kind, data, envelopeFaults)
	if err != nil {
		return err
	}
	return c.parse(payload, want, into)
}

// parse reads a payload of this chain and at an address. Errors: ErrFormat, ErrOther.
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

// encode writes a payload, and reads it as the other side would.
func encode(name string, p payload) ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", name, err)
	}
	again, _ := reflect.New(reflect.TypeOf(p).Elem()).Interface().(payload)
	return b, parse(name, b, again)
}

// parse reads a payload strictly and checks it.
func parse(name string, data []byte, into payload) error {
	if _, err := (signed.Form{Name: name, Wrong: ErrFormat}).Parse(data, into); err != nil {
		return err
	}
	if err := into.check(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrFormat, name, err)
	}
	return nil
}
