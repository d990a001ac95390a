package config

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"dtegate/engine/fleet/fleetproto"
	"dtegate/rules/bundle"
)

// soundConfig is the sample, filled in, with a chain.
func soundConfig(t *testing.T) *Config {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/dted.toml")
	if err != nil {
		t.Fatal(err)
	}
	sample := strings.Replace(string(text), `ambiente = ""`, `ambiente = "00"`, 1)
	sample = strings.Replace(sample, `logo_url = ""`, `# logo_url = ""`, 1)
	path := filepath.Join(t.TempDir(), "dted.toml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(sample, `= ""`, `= "x"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	c.SecondCopy = "/media/copy"
	c.Archive = &Archive{Endpoint: "https://s3.example.com"}
	c.Fleet = &Fleet{Chain: "super", Branch: "centro", Group: "norte", DirectorKey: "director.pem", Ship: "sync",
		Store: &Archive{Endpoint: "https://s4.example.com"}}
	if err := errors.Join(prepare(c, "", "/"), c.check()); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCheck: what settings may not be together is refused by their names, alone.
func TestCheck(t *testing.T) {
	other := Point{ID: 2, Establishment: "M001", PointOfSale: "P002"}
	rehearsal := func(c *Config) {
		c.Ambiente, c.Authority.Rehearsal, c.Authority.URL = "01", true, "https://localhost:1"
	}
	for _, row := range []struct {
		want  string // how the only fault begins; "": no fault
		alter func(*Config)
	}{
		{"", func(*Config) {}},
		{"", func(c *Config) { c.Points = append(c.Points, other) }},
		{"point_of_sale: id 1 or ", func(c *Config) {
			c.Points = append(c.Points, Point{ID: c.Points[0].ID, Establishment: "M002", PointOfSale: "P009"})
		}},
		{"point_of_sale: id 7 or ", func(c *Config) {
			p := c.Points[0]
			p.ID = 7
			c.Points = append(c.Points, other, p)
		}},
		{"point_of_sale: at least", func(c *Config) { c.Points = nil }},
		{"rules.key: 1 keys cannot give 2", func(c *Config) { c.Rules.Threshold = 2 }},
		{"api.certificate, api.key: ", func(c *Config) { c.API.Certificate = "a" }},
		{"ops.certificate, ops.key: ", func(c *Config) { c.Ops.Key = "a" }},
		{"ops.tls: is off", func(c *Config) { c.Ops.TLS, c.Ops.Certificate, c.Ops.Key = "off", "a", "b" }},
		{"ops.listen: is", func(c *Config) { c.Ops.Listen = c.API.Listen }},
		{"", func(c *Config) { c.API.Listen, c.Ops.Listen = "127.0.0.1:0", "127.0.0.1:0" }},
		{"issuer.logo_url: ", func(c *Config) { c.Issuer.LogoURL = "a.png" }},
		{"branch.closed: needs", func(c *Config) { c.Branch.Closed = []string{"2026-12-25"} }},
		{"", func(c *Config) { c.Branch.Closed, c.Branch.Hours = []string{"2026-12-25"}, []Hours{{}} }},
		{"fleet.ship: ", func(c *Config) { c.SecondCopy = "" }},
		{"", func(c *Config) { c.SecondCopy, c.Fleet.Ship = "", "" }},
		{"fleet.store: ", func(c *Config) { c.Fleet.Store = nil }},
		{"", func(c *Config) { c.Contingency.Hurry = 60 }},
		{"contingency.hurry: ", func(c *Config) { c.Ambiente, c.Contingency.Hurry = "01", 2 }},
		{"", func(c *Config) { c.Ambiente = "01" }},
		{"authority.url: ", func(c *Config) { c.Ambiente, c.Authority.URL = "01", "http://mh.example.com" }},
		{"api.public_url: ", func(c *Config) { c.Ambiente, c.API.PublicURL = "01", "http://dte.example.com" }},
		{"archive.endpoint: ", func(c *Config) {
			c.Ambiente, c.Archive.Endpoint, c.Archive.PathStyle = "01", "http://s3.example.com", true
		}},
		{"archive.path_style: ", func(c *Config) { c.Ambiente, c.Archive.Endpoint = "01", "http://127.0.0.1:9000" }},
		{"", func(c *Config) {
			c.Ambiente, c.Archive.Endpoint, c.Archive.PathStyle = "01", "http://127.0.0.1:9000", true
		}},
		{"fleet.store.endpoint: ", func(c *Config) {
			c.Ambiente, c.Fleet.Store.Endpoint, c.Fleet.Store.PathStyle = "01", "http://s3.example.com", true
		}},
		{"archive.endpoint: ", func(c *Config) { // once, although the chain's store is the same
			c.Ambiente, c.Archive.Endpoint, c.Archive.PathStyle = "01", "http://s3.example.com", true
			c.Fleet.Store = c.Archive
		}},
		{"", func(c *Config) { c.Authority.Ahead, c.Authority.URL = Duration(time.Hour), "https://127.0.0.1:1" }},
		{"authority.rehearsal, authority.ahead: ", func(c *Config) { c.Authority.Ahead = Duration(time.Hour) }},
		{"authority.ahead: ", func(c *Config) { c.Ambiente, c.Authority.Ahead = "01", Duration(time.Hour) }},
		{"", rehearsal},
		{"", func(c *Config) { rehearsal(c); c.Authority.Ahead = Duration(time.Hour) }},
		{"authority.rehearsal: needs", func(c *Config) { rehearsal(c); c.Ambiente = "00" }},
		{"authority.rehearsal, authority.ahead: ", func(c *Config) {
			rehearsal(c)
			c.Authority.URL = "https://api.dtes.mh.gob.sv"
		}},
	} {
		c := soundConfig(t)
		row.alter(c)
		faults := Faults(c.check())
		if row.want == "" && len(faults) == 0 {
			continue
		}
		if len(faults) != 1 || row.want == "" || !strings.HasPrefix(faults[0].Error(), row.want) {
			t.Errorf("want %q, got %v", row.want, faults)
		}
	}
}

// TestSettings_Alone: each setting by its tags: what must be there, which words and which times it may have, each bound
// included; and no number below 0.
func TestSettings_Alone(t *testing.T) {
	for _, s := range settings(reflect.ValueOf(new(Config)).Elem(), "", true) {
		may := func(what string, value any, good bool) {
			t.Helper()
			s.value.Set(reflect.ValueOf(value).Convert(s.value.Type()))
			if err := s.check(); (err == nil) != good {
				t.Errorf("%s, %s: %v", s.name, what, err)
			}
		}
		_, required := s.tag.Lookup("required")
		if zero := reflect.Zero(s.value.Type()).Interface(); s.value.Type().Comparable() {
			may("empty", zero, !required)
		}
		if s.value.CanInt() {
			may("below 0", -1, false)
		}
		for _, word := range strings.Fields(s.tag.Get("one")) {
			if n, err := strconv.Atoi(word); err == nil && s.value.CanInt() {
				may(word, n, true)
				may(word+"99", n*100+99, false)
				continue
			}
			may(word, word, true)
			may(word+" and more", word+"x", false)
		}
		if within := strings.Fields(s.tag.Get("within")); len(within) == 2 {
			var least, most Duration
			if err := errors.Join(least.UnmarshalText([]byte(within[0])), most.UnmarshalText([]byte(within[1]))); err != nil {
				t.Fatal(err)
			}
			may("the least", least, true)
			may("the most", most, true)
			may("less", least-1, false)
			may("more", most+1, false)
		}
	}
}

// TestFleet_OverlayEach: each setting that the centre pushes replaces the box's, or adds to it; an empty one changes
// nothing.
func TestFleet_OverlayEach(t *testing.T) {
	box := func(pushed fleetproto.Settings, alter func(*Config)) *Config {
		c := &Config{Fleet: &Fleet{State: filepath.Join(t.TempDir(), "fleet.state")}, Print: Print{Footer: "antes"},
			Mail: &Mail{Greeting: "hola"}, Types: Types{Issue: []string{"01"}}, Payments: map[string]string{"03": "04"},
			Branch: Branch{Hours: []Hours{{}}, Closed: []string{"2026-12-25"}}}
		alter(c)
		values, err := fleetproto.EncodeSettings(pushed)
		if err == nil {
			err = c.Fleet.Settings().Save(values)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.overlay()
		return c
	}
	none := func(*Config) {}
	all := fleetproto.Settings{Closed: []string{"2027-01-01"}, Footer: "Felices fiestas", Greeting: "Buen año",
		Payments: map[string]string{"99": "01", "03": "05"}, Types: []string{"11", "01"}}
	c := box(all, none)
	if c.Print.Footer != "Felices fiestas" || c.Mail.Greeting != "Buen año" || len(c.Payments) != 2 ||
		c.Payments["99"] != "01" || c.Payments["03"] != "05" || !slices.Equal(c.Types.Issue, []string{"01", "11"}) ||
		!slices.Equal(c.Branch.Closed, []string{"2026-12-25", "2027-01-01"}) {
		t.Errorf("%+v %+v", c, c.Mail)
	}
	if c = box(fleetproto.Settings{}, none); c.Print.Footer != "antes" || c.Mail.Greeting != "hola" ||
		len(c.Payments) != 1 || len(c.Types.Issue) != 1 || len(c.Branch.Closed) != 1 {
		t.Errorf("nothing was pushed: %+v %+v", c, c.Mail)
	}
	c = box(all, func(c *Config) { c.Mail, c.Payments, c.Branch = nil, nil, Branch{} })
	if c.Mail != nil || c.Payments["99"] != "01" || len(c.Branch.Closed) != 0 {
		t.Errorf("a box without mail, payment codes and hours: %+v", c)
	}
}

// TestLoadTokens_Refuses: a token file that a person has spoilt is not used.
func TestLoadTokens_Refuses(t *testing.T) {
	secret, hash := Secret(), Secret()
	for _, c := range []struct {
		tokens []Token
		secret string
		want   string // "": the file is good
	}{
		{[]Token{{ID: 1, Hash: hash}, {ID: 2, Hash: hash, PreviousHash: hash}}, secret, ""},
		{[]Token{{ID: 1, Revoked: time.Unix(1, 0).UTC()}}, secret, ""},
		{nil, "", "secret must be"}, {nil, secret[2:], "secret must be"},
		{[]Token{{ID: 1, Hash: hash}, {ID: 1, Hash: hash}}, secret, "token 1 appears twice"},
		{[]Token{{ID: 1}}, secret, "token 1: hash must be"}, {[]Token{{ID: 2, Hash: hash[1:]}}, secret, "token 2: hash"},
		{[]Token{{ID: 3, Hash: hash, PreviousHash: "ab"}}, secret, "token 3: hash"},
	} {
		path := filepath.Join(t.TempDir(), "tokens.toml")
		if err := (&TokenFile{Secret: c.secret, Tokens: c.tokens}).Save(path); err != nil {
			t.Fatal(err)
		}
		file, err := LoadTokens(path)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) ||
			err == nil && len(file.Tokens) != len(c.tokens) {
			t.Errorf("%+v: %v", c.tokens, err)
		}
	}
}

// TestBeginTokens: a lost file begins anew at ids that no earlier token had; a file that is there stays.
func TestBeginTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.toml")
	if err := BeginTokens(path, time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	file, err := LoadTokens(path)
	if err != nil || file.First != 26113001 {
		t.Fatalf("%+v %v", file, err)
	}
	cfg := &Config{Points: []Point{{ID: 1}}}
	for want := file.First; want < file.First+2; want++ {
		k, _, err := file.Add(cfg, strings.Repeat("x", 100), 1, Permissions, "", time.Now())
		if err != nil || k.ID != want {
			t.Errorf("%+v %v", k, err)
		}
	}
	if _, _, err := file.Add(cfg, strings.Repeat("x", 101), 1, Permissions, "", time.Now()); err == nil {
		t.Error("a name of 101 bytes")
	}
	if err := BeginTokens(path, time.Now()); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("over a file that is there: %v", err)
	}
}

// TestTokenFile_Withdraw: a token loses the permissions that it has, and keeps one.
func TestTokenFile_Withdraw(t *testing.T) {
	for _, c := range []struct {
		withdraw []string
		want     string // "": it is refused
	}{{[]string{"B"}, "A C"}, {[]string{"C", "A"}, "B"}, {[]string{"A", "B", "C"}, ""}, {[]string{"D"}, ""},
		{[]string{"A", "A"}, ""}} {
		f := &TokenFile{Secret: Secret(), Tokens: []Token{{ID: 1, Permissions: []string{"A", "B", "C"}}}}
		k, err := f.Withdraw(1, c.withdraw)
		if (err == nil) != (c.want != "") || err == nil && strings.Join(k.Permissions, " ") != c.want {
			t.Errorf("%v: %+v %v", c.withdraw, k, err)
		}
		if _, err := f.Withdraw(2, c.withdraw); !errors.Is(err, ErrNoToken) {
			t.Errorf("of an unknown token: %v", err)
		}
	}
}

// TestCheckPoints: an active token needs its point of sale; a revoked one does not.
func TestCheckPoints(t *testing.T) {
	c := &Config{Points: []Point{{ID: 1}}}
	for _, row := range []struct {
		token Token
		good  bool
	}{{Token{Point: 1}, true}, {Token{Point: 2}, false}, {Token{Point: 2, Revoked: time.Unix(1, 0)}, true}} {
		if err := (&TokenFile{Tokens: []Token{row.token}}).CheckPoints(c); (err == nil) != row.good {
			t.Errorf("%+v: %v", row.token, err)
		}
	}
}

// TestInputs_Refused: a part that cannot be read or is too weak is a fault of its own setting.
func TestInputs_Refused(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	digest, err := adminToken("")
	if err != nil || digest != [32]byte{} {
		t.Errorf("without an admin token: %v", err)
	}
	for text, good := range map[string]bool{strings.Repeat("a", 32): true, strings.Repeat("a", 32) + "\n": true,
		strings.Repeat("a", 31): false, strings.Repeat("a", 31) + " ": false, "": false} {
		digest, err := adminToken(file(text))
		if (err == nil) != good || good != (digest == sha256.Sum256([]byte(strings.Repeat("a", 32)))) {
			t.Errorf("an admin token of %d bytes: %v", len(text), err)
		}
	}
	folder := t.TempDir()
	for name, text := range map[string]string{"a" + bundle.Extension: "x", "b.txt": "y"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read, err := shipped(folder)
	if err != nil || len(read) != 1 || string(read[filepath.Join(folder, "a"+bundle.Extension)]) != "x" {
		t.Errorf("%q %v", read, err)
	}
	if err := os.Mkdir(filepath.Join(folder, "c"+bundle.Extension), 0o700); err != nil {
		t.Fatal(err)
	}
	if read, err := shipped(folder); len(read) != 1 || err == nil || Setting(err) != "rules.folder" {
		t.Errorf("a bundle that cannot be read: %q %v", read, err)
	}
	m := Mail{Host: "mail.example.com", Port: 587, Security: "starttls", From: "dte@tienda.example"}
	for user, c := range map[string]struct{ file, want string }{"": {"", ""}, "ana": {file("secreto"), ""},
		"eva": {"", "mail.password_file"}, "leo": {file(" "), "mail.password_file"}} {
		m.User, m.PasswordFile = user, c.file
		if _, err := mailer(&m, &Issuer{Name: "La Ceiba"}); (err == nil) != (c.want == "") || err != nil &&
			Setting(err) != c.want {
			t.Errorf("mail of user %q: %v", user, err)
		}
	}
}
