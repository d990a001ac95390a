package config

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"

	"dtegate/engine/archive"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/sign"
	"dtegate/rules/bundle"
)

// Chain returns the name and the ambiente of the branch's chain; every signed object names both.
func (c *Config) Chain() fleetproto.Chain {
	return fleetproto.Chain{Name: c.Fleet.Chain, Ambiente: c.Ambiente}
}

// ChainPoints returns the box's points of sale as its enrolment names them.
func (c *Config) ChainPoints() (list []fleetproto.Point) {
	for _, p := range c.Points {
		list = append(list, fleetproto.Point{Establishment: p.Establishment, Point: p.PointOfSale})
	}
	return list
}

// Open returns the chain's store and sends no request to it.
func (f *Fleet) Open() (*archive.Archive, error) { return f.Store.open("fleet.store", 0) }

// Directors reads the keys that may sign the desired state. The ID of each key is its fingerprint.
func (f *Fleet) Directors() ([]fleetproto.Key, error) {
	return readAs("fleet.director_key", f.DirectorKey, func(rest []byte) (keys []fleetproto.Key, err error) {
		for len(bytes.TrimSpace(rest)) > 0 {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				return nil, errors.New("not PEM")
			}
			public, err := bundle.ParsePublic(pem.EncodeToMemory(block))
			if err != nil {
				return nil, err
			}
			keys = append(keys, fleetproto.Key{ID: fleetproto.Fingerprint(public), Public: public})
		}
		if len(keys) == 0 {
			err = errors.New("holds no key")
		}
		return keys, err
	})
}

// Box reads the box's own key. The error is fs.ErrNotExist if the key does not exist yet.
func (f *Fleet) Box() (fleetproto.Signer, error) {
	return readAs("fleet.key", f.Key, func(b []byte) (fleetproto.Signer, error) {
		k, err := bundle.ParsePrivate(b)
		if err != nil {
			err = fmt.Errorf("%w; put the right file back, or remove this file and have the box enrolled anew", err)
		}
		return fleetproto.Signer{ID: f.Branch, Private: k}, err
	})
}

// MakeBox reads the box's own key, or makes the key if it does not exist.
func (f *Fleet) MakeBox() (s fleetproto.Signer, made bool, err error) {
	return readOrMake(f.Key, f.Box, func() (fleetproto.Signer, []byte, error) {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return fleetproto.Signer{}, nil, fmt.Errorf("fleet.key: %w", err)
		}
		text, err := bundle.MarshalPrivate(private)
		return fleetproto.Signer{ID: f.Branch, Private: private}, text, err
	})
}

// Settings returns the file that keeps the centre's settings for the next start.
func (f *Fleet) Settings() Keeper { return Keeper(f.State + ".settings") }

// overlay replaces or extends settings of dted.toml by the settings that the centre pushed. An unusable file changes
// nothing: the agent writes it again when it has read the chain's store.
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

// OpenStore returns the chain's store and sends no request to it.
func (c *Centre) OpenStore() (*archive.Archive, error) {
	return c.Store.open("store", StoreConnections)
}

// Pinned reads the pinned keys and the number of them that must have signed a bundle.
func (c *Centre) Pinned() (bundle.Keys, error) {
	return (&Rules{Threshold: c.Threshold, Keys: c.Keys}).Pinned()
}

// Known reads the public half of the director's key.
func (d *Director) Known() (ed25519.PublicKey, error) {
	return readAs("director.public", d.Public, bundle.ParsePublic)
}

// Open opens the private half of the director's key, which takes about 0.4 s.
func (d *Director) Open() (ed25519.PrivateKey, error) {
	if d.Key == "" {
		return nil, errors.New("director.key: is missing: this verb signs an order")
	}
	passphrase, err := ReadSecret("director.passphrase_file", d.PassphraseFile)
	if err != nil {
		return nil, err
	}
	k, err := readAs("director.key", d.Key, func(sealed []byte) (ed25519.PrivateKey, error) {
		return sign.OpenPrivate(sealed, []byte(passphrase))
	})
	if err != nil {
		return nil, err
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
