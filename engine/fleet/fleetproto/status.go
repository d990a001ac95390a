package fleetproto

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"dtegate/engine/dte"
)

// Status is the state of a branch as its box reports it. The box overwrites it every 15 minutes, and at once after an
// event that the centre waits for. Each epoch has its own object, therefore a replaced box does not overwrite its
// successor's status. The boxes that are not enrolled yet share the object of epoch 0.
type Status struct {
	Head     Head      `json:"head"`
	Branch   string    `json:"branch"`
	Group    string    `json:"group"`
	Epoch    int64     `json:"epoch,omitempty"` // 0: not enrolled
	Key      string    `json:"key"`             // the box's public key, in the form of Enrolment.Key
	Sequence int64     `json:"sequence"`        // grows with every status of a box
	At       time.Time `json:"at"`              // by the box's clock
	Started  time.Time `json:"started"`         // when the process started
	Program  string    `json:"program"`         // version of dted
	Name     string    `json:"name,omitempty"`  // the shop's name among people
	Points   []Point   `json:"points,omitempty"`

	Desired Reached `json:"desired"`
	// Rollout is the branch's progress with the roll-out of the desired state; nil: there is no roll-out.
	Rollout *Progress `json:"rollout,omitempty"`
	Rules   []Running `json:"rules,omitempty"`
	// Settings is the Digest of the settings file in force; empty: no file.
	Settings string `json:"settings,omitempty"`
	// Acts is the number of the latest act that the box has written to the store.
	Acts int64 `json:"acts,omitempty"`

	// Ready: the branch can issue. Otherwise NotReady gives the reasons, each a short English sentence.
	Ready       bool         `json:"ready"`
	NotReady    []string     `json:"not_ready,omitempty"`
	Replaced    bool         `json:"replaced,omitempty"` // another box has taken the branch: BOX_REPLACED
	Contingency *Contingency `json:"contingency,omitempty"`
	Waiting     Waiting      `json:"waiting"`
	// Certificates end at these times.
	Certificates []Certificate `json:"certificates,omitempty"`
	// Today counts the documents issued on El Salvador's current day; Refused counts the refused documents among them.
	Today   int64    `json:"today,omitempty"`
	Refused int64    `json:"refused,omitempty"`
	Copy    *Shipped `json:"copy,omitempty"` // nil: nothing is shipped
}

// Reached is the version of its group's desired state that a box has reached.
type Reached struct {
	Version int64     `json:"version"`          // the latest verified version; 0: no version
	Digest  string    `json:"digest,omitempty"` // of the version's object; if the store's differs, the store lost it
	At      time.Time `json:"at,omitzero"`      // when the store was last asked with success
	Expires time.Time `json:"expires,omitzero"` // of that version
	// Trouble is why the box does not apply, or cannot read, the desired state; empty: it applies the state.
	Trouble string `json:"trouble,omitempty"`
}

// Stage is the result of a roll-out in a branch.
type Stage string

const (
	StageOutside  Stage = "outside"  // the branch is not in the ring, or it is too early
	StageWaiting  Stage = "waiting"  // the branch is in the ring; a bundle is not fetched or not admitted yet
	StageAdmitted Stage = "admitted" // every bundle is on the shelf; the first day of at least one is in the future
	StageLive     Stage = "live"     // every bundle is in force
	StageRefused  Stage = "refused"  // the branch's own gate refused a bundle; nothing of the roll-out is in force
	StageReturned Stage = "returned" // it was in force, and the branch has gone back by itself
)

var stages = []Stage{StageOutside, StageWaiting, StageAdmitted, StageLive, StageRefused, StageReturned}

// Succeeded reports whether the branch applied the roll-out, Failed whether it refused it or went back.
func (s Stage) Succeeded() bool { return s == StageAdmitted || s == StageLive }
func (s Stage) Failed() bool    { return s == StageRefused || s == StageReturned }

