package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/screen"
	"dtegate/engine/sign"
	"dtegate/rules/bundle"
)

type doctorCommand struct {
	JSON                bool   `help:"Write one JSON array."`
	Certificate         string `type:"existingfile" help:"MH's certificate file: tells until when it is valid. The appliance does not keep it."`
	CertificatePassword string `type:"existingfile" help:"File with the password of the certificate's private key."`
}

// Run looks at everything that the appliance needs and alters nothing but a file that it writes beside the store, to
// time the disk, and removes. Its exit status is 0 where no check fails, warnings or none, and 1 where one does.
func (c *doctorCommand) Run(ctx context.Context, top *cli) error {
	d := &doctor{command: c, now: time.Now, openKey: sign.Open}
	d.examine(ctx, top.Config)
	var err error
	if c.JSON {
		e := json.NewEncoder(screen.Data())
		e.SetIndent("", "  ")
		err = e.Encode(d.findings)
	} else {
		err = d.print(screen.Out)
	}
	if err != nil {
		return err
	}
	if n := d.count(statusFail); n > 0 {
		return fmt.Errorf("%d checks fail", n)
	}
	return nil
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

// doctor collects findings, the checks in an order in which a person mends.
type doctor struct {
	command  *doctorCommand
	cfg      *config.Config
	now      func() time.Time
	openKey  func(sealed, passphrase []byte) (*sign.Key, error)
	findings []finding
	until    time.Time                  // when the certificate ends that the sealed key came in; zero: not known
	shelved  map[string][]bundle.Window // the branch's rules, by what they are for; nil: it has none yet, or does not tell
	signers  map[string]int             // rules by who vouches for them
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

func (d *doctor) ok(check, format string, args ...any) {
	d.findings = append(d.findings, newFinding(statusOK, check, "", fmt.Sprintf(format, args...)))
}

func (d *doctor) warn(check, do, format string, args ...any) {
	d.findings = append(d.findings, newFinding(statusWarn, check, do, fmt.Sprintf(format, args...)))
}

func (d *doctor) fail(check, do, format string, args ...any) {
	d.findings = append(d.findings, newFinding(statusFail, check, do, fmt.Sprintf(format, args...)))
}

// refuse tells each fault of what ends a start in a line of its own, in the words that dted has for it.
func (d *doctor) refuse(check string, err error) {
	for _, fault := range config.Faults(err) {
		d.fail(check, remedies[check], "%v", fault)
	}
}

func newFinding(status, check, do, what string) finding {
	what = strings.ReplaceAll(what, "\n", "; ") // one fault a line
	return finding{Status: status, Check: check, Setting: config.Setting(errors.New(what)), What: what, Do: do}
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
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range d.findings {
		screen.Fprintf(w, "%s\t%s\t%s\n", f.Status, f.Check, f.What)
		if f.Do != "" {
			screen.Fprintf(w, "\t\t→ %s\n", f.Do)
		}
	}
	return w.Flush()
}
