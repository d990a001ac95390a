// Package start reads and checks what dted needs before it opens its store: key, secrets, tokens, certificates, rules,
// and the servers that documents go to. dted does not start with a fault that this package finds, and dtectl doctor
// prints the same faults: with one loader, doctor is never more lenient than dted.
package start

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/engine/fleet/bucket"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/mail"
	"dtegate/engine/outbox"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/engine/sign"
	"dtegate/gateway/certificate"
	"dtegate/rules/bundle"
)

// Inputs is the content of the files that a start reads.
type Inputs struct {
	Key      *sign.Key
	Password string   // of MH's API
	Admin    [32]byte // digest of the admin token; zero when the configuration names none
	Tokens   *config.TokenFile
	Delivery outbox.Delivery
	Hook     string            // secret of the webhook; "": there is none
	Fleet    *Fleet            // nil: the branch is of no chain
	Rules    bundle.Keys       // keys that may sign rules
	Shipped  map[string][]byte // bundles of the rules folder, by path
}

// Fault is one reason not to start.
type Fault struct {
	Check string // the part that was read, by doctor's name: "key", "tokens", "tls" …
	Err   error
}

func (f *Fault) Error() string { return f.Err.Error() }
func (f *Fault) Unwrap() error { return f.Err }

// Options of Read.
type Options struct {
	// OpenKey opens a sealed key, default sign.Open. That takes half a second.
	OpenKey func(sealed, passphrase []byte) (*sign.Key, error)
	// Catalogue returns the words of a code of MH's catalogues when a document is printed; nil knows none.
	Catalogue func(catalogue, code string) (string, bool)
}

// Read reads everything, even after a fault. It returns the faults in a fixed order, one for each thing to mend.
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

// adminTokenLength is the shortest admin token, in characters.
const adminTokenLength = 32

