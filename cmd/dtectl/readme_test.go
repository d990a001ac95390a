package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/cmdtest/browsertest"
	"dtegate/cmd/cmdtest/skip"
	"dtegate/cmd/dtectl/demo"
	"dtegate/engine/record"
	"dtegate/plugins"
	"dtegate/plugins/plugintest"
)

// walk names the documents whose commands continue each other, in one shell.
var walk = []string{"README.md", "deploy/TILLS.md", "engine/books/README.md", "cmd/dtectl/certify/README.md"}

// TestREADME runs the commands of the README and of the documents that continue it, in their order, in one shell,
// against a demonstration that runs as make run starts it. It compares their output with what the documents show, and
// monitoring's queries with what is then scraped.
func TestREADME(t *testing.T) {
	skip.Program(t, "curl")
	root := plugintest.Root(t)
	script, want := documentScript(t, root, walk...)
	script += "sell dte01 sale-1 \"${coffee/6.95/7}\" >/dev/null\n" // refused, and counted
	script += "curl -sS \"http://127.0.0.1:8080/dte/documentos?desde=$(TZ=UTC+6 date +%Y-%m)-01&limite=1\" -H " +
		"\"$token\" >var/demo/list.json\n"
	script += "books --month \"$(TZ=UTC+6 date +%Y-%m)\" --out var/demo/books.all >/dev/null\n"
	shown, replace := startDemo(t, root)
	cmd := exec.Command("bash", "-c", replace.Replace(script))
	cmd.Dir = root
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil || out.String() != want {
		t.Errorf("%v\ngot:\n%s%s\nwant:\n%s\nthe demonstration said:\n%s", err, out.String(), problems.String(), want,
			shown.String())
	}

	keepPicture(t, replace.Replace("http://127.0.0.1:8081/"), "status")
	if dir := os.Getenv("DTE_SCREENSHOTS"); dir != "" {
		render := exec.Command("pdftoppm", "-png", "-r", "110", "-singlefile", replace.Replace("var/demo/ticket.pdf"),
			filepath.Join(dir, "ticket"))
		if out, err := render.CombinedOutput(); err != nil {
			t.Errorf("%v %s", err, out)
		}
	}
	compareBooks(t, replace.Replace("var/demo/list.json"), replace.Replace("var/demo/books.all/resumen.json"))

	// By now everything that an alert or a panel asks for was counted.
	scrape := exec.Command("go", "test", "-vet=off", "-count=1", "-run", "^TestScrape$", "./deploy")
	scrape.Dir, scrape.Env = root, append(os.Environ(), "DTE_SCRAPE=http://"+replace.Replace("127.0.0.1:8081")+
		"/metrics")
	if out, err := scrape.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// documentScript returns the commands that documents show, and the output that they show.
func documentScript(t *testing.T, root string, documents ...string) (script, want string) {
	t.Helper()
	script = "set -u\n"
	for _, document := range documents {
		text, err := os.ReadFile(filepath.Join(root, document))
		if err != nil {
			t.Fatal(err)
		}
		pairs := regexp.MustCompile("(?s)```sh\n(.*?)```\n\n```\n(.*?)```").FindAllSubmatch(text, -1)
		if len(pairs) == 0 {
			t.Errorf("%s has no command with an answer", document)
		}
		for i, p := range pairs {
			script += fmt.Sprintf("%secho '--- %s %d'\n", p[1], document, i)
			want += fmt.Sprintf("%s--- %s %d\n", p[2], document, i)
		}
	}
	return script, want
}

// keepPicture keeps a page as a picture in $DTE_SCREENSHOTS, if that is set: make screenshots.
func keepPicture(t *testing.T, url, name string) {
	t.Helper()
	if os.Getenv("DTE_SCREENSHOTS") == "" {
		return
	}
	b := browsertest.New(t)
	b.Open(url, 1000, "light")
	var cut int
	b.Evaluate(`document.documentElement.style.cssText = "height: 900px; overflow: hidden"; 0`, &cut)
	b.Keep(name, 1000)
}

// compareBooks compares a list's totals of the month's documents with the totals of the books, by type and state.
func compareBooks(t *testing.T, list, summary string) {
	if err := record.Learn(plugins.Types()...); err != nil {
		t.Fatal(err)
	}
	t.Helper()
	var listed struct {
		Data struct {
			Totals []struct {
				Tipo, Estado, Total string
				Documents           int `json:"documentos"`
			} `json:"totales"`
		}
	}
	var booked struct {
		Documents []struct {
			Tipo, Estado, Total string
			Count               int `json:"cantidad"`
		} `json:"documentos"`
	}
	for file, into := range map[string]any{list: &listed, summary: &booked} {
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	sums := make(map[string]string)
	for _, l := range listed.Data.Totals {
		sums[l.Tipo+" "+l.Estado] = fmt.Sprintf("%d %s", l.Documents, l.Total)
	}
	for _, b := range booked.Documents {
		if key := record.TypeOf(b.Tipo).Name + " " + b.Estado; sums[key] != fmt.Sprintf("%d %s", b.Count, b.Total) {
			t.Errorf("%s: the books have %d %s, the list %s", key, b.Count, b.Total, sums[key])
		}
	}
	if len(sums) != len(booked.Documents) || len(sums) < 8 {
		t.Errorf("the books have %d types and states, the list %d", len(booked.Documents), len(sums))
	}
}

// startDemo builds the three programs and runs the demonstration on free ports; the replacer replaces the README's
// addresses and folders by the real ones.
func startDemo(t *testing.T, root string) (*bytes.Buffer, *strings.Replacer) {
	t.Helper()
	log, replace, stop := runDemo(t, buildPrograms(t, root), filepath.Join(t.TempDir(), "demo"), root)
	t.Cleanup(stop)
	return log, replace
}

// buildPrograms puts the three programs into a folder of their own.
func buildPrograms(t *testing.T, root string) (bin string) {
	t.Helper()
	bin = t.TempDir()
	if err := cmdtest.Programs(root, bin, "dted", "dtectl", "dtesim"); err != nil {
		t.Fatal(err)
	}
	return bin
}

// runDemo runs the demonstration of one folder in another folder, until stop.
func runDemo(t *testing.T, bin, dir, in string, flags ...string) (log *bytes.Buffer, replace *strings.Replacer,
	stop func()) {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, "dtectl"), append([]string{"demo", "--dir", dir}, flags...)...)
	cmd.Dir = in
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	pairs := []string{"var/demo", dir, "bin/dtectl", filepath.Join(bin, "dtectl")}
	var ops string
	cmd.Env = os.Environ()
	for i, name := range []string{"DTED_API_ADDR", "DTED_OPS_ADDR", "DTESIM_ADDR", "DTESIM_MANAGE_ADDR",
		"DTESIM_SMTP_ADDR"} {
		address := cmdtest.Port(t)
		cmd.Env = append(cmd.Env, name+"="+address)
		pairs = append(pairs, fmt.Sprintf("127.0.0.1:808%d", i), address)
		if name == "DTED_OPS_ADDR" {
			ops = address
		}
	}
	log = new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("ending the demonstration: %v", err)
		}
		for _, name := range []string{"dted.pid", "dtesim.pid"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				t.Errorf("%s is left behind", name)
			}
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := demo.Await(ctx, "http://"+ops+"/readyz"); err != nil {
		stop()
		t.Fatalf("the demonstration does not start: %v\n%s", err, log)
	}
	return log, strings.NewReplacer(pairs...), stop
}
