package fleetproto

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Whole is the Share of a Rollout that covers all boxes of a group.
const Whole = 10000

// Desired is the state that the boxes of a group shall run. Every version is complete. A box that was away reads every
// version that it missed, to detect inserted versions, and applies only the latest version.
type Desired struct {
	Head    Head   `json:"head"`
	Group   string `json:"group"`
	Version int64  `json:"version"` // 1, 2, 3 … without a gap
	// Previous is the Digest of the object of the version before, empty for the first. With this digest a box detects
	// that the store lost or replaced a version.
	Previous string `json:"previous,omitempty"`
	// Mends are versions that boxes verified and that the store has lost or replaced. A box whose latest version is in
	// this list applies this version next and skips the versions between. Mends names the box's digest, Previous the
	// store's.
	Mends   []Verified `json:"mends,omitempty"`
	Issued  time.Time  `json:"issued"`
	Expires time.Time  `json:"expires"` // after this time a box alarms and sells on with its current state
	By      string     `json:"by"`      // the person's name on the director's machine
	Reason  string     `json:"reason,omitempty"`
	// Live is the state of every box outside the roll-out. Boxes do not touch a bundle that is neither in Live nor in
	// the roll-out.
	Live State `json:"live"`
	// Rollout is the roll-out in progress; nil: there is no roll-out.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Closed are the points of sale that issue no more numbers in the year: their box was lost with numbers that it had
	// not shipped. The branch's boxes refuse sales there.
	Closed []ClosedPoint `json:"closed,omitempty"`

	// SignedBy is the ID of the key that signed the object. OpenDesired sets it.
	SignedBy string `json:"-"`
}

// Verified is a version that a box has verified.
type Verified struct {
	Version int64  `json:"version"`
	Digest  string `json:"digest"` // of the object
}

// State is a set of bundles, at most one for a document and generation, and a settings file.
type State struct {
	Rules    []Rule `json:"rules,omitempty"`
	Settings string `json:"settings,omitempty"` // Digest of a settings file; empty: each box's own configuration
}

// Rule is a signed bundle.
type Rule struct {
	File   string `json:"file"`   // Digest of the bundle's file, see RuleKey
	Digest string `json:"digest"` // SHA-256 of the signed manifest, as in the records of rules and documents
	Name   string `json:"name"`
	// Version, Bundle, Document and Schema repeat the manifest. A box uses the values in the bundle itself.
	Version  string `json:"version"`
	Bundle   string `json:"bundle"` // document, event or catalogue
	Document string `json:"document"`
	Schema   int    `json:"schema,omitempty"`
	// AmountsChange: the bundle may change the amounts of sales that a branch has made. FewerCases: the bundle may
	// carry fewer golden cases than the bundle that it replaces.
	AmountsChange bool `json:"amounts_change,omitempty"`
	FewerCases    bool `json:"fewer_cases,omitempty"`
}

func (r Rule) String() string { return r.Name + " " + r.Version }

// Rollout is a state that boxes apply ring by ring, before it becomes Live. Name, Rules and Settings do not change
// during the roll-out: widening the roll-out changes only the ring.
type Rollout struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Pilots are the first branches that apply it. Share is how many of 10,000 boxes apply it besides them, see InRing.
	Pilots    []string  `json:"pilots,omitempty"`
	Share     int       `json:"share,omitempty"`
	NotBefore time.Time `json:"not_before,omitzero"` // no box applies the state before this time
	// Opened is when this ring was opened: the soak time begins then.
	Opened time.Time `json:"opened"`
	// Held: no further box applies the state; boxes that have applied it keep it.
	Held bool `json:"held,omitempty"`
	// The centre requires these values before it opens the next ring. Boxes ignore them.
	SoakSeconds int64 `json:"soak_seconds,omitempty"`
	MinSuccess  int   `json:"min_success,omitempty"`  // boxes
	MaxFailures int   `json:"max_failures,omitempty"` // of 10,000 boxes that tried
}

