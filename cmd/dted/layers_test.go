package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dtegate/plugins/plugintest"
)

// layers is the import table: what each package of this module may import from it. An import that is not listed is
// forbidden; a package that is not listed must be added with its imports.
var layers = map[string][]string{
	"rules/abi":     {},
	"rules/signed":  {"rules/suggest"},
	"rules/bundle":  {"rules/signed"},
	"rules/suggest": {},
	"rules/fuel":    {},
	"rules":         {"rules/abi", "rules/bundle", "rules/fuel"},
	"storage":       {},

	"engine/recordmac":          {},
	"engine/audit":              {"engine/record", "engine/recordmac", "storage"},
	"engine/dte":                {},
	"engine/dte/schema":         {"engine/dte"},
	"engine/sign":               {},
	"engine/authority":          {"engine/authority/connpool", "engine/redacted"},
	"engine/redacted":           {},
	"engine/authority/connpool": {"engine/fairqueue"},
	"cmd/dtesim/simulator": {"cmd/dtesim/simulator/document", "cmd/dtesim/simulator/hostility",
		"cmd/dtesim/simulator/protocol", "cmd/dtesim/simulator/registry"},
	"cmd/dtesim/simulator/document":  {},
	"cmd/dtesim/simulator/hostility": {"cmd/dtesim/simulator/document"},
	"cmd/dtesim/simulator/registry":  {"cmd/dtesim/simulator/document", "cmd/dtesim/simulator/hostility"},
	"cmd/dtesim/simulator/protocol": {"cmd/dtesim/simulator/document", "cmd/dtesim/simulator/hostility",
		"cmd/dtesim/simulator/registry"},
	"engine/pdf":              {"engine/dte", "engine/pdf/sheet", "rules/bundle"},
	"engine/pdf/sheet":        {},
	"engine/mail":             {"engine/redacted"},
	"engine/archive":          {"engine/redacted"},
	"engine/fairqueue":        {},
	"engine/fleet/fleetproto": {"engine/archive", "engine/dte", "rules/bundle", "rules/signed"},
	"cmd/dtectl/fleet": {"engine/fairqueue", "cmd/dtectl/adminclient", "cmd/dted/config", "cmd/term", "engine/archive",
		"engine/dte", "engine/fleet/fleetproto", "engine/record", "engine/sign", "gateway/door", "rules/bundle"},
	"engine/fleet/ship": {"engine/archive", "engine/fairqueue", "engine/fleet/fleetproto"},
	"engine/fleet": {"engine/archive", "engine/fairqueue", "engine/fleet/fleetproto", "engine/dte",
		"rules/bundle"},
	"engine/record":       {"engine/authority", "engine/dte", "storage", "rules/bundle"},
	"engine/books":        {"engine/dte", "engine/pdf"},
	"engine/books/sample": {},
	"engine/refusal":      {"engine/dte"},
	"engine/rulestore": {"engine/dte/schema", "engine/fairqueue", "engine/refusal", "storage", "rules/bundle",
		"rules", "engine/recordmac", "engine/record", "engine/dte", "engine/authority", "rules/abi"},
	"engine/outbox": {"engine/mail", "engine/pdf", "engine/fairqueue",
		"engine/archive", "storage", "engine/refusal", "engine/record", "engine/dte"},
	"engine/contingency": {"engine/authority", "engine/fairqueue", "engine/dte", "engine/record",
		"engine/refusal", "engine/rulestore", "engine/sign", "storage"},
	"engine/documents": {"engine/archive", "engine/books", "engine/contingency", "rules/bundle", "engine/dte", "engine/pdf",
		"engine/outbox", "engine/record", "engine/refusal", "engine/sign", "storage"},
	"engine": {"engine/dte/schema", "engine/contingency", "engine/documents",
		"engine/outbox", "engine/rulestore", "engine/record", "engine/refusal", "engine/fairqueue",
		"engine/dte", "engine/sign", "engine/authority", "engine/archive", "rules/abi", "storage",
		"rules/bundle"},

	"gateway/adminapi": {"engine", "engine/audit", "engine/books", "engine/dte", "engine/documents",
		"engine/outbox", "engine/refusal", "engine/record", "engine/rulestore", "gateway/door", "gateway/reply",
		"gateway/form", "gateway/page", "gateway/problem", "storage"},
	"gateway/reply": {"engine", "engine/authority", "engine/dte", "engine/outbox", "engine/record",
		"engine/documents", "engine/refusal", "gateway/form", "gateway/problem"},
	"gateway/problem": {"engine/dte", "engine/refusal"},
	"gateway/page": {"engine/authority", "engine/documents", "engine/rulestore",
		"engine", "engine/books/sample", "engine/dte", "engine/fleet", "engine/fleet/fleetproto", "engine/pdf",
		"engine/record", "engine/refusal", "gateway/problem", "storage"},
	"gateway/form": {"rules/suggest", "engine/outbox", "engine/record", "engine", "engine/dte", "engine/refusal",
		"rules/bundle"},
	"gateway/door": {"engine/fairqueue", "engine/audit"},
	"gateway": {"engine/pdf", "rules/bundle", "gateway/adminapi", "gateway/problem", "gateway/reply",
		"engine/documents", "gateway/door", "engine/outbox", "gateway/page", "gateway/form",
		"engine/refusal", "engine", "engine/record", "engine/fairqueue", "engine/audit", "engine/dte"},
	"gateway/certificate": {},

	"plugins/sdk":     {"rules/abi"},
	"plugins/dte01":   {"plugins/sdk", "rules/abi"},
	"plugins/dte03":   {"plugins/sdk", "rules/abi"},
	"plugins/dte05":   {"plugins/sdk"},
	"plugins/dte06":   {"plugins/sdk"},
	"plugins/dte07":   {"plugins/sdk", "rules/abi"},
	"plugins/dte14":   {"plugins/sdk", "rules/abi"},
	"plugins/retorno": {"plugins/sdk", "rules/abi"},
	"plugins/dte04":   {"plugins/sdk", "rules/abi"},
	"plugins/dte08":   {"plugins/sdk", "rules/abi"},
	"plugins/dte09":   {"plugins/sdk", "rules/abi"},
	"plugins/dte11":   {"plugins/sdk", "rules/abi"},
	"plugins/dte15":   {"plugins/sdk", "rules/abi"},
	"plugins":         {"rules/bundle"},

	"cmd/dted/config": {"engine/books", "engine/redacted", "engine/fleet/fleetproto", "gateway/certificate",
		"engine/archive", "engine/authority/connpool", "engine/sign", "engine/recordmac", "rules/bundle", "storage",
		"plugins", "rules/suggest", "engine/record", "engine/outbox", "engine/rulestore", "engine/dte",
		"engine/mail", "engine/pdf"},
	"cmd/dted/health": {"engine/fairqueue", "gateway/page", "gateway/problem", "engine/authority/connpool",
		"cmd/dted/config", "cmd/dted/health/clock",
		"engine/record", "engine/fleet/fleetproto", "engine/fleet", "engine/dte", "storage",
		"engine/refusal"},
	"cmd/dted/health/clock": {"engine/fairqueue", "engine/refusal"},
	"cmd/dted/access": {"gateway/certificate", "engine/fleet/fleetproto", "gateway/adminapi", "gateway",
		"engine/record",
		"engine/audit", "cmd/dted/config"},
	"cmd/term":    {},
	"cmd/version": {},
	"cmd/dted": {"engine/archive", "engine/fairqueue", "engine/outbox", "cmd/dted/health", "cmd/dted/access",
		"engine/documents", "engine/contingency", "engine/fleet/ship", "engine/rulestore",
		"rules/bundle", "engine/fleet", "engine/fleet/fleetproto", "engine/refusal", "cmd/term", "cmd/version",
		"cmd/dted/config", "gateway", "gateway/adminapi", "gateway/reply", "gateway/page", "engine",
		"engine/record", "engine/audit", "engine/dte", "engine/sign", "engine/authority",
		"engine/authority/connpool", "engine/recordmac", "engine/redacted", "rules", "storage"},
	"cmd/dtectl/certify": {"engine/fairqueue",
		"plugins", "rules/bundle", "engine/dte", "cmd/dtectl/adminclient", "engine/documents"},
	"cmd/dtectl/workshop": {"engine/rulestore", "engine/dte", "plugins", "rules",
		"rules/bundle", "engine/record", "cmd/dted/config"},
	"rules/abi/example/tinygo": {},
	"cmd/dtectl/adminclient": {"cmd/dted/config", "cmd/term", "engine/dte", "engine/fleet/fleetproto",
		"gateway/adminapi", "gateway/certificate", "storage", "engine/documents", "engine/contingency"},
	"cmd/dtectl/disk": {"cmd/dtectl/adminclient", "cmd/dted/config", "cmd/term", "engine", "engine/archive",
		"engine/audit", "engine/authority", "engine/dte", "engine/fleet/ship", "engine/outbox", "engine/redacted", "engine/rulestore",
		"engine/recordmac", "gateway/adminapi", "storage"},
	"cmd/dtectl/doctor": {"engine/archive", "cmd/dtectl/disk", "cmd/dtectl/adminclient", "cmd/dtectl/setup", "cmd/dted/config",
		"cmd/term", "engine/authority/connpool", "engine/dte", "engine/fleet", "engine/fleet/fleetproto",
		"engine/rulestore", "engine/sign", "gateway/certificate", "rules/bundle", "storage",
		"cmd/dted/health", "cmd/dted/health/clock"},
	"cmd/dtectl/setup": {"cmd/dtectl/adminclient", "cmd/dted/config", "cmd/term", "engine/authority",
		"engine/dte", "engine/fleet/ship", "engine/sign", "gateway/certificate", "storage"},
	"cmd/dtectl/bundles": {"gateway/form", "engine/dte", "rules/bundle", "rules/abi",
		"engine/rulestore", "cmd/term", "cmd/dted/config", "cmd/dtectl/workshop", "cmd/dtectl/adminclient",
		"engine/record", "gateway/adminapi"},
	"cmd/dtectl/demo": {"engine/fairqueue", "engine/sign", "engine/dte", "cmd/dtectl/workshop", "cmd/dtectl/setup",
		"rules/bundle", "plugins", "cmd/term", "cmd/dted/config",
		"cmd/dtectl/fleet"},
	"cmd/dtectl": {"engine/fairqueue",
		"cmd/dtectl/demo", "cmd/dtectl/bundles", "engine/contingency", "cmd/dtectl/certify",
		"cmd/dtectl/fleet", "cmd/term", "cmd/version", "cmd/dted/config", "engine/books", "engine/documents",
		"engine/pdf", "engine/dte", "engine/sign", "storage", "cmd/dtectl/adminclient", "cmd/dtectl/disk",
		"cmd/dtectl/doctor",
		"cmd/dtectl/setup", "engine/record", "plugins", "engine", "engine/outbox",
		"gateway/adminapi"},
	"cmd/dtesim": {"cmd/dtesim/simulator", "rules/bundle"},
}

