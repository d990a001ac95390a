package wire

import (
	"errors"
	"fmt"
	"time"

	"dtegate/rules/signed"
)

// Status is how a branch is, in the words of its box. The box overwrites it every 15 minutes, and when something happens that the
// centre waits for. How long a box has been silent the store's time of the object tells, not At.
type Status struct {
	Kind     string    `json:"kind"` // "status"
	Branch   string    `json:"branch"`
	Group    string    `json:"group"`
	Epoch    int64     `json:"epoch,omitempty"` // 0: not enrolled
	Key      string    `json:"key"`             // the box's public key, as an Enrolment has it
	Sequence int64     `json:"sequence"`        // grows with every status of a box
	At       time.Time `json:"at"`              // by the box's clock
	Started  time.Time `json:"started"`         // the process
	Program  string    `json:"program"`         // version of dted
	Ambiente string    `json:"ambiente"`
	Name     string    `json:"name,omitempty"` // what people call the store
	Points   []Point   `json:"points,omitempty"`

	Desired Reached `json:"desired"`
	// Rollout is what became of the roll-out of the desired state; nil: there is none.
	Rollout *Progress `json:"rollout,omitempty"`
	Rules   []Running `json:"rules,omitempty"`
	// Settings is the Digest of the settings file in force; empty: none.
	Settings string `json:"settings,omitempty"`
	// Acts is the number of the last act that is in the store.
	Acts int64 `json:"acts,omitempty"`

	// Ready: the branch can issue. Else NotReady says why, one short sentence in English each.
	Ready       bool         `json:"ready"`
	NotReady    []string     `json:"not_ready,omitempty"`
	Replaced    bool         `json:"replaced,omitempty"` // another box has taken the branch: BOX_REPLACED
	Contingency *Contingency `json:"contingency,omitempty"`
	Waiting     Waiting      `json:"waiting"`
	// Certificates end at these times.
	Certificates []Certificate `json:"certificates,omitempty"`
	// Documents issued today, by El Salvador's day, and of those the refused.
	Today   int64    `json:"today,omitempty"`
	Refused int64    `json:"refused,omitempty"`
	Copy    *Shipped `json:"copy,omitempty"` // nil: nothing is shipped
}

// Reached is how far a box has come in its group's desired state.
type Reached struct {
	Version int64     `json:"version"`          // the last one that was verified; 0: none
	At      time.Time `json:"at,omitzero"`      // when the store was last asked with success
	Expires time.Time `json:"expires,omitzero"` // of that version
	// Trouble is why the box does not do, or no longer reads, what is desired; empty: it does.
	Trouble string `json:"trouble,omitempty"`
}

// Stage is the result of a roll-out in a branch.
type Stage string

const (
	StageOutside  Stage = "outside"  // not of the ring, or not yet time
	StageWaiting  Stage = "waiting"  // of the ring; not fetched or not admitted yet
	StageAdmitted Stage = "admitted" // every bundle is on the shelf, and one has its first day ahead
	StageLive     Stage = "live"     // every bundle is in force
	StageRefused  Stage = "refused"  // the branch's own gate did not let a bundle in; nothing of it is in force
	StageReturned Stage = "returned" // in force, and the branch has gone back by itself
)

// Succeeded: the branch took it. Failed: the branch tried, and did not or no longer take it.
func (s Stage) Succeeded() bool { return s == StageAdmitted || s == StageLive }
func (s Stage) Failed() bool    { return s == StageRefused || s == StageReturned }

// Progress is how far a branch has come with a roll-out.
type Progress struct {
	Name   string    `json:"name"`
	Stage  Stage     `json:"stage"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
}

// Running is a bundle in force, or the next one of its document.
type Running struct {
	Digest   string `json:"digest"` // of the signed manifest
	Name     string `json:"name"`
	Version  string `json:"version"`
	Bundle   string `json:"bundle"` // document, event or catalogue
	Document string `json:"document"`
	Schema   int    `json:"schema,omitempty"`
	From     string `json:"from"` // first day, "2026-12-01"
	Live     bool   `json:"live"` // false: on the shelf for later
}

// Contingency is a branch without MH.
type Contingency struct {
	Since    time.Time `json:"since"`
	Cause    int       `json:"cause"`             // CAT-005
	Deadline time.Time `json:"deadline,omitzero"` // the first legal deadline ahead: of the event, or of its documents
}

// Waiting is what the branch owes MH.
type Waiting struct {
	Documents int64     `json:"documents"`
	Oldest    time.Time `json:"oldest,omitzero"`   // issue of the oldest
	Deadline  time.Time `json:"deadline,omitzero"` // the first legal deadline
}

// Certificate is a certificate and its end.
type Certificate struct {
	Name string    `json:"name"` // "signing", "lan"
	Ends time.Time `json:"ends"`
}

// Shipped is how much of the second copy's log is in the store.
type Shipped struct {
	Mode    string    `json:"mode"`    // async or sync
	Segment int64     `json:"segment"` // the last one in the store
	At      time.Time `json:"at,omitzero"`
	Behind  int64     `json:"behind,omitempty"` // changes that are not in the store
	Why     string    `json:"why,omitempty"`    // it does not go on
}

// SealStatus signs a status with the box's key.
func SealStatus(s Status, box Signer) ([]byte, error) {
	s.Kind = kindStatus
	return seal("status", &s, box)
}

// OpenStatus reads the status of a branch that one of the keys has signed: those of its enrolments, the newest first. With none
// given, the key that the status names itself is taken: it proves who could be enrolled, and nothing else.
// Errors: ErrFormat, ErrSignature, ErrOther.
func OpenStatus(data []byte, branch string, boxes ...Key) (*Status, error) {
	s := new(Status)
	if len(boxes) == 0 {
		named, err := keyOf(data)
		if err != nil {
			return nil, err
		}
		boxes = []Key{named}
	}
	if _, err := openSealed("status", data, boxes, s); err != nil {
		return nil, err
	}
	if s.Branch != branch {
		return nil, fmt.Errorf("%w: status of %s instead of %s", ErrOther, s.Branch, branch)
	}
	return s, nil
}

const kindStatus = "status"

func (s *Status) check() error {
	_, err := DecodeKey(s.Key)
	faults := []error{fieldError("branch", CheckName(s.Branch)), fieldError("group", CheckName(s.Group)), fieldError("key", err)}
	if s.Kind != kindStatus {
		faults = append(faults, fmt.Errorf("kind: %q", s.Kind))
	}
	if s.Sequence < 1 || s.Epoch < 0 || s.At.IsZero() {
		faults = append(faults, errors.New("sequence and at are needed"))
	}
	return errors.Join(faults...)
}

// keyOf is the key that a status names, of which nothing is verified.
func keyOf(data []byte) (Key, error) {
	_, payload, err := signed.ParseEnvelope("status", data, envelopeFaults)
	if err != nil {
		return Key{}, err
	}
	s := new(Status)
	if err := parse("status", payload, s); err != nil {
		return Key{}, err
	}
	public, err := DecodeKey(s.Key)
	return Key{ID: s.Branch, Public: public}, err
}
