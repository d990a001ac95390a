// Package config reads the appliance's configuration: one TOML file and the token file beside it.
package config

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"dtegate/plugins"
)

// Config is dted.toml. Relative paths are relative to the file's own folder.
type Config struct {
	// Ambiente is CAT-001: "00" test, "01" production.
	Ambiente string `toml:"ambiente"`
	Data     string `toml:"data"` // folder of the store, made by dtectl init
	Mark     string `toml:"mark"` // file of the high-water mark, best on a second medium
	// SecondCopy is a folder on another medium that gets every change before it is acknowledged. Default: none.
	SecondCopy string `toml:"second_copy"`
	// DiskReserve is the space on the store's disk below which nothing new is issued. Default: 512 MiB.
	DiskReserve Size      `toml:"disk_reserve"`
	API         Listener  `toml:"api"`
	Ops         Ops       `toml:"ops"`
	TLS         TLS       `toml:"tls"`
	Authority   Authority `toml:"authority"`
	// Contingency is how the branch lives without MH.
	Contingency Contingency `toml:"contingency"`
	Key         Key         `toml:"key"`
	Rules       Rules       `toml:"rules"`
	Issuer      Issuer      `toml:"issuer"`
	Branch      Branch      `toml:"branch"`
	Points      []Point     `toml:"point_of_sale"`
	Tokens      string      `toml:"tokens"` // file of token hashes, see dtectl token
	// BoxKey is the file of the key by which this box knows its own records again, made at the first start. It must not
	// go where backups go. Default: box.key beside the file of tokens.
	BoxKey   string            `toml:"box_key"`
	Payments map[string]string `toml:"payment_codes"`
	Types    Types             `toml:"types"`
	Print    Print             `toml:"print"`
	Mail     *Mail             `toml:"mail"`    // optional: without it nothing is mailed
	Archive  *Archive          `toml:"archive"` // optional: without it nothing is archived
	Webhook  *Webhook          `toml:"webhook"` // optional: without it late results are asked for by the tills alone
	Fleet    *Fleet            `toml:"fleet"`   // optional: without it the branch is not one of a chain
	Access   Access            `toml:"access"`
	Books    Books             `toml:"books"`
}

// Types are the documents that the branch issues. A signed bundle alone opens no door.
type Types struct {
	// Issue are types of CAT-002, beside which the chain's settings may name more. Default: those of plugins.Issued.
	Issue []string `toml:"issue"`
}

// Open reports whether the branch issues a type of document.
func (t Types) Open(document string) bool { return slices.Contains(t.Issue, document) }

func (t Types) check() error {
	for i, document := range t.Issue {
		if len(document) != 2 || strings.Trim(document, "0123456789") != "" || slices.Contains(t.Issue[:i], document) {
			return fmt.Errorf("types.issue: %q is no type of CAT-002 like \"11\", or stands twice", document)
		}
	}
	return nil
}

// Listener is an address that the appliance listens on.
type Listener struct {
	Listen string `toml:"listen"`
	Transport
	Limits
	// PublicURL, of the tills' listener, is what signed links begin with, "https://dte.example.com". Default: http, or
	// https with TLS, and the Host of the request.
	PublicURL string `toml:"public_url"`
	// BrowserOrigins are the pages that may use the tills' API from a browser, "https://caja.example.com". Default:
	// none.
	BrowserOrigins []string `toml:"browser_origins"`
	// UnknownCodes is what becomes of a code that MH's catalogue does not have: refuse (default) or pass, to let MH
	// decide while it answers. Payment codes and their terms are always passed.
	UnknownCodes string `toml:"unknown_codes"`
	// RequireKey refuses a sale without Idempotency-Key. Default: a sale without a key is issued, and its retry is
	// another sale.
	RequireKey bool `toml:"require_key"`
}

// Print is how the readable versions and the mails look; the colour is the issuer's color_principal.
type Print struct {
	Logo   string `toml:"logo"`   // PNG, JPEG or GIF of at most 512 KiB
	Footer string `toml:"footer"` // one line
}

// Mail is the server that documents are mailed by.
type Mail struct {
	Host         string   `toml:"host"`
	Port         int      `toml:"port"`     // default 587
	Security     string   `toml:"security"` // mandatory (default), starttls, none
	User         string   `toml:"user"`     // none: no login
	PasswordFile string   `toml:"password_file"`
	From         string   `toml:"from"`     // address; its domain is that of the Message-IDs
	ReplyTo      string   `toml:"reply_to"` // default: the issuer's correo
	Greeting     string   `toml:"greeting"` // one line behind the salutation
	Timeout      Duration `toml:"timeout"`  // of an attempt, default 2m
	// Contingency mails a document issued in contingency at once, without its seal, and again when it has it. Default:
	// only then.
	Contingency bool     `toml:"contingency"`
	GiveUpAfter Duration `toml:"give_up_after"` // default 120h (RFC 5321 §4.5.4.1)
}

