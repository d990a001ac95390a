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

	"dtegate/engine/archive"
	"dtegate/engine/fleet/bucket"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/sign"
	"dtegate/rules/bundle"
)

// Chain returns the name and the ambiente of the branch's chain; everything signed in the chain bears both.
func (c *Config) Chain() fleetproto.Chain {
	return fleetproto.Chain{Name: c.Fleet.Chain, Ambiente: c.Ambiente}
}

// Open returns the chain's store and sends no request to it.
func (f *Fleet) Open() (bucket.Bucket, error) {
	a, err := f.Store.open("fleet.store", 0)
	if err != nil {
		return bucket.Bucket{}, err
	}
	return bucket.New(a), nil
}

// Directors reads the keys that may sign the desired state. The ID of each key is its fingerprint.
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

// Box reads the box's own key. The error is fs.ErrNotExist if the key does not exist yet.
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

// MakeBox reads the box's own key, or makes the key if it does not exist.
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

// Shipping returns the file that records how much of the second copy was shipped.
func (f *Fleet) Shipping() Keeper { return Keeper(f.State + ".ship") }

// Settings returns the file that keeps the centre's settings for the next start.
func (f *Fleet) Settings() Keeper { return Keeper(f.State + ".settings") }

// overlay replaces or extends settings of dted.toml by the settings that the centre pushed. If their file cannot be
// used, overlay changes nothing: the agent writes the file again when it has read the chain's store.
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
	if len(c.Branch.Hours) > 0 { // closed days mean nothing without hours
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

// Identity returns the chain's name and ambiente; everything signed in the chain bears both.
func (c *Centre) Identity() fleetproto.Chain {
	return fleetproto.Chain{Name: c.Chain, Ambiente: c.Ambiente}
}

// OpenStore returns the chain's store and sends no request to it.
func (c *Centre) OpenStore() (*archive.Archive, error) {
	return c.Store.open("store", StoreConnections)
}

// Pinned reads the pinned keys and the number of them that must have signed a bundle.
func (c *Centre) Pinned() (bundle.Keys, error) {
	return (&Rules{Threshold: c.Threshold, Keys: c.Keys}).Pinned()
}

// Known returns the public half of the director's key.
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

// Open opens the private half of the director's key, which takes about 0.4 s.
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
