package fleetproto

import (
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dtegate/rules/bundle"
)

// Whole is the Share of a Rollout that covers all boxes of a group.
const Whole = 10000

// Desired is the state that the boxes of a group shall run. Every version is complete. A box reads every version that
// it missed, to detect inserted versions, and applies only the latest.
type Desired struct {
	Head    Head   `json:"head"`
	Group   string `json:"group" is:"name"`
	Version int64  `json:"version" is:"set"` // 1, 2, 3 … without a gap
	// Previous is the Digest of the previous version's object, empty for the first version. From Previous, a box
	// notices that the store lost or replaced a version.
	Previous string `json:"previous,omitempty" is:"digest?"`
	// Mends are versions that boxes have verified and the store has lost or replaced. If a box's latest version is in
	// Mends, the box applies this Desired next, and skips the versions between. Mends has the digests that boxes know;
	// Previous has the digest of the object in the store.
	Mends   []Verified `json:"mends,omitempty" most:"1000"`
	Issued  time.Time  `json:"issued" is:"set"`
	Expires time.Time  `json:"expires"`     // after this time a box raises an alarm, and keeps its state
	By      string     `json:"by" is:"set"` // the person's name on the director's machine
	Reason  string     `json:"reason,omitempty"`
	// Live is the state of every box outside the roll-out. If a bundle is neither in Live nor in the roll-out, boxes
	// take it off only if an earlier order of the centre brought it.
	Live State `json:"live"`
	// Rollout is the roll-out in progress, or nil.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Closed lists points of sale, each with a year: the point issues no more numbers of that year, because its box was
	// lost with unshipped numbers. The branch's boxes refuse sales there.
	Closed []ClosedPoint `json:"closed,omitempty" most:"5000"`

	// SignedBy is the ID of the key that signed the object. OpenDesired sets it.
	SignedBy string `json:"-"`
}

// Verified is a version that a box has verified.
type Verified struct {
	Version int64  `json:"version" is:"set"`
	Digest  string `json:"digest" is:"digest"` // of the object
}

// State is a set of bundles and a settings file. Of each generation it has the bundle that is in force today and the
// bundles that wait for their day: the higher the version, the later it begins.
type State struct {
	Rules    []Rule `json:"rules,omitempty" most:"1000"`
	Settings string `json:"settings,omitempty" is:"digest?"` // Digest of a file; empty: each box's own configuration
}

// Rule is a signed bundle.
type Rule struct {
	File   string `json:"file" is:"digest"`   // Digest of the bundle's file, see RuleKey
	Digest string `json:"digest" is:"digest"` // SHA-256 of the signed manifest, as records have it
	Name   string `json:"name" is:"set"`
	// Version, Bundle, Document and Schema repeat the manifest. A box uses the values in the bundle itself.
	Version  string `json:"version" is:"set"`
	Bundle   string `json:"bundle" is:"set"` // document, event or catalogue
	Document string `json:"document" is:"set"`
	Schema   int    `json:"schema,omitempty"`
	From     string `json:"from" is:"day"` // first day in the chain's ambiente, "2026-12-01"
	// AmountsChange permits the bundle to change the amounts of a branch's past sales, FewerCases to have fewer golden
	// cases than the bundle that it replaces.
	AmountsChange bool `json:"amounts_change,omitempty"`
	FewerCases    bool `json:"fewer_cases,omitempty"`
}

// RuleOf describes a bundle for the chains of an ambiente; file are the bundle's bytes.
func RuleOf(b *bundle.Bundle, file []byte, ambiente string) Rule {
	m := b.Manifest
	return Rule{File: Digest(file), Digest: b.Digest, Name: m.Name, Version: m.Version, Bundle: m.Kind,
		Document: m.Document, Schema: m.Schema, From: m.Validity[ambiente].From}
}

func (r Rule) String() string { return r.Name + " " + r.Version }

