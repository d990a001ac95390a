package doctor

import (
	"context"
	"net"
	"slices"

	"dtegate/cmd/dtectl/setup"
	"dtegate/cmd/dted/config"
)

// remedies is what to do about what ends a start, by the check.
var remedies = map[string]string{
	"key": "put back key and passphrase of this box from central IT's copy, or seal MH's file again as the " +
		"runbook tells under Certificate",
	"authority":   "put MH's API password there: the runbook tells how under Install",
	"admin token": "dtectl token admin makes another; a restart takes it",
	"tokens": "correct the file or take its token off; where it is lost, dtectl token new --new-file begins " +
		"another, and every till gets a new token",
	"tls": "dtectl tls new makes the box's own authority; a certificate of the company's is put where the " +
		"configuration says",
	"delivery": "correct the setting, or put the file where it says",
	"fleet":    "correct the setting, or put the director's public key and the store's secret where it says",
	"rules":    "correct the setting, or put central IT's public keys and bundles where it says",
	"issuer":   "correct the setting: it is checked against the documents' layout, before a till sells",
}

// files reads what a start reads, by the same code, and prints what it refuses in the same words.
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
		d.refuse("issuer", in.CheckShipped(d.cfg))
	}
}

// listen sees whether the addresses are free that a start takes. Only where the appliance stands still.
func (d *doctor) listen() {
	for _, l := range [][2]string{{"api.listen", d.cfg.API.Listen}, {"ops.listen", d.cfg.Ops.Listen}} {
		listener, err := net.Listen("tcp", l[1])
		if err != nil {
			d.fail("listen", "ss -ltnp tells who has it; end that, or take another address", "%v", config.Listening(l[0],
				err))
			continue
		}
		_ = listener.Close()
	}
}
