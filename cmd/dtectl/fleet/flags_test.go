package fleet

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/gateway/certificate"
)

// TestFlags: percentages and times as people type them, and as they are shown again.
func TestFlags(t *testing.T) {
	for text, want := range map[string]Percent{"5": 500, "5%": 500, "0.25": 25, "0.5": 50, "12.34%": 1234, "100": 10000,
		"0": 0, "100.01": -1, "101": -1, "1000": -1, "-1": -1, "1.234": -1, "": -1, "x5": -1, "1.": -1} {
		got := Percent(-1)
		if err := got.UnmarshalText([]byte(text)); got != want || (err == nil) != (want >= 0) {
			t.Errorf("%q is %d, %v", text, got, err)
		}
	}
	for value, want := range map[Percent]string{0: "0 %", 25: "0.25 %", 50: "0.5 %", 500: "5 %", 1234: "12.34 %",
		10000: "100 %"} {
		if got := value.String(); got != want {
			t.Errorf("%d is shown as %q", value, got)
		}
	}
	at := func(hour, minute int) time.Time { return time.Date(2026, 12, 1, hour, minute, 0, 0, time.UTC) }
	for text, want := range map[string]time.Time{"2026-12-01": at(6, 0), "2026-12-01T08:30": at(14, 30),
		"2026-12-01 08:30": at(14, 30), "2026-12-01T08:30:00Z": at(8, 30), "2026-12-01T08:30:00-05:00": at(13, 30)} {
		var m Moment
		if err := m.UnmarshalText([]byte(text)); err != nil || !m.Equal(want) {
			t.Errorf("%q is %v, %v", text, m, err)
		}
	}
	if err := new(Moment).UnmarshalText([]byte("01/12/2026")); err == nil {
		t.Error("another form of a day is taken")
	}
}

// TestServe_Secrets: the certificate and the password that serve reads.
func TestServe_Secrets(t *testing.T) {
	dir := t.TempDir()
	own := &certificate.Own{Folder: filepath.Join(dir, "tls"), Now: time.Now, Write: config.WriteFile}
	file := filepath.Join(dir, "password")
	if err := errors.Join(own.Create(), os.WriteFile(file, []byte("exactly 12 c\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s := &Serve{Certificate: own.ServerFile(), Key: own.ServerFile(), PasswordFile: file}
	encrypted, err := s.certificate()
	if err != nil || encrypted.MinVersion != 0x0303 || len(encrypted.Certificates) != 1 {
		t.Errorf("%+v, %v", encrypted, err)
	}
	if password, err := s.password(); password != "exactly 12 c" || err != nil {
		t.Errorf("%q, %v", password, err)
	}
	for _, text := range []string{"eleven char\n", "\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.password(); err == nil || !strings.HasPrefix(err.Error(), "--password-file: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
	none := new(Serve)
	if encrypted, err := none.certificate(); encrypted != nil || err != nil {
		t.Error(encrypted, err)
	}
	if password, err := none.password(); password != "" || err != nil {
		t.Error(password, err)
	}
}
