package wire

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"time"
)

// Enrolment names the box of a branch, from an epoch on. The director signs it: the store's credentials alone cannot take a
// branch from its box. A box that finds a higher epoch than its own takes no more numbers.
//
// A box that is not enrolled yet writes its status like any other box. The status has its key. The operator compares the
// Fingerprint with what the box shows, and enrols the box.
type Enrolment struct {
	Kind   string    `json:"kind"` // "enrolment"
	Branch string    `json:"branch"`
	Epoch  int64     `json:"epoch"` // 1, 2, 3 …: one for each box that the branch has had
	Key    string    `json:"key"`   // the box's public key: Ed25519, base64url
	Points []Point   `json:"points,omitempty"`
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	// After is the version of its group's desired state that the box must have verified before it numbers: points of sale are closed
	// there. 0: none.
	After int64 `json:"after,omitempty"`
}

// Point is a point of sale: the two codes in the middle of its control numbers.
type Point struct {
	Establishment string `json:"establishment"` // "M001"
	Point         string `json:"point"`         // "P001"
}

// SealEnrolment signs an enrolment with the director's key.
func SealEnrolment(e Enrolment, director Signer) ([]byte, error) {
	e.Kind = kindEnrolment
	return seal("enrolment", &e, director)
}

// OpenEnrolment reads the enrolment of a branch at an epoch. Errors: ErrFormat, ErrSignature, ErrOther.
func OpenEnrolment(data []byte, director []Key, branch string, epoch int64) (*Enrolment, error) {
	e := new(Enrolment)
	if _, err := openSealed("enrolment", data, director, e); err != nil {
		return nil, err
	}
	if e.Branch != branch || e.Epoch != epoch {
		return nil, fmt.Errorf("%w: enrolment %d of %s instead of %d of %s", ErrOther, e.Epoch, e.Branch, epoch, branch)
	}
	return e, nil
}

// BoxKeyOf returns the key with which the box signs; its ID is the branch.
func (e *Enrolment) BoxKeyOf() Key {
	public, _ := DecodeKey(e.Key) // check has seen it
	return Key{ID: e.Branch, Public: public}
}

// EncodeKey returns a public key in the form of enrolments and statuses.
func EncodeKey(key ed25519.PublicKey) string { return base64.RawURLEncoding.EncodeToString(key) }

// DecodeKey reads what EncodeKey wrote.
func DecodeKey(text string) (ed25519.PublicKey, error) {
	key, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%w: %q is no Ed25519 public key in base64url", ErrFormat, text)
	}
	return key, nil
}

const kindEnrolment = "enrolment"

func (e *Enrolment) check() error {
	_, err := DecodeKey(e.Key)
	faults := []error{fieldError("branch", CheckName(e.Branch)), fieldError("key", err)}
	if e.Kind != kindEnrolment {
		faults = append(faults, fmt.Errorf("kind: %q", e.Kind))
	}
	if e.Epoch < 1 || e.After < 0 || e.At.IsZero() || e.By == "" {
		faults = append(faults, errors.New("epoch, at and by are needed"))
	}
	for i, p := range e.Points {
		if p.Establishment == "" || p.Point == "" {
			faults = append(faults, fmt.Errorf("points[%d]: both codes are needed", i))
		}
	}
	return errors.Join(faults...)
}
