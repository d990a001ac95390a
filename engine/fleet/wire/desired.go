package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Whole is all boxes of a group, as a Rollout's Share.
const Whole = 10000

// Desired is what the boxes of a group shall run. Every version is complete. A box that was away reads each version that it
// missed, to see that none was inserted, and follows only the last one.
type Desired struct {
	Kind    string `json:"kind"` // "desired"
	Group   string `json:"group"`
	Version int64  `json:"version"` // 1, 2, 3 … without a gap
	// Previous is the Digest of the object of the version before, empty for the first. By it a box finds that the store has
	// forgotten a version, or holds another one than it did.
	Previous string    `json:"previous,omitempty"`
	Issued   time.Time `json:"issued"`
	Expires  time.Time `json:"expires"` // past it a box alarms and sells on with what it has
	By       string    `json:"by"`      // a person, as the director's machine knows him
	Reason   string    `json:"reason,omitempty"`
	// Live is what every box runs that does not take the roll-out. A bundle that is neither in Live nor in the roll-out is
	// left as it is.
	Live State `json:"live"`
	// Rollout is what is on its way; nil: nothing is.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Closed are the points of sale that never number again in the year, because a box that numbered them was lost with what it
	// had not shipped. A box of the branch refuses a sale there.
	Closed []ClosedPoint `json:"closed,omitempty"`
}

// State is a set of bundles, at most one for a document and generation, and a settings file.
type State struct {
	Rules    []Rule `json:"rules,omitempty"`
	Settings string `json:"settings,omitempty"` // Digest of a settings file; empty: as each box is configured
}

// Rule is a signed bundle.
type Rule struct {
	File   string `json:"file"`   // Digest of the bundle's file, see RuleKey
	Digest string `json:"digest"` // SHA-256 of the signed manifest, as records of rules and of documents name it
	Name   string `json:"name"`
	// Version, Bundle, Document and Schema are the manifest's. A box believes the bundle's own.
	Version  string `json:"version"`
	Bundle   string `json:"bundle"` // document, event or catalogue
	Document string `json:"document"`
	Schema   int    `json:"schema,omitempty"`
}

// Rollout is a state that is taken ring by ring, in front of Live. Its name stays, and its Rules and Settings stay, until
// it is over: widening it changes the ring alone.
type Rollout struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Pilots are branches that take it first. Share is how many of 10,000 boxes take it beside the pilots, see InRing.
	Pilots    []string  `json:"pilots,omitempty"`
	Share     int       `json:"share,omitempty"`
	NotBefore time.Time `json:"not_before,omitzero"` // no box takes it before
	// Opened is when this ring was opened: the soak time runs from then.
	Opened time.Time `json:"opened"`
	// Held: no further box takes it; those that took it keep it.
	Held bool `json:"held,omitempty"`
	// What the centre asks for before it opens the next ring. Boxes do not look at it.
	SoakSeconds int64 `json:"soak_seconds,omitempty"`
	MinSuccess  int   `json:"min_success,omitempty"`  // boxes
	MaxFailures int   `json:"max_failures,omitempty"` // of 10,000 boxes that tried
}

// ClosedPoint is a point of sale of a branch that takes no more numbers in a year.
type ClosedPoint struct {
	Branch        string `json:"branch"`
	Establishment string `json:"establishment"` // "M001"
	Point         string `json:"point"`         // "P001"
	Year          int    `json:"year"`          // whose series are closed, El Salvador's; another year begins at 1
	Since         int64  `json:"since"`         // the epoch of the box that numbers instead, for people: every box obeys
}

// InRing reports whether a branch is of a roll-out's ring: it is a pilot, or its place among 10,000 is below the share. The
// place is a hash of the branch and the roll-out's name, so that each roll-out begins elsewhere, and a wider ring holds the
// narrower one. Time and Held are not looked at: see Takes.
func (r *Rollout) InRing(branch string) bool {
	return slices.Contains(r.Pilots, branch) || place(branch, r.Name) < r.Share
}

// Takes reports whether a branch takes a roll-out at a time.
func (r *Rollout) Takes(branch string, at time.Time) bool {
	return !r.Held && !at.Before(r.NotBefore) && r.InRing(branch)
}

// place is a number from 0 to 9,999.
func place(branch, rollout string) int {
	sum := sha256.Sum256([]byte(branch + "\x00" + rollout)) // names hold no zero byte
	return int(binary.BigEndian.Uint64(sum[:8]) % Whole)
}

// Over returns a state over another state: its bundles replace those of the same document and generation.
func (s State) Over(below State) State {
	union := State{Rules: slices.Clone(s.Rules), Settings: s.Settings}
	for _, r := range below.Rules {
		if !slices.ContainsFunc(s.Rules, r.SameGeneration) {
			union.Rules = append(union.Rules, r)
		}
	}
	if union.Settings == "" {
		union.Settings = below.Settings
	}
	return union
}

