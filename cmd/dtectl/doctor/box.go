package doctor

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dtectl/setup"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/dte"
	"dtegate/engine/sign"
	"dtegate/storage"
)

// What doctor looks at on the box itself.

func (d *doctor) configuration(path string) bool {
	cfg, err := config.Load(path)
	if err != nil {
		for _, fault := range config.Faults(err) {
			d.fail("configuration", "correct "+path+"; the package's own is a sample of every setting", "%v", fault)
		}
		return false
	}
	d.cfg = cfg
	d.ok("configuration", "%s: ambiente %s, NIT %s, %d points of sale", path, cfg.Ambiente,
		dte.FormatNIT(cfg.Issuer.NIT), len(cfg.Points))
	return true
}

// secrets are files that only the appliance's user may read. What of them cannot be read, files says.
func (d *doctor) secrets() {
	faults, sound := d.cfg.Exposed()
	for _, err := range faults {
		d.fail("secrets", "what the line says; dted starts all the same, and warns", "%v", err)
	}
	if sound > 0 {
		d.ok("secrets", "%d files that nobody else may read", sound)
	}
}

// tokens counts the tills that may issue.
func (d *doctor) tokens(file *config.TokenFile) {
	active := 0
	for _, t := range file.Tokens {
		if !t.Active() {
			continue
		}
		active++
		for _, p := range t.Permissions {
			if err := config.CheckPermission(p); err != nil {
				d.fail("tokens", "correct it in "+d.cfg.Tokens+", or make the till another token",
					"token %d (%s) has the permission %q, which there is not: the till is refused with 403", t.ID,
					t.Name, p)
			}
		}
	}
	if active == 0 {
		d.warn("tokens", "dtectl token new --point-of-sale … --name …", "there is none: no till can issue")
		return
	}
	d.ok("tokens", "%d", active)
}

// certificateSoon is when a certificate's end should be known to people: MH issues a new one within days, not hours.
const certificateSoon = 60 * 24 * time.Hour

func (d *doctor) certificate() {
	c := &sign.Certificate{NIT: d.cfg.Issuer.NIT, NotAfter: d.until} // as init read it
	var err error
	if d.command.Certificate != "" {
		_, c, err = setup.ReadKey(d.command.Certificate, d.command.CertificatePassword)
	}
	now := d.branchNow()
	if err == nil && c != nil {
		err = setup.CheckCertificate(*c, d.cfg.Issuer.NIT, now)
	}
	switch {
	case err != nil:
		d.fail("certificate", "the runbook tells under Certificate renewal how another one is installed", "%v", err)
	case c == nil || c.NotAfter.IsZero():
		d.warn("certificate", "look it up in MH's portal, or give --certificate and --certificate-password",
			"not known until when it is valid")
	case c.NotAfter.Sub(now) < certificateSoon:
		d.warn("certificate", "ask MH for a new certificate; the runbook tells under Certificate renewal how it is "+
			"installed", "it ends on %s", dte.Date(c.NotAfter))
	default:
		d.ok("certificate", "valid until %s", dte.Date(c.NotAfter))
	}
}

