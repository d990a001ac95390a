package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	records "dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/plugins/plugintest"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
	"dtegate/storage"
	"dtegate/storage/storetest"
)

// forger writes to a backup whatever the storage package lets anybody write: records of rules and of acts.
type forger struct {
	t     *testing.T
	store *storage.Store
}

// shelve appends the record of a rule, as the branch does when it admits one.
func (f *forger) shelve(whole, stored []byte) {
	f.t.Helper()
	b, err := bundle.Inspect(whole)
	if err != nil {
		f.t.Fatal(err)
	}
	m := b.Manifest
	head, err := json.Marshal(rulestore.Admitted{RuleRef: records.RuleRef{Name: m.Name, Version: m.Version,
		Digest: b.Digest}, Kind: m.Kind, Document: m.Document,
		Schema: m.Schema, From: m.Validity["00"].From, Signers: []string{"test"}, Way: "pushed", Who: "central IT",
		At: time.Now()})
	if err != nil {
		f.t.Fatal(err)
	}
	digest, err := hex.DecodeString(b.Digest)
	if err != nil {
		f.t.Fatal(err)
	}
	_, err = f.store.Append(context.Background(), storage.Keys{Series: "00/reglas"},
		storage.Draft{Code: storage.Code(digest[:16]), State: 64, Head: head, Parts: []storage.Part{{Name: "bundle",
			Data: stored}},
			Due: &storage.Due{Queue: "rules", At: time.Now()}})
	if err != nil {
		f.t.Fatal(err)
	}
}

// rewrite changes a word in the oldest act.
func (f *forger) rewrite(old, with string) {
	f.t.Helper()
	acts, err := f.store.Due("audit", time.Unix(0, 0), 1000)
	if err != nil || len(acts) == 0 {
		f.t.Fatalf("%d acts, %v", len(acts), err)
	}
	a := acts[len(acts)-1]
	head := bytes.Replace(a.Head, []byte(old), []byte(with), 1)
	if _, err := f.store.Advance(context.Background(), a.Code, a.State, storage.Change{To: a.State, Head: head,
		Due: a.Due}); err != nil || bytes.Equal(head, a.Head) {
		f.t.Fatalf("%s, %v", head, err)
	}
}

// TestForgedBackup: somebody adds to a backup a rule of 1 % VAT that nobody signed and half of a rule that central IT
// signed, and changes a word in the trail; the branch is restored from it. Every check reports it, the forged rule
// computes nothing, and the branch sells.
func TestForgedBackup(t *testing.T) {
	t.Parallel()
	o := newBranch(t).operated()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	o.start()
	vat := func() string {
		t.Helper()
		var d struct {
			Summary struct {
				VAT json.Number `json:"totalIva"`
			} `json:"resumen"`
		}
		must(json.Unmarshal(o.sold(sale01).JSON, &d))
		return d.Summary.VAT.String()
	}
	right := vat()
	o.stop()
	o.does("backup " + o.dir + "/backup")
	o.does("backup --check "+o.dir+"/backup", "signed by test", "authenticity of the trail: ")

	elsewhere := storage.Options{Dir: filepath.Join(t.TempDir(), "data"), MarkPath: filepath.Join(t.TempDir(), "mark"),
		Now: time.Now}
	_, err := storage.Assemble(t.Context(), storage.Sources{Backups: []string{o.dir + "/backup"}}, elsewhere, nil)
	must(err)
	f := &forger{t: t}
	f.store, err = storage.Open(elsewhere)
	must(err)
	must(storetest.Settle(t.Context(), f.store, 1, "nobody sees it"))
	stranger := plugintest.Signer()
	stranger.Private = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	forged := bundletest.EditionSigned(t, "dte01/v2", "2.1.9", stranger, bundletest.Param("ivaRate", "0.01"))
	f.shelve(forged, forged)
	signed := bundletest.Edition(t, "dte03/v4", "2.1.9")
	f.shelve(signed, signed[:len(signed)/2])
	f.rewrite("the installation", "central IT")
	_, err = f.store.Backup(t.Context(), o.dir+"/forged", nil)
	must(err)
	must(f.store.Close())

	sentences := []string{"nobody's signature: it computes nothing", "damaged: it computes nothing", "it was rewritten"}
	o.refused("backup --check "+o.dir+"/forged", sentences...)
	must(os.RemoveAll(o.dir + "/data"))
	o.refused("recover --from "+o.dir+"/forged", append(sentences, "an old one")...) // more rules than the mark knows
	o.run(true, []string{"recover", "--accept-loss", "M001P001 01: none", "--accept-loss", "others: none"}, nil)
	o.refused("fsck", append(sentences, "integrity: whole")...)
	o.refused("doctor", "dte01 2.1.9 is unvouched and computes nothing", "somebody wrote to the backup",
		"dte03 2.1.9 is damaged and computes nothing",
		"push this rule again", "it was rewritten")

	o.start()
	defer o.stop()
	if got := vat(); got != right {
		t.Errorf("the VAT was %s, and after the restoration it is %s", right, got)
	}
	if n, m := o.metric(`dte_rules_refused{reason="unvouched"}`),
		o.metric(`dte_rules_refused{reason="damaged"}`); n != 1 || m != 1 {
		t.Errorf("%v rules are unvouched and %v damaged", n, m)
	}
	if _, page := o.getOps("/?lang=en"); !strings.Contains(string(page), "the branch goes on without them") {
		t.Errorf("the page does not say it:\n%s", page)
	}
	o.refused("doctor", "dte01 2.1.9 is unvouched", "dte03 2.1.9 is damaged")
	o.refused("rules list", "unvouched", "computes nothing: ", "2 rules in the store may not compute")
	o.does("audit", "REWRITTEN: not as this box wrote it", "1 WERE REWRITTEN")
	if status, answer := o.admin(http.MethodPost, "/admin/rules?reason=test", signed); status != http.StatusOK {
		t.Errorf("the damaged rule is not taken again: %d %s", status, answer)
	}
	if n := o.metric(`dte_rules_refused{reason="damaged"}`); n != 0 {
		t.Errorf("%v rules are damaged", n)
	}
}
