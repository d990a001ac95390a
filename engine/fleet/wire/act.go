package wire

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// What an act says that happened.
const (
	ActAdmitted  = "admitted"  // a bundle is on the shelf; it is live from its first day
	ActRefused   = "refused"   // the branch did not take what is desired
	ActLive      = "live"      // a bundle is in force
	ActReturned  = "returned"  // the branch has gone back by itself: a failure of the ring
	ActWithdrawn = "withdrawn" // the branch has gone back, because the centre wanted it
	ActSettings  = "settings"  // a settings file is in force
	ActRestored  = "restored"  // the box goes on from a copy or a backup
	ActReplaced  = "replaced"  // the box has found another one in its place, and numbers nothing any more
)

var actions = []string{ActAdmitted, ActRefused, ActLive, ActReturned, ActWithdrawn, ActSettings, ActRestored, ActReplaced}

// Act is something that happened in a branch. A branch's acts are numbered without a gap, over all its boxes.
type Act struct {
	Kind     string    `json:"kind"` // "act"
	Branch   string    `json:"branch"`
	Epoch    int64     `json:"epoch,omitempty"`
	Number   int64     `json:"number"`
	At       time.Time `json:"at"`
	What     string    `json:"what"`
	Version  int64     `json:"version,omitempty"` // of the desired state
	Rollout  string    `json:"rollout,omitempty"`
	Rule     string    `json:"rule,omitempty"`     // name and version
	Digest   string    `json:"digest,omitempty"`   // of the bundle's manifest, or of the settings file
	Document string    `json:"document,omitempty"` // that the rule is for
	Reason   string    `json:"reason,omitempty"`
}

// SealAct signs an act with the box's key.
func SealAct(a Act, box Signer) ([]byte, error) {
	a.Kind = kindAct
	return seal("act", &a, box)
}

// OpenAct reads an act of a branch that one of its boxes has signed. Errors: ErrFormat, ErrSignature, ErrOther.
func OpenAct(data []byte, branch string, number int64, boxes ...Key) (*Act, error) {
	a := new(Act)
	if _, err := openSealed("act", data, boxes, a); err != nil {
		return nil, err
	}
	if a.Branch != branch || a.Number != number {
		return nil, fmt.Errorf("%w: act %d of %s instead of %d of %s", ErrOther, a.Number, a.Branch, number, branch)
	}
	return a, nil
}

const kindAct = "act"

func (a *Act) check() error {
	faults := []error{fieldError("branch", CheckName(a.Branch))}
	if a.Kind != kindAct {
		faults = append(faults, fmt.Errorf("kind: %q", a.Kind))
	}
	if a.Number < 1 || a.Epoch < 0 || a.At.IsZero() || !slices.Contains(actions, a.What) {
		faults = append(faults, fmt.Errorf("act %d of kind %q at %v", a.Number, a.What, a.At))
	}
	return errors.Join(faults...)
}
