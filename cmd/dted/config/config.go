// Package config reads and checks the appliance's configuration: one TOML file and the files that it names. The tags of
// Config define all settings. With a faulty configuration dted does not start. dtectl doctor uses the same loader and
// prints the fault.
package config

import (
	"slices"
	"time"

	"dtegate/engine/books"
)

// Config is the content of dted.toml. deploy/dted.toml explains each setting and has its default; comments here say
// only what the sample does not. The tags define what the loader does with a setting (see load.go):
//
//	default   the value if the setting is omitted, 0 or empty
//	required  the setting must have a value
//	one       a value must be one of these words or numbers
//	within    the shortest and the longest duration allowed
//	form      the check of a value's form: see forms
//	file      a path, relative to the configuration's folder. "secret": nobody else may read the file
//	since     the version that brought the setting, if it is later than 1.0.0
type Config struct {
	Ambiente    string            `toml:"ambiente" required:"" form:"ambiente"`
	Data        string            `toml:"data" required:"" file:""`
	Mark        string            `toml:"mark" required:"" file:""`
	SecondCopy  string            `toml:"second_copy" file:""`
	DiskReserve Size              `toml:"disk_reserve" default:"512MiB"`
	API         API               `toml:"api"`
	Ops         Ops               `toml:"ops"`
	TLS         TLS               `toml:"tls"`
	Authority   Authority         `toml:"authority"`
	Contingency Contingency       `toml:"contingency"`
	Key         Key               `toml:"key"`
	Rules       Rules             `toml:"rules"`
	Issuer      Issuer            `toml:"issuer"`
	Branch      Branch            `toml:"branch"`
	Points      []Point           `toml:"point_of_sale"`
	Tokens      string            `toml:"tokens" required:"" file:"secret"`
	BoxKey      string            `toml:"box_key" file:"secret"` // default: box.key next to the token file
	Payments    map[string]string `toml:"payment_codes"`
	Types       Types             `toml:"types" since:"1.1.0"`
	Print       Print             `toml:"print"`
	Mail        *Mail             `toml:"mail"`
	Archive     *Archive          `toml:"archive"`
	Webhook     *Webhook          `toml:"webhook" since:"1.1.0"`
	Fleet       *Fleet            `toml:"fleet"`
	Access      Access            `toml:"access"`
	Books       books.Settings    `toml:"books"`
}

// Listener is an address on which the appliance listens, and its encryption.
type Listener struct {
	Listen      string `toml:"listen" required:"" form:"listen"`
	TLS         string `toml:"tls" one:"on off"`
	Certificate string `toml:"certificate" file:""` // PEM, like Key; both are read again after a change
	Key         string `toml:"key" file:"secret"`
}

// API is the tills' listener, and the limits of each token.
type API struct {
	Listener
	Rate           int      `toml:"rate" default:"50"`
	PublicURL      string   `toml:"public_url"` // default: http, or https with TLS, and the Host of the request
	BrowserOrigins []string `toml:"browser_origins" form:"origin"`
	UnknownCodes   string   `toml:"unknown_codes" default:"refuse" one:"refuse pass" since:"1.1.0"`
	RequireKey     bool     `toml:"require_key" since:"1.1.0"`
}

// Ops is the operators' listener.
type Ops struct {
	Listener
	AdminTokenFile string `toml:"admin_token_file" file:"secret"` // one line; without it, the admin API admits nobody
}

// TLS is the box's own certificate authority, for listeners that have no certificate of their own.
type TLS struct {
	Folder string   `toml:"folder" file:""` // default: the folder "tls" next to data
	Names  []string `toml:"names"`          // besides the box's host name and interfaces' addresses
}

// Access is what a till's token may do besides issuing.
type Access struct {
	Reading string `toml:"reading" default:"branch" one:"branch permission"`
	Mailing string `toml:"mailing" default:"permission" one:"permission branch"`
}

