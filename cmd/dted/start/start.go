// Package start reads and proves what dted needs before it opens its store: key, secrets, tokens, certificates, rules, and the
// servers that documents go to. dted refuses to start for what this package finds wrong, and dtectl doctor prints the same:
// there is one loader, so that doctor is never kinder than dted.
package start

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"dtegate/cmd/dted/config"
	"dtegate/engine/outbox"
	"dtegate/engine/sign"
	"dtegate/gateway/certificate"
	"dtegate/rules/bundle"
)

// Inputs is what a start reads from files.
type Inputs struct {
	Key      *sign.Key
	Password string   // of MH's API
	Admin    [32]byte // digest of the admin token; zero when the configuration names none
	Tokens   *config.TokenFile
	Delivery outbox.Delivery
	Hook     string            // secret of the webhook; "": there is none
	Fleet    *Fleet            // nil: the branch is of no chain
	Rules    bundle.Keys       // that may sign rules
	Shipped  map[string][]byte // bundles of the rules folder, by path
}

// Fault is one reason not to start.
type Fault struct {
	Check string // what was read, as doctor calls it: "key", "tokens", "tls" …
	Err   error
}

func (f *Fault) Error() string { return f.Err.Error() }
func (f *Fault) Unwrap() error { return f.Err }

// Options of Read.
type Options struct {
	// OpenKey opens a sealed key, default sign.Open. That takes half a second.
	OpenKey func(sealed, passphrase []byte) (*sign.Key, error)
	// Catalogue is asked for the words of a code of MH's catalogues when a document is printed; nil knows none.
	Catalogue func(catalogue, code string) (string, bool)
}

// Read reads everything, whatever is wrong with some of it. The faults are in a fixed order, one for each thing to mend.
func Read(ctx context.Context, c *config.Config, o Options) (*Inputs, []Fault) {
	if o.OpenKey == nil {
		o.OpenKey = sign.Open
	}
	in := new(Inputs)
	var faults []Fault
	for _, part := range []struct {
		check string
		read  func() error
	}{
		{"key", func() (err error) { in.Key, err = key(c.Key, o.OpenKey); return err }},
		{"authority", func() (err error) {
			in.Password, err = config.ReadSecret("authority.password_file", c.Authority.PasswordFile)
			return err
		}},
		{"admin token", func() (err error) { in.Admin, err = adminToken(c.Ops.AdminTokenFile); return err }},
		{"tokens", func() (err error) { in.Tokens, err = tokens(c); return err }},
		{"tls", func() error { return certificates(c) }},
		{"delivery", func() (err error) { in.Delivery, err = Delivery(c, o.Catalogue); return err }},
		{"delivery", func() (err error) {
			if c.Webhook != nil {
				in.Hook, err = config.ReadSecret("webhook.secret_file", c.Webhook.SecretFile)
			}
			return err
		}},
		{"fleet", func() (err error) { in.Fleet, err = openFleet(c); return err }},
		{"rules", func() (err error) { in.Rules, err = c.Rules.Pinned(); return err }},
		{"rules", func() (err error) { in.Shipped, err = shipped(c.Rules.Folder); return err }},
	} {
		if ctx.Err() != nil && len(faults) > 0 {
			break
		}
		for _, err := range config.Faults(part.read()) {
			faults = append(faults, Fault{part.check, err})
		}
	}
	return in, faults
}

// Refusal joins faults to the error that ends a start; nil for none.
func Refusal(faults []Fault) error {
	var list []error
	for i := range faults {
		list = append(list, &faults[i])
	}
	return errors.Join(list...)
}

// key opens the sealed key and proves it with a test signature.
func key(c config.Key, open func(sealed, passphrase []byte) (*sign.Key, error)) (*sign.Key, error) {
	sealed, err := os.ReadFile(c.File)
	if err != nil {
		return nil, fmt.Errorf("key.file: %w", err)
	}
	passphrase, err := config.ReadSecret("key.passphrase_file", c.PassphraseFile)
	if err != nil {
		return nil, err
	}
	k, err := open(sealed, []byte(passphrase))
	if err != nil {
		return nil, fmt.Errorf("key.file, key.passphrase_file: %s: opening signing key: %w", c.File, err)
	}
	if err := k.Check(); err != nil {
		return nil, fmt.Errorf("key.file: %s: testing signing key: %w", c.File, err)
	}
	return k, nil
}

// adminTokenLength is how long an admin token is at least, in characters.
const adminTokenLength = 32

// adminToken is the digest of the admin token; zero when no file is named.
func adminToken(file string) (digest [32]byte, err error) {
	if file == "" {
		return digest, nil
	}
	token, err := config.ReadSecret("ops.admin_token_file", file)
	if err != nil {
		return digest, err
	}
	if len(token) < adminTokenLength {
		return digest, fmt.Errorf("ops.admin_token_file: %s holds %d characters, an admin token has at least %d", file, len(token), adminTokenLength)
	}
	return sha256.Sum256([]byte(token)), nil
}

// tokens reads the tills' tokens.
func tokens(c *config.Config) (*config.TokenFile, error) {
	file, err := config.LoadTokens(c.Tokens)
	if err != nil {
		return nil, err
	}
	return file, file.CheckPoints(c)
}

// certificates reads those of the listeners that are encrypted. A certificate of the box's own authority that is missing is no
// fault: a start makes it.
func certificates(c *config.Config) error {
	var faults []error
	own := false
	for _, l := range []struct {
		name, listen string
		transport    config.Transport
	}{{"api", c.API.Listen, c.API.Transport}, {"ops", c.Ops.Listen, c.Ops.Transport}} {
		switch {
		case !l.transport.Encrypted(l.listen):
		case l.transport.Certificate == "":
			own = true
		default:
			if _, err := certificate.Open(l.transport.Certificate, l.transport.Key); err != nil {
				faults = append(faults, fmt.Errorf("%s.certificate, %s.key: %w", l.name, l.name, err))
			}
		}
	}
	if own {
		_, err := c.BoxAuthority().Authority()
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf(`no certificate for a listener that the LAN reaches: make the box's own authority with dtectl tls new, or name certificate and key, or set tls = "off": %w`, err)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("tls.folder: %w", err))
		}
	}
	return errors.Join(faults...)
}

// shipped reads the bundles of the rules folder. Whose signature they bear their activation asks.
func shipped(folder string) (map[string][]byte, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*"+bundle.Extension))
	if err != nil {
		return nil, fmt.Errorf("rules.folder: %w", err)
	}
	read := make(map[string][]byte)
	var faults []error
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			faults = append(faults, fmt.Errorf("rules.folder: %w", err))
			continue
		}
		read[path] = data
	}
	return read, errors.Join(faults...)
}

// CheckShipped compares the issuer's data with the layouts of the bundles that were read and that the pinned keys have signed. A
// start does the same with all that are up, see CheckIssuer.
func (in *Inputs) CheckShipped(c *config.Config) error {
	var bundles []*bundle.Bundle
	for _, path := range slices.Sorted(maps.Keys(in.Shipped)) {
		if b, err := in.Rules.Read(in.Shipped[path]); err == nil {
			bundles = append(bundles, b)
		}
	}
	return checkBundles(c, bundles)
}

// Listening is a sentence for an address that dted cannot take.
func Listening(setting string, err error) error {
	return fmt.Errorf("%s: %s", setting, strings.TrimPrefix(err.Error(), "listen tcp "))
}
