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

// Status is how a branch is, in the words of its box. The box overwrites it every 15 minutes, and when something
// happens that the centre waits for. Each epoch has its own object, therefore a box that was replaced does not
// overwrite its successor's. The boxes that wait to be enrolled share that of epoch 0.
type Status struct {
	Head     Head      `json:"head"`
	Branch   string    `json:"branch"`
	Group    string    `json:"group"`
	Epoch    int64     `json:"epoch,omitempty"` // 0: not enrolled
	Key      string    `json:"key"`             // the box's public key, as an Enrolment has it
	Sequence int64     `json:"sequence"`        // grows with every status of a box
	At       time.Time `json:"at"`              // by the box's clock
	Started  time.Time `json:"started"`         // the process
	Program  string    `json:"program"`         // version of dted
	Name     string    `json:"name,omitempty"`  // what people call the store
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
	Digest  string    `json:"digest,omitempty"` // of its object: another than the store's shows that the store lost it
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

var stages = []Stage{StageOutside, StageWaiting, StageAdmitted, StageLive, StageRefused, StageReturned}

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
	// Outcomes are MH's newest decisions about what the bundle made.
	Outcomes dte.Outcomes `json:"outcomes,omitzero"`
}

// RefusedRatio returns the part of MH's newest decisions about documents that were refusals, of the rule in force for
// which it is the largest; false if MH has decided nothing.
func (s *Status) RefusedRatio() (worst float64, known bool) {
	for _, r := range s.Rules {
		if r.Live && r.Bundle == "document" && r.Outcomes.Decided > 0 {
			worst, known = max(worst, float64(r.Outcomes.Refused)/float64(r.Outcomes.Decided)), true
		}
	}
	return worst, known
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
	Name string    `json:"name"` // of certificateNames
	Ends time.Time `json:"ends"`
}

// certificateNames are the certificates of a box: that signs documents, of the tills' port, of the operators' port, and
// the authority that the box makes the latter two with.
var certificateNames = []string{"signing", "api", "ops", "ca"}

// Shipped is how much of the second copy's log is in the store.
type Shipped struct {
	Mode    string    `json:"mode"`    // async or sync
	Segment int64     `json:"segment"` // the last one in the store
	At      time.Time `json:"at,omitzero"`
	Behind  int64     `json:"behind,omitempty"` // changes that are not in the store
	Why     string    `json:"why,omitempty"`    // it does not go on
	// Checked is when the box last compared everything that a rebuild would read with what it shipped, zero: not yet.
	// Lacks is what the store had lost or altered then, and the box could not ship again; empty: a rebuild would have
	// been complete.
	Checked time.Time `json:"checked,omitzero"`
	Lacks   string    `json:"lacks,omitempty"`
	// Last is the last number of each of the year's series, in the store of the box. A rebuild that has less of one is
	// not complete.
	Last map[string]uint64 `json:"last,omitempty"`
}

// OpenStatus reads the status of a branch at an epoch that one of the keys has signed. With none given, it takes the
// key that the status names itself: that proves who could be enrolled, and nothing else. Errors: ErrFormat,
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
	s := new(Status)
	_, err := c.open(data, boxes, want, s)
	return opened(s, err)
}

func (s *Status) at() (*Head, address) {
	return &s.Head, address{kind: "status", owner: s.Branch, epoch: s.Epoch}
}

// check accepts nothing that the centre could not show, count or compare: every text, list, number and time has bounds,
// and what becomes a label or decides about a roll-out is of a closed list. One box's words must not spoil what the
// centre says of the others.
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

// Bounds of what a box may write.
const (
	maxText = 500 // characters of a text: one line without control characters
	maxList = 100 // elements of a list
	// rows of a table, such as the last number of each series: types × points of sale × years
	maxRows  = 5_000
	maxCount = 1_000_000_000_000 // of any number
)

// bound returns the first member of a payload that is outside of the bounds; with cut it cuts texts and lists to them,
// and changes nothing that the caller's payload points to.
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

var actions = []string{ActAdmitted, ActRefused, ActLive, ActReturned, ActWithdrawn, ActSettings, ActRestored,
	ActReplaced}

// Act is something that happened in a branch. A branch's acts are numbered without a gap, over all its boxes.
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
	Document string    `json:"document,omitempty"` // that the rule is for
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
