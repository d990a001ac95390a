package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/plugins/plugintest"
)

var generated = flag.Bool("generated", false, "sell with clients that generators make of the contract; installs the "+
	"generators from the network")

// unreachable are the error texts of a registry that does not answer. A wrong checksum or a missing version is a
// failure.
var unreachable = regexp.MustCompile(
	`dial tcp|no such host|i/o timeout|connection re(fused|set)|network is unreachable|TLS handshake|disabled by GOPROXY=off|` +
		`E(NOTFOUND|AI_AGAIN|CONNREFUSED|CONNRESET|TIMEDOUT|NETUNREACH|HOSTUNREACH)|ERR_SOCKET_TIMEOUT`)

// generators makes clients in the folder var/clients, without anything from an earlier run.
type generators struct {
	branch *branch
	dir    string
	npm    func() ([]byte, error) // installs what the lock file names, once
}

// TestGeneratedClients generates a Go, a TypeScript and a Python client from the contract, and sells with each: an
// amount comes back exact to the cent, a repeated key gives the same document, and the faults of a refusal are typed.
// The programs that use the clients are in testdata/generated, with the pinned versions of all their dependencies.
func TestGeneratedClients(t *testing.T) {
	skip.Unless(t, *generated, "make clients")
	b := newBranch(t, everyRule...)
	b.start()
	defer b.stop()
	g := &generators{branch: b, dir: filepath.Join(plugintest.Root(t), "var", "clients")}
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	must(os.RemoveAll(g.dir))
	must(os.CopyFS(g.dir, os.DirFS("testdata/generated")))
	must(os.WriteFile(filepath.Join(g.dir, "openapi.json"), contractText, 0o644))
	must(os.WriteFile(filepath.Join(g.dir, "python", "schema.json"), schemaOf(t, contractText), 0o644))
	must(os.Mkdir(filepath.Join(g.dir, "go", "dte"), 0o755))
	g.npm = sync.OnceValues(func() ([]byte, error) {
		return g.command("", "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	})
	t.Run("Go", func(t *testing.T) {
		g.install(t, func() ([]byte, error) { return g.command("go", "go", "mod", "download") })
		g.run(t, "go", "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "dte", "-o", "dte/dte.go",
			"../openapi.json")
		g.sells(t, "go", "go", "run", ".")
	})
	t.Run("TypeScript", func(t *testing.T) {
		g.needs(t, "node", "npm")
		g.install(t, g.npm)
		g.run(t, "typescript", "../node_modules/.bin/openapi-typescript", "../openapi.json", "-o", "dte.ts")
		g.run(t, "typescript", "../node_modules/.bin/tsc")
		g.sells(t, "typescript", "node", "sell.js")
	})
	t.Run("Python", func(t *testing.T) {
		g.needs(t, "node", "npm", "python3")
		g.install(t, g.npm)
		g.run(t, "python", "../node_modules/.bin/quicktype", "--src-lang", "schema", "--lang", "python",
			"--python-version", "3.7", "-o", "dte.py", "schema.json#/definitions/")
		g.sells(t, "python", "python3", "sell.py")
	})
}

// schemaOf returns the contract's schemas in the form that quicktype reads: below definitions, and without dates,
// because quicktype's code for dates needs a package that Python does not include.
func schemaOf(t *testing.T, contract []byte) []byte {
	t.Helper()
	var doc struct {
		Components struct {
			Schemas json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(contract, &doc); err != nil {
		t.Fatal(err)
	}
	schemas := bytes.ReplaceAll(doc.Components.Schemas, []byte("#/components/schemas/"), []byte("#/definitions/"))
	schemas = regexp.MustCompile(`,\s*"format": "date(-time)?"`).ReplaceAll(schemas, nil)
	return fmt.Appendf(nil, `{"definitions": %s}`, schemas)
}

// command runs a program in a folder of var/clients, and returns its output; after a failure also its error output.
func (g *generators) command(folder, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = filepath.Join(g.dir, folder)
	if filepath.Base(name) != name {
		cmd.Path = filepath.Join(cmd.Dir, name)
	}
	cmd.Env = append(os.Environ(), "DTE_URL=http://"+g.branch.api, "DTE_TOKEN="+testToken+"1",
		"PYTHONDONTWRITEBYTECODE=1", "npm_config_fetch_retries=1")
	var trouble bytes.Buffer
	cmd.Stderr = &trouble
	printed, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, printed, trouble.Bytes())
	}
	return printed, nil
}

func (g *generators) run(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	printed, err := g.command(folder, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return string(printed)
}

// needs skips where a language is not on the machine.
func (g *generators) needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		skip.Program(t, p)
	}
}

// install skips where a registry cannot be reached.
func (g *generators) install(t *testing.T, by func() ([]byte, error)) {
	t.Helper()
	if _, err := by(); err != nil {
		if words := unreachable.FindString(err.Error()); words != "" {
			skip.Test(t, "network", words)
		}
		t.Fatal(err)
	}
}

// sells runs a client's program, which prints what it read through its types, and compares that with the appliance's
// record.
func (g *generators) sells(t *testing.T, folder, name string, args ...string) {
	t.Helper()
	before := g.branch.sim.Received().Documents
	printed := g.run(t, folder, name, args...)
	t.Logf("\n%s", printed)
	code := regexp.MustCompile(`^sold: (\S+)`).FindStringSubmatch(printed)
	if code == nil {
		t.Fatal("nothing was sold")
	}
	// Code, state, total, is sealed, has no error, price of the first line, what is paid, type.
	record := code[1] + " PROCESSED 1234567.89 true true 1234567.89 1234567.89 01\n"
	want := "sold: " + record + "again: " + record + "read: " + record +
		"refused: true\nfault: items[0].cantidad RANGE\nfault: items[1].precioUnitario PRECISION\n"
	if printed != want {
		t.Errorf("printed\n%swant\n%s", printed, want)
	}
	req, err := http.NewRequest(http.MethodGet, "http://"+g.branch.api+"/dte/documento/"+code[1], nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-api-token", testToken+"1")
	if status, answer, err := do(client, req); err != nil || status != http.StatusOK ||
		!strings.Contains(string(answer), `"precioUni":1234567.89,`) || !strings.Contains(string(answer),
		`"totalPagar":1234567.89,`) {
		t.Errorf("the document: %d %v %s", status, err, answer)
	}
	if got := g.branch.sim.Received(); got.Documents != before+1 || got.Duplicates != 0 {
		t.Errorf("MH received %+v", got)
	}
}
