package config

import "testing"

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
