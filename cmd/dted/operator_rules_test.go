package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"dtegate/plugins/plugintest"
	"dtegate/rules/bundletest"
)

// TestOperator_Rules follows a rule at a branch, by dtectl alone: it is made and tested, refused and signed, live,
// proven on the branch's own documents, watched while the next rule is a shadow, and taken back.
func TestOperator_Rules(t *testing.T) {
	t.Parallel()
	o := newBranch(t).operated()
	key, stranger := o.dir+"/central", o.dir+"/stranger"
	o.does("rules keygen " + key)
	o.does("rules keygen " + stranger)
	before, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	o.refused("rules keygen "+key, key+" exists")
	if after, err := os.ReadFile(key); err != nil || string(after) != string(before) {
		t.Errorf("a key was written over: %v", err)
	}
	o.reconfigure(`{id = "test", file = "rules.pub"}`,
		`{id = "test", file = "rules.pub"}, {id = "central-it", file = "central.pub"}`)
	o.start()
	defer o.stop()
	old := o.sold(sale01)

	_, shipped := plugintest.Parts(t, "dte01/v2")
	source := ruleSource(t, `"version": "`+shipped.Version+`"`, `"version": "2.1.99"`)
	if said := o.does("rules test dte01/v2 --source " +
		source); !regexp.MustCompile(
		`(?s)^dte01/v2\nsignature +ok.*\ninterpreter +ok.*\ncompiler +ok.*\nfuel +ok`).MatchString(said) {
		t.Errorf("dtectl rules test says\n%s", said)
	}
	o.refused("rules test dte01/v2 --source "+ruleSource(t, `"ivaRate", "value": "0.13"`, `"ivaRate", "value": "0.14"`),
		"dte01/v2\n", "interpreter  FAILED", "cases/", "dte01/v2: dte01 "+shipped.Version+
			" is refused at the step interpreter")
	path := strings.TrimSpace(o.does(fmt.Sprintf("rules build dte01/v2 --source %s --key %s --key-id stranger --out %s",
		source, stranger, o.dir)))
	if path != o.dir+"/dte01-2.1.99.dterule" {
		t.Fatalf("dtectl rules build prints %q", path)
	}
	o.refused("rules push --reason test "+path, "signature  FAILED", "the bundle is refused at the step signature")
	o.refused(fmt.Sprintf("rules sign %s --key %s --known %s.pub", path, key, key), "signature")
	o.does(fmt.Sprintf("rules sign %s --key %s --known %s.pub", path, key, stranger))
	o.refused("rules push "+path, "--reason")
	o.does("rules push --dry-run "+path, "would pass")
	if said := o.does("rules list"); strings.Contains(said, "2.1.99") {
		t.Errorf("a dry push changed the branch:\n%s", said)
	}
	if said := o.does("rules push --reason circular "+path, "dte01 2.1.99 is live\n"); !regexp.MustCompile(
		`(?s)^signature +ok.*\nversion +ok.*\ninterpreter +ok.*\ncompiler +ok`).MatchString(said) {
		t.Errorf("dtectl rules push says\n%s", said)
	}
	o.does("rules push --reason test "+path, "dte01 2.1.99 was live already\n")
	row := func(version, state, more string) *regexp.Regexp {
		return regexp.MustCompile(`(?m)^dte01 +2 +` + regexp.QuoteMeta(version) + ` +` + state + ` .*` + more + ` *$`)
	}
	if said := o.does("rules list"); !row("2.1.99", "live", regexp.QuoteMeta(o.who)).MatchString(said) {
		t.Errorf("dtectl rules list says\n%s", said)
	}
	next := o.file("next", bundletest.Edition(t, "dte01/v2", "2.2.0", bundletest.In("2099-01-01", "")))
	o.does("rules push --reason test "+next, "dte01 2.2.0 takes over on 2099-01-01\n")
	if said := o.does("rules list"); !row("2.2.0", "coming +2099-01-01", regexp.QuoteMeta(o.who)).MatchString(said) {
		t.Errorf("dtectl rules list says\n%s", said)
	}

	recent := o.sold(sale01)
	replays := func(r record, version string) {
		t.Helper()
		o.does("rules replay "+r.Code, r.Code+" is identical, by dte01 "+version+" (")
	}
	replays(old, "2.1.0")
	replays(recent, "2.1.99")
	if said := o.does("rules replay --from 2000-01-01"); said != "2 identical\n" {
		t.Errorf("dtectl rules replay says\n%s", said)
	}
	if said := o.does("rules documents 2.1.99", recent.Code, recent.ControlNumber, "dte01 2.1.99"); strings.Contains(said,
		old.Code) {
		t.Errorf("dtectl rules documents says\n%s", said)
	}
	o.does("rules documents 2.1.0 --name dte01 --from 2000-01-01 --json", `"codigoGeneracion":"`+old.Code+`"`)
	o.refused("rules documents v2", "neither a version")
	o.refused("rules replay 00000000-0000-4000-8000-000000000000", "the appliance says 404")
	o.refused("rules replay", "--from")

	// The sale is 13.90 with VAT of 13 % inside; with 14 % the VAT would be 1.71 instead of 1.60.
	dear := o.file("dear", bundletest.Edition(t, "dte01/v2", "9.0.0", bundletest.Param("ivaRate", "0.14"),
		bundletest.Refusals))
	o.does("rules backtest --from 2000-01-01 "+dear, old.ControlNumber+" "+old.Code+": resumen.totalIva 1.6 → 1.71\n",
		recent.Code, "2 documents in ", "2 amounts\n", "resumen.totalIva")
	o.does("rules backtest --from 2000-01-01 "+path, "2 documents in ", "2 identical\n")
	o.refused("rules backtest "+dear, "the appliance says 400")
	o.refused("rules shadow show", "the appliance says 404")
	o.does("rules shadow --documents 1 --for 1h "+dear, "dte01 9.0.0")
	shadowed := o.sold(sale01)
	soon(t, "the shadow has seen a sale", func() bool {
		return strings.Contains(o.does("rules shadow show"),
			"dte01 9.0.0: 1 of 1 sales")
	})
	o.does("rules shadow show", "1 amounts\n", shadowed.Code+": resumen.totalIva 1.6 → 1.71\n")
	o.does("rules shadow stop", "; over\n")
	o.refused("rules push --reason test "+o.file("wrong", bundletest.Edition(t, "dte01/v2", "9.0.0",
		bundletest.Param("ivaRate", "0.14"))), "interpreter", "FAILED",
		"dte01 9.0.0 is refused at the step interpreter")

	o.refused("rules rollback dte01 2 7.0.0 --reason x", "the appliance says 409")
	if said := o.does("rules rollback dte01 2 2.1.0 --reason quejas"); !strings.HasPrefix(said,
		"dte01 2.1.0 is live\n") || !strings.Contains(said, "dte01 2.1.99 is retired\n") {
		t.Errorf("dtectl rules rollback says\n%s", said)
	}
	replays(o.sold(sale01), "2.1.0")
	replays(recent, "2.1.99")
	if said := o.does("rules list --all"); !row("2.1.0", "live", "").MatchString(said) || !row("2.1.99", "retired",
		"rollback: quejas").MatchString(said) {
		t.Errorf("dtectl rules list --all says\n%s", said)
	}
	o.refused("rules push --reason test "+path, "is refused at the step version")
	said := o.does("audit")
	for _, act := range []string{`rules.push dte01 2.1.99 +done +circular`, `rules.push.dry dte01 2.1.99 +done`,
		`rules.push dte01 2.2.0 +done`, `rules.push +refused`, `rules.push dte01 9.0.0 +refused`,
		`rules.push dte01 2.1.99 +refused`, `rules.shadow dte01 9.0.0 +done`, `rules.shadow.stop +done`,
		`rules.rollback dte01 2.1.0 +done +quejas`, `rules.rollback dte01 7.0.0 +refused`} {
		if !regexp.MustCompile(`(?m)^\d+ +[-+\d: ]+ ` + regexp.QuoteMeta(o.who) + ` +127.0.0.1 +` +
			act).MatchString(said) {
			t.Errorf("no %s in\n%s", act, said)
		}
	}
}

// file keeps a bundle for dtectl.
func (o *operation) file(name string, data []byte) string {
	o.write(name+".dterule", data)
	return filepath.Join(o.dir, name+".dterule")
}

// ruleSource is a copy of this checkout in which an author has changed a text in a manifest of dte01.
func ruleSource(t *testing.T, old, text string) string {
	t.Helper()
	root, source := plugintest.Root(t), t.TempDir()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(source, "plugins"), 0o755))
	for _, name := range []string{"go.mod", "go.sum", "rules", "var", "plugins/sdk", "plugins/catalogues"} {
		must(os.Symlink(filepath.Join(root, name), filepath.Join(source, name)))
	}
	must(os.CopyFS(filepath.Join(source, "plugins", "dte01"), os.DirFS(filepath.Join(root, "plugins", "dte01"))))
	manifest := filepath.Join(source, "plugins", "dte01", "v2", "manifest.json")
	was, err := os.ReadFile(manifest)
	must(err)
	now := strings.Replace(string(was), old, text, 1)
	if now == string(was) {
		t.Fatalf("no %s in the manifest", old)
	}
	must(os.WriteFile(manifest, []byte(now), 0o600))
	return source
}
