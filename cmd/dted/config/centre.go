package config

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"dtegate/engine/archive"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/sign"
	"dtegate/rules/bundle"
)

// Centre is fleet.toml: how central IT reaches a chain's object store, and the key that its orders bear. No box has it.
// Relative paths are relative to the file's own folder.
type Centre struct {
	// Chain is the chain's name, Ambiente the one that its boxes sell in: all that is signed names both, and boxes of
	// other chains or of the other ambiente take nothing of it.
	Chain    string     `toml:"chain"`
	Ambiente string     `toml:"ambiente"`
	Store    Archive    `toml:"store"`
	Director Director   `toml:"director"`
	Keys     []RulesKey `toml:"rules_key"` // that branches pin: a bundle which none of them signed is not published
	// Threshold is how many of them must have signed. Default: 1.
	Threshold int `toml:"rules_threshold"`
	// Cache is a folder for what never changes in the store. Default: fleet-cache beside the file.
	Cache string `toml:"cache"`
}

// Director is the key that signs what branches shall run, see dtectl fleet keygen. The private half is needed to
// publish only.
type Director struct {
	Public         string `toml:"public"`
	Key            string `toml:"key"`             // sealed
	PassphraseFile string `toml:"passphrase_file"` // of the sealed key
}

// LoadCentre reads and checks a fleet.toml; the error is an *Invalid with every fault.
func LoadCentre(path string) (*Centre, error) {
	c := new(Centre)
	if err := read(path, c); err != nil {
		return nil, err
	}
	folder := filepath.Dir(path)
	if c.Cache == "" {
		c.Cache = "fleet-cache"
	}
	for _, p := range []*string{&c.Store.SecretFile, &c.Director.Public, &c.Director.Key, &c.Director.PassphraseFile,
		&c.Cache} {
		resolve(folder, p)
	}
	for i := range c.Keys {
		resolve(folder, &c.Keys[i].File)
	}
	c.Threshold = max(1, c.Threshold)
	var faults []error
	for _, s := range [][2]string{{"store.endpoint", c.Store.Endpoint}, {"store.bucket", c.Store.Bucket},
		{"store.access_key", c.Store.AccessKey + c.Store.Credentials},
		{"store.secret_file", c.Store.SecretFile + c.Store.Credentials}, {"director.public", c.Director.Public}} {
		if s[1] == "" {
			faults = append(faults, fmt.Errorf("%s: is missing", s[0]))
		}
	}
	if err := fleetproto.CheckName(c.Chain); err != nil {
		faults = append(faults, fmt.Errorf("chain: %w", err))
	}
	if c.Ambiente != "00" && c.Ambiente != "01" {
		faults = append(faults, fmt.Errorf("ambiente: is %q, must be \"00\" (test) or \"01\" (production)", c.Ambiente))
	}
	if err := invalid(path, faults...); err != nil {
		return nil, err
	}
	return c, nil
}

// Identity is the chain as everything that is signed in it names it.
func (c *Centre) Identity() fleetproto.Chain {
	return fleetproto.Chain{Name: c.Chain, Ambiente: c.Ambiente}
}

// StoreConnections are how many requests the centre may make of the store at once: a chain's statuses are thousands of
// small objects.
const StoreConnections = 64

// OpenStore returns the chain's store; it is not asked yet.
func (c *Centre) OpenStore() (*archive.Archive, error) {
	a, err := c.Store.open(StoreConnections)
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "archive.", "store."))
	}
	return a, nil
}

// Pinned reads the keys that must have signed a bundle.
func (c *Centre) Pinned() (bundle.Keys, error) {
	return (&Rules{Threshold: c.Threshold, Keys: c.Keys}).Pinned()
}

// Known reads the public half of the director's key.
func (d *Director) Known() (ed25519.PublicKey, error) {
	b, err := os.ReadFile(d.Public)
	if err != nil {
		return nil, fmt.Errorf("director.public: %w", err)
	}
	k, err := bundle.ParsePublic(b)
	if err != nil {
		return nil, fmt.Errorf("director.public: %s: %w", d.Public, err)
	}
	return k, nil
}

// Open opens the private half of the director's key: about 0.4 s.
func (d *Director) Open() (ed25519.PrivateKey, error) {
	if d.Key == "" {
		return nil, errors.New("director.key: is missing: this verb signs an order")
	}
	sealed, err := os.ReadFile(d.Key)
	if err != nil {
		return nil, fmt.Errorf("director.key: %w", err)
	}
	passphrase, err := ReadSecret("director.passphrase_file", d.PassphraseFile)
	if err != nil {
		return nil, err
	}
	k, err := sign.OpenPrivate(sealed, []byte(passphrase))
	if err != nil {
		return nil, fmt.Errorf("director.key: %s: %w", d.Key, err)
	}
	public, err := d.Known()
	if err != nil {
		return nil, err
	}
	if !public.Equal(k.Public()) {
		return nil, fmt.Errorf("director.public: %s is not the public half of %s", d.Public, d.Key)
	}
	return k, nil
}
