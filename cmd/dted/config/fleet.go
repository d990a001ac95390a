package config

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"dtegate/engine/fleet/bucket"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/rules/bundle"
)

// Fleet is the chain that the branch is one of: where central IT says what its boxes run, and boxes how they are.
type Fleet struct {
	// Store is the chain's object store. Default: that of [archive].
	Store  *Archive `toml:"store"`
	Chain  string   `toml:"chain"`  // the chain's name: everything that is signed in it names it, and the ambiente
	Branch string   `toml:"branch"` // the branch's name in the chain
	Group  string   `toml:"group"`  // whose desired state it runs
	// DirectorKey is a file with the public key that signs the desired state, or several while one takes over from
	// another.
	DirectorKey string `toml:"director_key"`
	// Key is the file of the box's own key, made at the first start. It must not go where backups go. Default:
	// fleet.key beside the file of tokens. State is what the box remembers of the chain. Default: fleet.state beside
	// it.
	Key    string   `toml:"key"`
	State  string   `toml:"state"`
	Poll   Duration `toml:"poll"`   // how often the desired state is asked for, default 2m
	Report Duration `toml:"report"` // how often the status is written, default 15m
	// Ship carries the second copy into the chain's store: "async", seconds behind the sales; "sync", before a sale is
	// answered, which waits for that at most ShipPatience, default 2 s. Default: nothing is shipped.
	Ship         string   `toml:"ship"`
	ShipPatience Duration `toml:"ship_patience"`
}

// setDefaults resolves the files of [fleet] and sets its defaults.
func (f *Fleet) setDefaults(c *Config, folder string) {
	if f.Store == nil {
		f.Store = c.Archive
	} else {
		resolve(folder, &f.Store.SecretFile)
	}
	beside := filepath.Dir(c.Tokens)
	f.Key, f.State = cmp.Or(f.Key, filepath.Join(beside, "fleet.key")), cmp.Or(f.State, filepath.Join(beside,
		"fleet.state"))
	for _, p := range []*string{&f.DirectorKey, &f.Key, &f.State} {
		resolve(folder, p)
	}
	f.Poll, f.Report = cmp.Or(f.Poll, Duration(2*time.Minute)), cmp.Or(f.Report, Duration(15*time.Minute))
	f.ShipPatience = cmp.Or(f.ShipPatience, Duration(2*time.Second))
}

// Chain is the chain of the branch, as everything that is signed in it names it.
func (c *Config) Chain() fleetproto.Chain {
	return fleetproto.Chain{Name: c.Fleet.Chain, Ambiente: c.Ambiente}
}

func (c *Config) checkFleet() error {
	f := c.Fleet
	if f == nil {
		return nil
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, n := range [][2]string{{"fleet.chain", f.Chain}, {"fleet.branch", f.Branch}, {"fleet.group", f.Group}} {
		if err := fleetproto.CheckName(n[1]); err != nil {
			fault("%s: %w", n[0], err)
		}
	}
	if f.Ship != "" && f.Ship != "async" && f.Ship != "sync" {
		fault("fleet.ship: is %q, must be \"async\", \"sync\" or left out", f.Ship)
	}
	if f.Ship != "" && c.SecondCopy == "" {
		fault("fleet.ship: needs second_copy: that is what is shipped")
	}
	if f.DirectorKey == "" {
		fault("fleet.director_key: is missing")
	}
	if f.Store == nil {
		fault("fleet.store: is missing, and there is no [archive] whose store it could be")
	}
	within := func(name string, d Duration, least, most time.Duration) {
		if time.Duration(d) < least || time.Duration(d) > most {
			fault("%s: is %v, must be from %v to %v", name, time.Duration(d), least, most)
		}
	}
	within("fleet.poll", f.Poll, fleetproto.MinPoll, fleetproto.MaxPoll)
	within("fleet.report", f.Report, fleetproto.MinReport, fleetproto.MaxReport)
	within("fleet.ship_patience", f.ShipPatience, 100*time.Millisecond, 30*time.Second)
	return errors.Join(faults...)
}

// Open returns the chain's store; it is not asked yet.
func (f *Fleet) Open() (bucket.Bucket, error) {
	a, err := f.Store.Open()
	if err != nil {
		return bucket.Bucket{}, errors.New(strings.ReplaceAll(err.Error(), "archive.", "fleet.store."))
	}
	return bucket.New(a), nil
}

// Directors reads the keys that may sign the desired state; each is named by its fingerprint.
func (f *Fleet) Directors() (keys []fleetproto.Key, err error) {
	rest, err := os.ReadFile(f.DirectorKey)
	if err != nil {
		return nil, fmt.Errorf("fleet.director_key: %w", err)
	}
	for len(bytes.TrimSpace(rest)) > 0 {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, fmt.Errorf("fleet.director_key: %s: not PEM", f.DirectorKey)
		}
		public, err := bundle.ParsePublic(pem.EncodeToMemory(block))
		if err != nil {
			return nil, fmt.Errorf("fleet.director_key: %s: %w", f.DirectorKey, err)
		}
		keys = append(keys, fleetproto.Key{ID: fleetproto.Fingerprint(public), Public: public})
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("fleet.director_key: %s holds no key", f.DirectorKey)
	}
	return keys, nil
}

