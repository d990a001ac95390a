package main

import (
	"encoding/json"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/barebox"
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
}