// libraries lists which packages may import which third-party module. Prometheus may be imported everywhere.
var libraries = map[string]string{
	"github.com/cockroachdb/pebble/v2":         "storage",
	"github.com/tetratelabs/wazero":            "rules",
	"github.com/go-jose/go-jose/v4":            "engine/sign rules/signed",
	"github.com/go-json-experiment/json":       "engine/dte",
	"github.com/santhosh-tekuri/jsonschema/v6": "cmd/dtesim/simulator/document",
	"github.com/valyala/fasthttp":              "gateway gateway/reply gateway/adminapi",
	"maragu.dev/gomponents":                    "gateway/page",
	"github.com/fasthttp/router":               "gateway/reply",
	"github.com/pelletier/go-toml/v2":          "cmd/dted/config",
	"github.com/alecthomas/kong":               "cmd/dtectl",
	"github.com/go-pdf/fpdf":                   "engine/pdf/sheet",
	"rsc.io/qr":                                "engine/pdf",
	"github.com/shopspring/decimal":            "engine/books",
	"github.com/go-fonts/liberation":           "engine/pdf/sheet",
	"github.com/wneessen/go-mail":              "engine/mail",
	"github.com/minio/minio-go/v7":             "engine/archive",
	"github.com/emersion/go-smtp":              "cmd/dtesim",
	"golang.org/x/sync": "cmd/dted cmd/dtectl/demo cmd/dtectl/fleet engine/contingency " +
		"engine/authority engine/outbox",
}

