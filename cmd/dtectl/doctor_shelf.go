package main

import (
	"context"
	"net/http"
	"strings"

	"dtegate/engine"
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
	d.runningCopy(ctx)
	var s shelf
	if err := askOps(ctx, d.cfg, http.MethodGet, "/admin/rules", nil, &s); err != nil {
		return // without an admin token the folder has to do
	}
	for _, r := range s.Rules {
		if r.Off == nil {
			d.shelve(r.Kind, r.Document, r.From, r.Until)
		}
	}
}

// stopped reads the shelf of a store that nobody has open.
func (d *doctor) stopped(s *storage.Store) {
	list, err := engine.OnShelf(s)
	if err != nil {
		d.fail("rules", "dtectl fsck tells more", "%v", err)
		return
	}
	for _, a := range list {
		d.shelve(a.Kind, a.Document, a.From, a.Until)
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
