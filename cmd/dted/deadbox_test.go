package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestRunbook_DeadBox: a box is installed, sells, and dies, first its mainboard with the TPM, then its disk. Another
// box is made by the runbook's own orders, and continues after the last number. In the end every order of the runbook
// has been run here or by another test, or is listed as one that no test can run.
func TestRunbook_DeadBox(t *testing.T) {
	t.Parallel()
	d := newDrill(t)
	certificate := d.certificate()
	d.block("Install", 1)
	d.line("Install", "dtectl init --certificate FILE.crt --certificate-password FILE", certificate...)
	d.line("Install", "rm -r /run/credentials/dted.service")
	d.line("Install", "systemctl start dted")
	d.line("Install", "dtectl doctor")
	one := d.till(d.line("Install", "dtectl token new --point-of-sale 1 --name caja-1"))
	d.numbered(one, 1)
	d.line("Backup", "dtectl backup /media/dted/backup/$(date +%F)")
	d.block("MH's password", 1)
	d.numbered(one, 2)

	// The disk works, but the new TPM cannot open what the old TPM sealed.
	d.systemctl("stop")
	d.dead("/etc/dted/passphrase.cred", "/etc/dted/authority.password.cred")
	d.block("Install", 1)
	d.block("Certificate renewal", 1, certificate...)
	d.numbered(one, 3)

	// The disk is dead, the card works.
	d.kill()
	d.runs = false
	d.dead("/etc/dted", "/var/lib/dted", "/run/credentials")
	d.newDisk()
	d.block("Install", 1)
	d.block("Dead box", 1)
	d.block("Dead box", 2, certificate...)
	if _, _, err := d.sells(one.client, one.token); err == nil {
		t.Error("a till that trusts the dead box's authority believes the new box")
	}
	two := d.till(d.line("Install", "dtectl token new --point-of-sale 1 --name caja-1"))
	if status, _, err := d.sells(two.client, one.token); err != nil || status != 401 {
		t.Errorf("the dead box's token: %d %v", status, err)
	}
	d.numbered(two, 4)
	if aside, err := os.ReadDir(d.at("/media/dted/copy")); err != nil || !strings.Contains(names(aside), "old-") {
		t.Errorf("the dead box's copy is not set aside: %s %v", names(aside), err)
	}
	d.systemctl("stop")
	d.line("Recover", "dtectl audit")
	if said := d.types("dtectl fsck"); !strings.Contains(said, "no problem found") {
		t.Error(said)
	}
	if list := d.book.unproven(t, d.typed); len(list) > 0 {
		t.Errorf("no test runs these orders of the runbook:\n%s", strings.Join(list, "\n"))
	}
}

// numbered sells; the document's number must be at least n and higher than the last one.
func (d *drill) numbered(x counter, least int) {
	d.t.Helper()
	number := d.sale(x).ControlNumber
	n, err := strconv.Atoi(number[len(number)-15:])
	d.must(err)
	if n < least || n <= d.last {
		d.t.Errorf("%s comes after number %d, and %d were sold before", number, d.last, least-1)
	}
	d.last = n
}

// dead removes the dead parts.
func (d *drill) dead(paths ...string) {
	d.t.Helper()
	for _, p := range paths {
		d.must(os.RemoveAll(d.at(p)))
	}
}

func names(list []os.DirEntry) (s string) {
	for _, e := range list {
		s += e.Name() + " "
	}
	return s
}