// SameGeneration reports whether two bundles cannot be in force beside each other.
func (r Rule) SameGeneration(o Rule) bool {
	return r.Bundle == o.Bundle && r.Document == o.Document && r.Schema == o.Schema
}

// SealDesired signs a version with the director's key.
func SealDesired(d Desired, director Signer) ([]byte, error) {
	d.Kind = kindDesired
	return seal("desired state", &d, director)
}

// OpenDesired reads and verifies a version of a group. Errors: ErrFormat, ErrSignature, ErrOther. It does not check whether the
// version follows the version before (see Follows), and not whether it has expired.
func OpenDesired(data []byte, director []Key, group string, version int64) (*Desired, error) {
	d := new(Desired)
	if _, err := openSealed("desired state", data, director, d); err != nil {
		return nil, err
	}
	if d.Group != group || d.Version != version {
		return nil, fmt.Errorf("%w: desired state %d of %s instead of %d of %s", ErrOther, d.Version, d.Group, version, group)
	}
	return d, nil
}

// Follows returns why a version is not the next version after before, whose object has the digest; nil if it is. A nil before
// stands for the time before the first version.
func (d *Desired) Follows(before *Desired, digest string) error {
	var last int64
	if before != nil {
		last = before.Version
	}
	switch {
	case d.Version != last+1:
		return fmt.Errorf("%w: version %d follows %d", ErrOther, d.Version, last)
	case before != nil && d.Previous != digest:
		return fmt.Errorf("%w: version %d was made behind another version %d than the one that was read", ErrOther, d.Version, last)
	}
	return nil
}

const kindDesired = "desired"

func (d *Desired) check() error {
	var faults []error
	if d.Kind != kindDesired {
		faults = append(faults, fmt.Errorf("kind: %q", d.Kind))
	}
	faults = append(faults, fieldError("group", CheckName(d.Group)))
	if d.Version < 1 || (d.Version == 1) != (d.Previous == "") || d.Previous != "" && !digestForm.MatchString(d.Previous) {
		faults = append(faults, fmt.Errorf("version %d, previous %q", d.Version, d.Previous))
	}
	if d.Issued.IsZero() || !d.Expires.After(d.Issued) {
		faults = append(faults, errors.New("expires: it is not after issued"))
	}
	if d.By == "" {
		faults = append(faults, errors.New("by: is missing"))
	}
	faults = append(faults, fieldError("live", d.Live.check()))
	if d.Rollout != nil {
		faults = append(faults, fieldError("rollout", d.Rollout.check()))
	}
	for i, c := range d.Closed {
		if err := CheckName(c.Branch); err != nil || c.Establishment == "" || c.Point == "" || c.Year < 2000 || c.Since < 1 {
			faults = append(faults, fmt.Errorf("closed[%d]: %+v", i, c))
		}
	}
	return errors.Join(faults...)
}

func (s *State) check() error {
	var faults []error
	if s.Settings != "" && !digestForm.MatchString(s.Settings) {
		faults = append(faults, fmt.Errorf("settings: %q is no digest", s.Settings))
	}
	for i, r := range s.Rules {
		at := "rules[" + strconv.Itoa(i) + "]"
		if !digestForm.MatchString(r.File) || !digestForm.MatchString(r.Digest) {
			faults = append(faults, fmt.Errorf("%s: file %q or digest %q is no digest", at, r.File, r.Digest))
		}
		if r.Name == "" || r.Version == "" || r.Bundle == "" || r.Document == "" {
			faults = append(faults, fmt.Errorf("%s: name, version, bundle and document are needed", at))
		}
		if slices.ContainsFunc(s.Rules[:i], r.SameGeneration) {
			faults = append(faults, fmt.Errorf("%s: a second bundle of %s %s, generation %d", at, r.Bundle, r.Document, r.Schema))
		}
	}
	return errors.Join(faults...)
}

func (r *Rollout) check() error {
	faults := []error{fieldError("name", CheckName(r.Name)), r.State.check()}
	for i, p := range r.Pilots {
		faults = append(faults, fieldError("pilots["+strconv.Itoa(i)+"]", CheckName(p)))
	}
	if r.Share < 0 || r.Share > Whole || r.MaxFailures < 0 || r.MaxFailures > Whole || r.MinSuccess < 0 || r.SoakSeconds < 0 {
		faults = append(faults, errors.New("share, max_failures: of 10,000; min_success, soak_seconds: not negative"))
	}
	if r.Opened.IsZero() {
		faults = append(faults, errors.New("opened: is missing"))
	}
	return errors.Join(faults...)
}

// fieldError names the field of an error.
func fieldError(field string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", field, err)
}
