// Package setup contains dtectl init, token and tls. They make the parts of a new box: the sealed key, the store, the
// tokens, and the certificates for the LAN.
package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/fleet/ship"
	"dtegate/engine/sign"
	"dtegate/gateway/certificate"
	"dtegate/storage"
)

type Init struct {
	Certificate         string `required:"" type:"existingfile" help:"MH's certificate file (.crt) or a PKCS#8 PEM."`
	CertificatePassword string `type:"existingfile" help:"File with the password of the certificate's private key."`
	NoStore             bool   `help:"Make everything but the store: for a box whose store is rebuilt or restored."`
	NewBranch           string `help:"The branch has never sold: do not ask the chain's store." placeholder:"BRANCH"`
}

// Run never replaces a store: a new store would start the numbering again at 1.
func (c *Init) Run(ctx context.Context, cfg *config.Config) error {
	if !c.NoStore {
		if err := c.neverSold(ctx, cfg); err != nil {
			return err
		}
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
	if err := Prepare(cfg, key, !c.NoStore); err != nil {
		return err
	}
	// Doctor and the start report a missing or unreadable password file.
	if password, err := config.ReadSecret("authority.password_file", cfg.Authority.PasswordFile); err == nil {
		if err := DoubtPassword(cfg.Authority.PasswordFile, password); err != nil {
			term.Printf("warning  %v; %s\n", err, DoubtedPassword)
		}
	}
	if authority, err := cfg.BoxAuthority().Authority(); err == nil {
		term.Printf("tls      %s, for the tills to trust\npin      %s\n", cfg.BoxAuthority().AuthorityFile(),
			certificate.Fingerprint(authority))
	}
	if c.NoStore {
		term.Printf("key      %s (sealed)\ntokens   %s\n", cfg.Key.File, cfg.Tokens)
		return nil
	}
	term.Printf("store    %s\nkey      %s (sealed)\ntokens   %s\nnext     dtectl token new --point-of-sale %d --name "+
		"caja-1 (every document; add --permission …,ANULACION where it invalidates)\n",
		cfg.Data, cfg.Key.File, cfg.Tokens, cfg.Points[0].ID)
	return nil
}

// askFor is the time limit of neverSold's requests to the chain's store.
const askFor = 30 * time.Second

// neverSold returns an error if the chain's store has a copy of this branch's store: a new store would use its numbers
// again. It also returns an error if the chain's store does not answer, unless NewBranch names the branch.
func (c *Init) neverSold(ctx context.Context, cfg *config.Config) error {
	if cfg.Fleet == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	branch := cfg.Fleet.Branch
	store, err := cfg.Fleet.Open()
	sold := false
	if err == nil {
		sold, err = ship.HasCopy(ctx, store, branch)
	}
	switch {
	case sold:
		return fmt.Errorf("fleet.branch: the chain's store has a copy of %[1]s: this branch has sold, and an empty "+
			"store would use its numbers again. dtectl recover rebuilds its store "+
			"(RUNBOOK, Dead box); then dtectl init --no-store makes the key and the tokens", branch)
	case err != nil && c.NewBranch == branch:
		term.Printf("warning  the chain's store does not answer, and --new-branch says that %s has never sold: %v\n",
			branch, err)
		return nil
	case err != nil:
		return fmt.Errorf("whether %[1]s has sold before is not known, because the chain's store does not answer. If "+
			"another box sold for it, its store is rebuilt (RUNBOOK, Dead box); "+
			"if nobody ever did, --new-branch %[1]s makes an empty store: %[2]w", branch, err)
	}
	return nil
}

// Prepare seals the signing key and makes the token file, the admin token, the box's key, the box's own certificate
// authority and, if store is set, the store: last, so that a failed attempt can be repeated.
func Prepare(cfg *config.Config, key *sign.Key, store bool) error {
	if _, err := os.Stat(cfg.Data); err == nil && store {
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
	if !store {
		return nil
	}
	o := cfg.Store(slog.Default())
	o.SecondCopy = cfg.SecondCopy
	err = storage.Create(o)
	if errors.Is(err, storage.ErrExists) {
		err = fmt.Errorf("this box has sold: dtectl recover rebuilds its store, and then dtectl init --no-store makes "+
			"the key and the tokens. If the mark or the card is another branch's, take it away instead: %w", err)
	}
	return err
}

// ReadKey reads the signing key from MH's certificate file, or from a PEM file, for which certificate is nil.
func ReadKey(path, passwordFile string) (key *sign.Key, certificate *sign.Certificate, err error) {
	data, err := adminclient.ReadNamed(path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading certificate: %w", err)
	}
	var password []byte
	if passwordFile != "" {
		if password, err = adminclient.ReadNamed(passwordFile); err != nil {
			return nil, nil, fmt.Errorf("reading certificate password: %w", err)
		}
	}
	if strings.HasPrefix(strings.TrimSpace(string(data)), "-----BEGIN") {
		key, err = sign.ParsePEM(data)
		return key, nil, err
	}
	key, c, err := sign.ParseCertificate(data, strings.TrimRight(string(password), "\r\n"))
	switch {
	case err == nil:
		return key, &c, nil
	case errors.Is(err, sign.ErrPassword) && len(password) == 0:
		err = errors.New("MH's certificate has a password: give it in a file with --certificate-password")
	case errors.Is(err, sign.ErrPassword):
		err = fmt.Errorf("%w: use the password chosen for the private key when the certificate was made in MH's "+
			"portal, not the password of MH's API or of the portal", err)
	case errors.Is(err, sign.ErrCertificate):
		err = fmt.Errorf("%w: take the file from MH's portal again and copy it as it is, no editor and no mail may "+
			"have altered it", err)
	}
	return nil, nil, err
}

// CheckCertificate returns why MH would refuse the certificate's signatures: it belongs to another taxpayer, or is not
// valid now. MH's own signing program checks neither; MH would refuse the document after the sale.
func CheckCertificate(c sign.Certificate, nit string, now time.Time) error {
	switch {
	case c.NIT != nit:
		return fmt.Errorf("the certificate belongs to NIT %s, the configuration names %s (issuer.nit): install the "+
			"issuer's own certificate", dte.FormatNIT(c.NIT), dte.FormatNIT(nit))
	case !c.NotAfter.IsZero() && now.After(c.NotAfter):
		return fmt.Errorf("the certificate ended on %s: MH refuses its signatures; make a new certificate in MH's "+
			"portal of the same ambiente, and give its file", dte.Date(c.NotAfter))
	case now.Before(c.NotBefore):
		return fmt.Errorf("the certificate begins on %s, and this box's clock says %s: see whether the clock is right "+
			"(timedatectl)", dte.Date(c.NotBefore), dte.Date(now))
	}
	return nil
}

// DoubtPassword returns why the text in a file is probably not the password of MH's API, or nil.
func DoubtPassword(file, password string) error {
	if err := authority.CheckPassword(password); err != nil {
		return fmt.Errorf("authority.password_file: %s does not look like the password of MH's API, which has 13 to "+
			"25 characters with letters, digits and others: %w", file, err)
	}
	return nil
}

// DoubtedPassword is the advice for a file that probably does not contain the password of MH's API.
const DoubtedPassword = "see whether it is the portal's password or the certificate's: the API has one of its own, " +
	"and MH locks accounts after wrong ones"

type TLS struct {
	Show tlsShowCommand `cmd:"" help:"Print the fingerprint to pin, the names, and when each certificate ends."`
	New  tlsNewCommand  `cmd:"" help:"Make the authority and a certificate, once."`
}

type tlsShowCommand struct{}

func (*tlsShowCommand) Run(cfg *config.Config) error {
	own := cfg.BoxAuthority()
	authority, err := own.Authority()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the box has no authority of its own: dtectl tls new makes one: %w", err)
	}
	if err != nil {
		return err
	}
	leaf, err := certificate.Read(own.ServerFile())
	if err != nil {
		return err
	}
	names := leaf.DNSNames
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	term.Printf("authority    %s, until %s\npin          %s\ncertificate  until %s, renewed by itself\nnames        "+
		"%s\n", own.AuthorityFile(),
		dte.Date(authority.NotAfter), certificate.Fingerprint(authority), dte.Date(leaf.NotAfter), strings.Join(names,
			" "))
	for _, n := range own.Names {
		if !certificate.May(authority, n) {
			term.Printf("not covered  %s: the authority is older than this name; dtectl tls new --replace makes a new "+
				"authority, which the tills must trust anew\n", n)
		}
	}
	return nil
}

type tlsNewCommand struct {
	Replace bool `help:"Even if the box has an authority: it is put aside, and the tills must trust the new one."`
}

// Run makes an authority and a certificate. The running appliance serves the certificate within a second.
func (c *tlsNewCommand) Run(cfg *config.Config) error {
	own := cfg.BoxAuthority()
	if _, err := os.Stat(own.Folder); c.Replace && err == nil {
		if err := os.Rename(own.Folder, own.Folder+".replaced-"+
			time.Now().UTC().Format("20060102T150405")); err != nil {
			return fmt.Errorf("putting the authority aside: %w", err)
		}
	}
	if err := own.Create(); err != nil {
		return err
	}
	return new(tlsShowCommand).Run(cfg)
}
