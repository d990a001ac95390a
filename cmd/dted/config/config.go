// Package config reads and checks the appliance's configuration: one TOML file and the files that it names. The tags of
// Config define all settings. If this package finds a fault, dted does not start, and dtectl doctor prints the same
// fault: both use this loader, therefore doctor is never more lenient than dted.
package config

import (
	"slices"
	"time"

	"dtegate/engine/books"
)

// Config is the content of dted.toml. Its tags define what the loader does with a setting (see load.go):
//
//	default   the value if the setting is omitted, 0 or empty
//	required  the setting must have a value
//	one       a value must be one of these words or numbers
//	within    the shortest and the longest duration allowed
//	form      the check of a value's form: see forms
//	file      a path, relative to the configuration's folder. "secret": nobody else may read the file
type Config struct {
	// Ambiente is CAT-001: "00" test, "01" production.
	Ambiente string `toml:"ambiente" required:"" form:"ambiente"`
	Data     string `toml:"data" required:"" file:""` // folder of the store, made by dtectl init
	Mark     string `toml:"mark" required:"" file:""` // file of the high-water mark, best on a second medium
	// SecondCopy is a folder on another medium; every change is written there before it is acknowledged. Default: none.
	SecondCopy string `toml:"second_copy" file:""`
	// DiskReserve is the space on the store's disk below which nothing new is issued.
	DiskReserve Size      `toml:"disk_reserve" default:"512MiB"`
	API         API       `toml:"api"`
	Ops         Ops       `toml:"ops"`
	TLS         TLS       `toml:"tls"`
	Authority   Authority `toml:"authority"`
	// Contingency is how the branch issues without MH.
	Contingency Contingency `toml:"contingency"`
	Key         Key         `toml:"key"`
	Rules       Rules       `toml:"rules"`
	Issuer      Issuer      `toml:"issuer"`
	Branch      Branch      `toml:"branch"`
	Points      []Point     `toml:"point_of_sale"`
	// Tokens is the file of token hashes, see dtectl token.
	Tokens string `toml:"tokens" required:"" file:"secret"`
	// BoxKey is the file of the key by which this box recognises its own records, made at the first start. It must not
	// be stored with backups. Default: box.key in the folder of the token file.
	BoxKey   string            `toml:"box_key" file:"secret"`
	Payments map[string]string `toml:"payment_codes"`
	Types    Types             `toml:"types"`
	Print    Print             `toml:"print"`
	Mail     *Mail             `toml:"mail"`    // optional: without it nothing is mailed
	Archive  *Archive          `toml:"archive"` // optional: without it nothing is archived
	Webhook  *Webhook          `toml:"webhook"` // optional: without it the tills must ask for late results
	Fleet    *Fleet            `toml:"fleet"`   // optional: without it the branch belongs to no chain
	Access   Access            `toml:"access"`
	Books    books.Settings    `toml:"books"` // what dtectl books cannot read from the documents
}

// Listener is an address on which the appliance listens, and its encryption.
type Listener struct {
	Listen string `toml:"listen" required:"" form:"listen"`
	// TLS is "on", or "off" for plain HTTP. Default: on, except for an address of the box itself.
	TLS string `toml:"tls" one:"on off"`
	// Certificate and Key are the listener's PEM files, read again when they change. The certificate's chain follows it
	// in its file. Default: a certificate signed by the box's own authority, see TLS.
	Certificate string `toml:"certificate" file:""`
	Key         string `toml:"key" file:"secret"`
}

// API is the tills' listener, and the limits of each token.
type API struct {
	Listener
	// Rate is how many requests a second a token may make continuously; a burst may have four times as many.
	Rate int `toml:"rate" default:"50"`
	// LargeBytes is how many bytes of sales above 32 KiB a token may send a second continuously (default 1 MiB); a
	// burst may have eight times as many.
	LargeBytes Size `toml:"large_bytes"`
	// DailyBytes is how many bytes a token may have stored in a day (default 1 GiB).
	DailyBytes Size `toml:"daily_bytes"`
	// PublicURL is the beginning of signed links, "https://dte.example.com". Default: http, or https with TLS, and the
	// Host of the request.
	PublicURL string `toml:"public_url"`
	// BrowserOrigins are the pages that may use the tills' API from a browser, "https://caja.example.com". Default:
	// none.
	BrowserOrigins []string `toml:"browser_origins" form:"origin"`
	// UnknownCodes decides about a code that MH's catalogue lacks: "refuse", or "pass" to let MH decide while MH
	// answers. Payment codes and their terms are always passed.
	UnknownCodes string `toml:"unknown_codes" default:"refuse" one:"refuse pass"`
	// RequireKey refuses a sale without Idempotency-Key. Default: a sale without a key is issued, and its retry is
	// another sale.
	RequireKey bool `toml:"require_key"`
}

