package boxtest

import (
	"bytes"
	"context"
	"net"
	"os"
	"strings"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/plugins/plugintest"
	"dtegate/storage"
)

// Broken is one way to break a box.
type Broken struct {
	Name  string
	Break func(*Box)
	// Status, Check and Setting are those of doctor's line. Says is a part of its text, which dted also prints if it
	// refuses to start.
	Status, Check, Setting, Says string
	Refused                      bool // by dted
}

func setting(name, old, with, check, setting, says string) Broken {
	return Broken{name, func(b *Box) { b.Set(old, with) }, "fail", check, setting, says, true}
}

func without(name, file, check, setting string) Broken {
	return Broken{name, func(b *Box) { b.Remove(file) }, "fail", check, setting, file + ": no such file or directory",
		true}
}

// Boxes are the broken boxes.
var Boxes = []Broken{
	// The configuration.
	setting("a name that is no setting", "ambiente =", "ambient =", "configuration", "",
		"ambient: is not a setting (line 1): it is misspelt, or of another version of dted, which CHANGELOG names"),
	setting("a text where a number belongs", "threshold = 1", "threshold = \"one\"", "configuration", "rules.threshold",
		"rules.threshold: line "),
	setting("a line that is no TOML", "[branch]", "[branch", "configuration", "", "line 5"),
	setting("no ambiente", "ambiente = \"00\"", "ambiente = \"\"", "configuration", "ambiente", "ambiente: is missing"),
	setting("no NIT", "nit = \"06141804941035\"", "nit = \"\"", "configuration", "issuer.nit",
		"issuer.nit: is missing"),
	setting("no authority", "url = ", "# url = ", "configuration", "authority.url", "authority.url: is missing"),
	setting("nobody answers for contingency", "numero_documento = \"012345678\"", "numero_documento = \"\"",
		"configuration", "contingency.responsible.numero_documento",
		"contingency.responsible.numero_documento: is missing"),
	setting("no point of sale", "[[point_of_sale]]\nid = 1\nestablecimiento = \"S001\"\npunto_venta = \"P001\"\n", "",
		"configuration", "point_of_sale", "point_of_sale: at least one is needed"),
	setting("a point of sale twice", "[mail]", "[[point_of_sale]]\nid = 1\nestablecimiento = \"S001\"\npunto_venta = "+
		"\"P002\"\n[mail]", "configuration", "point_of_sale", "appears twice"),
	setting("an establishment in no form", `"S001"`, `"X001"`, "configuration", "point_of_sale.establecimiento",
		`is "X001", must be M, S, B or P and three digits`),
	setting("an address without a port", "[api]\nlisten = \"127.0.0.1:0\"", "[api]\nlisten = \"127.0.0.1\"",
		"configuration", "api.listen", `api.listen: is "127.0.0.1", must be an address and a port`),
	{"production over plain HTTP", func(b *Box) {
		b.Set("ambiente = \"00\"", "ambiente = \"01\"")
		b.Set("[api]\n", "[api]\npublic_url = \"http://dte.example.com\"\n")
	}, "fail", "configuration", "api.public_url", "api.public_url: is plain HTTP", true},
	setting("an origin that no page has", "[api]\n", "[api]\nbrowser_origins = [\"https://caja.example.com/\"]\n",
		"configuration", "api.browser_origins", "must be scheme, host and port alone"),
	setting("more signatures than keys", "threshold = 1", "threshold = 2", "configuration", "rules.key",
		"rules.key: 1 keys cannot give 2 signatures"),
	setting("a rule engine that is none", "threshold = 1", "threshold = 1\nengine = \"fast\"", "configuration",
		"rules.engine", `rules.engine: is "fast"`),
	setting("a hurry below zero", "[contingency]", "[contingency]\nhurry = -1", "configuration",
		"contingency.hurry", "contingency.hurry: is -1"),

	// Files that a start reads.
	without("no signing key", "signing.jwe", "key", "key.file"),
	without("no passphrase", "signing.passphrase", "key", "key.passphrase_file"),
	{"another passphrase", func(b *Box) { b.Write("signing.passphrase", []byte("another")) }, "fail", "key", "key.file",
		"opening signing key: ", true},
	{"a key of another making", func(b *Box) { b.Write("signing.jwe", []byte("MIIE")) }, "fail", "key", "key.file",
		"opening signing key: not a sealed key", true},
	without("no password of MH", "authority.password", "authority", "authority.password_file"),
	{"an empty password of MH", func(b *Box) { b.Write("authority.password", []byte("\n")) }, "fail", "authority",
		"authority.password_file", "authority.password is empty", true},
	{"a password of MH's portal", func(b *Box) { b.Write("authority.password", []byte("Ceiba2026\n")) }, "warn",
		"authority", "authority.password_file", "letters, digits and others: it has fewer than 13 characters", false},
	without("no admin token", "admin.token", "admin token", "ops.admin_token_file"),
	{"an admin token that is short", func(b *Box) { b.Write("admin.token", []byte("admin")) }, "fail", "admin token",
		"ops.admin_token_file", "holds 5 characters, an admin token has at least 32", true},
	{"an admin token that is not configured", func(b *Box) { b.Set("admin_token_file", "# admin_token_file") }, "warn",
		"admin token", "ops.admin_token_file", "is not set", false},
	{"a token file that is none", func(b *Box) { b.Write("tokens.toml", []byte("secret = \"x\"")) }, "fail", "tokens",
		"", "secret must be 32 bytes in hex", true},
	setting("a token of no point of sale", "[[point_of_sale]]\nid = 1", "[[point_of_sale]]\nid = 2", "tokens", "tokens",
		"token 1 (caja) names point of sale 1, which the configuration lacks"),
	setting("no certificate for the LAN", "[api]\nlisten = \"127.0.0.1:0\"", "[api]\nlisten = \"0.0.0.0:0\"", "tls",
		"tls.folder", "no certificate for a listener that the LAN reaches"),
	setting("a certificate that is not there", "[ops]\n",
		"[ops]\ncertificate = \"ops.pem\"\nkey = \"ops.key\"\ntls = "+
			"\"on\"\n", "tls", "ops.certificate", "ops.pem: no such file or directory"),
	setting("a colour that is none", `"#1f5f8b"`, `"blue"`, "configuration", "issuer.color_principal",
		`issuer.color_principal: is "blue", must be like`),
	setting("a logo that is not there", "[mail]", "[print]\nlogo = \"logo.png\"\n[mail]", "delivery", "print.logo",
		"logo.png: no such file or directory"),
	without("no password of the mail server", "mail.password", "delivery", "mail.password_file"),
	setting("a sender that is no address", `from = "dte@example.com"`, `from = "dte"`, "delivery", "mail.from",
		"mail.from: "),
	without("no secret of the archive", "archive.secret", "delivery", "archive.secret_file"),
	setting("an archive that is none", "http://127.0.0.1:9000", "127.0.0.1:9000", "delivery", "archive.endpoint",
		"archive.endpoint: is not of the form https://host:port"),
	without("no key of the rules", "rules.pub", "rules", "rules.key"),

	// The rules, and the faults that they find in the issuer's data.
	{"a rule that was altered", func(b *Box) {
		data, err := os.ReadFile(b.At("rules/dte01-v2.dterule"))
		b.must(err)
		data[len(data)/2] ^= 1
		b.Write("rules/dte01-v2.dterule", data)
	}, "fail", "rules", "", "rules/dte01-v2.dterule: ", true},
	{"no catalogues", func(b *Box) { b.Remove("rules/catalogues.dterule") }, "fail", "rules", "",
		"no catalogue bundle among the rules", true},
	setting("an NRC with its hyphen", "nrc = \"2390516\"", "nrc = \"239051-6\"", "issuer", "issuer.nrc",
		`issuer.nrc: is "239051-6", must be 2 to 8 digits without the hyphen`),
	setting("no activity", "codigo_actividad = \"47111\"", "codigo_actividad = \"00000\"", "issuer",
		"issuer.codigo_actividad", `issuer.codigo_actividad: is "00000", must be a code of CAT-019`),
	setting("no address in words", "complemento = \"Calle Arce 1020\"", "complemento = \"\"", "issuer",
		"issuer.direccion.complemento", "issuer.direccion.complemento: is missing"),
	{"a document type in words", func(b *Box) {
		b.Write("rules/contingencia-v4.dterule", plugintest.Bundle(b.t, "contingencia/v4"))
		b.Set(`tipo_documento = "13"`, `tipo_documento = "DUI"`)
	}, "fail", "issuer", "contingency.responsible.tipo_documento",
		`contingency.responsible.tipo_documento: is "DUI", must be a code of CAT-022`, false},

	// The store, its mark, and its surroundings.
	{"no store", func(b *Box) { b.Remove("data") }, "fail", "store", "", "no store", true},
	{"no mark", func(b *Box) { b.Remove("mark") }, "fail", "store", "", "no mark", true},
	{"a mark of another store", func(b *Box) {
		b.must(storage.Create(storage.Options{Dir: b.At("other"), MarkPath: b.At("other-mark"), Now: time.Now}))
		data, err := os.ReadFile(b.At("other-mark"))
		b.must(err)
		b.Write("mark", data)
	}, "fail", "store", "", "mark ", true},
	{"another branch's store", func(b *Box) {
		s, err := storage.Open(storage.Options{Dir: b.At("data"), MarkPath: b.At("mark"), Now: time.Now})
		b.must(err)
		_, err = s.Append(context.Background(), storage.Keys{Series: "00/01/M007/P001/2026"},
			storage.Draft{Head: []byte{1}})
		b.must(err, s.Close())
	}, "fail", "store", "", "another branch's: its documents are of M007", true},
	{"a store that was restored", func(b *Box) {
		options := storage.Options{Dir: b.At("data"), MarkPath: b.At("mark"), Now: time.Now}
		s, err := storage.Open(options)
		b.must(err)
		_, err = s.Backup(context.Background(), b.At("backup"), nil)
		b.must(err, s.Close())
		b.Remove("data")
		_, err = storage.Assemble(context.Background(), storage.Sources{Backups: []string{b.At("backup")}}, options,
			nil)
		b.must(err)
	}, "fail", "store", "", "store was rebuilt from other media and its numbers are not settled: run dtectl recover",
		true},
	{"a store of a rehearsal", func(b *Box) { b.Write("data.rehearsal", nil) }, "fail", "store", "authority.rehearsal",
		"was made to rehearse production", true},
	{"an address that is taken", func(b *Box) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		b.must(err)
		b.t.Cleanup(func() { _ = l.Close() })
		b.Set("[api]\nlisten = \"127.0.0.1:0\"", "[api]\nlisten = \""+l.Addr().String()+"\"")
	}, "fail", "listen", "api.listen", "bind: address already in use", true},
	{"a clock that was set back", func(b *Box) { b.beat(time.Now().Add(time.Hour)) }, "fail", "clock", "",
		"the clock was set back", false},
	{"a box that stood for forty days", func(b *Box) { b.beat(time.Now().AddDate(0, 0, -40)) }, "warn", "clock", "",
		"days after the time that the store knows", false},

	// Faults that do not prevent a start, but that a person should know.
	{"a secret that others can read", func(b *Box) {
		b.must(os.Chmod(b.At("authority.password"), 0o644), os.Chmod(b.Dir, 0o755))
	}, "fail", "secrets", "authority.password_file", "mode 0644", false},
	{"no token", func(b *Box) {
		b.must((&config.TokenFile{Secret: strings.Repeat("09", 32)}).Save(b.At("tokens.toml")))
	}, "warn", "tokens", "", "no till can issue", false},
	{"a second copy that was not begun", func(b *Box) {
		b.Set("mark = \"mark\"\n", "mark = \"mark\"\nsecond_copy = \"copy\"\n")
		b.must(os.Mkdir(b.At("copy"), 0o700))
	}, "warn", "second copy", "", "there is no copy in ", false},
	{"an authority that does not answer", func(b *Box) {
		data, err := os.ReadFile(b.Config())
		b.must(err)
		at := bytes.Index(data, []byte("url = \"http://"))
		end := bytes.IndexByte(data[at:], '\n')
		b.Set(string(data[at:at+end]), "url = \"http://127.0.0.1:1\"")
	}, "fail", "authority", "", "connection", false},
	{"a certificate of the LAN that is damaged", func(b *Box) {
		own := b.Authority()
		b.must(os.WriteFile(own.AuthorityFile(), []byte("?"), 0o600))
	}, "fail", "tls", "tls.folder", "ca.pem", true},
}

// beat stores a time as the last time that the store knows.
func (b *Box) beat(at time.Time) {
	b.t.Helper()
	s, err := storage.Open(storage.Options{Dir: b.At("data"), MarkPath: b.At("mark"), Now: time.Now})
	b.must(err)
	b.must(s.Beat(at, time.Time{}), s.Close())
}