// several names the packages that import more than one library, and why. Every other package wraps at most one.
var several = map[string]string{
	"engine/pdf/sheet": "fonts are data: the ones that fpdf embeds",
	"gateway/reply":    "fasthttp's router serves fasthttp alone",
}

// clocks names the files outside of cmd that call time.Now, and why the clock of their options does not suffice. In all
// others time is a field.
var clocks = map[string]string{
	"engine/rulestore/backtest.go":       took,
	"engine/authority/client.go":         "the age of an answer, by the clock that the kernel's connections have",
	"engine/authority/connpool/dial.go":  "deadlines of connections are the kernel's",
	"engine/authority/connpool/names.go": "ages of looked-up names, beside deadlines of connections",
	"engine/authority/connpool/pool.go":  "ages of connections, whose deadlines are the kernel's",
	"gateway/door/listener.go":           "deadlines of connections are the kernel's",
	"gateway/gateway.go":                 took,
	"gateway/adminapi/rules.go":          "deadlines of connections are the kernel's",
	"rules/cache.go":                     "the time of a file, beside those that the file system sets",
	"rules/admission.go":                 took,
	"rules/module.go":                    took,
	"rules/fuel.go":                      "compared with the processor's time of the thread",
	"storage/commit.go":                  "how long the medium rested",
	"storage/tables.go":                  "how long the medium has failed",
}

