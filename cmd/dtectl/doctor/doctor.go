// Package doctor checks everything that a branch needs, and says what to do about what is not as it should be: dtectl
// doctor.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/sign"
)

// Command is dtectl doctor.
type Command struct {
	JSON                bool   `help:"Write one JSON array."`
	Certificate         string `type:"existingfile" help:"MH's certificate file: tells until when it is valid. The appliance does not keep it."`
	CertificatePassword string `type:"existingfile" help:"File with the password of the certificate's private key."`
}

// Run looks at everything that the appliance needs and alters nothing but a file that it writes beside the store, to
// time the disk, and removes. Its exit status is 0 where no check fails, warnings or none, and 1 where one does.
func (c *Command) Run(ctx context.Context, top *adminclient.Options) error {
	d := &doctor{command: c, now: time.Now, openKey: sign.Open}
	d.examine(ctx, top.Config)
	var err error
	if c.JSON {
		err = term.JSON(d.findings)
	} else {
		err = d.print(term.Out)
	}
	if err != nil {
		return err
	}
	if n := d.count(statusFail); n > 0 {
		return fmt.Errorf("%d checks fail", n)
	}
	return nil
}

// doctor makes the checks, in an order in which a person mends, and collects what they find.
type doctor struct {
	findings []finding
	command  *Command
	cfg      *config.Config
	now      func() time.Time
	openKey  func(sealed, passphrase []byte) (*sign.Key, error)
	until    time.Time // when the certificate ends that the sealed key came in; zero: not known
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

// branchNow is the branch's clock. TLS keeps to the box's: those who connect compare a certificate with that one.
func (d *doctor) branchNow() time.Time {
	if d.cfg == nil { // it cannot be read
		return d.now()
	}
	return d.now().Add(time.Duration(d.cfg.Authority.Ahead))
}

const (
	statusOK   = "ok"
	statusWarn = "warn"
	statusFail = "fail"
)

// finding is one line of the report.
type finding struct {
	Status string `json:"status"` // ok, warn or fail
	Check  string `json:"check"`
	// Setting of the configuration that it is about, "issuer.nrc", where it is about one.
	Setting string `json:"setting,omitempty"`
	What    string `json:"what"`
	Do      string `json:"do,omitempty"` // never empty unless ok
}

func (d *doctor) ok(check, format string, args ...any) { d.add(statusOK, check, "", format, args...) }

func (d *doctor) warn(check, do, format string, args ...any) {
	d.add(statusWarn, check, do, format, args...)
}

func (d *doctor) fail(check, do, format string, args ...any) {
	d.add(statusFail, check, do, format, args...)
}

func (d *doctor) add(status, check, do, format string, args ...any) {
	what := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ") // one fault a line
	d.findings = append(d.findings, finding{status, check, config.Setting(errors.New(what)), what, do})
}

func (d *doctor) count(status string) (n int) {
	for _, f := range d.findings {
		if f.Status == status {
			n++
		}
	}
	return n
}

func (d *doctor) print(out io.Writer) error {
	w := term.Columns(out)
	for _, f := range d.findings {
		term.Fprintf(w, "%s\t%s\t%s\n", f.Status, f.Check, f.What)
		if f.Do != "" {
			term.Fprintf(w, "\t\t→ %s\n", f.Do)
		}
	}
	return w.Flush()
}