// Archive is the S3-compatible store that documents rest in.
type Archive struct {
	Endpoint   string `toml:"endpoint"` // https://s3.us-east-1.amazonaws.com
	Region     string `toml:"region"`   // default us-east-1
	Bucket     string `toml:"bucket"`   // must exist
	Prefix     string `toml:"prefix"`   // before every path
	AccessKey  string `toml:"access_key"`
	SecretFile string `toml:"secret_file"`
	// Credentials is a service on this machine that gives keys which end, "http://127.0.0.1:9911", instead of
	// access_key and secret_file.
	Credentials string `toml:"credentials"`
	PathStyle   bool   `toml:"path_style"` // the bucket in the path, as most stores but AWS want it
}

// Webhook is where late results are posted to.
type Webhook struct {
	URL        string `toml:"url"`         // https, but for this machine
	SecretFile string `toml:"secret_file"` // one line: the key of the HMAC
}

// Ops is the operators' listener.
type Ops struct {
	Listen string `toml:"listen"`
	Transport
	AdminTokenFile string `toml:"admin_token_file"` // one line; without it nobody administers
}

// Authority is how MH is reached. Durations are texts like "8s".
type Authority struct {
	URL           string   `toml:"url"`
	PasswordFile  string   `toml:"password_file"`
	AnswerTimeout Duration `toml:"answer_timeout"` // default 8 s (MT1 §3.3)
	// Patience is how long a sale waits for MH at the counter, unless its till says otherwise: then it is issued in
	// contingency, and what became of it is found out later. Default 5 s.
	Patience Duration `toml:"patience"`
	// ConnectTimeout bounds the making of a connection to MH, look-up, TCP and TLS together, beside the sales. Default
	// 10 s, from 1 s to 1 m.
	ConnectTimeout Duration `toml:"connect_timeout"`
	Resends        int      `toml:"resends"` // default 2 (MT1 §3.3)
	// Rehearsal of production with a simulated authority on this machine, with a store of its own.
	Rehearsal bool `toml:"rehearsal"`
	// Ahead is how far the clock is put ahead, to rehearse a later day with a simulated authority on this machine whose
	// clock is ahead as far. Default 0: the box's own clock.
	Ahead Duration `toml:"ahead"`
}

// Contingency is the policy without MH. Durations are texts like "8s"; what is missing takes the default in brackets.
type Contingency struct {
	Responsible Person   `toml:"responsible"` // answers for contingency events; MH wants it
	ProbeEvery  Duration `toml:"probe_every"` // first time between two probes of MH (2s), doubling up to 30s
	// how long MH must answer before a contingency ends (2s), doubling with each of the last hour up to 5m
	Stable      Duration `toml:"stable"`
	ReportAfter Duration `toml:"report_after"` // from the end of a contingency to its event (15s)
	DoubtFor    Duration `toml:"doubt_for"`    // how long MH may still be at work on what it was sent (2m)
	LotSize     int      `toml:"lot_size"`     // (what the contingency bundle says: 100)
	LotPoll     Duration `toml:"lot_poll"`     // how often MH is asked about a lot (5s)
	// how long MH may be at work on a lot before its documents are asked for one by one (15m)
	LotPatience Duration `toml:"lot_patience"`
	// AwaitReport is how long the event of a contingency of more than three days waits for `dtectl contingency report
	// --sent` (0: not at all; at most 20h are taken).
	AwaitReport Duration `toml:"await_report"`
	// Internet are addresses (host:port), one of which answers while the branch has Internet: they tell MH's trouble
	// from the branch's own. None: only a name or a route that is not found does.
	Internet []string `toml:"internet"`
}

// Person is somebody with a document of CAT-022.
type Person struct {
	Name         string `toml:"nombre"`
	DocumentType string `toml:"tipo_documento"`
	Document     string `toml:"numero_documento"`
}

// Key is the signing key, sealed by dtectl init.
type Key struct {
	File           string `toml:"file"`
	PassphraseFile string `toml:"passphrase_file"`
}

// Rules is where the rule bundles are, and whose signatures they must bear.
type Rules struct {
	Folder    string `toml:"folder"`
	Engine    string `toml:"engine"` // compiler (default) or interpreter
	Cache     string `toml:"cache"`  // compilation cache, private to the appliance
	Threshold int    `toml:"threshold"`
	// OnFailure is what becomes of a sale whose rule fails, by the kind of failure (trap, fuel, time): "valid", the
	// rule before computes it if its own dates hold on that day (default); "any", the rule before whatever its dates;
	// "refuse".
	OnFailure OnFailure  `toml:"on_failure"`
	Keys      []RulesKey `toml:"key"`
}

// OnFailure is what becomes of a sale whose rule fails: it traps, it runs out of fuel, or it works for too long.
type OnFailure struct {
	Trap string `toml:"trap"`
	Fuel string `toml:"fuel"`
	Time string `toml:"time"`
}

// Kinds are the policies by kind of failure.
func (o OnFailure) Kinds() map[string]string {
	return map[string]string{"trap": o.Trap, "fuel": o.Fuel, "time": o.Time}
}

// RulesKey is a public key that may sign rules.
type RulesKey struct {
	ID   string `toml:"id"`
	File string `toml:"file"`
}

