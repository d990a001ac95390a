package deploy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"dtegate/cmd/dted/config"
)

// TestSampleEverySetting: the sample shows every existing setting, with a value or commented out, in its table, and no
// other.
func TestSampleEverySetting(t *testing.T) {
	table := regexp.MustCompile(`^(?:# )?\[\[?([a-z0-9_.]+)\]\]?(?:\s|$)`)
	member := regexp.MustCompile(`^(?:# )?([a-z0-9_]+) = (.*)$`)
	inline := regexp.MustCompile(`[{,]\s*([a-z0-9_]+) = `)
	shown := map[string]bool{}
	prefix := ""
	for line := range strings.SplitSeq(text(t, "dted.toml"), "\n") {
		if m := table.FindStringSubmatch(line); m != nil {
			shown[m[1]] = true
			prefix = m[1] + "."
			continue
		}
		if m := member.FindStringSubmatch(line); m != nil {
			shown[prefix+m[1]] = true
			if strings.HasPrefix(m[2], "{") {
				for _, i := range inline.FindAllStringSubmatch(m[2], -1) {
					shown[prefix+m[1]+"."+i[1]] = true
				}
			}
		}
	}
	for _, name := range config.Settings() {
		if !shown[name] {
			t.Errorf("the sample has no %s", name)
		}
	}
	for name := range shown {
		if !slices.Contains(config.Settings(), name) {
			t.Errorf("the sample has %s, which is not a setting", name)
		}
	}
}
