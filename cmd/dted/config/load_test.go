package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{"512MiB": 512 << 20, "2 GiB": 2 << 30, "1KiB": 1024,
		"8388607TiB": 8388607 << 40} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%q is %d, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "512", "512MB", "-1MiB", "0MiB", "1.5GiB", "8388608TiB", "MiB"} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken for %d", text, s)
		}
	}
}

// TestTags: the tags of the table are valid, and each default is an allowed value.
func TestTags(t *testing.T) {
	for _, table := range []any{new(Config), new(Centre)} {
		for _, s := range settings(reflect.ValueOf(table).Elem(), "", true) {
			if form := s.tag.Get("form"); form != "" && forms[form] == nil {
				t.Errorf("%s: there is no form %q", s.name, form)
			}
			if preset := s.tag.Get("default"); preset != "" {
				if err := set(s.value, preset); err != nil || s.value.IsZero() {
					t.Errorf("%s: default %q: %v", s.name, preset, err)
				}
				if err := s.check(); err != nil {
					t.Errorf("%s: %v", s.name, err)
				}
			}
		}
	}
}

// TestSince: every setting that 1.0.0 does not know has the version that brought it, which the changelog has; and what
// Newer lists of a file is what 1.0.0 would refuse.
func TestSince(t *testing.T) {
	list, err := os.ReadFile("testdata/settings-1.0.0.txt")
	if err != nil {
		t.Fatal(err)
	}
	changelog, err := os.ReadFile("../../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(string(list))
	brought := make(map[string]bool)
	for _, s := range settings(reflect.ValueOf(new(Config)).Elem(), "", true) {
		since, is := s.tag.Lookup("since")
		section, _, _ := strings.Cut(s.name, ".")
		brought[s.name] = is || brought[section]
		if brought[s.name] == slices.Contains(known, s.name) {
			t.Errorf("%s: since %q, known to 1.0.0: %v", s.name, since, !brought[s.name])
		}
		if !strings.Contains(string(changelog), since) {
			t.Errorf("%s: the changelog has no version %s", s.name, since)
		}
	}
	path := filepath.Join(t.TempDir(), "dted.toml")
	if err := os.WriteFile(path, []byte(`ambiente = "00"
api = {listen = "127.0.0.1:0", require_key = false}
authority.patience = "5s"
issuer = {nit = "06141804941035"}
[types]
issue = ["01"]
[webhook]
url = "https://erp.example.com"
[fleet.store]
bucket = "b"
`), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{"api.require_key (since 1.1.0)", "authority.patience (since 1.1.0)", "types (since 1.1.0)",
		"webhook (since 1.1.0)"}
	if got, err := Newer(path); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// TestLoad_Relative: a file that is named from its own folder has the same paths as one that is named whole.
func TestLoad_Relative(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("../../../deploy/dted.toml")
	if err != nil {
		t.Fatal(err)
	}
	paths := func(path string) (list []string) {
		c := new(Config)
		if _, err := load(path, c); err != nil {
			t.Fatal(err)
		}
		for _, s := range settings(reflect.ValueOf(c).Elem(), "", false) {
			if _, file := s.tag.Lookup("file"); file && s.value.String() != "" {
				list = append(list, s.value.String())
			}
		}
		return list
	}
	text = regexp.MustCompile(`"/(var/lib|etc|usr/share|run/credentials)/`).ReplaceAll(text, []byte(`"`))
	if err := os.WriteFile(filepath.Join(dir, "dted.toml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	whole := paths(filepath.Join(dir, "dted.toml"))
	t.Chdir(dir)
	if named := paths("dted.toml"); !slices.Equal(named, whole) || len(named) < 8 ||
		named[0] != filepath.Join(dir, "dted", "data") {
		t.Errorf("from its folder %q, whole %q", named, whole)
	}
}
