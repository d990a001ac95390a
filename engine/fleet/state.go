package fleet

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"dtegate/engine/fleet/fleetproto"
)

// state is all that the agent remembers, in one file: the SHA-256 of the rest in hex, a line break, JSON. It is written before
// what depends on it: the version that a box has seen before that version has an effect, an act before it is sent, a number before it
// is used, what a bundle replaces before the bundle is admitted.
type state struct {
	Branch string `json:"branch"`
	Group  string `json:"group"`

	// The last version of the desired state that was verified: the floor, and what the next one must name.
	Version int64  `json:"version"`
	Digest  string `json:"digest,omitempty"`
	Desired []byte `json:"desired,omitempty"`
	// Signer is the director's key that signed it: the keys before it in Options.Director are trusted no longer.
	Signer string `json:"signer,omitempty"`

	// Closed are the points of sale of this branch that any version which was taken has closed. No later version, no other group and no
	// other key opens one of them again.
	Closed []fleetproto.ClosedPoint `json:"closed,omitempty"`

	enrolled

	Sequence int64            `json:"sequence,omitempty"` // of the last status
	Act      int64            `json:"act,omitempty"`      // number of the last act that is known to be in the store
	Acts     []fleetproto.Act `json:"acts,omitempty"`     // that are to be sent, without their number

	// Taken is the last roll-out that this box began.
	Taken *taken `json:"taken,omitempty"`
	// Owed are bundles that the centre wants no longer and that the branch could not leave yet.
	Owed []takenRule `json:"owed,omitempty"`
	// Told is what the centre was last told of each bundle that the agent admitted, by digest; "" for one that is under way.
	Told map[string]string `json:"told"`
	// Refused is why the branch did not take a bundle of the live state, by digest, and at which version it was tried.
	Refused map[string]refusal `json:"refused"`
	// Settings is the digest of the settings file in force, Values the file.
	Settings string          `json:"settings,omitempty"`
	Values   json.RawMessage `json:"values,omitempty"`
}

// enrolled is what was proven of the branch's enrolments: it stays proven when the key that signed it is trusted no longer.
type enrolled struct {
	Highest int64              `json:"highest,omitempty"`
	Object  []byte             `json:"enrolment,omitempty"` // the highest one
	At      time.Time          `json:"at,omitzero"`         // when the director signed it
	Own     int64              `json:"own,omitempty"`       // the highest epoch of this box's key; 0: none
	Points  []fleetproto.Point `json:"points,omitempty"`    // that this box may number
	Over    bool               `json:"over,omitempty"`      // another box has the branch
	Passed  bool               `json:"passed,omitempty"`    // another box had the branch after this one
}

// taken is a roll-out that this box began.
type taken struct {
	Rollout string           `json:"rollout"`
	Rules   []takenRule      `json:"rules,omitempty"`
	Stage   fleetproto.Stage `json:"stage"`
	Since   time.Time        `json:"since"`
	Reason  string           `json:"reason,omitempty"`
}

// takenRule is a bundle of a roll-out, and the one of its generation that was in force before; nil: there was none.
type takenRule struct {
	Rule     fleetproto.Rule `json:"rule"`
	Replaced *Bundle         `json:"replaced,omitempty"`
}

type refusal struct {
	Version int64  `json:"version"`
	Reason  string `json:"reason"`
}

// load reads the state, and proves again what it says that others have signed.
func (c *core) load() error {
	text, err := c.o.State.Load()
	if err != nil {
		return fmt.Errorf("reading the fleet's state: %w", err)
	}
	if len(text) > 0 {
		if err := decodeState(text, &c.state); err != nil {
			c.o.Logger.Error("the fleet's state cannot be read and is begun anew", "error", err)
			c.state = state{}
		}
		c.saved = string(text)
	}
	s := &c.state
	if s.Branch != c.o.Branch {
		*s = state{Branch: c.o.Branch}
	}
	if d, err := c.o.Chain.ReadDesired(s.Desired, s.Group, s.Version); err == nil {
		s.keepClosed(d) // where an older program wrote the file
	}
	if s.Group != c.o.Group {
		s.Group, s.Version, s.Digest, s.Desired = c.o.Group, 0, "", nil
	}
	// A version whose key is pinned no longer has no effect any more; the floor stays.
	if len(s.Desired) > 0 {
		if c.desired, err = c.o.Chain.OpenDesired(s.Desired, c.trusted(), s.Group, s.Version); err != nil {
			c.desired = nil
			c.o.Logger.Warn("the last desired state has no effect: no pinned key has signed it", "version", s.Version, "error", err)
		}
	}
	if s.Told == nil {
		s.Told, s.Refused = make(map[string]string), make(map[string]refusal)
	}
	return nil
}

