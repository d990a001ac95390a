package main

import (
	"encoding/json"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest"
	"dtegate/cmd/cmdtest/barebox"
	"dtegate/gateway/adminapi"
)

// TestJSON: lists are available as JSON, with the appliance's values; they contain no hash of a token.
func TestJSON(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	appliance(b)
	if _, err := dtectl(b, "token", "new", "--new-file", "--name", "caja", "--point-of-sale", "1"); err != nil {
		t.Fatal(err)
	}
	for verb, want := range map[string]string{"queue": `"motive"`, "delivery list": `"step"`, "rules list": `"trouble"`,
		"token list": `"caja"`} {
		said, err := dtectl(b, append(strings.Fields(verb), "--json")...)
		if err != nil || !json.Valid([]byte(said)) || !strings.Contains(said, want) || strings.Contains(said, "hash") {
			t.Errorf("%s: %v\n%s", verb, err, said)
		}
	}
	// A program that reads a list gets an empty list, not null.
	g, _ := askBranch(t, map[string]any{"/admin/delivery": adminapi.GivenUp{}})
	for asJSON, want := range map[bool]string{true: "[]\n", false: "nothing was given up\n"} {
		said := cmdtest.Capture(t, func() {
			if err := (&deliveryList{JSON: asJSON}).Run(t.Context(), g); err != nil {
				t.Error(err)
			}
		})
		if said != want {
			t.Errorf("%q, want %q", said, want)
		}
	}
}
