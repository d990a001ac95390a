package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dtectl/setup"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/dted/health/clock"
	"dtegate/cmd/term"
	"dtegate/engine/authority/connpool"
	"dtegate/engine/dte"
	"dtegate/engine/sign"
	"dtegate/gateway/certificate"
)

// This file contains doctor's checks of the box itself.

func (d *doctor) configuration(path string) bool {
	cfg, err := config.Load(path)
	if err != nil {
		for _, fault := range config.Faults(err) {
			d.fail("configuration", "correct "+path+"; the package's dted.toml shows every setting", "%v", fault)
		}
		return false
	}
	d.cfg = cfg
	d.ok("configuration", "%s: ambiente %s, NIT %s, %d points of sale", path, cfg.Ambiente,
		dte.FormatNIT(cfg.Issuer.NIT), len(cfg.Points))
	if newer, err := config.Newer(path); err == nil && len(newer) > 0 {
		d.ok("configuration", "before you install an earlier version, remove these settings: %s", strings.Join(newer,
			", "))
	}
	return true
}

// secrets checks that only the appliance's user may read the secret files. Unreadable files are findings of d.files.
func (d *doctor) secrets() {
	faults, sound := d.cfg.Exposed()
	for _, err := range faults {
		d.fail("secrets", "do what the finding says; dted also starts without it, with a warning", "%v", err)
	}
	if sound > 0 {
		d.ok("secrets", "%d files that nobody else may read", sound)
	}
}

func (d *doctor) tokens(file *config.TokenFile) {
	active := 0
	for _, t := range file.Tokens {
		if !t.Active() {
			continue
		}
		active++
		for _, p := range t.Permissions {
			if err := config.CheckPermission(p); err != nil {
				d.fail("tokens", "correct the permission in "+d.cfg.Tokens+", or make a new token for the till",
					"token %d (%s) has the permission %q, which does not exist: the till gets 403", t.ID,
					t.Name, p)
			}
		}
	}
	if active == 0 {
		d.warn("tokens", "dtectl token new --point-of-sale … --name …", "there is no active token: no till can issue")
		return
	}
	d.ok("tokens", "%d", active)
}

// certificateSoon: doctor warns this long before MH's certificate ends, because a new one takes MH days.
const certificateSoon = 60 * 24 * time.Hour

func (d *doctor) certificate() {
	now := d.branchNow()
	// init stored the certificate's end, d.until, with the key
	err := setup.CheckCertificate(sign.Certificate{NIT: d.cfg.Issuer.NIT, NotAfter: d.until}, d.cfg.Issuer.NIT, now)
	switch {
	case err != nil:
		d.fail("certificate", "see Certificate renewal in the runbook", "%v", err)
	case d.until.IsZero():
		d.warn("certificate", "look the day up in MH's portal", "the day on which it ends is not known")
	case d.until.Sub(now) < certificateSoon:
		d.warn("certificate", "ask MH for a new certificate; see Certificate renewal in the runbook",
			"ends on %s", dte.Date(d.until))
	default:
		d.ok("certificate", "valid until %s", dte.Date(d.until))
	}
}

const (
	freeWarn   = 4                     // doctor warns if less than this many times disk_reserve is free
	fsyncSlow  = 25 * time.Millisecond // doctor warns if the median of fsyncTries synced writes takes longer
	fsyncTries = 25
)