// Ops is the operators' listener.
type Ops struct {
	Listener
	AdminTokenFile string `toml:"admin_token_file" file:"secret"` // one line; without a file nobody is admitted
}

// TLS is the box's own certificate authority, for listeners that have no certificate of their own.
type TLS struct {
	Folder string `toml:"folder" file:""` // default "tls" beside data
	// Names are further names and addresses of the box for its certificate. The host name and the addresses of its
	// interfaces need no entry.
	Names []string `toml:"names"`
}

// Access is what a till's token may do besides issuing.
type Access struct {
	// Reading is "branch": every token reads all documents of the branch; or "permission": a token reads the types that
	// it may issue, and all documents with CONSULTA.
	Reading string `toml:"reading" default:"branch" one:"branch permission"`
	// Mailing is "permission": only a token with REENVIO mails a document to an address that the document does not
	// bear; or "branch": every token does.
	Mailing string `toml:"mailing" default:"permission" one:"permission branch"`
	// Log "on" writes a line to the log for each till's request that changes or sends something, and for each request
	// that is refused because it has no valid token.
	Log string `toml:"log" default:"on" one:"on off"`
}

// Types are the documents that the branch issues. A signed bundle alone does not let the branch issue its type.
type Types struct {
	// Issue lists types of CAT-002; the chain's settings may add more. Default: the types of plugins.Issued.
	Issue []string `toml:"issue" form:"type"`
}

// Open reports whether the branch issues a type of document.
func (t Types) Open(document string) bool { return slices.Contains(t.Issue, document) }

// Authority is how MH is reached. Durations are texts like "8s".
type Authority struct {
	URL          string `toml:"url" required:""`
	PasswordFile string `toml:"password_file" required:"" file:"secret"`
	// Patience is how long a sale waits for MH at the counter, unless its till sets another time. After it the sale is
	// issued in contingency, and MH is asked later whether it has the document.
	Patience Duration `toml:"patience" default:"5s"`
	// ConnectTimeout bounds opening a connection to MH: look-up, TCP and TLS together. Sales continue meanwhile.
	ConnectTimeout Duration `toml:"connect_timeout" default:"10s" within:"1s 1m"`
	// Rehearsal turns on a rehearsal of production, with a simulated authority on this machine and a separate store.
	Rehearsal bool `toml:"rehearsal"`
	// Ahead is how far dted's time is ahead of the box's clock, to rehearse a later day. The simulated authority on
	// this machine must be ahead by the same time.
	Ahead Duration `toml:"ahead"`
}

// Contingency is the policy without MH.
type Contingency struct {
	Responsible Person `toml:"responsible"` // the person responsible for contingency events; MH requires it
	// Hurry divides the times of contingency, for a demonstration in the test ambiente.
	Hurry int `toml:"hurry" default:"1"`
	// Internet lists addresses (host:port). While any address answers, the branch has Internet and the fault is MH's.
	// If the list is empty, only a name or route that is not found shows that the branch has no Internet.
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
	Cache     string     `toml:"cache" file:""` // compilation cache, private to the appliance
	Threshold int        `toml:"threshold" default:"1"`
	OnFailure OnFailure  `toml:"on_failure"`
	Keys      []RulesKey `toml:"key"`
}

// OnFailure decides about a sale when its rule traps, runs out of fuel, or takes too long. "valid": the previous rule
// computes if its dates cover that day; "any": the previous rule computes; "refuse": nothing does.
type OnFailure struct {
	Trap string `toml:"trap" default:"valid" one:"valid any refuse"`
	Fuel string `toml:"fuel" default:"valid" one:"valid any refuse"`
	Time string `toml:"time" default:"valid" one:"valid any refuse"`
}

// Kinds returns the policy for each kind of failure.
func (o OnFailure) Kinds() map[string]string {
	return map[string]string{"trap": o.Trap, "fuel": o.Fuel, "time": o.Time}
}

// RulesKey is a public key that may sign rules.
type RulesKey struct {
	ID   string `toml:"id"`
	File string `toml:"file" file:""`
}

// Issuer is the taxpayer (SPEC 2.8). NIT, NRC and the rest are written without hyphens.
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

// Address holds the codes of CAT-012, CAT-013 and CAT-008, and the rest in words.
type Address struct {
	Departamento string `toml:"departamento"`
	Municipio    string `toml:"municipio"`
	Distrito     string `toml:"distrito"`
	Complemento  string `toml:"complemento"`
}

// Branch is the branch in which this box works.
type Branch struct {
	ID int64 `toml:"id"`
	// Name is what people call the branch. Default: the issuer's nombre_comercial, or else its nombre.
	Name string `toml:"nombre" form:"line"`
	// Hours are when the branch is open, in El Salvador's time. Outside these hours a box that is off raises no alarm.
	// Default: not known.
	Hours  []Hours  `toml:"hours"`
	Closed []string `toml:"closed" form:"date"` // days on which the branch is closed, "2026-12-25"
}