// Rollout is a state that boxes apply ring by ring, before it becomes Live. Name and State do not change meanwhile: a
// wider ring changes only who applies the state.
type Rollout struct {
	Name  string `json:"name" is:"name"`
	State State  `json:"state"`
	// Pilots are the first branches that apply the state. Share is how many of 10,000 other boxes apply it too; see
	// InRing.
	Pilots    []string  `json:"pilots,omitempty" is:"name?" most:"5000"`
	Share     int       `json:"share,omitempty" most:"10000"`
	NotBefore time.Time `json:"not_before,omitzero"` // no box applies the state before this time
	// Opened is when this ring was opened, or resumed after a hold. The soak time begins then, or at a later NotBefore.
	Opened time.Time `json:"opened" is:"set"`
	// Held stops the roll-out: no further box applies the state, and boxes that have applied it keep it.
	Held bool `json:"held,omitempty"`
	// The centre requires these values before it opens the next ring. Boxes ignore them.
	SoakSeconds int64 `json:"soak_seconds,omitempty"`
	MinSuccess  int   `json:"min_success,omitempty"`               // boxes that must have applied the state
	MaxFailures int   `json:"max_failures,omitempty" most:"10000"` // allowed failures in 10,000 boxes that tried
}

// ClosedPoint is a branch's point of sale for which no box issues further numbers in a year.
type ClosedPoint struct {
	Branch        string `json:"branch" is:"name"`
	Establishment string `json:"establishment" is:"establishment"` // "M001"
	Point         string `json:"point" is:"point"`                 // "P001"
	Year          int    `json:"year" is:"set"`                    // the series' year, in El Salvador's time
	// Since is the epoch of the box that replaced the lost box, for people. The point is closed for every box.
	Since int64 `json:"since" is:"set"`
}

// InRing reports whether a branch is in a roll-out's ring: it is a pilot, or its place (0 to 9,999) is below Share. The
// place is a hash of the branch and the roll-out's name: each roll-out has its own order of the branches, and widening
// a ring never removes a branch. InRing ignores Held and the time: see Takes.
func (r *Rollout) InRing(branch string) bool {
	return slices.Contains(r.Pilots, branch) || place(branch, r.Name) < r.Share
}

// Takes reports whether a branch shall apply the roll-out at a time.
func (r *Rollout) Takes(branch string, at time.Time) bool {
	return !r.Held && !at.Before(r.NotBefore) && r.InRing(branch)
}

// place returns a branch's place in a roll-out, from 0 to 9,999.
func place(branch, rollout string) int {
	sum := sha256.Sum256([]byte(branch + "\x00" + rollout)) // names hold no zero byte
	return int(binary.BigEndian.Uint64(sum[:8]) % Whole)
}

// Over completes s with another state (below), and returns the result. It adds each bundle of below that a state may
// contain together with all bundles of s (see beside), and below's settings if s has none.
func (s State) Over(below State) State {
	union := State{Rules: slices.Clone(s.Rules), Settings: cmp.Or(s.Settings, below.Settings)}
	for _, r := range below.Rules {
		if !slices.ContainsFunc(s.Rules, func(o Rule) bool { return r.SameGeneration(o) && !r.beside(o) }) {
			union.Rules = append(union.Rules, r)
		}
	}
	return union
}

// On returns the bundles of s that are in force on a day or wait for a later day. From its first day on, a new
// generation of a document takes the place of the earlier generation.
func (s State) On(day string) []Rule {
	return slices.DeleteFunc(slices.Clone(s.Rules), func(r Rule) bool {
		return slices.ContainsFunc(s.Rules, func(o Rule) bool {
			return r.SameDocument(o) && o.From <= day && r.Compare(o) < 0
		})
	})
}

// Compare compares two bundles of a document: the higher one is in force once both have begun.
func (r Rule) Compare(o Rule) int {
	return cmp.Or(strings.Compare(r.From, o.From), bundle.Compare(r.Version, o.Version))
}

// SameDocument reports whether two bundles have the same kind and document: only one of them can be in force.
func (r Rule) SameDocument(o Rule) bool { return r.Bundle == o.Bundle && r.Document == o.Document }

// SameGeneration reports whether two bundles of a document also have the same schema: their versions are one sequence.
func (r Rule) SameGeneration(o Rule) bool { return r.SameDocument(o) && r.Schema == o.Schema }

// beside reports whether a state may contain two bundles of one generation: the higher version must begin later.
func (r Rule) beside(o Rule) bool {
	versions := bundle.Compare(r.Version, o.Version)
	return versions < 0 && r.From < o.From || versions > 0 && r.From > o.From
}

