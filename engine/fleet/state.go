package fleet

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/fleet/fleetproto"
)

// state is the whole memory of the agent, in one file: the SHA-256 of the JSON in hex, a line break, and the JSON. The
// file is written first: it has a version before the version has an effect, an act before the act is sent, a number
// before its use, and the replaced bundle before the new bundle is admitted.
type state struct {
	Branch string           `json:"branch"`
	Chain  fleetproto.Chain `json:"chain"`
	Key    string           `json:"key"` // the box's public key
	Group  string           `json:"group"`

	// The latest verified version of the desired state, whose digest the next version must contain.
	Version int64  `json:"version"`
	Digest  string `json:"digest,omitempty"`
	Desired []byte `json:"desired,omitempty"`
	// Signer is the director's key that signed this version; earlier keys in Options.Director are no longer trusted.
	Signer string `json:"signer,omitempty"`

	// Closed are this branch's points of sale that an accepted version has closed, whatever a later version, another
	// group or another key says.
	Closed []fleetproto.ClosedPoint `json:"closed,omitempty"`

	Enrolled enrolled `json:"enrolled"`

	Sequence int64            `json:"sequence,omitempty"` // of the last status
	Act      int64            `json:"act,omitempty"`      // number of the last act that is certainly in the store
	Acts     []fleetproto.Act `json:"acts,omitempty"`     // unsent acts, without numbers

	// Taken is the last roll-out that this box began.
	Taken *taken `json:"taken,omitempty"`
	// Took are the bundles that the branch admitted by order, oldest first, with the bundles that they replaced here. A
	// bundle that the centre no longer wants stays listed until the branch has left it.
	Took []tookRule `json:"took,omitempty"`
	// Told has, by digest, the last act about each bundle that the agent admitted; "" before the first.
	Told map[string]string `json:"told"`
	// Refused has, by digest, each bundle of the live state that the branch refused, with the reason and the version of
	// the attempt.
	Refused map[string]refusal `json:"refused"`
	// Settings is the digest of the settings file that the agent has taken, Values the file.
	Settings string          `json:"settings,omitempty"`
	Values   json.RawMessage `json:"values,omitempty"`
}

// enrolled holds what the branch's enrolments have proven, even if the signing key loses trust.
type enrolled struct {
	Highest int64              `json:"highest,omitempty"`
	Object  []byte             `json:"enrolment,omitempty"` // the highest enrolment
	At      time.Time          `json:"at,omitzero"`         // when the director signed this enrolment
	Own     int64              `json:"own,omitempty"`       // the highest epoch of this box's key; 0: never enrolled
	Points  []fleetproto.Point `json:"points,omitempty"`    // points of sale that this box may number
	Over    bool               `json:"over,omitempty"`      // another box has the branch, or had it after this box
	Passed  bool               `json:"passed,omitempty"`    // another box had the branch after this box
	Behind  string             `json:"behind,omitempty"`    // why the box did not take all points of sale
}

// taken is a roll-out that this box began.
type taken struct {
	Rollout string           `json:"rollout"`
	State   fleetproto.State `json:"state"` // of the roll-out
	// Rules are the roll-out's bundles that were neither in force here nor in the live state at the beginning.
	Rules  []fleetproto.Rule `json:"rules,omitempty"`
	Stage  fleetproto.Stage  `json:"stage"`
	Since  time.Time         `json:"since"`
	Reason string            `json:"reason,omitempty"` // why it failed
	// Changes says, by digest, what its bundles change in the branch's amounts.
	Changes map[string]string `json:"changes,omitempty"`
}

// tookRule is a bundle that the agent admitted. Rollout is the roll-out that brought the bundle, or "" for the live
// state. Before are the document's bundles that were in force or coming before the admission.
type tookRule struct {
	Rule    fleetproto.Rule `json:"rule"`
	Rollout string          `json:"rollout,omitempty"`
	Before  []Bundle        `json:"before,omitempty"`
	Owed    bool            `json:"owed,omitempty"` // the branch must still leave the bundle
}

type refusal struct {
	Version int64  `json:"version"`
	Reason  string `json:"reason"`
}

