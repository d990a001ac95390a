package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"dtegate/cmd/dtectl/operator"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/screen"
	"dtegate/engine/dte"
	"dtegate/gateway/certificate"
)

// TLS is dtectl tls.
type TLS struct {
	Show tlsShowCommand `cmd:"" help:"Print the fingerprint to pin, the names and the ends."`
	New  tlsNewCommand  `cmd:"" help:"Make the authority and a certificate, once."`
}

type tlsShowCommand struct{}

// Run shows the box's own authority and certificate.
func (*tlsShowCommand) Run(top *operator.Options) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	return showTLS(cfg.BoxAuthority())
}

func showTLS(own *certificate.Own) error {
	authority, err := own.Authority()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the box has no authority of its own: dtectl tls new makes one: %w", err)
	}
	if err != nil {
		return err
	}
	leaf, err := certificate.Read(own.ServerFile())
	if err != nil {
		return err
	}
	names := leaf.DNSNames
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	screen.Printf("authority    %s, until %s\npin          %s\ncertificate  until %s, renewed by itself\nnames        %s\n", own.AuthorityFile(),
		dte.Date(authority.NotAfter), certificate.Fingerprint(authority), dte.Date(leaf.NotAfter), strings.Join(names, " "))
	for _, n := range own.Names {
		if !certificate.May(authority, n) {
			screen.Printf("not covered  %s: the authority was made before; dtectl tls new --replace makes another, which the tills must trust anew\n", n)
		}
	}
	return nil
}

type tlsNewCommand struct {
	Replace bool `help:"Though there is one: it is put aside, and the tills must trust the new one."`
}

// Run makes an authority. The running appliance serves its certificate within a second.
func (c *tlsNewCommand) Run(top *operator.Options) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	own := cfg.BoxAuthority()
	if _, err := os.Stat(own.Folder); c.Replace && err == nil {
		if err := os.Rename(own.Folder, own.Folder+".replaced-"+time.Now().UTC().Format("20060102T150405")); err != nil {
			return fmt.Errorf("putting the authority aside: %w", err)
		}
	}
	if err := own.Create(); err != nil {
		return err
	}
	return showTLS(own)
}