// Limits of the disk.
const (
	freeWarn   = 4                     // times the reserve, below which nothing new is issued
	fsyncSlow  = 25 * time.Millisecond // the middle one of fsyncTries
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
	const room = "make room, or move the data to a larger disk; dtectl backup and an archive elsewhere come first"
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
		d.warn("disk", "every sale waits for two of them: an SSD, not an SD card, and no other work on it",
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
		d.warn("mark", "put the mark on a second medium (mark in the configuration): the two should not die together",
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

// timeSync appends and syncs, as the store's log does: 9 KiB a document.
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

// repairRemedy is what to do about a damaged store.
const repairRemedy = "dtectl fsck with the appliance stopped, then dtectl recover; see Store damaged in the runbook"

// store returns the latest time that it knows; zero when that is not known.
func (d *doctor) store(ctx context.Context) (last time.Time) {
	s, err := storage.OpenReadOnly(d.cfg.Store(slog.New(slog.DiscardHandler)))
	switch {
	case errors.Is(err, storage.ErrInUse):
		d.running(ctx)
		return last
	case errors.Is(err, storage.ErrNoStore):
		d.fail("store", "if this branch has sold before: dtectl recover makes its store of the second copy, of what "+
			"it shipped to the chain's store, or of a "+
			"backup; for a branch that never sold: dtectl init makes an empty one, once", "%v", err)
		return last
	case errors.Is(err, storage.ErrCorrupt):
		d.fail("store", repairRemedy, "%v", err)
		return last
	case err != nil:
		d.fail("store", "dtectl fsck tells more; dtectl recover makes one of other media", "%v", err)
		return last
	}
	defer s.Close() // nothing was written
	if r := s.Restored(); r != nil {
		d.fail("store", "dtectl recover", "%v: run dtectl recover (nothing is missing until %s)", storage.ErrRestored,
			adminclient.Local(r.Taken))
	} else if m, err := s.LookAtMark(""); err != nil {
		d.fail("store", repairRemedy, "%v", storage.Explain(err))
	} else if m.Kind != storage.MarkSound {
		d.fail("store", markRemedy(s, m), "%s: %s", storage.ErrMark, m.What)
	} else {
		d.ok("store", "%s opens and agrees with its mark", d.cfg.Data)
	}
	d.stoppedBackup(s)
	d.onMedia().read(s.LastReading())
	if err := d.cfg.CheckRehearsal(s.LastID()); err != nil {
		d.fail("store", "dtectl init makes a store of its own for each", "%v", err)
	}
	d.listen()
	d.witnesses(s)
	d.stopped(s)
	last, err = s.LastBeat()
	if err != nil {
		d.fail("store", repairRemedy, "%v", storage.Explain(err))
	}
	return last
}

// markRemedy is what to do about the configured mark.
func markRemedy(s *storage.Store, m storage.MarkState) string {
	const anew = "; if the store's own mark cannot be found, dtectl recover proves the store and makes another"
	if m.Used != "" && m.Used != m.Path {
		if at, err := s.LookAtMark(m.Used); err == nil && (at.Kind == storage.MarkSound || at.Kind == storage.MarkAhead) {
			return "the store's mark is " + m.Used + ": dtectl recover brings it here"
		}
	}
	switch m.Kind {
	case storage.MarkMissing:
		return "mount its medium, or name the right path in the configuration" + anew
	case storage.MarkOld:
		return "this file is not the newest mark, the store knows that: find the newest" + anew
	case storage.MarkForeign:
		return "that medium belongs to another box: put the right one in" + anew
	case storage.MarkUnreadable:
		return "see whether the medium is dying" + anew
	}
	return "the mark is right and the store is old: find the right disk; dtectl recover takes what the other media " +
		"have, and says what is lost"
}

// Limits of the clock: MH refuses documents of another day, and a number's year follows the clock.
const (
	skewWarn = time.Minute
	skewFail = 15 * time.Minute
)

// clock holds the box's clock against the last record and against MH's, where they are known.
func (d *doctor) clock(last, authority time.Time) {
	const do = "set the clock and keep it with NTP (timedatectl); the appliance must not issue with a wrong date"
	now := d.branchNow()
	switch off := now.Sub(last); {
	case last.IsZero():
	case off < -config.ClockBack:
		d.fail("clock", do, "%s is %v before the time that the store knows: the clock was set back",
			adminclient.Local(now), -off.Round(time.Second))
		return
	case off > config.ClockFar:
		d.warn("clock", "see whether the date is right; the appliance issues once MH's clock bears it out, or after "+
			"dtectl clock accept",
			"%s is %d days after the time that the store knows", adminclient.Local(now), int(off.Hours()/24))
	}
	if authority.IsZero() {
		const alone = "%s, compared with nothing but the last record"
		if slices.ContainsFunc(d.findings, func(f finding) bool {
			return f.Check == "authority" &&
				f.Status == statusFail
		}) {
			d.ok("clock", alone, adminclient.Local(now)) // why, is said
			return
		}
		d.warn("clock", "see whether NTP runs (timedatectl)", alone, adminclient.Local(now))
		return
	}
	switch skew := now.Sub(authority).Round(time.Second); {
	case skew.Abs() > skewFail:
		d.fail("clock", do, "%s is %v off MH's clock", adminclient.Local(now), skew)
	case skew.Abs() > skewWarn:
		d.warn("clock", do, "%s is %v off MH's clock", adminclient.Local(now), skew)
	default:
		d.ok("clock", "%s, within %v of MH's", adminclient.Local(now), skewWarn)
	}
}
