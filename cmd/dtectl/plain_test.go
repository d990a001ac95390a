package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dtectl/bundles"
)

// A list of branches must not name a branch that would be asked in plain HTTP over a network.
func TestPlainHTTP_Branches(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put("token", "secret\n")
	const says = "is plain HTTP to \"10.255.255.1\""
	push := &bundles.PushCommand{Reason: "test", BranchFlags: adminclient.BranchFlags{Branches: put("branches",
		"# all\nhttps://a.example token\nhttp://10.255.255.1:8081 token\n")}}
	if _, err := push.Open(&adminclient.Options{}); err == nil || !strings.Contains(err.Error(), "branches:3: ") ||
		!strings.Contains(err.Error(), says) {
		t.Errorf("--branches: %v", err)
	}
}

// TestGuardia: dtectl accepts every command on the page for those on duty, and each prints what is wrong.
func TestGuardia(t *testing.T) {
	text, err := os.ReadFile("../../deploy/GUARDIA.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile("`dtectl ([^`]+)`").FindAllStringSubmatch(string(text), -1)
	if len(commands) < 10 {
		t.Errorf("only %d commands", len(commands))
	}
	for _, c := range commands {
		if _, err := parser(t.Context(), new(cli)).Parse(strings.Fields(c[1])); err != nil {
			t.Errorf("dtectl %s: %v", c[1], err)
		}
		if c[1] != "doctor" && c[1] != "queue" {
			t.Errorf("dtectl %s: a person reads it aloud, and it does not name what is wrong", c[1])
		}
	}
}
