package wire

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"time"

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

// checker is a payload: check says what is wrong with it.
type checker interface{ check() error }

// encode writes a payload, and reads it as the other side would.
func encode(name string, payload checker) ([]byte, error) {
	b, err := json.Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", name, err)
	}
	again, _ := reflect.New(reflect.TypeOf(payload).Elem()).Interface().(checker)
	return b, parse(name, b, again)
}

// seal checks and signs a payload.
func seal(name string, payload checker, s Signer) ([]byte, error) {
	b, err := encode(name, payload)
	if err != nil {
		return nil, err
	}
	text, err := signed.Sign(b, s)
	if err != nil {
		return nil, fmt.Errorf("signing %s: %w", name, err)
	}
	if len(text) > MaxJWS {
		return nil, fmt.Errorf("%w: %s has %d bytes, at most %d are taken", ErrTooLarge, name, len(text), MaxJWS)
	}
	return []byte(text), nil
}

// openSealed reads a payload that one of the keys has signed. The signature is verified before the payload is looked at. It returns
// the name of the key.
func openSealed(name string, data []byte, keys []Key, into checker) (signer string, err error) {
	e, payload, err := signed.ParseEnvelope(name, data, envelopeFaults)
	if err != nil {
		return "", err
	}
	if len(e.Signatures) != 1 {
		return "", fmt.Errorf("%w: %s bears %d signatures, not one", ErrSignature, name, len(e.Signatures))
	}
	text, err := e.Text()
	if err != nil {
		return "", err
	}
	for _, key := range keys {
		ok, err := signed.SignedBy(text, payload, key.Public)
		if err != nil {
			return "", fmt.Errorf("%w: %s: %w", ErrSignature, name, err)
		}
		if ok {
			return key.ID, parse(name, payload, into)
		}
	}
	return "", fmt.Errorf("%w: %s", ErrSignature, name)
}

// parse reads a payload strictly and checks it.
func parse(name string, payload []byte, into checker) error {
	form := signed.Form{Name: name, Members: members(reflect.TypeOf(into).Elem()), Wrong: ErrFormat}
	if _, err := form.Parse(payload, into); err != nil {
		return err
	}
	if err := into.check(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrFormat, name, err)
	}
	return nil
}

// members matches the paths of the JSON documents of a type.
func members(t reflect.Type) *regexp.Regexp {
	if form, ok := forms.Load(t); ok {
		return form.(*regexp.Regexp)
	}
	form := regexp.MustCompile("^(" + strings.Join(append(paths("", t), ""), "|") + ")$")
	forms.Store(t, form)
	return form
}

// forms are the payloads' own, by type: the centre reads thousands.
var forms sync.Map

func paths(at string, t reflect.Type) (list []string) {
	switch {
	case t == reflect.TypeFor[time.Time]():
	case t.Kind() == reflect.Pointer:
		return paths(at, t.Elem())
	case t.Kind() == reflect.Slice:
		element := at + `\[\d+\]`
		return append(paths(element, t.Elem()), element)
	case t.Kind() == reflect.Map:
		element := at + `\.[^.\[]+`
		return append(paths(element, t.Elem()), element)
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			path := strings.TrimPrefix(at+`\.`+regexp.QuoteMeta(name), `\.`)
			list = append(append(list, path), paths(path, f.Type)...)
		}
	}
	return list
}
