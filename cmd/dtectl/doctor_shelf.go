package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"dtegate/engine/shelf"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// What the branch has on its shelf counts; the rules folder only what it begins with.

// running looks at an appliance that has the store open: can it issue, and which rules has it.
func (d *doctor) running(ctx context.Context) {
	d.ok("store", "%s is open in the appliance, which looks after it itself", d.cfg.Data)
	address, client, err := ownOps(d.cfg)
	var resp *http.Response
	if err == nil {
		client.Timeout = reachBudget
		resp, err = client.Get(address + "/readyz")
	}
	if err != nil {
		d.fail("appliance", "journalctl -u dted tells why, and the runbook what to do", "runs and does not answer: %v", err)
		return
	}
	defer resp.Body.Close()
	said := make([]byte, 500)
	n, _ := resp.Body.Read(said)
	if resp.StatusCode != http.StatusOK {
		d.fail("appliance", "look for STORAGE_FULL under Disk full for CLOCK_WRONG under Clock wrong and for STORE_BEHIND under Store behind in the runbook", "issues nothing new: %s", strings.TrimSpace(string(said[:n])))
	} else {
		d.ok("appliance", "can issue")
	}
	d.runningReading(ctx)
	d.runningCopy(ctx)
	var list shelf.Listing
	if err := askOps(ctx, d.cfg, http.MethodGet, "/admin/rules", nil, &list); err != nil {
		return // without an admin token the folder has to do
	}
	d.listed(&list)
}

// listed judges the bundles that the store holds, as a running appliance or the store itself lists them.
func (d *doctor) listed(list *shelf.Listing) {
	for _, r := range list.Rules {
		switch {
		case r.Off != nil:
		case r.Trouble != nil:
			d.refusedRule(r.Name+" "+r.Version, r.Trouble.Why, r.Trouble.Text)
		default:
			d.shelve(r.Kind, r.Document, r.From, r.Until)
			d.signed(r.Vouched, r.SignedBy)
		}
	}
	d.notes(list.Notes)
	if r := list.Return; r != nil && r.Acknowledged == nil {
		goesOn := slices.ContainsFunc(list.Rules, func(b shelf.ShownBundle) bool { return b.Digest == r.To.Digest && b.State == "live" })
		d.returned(goesOn, r.To.Name+" "+r.To.Version, r.At, r.Reason)
	}
}

// returned tells that the branch itself went back to an earlier rule, until somebody has acknowledged it.
func (d *doctor) returned(goesOn bool, to string, at time.Time, reason string) {
	since := "since then another one has taken over"
	if goesOn {
		since = "it computes today"
	}
	d.warn("rules", "have central IT mend the rule and push it with a higher version; dtectl rules status tells more, dtectl rules acknowledge says that it is known", "the branch went back to %s by itself on %s, and %s: %s", to, local(at), since, reason)
}

// refusedRule is a rule in the store that may not compute.
func (d *doctor) refusedRule(name, why, text string) {
	do := "have central IT push this rule again, signed by the keys that this box pins; the runbook tells more under Rule refused"
	switch why {
	case "damaged": // by the disk, or by whoever wrote to the store: fsck tells which
		do = repairRemedy + "; where fsck finds no damage, " + do
	case "unvouched":
		do = "if it is central IT's, have it pushed again, signed by the keys that this box pins; if nobody knows it, somebody wrote to the backup or the store: the runbook tells more under Rule refused"
	}
	d.fail("rules", do, "%s is %s and computes nothing; the branch goes on with the newest other rule: %s", name, why, text)
}

// signed counts who vouches for the rules.
func (d *doctor) signed(vouched string, by []string) {
	who := strings.Join(by, ", ")
	if vouched == "box" {
		who = "this box (" + who + ")"
	}
	if d.signers == nil {
		d.signers = make(map[string]int)
	}
	d.signers[who]++
}

func (d *doctor) notes(list []string) {
	for _, n := range list {
		d.warn("rules", "see whether it is wanted: dtectl rules list --all", "%s", n)
	}
}

// stopped reads the shelf and the acts of a store that nobody has open.
func (d *doctor) stopped(s *storage.Store) {
	if _, err := d.cfg.Rules.Pinned(); err != nil {
		return // files says so
	}
	v, err := inspect(d.cfg, s)
	if err != nil {
		d.fail("rules", "correct rules.key and box_key in the configuration; dtectl fsck tells more", "%v", err)
		return
	}
	d.listed(v.rules)
	for _, p := range v.acts.Problems {
		d.fail("audit", "keep a copy of the store: somebody wrote to it, or to the backup that it came from", "%s", p)
	}
	if len(v.acts.Problems) == 0 {
		d.ok("audit", "%s", v.acts)
	}
}

func (d *doctor) shelve(kind, document, from, until string) {
	if kind == "catalogue" {
		return
	}
	if d.shelved == nil {
		d.shelved = make(map[string][]bundle.Window)
	}
	name := strings.TrimSpace(kind + " " + document)
	d.shelved[name] = append(d.shelved[name], bundle.Window{From: from, Until: until})
}
