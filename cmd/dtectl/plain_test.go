package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

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