// keepClosed keeps what a version closes in this branch.
func (s *state) keepClosed(d *fleetproto.Desired) {
	for _, p := range d.Closed {
		if p.Branch == s.Branch && !slices.Contains(s.Closed, p) {
			s.Closed = append(s.Closed, p)
		}
	}
}

// change alters the state: it counts once it is on disk, and not at all when it cannot be written.
func (c *core) change(alter func(*state)) error {
	text, err := encodeState(&c.state)
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
	if string(text) != c.saved {
		if err := c.o.State.Save(text); err != nil {
			return fmt.Errorf("writing the fleet's state: %w", err)
		}
	}
	c.mu.Lock()
	c.state, c.saved = next, string(text)
	c.mu.Unlock()
	return nil
}

func encodeState(s *state) ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding the fleet's state: %w", err)
	}
	sum := sha256.Sum256(b)
	return append(append(hex.AppendEncode(nil, sum[:]), '\n'), b...), nil
}

func decodeState(text []byte, s *state) error {
	sum, b, _ := strings.Cut(string(text), "\n")
	if got := sha256.Sum256([]byte(b)); hex.EncodeToString(got[:]) != sum {
		return fmt.Errorf("its bytes are not those that were written")
	}
	return json.Unmarshal([]byte(b), s)
}

// core is what all parts of an agent stand on: its options, the line to the store, its memory, and what is wrong. The goroutine of Step
// alone changes it.
type core struct {
	*line
	o     Options
	fence *Fence
	saved string // what State holds
	dirty bool   // something happened that the centre waits for

	mu       sync.Mutex // of what follows, for those who look
	state    state
	desired  *fleetproto.Desired // the last version that was verified; nil: none, or none by a key that is pinned today
	progress *fleetproto.Progress
	troubles map[string]string // by what they are about
	asked    time.Time         // the store answered about the desired state
}

// note keeps what is wrong with one of the agent's works, and logs it when it begins.
func (c *core) note(about string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.troubles[about]
	if err == nil {
		delete(c.troubles, about)
		c.dirty = c.dirty || before != ""
		return
	}
	if c.troubles[about] = err.Error(); before == "" {
		c.o.Logger.Warn("the chain's centre", "about", about, "error", err)
		c.dirty = true
	}
}

// trouble is what is wrong, in one line, but for one of the agent's works.
func (c *core) trouble(but string) (text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, about := range slices.Sorted(maps.Keys(c.troubles)) {
		if about == but {
			continue
		}
		if text != "" {
			text += "; "
		}
		text += about + ": " + c.troubles[about]
	}
	return text
}

// trusted are the director's keys that count: one that signed what was taken, and those after it.
func (c *core) trusted() []fleetproto.Key {
	return fleetproto.StillTrusted(c.o.Director, c.state.Signer)
}

// public is the box's own public key.
func (c *core) public() ed25519.PublicKey {
	public, _ := c.o.Box.Private.Public().(ed25519.PublicKey)
	return public
}

// line is the way to the object store: each request is counted, and has a time limit.
type line struct {
	store   fleetproto.Store
	metrics *metrics
}

// get asks the store for an object, within the time of a request.
func (l *line) get(ctx context.Context, key string, limit int64) (fleetproto.Object, error) {
	within := askFor
	if limit > fleetproto.MaxJWS {
		within = fetchFor
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	o, err := l.store.Get(ctx, key, limit)
	l.metrics.count("get", err)
	return o, err
}

// fetch reads an object that its digest names.
func (l *line) fetch(ctx context.Context, key, digest string, limit int64) ([]byte, error) {
	o, err := l.get(ctx, key, limit)
	if err != nil {
		return nil, err
	}
	if got := fleetproto.Digest(o.Data); got != digest {
		return nil, fmt.Errorf("%w: %s holds bytes of another digest (%.12s)", fleetproto.ErrOther, key, got)
	}
	return o.Data, nil
}

// create writes an object that is not there yet. Errors: wire.ErrExists.
func (l *line) create(ctx context.Context, key string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	err := l.store.Create(ctx, key, data)
	l.metrics.count("create", err)
	return err
}

// put replaces an object.
func (l *line) put(ctx context.Context, key string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	err := l.store.Put(ctx, key, data)
	l.metrics.count("put", err)
	return err
}