// OpenDesired reads and verifies a version of a group. Errors: ErrFormat, ErrSignature, ErrOther. It does not check
// whether the version follows its predecessor (see Follows) or has expired.
func (c Chain) OpenDesired(data []byte, director []Key, group string, version int64) (*Desired, error) {
	d := new(Desired)
	signer, err := c.open(data, director, address{kind: "desired", owner: group, number: version}, d)
	if err != nil {
		return nil, err
	}
	d.SignedBy = signer
	return d, nil
}

// ReadDesired reads a version without verifying its signature. The signature of a later version may prove that this
// version is authentic, because the later version contains this version's digest. Errors: ErrFormat, ErrOther.
func (c Chain) ReadDesired(data []byte, group string, version int64) (*Desired, error) {
	d := new(Desired)
	if err := c.unproven(data, address{kind: "desired", owner: group, number: version}, d); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Desired) at() (*Head, address) {
	return &d.Head, address{kind: "desired", owner: d.Group, number: d.Version}
}

// Follows returns why d is not the version directly after another version (last), or nil if it is. For the first
// version, last must be the zero Verified.
func (d *Desired) Follows(last Verified) error {
	switch {
	case d.Version != last.Version+1:
		return fmt.Errorf("%w: version %d follows %d", ErrOther, d.Version, last.Version)
	case d.Previous != last.Digest:
		return fmt.Errorf("%w: version %d does not follow the version %d that was read", ErrOther,
			d.Version, last.Version)
	}
	return nil
}

// Mended reports whether d mends a version (last) that the store has lost. A box may then apply d directly after last.
func (d *Desired) Mended(last Verified) bool {
	return d.Version > last.Version && slices.Contains(d.Mends, last)
}

// StillTrusted returns the director's keys that stay trusted after the key with the given id has signed: this key and
// later keys; all keys if none has the id.
func StillTrusted(keys []Key, id string) []Key {
	return keys[max(0, slices.IndexFunc(keys, func(k Key) bool { return k.ID == id })):]
}

func (d *Desired) check() error {
	switch {
	case (d.Version == 1) != (d.Previous == ""):
		return fmt.Errorf("version %d, previous %q", d.Version, d.Previous)
	case slices.ContainsFunc(d.Mends, func(m Verified) bool { return m.Version >= d.Version }):
		return fmt.Errorf("mends: they contain a version that is not before version %d", d.Version)
	case !d.Expires.After(d.Issued):
		return errors.New("expires: it is not after issued")
	}
	states := []State{d.Live}
	if d.Rollout != nil {
		states = append(states, d.Rollout.State)
	}
	for _, s := range states {
		for i, r := range s.Rules {
			for _, o := range s.Rules[:i] {
				if r.SameGeneration(o) && !r.beside(o) {
					return fmt.Errorf("rules[%d]: %s, from %s, beside %s, from %s: the higher version must begin later",
						i, r, r.From, o, o.From)
				}
			}
		}
	}
	return nil
}

// Enrolment names the box that has a branch from an epoch on. The director signs it: the store's credentials alone must
// not suffice to take a branch from its box. A box that finds a higher epoch of another box issues no more numbers.
//
// A box that is not enrolled yet writes its status, with its key, like any other box. The operator compares the key's
// Fingerprint with the fingerprint on the box's screen, and enrols the box.
type Enrolment struct {
	Head   Head   `json:"head"`
	Branch string `json:"branch" is:"name"`
	Epoch  int64  `json:"epoch" is:"set"` // 1, 2, 3 …: one for each box that the branch has had
	Key    string `json:"key" is:"key"`   // the box's public key: Ed25519, base64url
	// Group is the branch's group; empty: none. The group in the branch's status does not count.
	Group  string    `json:"group,omitempty" is:"name?"`
	Points []Point   `json:"points,omitempty"`
	At     time.Time `json:"at" is:"set"`
	First  time.Time `json:"first,omitzero"` // the At of the first signature, if the enrolment was signed again
	By     string    `json:"by" is:"set"`
	// After is the version of the group's desired state that the box must verify before it issues numbers, because that
	// version closes points of sale. 0: none.
	After int64 `json:"after,omitempty"`
	// Highest is the branch's highest epoch when the director signed this enrolment again with another key; else 0.
	// A box accepts the enrolment only if the store also has a trusted enrolment of epoch Highest or later.
	Highest int64 `json:"highest,omitempty"`
	// Stolen: somebody else has had a key of an earlier box. Statuses of earlier epochs do not count.
	Stolen bool `json:"stolen,omitempty"`
}

