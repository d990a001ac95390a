// Package doctor checks everything that a branch needs, and says what to do about each fault: dtectl doctor.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/sign"
)

type Command struct {
	JSON bool `help:"Write one JSON array."`
}

// Run checks everything that the appliance needs. To time the disk it writes a file beside the store and removes it; it
// changes nothing else. The exit status is 1 when a check fails, else 0.
func (c *Command) Run(ctx context.Context, top *adminclient.Options) error {
	d := &doctor{now: time.Now, openKey: sign.Open}
	d.examine(ctx, top.Config)
	failed, err := term.Findings(c.JSON, d.findings)
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d checks fail", failed)
	}
	return err
}

// doctor makes the checks in the order in which a person should mend the faults, and collects the findings.
type doctor struct {
	findings []term.Finding
	cfg      *config.Config
	now      func() time.Time
	openKey  func(sealed, passphrase []byte) (*sign.Key, error)
	until    time.Time // end of MH's certificate of the signing key; zero: not known
	held     heldRules
}

func (d *doctor) examine(ctx context.Context, path string) {
	if !d.configuration(path) {
		return
	}
	d.files(ctx)
	d.disk()
	last := d.store(ctx)
	d.rules()
	d.clock(last, d.authority(ctx))
}

// branchNow returns the branch's time, see Config.Now. The checks of TLS use the box's clock.
func (d *doctor) branchNow() time.Time {
	return d.now().Add(time.Duration(d.cfg.Authority.Ahead))
}

const (
	statusOK   = "ok"
	statusWarn = "warn"
	statusFail = "fail"
)

func (d *doctor) ok(check, format string, args ...any) { d.add(statusOK, check, "", format, args...) }

func (d *doctor) warn(check, do, format string, args ...any) {
	d.add(statusWarn, check, do, format, args...)
}

func (d *doctor) fail(check, do, format string, args ...any) {
	d.add(statusFail, check, do, format, args...)
}

func (d *doctor) add(status, check, do, format string, args ...any) {
	what := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ") // each finding is one line
	d.findings = append(d.findings, term.Finding{Status: status, Check: check,
		Setting: config.Setting(errors.New(what)), What: what, Do: do})
}