// Issuer is the taxpayer (SPEC 2.8). NIT, NRC and the rest are written without hyphens.
type Issuer struct {
	ID                  int64     `toml:"id"`
	Slug                string    `toml:"slug"`
	NIT                 string    `toml:"nit"`
	NRC                 string    `toml:"nrc"`
	Name                string    `toml:"nombre"`
	TradeName           string    `toml:"nombre_comercial"`
	Activity            string    `toml:"codigo_actividad"`
	ActivityDescription string    `toml:"actividad_economica"`
	EstablishmentType   string    `toml:"tipo_establecimiento"`
	Address             Address   `toml:"direccion"`
	Phone               string    `toml:"telefono"`
	Mail                string    `toml:"correo"`
	LogoURL             string    `toml:"logo_url"`
	PrimaryColour       string    `toml:"color_principal"`
	SecondaryColour     string    `toml:"color_secundario"`
	BackgroundColour    string    `toml:"color_fondo"`
	ClientID            int64     `toml:"client_id"`
	CreatedAt           time.Time `toml:"created_at"`
}

// Address holds the codes of CAT-012, CAT-013 and CAT-008, and the rest in words.
type Address struct {
	Departamento string `toml:"departamento"`
	Municipio    string `toml:"municipio"`
	Distrito     string `toml:"distrito"`
	Complemento  string `toml:"complemento"`
}

// Branch is the store that this box stands in.
type Branch struct {
	ID   int64  `toml:"id"`
	Name string `toml:"nombre"` // what people call the store; default: the issuer's nombre_comercial, else its nombre
	// Hours are when the branch is open, El Salvador's time: outside of them monitoring does not miss the box. Default:
	// not known.
	Hours  []Hours  `toml:"hours"`
	Closed []string `toml:"closed"` // days on which it stays closed, "2026-12-25"
}

// Point is a point of sale; its two codes are the middle of the control numbers.
type Point struct {
	ID            int64  `toml:"id"`
	Establishment string `toml:"establecimiento"` // M001: M, B, S or P and three digits
	PointOfSale   string `toml:"punto_venta"`     // P001
}

// Duration is a time.Duration written as text.
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// Variables of the environment override addresses.
var Variables = map[string]string{"api.listen": "DTED_API_ADDR", "ops.listen": "DTED_OPS_ADDR"}

// Load reads and checks a configuration; the error is an *Invalid with every fault. Variables override its addresses.
func Load(path string) (*Config, error) {
	c := new(Config)
	if err := read(path, c); err != nil {
		return nil, err
	}
	folder := filepath.Dir(path)
	for _, p := range []*string{&c.Data, &c.Mark, &c.SecondCopy, &c.Authority.PasswordFile, &c.Key.File,
		&c.Key.PassphraseFile, &c.Rules.Folder, &c.Rules.Cache, &c.Tokens, &c.BoxKey, &c.Ops.AdminTokenFile} {
		resolve(folder, p)
	}
	c.setTransport(folder)
	resolve(folder, &c.Print.Logo)
	if c.Mail != nil {
		resolve(folder, &c.Mail.PasswordFile)
	}
	if c.Archive != nil {
		resolve(folder, &c.Archive.SecretFile)
	}
	if c.Webhook != nil {
		resolve(folder, &c.Webhook.SecretFile)
	}
	for i := range c.Rules.Keys {
		resolve(folder, &c.Rules.Keys[i].File)
	}
	c.API.Listen = cmp.Or(os.Getenv(Variables["api.listen"]), c.API.Listen)
	c.Ops.Listen = cmp.Or(os.Getenv(Variables["ops.listen"]), c.Ops.Listen)
	if c.Rules.Engine == "" {
		c.Rules.Engine = "compiler"
	}
	if c.Rules.Threshold == 0 {
		c.Rules.Threshold = 1
	}
	if c.DiskReserve == 0 {
		c.DiskReserve = 512 << 20
	}
	if len(c.Types.Issue) == 0 {
		c.Types.Issue = plugins.Issued()
	}
	if c.BoxKey == "" && c.Tokens != "" {
		c.BoxKey = filepath.Join(filepath.Dir(c.Tokens), "box.key")
	}
	if c.Fleet != nil {
		c.Fleet.setDefaults(c, folder)
	}
	if err := invalid(path, c.check()); err != nil {
		return nil, err
	}
	if c.Fleet != nil {
		c.overlay()
	}
	return c, nil
}

func resolve(folder string, path *string) {
	if *path != "" && !filepath.IsAbs(*path) {
		*path = filepath.Join(folder, *path)
	}
}

// read decodes a TOML file strictly: an unknown name is an error that shows the line.
func read(path string, into any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading configuration: %w", err)
	}
	d := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return decoding(path, err)
	}
	return nil
}

// Size is a number of bytes, written as text with a binary unit: "512MiB", "2 GiB".
type Size int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		number, ok := strings.CutSuffix(string(text), unit)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if shift := 10 * (i + 1); err == nil && n > 0 && n <= math.MaxInt64>>shift {
			*s = Size(n << shift)
			return nil
		}
	}
	return fmt.Errorf("size %q must be a positive whole number and KiB, MiB, GiB or TiB", text)
}