// Point is a point of sale: the two codes in the middle of its control numbers.
type Point struct {
	Establishment string `json:"establishment" is:"establishment"` // "M001"
	Point         string `json:"point" is:"point"`                 // "P001"
}

func (p Point) String() string { return p.Establishment + p.Point }

// Unnamed returns the points that are missing in a list.
func Unnamed(points, list []Point) []Point {
	return slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return slices.Contains(list, p) })
}

// OpenEnrolment reads the enrolment of a branch at an epoch. Errors: ErrFormat, ErrSignature, ErrOther.
func (c Chain) OpenEnrolment(data []byte, director []Key, branch string, epoch int64) (*Enrolment, error) {
	return open(c, data, director, address{kind: "enrolment", owner: branch, epoch: epoch}, new(Enrolment))
}

// ReadEnrolment reads an enrolment without verifying its signature. Errors: ErrFormat, ErrOther.
func (c Chain) ReadEnrolment(data []byte, branch string, epoch int64) (*Enrolment, error) {
	e := new(Enrolment)
	return e, c.unproven(data, address{kind: "enrolment", owner: branch, epoch: epoch}, e)
}

func (e *Enrolment) at() (*Head, address) {
	return &e.Head, address{kind: "enrolment", owner: e.Branch, epoch: e.Epoch}
}

// BoxKeyOf returns the key with which the box signs. The key's ID is the branch.
func (e *Enrolment) BoxKeyOf() Key { return boxKey(e.Branch, e.Key) }

func boxKey(branch, key string) Key {
	public, _ := DecodeKey(key) // parse has checked its form
	return Key{ID: branch, Public: public}
}

// EncodeKey returns a public key in the form that enrolments and statuses use: base64url without padding.
func EncodeKey(key ed25519.PublicKey) string { return base64.RawURLEncoding.EncodeToString(key) }

// DecodeKey reads a public key that EncodeKey wrote. Errors: ErrFormat.
func DecodeKey(text string) (ed25519.PublicKey, error) {
	key, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%w: %q is not an Ed25519 public key in base64url", ErrFormat, text)
	}
	return key, nil
}

func (e *Enrolment) check() error {
	if e.Highest != 0 && e.Highest < e.Epoch {
		return fmt.Errorf("highest: %d is below the epoch %d", e.Highest, e.Epoch)
	}
	return nil
}

// Settings are all values that the centre may set on its boxes. Other values (addresses, keys, tokens, the taxpayer,
// the points of sale) can be changed only at the box. A missing member leaves the box's own configuration. The settings
// apply from the appliance's next start. The signed desired state contains the file's digest.
type Settings struct {
	Kind string `json:"kind"` // "settings"
	// Closed are days on which the shop is closed, such as "2026-12-25", besides those of the box's configuration.
	Closed []string `json:"closed,omitempty" is:"day?" most:"500"`
	// Footer is the last line of printed documents. Greeting is the line after a mail's salutation. Each has at most
	// 200 characters.
	Footer   string `json:"print_footer,omitempty" most:"200"`
	Greeting string `json:"mail_greeting,omitempty" most:"200"`
	// Payments map the tills' own payment codes to codes of CAT-017, besides the box's configuration.
	Payments map[string]string `json:"payment_codes,omitempty" is:"code?" most:"500"`
	// Types are document types of CAT-002 that the branches issue besides their configured types.
	Types []string `json:"types,omitempty" is:"code?"`
}

// EncodeSettings checks settings and returns the file.
func EncodeSettings(s Settings) ([]byte, error) {
	s.Kind = kindSettings
	return encode("settings", &s)
}

// ParseSettings reads a settings file strictly. Errors: ErrFormat.
func ParseSettings(data []byte) (*Settings, error) {
	s := new(Settings)
	return s, parse("settings", data, s)
}

const kindSettings = "settings"

func (s *Settings) check() error {
	if s.Kind != kindSettings {
		return fmt.Errorf("kind: %q", s.Kind)
	}
	for i, document := range s.Types {
		if slices.Contains(s.Types[:i], document) {
			return fmt.Errorf("types: %q appears twice", document)
		}
	}
	return nil
}
