package plugins_test

import (
	"path/filepath"
	"strings"
	"testing"

	"dtegate/plugins/plugintest"
)

// TestCases runs the cases of every bundle in plugins/, including one that is not shipped yet.
func TestCases(t *testing.T) {
	folders, err := filepath.Glob("*/*/manifest.json")
	if err != nil || len(folders) < 10 {
		t.Fatal(len(folders), err)
	}
	for _, folder := range folders {
		name := filepath.ToSlash(filepath.Dir(folder))
		if !strings.HasPrefix(name, "testdata/") && manifest(t, name).Kind != "catalogue" {
			t.Run(name, func(t *testing.T) { plugintest.Cases(t, name) })
		}
	}
}
