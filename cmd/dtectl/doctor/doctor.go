// Package doctor checks everything that a branch needs, and says what to do about what is not as it should be: dtectl
// doctor.
package doctor

import (
	"context"
	"fmt"
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

// doctor makes the checks, in an order in which a person mends.
type doctor struct {
	report
	command *Command
	cfg     *config.Config
	now     func() time.Time
	openKey func(sealed, passphrase []byte) (*sign.Key, error)
	until   time.Time // when the certificate ends that the sealed key came in; zero: not known
	held    heldRules
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
