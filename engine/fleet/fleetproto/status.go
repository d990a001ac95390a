package fleetproto

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"dtegate/engine/dte"
)

// Status is the state of a branch as its box reports it. The box overwrites its status every 15 minutes, and soon
// after an event that the centre waits for. Each epoch has its own object, so that a replaced box does not overwrite
// its successor's status. A branch's boxes that are not enrolled yet share the object of epoch 0.
type Status struct {
	Head     Head      `json:"head"`
	Branch   string    `json:"branch" is:"name"`
	Group    string    `json:"group" is:"name"`
	Epoch    int64     `json:"epoch,omitempty"`   // 0: not enrolled
	Key      string    `json:"key" is:"key"`      // the box's public key, in the form of Enrolment.Key
	Sequence int64     `json:"sequence" is:"set"` // grows with every status of a box
	At       time.Time `json:"at" is:"set"`       // by the box's clock
	Started  time.Time `json:"started"`           // when the process started
	Program  string    `json:"program"`           // version of dted
	Name     string    `json:"name,omitempty"`    // the shop's name, for people
	Points   []Point   `json:"points,omitempty"`

	Desired Reached `json:"desired"`
	// Rollout is the branch's progress with the roll-out of the desired state, or nil.
	Rollout *Progress `json:"rollout,omitempty"`
	Rules   []Running `json:"rules,omitempty"`
	// Settings is the Digest of the settings file that the box has taken; empty: no file.
	Settings string `json:"settings,omitempty" is:"digest?"`
	// Acts is the number of the latest act that the box has written to the store.
	Acts int64 `json:"acts,omitempty"`

	// Ready: the branch can issue. Otherwise NotReady has the reasons, each a short English sentence.
	Ready       bool         `json:"ready"`
	NotReady    []string     `json:"not_ready,omitempty"`
	Replaced    bool         `json:"replaced,omitempty"` // BOX_REPLACED, see fleet.Standing
	Contingency *Contingency `json:"contingency,omitempty"`
	Waiting     Waiting      `json:"waiting"`
	// Certificates are the times at which the box's certificates end.
	Certificates []Certificate `json:"certificates,omitempty"`
	// Today counts the documents issued on El Salvador's current day; Refused counts the refused documents among them.
	Today   int64    `json:"today,omitempty"`
	Refused int64    `json:"refused,omitempty"`
	Copy    *Shipped `json:"copy,omitempty"` // nil: the box does not ship its second copy
	// Last is the last number of each series of the year, in January also of the year before, that this box reported or
	// has in its store. A store with lower numbers is out of date.
	Last map[string]uint64 `json:"last,omitempty" most:"5000"`
}

// Reached is the version of the group's desired state that a box has reached.
type Reached struct {
	Version int64     `json:"version"`                       // the latest verified version; 0: no version
	Digest  string    `json:"digest,omitempty" is:"digest?"` // of the object; the store may have lost it
	At      time.Time `json:"at,omitzero"`                   // when the store last answered
	Expires time.Time `json:"expires,omitzero"`              // of that version
	// Trouble is why the box does not apply, or cannot read, the desired state; empty: no trouble.
	Trouble string `json:"trouble,omitempty"`
}

// Stage is the state of a roll-out in a branch.
type Stage string

const (
	StageOutside  Stage = "outside"  // the branch is not in the ring, or NotBefore has not come
	StageWaiting  Stage = "waiting"  // the branch is in the ring; a bundle is not fetched or not admitted yet
	StageAdmitted Stage = "admitted" // every bundle is on the shelf; the first day of at least one is in the future
	StageLive     Stage = "live"     // every bundle is in force
	StageRefused  Stage = "refused"  // the branch's admission refused a bundle, or a person there took a bundle off
	StageReturned Stage = "returned" // the roll-out was in force, and the branch has gone back by itself
)