// Progress is how far a branch has come with a roll-out.
type Progress struct {
	Name   string    `json:"name"`
	Stage  Stage     `json:"stage"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
}

// Running is a bundle in force, or the next bundle of its document.
type Running struct {
	Digest   string `json:"digest"` // of the signed manifest
	Name     string `json:"name"`
	Version  string `json:"version"`
	Bundle   string `json:"bundle"` // document, event or catalogue
	Document string `json:"document"`
	Schema   int    `json:"schema,omitempty"`
	From     string `json:"from"` // first day, "2026-12-01"
	Live     bool   `json:"live"` // false: on the shelf for later
	// Outcomes are MH's newest decisions about the bundle's documents.
	Outcomes dte.Outcomes `json:"outcomes,omitzero"`
}

// RefusedRatio returns the largest refusal ratio (0 to 1) among the document rules in force: the refusals among MH's
// newest decisions. known is false if MH has decided nothing.
func (s *Status) RefusedRatio() (worst float64, known bool) {
	for _, r := range s.Rules {
		if r.Live && r.Bundle == "document" && r.Outcomes.Decided > 0 {
			worst, known = max(worst, float64(r.Outcomes.Refused)/float64(r.Outcomes.Decided)), true
		}
	}
	return worst, known
}

// Contingency describes the contingency of a branch, which works without MH.
type Contingency struct {
	Since    time.Time `json:"since"`
	Cause    int       `json:"cause"`             // CAT-005
	Deadline time.Time `json:"deadline,omitzero"` // the next legal deadline: of the event or of its documents
}

// Waiting counts the documents that the branch still owes MH.
type Waiting struct {
	Documents int64     `json:"documents"`
	Oldest    time.Time `json:"oldest,omitzero"`   // when the oldest was issued
	Deadline  time.Time `json:"deadline,omitzero"` // the first legal deadline
}

// Certificate is the name of a certificate and when it ends.
type Certificate struct {
	Name string    `json:"name"` // of certificateNames
	Ends time.Time `json:"ends"`
}

// certificateNames are a box's certificates: for signing documents, for the tills' port, for the operators' port, and
// the box's own authority, which issues the two certificates of the ports.
var certificateNames = []string{"signing", "api", "ops", "ca"}

// Shipped describes how much of the second copy's log is in the store.
type Shipped struct {
	Mode    string    `json:"mode"`    // async or sync
	Segment int64     `json:"segment"` // the latest segment in the store
	At      time.Time `json:"at,omitzero"`
	Behind  int64     `json:"behind,omitempty"` // changes that are not in the store
	Why     string    `json:"why,omitempty"`    // why shipping has stopped; empty: it goes on
	// Checked is when the box last compared everything that a rebuild reads with its shipped data; zero: not yet. Lacks
	// names the data that the store had lost or altered then and that the box could not ship again; empty: a rebuild
	// would have been complete.
	Checked time.Time `json:"checked,omitzero"`
	Lacks   string    `json:"lacks,omitempty"`
	// Last is the last number of each series of the year in the box's own store. A rebuild that lacks one of these
	// numbers is incomplete.
	Last map[string]uint64 `json:"last,omitempty"`
}

// OpenStatus reads the status of a branch at an epoch that one of the keys has signed. Without keys it uses the key in
// the status itself: this proves only which box could be enrolled. Errors: ErrFormat, ErrSignature, ErrOther.
func (c Chain) OpenStatus(data []byte, branch string, epoch int64, boxes ...Key) (*Status, error) {
	want := address{kind: "status", owner: branch, epoch: epoch}
	if len(boxes) == 0 {
		named := new(Status)
		if err := c.unproven(data, want, named); err != nil {
			return nil, err
		}
		boxes = []Key{boxKey(named.Branch, named.Key)}
	}
	s := new(Status)
	_, err := c.open(data, boxes, want, s)
	return opened(s, err)
}

func (s *Status) at() (*Head, address) {
	return &s.Head, address{kind: "status", owner: s.Branch, epoch: s.Epoch}
}

// check accepts only values that the centre can show, count and compare: every text, list, number and time has bounds,
// and a value that becomes a label or decides about a roll-out is from a closed list. The status of one box must not
// spoil the centre's reports about other boxes.
func (s *Status) check() error {
	f := faults{bound("", reflect.ValueOf(s).Elem(), false)}
	_, err := DecodeKey(s.Key)
	f.in("key", err)
	f.in("branch", CheckName(s.Branch))
	f.in("group", CheckName(s.Group))
	f.unless(emptyOrDigest(s.Desired.Digest), "desired.digest: is no digest")
	f.unless(emptyOrDigest(s.Settings), "settings: is no digest")
	f.unless(s.Sequence >= 1 && !s.At.IsZero(), "sequence and at are needed")
	if p := s.Rollout; p != nil {
		f.unless(slices.Contains(stages, p.Stage), "rollout.stage: %q is none", p.Stage)
		f.in("rollout.name", CheckName(p.Name))
	}
	for i, c := range s.Certificates {
		twice := slices.ContainsFunc(s.Certificates[:i], func(o Certificate) bool { return o.Name == c.Name })
		f.unless(slices.Contains(certificateNames, c.Name) && !twice,
			"certificates[%d].name: %q is none, or stands twice", i, c.Name)
	}
	for i, p := range s.Points {
		f.in(fmt.Sprintf("points[%d]", i), p.check())
	}
	for i, r := range s.Rules {
		f.unless(digestForm.MatchString(r.Digest), "rules[%d].digest: is no digest", i)
		f.in(fmt.Sprintf("rules[%d].outcomes", i), r.Outcomes.Sound())
	}
	return f.joined()
}

var pointForm = regexp.MustCompile(`^[MSBP][0-9]{3}P[0-9]{3}$`)

func (p Point) check() error {
	if text := p.Establishment + p.Point; !pointForm.MatchString(text) {
		return fmt.Errorf("%q is no point of sale like M001P001", text)
	}
	return nil
}

// Bounds of the values that a box may write.
const (
	maxText = 500 // characters of a text: one line without control characters
	maxList = 100 // elements of a list
	// rows of a table, such as the last number of each series: types × points of sale × years
	maxRows  = 5_000
	maxCount = 1_000_000_000_000 // of any number
)

// bound returns an error for the first member outside its bounds. With cut, it first shortens texts and lists to their
// bounds. It does not change data that the caller's payload points to.
func bound(at string, v reflect.Value, cut bool) error {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		if t, _ := v.Interface().(time.Time); !t.IsZero() && (t.Year() < 2000 || t.Year() > 2200) {
			return fmt.Errorf("%s: %v is not a time from 2000 to 2200", at, t)
		}
	case v.Kind() == reflect.String:
		if cut {
			v.SetString(oneLine(v.String()))
		}
		if text := v.String(); text != oneLine(text) {
			return fmt.Errorf("%s: it is not one line of at most %d characters", at, maxText)
		}
	case v.CanInt():
		if n := v.Int(); n < 0 || n > maxCount {
			return fmt.Errorf("%s: %d is not from 0 to %d", at, n, int64(maxCount))
		}
	case v.CanUint():
		if n := v.Uint(); n > maxCount {
			return fmt.Errorf("%s: %d is above %d", at, n, int64(maxCount))
		}
	case v.Kind() == reflect.Map && v.Len() > maxRows:
		return fmt.Errorf("%s: it has %d rows, at most %d are taken", at, v.Len(), maxRows)
	case v.Kind() == reflect.Map:
		for _, key := range v.MapKeys() {
			if err := errors.Join(bound(at, key, false), bound(at, v.MapIndex(key), false)); err != nil {
				return err
			}
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		if cut {
			copied := reflect.New(v.Type().Elem())
			copied.Elem().Set(v.Elem())
			v.Set(copied)
		}
		return bound(at, v.Elem(), cut)
	case v.Kind() == reflect.Slice && !v.IsNil():
		if cut {
			copied := reflect.MakeSlice(v.Type(), min(v.Len(), maxList), min(v.Len(), maxList))
			reflect.Copy(copied, v)
			v.Set(copied)
		}
		if v.Len() > maxList {
			return fmt.Errorf("%s: it has %d elements, at most %d are taken", at, v.Len(), maxList)
		}
		for i := range v.Len() {
			if err := bound(fmt.Sprintf("%s[%d]", at, i), v.Index(i), cut); err != nil {
				return err
			}
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if err := bound(strings.TrimPrefix(at+"."+name, "."), v.Field(i), cut); err != nil {
				return err
			}
		}
	}
	return nil
}

// oneLine returns a text as one line of at most maxText characters.
func oneLine(text string) string {
	line := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if runes := []rune(line); len(runes) > maxText {
		line = string(runes[:maxText-1]) + "…"
	}
	return line
}

// The kinds of Act: Act.What.
const (
	ActAdmitted  = "admitted"  // a bundle is on the shelf and becomes live on its first day
	ActRefused   = "refused"   // the branch refused the desired state
	ActLive      = "live"      // a bundle is in force
	ActReturned  = "returned"  // the branch has gone back by itself: a failure of the ring
	ActWithdrawn = "withdrawn" // the branch has gone back, because the centre wanted it
	ActSettings  = "settings"  // a settings file is in force
	ActRestored  = "restored"  // the box continues from a copy or a backup
	ActReplaced  = "replaced"  // another box has replaced this box, which issues no more numbers
)

var actions = []string{ActAdmitted, ActRefused, ActLive, ActReturned, ActWithdrawn, ActSettings, ActRestored,
	ActReplaced}

// Act is something that happened in a branch. A branch's acts are numbered without a gap across all its boxes.
type Act struct {
	Head     Head      `json:"head"`
	Branch   string    `json:"branch"`
	Epoch    int64     `json:"epoch,omitempty"`
	Number   int64     `json:"number"`
	At       time.Time `json:"at"`
	What     string    `json:"what"`
	Version  int64     `json:"version,omitempty"` // of the desired state
	Rollout  string    `json:"rollout,omitempty"`
	Rule     string    `json:"rule,omitempty"`     // name and version
	Digest   string    `json:"digest,omitempty"`   // of the bundle's manifest, or of the settings file
	Document string    `json:"document,omitempty"` // type of document that the rule applies to
	Reason   string    `json:"reason,omitempty"`
}

// OpenAct reads an act of a branch that one of its boxes has signed. Errors: ErrFormat, ErrSignature, ErrOther.
func (c Chain) OpenAct(data []byte, branch string, number int64, boxes ...Key) (*Act, error) {
	a := new(Act)
	_, err := c.open(data, boxes, address{kind: "act", owner: branch, number: number}, a)
	return opened(a, err)
}

func (a *Act) at() (*Head, address) {
	return &a.Head, address{kind: "act", owner: a.Branch, number: a.Number}
}

func (a *Act) check() error {
	f := faults{bound("", reflect.ValueOf(a).Elem(), false)}
	f.in("branch", CheckName(a.Branch))
	f.unless(a.Number >= 1 && !a.At.IsZero() && slices.Contains(actions, a.What), "act %d of kind %q at %v", a.Number,
		a.What, a.At)
	return f.joined()
}
