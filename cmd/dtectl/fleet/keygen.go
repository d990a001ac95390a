package fleet

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/screen"
	"dtegate/engine/fleet/wire"
	"dtegate/engine/sign"
	"dtegate/rules/bundle"
)

// Keygen is dtectl fleet keygen.
type Keygen struct {
	Name           string `arg:"" type:"path" help:"Files NAME.jwe (the key, sealed), NAME.pub (for every box) and NAME.passphrase."`
	PassphraseFile string `type:"path" help:"File with the passphrase, of 12 bytes or more; default: NAME.passphrase, made where it is not there." placeholder:"FILE"`
}

// Run never writes over a key.
func (c *Keygen) Run() error {
	sealed, public, file := c.Name+".jwe", c.Name+".pub", c.PassphraseFile
	if file == "" {
		file = c.Name + ".passphrase"
	}
	for _, path := range []string{sealed, public} {
		if _, err := os.Stat(path); err == nil {
			return fmt.Errorf("%s exists", path)
		}
	}
	passphrase, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		passphrase = []byte(config.Secret())
		err = config.WriteFile(file, passphrase)
	}
	if err != nil {
		return fmt.Errorf("preparing passphrase: %w", err)
	}
	half, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("making the director's key: %w", err)
	}
	secret, err := sign.SealPrivate(private, []byte(strings.TrimSpace(string(passphrase))))
	if err != nil {
		return err
	}
	open, err := bundle.MarshalPublic(half)
	if err != nil {
		return err
	}
	if err := errors.Join(config.WriteFile(sealed, secret), config.WriteFile(public, open)); err != nil {
		return err
	}
	screen.Printf("key          %s (sealed)\npassphrase   %s: keep it elsewhere\npublic       %s: fleet.director_key of every box\nfingerprint  %s\n", sealed, file, public, wire.Fingerprint(half))
	return nil
}
