package config

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"dtegate/engine/archive"
	"dtegate/engine/authority/connpool"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/mail"
	"dtegate/engine/outbox"
	"dtegate/engine/pdf"
	"dtegate/engine/recordmac"
	"dtegate/engine/redacted"
	"dtegate/engine/sign"
	"dtegate/gateway/certificate"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// This file has what dted and dtectl both make from a configuration.

// Store returns the options that open the store without its second copy.
func (c *Config) Store(log *slog.Logger) storage.Options {
	return storage.Options{Dir: c.Data, MarkPath: c.Mark, Logger: log, Now: c.Now, Ours: c.ours}
}

// ours returns an error if the series have documents, but none of an establishment with a configured point of sale. The
// documents' ambiente proves nothing: a branch that begins production has only test documents.
func (c *Config) ours(series []string) error {
	var theirs []string
	for _, name := range series {
		words := strings.Split(name, "/") // of documents: ambiente, type, establishment, point of sale, year
		if len(words) < 5 {               // a series of the box's own records
			continue
		}
		if slices.ContainsFunc(c.Points, func(p Point) bool { return p.Establishment == words[2] }) {
			return nil
		}
		theirs = append(theirs, words[2])
	}
	if theirs == nil {
		return nil
	}
	return fmt.Errorf("its documents are of %s, and no point_of_sale is; if the branch had this code before, add a "+
		"point_of_sale with it", strings.Join(slices.Compact(theirs), ", "))
}

// BoxAuthority returns the box's own certificate authority. Its files need not exist yet.
func (c *Config) BoxAuthority() *certificate.Own {
	return &certificate.Own{Folder: c.TLS.Folder, Names: c.TLS.Names, Now: time.Now, Write: WriteFile}
}

// Link returns the connections to MH, for dted, dtectl doctor and dtectl recover. It connects to nothing yet.
func (a *Authority) Link() *connpool.Link {
	return connpool.New(connpool.Options{URL: a.URL, ConnectTimeout: time.Duration(a.ConnectTimeout)})
}

// StoreName returns what people call the branch.
func (c *Config) StoreName() string { return cmp.Or(c.Branch.Name, c.Issuer.TradeName, c.Issuer.Name) }

// Open returns the archive and sends no request to it.
func (a *Archive) Open() (*archive.Archive, error) { return a.open("archive", 0) }

// StoreConnections is how many requests the centre makes to the chain's store at once, for thousands of small objects.
const StoreConnections = 64

// open returns the object store of a section of the configuration. connections is how many idle connections it keeps
// for later requests; 0 means a few.
func (a *Archive) open(section string, connections int) (*archive.Archive, error) {
	var key string
	if a.Credentials == "" || a.SecretFile != "" {
		var err error
		if key, err = ReadSecret(section+".secret_file", a.SecretFile); err != nil {
			return nil, err
		}
	}
	opened, err := archive.New(archive.Options{
		Endpoint:    a.Endpoint,
		Region:      a.Region,
		Bucket:      a.Bucket,
		Prefix:      a.Prefix,
		AccessKey:   a.AccessKey,
		Secret:      redacted.Text(key),
		PathStyle:   a.PathStyle,
		Credentials: a.Credentials,
		Connections: connections,
	})
	return opened, inSettings(err, "archive: AccessKey and Secret", section+".access_key, "+section+".secret_file",
		"archive: Endpoint", section+".endpoint", "archive: Credentials", section+".credentials",
		"archive: Prefix", section+".prefix", "archive: Bucket", section+".bucket")
}

// inSettings replaces the option's name at the beginning of another package's error by the setting's name. names lists
// pairs of an option's and a setting's name.
func inSettings(err error, names ...string) error {
	for i := 0; err != nil && i < len(names); i += 2 {
		if rest, ok := strings.CutPrefix(err.Error(), names[i]); ok {
			return fmt.Errorf("%s: %s", names[i+1], strings.TrimLeft(rest, ": "))
		}
	}
	return err
}