// ClosedPoint is a branch's point of sale at which no box issues further numbers in a year.
type ClosedPoint struct {
	Branch        string `json:"branch"`
	Establishment string `json:"establishment"` // "M001"
	Point         string `json:"point"`         // "P001"
	Year          int    `json:"year"`          // its series are closed (El Salvador's year); another year begins at 1
	// the epoch of the box that issues numbers instead; for people only, because every box obeys
	Since int64 `json:"since"`
}

// InRing reports whether a branch is in a roll-out's ring: it is a pilot, or its place among 10,000 is below the share.
// The place is a hash of the branch and the roll-out's name: each roll-out begins with other branches, and a wider ring
// contains the narrower ring. InRing ignores Held and the time: see Takes.
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

// Over returns s and below joined: a bundle of s replaces the bundle of below with the same document and generation.
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

// SameGeneration reports whether two bundles have the same kind, document and schema: only one can be in force.
func (r Rule) SameGeneration(o Rule) bool {
	return r.Bundle == o.Bundle && r.Document == o.Document && r.Schema == o.Schema
}

// OpenDesired reads and verifies a version of a group. Errors: ErrFormat, ErrSignature, ErrOther. It checks neither
// that the version follows the previous version (see Follows) nor that it has not expired.
func (c Chain) OpenDesired(data []byte, director []Key, group string, version int64) (*Desired, error) {
	d := new(Desired)
	signer, err := c.open(data, director, address{kind: "desired", owner: group, number: version}, d)
	d.SignedBy = signer
	return opened(d, err)
}

// ReadDesired reads a version without verifying its signature. The digest in another object may prove it. Errors:
// ErrFormat, ErrOther.
func (c Chain) ReadDesired(data []byte, group string, version int64) (*Desired, error) {
	d := new(Desired)
	return opened(d, c.unproven(data, address{kind: "desired", owner: group, number: version}, d))
}

func (d *Desired) at() (*Head, address) {
	return &d.Head, address{kind: "desired", owner: d.Group, number: d.Version}
}

// Follows returns why d is not the version directly after last, or nil if it is. The zero Verified is the predecessor
// of the first version.
func (d *Desired) Follows(last Verified) error {
	switch {
	case d.Version != last.Version+1:
		return fmt.Errorf("%w: version %d follows %d", ErrOther, d.Version, last.Version)
	case d.Previous != last.Digest:
		return fmt.Errorf("%w: version %d was made behind another version %d than the one that was read", ErrOther,
			d.Version, last.Version)
	}
	return nil
}

// Mended reports whether a box may apply d directly after last, which the store has lost: Mends contains last.
func (d *Desired) Mended(last Verified) bool {
	return d.Version > last.Version && slices.Contains(d.Mends, last)
}

// StillTrusted returns the director's keys that stay trusted after the key id has signed: that key and the later keys
// in the list. If the list does not contain id, or id is empty, it returns all keys.
func StillTrusted(keys []Key, id string) []Key {
	return keys[max(0, slices.IndexFunc(keys, func(k Key) bool { return k.ID == id })):]
}

// maxMends is how many versions Mends may hold.
const maxMends = 1000

func (d *Desired) check() error {
	var f faults
	f.in("group", CheckName(d.Group))
	f.unless(d.Version >= 1 && (d.Version == 1) == (d.Previous == "") && emptyOrDigest(d.Previous),
		"version %d, previous %q", d.Version, d.Previous)
	for i, m := range d.Mends {
		f.unless(m.Version >= 1 && m.Version < d.Version && digestForm.MatchString(m.Digest) && i < maxMends,
			"mends[%d]: %+v", i, m)
	}
	f.unless(!d.Issued.IsZero() && d.Expires.After(d.Issued), "expires: it is not after issued")
	f.unless(d.By != "", "by: is missing")
	f.in("live", d.Live.check())
	if d.Rollout != nil {
		f.in("rollout", d.Rollout.check())
	}
	for i, c := range d.Closed {
		f.unless(CheckName(c.Branch) == nil && c.Establishment != "" && c.Point != "" && c.Year >= 2000 && c.Since >= 1,
			"closed[%d]: %+v", i, c)
	}
	return f.joined()
}

