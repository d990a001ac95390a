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

// Whole is all boxes of a group, as a Rollout's Share.
const Whole = 10000

// Desired is what the boxes of a group shall run. Every version is complete. A box that was away reads each version
// that it missed, to see that none was inserted, and follows only the last one.
type Desired struct {
	Head    Head   `json:"head"`
	Group   string `json:"group"`
	Version int64  `json:"version"` // 1, 2, 3 … without a gap
	// Previous is the Digest of the object of the version before, empty for the first. By it a box finds that the store
	// has forgotten a version, or holds another one than it did.
	Previous string `json:"previous,omitempty"`
	// Mends are versions that boxes verified and that the store has lost or replaced. A box that holds one of them
	// takes this version next, as if it had read what lies between. Together with Previous it names both digests: the
	// box's, and the store's.
	Mends   []Verified `json:"mends,omitempty"`
	Issued  time.Time  `json:"issued"`
	Expires time.Time  `json:"expires"` // past it a box alarms and sells on with what it has
	By      string     `json:"by"`      // a person, as the director's machine knows him
	Reason  string     `json:"reason,omitempty"`
	// Live is what every box runs that does not take the roll-out. A bundle that is neither in Live nor in the roll-out
	// is left as it is.
	Live State `json:"live"`
	// Rollout is what is on its way; nil: nothing is.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Closed are the points of sale that never number again in the year, because a box that numbered them was lost with
	// what it had not shipped. A box of the branch refuses a sale there.
	Closed []ClosedPoint `json:"closed,omitempty"`

	// SignedBy is the ID of the key that signed it, as OpenDesired found it.
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
	// AmountsChange: a roll-out may change the amounts of what a branch sold. FewerCases: the bundle may carry fewer
	// golden cases than the bundle that it replaces.
	AmountsChange bool `json:"amounts_change,omitempty"`
	FewerCases    bool `json:"fewer_cases,omitempty"`
}

func (r Rule) String() string { return r.Name + " " + r.Version }

// Rollout is a state that is taken ring by ring, in front of Live. Its name stays, and its Rules and Settings stay,
// until it is over: widening it changes the ring alone.
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
	// the epoch of the box that numbers instead, for people: every box obeys
	Since int64 `json:"since"`
}

// InRing reports whether a branch is of a roll-out's ring: it is a pilot, or its place among 10,000 is below the share.
// The place is a hash of the branch and the roll-out's name, so that each roll-out begins elsewhere, and a wider ring
// holds the narrower one. Time and Held are not looked at: see Takes.
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

// OpenDesired reads and verifies a version of a group. Errors: ErrFormat, ErrSignature, ErrOther. It does not check
// whether the version follows the version before (see Follows), and not whether it has expired.
func (c Chain) OpenDesired(data []byte, director []Key, group string, version int64) (*Desired, error) {
	d := new(Desired)
	signer, err := c.open(data, director, address{kind: "desired", owner: group, number: version}, d)
	d.SignedBy = signer
	return opened(d, err)
}

// ReadDesired reads a version whose signature nothing proves: an object that names its digest may. Errors: ErrFormat,
// ErrOther.
func (c Chain) ReadDesired(data []byte, group string, version int64) (*Desired, error) {
	d := new(Desired)
	return opened(d, c.unproven(data, address{kind: "desired", owner: group, number: version}, d))
}

func (d *Desired) at() (*Head, address) {
	return &d.Head, address{kind: "desired", owner: d.Group, number: d.Version}
}

// Follows returns why a version is not the next one after another version; nil if it is. The zero Verified stands for
// the time before the first version.
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

// Mended reports whether a version may be taken next after a version that the store does not have any more.
func (d *Desired) Mended(last Verified) bool {
	return d.Version > last.Version && slices.Contains(d.Mends, last)
}

// StillTrusted returns the keys of a director that are trusted after one of them has signed: that key, and those after
// it. A list without that key, or an empty ID, trusts all.
func StillTrusted(keys []Key, id string) []Key {
	return keys[max(0, slices.IndexFunc(keys, func(k Key) bool { return k.ID == id })):]
}

// maxMends bounds the list: each is a version that the store has lost.
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

// Enrolment names the box of a branch, from an epoch on. The director signs it: the store's credentials alone cannot
// take a branch from its box. A box that finds a higher epoch than its own takes no more numbers.
//
// A box that is not enrolled yet writes its status like any other box. The status has its key. The operator compares
// the Fingerprint with what the box shows, and enrols the box.
type Enrolment struct {
	Head   Head   `json:"head"`
	Branch string `json:"branch"`
	Epoch  int64  `json:"epoch"` // 1, 2, 3 …: one for each box that the branch has had
	Key    string `json:"key"`   // the box's public key: Ed25519, base64url
	// Group is the group of which the branch is, empty: of none. What its status names instead counts nowhere.
	Group  string    `json:"group,omitempty"`
	Points []Point   `json:"points,omitempty"`
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	// After is the version of its group's desired state that the box must have verified before it numbers: points of
	// sale are closed there. 0: none.
	After int64 `json:"after,omitempty"`
	// Highest is, of an enrolment that the director signed again with another key, the branch's highest epoch at that
	// time: before the box has read so far, the enrolment opens nothing. 0: it was signed once.
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

// BoxKeyOf returns the key with which the box signs; its ID is the branch.
func (e *Enrolment) BoxKeyOf() Key { return boxKey(e.Branch, e.Key) }

func boxKey(branch, key string) Key {
	public, _ := DecodeKey(key) // check has seen it
	return Key{ID: branch, Public: public}
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

// Settings are all that the centre may set on its boxes. What is not in this list (addresses, keys, tokens, the
// taxpayer, the points of sale) only somebody at the box changes. A member that is left out stays as the box is
// configured. The file bears no signature: the desired state names it by its digest.
type Settings struct {
	Kind string `json:"kind"` // "settings"
	// Poll and Report are how often the box asks for the desired state, 15s to 1h, and writes its status, 1m to 6h. In
	// force at once; all others from the next start of the appliance.
	Poll   string `json:"poll,omitempty"`
	Report string `json:"report,omitempty"`
	// Closed are days on which the store stays closed, "2026-12-25", beside the box's own.
	Closed []string `json:"closed,omitempty"`
	// Footer is the last line of printed documents, Greeting the line behind the salutation of mails: at most 200
	// characters.
	Footer   string `json:"print_footer,omitempty"`
	Greeting string `json:"mail_greeting,omitempty"`
	// Payments map the tills' own payment codes to CAT-017's, beside the box's own.
	Payments map[string]string `json:"payment_codes,omitempty"`
	// Types are documents of CAT-002 that the branches issue beside their own.
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

// PollEvery is how often the box asks for the desired state, ReportEvery how often it writes its status; 0: as it is
// configured.
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

// checkDuration says what is wrong with a duration that may be left out.
func checkDuration(text string, least, most time.Duration) error {
	if d, err := time.ParseDuration(text); text != "" && (err != nil || d < least || d > most) {
		return fmt.Errorf("%q is not a time from %s to %s", text, least, most)
	}
	return nil
}