// Pinned returns the readable keys that may sign rules. The error has one fault for each unreadable key.
func (r *Rules) Pinned() (bundle.Keys, error) {
	keys := bundle.Keys{Threshold: r.Threshold}
	var faults []error
	for _, k := range r.Keys {
		public, err := readAs("rules.key: "+k.ID, k.File, bundle.ParsePublic)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		keys.Pinned = append(keys.Pinned, bundle.Key{ID: k.ID, Public: public})
	}
	if faults == nil {
		faults = append(faults, keys.Check())
	}
	return keys, errors.Join(faults...)
}

// Box reads the box's key. The error is fs.ErrNotExist if the key does not exist yet.
func (c *Config) Box() (*recordmac.Key, error) {
	return readAs("box_key", c.BoxKey, func(b []byte) (*recordmac.Key, error) {
		k, err := recordmac.Parse(b)
		if err != nil {
			err = fmt.Errorf("%w; put the right file back, or remove this file: the next start makes a new key", err)
		}
		return k, err
	})
}

// MakeBox reads the box's key, or makes the key if it does not exist.
func (c *Config) MakeBox() (k *recordmac.Key, made bool, err error) {
	return readOrMake(c.BoxKey, c.Box, func() (*recordmac.Key, []byte, error) {
		k := recordmac.New()
		return k, k.Text(), nil
	})
}

// Inputs is the content of the files that a start reads.
type Inputs struct {
	Key      *sign.Key
	Password string   // of MH's API
	Admin    [32]byte // digest of the admin token; zero if no file is configured
	Tokens   *TokenFile
	Delivery outbox.Delivery
	Hook     string // secret of the webhook; "": no webhook
	// Store is the chain's object store, and Directors are the keys that may sign its orders; nil without a chain.
	Store     *archive.Archive
	Directors []fleetproto.Key
	Rules     bundle.Keys       // keys that may sign rules
	Shipped   map[string][]byte // bundles of the rules folder, by path
}

// Fault is one reason why dted does not start.
type Fault struct {
	Check string // doctor's name for the part at fault: "key", "tokens", "tls" …
	Err   error
}

func (f *Fault) Error() string { return f.Err.Error() }
func (f *Fault) Unwrap() error { return f.Err }

// InputOptions are the options of Config.Inputs.
type InputOptions struct {
	// OpenKey opens a sealed key. Default: sign.Open, which takes half a second.
	OpenKey func(sealed, passphrase []byte) (*sign.Key, error)
	// Catalogue returns the words for a code of MH's catalogues, for printing. nil: no code has words.
	Catalogue func(catalogue, code string) (string, bool)
	// View returns what only this type of document prints, in a generation of its layout. nil: nothing.
	View func(document string, generation int64) *bundle.View
}

// Inputs reads everything that a start needs, and returns all faults, in a fixed order. After ctx has ended, it
// reads on only while it has found no fault.
func (c *Config) Inputs(ctx context.Context, o InputOptions) (*Inputs, []Fault) {
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
			in.Password, err = ReadSecret("authority.password_file", c.Authority.PasswordFile)
			return err
		}},
		{"admin token", func() (err error) { in.Admin, err = adminToken(c.Ops.AdminTokenFile); return err }},
		{"tokens", func() (err error) {
			if in.Tokens, err = LoadTokens(c.Tokens); err == nil {
				err = in.Tokens.CheckPoints(c)
			}
			return err
		}},
		{"tls", func() error { return certificates(c) }},
		{"delivery", func() (err error) { in.Delivery, err = delivery(c, o); return err }},
		{"delivery", func() (err error) {
			if c.Webhook != nil {
				in.Hook, err = ReadSecret("webhook.secret_file", c.Webhook.SecretFile)
			}
			return err
		}},
		{"fleet", func() error { return in.openFleet(c) }},
		{"rules", func() (err error) { in.Rules, err = c.Rules.Pinned(); return err }},
		{"rules", func() (err error) { in.Shipped, err = shipped(c.Rules.Folder); return err }},
	} {
		if ctx.Err() != nil && len(faults) > 0 {
			break
		}
		for _, err := range Faults(part.read()) {
			faults = append(faults, Fault{part.check, err})
		}
	}
	return in, faults
}