// Succeeded: the branch applied the roll-out. Failed: the branch refused it or went back.
func (s Stage) Succeeded() bool { return s == StageAdmitted || s == StageLive }
func (s Stage) Failed() bool    { return s == StageRefused || s == StageReturned }

// Progress is how far a branch has come with a roll-out.
type Progress struct {
	Name   string    `json:"name" is:"name"`
	Stage  Stage     `json:"stage" is:"stage"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"` // why it failed, or what it changes in the branch
}

// Running is a bundle in force, or a bundle that waits for its first day.
type Running struct {
	Digest   string `json:"digest" is:"digest"` // of the signed manifest
	Name     string `json:"name"`
	Version  string `json:"version"`
	Bundle   string `json:"bundle"` // document, event or catalogue
	Document string `json:"document"`
	Schema   int    `json:"schema,omitempty"`
	From     string `json:"from"` // first day, "2026-12-01"
	Live     bool   `json:"live"` // false: its first day is in the future
	// Outcomes are MH's newest decisions about the bundle's documents.
	Outcomes dte.Outcomes `json:"outcomes,omitzero"`
}

// RefusedRatio returns the largest ratio (0 to 1) of refusals to MH's newest decisions, among the document rules in
// force. known is false before MH's first decision.
func (s *Status) RefusedRatio() (worst float64, known bool) {
	for _, r := range s.Rules {
		if r.Live && r.Bundle == "document" && r.Outcomes.Decided > 0 {
			worst, known = max(worst, float64(r.Outcomes.Refused)/float64(r.Outcomes.Decided)), true
		}
	}
	return worst, known
}

// Contingency describes a contingency: the branch issues while MH cannot be reached.
type Contingency struct {
	Since    time.Time `json:"since"`
	Cause    int       `json:"cause"`             // CAT-005
	Deadline time.Time `json:"deadline,omitzero"` // the next legal deadline, of the event or of the documents
}

// Waiting counts the documents that the branch has not yet delivered to MH.
type Waiting struct {
	Documents int64     `json:"documents"`
	Oldest    time.Time `json:"oldest,omitzero"`   // when the oldest document was issued
	Deadline  time.Time `json:"deadline,omitzero"` // the first legal deadline
}

// Certificate is the time when a certificate of a box ends. Name is signing (signs documents), api (the tills' port),
// ops (the operators' port) or ca (the box's own authority, which issues the certificates of the two ports).
type Certificate struct {
	Name string    `json:"name" is:"certificate"`
	Ends time.Time `json:"ends"`
}

// Shipped describes how much of the second copy's log is in the store.
type Shipped struct {
	Mode    string    `json:"mode"`    // async or sync
	Segment int64     `json:"segment"` // number of the latest piece in the store
	At      time.Time `json:"at,omitzero"`
	Behind  int64     `json:"behind,omitempty"` // number of changes that are not in the store
	Why     string    `json:"why,omitempty"`    // why shipping stopped or lacks changes, or sales do not wait; or empty
	// Checked is when the box last read from the store everything that a rebuild reads, and compared it with the
	// shipped data; zero: not yet. Lacks names lost or altered data that the box could not ship again; empty: a rebuild
	// would have been complete.
	Checked time.Time `json:"checked,omitzero"`
	Lacks   string    `json:"lacks,omitempty"`
}

// OpenStatus reads the status of a branch at an epoch. One of the keys in boxes must have signed it. Without boxes, the
// key in the status itself counts: such a status proves only which box asks to be enrolled. Errors: ErrFormat,
// ErrSignature, ErrOther.
func (c Chain) OpenStatus(data []byte, branch string, epoch int64, boxes ...Key) (*Status, error) {
	want := address{kind: "status", owner: branch, epoch: epoch}
	if len(boxes) == 0 {
		named := new(Status)
		if err := c.unproven(data, want, named); err != nil {
			return nil, err
		}
		boxes = []Key{boxKey(named.Branch, named.Key)}
	}
	return open(c, data, boxes, want, new(Status))
}

