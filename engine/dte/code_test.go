package dte

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestNewCode(t *testing.T) {
	c, err := NewCode(bytes.NewReader(bytes.Repeat([]byte{0xff}, 16)))
	if err != nil || c.String() != "FFFFFFFF-FFFF-4FFF-BFFF-FFFFFFFFFFFF" {
		t.Errorf("%v, %v", c, err)
	}
	if u, err := uuid.Parse(c.String()); err != nil || u.Version() != 4 || u.Variant() != uuid.RFC4122 {
		t.Errorf("%v is not version 4: %v", u, err)
	}
	if _, err := NewCode(bytes.NewReader(make([]byte, 15))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a short source gave %v", err)
	}
}

func TestParseCode(t *testing.T) {
	const text = "0A1B2C3D-4E5F-4607-8899-AABBCCDDEEFF"
	c, err := ParseCode(text)
	if err != nil || c.String() != text {
		t.Errorf("%v, %v", c, err)
	}
	if c, err := ParseCode("0a1b2c3d-4E5f-4607-8899-aabbccddeeff"); err != nil || c.String() != text {
		t.Errorf("lower case: %v, %v", c, err)
	}
	for i, r := range text {
		moved := []byte(text) // a hyphen one place too early
		if r == '-' {
			moved[i-1], moved[i] = moved[i], moved[i-1]
			if c, err := ParseCode(string(moved)); err == nil {
				t.Errorf("ParseCode(%q) = %v", moved, c)
			}
		}
	}
	for _, bad := range []string{
		strings.ReplaceAll(text, "-", ""), text + "-", "-" + text,
		"", text[:35], text + "0", "0A1B2C3D04E5F-4607-8899-AABBCCDDEEFF",
		"0A1B2C3G-4E5F-4607-8899-AABBCCDDEEFF", "{A1B2C3D-4E5F-4607-8899-AABBCCDDEEF}",
		"0A1B2C3D-4E5F-4607-8899-AABBCCDDEE-F",
		"0A1B-C3D-4E5F-4607-8899-AABBCCDDEEFF", "0A1B2C3D-4E5F-4607-8899AAABBCCDDEEFF",
	} {
		if c, err := ParseCode(bad); !errors.Is(err, ErrCode) {
			t.Errorf("ParseCode(%q) = %v, %v", bad, c, err)
		}
	}
}

func TestControlNumber(t *testing.T) {
	for n, want := range map[uint64]string{1: "DTE-01-M001P001-000000000000001",
		MaxSequence: "DTE-01-M001P001-999999999999999"} {
		if got, err := ControlNumber("01", "M001", "P001", n); got != want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	for _, bad := range [][3]string{
		{"1", "M001", "P001"}, {"0x", "M001", "P001"}, {"01", "X001", "P001"}, {"01", "M01", "P001"}, {"01", "M001",
			"M001"},
		{"01", "m001", "P001"}, {"01", "M00a", "P001"}, {"01", "M001", "P0011"}, {"01", "", ""}, {"x1", "M001", "P001"},
		{"01", "Ma01", "P001"}, {"01", "M0a1", "P001"}, {"01", "M001", "P-01"}, {"011", "M001", "P001"},
	} {
		if got, err := ControlNumber(bad[0], bad[1], bad[2], 1); err == nil {
			t.Errorf("%v gave %q", bad, got)
		}
	}
	for _, n := range []uint64{0, MaxSequence + 1, 1 << 63} {
		if got, err := ControlNumber("01", "M001", "P001", n); err == nil {
			t.Errorf("%d gave %q", n, got)
		}
	}
}

func TestClock(t *testing.T) {
	// The last hour of the year in San Salvador is the next year in London.
	at := time.Date(2027, 1, 1, 5, 59, 58, 0, time.UTC)
	if d, h, y := Date(at), Hour(at), Year(at); d != "2026-12-31" || h != "23:59:58" || y != 2026 {
		t.Errorf("%s %s %d", d, h, y)
	}
	at = at.Add(2 * time.Second)
	if d, h, y := Date(at), Hour(at), Year(at); d != "2027-01-01" || h != "00:00:00" || y != 2027 {
		t.Errorf("%s %s %d", d, h, y)
	}
}

func TestParseCatalogues(t *testing.T) {
	const whole = `{"version":"1.1","source":"MH","catalogues":{"CAT-014":{"name":"Unidad","values":{"59":"Unidad",` +
		`"01":"metro"}},"CAT-003":{"name":"Modelo","values":{"1":"previo"}}}}`
	c, err := ParseCatalogues([]byte(whole))
	if err != nil || c.Version() != "1.1" {
		t.Fatal(c, err)
	}
	if l := c.Lists(); len(l) != 2 || l[0].ID != "CAT-003" || l[1].Name != "Unidad" || len(l[1].Texts) != 2 {
		t.Errorf("%+v", l)
	}
	for of, want := range map[[2]string]string{{"CAT-014", "59"}: "Unidad", {"CAT-014", "60"}: "",
		{"CAT-015", "59"}: "", {"CAT-003", "1"}: "previo"} {
		if got, ok := c.Lookup(of[0], of[1]); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", of, got, ok)
		}
	}
	var nothing *Catalogues
	if _, ok := nothing.Lookup("CAT-014", "59"); ok || nothing.Lists() != nil || nothing.List("CAT-014") != nil {
		t.Error("no catalogues have a list")
	}
	for _, change := range [][2]string{{`"1.1"`, `""`}, {`"MH"`, `""`}, {`"name":"Unidad",`, ``}, {`"metro"`, `1`},
		{`"metro"`, `null`}, {`{"1":"previo"}`, `{}`}, {`"name":"Modelo"`, `"name":""`}, {`}}}}`, `}}}`}} {
		text := strings.Replace(whole, change[0], change[1], 1)
		if _, err := ParseCatalogues([]byte(text)); err == nil {
			t.Errorf("%s is read", text)
		}
	}
	var syntax *SyntaxError
	if _, err := ParseCatalogues([]byte(`{`)); !errors.As(err, &syntax) {
		t.Errorf("no JSON: %v", err)
	}
	if _, err := ParseCatalogues([]byte(`{"version":"1.1","source":"MH","catalogues":{}}`)); err == nil {
		t.Error("catalogues without a list are read")
	}
}
