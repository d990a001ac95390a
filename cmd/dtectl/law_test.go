package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/cmdtest/skip"
	"dtegate/cmd/dtectl/bundles"
	"dtegate/plugins/plugintest"
)

// TestLaw follows "A law before its day" of plugins/README.md in a copy of the checkout: a rate and its first day are
// tried, sent, taken off, sent again, in force by themselves on a branch whose calendar has reached the day, sealed by
// an authority with the same law, and taken back. The verbs use that day. Then follow the tax of the last paragraphs,
// sold and returned.
func TestLaw(t *testing.T) {
	skip.Short(t)
	for _, name := range []string{"curl", "sed"} {
		skip.Program(t, name)
	}
	t.Parallel()
	root := plugintest.Root(t)
	text, err := os.ReadFile(filepath.Join(root, "plugins", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## A law before its day\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) != 3 {
		t.Fatalf("the section has %d blocks", len(blocks))
	}
	l := &law{t: t, source: checkoutCopy(t, root), bin: buildPrograms(t, root), dir: filepath.Join(t.TempDir(), "demo")}
	_, l.replace, l.stop = runDemo(t, l.bin, l.dir, root)
	l.does(blocks[0][1], "5 of 9 cases are written", "fuel         ok", "dte01-2.2.0.dterule")
	said := l.does(blocks[1][1], "coming")
	if strings.Count(said, "dte01 2.2.0 takes over on 2027-01-01") < 2 {
		t.Errorf("it is not sent again:\n%s", said)
	}
	l.stop()

	_, l.replace, l.stop = runDemo(t, l.bin, l.dir, root, "--day", "2027-01-01", "--law", filepath.Join(l.source,
		"dte01-2.2.0.dterule"))
	defer func() { l.stop() }()
	l.does(blocks[2][1], "2.2.0    live   2027-01-01", `"estado":"PROCESSED"`, `"totalIva":2.14`,
		"dte01 2.2.0 is retired")
	l.does("dtectl -c var/demo/dted.toml rules list", "2.1.10   live")
	l.does("dtectl -c var/demo/dted.toml doctor", "clock          2027-01-01", "within 1m0s of MH's")
	l.does("dtectl -c var/demo/dted.toml token rotate 1 --grace 24h >/dev/null", "stays valid until 2027-01-02")
	l.tax()
}

// law is the author's workplace.
type law struct {
	t                *testing.T
	source, bin, dir string
	replace          *strings.Replacer
	stop             func()
}

// run runs a text of commands in the checkout, and stops at the first that fails.
func (l *law) run(script string) (string, error) {
	l.t.Helper()
	cmd := exec.Command("bash", "-c", "set -e\n"+l.replace.Replace(script))
	cmd.Dir, cmd.Env = l.source, append(os.Environ(), "PATH="+l.bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (l *law) does(script string, texts ...string) string {
	l.t.Helper()
	said, err := l.run(script)
	if err != nil {
		l.t.Fatalf("%v\n%s", err, said)
	}
	for _, text := range texts {
		if !strings.Contains(said, text) {
			l.t.Errorf("it does not say %q:\n%s", text, said)
		}
	}
	return said
}

// edit changes a file of the checkout.
func (l *law) edit(file string, pairs ...string) {
	l.t.Helper()
	path := filepath.Join(l.source, filepath.FromSlash(file))
	data, err := os.ReadFile(path)
	if err != nil {
		l.t.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		if !bytes.Contains(data, []byte(pairs[i])) {
			l.t.Fatalf("%s has no %s", file, pairs[i])
		}
		data = bytes.Replace(data, []byte(pairs[i]), []byte(pairs[i+1]), 1)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		l.t.Fatal(err)
	}
}

// tax writes the section's tax on bags, sells three of them and takes one back.
func (l *law) tax() {
	l.t.Helper()
	l.edit("plugins/catalogues/catalogues.json", `    "C8": `, `    "B1": "Bolsa plástica ($0.05)",`+"\n    "+`"C8": `)
	l.edit("plugins/catalogues/manifest.json", `"version": "1.2.0"`, `"version": "1.3.0"`)
	l.edit("plugins/dte01/rule.go", "import (\n", "import (\n\t\"slices\"\n\n", `"D1", "C8"}`, `"D1", "C8", "B1"}`,
		"\tcotransRate\n", "\tcotransRate\n\tlevyB1\n",
		`{Name: "cotransRate", Unit: "USD per gallon"}}`,
		`{Name: "cotransRate", Unit: "USD per gallon"}, {Name: "levyB1", Unit: "USD"}}`,
		"sdk.Taxes,", `append(slices.Clone(sdk.Taxes), "B1"),`, "sdk.TaxCotrans}",
		"sdk.TaxCotrans, sdk.TaxCotrans + 1}",
		"Net: net}", "Net: net, Levies: []sdk.Levy{{Tax: sdk.TaxCotrans + 1, Of: sdk.ColCantidad, Rate: "+
			"in.Params[levyB1], By: sdk.One}}}")
	const param = `"params": [{"name": "levyB1", "value": "0.05", "source": "Decreto 2, art. 1"},`
	l.edit("plugins/dte01/v2-2027/manifest.json", `"params": [`, param)
	l.edit("plugins/retorno/rule.go", `"D1", "C8"}`, `"D1", "C8", "B1"}`, "\tcotransRate\n",
		"\tcotransRate\n\tlevyB1\n",
		`{Name: "cotransRate", Unit: "USD per gallon"}}`,
		`{Name: "cotransRate", Unit: "USD per gallon"}, {Name: "levyB1", Unit: "USD"}}`, "[4]int64", "[5]int64")
	l.edit("plugins/retorno/line.go", "[4]int64", "[5]int64", "{all, o.params[cotransRate], sdk.One}",
		"{all, o.params[cotransRate], sdk.One}, {all, o.params[levyB1], sdk.One}")
	l.edit("plugins/retorno/v1/manifest.json", `"params": [`, param, `"version": "2.1.`, `"version": "2.2.`)
	sale := `{"receptor":{"nombre":"Ana Morales"},"items":[{"descripcion":"Bolsa","cantidad":3,"precioUnitario":0.10,"tributos":["B1"]}],"condicionOperacion":1}`
	if err := os.WriteFile(filepath.Join(l.source, "bags.json"), []byte(sale), 0o644); err != nil {
		l.t.Fatal(err)
	}
	l.does(`dtectl rules test dte01/v2-2027 --update
sed -i 's/"2.2.0"/"2.3.0"/' plugins/dte01/v2-2027/manifest.json
dtectl -c var/demo/dted.toml rules build dte01/v2-2027 --key var/demo/rules.key
dtectl -c var/demo/dted.toml rules build catalogues --key var/demo/rules.key
dtectl -c var/demo/dted.toml rules push catalogues-1.3.0.dterule --reason tax
dtectl -c var/demo/dted.toml rules push dte01-2.3.0.dterule --reason tax`,
		"0 of 9 cases are written", "dte01 2.3.0 is live")
	l.does(`dtectl -c var/demo/dted.toml rules build retorno/v1 --key var/demo/rules.key
dtectl -c var/demo/dted.toml rules push retorno-2.2.*.dterule --reason tax
for law in catalogues-1.3.0 dte01-2.3.0 retorno-2.2.*; do curl -sS --data-binary @${law%.dterule}.dterule http://127.0.0.1:8083/law; done`,
		"dte01 2.3.0 is law from 2027-01-01 on", "retorno 2.2.")
	post := `curl -sS http://127.0.0.1:8080/dte/%s -H "x-api-token: $(cat var/demo/pos.token)" -H 'Content-Type: application/json' -d @%s`
	sold := l.does(fmt.Sprintf(post, "dte01", "bags.json"), `"estado":"PROCESSED"`, `"codigo":"B1"`, `"valor":0.15`,
		`"totalPagar":0.45`)
	code := regexp.MustCompile(`"codigoGeneracion":"([^"]+)"`).FindStringSubmatch(sold)
	if code == nil {
		l.t.Fatal(sold)
	}
	back := fmt.Sprintf(`{"documentoOrigen":%q,"items":[{"numItem":1,"cantidadRetorno":1}],"motivo":"Rota"}`, code[1])
	if err := os.WriteFile(filepath.Join(l.source, "back.json"), []byte(back), 0o644); err != nil {
		l.t.Fatal(err)
	}
	l.does(fmt.Sprintf(post, "retorno", "back.json"), `"estado":"PROCESSED"`, `"valor":0.05`, `"totalPagar":0.15`)
}

// checkoutCopy is a checkout whose rules can be changed.
func checkoutCopy(t *testing.T, root string) string {
	t.Helper()
	source := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(source, "plugins"), 0o755))
	for _, name := range []string{"go.mod", "go.sum", "rules", "deploy", "engine", "storage", "plugins/sdk"} {
		must(os.Symlink(filepath.Join(root, name), filepath.Join(source, name)))
	}
	for _, name := range []string{"plugins/dte01", "plugins/retorno", "plugins/catalogues"} {
		must(os.CopyFS(filepath.Join(source, name), os.DirFS(filepath.Join(root, name))))
	}
	return source
}

// TestRules_AnotherLanguage: the rule of plugins/README.md, written in AssemblyScript, passes the cases of that
// document.
func TestRules_AnotherLanguage(t *testing.T) {
	root := plugintest.Root(t)
	asc := filepath.Join(root, "var", "build", "node_modules", ".bin", "asc")
	if _, err := os.Stat(asc); err != nil && os.Getenv("DTE_INSTALL") != "" {
		install := exec.Command("npm", "install", "--prefix", filepath.Join("var", "build"), "assemblyscript")
		install.Dir = root
		if out, err := install.CombinedOutput(); err != nil {
			t.Logf("%v\n%s", err, out)
		}
	}
	if _, err := os.Stat(asc); err != nil {
		skip.Test(t, "assemblyscript", "npm install --prefix var/build assemblyscript")
	}
	text, err := os.ReadFile(filepath.Join(root, "plugins", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	source := checkoutCopy(t, root)
	files := regexp.MustCompile(
		"(?s)`(plugins/recibo/v1/[^`]+\\.json)`[^`]*?(?:`[^`\n]*`[^`]*?)*?\n```json\n(.*?)```").FindAllStringSubmatch(
		string(text), -1)
	if len(files) != 6 {
		t.Fatalf("the README has %d files of the bundle", len(files))
	}
	for _, f := range files {
		path := filepath.Join(source, filepath.FromSlash(f[1]))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(f[2]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	module := filepath.Join(source, "recibo.wasm")
	build := exec.Command(asc, filepath.Join(root, "rules", "abi", "example", "recibo.ts"), "-O", "--runtime", "stub",
		"--use", "abort=", "-o", module)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said := cmdtest.Capture(t, func() {
		if err := (&bundles.TestCommand{Name: "recibo/v1", Source: source,
			Module: module}).Run(t.Context()); err != nil {
			t.Error(err)
		}
	})
	for _, step := range []string{"interpreter  ok", "compiler     ok", "3 golden cases"} {
		if !strings.Contains(said, step) {
			t.Errorf("it does not say %q:\n%s", step, said)
		}
	}
}
