package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"dtegate/engine/fleet/wire"
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

	enrolled

	Sequence int64      `json:"sequence,omitempty"` // of the last status
	Act      int64      `json:"act,omitempty"`      // number of the last act that is known to be in the store
	Acts     []wire.Act `json:"acts,omitempty"`     // that are to be sent, without their number

	// Taken is the last roll-out that this box began.
	Taken *taken `json:"taken,omitempty"`
	// Told is what the centre was last told of each bundle that the agent admitted, by digest; "" for one that is under way.
	Told map[string]string `json:"told"`
	// Refused is why the branch did not take a bundle of the live state, by digest, and at which version it was tried.
	Refused map[string]refusal `json:"refused"`
	// Settings is the digest of the settings file in force, Values the file.
	Settings string          `json:"settings,omitempty"`
	Values   json.RawMessage `json:"values,omitempty"`
}

// enrolled is what was seen of the branch's enrolments.
type enrolled struct {
	Highest int64  `json:"highest,omitempty"`
	Object  []byte `json:"enrolment,omitempty"` // the highest one: at each start it is proven again
	Own     int64  `json:"own,omitempty"`       // the highest epoch of this box's key; 0: none
	Over    bool   `json:"over,omitempty"`      // another box had the branch after it
}

// taken is a roll-out that this box began.
type taken struct {
	Rollout string      `json:"rollout"`
	Rules   []takenRule `json:"rules,omitempty"`
	Stage   wire.Stage  `json:"stage"`
	Since   time.Time   `json:"since"`
	Reason  string      `json:"reason,omitempty"`
}

// takenRule is a bundle of a roll-out, and the one of its generation that was in force before; nil: there was none.
type takenRule struct {
	Rule     wire.Rule `json:"rule"`
	Replaced *Bundle   `json:"replaced,omitempty"`
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
	if s.Group != c.o.Group {
		s.Group, s.Version, s.Digest, s.Desired = c.o.Group, 0, "", nil
	}
	// A version whose key is pinned no longer has no effect any more; the floor stays.
	if len(s.Desired) > 0 {
		if c.desired, err = wire.OpenDesired(s.Desired, c.o.Director, s.Group, s.Version); err != nil {
			c.desired = nil
			c.o.Logger.Warn("the last desired state has no effect: no pinned key has signed it", "version", s.Version, "error", err)
		}
	}
	if s.Highest > 0 {
		if _, err := wire.OpenEnrolment(s.Object, c.o.Director, s.Branch, s.Highest); err != nil {
			s.Object, s.Over = nil, false
			c.o.Logger.Warn("the branch's enrolment has no effect: no pinned key has signed it", "epoch", s.Highest, "error", err)
		}
	}
	if s.Told == nil {
		s.Told, s.Refused = make(map[string]string), make(map[string]refusal)
	}
	return nil
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