const took = "how long a piece of work took"

// A product is a package of this module without its tests.
type product struct {
	files   map[string]*ast.File // by path from the root
	imports []string
}

// sources reads the tree itself: the output of "go list" is not an input that the test cache knows. Files of every
// platform count.
func sources(t *testing.T) map[string]*product {
	t.Helper()
	root, packages := plugintest.Root(t), make(map[string]*product)
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "var" || name == "bin" ||
				strings.HasSuffix(name, "test")) {
				return fs.SkipDir // helpers of tests may import anything
			}
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil && file != root {
				return fs.SkipDir // a module of its own
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		relative, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), relative, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		p := packages[path.Dir(relative)]
		if p == nil {
			p = &product{files: make(map[string]*ast.File)}
			packages[path.Dir(relative)] = p
		}
		p.files[relative] = parsed
		for _, i := range parsed.Imports {
			imported, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return fmt.Errorf("%s: %w", relative, err)
			}
			if !slices.Contains(p.imports, imported) {
				p.imports = append(p.imports, imported)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 40 {
		t.Fatalf("only %d packages are found", len(packages))
	}
	return packages
}

func TestLayers(t *testing.T) {
	packages := sources(t)
	t.Run("imports", func(t *testing.T) {
		for name, p := range packages {
			may, known := layers[name]
			if !known {
				t.Errorf("package %s is not in the import table", name)
			}
			for _, imported := range p.imports {
				if own, ok := strings.CutPrefix(imported, "dtegate/"); ok && !slices.Contains(may, own) {
					t.Errorf("%s imports %s: no such arrow", name, own)
				}
			}
			for _, own := range may {
				if !slices.Contains(p.imports, "dtegate/"+own) {
					t.Errorf("%s does not import %s: an arrow too many", name, own)
				}
			}
		}
		for name := range layers {
			if packages[name] == nil {
				t.Errorf("the import table has a package %s, and there is none", name)
			}
		}
	})
	t.Run("libraries", func(t *testing.T) { checkLibraries(t, packages) })
	t.Run("clock", func(t *testing.T) { checkClocks(t, packages) })
	t.Run("main", func(t *testing.T) { checkMains(t, packages) })
}

// checkLibraries: each package imports at most one library, and only an allowed one.
func checkLibraries(t *testing.T, packages map[string]*product) {
	used := make(map[string]bool)
	for name, p := range packages {
		var modules []string
		for _, imported := range p.imports {
			if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") || strings.HasPrefix(imported,
				"github.com/prometheus/") {
				continue // the standard library, this module, or metrics
			}
			module := moduleOf(imported)
			if !slices.Contains(strings.Fields(libraries[module]), name) {
				t.Errorf("%s imports %s: not a library of this package", name, imported)
			}
			if used[module+" "+name] = true; !slices.Contains(modules, module) {
				modules = append(modules, module)
			}
		}
		if _, argued := several[name]; argued != (len(modules) > 1) {
			t.Errorf("%s imports %d libraries, %v; argued: %t", name, len(modules), modules, argued)
		}
	}
	for module, owners := range libraries {
		for _, name := range strings.Fields(owners) {
			if !used[module+" "+name] {
				t.Errorf("%s does not import %s, which is said to be its library", name, module)
			}
		}
	}
}

// moduleOf returns the longest module of the table that contains a package.
func moduleOf(imported string) (module string) {
	for m := range libraries {
		if (imported == m || strings.HasPrefix(imported, m+"/")) && len(m) > len(module) {
			module = m
		}
	}
	return module
}

// checkClocks: time is a field, and only cmd fills it in. Main programs and the listed files may call time.Now.
func checkClocks(t *testing.T, packages map[string]*product) {
	calls := make(map[string]bool)
	for name, p := range packages {
		if name == "cmd" || strings.HasPrefix(name, "cmd/") {
			continue
		}
		for file, parsed := range p.files {
			ast.Inspect(parsed, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Now" {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
						calls[file] = true
					}
				}
				return true
			})
		}
	}
	for _, file := range slices.Sorted(maps.Keys(calls)) {
		if clocks[file] == "" {
			t.Errorf("%s calls time.Now: take the clock as a field, or give the reason in the table", file)
		}
	}
	for file := range clocks {
		if !calls[file] {
			t.Errorf("%s does not call time.Now, and the table gives a reason for it", file)
		}
	}
}