func (s *State) check() error {
	var f faults
	f.unless(emptyOrDigest(s.Settings), "settings: %q is no digest", s.Settings)
	for i, r := range s.Rules {
		f.unless(digestForm.MatchString(r.File) && digestForm.MatchString(r.Digest),
			"rules[%d]: file %q or digest %q is no digest", i, r.File, r.Digest)
		f.unless(r.Name != "" && r.Version != "" && r.Bundle != "" && r.Document != "",
			"rules[%d]: name, version, bundle and document are needed", i)
		f.unless(!slices.ContainsFunc(s.Rules[:i], r.SameGeneration),
			"rules[%d]: a second bundle of %s %s, generation %d", i, r.Bundle, r.Document, r.Schema)
	}
	return f.joined()
}

func (r *Rollout) check() error {
	var f faults
	f.in("name", CheckName(r.Name))
	f.in("state", r.State.check())
	for i, p := range r.Pilots {
		f.in(fmt.Sprintf("pilots[%d]", i), CheckName(p))
	}
	f.unless(min(r.Share, r.MaxFailures, r.MinSuccess) >= 0 && max(r.Share, r.MaxFailures) <= Whole &&
		r.SoakSeconds >= 0, "share, max_failures: of 10,000; min_success, soak_seconds: not negative")
	f.unless(!r.Opened.IsZero(), "opened: is missing")
	return f.joined()
}

// Enrolment names the box of a branch from an epoch on. The director signs it: the store's credentials alone cannot
// take a branch from its box. A box that finds a higher epoch than its own issues no more numbers.
//
// A box that is not enrolled yet writes its status like any other box. The status contains the box's key. The operator
// compares its Fingerprint with the Fingerprint on the box's screen, and enrols the box.
type Enrolment struct {
	Head   Head   `json:"head"`
	Branch string `json:"branch"`
	Epoch  int64  `json:"epoch"` // 1, 2, 3 …: one for each box that the branch has had
	Key    string `json:"key"`   // the box's public key: Ed25519, base64url
	// Group is the branch's group; empty: no group. The group in the branch's status does not count.
	Group  string    `json:"group,omitempty"`
	Points []Point   `json:"points,omitempty"`
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	// After is the version of its group's desired state that the box must verify before it issues numbers, because that
	// version closes points of sale. 0: no such version.
	After int64 `json:"after,omitempty"`
	// Highest is the branch's highest epoch when the director signed the enrolment again with another key. A box
	// accepts the enrolment only after it has read up to that epoch. 0: the enrolment was signed once.
	Highest int64 `json:"highest,omitempty"`
}

// Point is a point of sale: the two codes in the middle of its control numbers.
type Point struct {
	Establishment string `json:"establishment"` // "M001"
	Point         string `json:"point"`         // "P001"
}

func (p Point) String() string { return p.Establishment + p.Point }

// OpenEnrolment reads the enrolment of a branch at an epoch. Errors: ErrFormat, ErrSignature, ErrOther.
func (c Chain) OpenEnrolment(data []byte, director []Key, branch string, epoch int64) (*Enrolment, error) {
	e := new(Enrolment)
	_, err := c.open(data, director, address{kind: "enrolment", owner: branch, epoch: epoch}, e)
	return opened(e, err)
}

func (e *Enrolment) at() (*Head, address) {
	return &e.Head, address{kind: "enrolment", owner: e.Branch, epoch: e.Epoch}
}

// BoxKeyOf returns the key with which the box signs. The key's ID is the branch.
func (e *Enrolment) BoxKeyOf() Key { return boxKey(e.Branch, e.Key) }

func boxKey(branch, key string) Key {
	public, _ := DecodeKey(key) // check has seen it
	return Key{ID: branch, Public: public}
}

// EncodeKey returns a public key in the form of enrolments and statuses.
func EncodeKey(key ed25519.PublicKey) string { return base64.RawURLEncoding.EncodeToString(key) }

// DecodeKey reads a public key that EncodeKey wrote. Errors: ErrFormat.
func DecodeKey(text string) (ed25519.PublicKey, error) {
	key, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%w: %q is no Ed25519 public key in base64url", ErrFormat, text)
	}
	return key, nil
}

