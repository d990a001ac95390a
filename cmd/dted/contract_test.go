package main

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	records "dtegate/engine/record"
	"dtegate/gateway"
	"dtegate/gateway/apitest"
	"dtegate/gateway/tilltest"
	"dtegate/plugins/plugintest"
)

// contractText is the contract of a branch that issues today's types.
var contractText = func() []byte {
	err := records.Learn(tilltest.TypesIssued()...)
	text, made := gateway.OpenAPI(tilltest.TypesIssued(), "en")
	if err := errors.Join(err, made); err != nil {
		panic(err)
	}
	return text
}()

// contract is compared with the requests and answers of all tests of this package.
var contract = func() *apitest.Contract {
	c, err := apitest.Parse(contractText)
	if err != nil {
		panic(err)
	}
	return c
}()

// client keeps its connections, as a till does.
var client = &http.Client{Timeout: time.Minute, Transport: contract.Transport(watched{connections})}

var connections = &http.Transport{MaxIdleConnsPerHost: 64}

// TestMain fails the run if an exchange broke the contract or a secret got out; in a complete run every operation must
// have succeeded.
func TestMain(m *testing.M) {
	if os.Getenv("DTED_BARE_SIGNER") != "" {
		bareSigner()
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		// most of their time is waiting, for other processes or for a limit
		_ = f.Value.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0)))
	}
	http.DefaultTransport = watched{http.DefaultTransport}
	if *budgets {
		client.Transport = connections // what is measured is the appliance
	}
	code := m.Run()
	for _, fault := range contract.Faults() {
		fmt.Println("the contract is broken:", fault)
		code = 1
	}
	for _, leak := range leaks.found {
		fmt.Println("a secret came out:", leak)
		code = 1
	}
	if whole() && code == 0 {
		for _, unseen := range contract.Unseen(true) {
			fmt.Println("no test of this package has seen:", unseen)
			code = 1
		}
	}
	_ = os.RemoveAll(programs)
	os.Exit(code)
}

// whole reports whether every test ran.
func whole() bool {
	return flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" &&
		flag.Lookup("test.list").Value.String() == "" &&
		!testing.Short()
}

// TestContract requests what no other test does: the contract itself, its page, and a page of documents.
func TestContract(t *testing.T) {
	b := newBranch(t, everyRule...)
	b.start()
	defer b.stop()
	for _, path := range []string{"/openapi.json", "/docs", "/dte/documentos?limite=1", "/dte/cambios", "/dte/cierre",
		"/dte/cierre?format=view", "/dte/catalogos", "/dte/catalogos/CAT-014"} {
		if status, body, err := b.get(path, 1); err != nil || status != http.StatusOK {
			t.Errorf("%s: %d %v %.200s", path, status, err, body)
		}
	}
	originals := make(map[string]string)
	for path, sale := range map[string]string{"dte01": sale01, "dte03": sale03} {
		status, answer, err := b.post("/dte/"+path, 1, "", sale)
		if err != nil || status != http.StatusCreated {
			t.Fatalf("%s: %d %v %s", path, status, err, answer)
		}
		originals[path] = decode(t, answer).Code
	}
	for path, of := range map[string]string{"dte01": "", "dte03": "", "dte05": "dte03", "dte06": "dte03",
		"dte07": "dte03", "dte14": "", "retorno": "dte01"} {
		example, err := os.ReadFile(filepath.Join(plugintest.Root(t), "deploy", "examples", path+".json"))
		if err != nil {
			t.Fatal(err)
		}
		status, answer, err := b.postPreferring("/dte/"+path, 1, "", strings.ReplaceAll(string(example), "ORIGINAL",
			originals[of]), "validate")
		if err != nil || status != http.StatusOK {
			t.Errorf("validating %s: %d %v %s", path, status, err, answer)
		}
	}
	for _, want := range []int{http.StatusCreated, http.StatusOK} { // made once, kept then
		if status, answer, err := b.post("/dte/cierre", 1, "", ""); err != nil || status != want {
			t.Errorf("closing the day: %d %v %s", status, err, answer)
		}
	}
	if got := b.sim.Received(); got.Documents != len(originals) {
		t.Errorf("MH received %+v", got)
	}
}
