package doctor

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dtectl/disk"
	"dtegate/engine/dte"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// Doctor judges the rules in the branch's store. It also verifies the rules folder, and lists it if the store has none.

// heldRules summarises the store's list of rules, which is empty before the first start or when unreadable.
type heldRules struct {
	live, coming []string       // in the list's order
	signers      map[string]int // number of rules, by signer
}

// headings maps the code of /readyz to the runbook's heading about it.
var headings = map[string]string{
	"BOX_REPLACED": "Box replaced",
	"CLOCK_WRONG":  "Clock wrong",
	"NOT_ENROLLED": "Box replaced",
	"STORAGE_FULL": "Disk full",
	"STORE_BEHIND": "Store behind",
	"UNAVAILABLE":  "Server errors",
}

// headingFor returns the runbook's heading for an answer of /readyz: a code, a colon and the reason.
func headingFor(why string) string {
	if strings.Contains(why, storage.ErrCorrupt.Error()) {
		return "Store damaged"
	}
	code, _, _ := strings.Cut(why, ":")
	return cmp.Or(headings[code], headings["UNAVAILABLE"])
}

// running asks the running appliance whether it can issue, and which rules it has.
func (d *doctor) running(ctx context.Context) {
	d.ok("store", "%s is open in the appliance, which checks it itself", d.cfg.Data)
	address, client, err := adminclient.OwnListener(d.cfg, "ops")
	var resp *http.Response
	if err == nil {
		client.Timeout = reachBudget
		resp, err = client.Get(address + "/readyz")
	}
	if err != nil {
		d.fail("appliance", "journalctl -u dted shows why, and the runbook what to do", "runs and does not answer: %v",
			err)
		return
	}
	defer resp.Body.Close()
	said := make([]byte, 500)
	n, _ := resp.Body.Read(said)
	if resp.StatusCode != http.StatusOK {
		why := strings.TrimSpace(string(said[:n]))
		d.fail("appliance", "see "+headingFor(why)+" in the runbook", "issues nothing new: %s", why)
	} else {
		d.ok("appliance", "can issue")
	}
	d.runningStatus(ctx)
	var list rulestore.Listing
	if err := adminclient.AskOwn(ctx, d.cfg, http.MethodGet, "/admin/rules", nil, &list); err != nil {
		return // without the list, the method rules checks the folder
	}
	d.listed(&list)
}

func (d *doctor) listed(list *rulestore.Listing) {
	for _, r := range list.Rules {
		switch {
		case r.Off != nil:
		case r.Trouble != nil:
			d.refusedRule(r.Name+" "+r.Version, r.Trouble.Why, r.Trouble.Text)
		default:
			if r.State == rulestore.Live && r.Outcomes != nil {
				d.rejected(r.Name+" "+r.Version, *r.Outcomes)
			}
			d.inForce(&r)
			d.held.signed(r.Vouched, r.SignedBy)
		}
	}
	for _, n := range list.Notes {
		d.warn("rules", "see dtectl rules list --all", "%s", n)
	}
	if r := list.Return; r != nil && r.Acknowledged == nil {
		goesOn := slices.ContainsFunc(list.Rules, func(b rulestore.ShownBundle) bool {
			return b.Digest == r.To.Digest && b.State == rulestore.Live
		})
		d.returned(goesOn, r.To.Name+" "+r.To.Version, r.At, r.Reason)
	}
}

// rejected reports failures of a rule in force, and MH's refusals among its latest documents and events.
func (d *doctor) rejected(rule string, o dte.Outcomes) {
	const format = "MH refused %d of the last %d documents or events of %s"
	switch {
	case o.Rejected():
		d.fail("rules", "have central IT take the rule back: dtectl fleet back, or dtectl rules rollback; see "+
			"Rejected at the counter in the runbook", format, o.Refused, o.Decided, rule)
	case o.Grave():
		d.fail("rules", "have central IT take the rule back, or mend it; see Rule failing in the runbook",
			"%s failed at %d of its last %d documents or events", rule, o.Failed, o.Failed+o.Decided)
	case o.Refused > 0:
		d.ok("rules", format, o.Refused, o.Decided, rule)
	}
}

// returned warns of an automatic return to an earlier rule that nobody has acknowledged.
func (d *doctor) returned(goesOn bool, rule string, at time.Time, reason string) {
	since := "another rule has taken over since then"
	if goesOn {
		since = "it computes today"
	}
	d.warn("rules", "have central IT mend the rule and push it with a higher version; dtectl rules list shows "+
		"more; dtectl rules acknowledge ends this warning",
		"the branch went back to %s by itself on %s, and %s: %s", rule, adminclient.Local(at), since, reason)
}

