package abi_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"dtegate/rules/abi"
	"dtegate/rules/asmtest"
)

// block is a fenced block of README.md.
func block(t *testing.T, fence string) string {
	t.Helper()
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(page), "```"+fence+"\n")
	text, _, closed := strings.Cut(after, "```")
	if !ok || !closed {
		t.Fatalf("README.md has no block %s", fence)
	}
	return text
}

var row = regexp.MustCompile(`^([0-9a-f]{2})((?: +[0-9a-f]{2})+)(?:   .*)?$`)

// dump reads a hex block: an offset, bytes, and what they mean.
func dump(t *testing.T, fence string) (b []byte) {
	t.Helper()
	for line := range strings.Lines(block(t, fence)) {
		m := row.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			t.Fatalf("%s: %q is not a row", fence, line)
		}
		if at, err := hex.DecodeString(m[1]); err != nil || int(at[0]) != len(b) {
			t.Errorf("%s: the row at %#x says %s", fence, len(b), m[1])
		}
		data, err := hex.DecodeString(strings.ReplaceAll(m[2], " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, data...)
	}
	return b
}

// TestReadme: the page's worked example is what the code writes.
func TestReadme(t *testing.T) {
	d := json.NewDecoder(strings.NewReader(block(t, "json")))
	d.DisallowUnknownFields()
	var description abi.Description
	if err := d.Decode(&description); err != nil || description.ABI != abi.Version {
		t.Fatalf("the description: %+v, %v", description, err)
	}
	in := abi.Input{Params: []int64{13_000_000}, Lines: []int64{200_000_000, 50_000_000}, N: 2}
	page := dump(t, "hex input")
	if got := abi.AppendInput(nil, &in); !bytes.Equal(got, page) {
		t.Errorf("the input is %x, the page says %x", got, page)
	}
	for fence, want := range map[string]abi.Output{
		"hex answer":  {Lines: in.Lines, Summary: []int64{250_000_000}},
		"hex refusal": {Faults: []abi.Fault{{Code: 0, Line: 1, Column: -1}}},
	} {
		page := dump(t, fence)
		if got := asmtest.Answer(&want, len(description.LineOutputs)); !bytes.Equal(got, page) {
			t.Errorf("%s is %x, the page says %x", fence, got, page)
		}
	}
}