func (s *Status) at() (*Head, address) {
	return &s.Head, address{kind: "status", owner: s.Branch, epoch: s.Epoch}
}

// check and the tags bound every text, list, number and time. A value that becomes a label or decides about a roll-out
// is from a closed list: otherwise one box's status could spoil the centre's reports about other branches.
func (s *Status) check() error {
	for i, c := range s.Certificates {
		if slices.ContainsFunc(s.Certificates[:i], func(o Certificate) bool { return o.Name == c.Name }) {
			return fmt.Errorf("certificates[%d].name: %q appears twice", i, c.Name)
		}
	}
	for i, r := range s.Rules {
		if err := r.Outcomes.Sound(); err != nil {
			return fmt.Errorf("rules[%d].outcomes: %w", i, err)
		}
	}
	return nil
}

// Bounds of the values of a signed object. The tag "most" of a member overrides them.
const (
	maxText  = 500 // characters of a text: one line without control characters
	maxList  = 100 // elements of a list, or rows of a table
	maxCount = 1_000_000_000_000
)

// forms maps the values of the tag "is" to checks of a text. A question mark after the value means that the text may be
// missing.
var forms = map[string]func(string) error{
	"act":           oneOf(ActAdmitted, ActRefused, ActLive, ActReturned, ActWithdrawn, ActSettings, ActReplaced),
	"ambiente":      oneOf("00", "01"),
	"certificate":   oneOf("signing", "api", "ops", "ca"),
	"code":          pattern(`[0-9]{2}`, "a code of two digits"),
	"day":           func(text string) error { _, err := time.Parse(time.DateOnly, text); return err },
	"digest":        pattern(`[0-9a-f]{64}`, "a digest"),
	"establishment": pattern(`[MSBP][0-9]{3}`, "an establishment like M001"),
	"file":          pattern(`[0-9]{10}\.copy`, "a file of a second copy"),
	"key":           func(text string) error { _, err := DecodeKey(text); return err },
	"name":          CheckName,
	"point":         pattern(`P[0-9]{3}`, "a point of sale like P001"),
	"stage":         oneOf("outside", "waiting", "admitted", "live", "refused", "returned"),
}

func oneOf(words ...string) func(string) error {
	return pattern(strings.Join(words, "|"), "one of "+strings.Join(words, ", "))
}

// pattern returns a check that a whole text matches a regular expression; what describes it.
func pattern(expression, what string) func(string) error {
	whole := regexp.MustCompile(`^(?:` + expression + `)$`)
	return func(text string) error {
		if !whole.MatchString(text) {
			return fmt.Errorf("%q is not %s", text, what)
		}
		return nil
	}
}