func (e *Enrolment) check() error {
	var f faults
	_, err := DecodeKey(e.Key)
	f.in("key", err)
	f.in("branch", CheckName(e.Branch))
	f.unless(e.Epoch >= 1 && e.After >= 0 && (e.Highest == 0 || e.Highest >= e.Epoch) && !e.At.IsZero() && e.By != "",
		"epoch, at and by are needed")
	if e.Group != "" {
		f.in("group", CheckName(e.Group))
	}
	for i, p := range e.Points {
		f.in(fmt.Sprintf("points[%d]", i), p.check())
	}
	return f.joined()
}

// Settings are all values that the centre may set on its boxes. Other values (addresses, keys, tokens, the taxpayer,
// the points of sale) can be changed only at the box. For a missing member the box uses its own configuration. The file
// is not signed: the signed desired state contains its digest.
type Settings struct {
	Kind string `json:"kind"` // "settings"
	// Poll and Report are how often the box asks for the desired state, 15s to 1h, and writes its status, 1m to 6h.
	// Both apply at once; all other settings apply from the next start of the appliance.
	Poll   string `json:"poll,omitempty"`
	Report string `json:"report,omitempty"`
	// Closed are days on which the shop is closed, "2026-12-25", in addition to the box's own.
	Closed []string `json:"closed,omitempty"`
	// Footer is the last line of printed documents, Greeting the line after the salutation of mails: each at most 200
	// characters.
	Footer   string `json:"print_footer,omitempty"`
	Greeting string `json:"mail_greeting,omitempty"`
	// Payments map the tills' own payment codes to CAT-017's, in addition to the box's own.
	Payments map[string]string `json:"payment_codes,omitempty"`
	// Types are document types of CAT-002 that the branches issue in addition to their configured types.
	Types []string `json:"types,omitempty"`
}

// Bounds of the times that can be set.
const (
	MinPoll, MaxPoll     = 15 * time.Second, time.Hour
	MinReport, MaxReport = time.Minute, 6 * time.Hour
	maxLine              = 200 // characters
	maxSettings          = 500 // closed days, or payment codes
)

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

// PollEvery returns how often the box asks for the desired state, ReportEvery how often it writes its status; 0: the
// box's own configuration applies.
func (s *Settings) PollEvery() time.Duration   { return duration(s.Poll) }
func (s *Settings) ReportEvery() time.Duration { return duration(s.Report) }

func duration(text string) time.Duration {
	d, _ := time.ParseDuration(text) // check has seen it
	return d
}

const kindSettings = "settings"

func (s *Settings) check() error {
	var f faults
	f.unless(s.Kind == kindSettings, "kind: %q", s.Kind)
	f.in("poll", checkDuration(s.Poll, MinPoll, MaxPoll))
	f.in("report", checkDuration(s.Report, MinReport, MaxReport))
	for _, line := range [][2]string{{"print_footer", s.Footer}, {"mail_greeting", s.Greeting}} {
		f.unless(utf8.RuneCountInString(line[1]) <= maxLine && !strings.ContainsFunc(line[1], unicode.IsControl),
			"%s: it is not one line of at most %d characters", line[0], maxLine)
	}
	f.unless(len(s.Closed) <= maxSettings && len(s.Payments) <= maxSettings, "closed, payment_codes: at most %d each",
		maxSettings)
	for _, day := range s.Closed {
		_, err := time.Parse(time.DateOnly, day)
		f.unless(err == nil, "closed: %q is not a date like 2026-12-25", day)
	}
	for _, till := range slices.Sorted(maps.Keys(s.Payments)) {
		code := s.Payments[till]
		f.unless(codeForm.MatchString(code), "payment_codes.%s: %q is no code of CAT-017", till, code)
	}
	for i, document := range s.Types {
		f.unless(codeForm.MatchString(document) && !slices.Contains(s.Types[:i], document),
			"types: %q is no type of CAT-002, or stands twice", document)
	}
	return f.joined()
}

var codeForm = regexp.MustCompile(`^[0-9]{2}$`)

// checkDuration returns what is wrong with a duration. An empty text is correct.
func checkDuration(text string, least, most time.Duration) error {
	if d, err := time.ParseDuration(text); text != "" && (err != nil || d < least || d > most) {
		return fmt.Errorf("%q is not a time from %s to %s", text, least, most)
	}
	return nil
}
