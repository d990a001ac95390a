package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	ctl "dtegate/cmd/dtectl/adminclient"
	"dtegate/engine/refusal"
)

// TestBehind: store and mark are put back to an earlier state; the card is not. The appliance reports it and numbers
// nothing, answers what it knows, and continues after the card's numbers once they are reconciled.
func TestBehind(t *testing.T) {
	t.Parallel()
	b := newBranch(t)
	at := func(name string) string { return filepath.Join(b.dir, name) }
	text, err := os.ReadFile(at("dted.toml"))
	if err := errors.Join(err, os.WriteFile(at("dted.toml"), append([]byte("second_copy = \"card\"\n"), text...),
		0o600)); err != nil {
		t.Fatal(err)
	}
	b.start()
	first := decode(t, b.insist(1, "first", hammerSale(1, 1)))
	b.stop()
	if err := errors.Join(exec.Command("cp", "-r", at("data"), at("data.old")).Run(), exec.Command("cp", at("mark"),
		at("mark.old")).Run()); err != nil {
		t.Fatal(err)
	}
	b.start()
	for _, sale := range []string{"second", "third"} {
		b.insist(1, sale, hammerSale(1, len(sale)))
	}
	b.stop()
	if err := errors.Join(os.RemoveAll(at("data")), os.Rename(at("data.old"), at("data")), os.Rename(at("mark.old"),
		at("mark"))); err != nil {
		t.Fatal(err)
	}

	b.launch()
	if said := b.await(http.StatusServiceUnavailable); !strings.Contains(said, "STORE_BEHIND") {
		t.Errorf("/readyz says %s", said)
	}
	status, body, err := b.post("/dte/dte01", 1, "fourth", hammerSale(1, 4))
	var problem struct{ Type, Message string }
	if err := errors.Join(err, json.Unmarshal(body, &problem)); err != nil || status != 503 ||
		problem.Type != refusal.CodeStoreBehind || !strings.Contains(problem.Message, "dtectl recover") ||
		!regexp.MustCompile(`/01/M001/P001/\d{4} hasta el 3, aquí el 1`).MatchString(problem.Message) {
		t.Errorf("%d %s %v", status, body, err)
	}
	if status, body, err := b.post("/dte/dte01", 1, "first", hammerSale(1, 1)); err != nil || status != 201 ||
		decode(t, body).Code != first.Code {
		t.Errorf("the sale of before: %d %s %v", status, body, err)
	}
	checkStatusKeys(b)
	if b.metric("dte_store_behind") != 1 {
		t.Error("the metric does not say so")
	}
	b.stop()
	o := b.operated()
	o.refused("doctor", "1 here, 3 there")
	o.does("recover", "M001P001 01 1", "M001P001 01 3")
	b.start()
	if next := decode(t, b.insist(1, "fourth", hammerSale(1, 4))); !strings.HasSuffix(next.ControlNumber, "4") {
		t.Errorf("%s after the third", next.ControlNumber)
	}
	if again := decode(t, b.insist(1, "second", hammerSale(1, 6))); !strings.HasSuffix(again.ControlNumber, "2") {
		t.Errorf("the second sale, again: %s", again.ControlNumber)
	}
	b.stop()
	b.fsck(4, 1)
}

// checkStatusKeys checks that /status has the members that dtectl reads.
func checkStatusKeys(b *branch) {
	b.t.Helper()
	status, said := b.getOps("/status")
	var told map[string]any
	if err := json.Unmarshal(said, &told); err != nil || status != http.StatusOK {
		b.t.Fatalf("%d %v: %s", status, err, said)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[ctl.Status]()) {
		name := field.Tag.Get("json")
		value, there := told[name]
		empty := value == nil && name != "credentials_refused" // null while MH accepts them
		if (!there || empty) && name != "shipped" {            // a branch of no chain ships nothing
			b.t.Errorf("dtectl reads %s of /status, which has none: %s", name, said)
		}
	}
}