func (d *doctor) disk() {
	folder := adminclient.ExistingAbove(d.cfg.Data)
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		d.fail("disk", "see whether the disk is mounted", "%s: %v", folder, err)
		return
	}
	free := int64(min(s.Bavail*uint64(s.Bsize), math.MaxInt64))
	const room = "free some space, or move the data to a larger disk, after dtectl backup to another medium"
	switch {
	case free < int64(d.cfg.DiskReserve):
		d.fail("disk", room, "%s free at %s: below disk_reserve (%s) nothing new is issued", term.Bytes(free), folder,
			term.Bytes(int64(d.cfg.DiskReserve)))
	case free/freeWarn < int64(d.cfg.DiskReserve):
		d.warn("disk", room, "%s free at %s", term.Bytes(free), folder)
	default:
		d.ok("disk", "%s free at %s", term.Bytes(free), folder)
	}
	middle, worst, err := timeSync(filepath.Dir(d.cfg.Data))
	switch {
	case err != nil:
		d.fail("disk", "the disk must be writable by the appliance's user", "writing beside the store: %v", err)
	case middle > fsyncSlow:
		d.warn("disk", "every sale waits for two such writes: use an SSD, not an SD card, and no other work on it",
			"a synced write takes %v, at worst %v", middle, worst)
	default:
		d.ok("disk", "a synced write takes %v, at worst %v", middle, worst)
	}
	data, dataErr := deviceOf(d.cfg.Data)
	mark, markErr := deviceOf(d.cfg.Mark)
	switch {
	case dataErr != nil || markErr != nil:
		d.fail("mark", "see whether its medium is mounted", "%v", errors.Join(dataErr, markErr))
	case data == mark:
		d.warn("mark",
			"put the mark on a second medium (mark in the configuration): one disk's death must not take both",
			"the high-water mark lies on the store's own disk")
	default:
		d.ok("mark", "lies on another device than the store")
	}
}

func deviceOf(path string) (uint64, error) {
	info, err := os.Stat(adminclient.ExistingAbove(path))
	if err != nil {
		return 0, err
	}
	return uint64(info.Sys().(*syscall.Stat_t).Dev), nil
}

// timeSync measures synced appends of a document's 9 KiB, like those of the store's log.
func timeSync(folder string) (middle, worst time.Duration, err error) {
	f, err := os.CreateTemp(folder, ".doctor-*")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	times := make([]time.Duration, fsyncTries)
	for i := range times {
		start := time.Now()
		if _, err := f.Write(make([]byte, 9<<10)); err != nil {
			return 0, 0, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0, 0, err
		}
		times[i] = time.Since(start).Round(10 * time.Microsecond)
	}
	slices.Sort(times)
	return times[len(times)/2], times[len(times)-1], nil
}

// Limits of the difference from MH's clock: MH refuses documents of another day, and a number's year follows the clock.
const (
	skewWarn = time.Minute
	skewFail = 15 * time.Minute
)

// clock compares the branch's clock with the store's last time and with MH's clock; a zero time is unknown.
func (d *doctor) clock(last, authority time.Time) {
	const do = "set the clock and keep it with NTP (timedatectl); the appliance must not issue with a wrong date"
	now := d.branchNow()
	switch off := now.Sub(last); {
	case last.IsZero():
	case off < -clock.Back:
		d.fail("clock", do, "%s is %v before the time that the store knows: the clock was set back",
			adminclient.Local(now), -off.Round(time.Second))
		return
	case off > clock.Far:
		d.warn("clock", "see whether the date is right; the appliance issues once MH's clock confirms it, or after "+
			"dtectl clock accept",
			"%s is %d days after the time that the store knows", adminclient.Local(now), int(off.Hours()/24))
	}
	if authority.IsZero() {
		const alone = "%s, compared only with the last record"
		if slices.ContainsFunc(d.findings, func(f term.Finding) bool {
			return f.Check == "authority" && f.Status == statusFail
		}) {
			d.ok("clock", alone, adminclient.Local(now)) // the finding "authority" gives the reason
			return
		}
		d.warn("clock", "see whether NTP runs (timedatectl)", alone, adminclient.Local(now))
		return
	}
	switch skew := now.Sub(authority).Round(time.Second); {
	case skew.Abs() > skewFail:
		d.fail("clock", do, "%s differs from MH's clock by %v", adminclient.Local(now), skew)
	case skew.Abs() > skewWarn:
		d.warn("clock", do, "%s differs from MH's clock by %v", adminclient.Local(now), skew)
	default:
		d.ok("clock", "%s, within %v of MH's", adminclient.Local(now), skewWarn)
	}
}

