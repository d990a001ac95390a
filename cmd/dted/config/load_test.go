package config

import (
	"reflect"
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
