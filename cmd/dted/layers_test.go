package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dtegate/plugins/plugintest"
)

// layers is the import table: what each package of this module may import of it. An arrow that is not here does not
// exist; a package that is not here must be added with its arrows.
var layers = map[string][]string{
	"rules/abi":    {},
	"rules/bundle": {},
	"rules/fuel":   {},
	"rules":        {"rules/abi", "rules/bundle", "rules/fuel"},
	"storage":      {},

	"engine/vouch":               {},
	"engine/audit":               {"engine/record", "engine/vouch", "storage"},
	"engine/dte":                 {},
	"engine/sign":                {},
	"engine/authority":           {"engine/authority/link"},
	"engine/authority/link":      {},
	"engine/authority/simulator": {},
	"engine/pdf":                 {"engine/dte"},
	"engine/mail":                {},
	"engine/archive":             {},
	"engine/ledger":              {"engine/dte", "storage"},
	"engine/fair":                {},
	"engine/record":              {"engine/authority", "engine/dte", "storage"},
	"engine/books":               {},
	"engine/month":               {"engine/authority", "engine/dte", "engine/record", "storage"},
	"engine/refusal":             {"engine/dte"},
	"engine":                     {"engine/record", "engine/refusal", "engine/ledger", "engine/fair", "engine/dte", "engine/sign", "engine/authority", "engine/pdf", "engine/mail", "engine/archive", "engine/vouch", "rules", "rules/abi", "rules/bundle", "storage"},

	"gateway/codes":       {},
	"gateway":             {"gateway/codes", "engine", "engine/record", "engine/month", "engine/fair", "engine/audit", "engine/dte", "engine/authority"},
	"gateway/certificate": {},

	"plugins/sdk":     {"rules/abi"},
	"plugins/dte01":   {"plugins/sdk", "rules/abi"},
	"plugins/dte03":   {"plugins/sdk", "rules/abi"},
	"plugins/dte05":   {"plugins/sdk", "rules/abi"},
	"plugins/dte06":   {"plugins/sdk", "rules/abi"},
	"plugins/dte07":   {"plugins/sdk", "rules/abi"},
	"plugins/dte14":   {"plugins/sdk", "rules/abi"},
	"plugins/retorno": {"plugins/sdk", "rules/abi"},
	"plugins":         {"rules/bundle"},

	"cmd/dted/config": {"gateway/certificate", "engine/archive", "engine/authority/link", "engine/vouch", "rules/bundle", "storage"},
	"cmd/dted/start":  {"cmd/dted/config", "gateway/certificate", "engine", "engine/dte", "engine/mail", "engine/pdf", "engine/sign", "rules/bundle"},
	"cmd/screen":      {},
	"cmd/version":     {},
	"cmd/dted": {"cmd/screen", "cmd/version", "cmd/dted/config", "cmd/dted/start", "gateway", "gateway/certificate", "engine", "engine/record", "engine/month", "engine/audit", "engine/dte", "engine/sign", "engine/authority", "engine/authority/link", "engine/pdf", "engine/mail", "engine/archive", "engine/vouch",
		"rules", "rules/bundle", "storage"},
	"cmd/dtectl/certify": {"engine/dte"},
	"cmd/dtectl":         {"cmd/dtectl/certify", "cmd/screen", "cmd/version", "cmd/dted/config", "cmd/dted/start", "gateway/certificate", "engine", "engine/audit", "engine/archive", "engine/books", "engine/month", "engine/pdf", "engine/authority", "engine/authority/link", "engine/dte", "engine/sign", "engine/vouch", "rules", "rules/abi", "rules/bundle", "storage", "plugins"},
	"cmd/dtesim":         {"engine/authority/simulator"},

	"deploy": {},
}

// libraries is who may import which third-party module: one a package. Prometheus may be imported everywhere.
var libraries = map[string]string{
	"github.com/cockroachdb/pebble/v2":         "storage",
	"github.com/tetratelabs/wazero":            "rules",
	"github.com/go-jose/go-jose/v4":            "engine/sign rules/bundle",
	"github.com/go-json-experiment/json":       "engine/dte",
	"github.com/santhosh-tekuri/jsonschema/v6": "engine/authority/simulator",
	"github.com/valyala/fasthttp":              "gateway",
	"maragu.dev/gomponents":                    "gateway",
	"github.com/fasthttp/router":               "gateway",
	"github.com/pelletier/go-toml/v2":          "cmd/dted/config",
	"github.com/alecthomas/kong":               "cmd/dtectl",
	"github.com/go-pdf/fpdf":                   "engine/pdf",
	"github.com/shopspring/decimal":            "engine/books",
	"github.com/go-fonts/liberation":           "engine/pdf",
	"github.com/wneessen/go-mail":              "engine/mail",
	"github.com/minio/minio-go/v7":             "engine/archive",
	"github.com/emersion/go-smtp":              "cmd/dtesim",
	"golang.org/x/sync":                        "cmd/dted cmd/dtectl engine engine/authority",
}

func TestLayers(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "dtegate/...").Output()
	if err != nil {
		t.Fatalf("listing packages: %v", err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(p.ImportPath, "dtegate/")
		if strings.HasSuffix(name, "test") || strings.Contains(name, "testdata") {
			continue // helpers of tests may reach anywhere
		}
		may, known := layers[name]
		if !known {
			t.Errorf("package %s is not in the import table", name)
		}
		for _, imported := range p.Imports {
			if own, ok := strings.CutPrefix(imported, "dtegate/"); ok {
				if !slices.Contains(may, own) {
					t.Errorf("%s imports %s: no such arrow", name, own)
				}
				continue
			}
			checkLibrary(t, name, imported)
		}
	}
}

func checkLibrary(t *testing.T, name, imported string) {
	t.Helper()
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") || strings.HasPrefix(imported, "github.com/prometheus/") {
		return // the standard library, or metrics
	}
	for module, owners := range libraries {
		if (imported == module || strings.HasPrefix(imported, module+"/")) && slices.Contains(strings.Fields(owners), name) {
			return
		}
	}
	t.Errorf("%s imports %s: not a library of this package", name, imported)
}

// The tests that ARCHITECTURE.md names as proofs are there.
func TestProofs(t *testing.T) {
	root := plugintest.Root(t)
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	var sources []byte
	for _, pattern := range []string{"*/*_test.go", "*/*/*_test.go", "*/*/*/*_test.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, source...)
		}
	}
	for _, section := range []string{"## Media", "## After a failed sync"} { // each row of these tables names its proof
		_, table, found := strings.Cut(string(text), "\n"+section+"\n")
		table, _, _ = strings.Cut(table, "\n## ")
		rows := 0
		for line := range strings.Lines(table) {
			if !strings.HasPrefix(line, "| ") {
				continue
			}
			if rows++; rows > 1 && !strings.Contains(line, "`Test") {
				t.Errorf("%s: a row without a test: %s", section, line)
			}
		}
		if !found || rows < 6 {
			t.Errorf("%s: %d rows", section, rows)
		}
	}
	named := regexp.MustCompile("`(Test[A-Z]\\w+)`").FindAllSubmatch(text, -1)
	if len(named) < 20 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, name := range named {
		if !bytes.Contains(sources, slices.Concat([]byte("\nfunc "), name[1], []byte("(t *testing.T)"))) {
			t.Errorf("ARCHITECTURE.md names %s, and there is no such test", name[1])
		}
	}
}
