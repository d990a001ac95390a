package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// check says everything that is wrong with the settings, in the order of the sample. dted refuses it and dtectl doctor
// prints it.
func (c *Config) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Ambiente != "00" && c.Ambiente != "01" {
		fault("ambiente: is %q, must be \"00\" (test) or \"01\" (production)", c.Ambiente)
	}
	person := c.Contingency.Responsible
	for _, s := range [][2]string{{"data", c.Data}, {"mark", c.Mark}, {"tokens", c.Tokens}, {"api.listen",
		c.API.Listen}, {"ops.listen", c.Ops.Listen},
		{"authority.url", c.Authority.URL}, {"authority.password_file", c.Authority.PasswordFile},
		{"contingency.responsible.nombre", person.Name}, {"contingency.responsible.tipo_documento",
			person.DocumentType},
		{"contingency.responsible.numero_documento", person.Document}, {"key.file", c.Key.File}, {"key.passphrase_file",
			c.Key.PassphraseFile},
		{"rules.folder", c.Rules.Folder}, {"issuer.slug", c.Issuer.Slug}, {"issuer.nit", c.Issuer.NIT}} {
		if s[1] == "" {
			fault("%s: is missing", s[0])
		}
	}
	if c.Rules.Engine != "compiler" && c.Rules.Engine != "interpreter" {
		fault("rules.engine: is %q, must be \"compiler\" or \"interpreter\"", c.Rules.Engine)
	}
	if c.Rules.Threshold < 0 {
		fault("rules.threshold: is %d, must be 1 or more", c.Rules.Threshold)
	}
	for kind, policy := range c.Rules.OnFailure.Kinds() {
		if !slices.Contains([]string{"", "valid", "any", "refuse"}, policy) {
			fault("rules.on_failure.%s: is %q, must be valid, any or refuse", kind, policy)
		}
	}
	if len(c.Rules.Keys) < c.Rules.Threshold {
		fault("rules.key: %d keys cannot give %d signatures", len(c.Rules.Keys), c.Rules.Threshold)
	}
	faults = append(faults, c.API.check("api"), c.API.checkOrigins(), c.Ops.check("ops"), c.checkListen(),
		c.Access.check(), c.checkLooks(), c.rehearsable(), c.checkProduction(),
		c.Branch.checkHours(), c.Books.check(), c.Types.check(), c.checkFleet(), c.Webhook.check(), c.Authority.check(),
		c.checkDurations(), c.checkPoints())
	if c.API.Rate < 0 || c.API.Burst < 0 {
		fault("api.rate, api.burst: must be 1 or more")
	}
	return errors.Join(faults...)
}

// check refuses an address over which anybody on the way reads the results, and one that is none.
func (w *Webhook) check() error {
	if w == nil {
		return nil
	}
	u, err := url.Parse(w.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return fmt.Errorf("webhook.url: is %q, must be https://host/path", w.URL)
	}
	if host := net.ParseIP(u.Hostname()); u.Scheme == "http" && u.Hostname() != "localhost" && (host == nil ||
		!host.IsLoopback()) {
		return fmt.Errorf("webhook.url: is plain HTTP to %s: late results go by https, but to this machine",
			u.Hostname())
	}
	if w.SecretFile == "" {
		return errors.New("webhook.secret_file: is missing")
	}
	return nil
}

// checkListen refuses what is not an address and a port, and two listeners in one place.
func (c *Config) checkListen() error {
	var faults []error
	for _, l := range [][2]string{{"api.listen", c.API.Listen}, {"ops.listen", c.Ops.Listen}} {
		if l[1] == "" {
			continue // check says so
		}
		_, port, err := net.SplitHostPort(l[1])
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 && port != "0" {
			faults = append(faults, fmt.Errorf("%s: is %q, must be an address and a port, \"127.0.0.1:8080\"", l[0],
				l[1]))
		}
	}
	if _, port, err := net.SplitHostPort(c.API.Listen); err == nil && port != "0" && c.API.Listen == c.Ops.Listen {
		faults = append(faults, fmt.Errorf("ops.listen: is %q, which the tills have (api.listen)", c.Ops.Listen))
	}
	return errors.Join(faults...)
}

// checkDurations refuses what lies before zero; what is missing, or 0, takes its default.
func (c *Config) checkDurations() error {
	var faults []error
	check := func(name string, d Duration) {
		if d < 0 {
			faults = append(faults, fmt.Errorf("%s: is %v, must be above 0s", name, time.Duration(d)))
		}
	}
	check("authority.answer_timeout", c.Authority.AnswerTimeout)
	check("authority.patience", c.Authority.Patience)
	if u := c.API.UnknownCodes; u != "" && u != "refuse" && u != "pass" {
		faults = append(faults, fmt.Errorf("api.unknown_codes: is %q, must be refuse or pass", u))
	}
	if c.Authority.Resends < 0 {
		faults = append(faults, fmt.Errorf("authority.resends: is %d, must be 0 or more", c.Authority.Resends))
	}
	k := &c.Contingency
	for _, s := range []struct {
		name string
		d    Duration
	}{{"probe_every", k.ProbeEvery}, {"stable", k.Stable},
		{"report_after", k.ReportAfter}, {"doubt_for", k.DoubtFor}, {"lot_poll", k.LotPoll}, {"lot_patience",
			k.LotPatience},
		{"await_report", k.AwaitReport}} {
		check("contingency."+s.name, s.d)
	}
	if m := c.Mail; m != nil {
		check("mail.timeout", m.Timeout)
		check("mail.give_up_after", m.GiveUpAfter)
	}
	return errors.Join(faults...)
}

var establishmentForm, pointForm = regexp.MustCompile(`^[MSBP][0-9]{3}$`), regexp.MustCompile(`^P[0-9]{3}$`)

// checkPoints: the codes of a point of sale are the middle of its control numbers.
func (c *Config) checkPoints() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(c.Points) == 0 {
		fault("point_of_sale: at least one is needed")
	}
	seen := make(map[Point]bool)
	for _, p := range c.Points {
		if !establishmentForm.MatchString(p.Establishment) {
			fault("point_of_sale.establecimiento: of id %d is %q, must be M, S, B or P and three digits", p.ID,
				p.Establishment)
		}
		if !pointForm.MatchString(p.PointOfSale) {
			fault("point_of_sale.punto_venta: of id %d is %q, must be P and three digits", p.ID, p.PointOfSale)
		}
		id, codes := Point{ID: p.ID}, Point{Establishment: p.Establishment, PointOfSale: p.PointOfSale}
		if seen[id] || seen[codes] {
			fault("point_of_sale: id %d or %s%s stands twice", p.ID, p.Establishment, p.PointOfSale)
		}
		seen[id], seen[codes] = true, true
	}
	return errors.Join(faults...)
}
