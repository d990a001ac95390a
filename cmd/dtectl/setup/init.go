// Package setup makes what a box begins with: the sealed key, the store, the tokens, the certificates of the LAN. Its verbs are dtectl init, token
// and tls.
package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"dtegate/cmd/dtectl/operator"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/screen"
	"dtegate/engine/sign"
	"dtegate/gateway/certificate"
	"dtegate/storage"
)

// Init is dtectl init.
type Init struct {
	Certificate         string `required:"" type:"existingfile" help:"MH's certificate file (.crt) or a PKCS#8 PEM."`
	CertificatePassword string `type:"existingfile" help:"File with the password of the certificate's private key."`
}

// Run prepares the folders that the configuration names. It refuses to touch a store or a key that is there: a
// second store would start the numbering again at 1.
func (c *Init) Run(top *operator.Options) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	key, certified, err := ReadKey(c.Certificate, c.CertificatePassword)
	if err == nil {
		err = key.Check()
	}
	if err == nil && certified != nil {
		err = CheckCertificate(*certified, cfg.Issuer.NIT, time.Now())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.Certificate, err)
	}
	if err := Prepare(cfg, key); err != nil {
		return err
	}
	// Where the password is not there yet, or not to be read here, doctor and the start say so.
	if password, err := config.ReadSecret("authority.password_file", cfg.Authority.PasswordFile); err == nil {
		if err := DoubtPassword(cfg.Authority.PasswordFile, password); err != nil {
			screen.Printf("warning  %v; %s\n", err, DoubtedPassword)
		}
	}
	if authority, err := cfg.BoxAuthority().Authority(); err == nil {
		screen.Printf("tls      %s, for the tills to trust\npin      %s\n", cfg.BoxAuthority().AuthorityFile(), certificate.Fingerprint(authority))
	}
	screen.Printf("store    %s\nkey      %s (sealed)\ntokens   %s\nnext     dtectl token new --point-of-sale %d --name caja-1 (every document; add --permission …,ANULACION where it invalidates)\n",
		cfg.Data, cfg.Key.File, cfg.Tokens, cfg.Points[0].ID)
	return nil
}

// Prepare seals the key, makes the token file, the admin token, the box's key and the LAN's authority and creates the store, in this order: the
// store comes last, and an attempt that failed half-way can be repeated.
func Prepare(cfg *config.Config, key *sign.Key) error {
	if _, err := os.Stat(cfg.Data); err == nil {
		return fmt.Errorf("%s exists: init never touches a store", cfg.Data)
	}
	passphrase, err := os.ReadFile(cfg.Key.PassphraseFile)
	if errors.Is(err, fs.ErrNotExist) {
		passphrase = []byte(config.Secret())
		err = config.WriteFile(cfg.Key.PassphraseFile, passphrase)
	}
	if err != nil {
		return fmt.Errorf("preparing passphrase: %w", err)
	}
	sealed, err := sign.Seal(key, []byte(strings.TrimSpace(string(passphrase))))
	if err != nil {
		return fmt.Errorf("sealing key: %w", err)
	}
	if err := config.WriteFile(cfg.Key.File, sealed); err != nil {
		return err
	}
	if _, err := os.Stat(cfg.Tokens); errors.Is(err, fs.ErrNotExist) {
		if err := (&config.TokenFile{Secret: config.Secret()}).Save(cfg.Tokens); err != nil {
			return err
		}
	}
	if err := makeAdminToken(cfg); err != nil {
		return err
	}
	if _, _, err := cfg.MakeBox(); err != nil {
		return err
	}
	if cfg.OwnAuthority() {
		if err := cfg.BoxAuthority().Create(); err != nil && !errors.Is(err, certificate.ErrExists) {
			return err
		}
	}
	if err := storage.Create(cfg.Store(slog.Default())); err != nil {
		return fmt.Errorf("creating store: %w", err)
	}
	return nil
}