// Types are the documents that the branch issues. A signed bundle is not enough: its type must be listed here too.
type Types struct {
	Issue []string `toml:"issue" form:"type"` // the chain's settings may add more; default: plugins.Issued
}

// Open reports whether the branch issues a type of document.
func (t Types) Open(document string) bool { return slices.Contains(t.Issue, document) }

// Authority is how MH is reached. Durations are texts like "8s".
type Authority struct {
	URL          string `toml:"url" required:""`
	PasswordFile string `toml:"password_file" required:"" file:"secret"`
	// Patience is how long a sale waits for MH if its till sets no wait. After that, it is issued in contingency.
	Patience       Duration `toml:"patience" default:"5s" since:"1.1.0"`
	ConnectTimeout Duration `toml:"connect_timeout" default:"10s" within:"1s 1m"`
	Rehearsal      bool     `toml:"rehearsal"`
	Ahead          Duration `toml:"ahead"` // added to the box's clock, see Now; the simulated authority adds the same
}

// Contingency is what the branch does while MH cannot be reached.
type Contingency struct {
	Responsible Person `toml:"responsible"`
	Hurry       int    `toml:"hurry" default:"1" since:"1.1.0"`
	// Internet lists addresses that show whether the branch has Internet. Without them, only a missing host name or
	// route shows that the Internet is down.
	Internet []string `toml:"internet"`
}

// Person is a person, identified by a document of CAT-022.
type Person struct {
	Name         string `toml:"nombre" required:""`
	DocumentType string `toml:"tipo_documento" required:""`
	Document     string `toml:"numero_documento" required:""`
}

// Key is the signing key, sealed by dtectl init.
type Key struct {
	File           string `toml:"file" required:"" file:"secret"`
	PassphraseFile string `toml:"passphrase_file" required:"" file:"secret"`
}

// Rules is where the rule bundles are, and which keys must have signed them.
type Rules struct {
	Folder    string     `toml:"folder" required:"" file:""`
	Engine    string     `toml:"engine" default:"compiler" one:"compiler interpreter"`
	Cache     string     `toml:"cache" file:""`
	Threshold int        `toml:"threshold" default:"1"`
	OnFailure OnFailure  `toml:"on_failure"`
	Keys      []RulesKey `toml:"key"`
}

// OnFailure decides about a sale whose rule traps, runs out of fuel, or takes too long: "valid" computes it with the
// previous rule if that rule's dates cover the day of the sale, "any" with the previous rule whatever its dates, and
// "refuse" refuses it.
type OnFailure struct {
	Trap string `toml:"trap" default:"valid" one:"valid any refuse"`
	Fuel string `toml:"fuel" default:"valid" one:"valid any refuse"`
	Time string `toml:"time" default:"valid" one:"valid any refuse"`
}

// RulesKey is a public key that may sign rules.
type RulesKey struct {
	ID   string `toml:"id"`
	File string `toml:"file" file:""`
}

// Issuer is the taxpayer (SPEC 2.8). Its numbers, such as NIT and NRC, are written without hyphens.
type Issuer struct {
	ID                  int64     `toml:"id"`
	Slug                string    `toml:"slug" required:""`
	NIT                 string    `toml:"nit" required:""`
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
	PrimaryColour       string    `toml:"color_principal" form:"colour"`
	SecondaryColour     string    `toml:"color_secundario" form:"colour"`
	BackgroundColour    string    `toml:"color_fondo" form:"colour"`
	ClientID            int64     `toml:"client_id"`
	CreatedAt           time.Time `toml:"created_at"`
}

// Address holds the codes of CAT-012, CAT-013 and CAT-008, and the rest of the address in words.
type Address struct {
	Departamento string `toml:"departamento"`
	Municipio    string `toml:"municipio"`
	Distrito     string `toml:"distrito"`
	Complemento  string `toml:"complemento"`
}

