// Package config reads and checks the appliance's configuration: one TOML file and the files that it names. The tags of
// Config are the table of all settings. dted does not start with a fault that this package finds, and dtectl doctor
// prints the same faults: with one loader, doctor is never more lenient than dted.
package config

import (
	"slices"
	"time"
)

// Config is dted.toml. Its tags say what the loader does with a setting (see load.go):
//
//	default   its value where it is left out, 0 or empty
//	required  it must have a value
//	one       its value, if it has one, is one of these words or numbers
//	within    the shortest and the longest time
//	form      what its value, if it has one, must look like: see forms
//	file      it names a file; a relative path begins at the configuration's folder. "secret": nobody else may read it
type Config struct {
	// Ambiente is CAT-001: "00" test, "01" production.
	Ambiente string `toml:"ambiente" required:"" form:"ambiente"`
	Data     string `toml:"data" required:"" file:""` // folder of the store, made by dtectl init
	Mark     string `toml:"mark" required:"" file:""` // file of the high-water mark, best on a second medium
	// SecondCopy is a folder on another medium that gets every change before it is acknowledged. Default: none.
	SecondCopy string `toml:"second_copy" file:""`
	// DiskReserve is the space on the store's disk below which nothing new is issued.
	DiskReserve Size      `toml:"disk_reserve" default:"512MiB"`
	API         API       `toml:"api"`
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
	// Tokens is the file of token hashes, see dtectl token.
	Tokens string `toml:"tokens" required:"" file:"secret"`
	// BoxKey is the file of the key by which this box knows its own records again, made at the first start. It must not
	// go where backups go. Default: box.key beside the file of tokens.
	BoxKey   string            `toml:"box_key" file:"secret"`
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

// Listener is an address that the appliance listens on, and how it is encrypted.
type Listener struct {
	Listen string `toml:"listen" required:"" form:"listen"`
	// TLS is "on", or "off" for plain HTTP. Default: on, but for an address of the box itself.
	TLS string `toml:"tls" one:"on off"`
	// Certificate and Key are PEM files of the listener's own, read again when they change; the certificate's chain
	// behind it. Default: what the box's own authority signs, see TLS.
	Certificate string `toml:"certificate" file:""`
	Key         string `toml:"key" file:"secret"`
}

// API is the tills' listener, and what a token may ask of it.
type API struct {
	Listener
	// Rate is how many requests a second a token may make for long, four times as many at once.
	Rate int `toml:"rate" default:"50"`
	// LargeBytes is how much of sales over 32 KiB a token may send a second for long (1 MiB), eight times as much at
	// once.
	LargeBytes Size `toml:"large_bytes"`
	// DailyBytes is how much a token may have stored in a day (1 GiB).
	DailyBytes Size `toml:"daily_bytes"`
	// PublicURL is what signed links begin with, "https://dte.example.com". Default: http, or https with TLS, and the
	// Host of the request.
	PublicURL string `toml:"public_url"`
	// BrowserOrigins are the pages that may use the tills' API from a browser, "https://caja.example.com". Default:
	// none.
	BrowserOrigins []string `toml:"browser_origins" form:"origin"`
	// UnknownCodes is what becomes of a code that MH's catalogue does not have: pass lets MH decide while it answers.
	// Payment codes and their terms are always passed.
	UnknownCodes string `toml:"unknown_codes" default:"refuse" one:"refuse pass"`
	// RequireKey refuses a sale without Idempotency-Key. Default: a sale without a key is issued, and its retry is
	// another sale.
	RequireKey bool `toml:"require_key"`
}

// Ops is the operators' listener.
type Ops struct {
	Listener
	AdminTokenFile string `toml:"admin_token_file" file:"secret"` // one line; without it nobody administers
}

// TLS is the box's own certificate authority, for listeners that have no certificate of their own.
type TLS struct {
	Folder string `toml:"folder" file:""` // default "tls" beside data
	// Names are further names and addresses that the box is reached by. Its host name and those of its interfaces are
	// taken by themselves.
	Names []string `toml:"names"`
}

// Access is what a till's token may do beside issuing.
type Access struct {
	// Reading is "branch": every token reads all documents of the branch; or "permission": those that it may issue, and
	// all with CONSULTA.
	Reading string `toml:"reading" default:"branch" one:"branch permission"`
	// Mailing is "permission": only a token with REENVIO mails a document to an address that the document does not
	// bear; or "branch": every token does.
	Mailing string `toml:"mailing" default:"permission" one:"permission branch"`
	// Log has a line of the log for each request of a till that changes or sends something, and for each that is
	// refused for want of a token.
	Log string `toml:"log" default:"on" one:"on off"`
}

// Types are the documents that the branch issues. A signed bundle alone opens no door.
type Types struct {
	// Issue are types of CAT-002, beside which the chain's settings may name more. Default: those of plugins.Issued.
	Issue []string `toml:"issue" form:"type"`
}

// Open reports whether the branch issues a type of document.
func (t Types) Open(document string) bool { return slices.Contains(t.Issue, document) }

// Authority is how MH is reached. Durations are texts like "8s".
type Authority struct {
	URL          string `toml:"url" required:""`
	PasswordFile string `toml:"password_file" required:"" file:"secret"`
	// Patience is how long a sale waits for MH at the counter, unless its till says otherwise: then it is issued in
	// contingency, and what became of it is found out later.
	Patience Duration `toml:"patience" default:"5s"`
	// ConnectTimeout bounds the making of a connection to MH, look-up, TCP and TLS together, beside the sales.
	ConnectTimeout Duration `toml:"connect_timeout" default:"10s" within:"1s 1m"`
	// Rehearsal of production with a simulated authority on this machine, with a store of its own.
	Rehearsal bool `toml:"rehearsal"`
	// Ahead is how far the clock is put ahead, to rehearse a later day with a simulated authority on this machine whose
	// clock is ahead as far.
	Ahead Duration `toml:"ahead"`
}

// Contingency is the policy without MH.
type Contingency struct {
	Responsible Person `toml:"responsible"` // answers for contingency events; MH wants it
	// Hurry, of a demonstration in the test ambiente, divides the times of contingency.
	Hurry int `toml:"hurry" default:"1"`
	// Internet are addresses (host:port), one of which answers while the branch has Internet: they tell MH's trouble
	// from the branch's own. None: only a name or a route that is not found does.
	Internet []string `toml:"internet"`
}

// Person is somebody with a document of CAT-022.
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

// Rules is where the rule bundles are, and whose signatures they must bear.
type Rules struct {
	Folder    string     `toml:"folder" required:"" file:""`
	Engine    string     `toml:"engine" default:"compiler" one:"compiler interpreter"`
	Cache     string     `toml:"cache" file:""` // compilation cache, private to the appliance
	Threshold int        `toml:"threshold" default:"1"`
	OnFailure OnFailure  `toml:"on_failure"`
	Keys      []RulesKey `toml:"key"`
}

// OnFailure is what to do with a sale whose rule traps, runs out of fuel, or takes too long. "valid": compute with the
// previous rule if its dates cover that day; "any": with the previous rule whatever its dates; "refuse".
type OnFailure struct {
	Trap string `toml:"trap" default:"valid" one:"valid any refuse"`
	Fuel string `toml:"fuel" default:"valid" one:"valid any refuse"`
	Time string `toml:"time" default:"valid" one:"valid any refuse"`
}

// Kinds are the policies by kind of failure.
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

// Branch is the store that this box stands in.
type Branch struct {
	ID int64 `toml:"id"`
	// Name is what people call the store; default: the issuer's nombre_comercial, else its nombre.
	Name string `toml:"nombre" form:"line"`
	// Hours are when the branch is open, El Salvador's time: outside of them monitoring does not miss the box. Default:
	// not known.
	Hours  []Hours  `toml:"hours"`
	Closed []string `toml:"closed" form:"date"` // days on which it stays closed, "2026-12-25"
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

// Mail is the server that documents are mailed by.
type Mail struct {
	Host         string `toml:"host"`
	Port         int    `toml:"port"`     // default 587
	Security     string `toml:"security"` // mandatory (default), starttls, none
	User         string `toml:"user"`     // none: no login
	PasswordFile string `toml:"password_file" file:"secret"`
	From         string `toml:"from"`                 // address; its domain is that of the Message-IDs
	ReplyTo      string `toml:"reply_to"`             // default: the issuer's correo
	Greeting     string `toml:"greeting" form:"line"` // behind the salutation
	// Contingency mails a document issued in contingency at once, without its seal, and again when it has it. Default:
	// only then.
	Contingency bool `toml:"contingency"`
}

// Archive is the S3-compatible store that documents rest in.
type Archive struct {
	Endpoint   string `toml:"endpoint"` // https://s3.us-east-1.amazonaws.com
	Region     string `toml:"region"`   // default us-east-1
	Bucket     string `toml:"bucket"`   // must exist
	Prefix     string `toml:"prefix"`   // before every path
	AccessKey  string `toml:"access_key"`
	SecretFile string `toml:"secret_file" file:"secret"`
	// Credentials is a service on this machine that gives keys which end, "http://127.0.0.1:9911", instead of
	// access_key and secret_file.
	Credentials string `toml:"credentials"`
	PathStyle   bool   `toml:"path_style"` // the bucket in the path, as most stores but AWS want it
}

// Webhook is where late results are posted to.
type Webhook struct {
	URL        string `toml:"url" required:"" form:"url"`
	SecretFile string `toml:"secret_file" required:"" file:"secret"` // one line: the key of the HMAC
}

// Fleet is the chain that the branch is one of: where central IT says what its boxes run, and boxes how they are.
type Fleet struct {
	// Store is the chain's object store. Default: that of [archive].
	Store  *Archive `toml:"store"`
	Chain  string   `toml:"chain" required:"" form:"name"`  // all that is signed in the chain names it
	Branch string   `toml:"branch" required:"" form:"name"` // the branch's name in the chain
	Group  string   `toml:"group" required:"" form:"name"`  // whose desired state it runs
	// DirectorKey is a file with the public key that signs the desired state, or several while one takes over from
	// another.
	DirectorKey string `toml:"director_key" required:"" file:""`
	// Key is the file of the box's own key, made at the first start. It must not go where backups go. Default:
	// fleet.key beside the file of tokens. State is what the box remembers of the chain. Default: fleet.state beside
	// it.
	Key    string   `toml:"key" file:"secret"`
	State  string   `toml:"state" file:""`
	Poll   Duration `toml:"poll" default:"2m" within:"15s 1h"`   // how often the desired state is asked for
	Report Duration `toml:"report" default:"15m" within:"1m 6h"` // how often the status is written
	// Ship carries the second copy into the chain's store: "async", seconds behind the sales; "sync", before a sale is
	// answered, which waits for that two seconds at most. Default: nothing is shipped.
	Ship string `toml:"ship" one:"async sync"`
}

// Books is what dtectl books cannot read from the documents (F-07 v14). Zero values take the defaults in brackets.
type Books struct {
	// Operation and Income are the types of operation (by the document's amounts) and of income (3) for the income tax.
	Operation int `toml:"operation" one:"1 2 3 4 12 13"`
	Income    int `toml:"income" one:"1 2 3 4 5 6 7 8 9 10 12 13"`
	// ConsumerRows is "taxpayer" (default) or "establishment": one row a day of which in annex 2.
	ConsumerRows string `toml:"consumer_rows" one:"taxpayer establishment"`
	// Returns is "summary" (default) or "annex2": where returns of invoices go, beside the book of consumers.
	Returns string `toml:"returns" one:"summary annex2"`
	// DayHyphens (false) writes the codes of annex 2 with hyphens; CancelledHyphens (true) those of the invalidated.
	DayHyphens       bool  `toml:"day_hyphens"`
	CancelledHyphens *bool `toml:"cancelled_hyphens"`
	// Encoding of the annexes is "utf-8" (default) or "windows-1252".
	Encoding string `toml:"encoding" one:"utf-8 windows-1252"`
	// Sale and Purchase give other codes to some documents; the first that fits decides.
	Sale     []BooksSale     `toml:"sale"`
	Purchase []BooksPurchase `toml:"purchase"`
}

// BooksSale gives codes to the sales of an establishment, of a kind of item (CAT-011), or of both.
type BooksSale struct {
	Establishment string `toml:"establishment" form:"establishment"`
	Item          int    `toml:"item" one:"1 2 3 4"`
	Operation     int    `toml:"operation" one:"1 2 3 4 12 13"`
	Income        int    `toml:"income" one:"1 2 3 4 5 6 7 8 9 10 12 13"`
}

// BooksPurchase does so for purchases from excluded subjects.
type BooksPurchase struct {
	Establishment  string `toml:"establishment" form:"establishment"`
	Item           int    `toml:"item" one:"1 2 3 4"`
	Operation      int    `toml:"operation" one:"1 2 3 4 8 9"`
	Classification int    `toml:"classification" one:"1 2 8 9"`
	Sector         int    `toml:"sector" one:"1 2 3 4 8 9"`
	Cost           int    `toml:"cost" one:"1 2 3 4 5 6 7 8 9"`
}

// Centre is fleet.toml: how central IT reaches a chain's object store, and the key that its orders bear. No box has it.
// Relative paths are relative to the file's own folder.
type Centre struct {
	// Chain is the chain's name, Ambiente the one that its boxes sell in: all that is signed names both, and boxes of
	// other chains or of the other ambiente take nothing of it.
	Chain    string     `toml:"chain" required:"" form:"name"`
	Ambiente string     `toml:"ambiente" required:"" form:"ambiente"`
	Store    Archive    `toml:"store"`
	Director Director   `toml:"director"`
	Keys     []RulesKey `toml:"rules_key"` // that branches pin: a bundle which none of them signed is not published
	// Threshold is how many of them must have signed.
	Threshold int `toml:"rules_threshold" default:"1"`
	// Cache is a folder for what never changes in the store.
	Cache string `toml:"cache" default:"fleet-cache" file:""`
}

// Director is the key that signs what branches shall run, see dtectl fleet keygen. The private half is needed to
// publish only.
type Director struct {
	Public         string `toml:"public" required:"" file:""`
	Key            string `toml:"key" file:"secret"`             // sealed
	PassphraseFile string `toml:"passphrase_file" file:"secret"` // of the sealed key
}