// adminToken returns the digest of the admin token; zero if no file is named.
func adminToken(file string) (digest [32]byte, err error) {
	if file == "" {
		return digest, nil
	}
	token, err := config.ReadSecret("ops.admin_token_file", file)
	if err != nil {
		return digest, err
	}
	if len(token) < adminTokenLength {
		return digest, fmt.Errorf("ops.admin_token_file: %s holds %d characters, an admin token has at least %d", file,
			len(token), adminTokenLength)
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

// certificates reads the certificates of the encrypted listeners. A missing certificate of the box's own authority is
// no fault: a start makes it.
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

// shipped reads the bundles of the rules folder. Their signatures are checked when they are activated.
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

// CheckShipped compares the issuer's data with the layouts of the bundles that were read and that pinned keys have
// signed. A start does the same with all rules in force, see CheckIssuer.
func (in *Inputs) CheckShipped(c *config.Config) error {
	var bundles []*bundle.Bundle
	for _, path := range slices.Sorted(maps.Keys(in.Shipped)) {
		if b, err := in.Rules.Read(in.Shipped[path]); err == nil {
			bundles = append(bundles, b)
		}
	}
	return checkBundles(c, bundles)
}

// Listening returns the error for an address that dted cannot listen on.
func Listening(setting string, err error) error {
	if name := config.Variables[setting]; os.Getenv(name) != "" {
		setting += ": " + name
	}
	return fmt.Errorf("%s: %s", setting, strings.TrimPrefix(err.Error(), "listen tcp "))
}

// Delivery returns how documents reach their receivers and the archive. There is always a printer; mail and archive
// depend on the configuration. It connects to nothing.
func Delivery(c *config.Config, catalogue func(catalogue, code string) (string, bool)) (d outbox.Delivery, err error) {
	var faults []error
	d.Printer, err = printer(c, catalogue)
	faults = append(faults, err)
	if m := c.Mail; m != nil {
		d.Mail, err = mailer(m, &c.Issuer)
		faults = append(faults, err)
		_, d.Domain, _ = strings.Cut(m.From, "@")
		d.Look = mail.Look{Trade: c.Issuer.TradeName, Color: c.Issuer.PrimaryColour, Greeting: m.Greeting}
		d.Contingency, d.GiveUpAfter = m.Contingency, time.Duration(m.GiveUpAfter)
	}
	if a := c.Archive; a != nil {
		d.Archive, err = a.Open()
		faults = append(faults, err)
	}
	return d, errors.Join(faults...)
}

// printSettings replaces the names of options in errors of pdf.New by the names of settings.
var printSettings = strings.NewReplacer("pdf: Style.Color", "issuer.color_principal", "pdf: Style.Logo", "print.logo")

func printer(c *config.Config, catalogue func(catalogue, code string) (string, bool)) (p *pdf.Printer, err error) {
	style := pdf.Style{Color: c.Issuer.PrimaryColour, Footer: c.Print.Footer}
	if c.Print.Logo != "" {
		if style.Logo, err = os.ReadFile(c.Print.Logo); err != nil {
			return nil, fmt.Errorf("print.logo: %w", err)
		}
	}
	view := func(document string) *bundle.View { return record.TypeOf(document).View }
	if p, err = pdf.New(pdf.Options{Catalogue: catalogue, Type: view, Style: style}); err != nil {
		return nil, errors.New(printSettings.Replace(err.Error()))
	}
	return p, nil
}

// mailSettings maps the options of mail.New to settings.
var mailSettings = map[string]string{"Host": "mail.host", "Port": "mail.port", "Security": "mail.security",
	"From":     "mail.from",
	"FromName": "issuer.nombre", "ReplyTo": "mail.reply_to"}

func mailer(m *config.Mail, i *config.Issuer) (*mail.Sender, error) {
	reply := m.ReplyTo
	if reply == "" && mail.Mailable(i.Mail) {
		reply = i.Mail // an answer goes to the store and not to a mailbox that nobody reads
	}
	o := mail.Options{Host: m.Host, Port: m.Port, Security: mail.Security(m.Security), User: m.User, From: m.From,
		FromName: cmp.Or(i.TradeName, i.Name), ReplyTo: reply, Timeout: time.Duration(m.Timeout)}
	if m.User != "" {
		password, err := config.ReadSecret("mail.password_file", m.PasswordFile)
		if err != nil {
			return nil, err
		}
		o.Password = mail.Secret(password)
	}
	s, err := mail.New(o)
	var field *mail.FieldError
	// Otherwise mail.New has a check that this table lacks
	if errors.As(err, &field) && mailSettings[field.Field] != "" {
		return nil, fmt.Errorf("%s: %s", mailSettings[field.Field], field.Text)
	}
	return s, err
}

// Fleet holds the files of a branch of a chain.
type Fleet struct {
	Store     bucket.Bucket
	Chain     fleetproto.Chain
	Directors []fleetproto.Key
}

// openFleet reads the keys of [fleet]. The first start makes the box's own key. If the key exists and cannot be read,
// dted does not start: the centre knows the box by this key.
func openFleet(c *config.Config) (*Fleet, error) {
	f := c.Fleet
	if f == nil {
		return nil, nil
	}
	made := &Fleet{Chain: c.Chain()}
	var faults []error
	var err error
	made.Store, err = f.Open()
	faults = append(faults, err)
	made.Directors, err = f.Directors()
	faults = append(faults, err)
	if _, err = f.Box(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		faults = append(faults, err)
	}
	return made, errors.Join(faults...)
}

// rehearsed is the suffix of a file beside the store; the file marks a store with which production was rehearsed.
const rehearsed = ".rehearsal"

// CheckRehearsal refuses to mix a rehearsal with production: a rehearsal begins with a store that has issued nothing,
// and no appliance in production opens the store afterwards. lastID is the store's last record.
func CheckRehearsal(c *config.Config, lastID uint64) error {
	mark := c.Data + rehearsed
	_, err := os.Stat(mark)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("authority.rehearsal: looking for the mark of a rehearsal: %w", err)
	}
	switch marked := err == nil; {
	case !c.Authority.Rehearsal && marked:
		return fmt.Errorf("authority.rehearsal: the store %s was made to rehearse production (%s): its documents have "+
			"simulated seals; make another with dtectl init", c.Data, mark)
	case c.Authority.Rehearsal && !marked && lastID > 0:
		return fmt.Errorf("authority.rehearsal: the store %s has issued documents: a rehearsal of production needs a "+
			"store of its own, made by dtectl init", c.Data)
	}
	return nil
}

// Rehearse is CheckRehearsal, and marks the store of a rehearsal: its numbers and simulated seals never mix with real
// ones.
func Rehearse(c *config.Config, lastID uint64, log *slog.Logger) error {
	if err := CheckRehearsal(c, lastID); err != nil || !c.Authority.Rehearsal {
		return err
	}
	mark := c.Data + rehearsed
	if err := os.WriteFile(mark, []byte("Production was rehearsed with this store. Its seals are simulated.\n"),
		0o600); err != nil {
		return fmt.Errorf("marking the store of a rehearsal: %w", err)
	}
	log.Warn("rehearsal of production: simulated seals are believed, and no document is valid", "authority",
		c.Authority.URL, "mark", mark)
	return nil
}

// Exposed returns the secrets that other accounts of this machine may read or write, each by its setting and with its
// remedy, in the order of the sample. They do not prevent a start: the secret may already be known, and a store that
// does not sell does not help. dted warns of each at every start, and doctor fails. sound is how many secrets are
// protected; missing files do not count.
func Exposed(c *config.Config) (faults []error, sound int) {
	secrets := [][2]string{{"tokens", c.Tokens}, {"box_key", c.BoxKey}, {"api.key", c.API.Key}, {"ops.key", c.Ops.Key},
		{"ops.admin_token_file", c.Ops.AdminTokenFile}, {"authority.password_file", c.Authority.PasswordFile},
		{"key.file", c.Key.File},
		{"key.passphrase_file", c.Key.PassphraseFile}}
	if c.Mail != nil {
		secrets = append(secrets, [2]string{"mail.password_file", c.Mail.PasswordFile})
	}
	if c.Archive != nil {
		secrets = append(secrets, [2]string{"archive.secret_file", c.Archive.SecretFile})
	}
	if c.Webhook != nil {
		secrets = append(secrets, [2]string{"webhook.secret_file", c.Webhook.SecretFile})
	}
	if f := c.Fleet; f != nil {
		secrets = append(secrets, [2]string{"fleet.key", f.Key})
		if f.Store != c.Archive {
			secrets = append(secrets, [2]string{"fleet.store.secret_file", f.Store.SecretFile})
		}
	}
	for _, s := range secrets {
		if s[1] == "" {
			continue
		}
		mode, open, err := reach(s[1])
		switch {
		case err != nil: // the part that needs the file reports the error
		case open:
			faults = append(faults, fmt.Errorf("%s: others may read or alter %s (mode %04o): chmod 600 %s, and "+
				"replace the secret if others use this machine", s[0], s[1], mode, s[1]))
		default:
			sound++
		}
	}
	return faults, sound
}

// reach reports whether other accounts can reach a file, and returns the file's mode. A folder that only its owner and
// group may enter protects its files, whatever their mode: systemd's credentials and /etc/dted are such folders.
func reach(path string) (mode fs.FileMode, open bool, err error) {
	file, err := os.Stat(path)
	if err != nil {
		return 0, false, err
	}
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return 0, false, err
	}
	mode = file.Mode().Perm()
	return mode, mode&0o077 != 0 && folder.Mode().Perm()&0o001 != 0, nil
}