// Point is a point of sale; its two codes are the middle of the control numbers.
type Point struct {
	ID            int64  `toml:"id"`
	Establishment string `toml:"establecimiento" required:"" form:"establishment"` // M001
	PointOfSale   string `toml:"punto_venta" required:"" form:"point"`             // P001
}

// Print is how the readable versions and the mails look; the colour is the issuer's color_principal.
type Print struct {
	Logo   string `toml:"logo" file:""` // PNG, JPEG or GIF of at most 512 KiB
	Footer string `toml:"footer" form:"line"`
}

// Mail is the mail server, and how documents are mailed.
type Mail struct {
	Host         string `toml:"host"`
	Port         int    `toml:"port"`     // default 587
	Security     string `toml:"security"` // mandatory (default), starttls, none
	User         string `toml:"user"`     // none: no login
	PasswordFile string `toml:"password_file" file:"secret"`
	From         string `toml:"from"`                 // address; its domain ends the Message-IDs
	ReplyTo      string `toml:"reply_to"`             // default: the issuer's correo
	Greeting     string `toml:"greeting" form:"line"` // after the salutation
	// Contingency mails a document of contingency at once, without its seal, and again with the seal. Default: only
	// with the seal.
	Contingency bool `toml:"contingency"`
}

// Archive is the S3-compatible store that keeps the documents.
type Archive struct {
	Endpoint   string `toml:"endpoint"` // https://s3.us-east-1.amazonaws.com
	Region     string `toml:"region"`   // default us-east-1
	Bucket     string `toml:"bucket"`   // must exist
	Prefix     string `toml:"prefix"`   // before every path
	AccessKey  string `toml:"access_key"`
	SecretFile string `toml:"secret_file" file:"secret"`
	// Credentials is a service on this machine that gives temporary keys, "http://127.0.0.1:9911". It replaces
	// access_key and secret_file.
	Credentials string `toml:"credentials"`
	PathStyle   bool   `toml:"path_style"` // the bucket is in the path, as most stores except AWS require
}

// Webhook is the address to which late results are posted.
type Webhook struct {
	URL        string `toml:"url" required:"" form:"url"`
	SecretFile string `toml:"secret_file" required:"" file:"secret"` // one line: the key of the HMAC
}

// Fleet is the branch's chain: central IT writes what the boxes run to its store, and each box its status.
type Fleet struct {
	// Store is the chain's object store. Default: that of [archive].
	Store  *Archive `toml:"store"`
	Chain  string   `toml:"chain" required:"" form:"name"`  // everything signed in the chain bears this name
	Branch string   `toml:"branch" required:"" form:"name"` // the branch's name in the chain
	Group  string   `toml:"group" required:"" form:"name"`  // group whose desired state the box runs
	// DirectorKey is a file with the public key that signs the desired state, or with the old and the new key during a
	// change of keys.
	DirectorKey string `toml:"director_key" required:"" file:""`
	// Key is the file of the box's own key, made at the first start. It must not be stored with backups. State is the
	// file of what the box remembers of the chain. Defaults: fleet.key and fleet.state in the folder of the token file.
	Key    string   `toml:"key" file:"secret"`
	State  string   `toml:"state" file:""`
	Poll   Duration `toml:"poll" default:"2m" within:"15s 1h"`   // how often the desired state is asked for
	Report Duration `toml:"report" default:"15m" within:"1m 6h"` // how often the status is written
	// Ship copies the second copy to the chain's store. "async": seconds after the sales. "sync": before a sale is
	// answered; the sale waits at most two seconds for it. Default: nothing is shipped.
	Ship string `toml:"ship" one:"async sync"`
}

// Centre is fleet.toml: how central IT reaches a chain's object store, and the key that signs its orders. No box has
// this file. Relative paths are relative to the file's own folder.
type Centre struct {
	// Chain is the chain's name, Ambiente the ambiente in which its boxes sell. Everything that is signed names both;
	// boxes of another chain or ambiente accept none of it.
	Chain    string     `toml:"chain" required:"" form:"name"`
	Ambiente string     `toml:"ambiente" required:"" form:"ambiente"`
	Store    Archive    `toml:"store"`
	Director Director   `toml:"director"`
	Keys     []RulesKey `toml:"rules_key"` // keys that branches pin: a bundle without their signatures is not published
	// Threshold is how many of Keys must have signed a bundle.
	Threshold int `toml:"rules_threshold" default:"1"`
	// Cache is a folder for copies of the store's objects that never change.
	Cache string `toml:"cache" default:"fleet-cache" file:""`
}

// Director is the key that signs what branches run, see dtectl fleet keygen. Only publishing needs the private half.
type Director struct {
	Public         string `toml:"public" required:"" file:""`
	Key            string `toml:"key" file:"secret"`             // sealed
	PassphraseFile string `toml:"passphrase_file" file:"secret"` // of the sealed key
}