// checkMains: only main ends the process, therefore it is as short as possible.
func checkMains(t *testing.T, packages map[string]*product) {
	const longest = 15 // statements
	found := 0
	for _, p := range packages {
		for file, parsed := range p.files {
			for _, d := range parsed.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Recv != nil || f.Name.Name != "main" || parsed.Name.Name != "main" {
					continue
				}
				statements := 0
				ast.Inspect(f.Body, func(n ast.Node) bool {
					if _, ok := n.(ast.Stmt); ok {
						statements++
					}
					return true
				})
				if found++; statements > longest {
					t.Errorf("%s: main has %d statements, more than %d", file, statements, longest)
				}
			}
		}
	}
	if found < 3 {
		t.Errorf("%d main functions are found", found)
	}
}

// numbers lists, by file, texts that look like a document type's number and mean something else, and the few types that
// Go does name, with the reason.
var numbers = map[string]string{
	"cmd/dtectl/demo/chain.go":          "dte01: the rule that the demonstration publishes",
	"cmd/dtectl/demo/demo.go":           "dte01 dte03: the sales that the demonstration shows",
	"cmd/dtectl/workshop/newtype.go":    "01: cash",
	"engine/authority/contingency.go":   "01: MH is asked for a document that does not exist, and wants some type",
	"engine/dte/schema/message.go":      "01 03 04 07: terms, identity documents, establishments",
	"engine/record/parties.go":          "01 04 07: establishments",
	"engine/fleet/fleetproto/status.go": "01: an ambiente",
	"engine/rulestore/rulebook.go":      "01: cash",
	"gateway/form/form.go":              "01 03 04 05: payments",
	"gateway/page/status.go":            "15: seconds",
}

var (
	typeNumber = regexp.MustCompile(`^"(01|03|04|05|06|07|08|09|11|14|15)"$`)
	typeFolder = regexp.MustCompile(`\bdte(01|03|04|05|06|07|08|09|11|14|15)\b`)
)

// TestTypeNumbers: document types are data of the bundles. No Go code of the product names a type by its number, except
// the sources of the bundles, the simulator, which is another reading of the law, and the writers of the annexes,
// because the manual sorts by type.
func TestTypeNumbers(t *testing.T) {
	found := make(map[string]bool)
	for name, p := range sources(t) {
		if strings.HasPrefix(name, "plugins") || strings.HasPrefix(name, "cmd/dtesim") ||
			strings.HasPrefix(name, "engine/books") || strings.HasPrefix(name, "deploy/bench") {
			continue
		}
		for file, parsed := range p.files {
			ast.PreorderStack(parsed, nil, func(n ast.Node, above []ast.Node) bool {
				l, ok := n.(*ast.BasicLit)
				if !ok || l.Kind != token.STRING {
					return true
				}
				for _, text := range append(typeFolder.FindAllString(l.Value, -1), typeNumber.FindString(l.Value)) {
					text = strings.Trim(text, `"`)
					if text == "" || besideAmbiente(l, above) {
						continue
					}
					if !strings.Contains(numbers[file], text) {
						t.Errorf("%s names the type %s", file, text)
					}
					found[file] = true
				}
				return true
			})
		}
	}
	for file := range numbers {
		if !found[file] {
			t.Errorf("%s has no such number any more: it leaves the list", file)
		}
	}
}

// besideAmbiente reports whether a literal is compared with an ambiente (00 or 01), is an ambiente's value or index, or
// is the first day of a month after a date.
func besideAmbiente(l *ast.BasicLit, above []ast.Node) bool {
	named := func(e ast.Expr) bool {
		var name string
		switch e := e.(type) {
		case *ast.SelectorExpr:
			name = e.Sel.Name
		case *ast.Ident:
			name = e.Name
		}
		return slices.Contains([]string{"ambiente", "validity"}, strings.ToLower(name))
	}
	switch up := above[len(above)-1].(type) {
	case *ast.BinaryExpr:
		other := up.X
		if other == l {
			other = up.Y
		}
		return named(other) || up.Op == token.ADD
	case *ast.IndexExpr:
		return named(up.X)
	case *ast.AssignStmt:
		return named(up.Lhs[0])
	}
	return false
}