// remedies has the advice for each failed check that can prevent a start.
var remedies = map[string]string{
	"key": "put back key and passphrase of this box from central IT's copy, or seal MH's file again: see " +
		"Certificate in the runbook",
	"authority":   "put the password of MH's API into that file: see Install in the runbook",
	"admin token": "dtectl token admin makes a new admin token; restart dted to use it",
	"tokens": "correct the file or revoke the token; if the file is lost, dtectl token new --new-file begins " +
		"a new file, and every till gets a new token",
	"tls": "dtectl tls new makes the box's own authority; put a certificate of the company into the " +
		"configured files",
	"delivery": "correct the setting, or put the file at the configured path",
	"fleet":    "correct the setting, or put the director's public key and the store's secret at the configured paths",
	"rules":    "correct the setting, or put central IT's public keys and bundles at the configured paths",
	"issuer":   "correct the setting: it is checked against the documents' layout, before a till sells",
}

// files reads the files that a start reads, with the same code, and reports the faults that would prevent the start.
func (d *doctor) files(ctx context.Context) {
	in, faults := d.cfg.Inputs(ctx, config.InputOptions{OpenKey: d.openKey})
	for _, f := range faults {
		d.fail(f.Check, remedies[f.Check], "%v", &f)
	}
	sound := func(check string) bool {
		return !slices.ContainsFunc(faults, func(f config.Fault) bool { return f.Check == check })
	}
	if sound("key") {
		d.until = in.Key.NotAfter()
		d.ok("key", "opens and signs, RSA %d", in.Key.Public().Size()*8)
	}
	d.certificate()
	if sound("authority") {
		if err := setup.DoubtPassword(d.cfg.Authority.PasswordFile, in.Password); err != nil {
			d.warn("authority", setup.DoubtedPassword, "%v", err)
		}
	}
	d.secrets()
	switch {
	case d.cfg.Ops.AdminTokenFile == "":
		d.warn("admin token", "set ops.admin_token_file and run dtectl token admin",
			"ops.admin_token_file: is not set: nobody can administer the running appliance, and dtectl cannot ask it")
	case sound("admin token"):
		d.ok("admin token", "%s", d.cfg.Ops.AdminTokenFile)
	}
	if sound("tokens") {
		d.tokens(in.Tokens)
	}
	d.tls()
	if sound("delivery") {
		mailed, archived := "nothing is mailed", "nothing is archived"
		if m := d.cfg.Mail; m != nil {
			mailed = "mail by " + m.Host
		}
		if a := d.cfg.Archive; a != nil {
			archived = "archive " + a.Endpoint
		}
		d.ok("delivery", "%s, %s", mailed, archived)
	}
	if sound("fleet") && d.cfg.Fleet != nil {
		d.fleet(ctx, in)
	}
	if sound("rules") {
		for _, fault := range config.Faults(in.CheckShipped(d.cfg)) {
			d.fail("issuer", remedies["issuer"], "%v", fault)
		}
	}
}

// listen checks that the addresses of the listeners are free. It runs only while the appliance is stopped.
func (d *doctor) listen() {
	for _, l := range [][2]string{{"api.listen", d.cfg.API.Listen}, {"ops.listen", d.cfg.Ops.Listen}} {
		listener, err := net.Listen("tcp", l[1])
		if err != nil {
			d.fail("listen",
				"ss -ltnp shows which process uses the address; end that process, or configure another address", "%v",
				config.Listening(l[0], err))
			continue
		}
		_ = listener.Close()
	}
}

// tlsSoon: doctor warns this long before a listener's certificate ends. The box renews its own certificate earlier.
const tlsSoon = 21 * 24 * time.Hour

func (d *doctor) tls() {
	if own := d.cfg.BoxAuthority(); d.cfg.OwnAuthority() {
		if _, err := own.Authority(); err == nil { // otherwise files reports the error
			if err := own.CheckKey(); err != nil {
				d.fail("tls", "put the file back from central IT's copy, or make another authority with dtectl tls "+
					"new --replace, which each till must then trust", "the next certificate cannot be signed: %v", err)
			}
		}
	}
	for name, l := range d.cfg.Listeners() {
		if !l.Encrypted() {
			if l.TLS == "off" {
				d.ok("tls", "%s: plain HTTP, as the configuration says", name)
			}
			continue
		}
		file, do := l.Certificate, "replace the certificate and its key: the appliance uses them without a restart"
		if file == "" {
			file, do = d.cfg.BoxAuthority().ServerFile(), "dtectl tls new makes the box's own authority; a running "+
				"appliance renews its certificate"
		}
		leaf, err := certificate.Read(file)
		switch {
		case err != nil: // a start makes the box's own certificate; files reports other faults
		case d.now().After(leaf.NotAfter):
			d.fail("tls", do, "%s: the certificate ended on %s", name, dte.Date(leaf.NotAfter))
		case leaf.NotAfter.Sub(d.now()) < tlsSoon:
			d.warn("tls", do, "%s: the certificate ends on %s", name, dte.Date(leaf.NotAfter))
		default:
			d.ok("tls", "%s: until %s", name, dte.Date(leaf.NotAfter))
		}
	}
}