// Branch is the branch in which this box works.
type Branch struct {
	ID     int64    `toml:"id"`
	Name   string   `toml:"nombre" form:"line"`
	Hours  []Hours  `toml:"hours"` // in El Salvador's time
	Closed []string `toml:"closed" form:"date"`
}

// Point is a point of sale. Its two codes form the middle of its control numbers.
type Point struct {
	ID            int64  `toml:"id"`
	Establishment string `toml:"establecimiento" required:"" form:"establishment"` // M001
	PointOfSale   string `toml:"punto_venta" required:"" form:"point"`             // P001
}

// Print is how the readable versions and the mails look; the colour is the issuer's color_principal.
type Print struct {
	Logo   string `toml:"logo" file:""`
	Footer string `toml:"footer" form:"line"`
}

// Mail is the mail server, and how documents are mailed.
type Mail struct {
	Host         string `toml:"host"`
	Port         int    `toml:"port"`
	Security     string `toml:"security"`
	User         string `toml:"user"`
	PasswordFile string `toml:"password_file" file:"secret"`
	From         string `toml:"from"` // its domain is also the domain of each Message-ID
	ReplyTo      string `toml:"reply_to"`
	Greeting     string `toml:"greeting" form:"line"`
	Contingency  bool   `toml:"contingency"`
}

// Archive is the S3-compatible store that keeps the documents.
type Archive struct {
	Endpoint    string `toml:"endpoint"`
	Region      string `toml:"region"`
	Bucket      string `toml:"bucket"`
	Prefix      string `toml:"prefix"`
	AccessKey   string `toml:"access_key"`
	SecretFile  string `toml:"secret_file" file:"secret"`
	Credentials string `toml:"credentials"`
	PathStyle   bool   `toml:"path_style"`
}

// Webhook is the address to which late results are posted.
type Webhook struct {
	URL        string `toml:"url" required:"" form:"url"`
	SecretFile string `toml:"secret_file" required:"" file:"secret"`
}

// Fleet is the branch's chain. Boxes read from the chain's store what they must run, and write their status there.
type Fleet struct {
	Store       *Archive `toml:"store"` // default: Config.Archive
	Chain       string   `toml:"chain" required:"" form:"name" since:"1.1.0"`
	Branch      string   `toml:"branch" required:"" form:"name"`
	Group       string   `toml:"group" required:"" form:"name"`
	DirectorKey string   `toml:"director_key" required:"" file:""`
	Key         string   `toml:"key" file:"secret"` // default: fleet.key next to the token file
	State       string   `toml:"state" file:""`     // the agent's file; default: fleet.state next to the token file
	Poll        Duration `toml:"poll" default:"2m" within:"2s 1h"`
	Report      Duration `toml:"report" default:"15m" within:"1m 6h"`
	Ship        string   `toml:"ship" one:"async sync"`
}

// Centre is fleet.toml: how central IT reaches a chain's object store, and the key that signs its orders. No box has
// this file. Relative paths start at its folder.
type Centre struct {
	// Chain is the chain's name, and Ambiente the ambiente in which its boxes sell. Every signed object names both;
	// boxes of another chain or ambiente refuse it.
	Chain    string     `toml:"chain" required:"" form:"name"`
	Ambiente string     `toml:"ambiente" required:"" form:"ambiente"`
	Store    Archive    `toml:"store"`
	Director Director   `toml:"director"`
	Keys     []RulesKey `toml:"rules_key"` // keys that branches pin to check bundles
	// Threshold is how many of Keys must have signed a bundle before it is published.
	Threshold int `toml:"rules_threshold" default:"1"`
	// Cache is a folder for copies of the store's objects that never change.
	Cache string `toml:"cache" default:"fleet-cache" file:""`
}

// Director is the key that signs what branches run, see dtectl fleet keygen. Only publishing needs the private half.
type Director struct {
	Public         string `toml:"public" required:"" file:""`
	Key            string `toml:"key" file:"secret"` // encrypted with the passphrase
	PassphraseFile string `toml:"passphrase_file" file:"secret"`
}