// Box reads the box's own key; fs.ErrNotExist when there is none yet.
func (f *Fleet) Box() (fleetproto.Signer, error) {
	b, err := os.ReadFile(f.Key)
	if err != nil {
		return fleetproto.Signer{}, fmt.Errorf("fleet.key: %w", err)
	}
	k, err := bundle.ParsePrivate(b)
	if err != nil {
		return fleetproto.Signer{}, fmt.Errorf("fleet.key: %s: %w; put it back, or take it away and have the box "+
			"enrolled anew", f.Key, err)
	}
	return fleetproto.Signer{ID: f.Branch, Private: k}, nil
}

// MakeBox reads the box's own key, and makes one where there is none.
func (f *Fleet) MakeBox() (s fleetproto.Signer, made bool, err error) {
	s, err = f.Box()
	if !errors.Is(err, fs.ErrNotExist) {
		return s, false, err
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return s, false, fmt.Errorf("fleet.key: %w", err)
	}
	text, err := bundle.MarshalPrivate(private)
	if err != nil {
		return s, false, fmt.Errorf("fleet.key: %w", err)
	}
	return fleetproto.Signer{ID: f.Branch, Private: private}, true, WriteFile(f.Key, text)
}

// Keeper is a small file of the appliance, replaced whole.
type Keeper string

// Load returns its bytes, none when there is no file.
func (k Keeper) Load() ([]byte, error) {
	b, err := os.ReadFile(string(k))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// Save is durable when it returns.
func (k Keeper) Save(data []byte) error { return WriteFile(string(k), data) }

// settingsFile is where the settings that the centre pushed are kept for the next start.
func (f *Fleet) settingsFile() string { return f.State + ".settings" }

// Shipping is the file of how far the second copy was shipped.
func (f *Fleet) Shipping() Keeper { return Keeper(f.State + ".ship") }

// Settings is the file of the settings that the centre pushed.
func (f *Fleet) Settings() Keeper { return Keeper(f.settingsFile()) }

// overlay lays what the centre pushed over what the file says. A file that cannot be used changes nothing: the agent
// writes it anew when it has the store's.
func (c *Config) overlay() {
	data, err := c.Fleet.Settings().Load()
	if err != nil || len(data) == 0 {
		return
	}
	s, err := fleetproto.ParseSettings(data)
	if err != nil {
		return
	}
	c.Print.Footer = cmp.Or(s.Footer, c.Print.Footer)
	if c.Mail != nil {
		c.Mail.Greeting = cmp.Or(s.Greeting, c.Mail.Greeting)
	}
	if len(c.Branch.Hours) > 0 { // closed days say nothing of a branch without hours
		c.Branch.Closed = append(c.Branch.Closed, s.Closed...)
	}
	for _, document := range s.Types {
		if !c.Types.Open(document) {
			c.Types.Issue = append(c.Types.Issue, document)
		}
	}
	for till, code := range s.Payments {
		if c.Payments == nil {
			c.Payments = make(map[string]string)
		}
		c.Payments[till] = code
	}
}