// reachBudget is the time limit of a request to MH, to the chain's store, and to /readyz of the appliance.
const reachBudget = 3 * time.Second

// authority connects to MH with the appliance's own code and time limit. It reports the step that fails, or how long
// each step took. It returns MH's time, zero if unknown. It sends no credentials and no document.
func (d *doctor) authority(ctx context.Context) (clock time.Time) {
	u, err := url.Parse(d.cfg.Authority.URL)
	if err != nil || u.Hostname() == "" {
		d.fail("authority", "correct authority.url in the configuration", "%q is not an address", d.cfg.Authority.URL)
		return clock
	}
	way := d.cfg.Authority.Link()
	defer way.Close()
	steps, err := way.Connect(ctx)
	if err != nil {
		d.unconnected(steps, way.Limit(), err)
		return clock
	}
	if len(steps.Certificate) > 0 {
		if end := steps.Certificate[0].NotAfter; end.Sub(d.now()) < 7*24*time.Hour {
			d.warn("authority", "only MH can renew the certificate", "MH's TLS certificate ends on %s", dte.Date(end))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, reachBudget)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		d.fail("authority", "correct authority.url in the configuration", "%v", err)
		return clock
	}
	req.Header.Set("User-Agent", "dtectl doctor")
	began := time.Now()
	resp, err := way.RoundTrip(req)
	if err != nil {
		d.fail("authority", "see whether a proxy blocks the request, or MH is down; meanwhile documents go out in "+
			"contingency", "no answer: %v", err)
		return clock
	}
	_ = resp.Body.Close()
	// Any status is good enough: an HTTP server answers at this address.
	d.connected(u.Host, steps, way.Limit(), time.Since(began))
	if clock, err = http.ParseTime(resp.Header.Get("Date")); err != nil {
		return time.Time{}
	}
	return clock
}

func (d *doctor) unconnected(steps connpool.Steps, limit time.Duration, err error) {
	what, do := "connection", "see whether a firewall blocks the connection, or MH is down; meanwhile documents go "+
		"out in contingency"
	switch steps.Failed {
	case "lookup":
		what, do = "name", "see whether the branch has Internet and its name server answers; meanwhile documents go "+
			"out in contingency"
	case "tls":
		what, do = "TLS", "see whether the clock is wrong, or something on the way intercepts TLS; install "+
			"ca-certificates"
	}
	took := steps.Lookup + steps.TCP + steps.TLS
	d.fail("authority", do, "%s: %v; %s (authority.connect_timeout %v)", what, err, times(steps), limit)
	if took > limit*9/10 {
		d.warn("authority", "raise authority.connect_timeout if the link is slow but works",
			"the connection used the whole time limit, %v", limit)
	}
}

// connected reports how long each step took, and warns of a link that takes more than half of the limit.
func (d *doctor) connected(host string, steps connpool.Steps, limit, answer time.Duration) {
	if total := steps.Lookup + steps.TCP + steps.TLS; total > limit/2 {
		d.warn("authority", "raise authority.connect_timeout, or see why the link is slow: after that time the branch "+
			"goes into contingency",
			"%s answers, but connecting takes %v of the %v of authority.connect_timeout: %s", host,
			total.Round(time.Millisecond), limit, times(steps))
		return
	}
	d.ok("authority", "%s answers: %s, answer %v; connecting may take %v (authority.connect_timeout)", host,
		times(steps), answer.Round(time.Millisecond), limit)
}

func times(s connpool.Steps) string {
	return fmt.Sprintf("name %v, connection %v, TLS %v", s.Lookup.Round(time.Millisecond),
		s.TCP.Round(time.Millisecond), s.TLS.Round(time.Millisecond))
}