// Refusal joins faults into the error that ends a start; without faults it returns nil.
func Refusal(faults []Fault) error {
	var list []error
	for i := range faults {
		list = append(list, &faults[i])
	}
	return errors.Join(list...)
}

// key opens the sealed key and tests it with a signature.
func key(c Key, open func(sealed, passphrase []byte) (*sign.Key, error)) (*sign.Key, error) {
	passphrase, err := ReadSecret("key.passphrase_file", c.PassphraseFile)
	if err != nil {
		return nil, err
	}
	k, err := readAs("key.file, key.passphrase_file", c.File, func(sealed []byte) (k *sign.Key, err error) {
		if k, err = open(sealed, []byte(passphrase)); err != nil {
			err = fmt.Errorf("opening signing key: %w", err)
		}
		return k, err
	})
	if err != nil {
		return nil, err
	}
	if err := k.Check(); err != nil {
		return nil, fmt.Errorf("key.file: %s: testing signing key: %w", c.File, err)
	}
	return k, nil
}

// adminTokenLength is the shortest admin token, in characters.
const adminTokenLength = 32

// adminToken returns the digest of the admin token, or zero if no file is named.
func adminToken(file string) (digest [32]byte, err error) {
	if file == "" {
		return digest, nil
	}
	token, err := ReadSecret("ops.admin_token_file", file)
	if err != nil {
		return digest, err
	}
	if len(token) < adminTokenLength {
		return digest, fmt.Errorf("ops.admin_token_file: %s holds %d characters, an admin token has at least %d", file,
			len(token), adminTokenLength)
	}
	return sha256.Sum256([]byte(token)), nil
}

// certificates reads the encrypted listeners' certificates. The box's own certificate may be missing: the start makes
// it.
func certificates(c *Config) error {
	var faults []error
	for name, l := range c.Listeners() {
		if l.Encrypted() && !l.Own() {
			if _, err := certificate.Open(l.Certificate, l.Key); err != nil {
				faults = append(faults, fmt.Errorf("%s.certificate, %s.key: %w", name, name, err))
			}
		}
	}
	if c.OwnAuthority() {
		_, err := c.BoxAuthority().Authority()
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("no certificate for a listener that the LAN reaches: make the box's own authority with "+
				"dtectl tls new, or name certificate and key, or set tls = \"off\": %w", err)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("tls.folder: %w", err))
		}
	}
	return errors.Join(faults...)
}

// shipped reads the bundles of the rules folder. Their signatures are checked later.
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

// Listening returns the error for an address that dted cannot listen on.
func Listening(setting string, err error) error {
	if name := Variables[setting]; os.Getenv(name) != "" {
		setting += ": " + name
	}
	return fmt.Errorf("%s: %s", setting, strings.TrimPrefix(err.Error(), "listen tcp "))
}

// delivery makes the printer, and, if they are configured, the mailer and the archive. It connects to nothing.
func delivery(c *Config, o InputOptions) (d outbox.Delivery, err error) {
	var faults []error
	d.Printer, err = printer(c, o)
	faults = append(faults, err)
	if m := c.Mail; m != nil {
		d.Mail, err = mailer(m, &c.Issuer)
		faults = append(faults, err)
		_, d.Domain, _ = strings.Cut(m.From, "@")
		d.Look = mail.Look{Trade: c.Issuer.TradeName, Color: c.Issuer.PrimaryColour, Greeting: m.Greeting}
		d.Contingency = m.Contingency
	}
	if a := c.Archive; a != nil {
		d.Archive, err = a.Open()
		faults = append(faults, err)
	}
	return d, errors.Join(faults...)
}

func printer(c *Config, o InputOptions) (p *pdf.Printer, err error) {
	style := pdf.Style{Color: c.Issuer.PrimaryColour, Footer: c.Print.Footer}
	if c.Print.Logo != "" {
		if style.Logo, err = os.ReadFile(c.Print.Logo); err != nil {
			return nil, fmt.Errorf("print.logo: %w", err)
		}
	}
	p, err = pdf.New(pdf.Options{Catalogue: o.Catalogue, Type: o.View, Style: style})
	return p, inSettings(err, "pdf: Style.Color", "issuer.color_principal", "pdf: Style.Logo", "print.logo")
}