// bound returns an error for the first member whose value is refused by the member's tag or by the bounds above. The
// tag "is" names the form of a text, or of each text of a list; "set" alone means that the value is not zero. If cut is
// set, bound first shortens texts and lists to their bounds. It does not change data that the caller's payload points
// to.
func bound(at string, v reflect.Value, tag reflect.StructTag, cut bool) error {
	form, optional := strings.CutSuffix(tag.Get("is"), "?")
	if form != "" && !optional && v.IsZero() {
		return fmt.Errorf("%s: is missing", at)
	}
	most := func(preset int) int {
		n, err := strconv.Atoi(tag.Get("most"))
		if err != nil {
			return preset
		}
		return n
	}
	each := reflect.StructTag(`is:"` + form + `"`)
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		if t, _ := v.Interface().(time.Time); !t.IsZero() && (t.Year() < 2000 || t.Year() > 2200) {
			return fmt.Errorf("%s: %v is not a time from 2000 to 2200", at, t)
		}
	case v.Kind() == reflect.String:
		if cut {
			v.SetString(oneLine(v.String(), most(maxText)))
		}
		text := v.String()
		if text != oneLine(text, most(maxText)) {
			return fmt.Errorf("%s: it is not one line of at most %d characters", at, most(maxText))
		}
		if fits := forms[form]; fits != nil && text != "" {
			if err := fits(text); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
		}
	case v.CanInt() && (v.Int() < 0 || v.Int() > int64(most(maxCount))):
		return fmt.Errorf("%s: %d is not from 0 to %d", at, v.Int(), most(maxCount))
	case v.CanUint() && v.Uint() > maxCount:
		return fmt.Errorf("%s: %d is above %d", at, v.Uint(), int64(maxCount))
	case v.Kind() == reflect.Map && v.Len() > most(maxList):
		return fmt.Errorf("%s: it has %d rows, at most %d are allowed", at, v.Len(), most(maxList))
	case v.Kind() == reflect.Map:
		for _, key := range v.MapKeys() {
			if err := errors.Join(bound(at, key, "", false), bound(at, v.MapIndex(key), each, false)); err != nil {
				return err
			}
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		if cut {
			copied := reflect.New(v.Type().Elem())
			copied.Elem().Set(v.Elem())
			v.Set(copied)
		}
		return bound(at, v.Elem(), "", cut)
	case v.Kind() == reflect.Slice && !v.IsNil():
		if cut {
			n := min(v.Len(), most(maxList))
			copied := reflect.MakeSlice(v.Type(), n, n)
			reflect.Copy(copied, v)
			v.Set(copied)
		}
		if v.Len() > most(maxList) {
			return fmt.Errorf("%s: it has %d elements, at most %d are allowed", at, v.Len(), most(maxList))
		}
		for i := range v.Len() {
			if err := bound(fmt.Sprintf("%s[%d]", at, i), v.Index(i), each, cut); err != nil {
				return err
			}
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if err := bound(strings.TrimPrefix(at+"."+name, "."), v.Field(i), f.Tag, cut); err != nil {
				return err
			}
		}
	}
	return nil
}

func oneLine(text string, most int) string {
	line := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if runes := []rune(line); len(runes) > most {
		line = string(runes[:most-1]) + "…"
	}
	return line
}

// The kinds of Act: Act.What.
const (
	ActAdmitted  = "admitted"  // a bundle is on the shelf and becomes live on its first day
	ActRefused   = "refused"   // the branch refused a bundle of the desired state
	ActLive      = "live"      // a bundle is in force
	ActReturned  = "returned"  // the branch has gone back by itself: the roll-out failed there
	ActWithdrawn = "withdrawn" // the branch has gone back, on the centre's order
	ActSettings  = "settings"  // the box has taken a settings file, for the appliance's next start; no Digest: none
	ActReplaced  = "replaced"  // another box has replaced this box: this box issues no more numbers
)

// Act reports an event in a branch. A branch's acts are numbered without gaps across its boxes.
type Act struct {
	Head     Head      `json:"head"`
	Branch   string    `json:"branch" is:"name"`
	Epoch    int64     `json:"epoch,omitempty"`
	Number   int64     `json:"number" is:"set"`
	At       time.Time `json:"at" is:"set"`
	What     string    `json:"what" is:"act"`
	Version  int64     `json:"version,omitempty"` // of the desired state
	Rollout  string    `json:"rollout,omitempty"`
	Rule     string    `json:"rule,omitempty"`     // name and version
	Digest   string    `json:"digest,omitempty"`   // of the bundle's manifest, or of the settings file
	Document string    `json:"document,omitempty"` // type of document that the rule applies to
	Reason   string    `json:"reason,omitempty"`
}

// OpenAct reads an act of a branch that one of its boxes has signed. Errors: ErrFormat, ErrSignature, ErrOther.
func (c Chain) OpenAct(data []byte, branch string, number int64, boxes ...Key) (*Act, error) {
	return open(c, data, boxes, address{kind: "act", owner: branch, number: number}, new(Act))
}

func (a *Act) at() (*Head, address) {
	return &a.Head, address{kind: "act", owner: a.Branch, number: a.Number}
}
