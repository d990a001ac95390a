package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/rules/bundletest"
)

// TestOperator_Invalidate: the documents of a rule's wrong version are listed, inspected and taken back by dtectl
// alone, while dtectl and the appliance are killed in between; one document is held by a return until the return is in
// the list too. Each is taken back once.
func TestOperator_Invalidate(t *testing.T) {
	t.Parallel()
	o := newBranch(t, "retorno/v1", "invalidacion/v3").operated()
	o.start()
	defer o.stop()
	right := o.sold(sale01)
	o.does("rules push --reason test " + o.file("wrong", bundletest.Edition(t, "dte01/v2", "2.1.7")))
	var wrong []record
	for range 5 {
		wrong = append(wrong, o.sold(sale01))
	}
	status, answer, err := o.post("/dte/retorno", 1, "", `{"documentoOrigen":"`+wrong[0].Code+
		`","items":[{"numItem":1,"cantidadRetorno":1}],"motivo":"El empaque venía abierto"}`)
	if err != nil || status != http.StatusCreated {
		t.Fatalf("%d %v %s", status, err, answer)
	}
	returned := decode(t, answer)
	o.does("rules rollback dte01 2 2.1.0 --reason test")

	list, report := filepath.Join(o.dir, "list"), filepath.Join(o.dir, "report")
	lines := o.does("rules documents 2.1.7 --json")
	o.write("list", []byte(regexp.MustCompile(`(?m)^[^{].*\n`).ReplaceAllString(lines, "")))
	command := func(more ...string) []string {
		return append([]string{"invalidate", "--from-list", list, "--kind", "2", "--reason", "Regla equivocada",
			"--responsible", "María López,13,012345678", "--every", "10ms"}, more...)
	}
	dry := o.run(true, command("--dry-run"), []string{"4 POSSIBLE\n", "1 HELD\n",
		"1 notes or returns on it are in force"})
	if strings.Contains(dry, right.Code) || o.sim.Received().Invalidations != 0 {
		t.Errorf("a dry run says\n%s", dry)
	}
	o.run(true, append(command("--dry-run"), "--kind", "1"), []string{"NEEDS_REPLACEMENT"})

	// The tool is killed after its first document, and so is the appliance, before MH's answer arrives.
	o.chaos(simulator.Chaos{DelayMS: 300})
	path, err := operator()
	if err != nil {
		t.Fatal(err)
	}
	tool := exec.Command(path, append([]string{"-c", filepath.Join(o.dir, "dted.toml")}, command()...)...)
	if err := tool.Start(); err != nil {
		t.Fatal(err)
	}
	soon(t, "MH takes the second", func() bool { return o.sim.Received().Invalidations >= 2 })
	o.kill()
	if err := tool.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = tool.Wait()
	o.chaos(simulator.Chaos{})
	o.start()

	o.run(false, command("--report", report), []string{"4 INVALIDATED\n", "1 HELD\n",
		"1 of 5 documents are not invalidated"})
	o.write("list", []byte(fmt.Sprintf("# one a line\n%s\n%s\n%s\n",
		lines[strings.Index(lines, "{"):strings.Index(lines, "\n")], returned.Code, strings.ToLower(returned.Code))))
	o.run(true, command("--report", report), []string{"2 INVALIDATED\n"})
	if got := o.sim.Received(); got.Invalidations != 6 {
		t.Errorf("MH has %+v", got)
	}
	o.run(true, command("--report", report), []string{"2 INVALIDATED\n", "Invalidación Recibida y Procesada"})
	for _, r := range append(wrong, returned) {
		if a, _ := o.sim.Document(r.Code); !a.Accepted || r.Code != returned.Code && !a.Invalidated {
			t.Errorf("MH has %s as %+v", r.Code, a)
		}
	}
	if a, _ := o.sim.Document(right.Code); a.Invalidated {
		t.Error("a document of the right version was taken back")
	}
	said, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.Lines(string(said)) {
		var line struct {
			Code    string `json:"codigoGeneracion"`
			Verdict string `json:"verdict"`
			Event   struct {
				Code     string `json:"code"`
				Response struct {
					Sello string `json:"selloRecibido"`
				} `json:"response"`
			} `json:"invalidacion"`
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil || line.Verdict != "INVALIDATED" ||
			len(line.Event.Response.Sello) != 40 {
			t.Errorf("%v: the report says %s", err, text)
		}
		if held, _ := o.sim.Document(line.Event.Code); !held.Accepted {
			t.Errorf("MH has no event %s of %s", line.Event.Code, line.Code)
		}
	}
	if said := o.does("audit"); !regexp.MustCompile(`(?m)^\d+ .* ` + regexp.QuoteMeta(o.who) +
		` .*document\.invalidate ` + wrong[1].Code + ` +done +Regla equivocada`).MatchString(said) {
		t.Errorf("the trail says\n%s", said)
	}
	o.write("list", []byte("x\n"))
	o.run(false, command(), []string{":1: \"x\" is not a codigoGeneracion"})
	began := time.Now()
	o.chaos(simulator.Chaos{Outage: true})
	other := o.sold(sale01)
	o.write("list", []byte(right.Code+"\n"+other.Code+"\n"))
	o.run(false, command("--patience", "1s"), []string{"NOT_ACCEPTED",
		"repeat the same command to continue"})
	o.chaos(simulator.Chaos{})
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("an outage held the list up for %v", took)
	}
}