func (d *doctor) refusedRule(name, why, text string) {
	do := "have central IT push this rule again, signed by the keys that this box pins; see Rule refused in the runbook"
	switch why {
	case "damaged": // by the disk, or by a person who wrote to the store; fsck finds only damage by the disk
		do = repairRemedy + "; if fsck finds no damage, " + do
	case "unvouched":
		do = "if the rule is central IT's, have it pushed again, signed by the keys that this box pins; if nobody " +
			"knows it, somebody wrote to the backup or the store: see Rule refused in the runbook"
	}
	d.fail("rules", do, "%s is %s and computes nothing; the branch goes on with the newest other rule: %s", name, why,
		text)
}

// signed counts a rule for its signers, or for the box that vouches for it.
func (h *heldRules) signed(vouched string, by []string) {
	who := strings.Join(by, ", ")
	if vouched == "box" {
		who = "this box (" + who + ")"
	}
	if h.signers == nil {
		h.signers = make(map[string]int)
	}
	h.signers[who]++
}

// stopped judges the rules and the acts of a stopped appliance's store.
func (d *doctor) stopped(s *storage.Store) {
	if _, err := d.cfg.Rules.Pinned(); err != nil {
		return // the check of the files reports the error
	}
	v, err := disk.Inspect(d.cfg, s)
	if err != nil {
		d.fail("rules", "correct rules.key and box_key in the configuration; dtectl fsck shows more", "%v", err)
		return
	}
	d.listed(v.Rules)
	for _, p := range v.Acts.Problems {
		d.fail("audit", "keep a copy of the store: somebody wrote to it, or to the backup that it came from", "%s", p)
	}
	if len(v.Acts.Problems) == 0 {
		d.ok("audit", "%s", v.Acts)
	}
}

// rulesSoon is how far doctor looks ahead: it warns of rules that end without a successor, and lists rules that begin.
const rulesSoon = 45 * 24 * time.Hour

// inForce lists a rule that is in force or begins soon, and reports a rule that ends without a successor.
func (d *doctor) inForce(r *rulestore.ShownBundle) {
	name, soon := strings.TrimSpace(r.Kind+" "+r.Document), dte.Date(d.branchNow().Add(rulesSoon))
	switch {
	case r.Expired:
		d.fail("rules", "have central IT push its successor", "%s: ended on %s, and has no successor", name, r.Expires)
	case r.Expires != "" && r.Expires <= soon:
		d.warn("rules", "have central IT push its successor before that day", "%s: ends on %s, and has no successor",
			name, r.Expires)
	}
	switch {
	case r.Kind == "catalogue":
	case r.State == rulestore.Live:
		d.held.live = append(d.held.live, name)
	case r.State == rulestore.Coming && r.From <= soon:
		d.held.coming = append(d.held.coming, name+" on "+r.From)
	}
}

// rules verifies every bundle in the rules folder, and lists the rules that are valid today: those in the store or,
// before the first start, in the folder.
func (d *doctor) rules() {
	keys, err := d.cfg.Rules.Pinned()
	if err != nil {
		return // the check of the files reports the error
	}
	catalogue, bad, today := false, false, dte.Date(d.branchNow())
	paths, _ := filepath.Glob(filepath.Join(d.cfg.Rules.Folder, "*"+bundle.Extension))
	valid := make(map[string]bool) // whether a bundle is valid today, by kind and document
	for _, path := range paths {
		data, err := os.ReadFile(path)
		var b *bundle.Bundle
		if err == nil {
			b, err = keys.Read(data)
		}
		if err != nil {
			bad = true
			d.fail("rules", "have central IT push the bundle again, or remove the file", "rule bundle %s: %v", path,
				err)
			continue
		}
		m := &b.Manifest
		if m.Kind == "catalogue" {
			catalogue = true
			continue
		}
		name := strings.TrimSpace(m.Kind + " " + m.Document)
		w, ok := m.Validity[d.cfg.Ambiente]
		valid[name] = valid[name] || ok && w.From <= today && (w.Until == "" || today <= w.Until)
	}
	for _, who := range slices.Sorted(maps.Keys(d.held.signers)) {
		d.ok("rules", "%d signed by %s", d.held.signers[who], who)
	}
	live, coming := slices.Compact(d.held.live), d.held.coming
	switch {
	case len(live)+len(coming) > 0:
	case len(valid) == 0 && bad:
	case len(valid) == 0:
		d.fail("rules", "have central IT push the rules", "no bundle in %s", d.cfg.Rules.Folder)
	case !catalogue:
		d.fail("rules", "have central IT push the catalogues, or put their bundle into the rules folder", "%v",
			rulestore.ErrNoCatalogue)
		fallthrough
	default:
		for _, name := range slices.Sorted(maps.Keys(valid)) {
			if live = append(live, name); !valid[name] {
				d.fail("rules", "have central IT push a valid rule", "%s: no rule is valid today", name)
				live = live[:len(live)-1]
			}
		}
	}
	if len(live) > 0 {
		d.ok("rules", "valid today: %s", strings.Join(live, ", "))
	}
	if len(coming) > 0 {
		d.ok("rules", "coming: %s", strings.Join(coming, ", "))
	}
}