// loadState reads the state, and verifies the signature of its desired state again.
func (a *Agent) loadState() error {
	text, err := a.o.State.Load()
	if err != nil {
		return fmt.Errorf("reading the fleet's state: %w", err)
	}
	if len(text) > 0 {
		if err := decodeState(text, &a.state); err != nil {
			a.o.Logger.Error("the fleet's state cannot be read and is begun anew", "error", err)
			a.state = state{}
		}
		a.saved = string(text)
	}
	s := &a.state
	if s.Branch != a.o.Branch || s.Chain != a.o.Chain { // a test chain enrols nobody in production
		*s = state{Branch: a.o.Branch, Chain: a.o.Chain}
	}
	// An enrolment is for one key: a copy of the disk with another key must not issue numbers. A thief of the former
	// key may have ended the acts with a high number.
	if key := fleetproto.EncodeKey(a.public()); s.Key != key {
		s.Key, s.Enrolled, s.Sequence, s.Act = key, enrolled{}, 0, 0
	}
	// The orders of a group do not apply to bundles that the branch took in another group.
	if s.Group != a.o.Group {
		s.Group, s.Version, s.Digest, s.Desired, s.Taken, s.Took = a.o.Group, 0, "", nil, nil, nil
		clear(s.Refused)
	}
	// A version whose key is no longer pinned has no effect, but the next version must follow it.
	if len(s.Desired) > 0 {
		if a.desired, err = a.o.Chain.OpenDesired(s.Desired, a.trusted(), s.Group, s.Version); err != nil {
			a.desired = nil
			a.o.Logger.Warn("the last desired state has no effect: no pinned key has signed it", "version", s.Version,
				"error", err)
		}
	}
	if s.Told == nil {
		s.Told, s.Refused = make(map[string]string), make(map[string]refusal)
	}
	return nil
}

// change alters the state. If the state cannot be written, nothing changes.
func (a *Agent) change(alter func(*state)) error {
	text, err := encodeState(&a.state)
	if err != nil {
		return err
	}
	next := state{Told: make(map[string]string), Refused: make(map[string]refusal)}
	if err := decodeState(text, &next); err != nil {
		return err
	}
	alter(&next)
	if text, err = encodeState(&next); err != nil {
		return err
	}
	if string(text) != a.saved {
		if err := a.o.State.Save(text); err != nil {
			return fmt.Errorf("writing the fleet's state: %w", err)
		}
	}
	a.mu.Lock()
	a.state, a.saved = next, string(text)
	a.mu.Unlock()
	return nil
}

func encodeState(s *state) ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding the fleet's state: %w", err)
	}
	return append([]byte(fleetproto.Digest(b)+"\n"), b...), nil
}

func decodeState(text []byte, s *state) error {
	sum, b, _ := bytes.Cut(text, []byte("\n"))
	if fleetproto.Digest(b) != string(sum) {
		return fmt.Errorf("its bytes are not those that were written")
	}
	return json.Unmarshal(b, s)
}

// noteTrouble keeps the current error of one part of the agent's work (about), and logs the first of several in a row.
func (a *Agent) noteTrouble(about string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.troubles[about]
	if err == nil {
		delete(a.troubles, about)
		a.dirty = a.dirty || before != nil
		return
	}
	if a.troubles[about] = err; before == nil {
		a.o.Logger.Warn("the chain's centre", "about", about, "error", err)
		a.dirty = true
	}
}

// trouble returns the current errors in one line, except the errors of one part of the work (but).
func (a *Agent) trouble(but string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var words []string
	for _, about := range slices.Sorted(maps.Keys(a.troubles)) {
		if about != but {
			words = append(words, about+": "+a.troubles[about].Error())
		}
	}
	return strings.Join(words, "; ")
}

// trusted returns the director's trusted keys: the key that signed the last accepted version, and later keys.
func (a *Agent) trusted() []fleetproto.Key {
	return fleetproto.StillTrusted(a.o.Director, a.state.Signer)
}

func (a *Agent) public() ed25519.PublicKey { return fleetproto.Public(a.o.Box).Public }

// ask sends a request to the store, within a time limit, and counts it.
func (a *Agent) ask(ctx context.Context, verb string, within time.Duration, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := request(ctx)
	a.metrics.count(verb, err)
	return err
}

func (a *Agent) get(ctx context.Context, key string, limit int64) (o archive.Held, err error) {
	within := askFor
	if limit > fleetproto.MaxJWS { // look now, because a slow bundle delays the next look
		a.look(ctx)
		within = fetchFor
	}
	err = a.ask(ctx, "get", within, func(ctx context.Context) error {
		o, err = a.o.Store.Fetch(ctx, key, limit)
		return err
	})
	return o, err
}

// useless reports whether an error concerns one object, which the store has and the box cannot use.
func useless(err error) bool {
	return errors.Is(err, archive.ErrTooLarge) || errors.Is(err, archive.ErrUnread)
}

// read returns a small object's bytes; nil: the store has no such object, or a large one.
func (a *Agent) read(ctx context.Context, key string) ([]byte, error) {
	o, err := a.get(ctx, key, fleetproto.MaxJWS)
	if errors.Is(err, archive.ErrNotFound) || errors.Is(err, archive.ErrTooLarge) {
		return nil, nil
	}
	return o.Data, err
}

func (a *Agent) fetch(ctx context.Context, key, digest string, limit int64) ([]byte, error) {
	o, err := a.get(ctx, key, limit)
	if err != nil {
		return nil, err
	}
	if got := fleetproto.Digest(o.Data); got != digest {
		return nil, fmt.Errorf("%w: %s holds bytes of another digest (%.12s)", fleetproto.ErrOther, key, got)
	}
	return o.Data, nil
}