func mailer(m *Mail, i *Issuer) (*mail.Sender, error) {
	reply := m.ReplyTo
	if reply == "" && mail.Mailable(i.Mail) {
		reply = i.Mail // a receiver's answer goes to the issuer, not to a mailbox that nobody reads
	}
	o := mail.Options{Host: m.Host, Port: m.Port, Security: mail.Security(m.Security), User: m.User, From: m.From,
		FromName: cmp.Or(i.TradeName, i.Name), ReplyTo: reply}
	if m.User != "" {
		password, err := ReadSecret("mail.password_file", m.PasswordFile)
		if err != nil {
			return nil, err
		}
		o.Password = redacted.Text(password)
	}
	s, err := mail.New(o)
	return s, inSettings(err, "mail: Host", "mail.host", "mail: Port", "mail.port", "mail: Security", "mail.security",
		"mail: FromName", "issuer.nombre", "mail: From", "mail.from", "mail: ReplyTo", "mail.reply_to")
}

// openFleet reads the keys of [fleet]. The first start makes the box's own key. If the key is unreadable, dted does not
// start: the centre knows the box by this key.
func (in *Inputs) openFleet(c *Config) error {
	f := c.Fleet
	if f == nil {
		return nil
	}
	var store, directors error
	in.Store, store = f.Open()
	in.Directors, directors = f.Directors()
	_, box := f.Box()
	if errors.Is(box, fs.ErrNotExist) {
		box = nil
	}
	return errors.Join(store, directors, box)
}

// rehearsed is the suffix of a file next to the store that marks a rehearsal of production.
const rehearsed = ".rehearsal"

// CheckRehearsal refuses to mix a rehearsal with production: a rehearsal begins with a store that has issued nothing,
// and no appliance in production opens the store afterwards. lastID is the store's last record.
func (c *Config) CheckRehearsal(lastID uint64) error {
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

// Rehearse calls CheckRehearsal, and marks a rehearsal's store: its numbers and seals must never mix with real ones.
func (c *Config) Rehearse(lastID uint64, log *slog.Logger) error {
	if err := c.CheckRehearsal(lastID); err != nil || !c.Authority.Rehearsal {
		return err
	}
	mark := c.Data + rehearsed
	err := WriteFile(mark, []byte("Production was rehearsed with this store. Its seals are simulated.\n"))
	if err != nil {
		return fmt.Errorf("marking the store of a rehearsal: %w", err)
	}
	log.Warn("rehearsal of production: simulated seals are believed, and no document is valid", "authority",
		c.Authority.URL, "mark", mark)
	return nil
}

// Exposed returns a fault for each secret that other accounts of this machine may read or write, with its setting and
// its remedy, in the order of Config. The faults do not prevent a start, because stopping dted would not make a
// secret safe again; dted warns of them at every start, and doctor fails. sound is the number of protected secrets.
func (c *Config) Exposed() (faults []error, sound int) {
	seen := map[string]bool{"": true} // a secret of two settings counts once; "": the setting is empty
	for _, s := range settings(reflect.ValueOf(c).Elem(), "", false) {
		if s.tag.Get("file") != "secret" || seen[s.value.String()] {
			continue
		}
		path := s.value.String()
		seen[path] = true
		mode, open, err := reach(path)
		switch {
		case err != nil: // the part that needs the file reports the error
		case open:
			faults = append(faults, fmt.Errorf("%s: others may read or alter %s (mode %04o): chmod 600 %s, and "+
				"replace the secret if others use this machine", s.name, path, mode, path))
		default:
			sound++
		}
	}
	return faults, sound
}

// reach reports whether other accounts can reach a file, and returns the file's mode. A folder that only its owner and
// group may enter, such as systemd's credentials and /etc/dted, protects its files whatever their mode.
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
