package bundle

import (
	"errors"
	"strings"
	"testing"
)

const goodManifest = `{
  "name": "dte01", "version": "2.0.0", "kind": "document", "document": "01", "schema": 2, "abi": 1,
  "fuel": 1000,
  "validity": {
    "00": {"from": "2026-01-01", "until": ""}
  },
  "params": [
    {"name": "ivaRate", "value": "0.13", "source": "Ley de IVA art. 54"},
    {"name": "other", "value": "1", "source": "x"}
  ]
}`

// TestParseManifest_Places: an error gives the line and column of the mistake, as an editor counts them.
func TestParseManifest_Places(t *testing.T) {
	if m, err := ParseManifest([]byte(goodManifest)); err != nil || m.Fuel != 1000 || len(m.Params) != 2 {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, c := range [][3]string{
		{`"0.13"`, `"13 %"`, `manifest.json:8:34: params[0].value: "13 %" is not a decimal`},
		{`"other"`, `"ivaRate"`, `manifest.json:9:14: params[1].name: "ivaRate" appears twice`},
		{`, "source": "x"`, ``, `manifest.json:9:5: params[1].source: every rate names`},
		{`2026-01-01`, `2026-13-01`, `manifest.json:5:20: validity.00.from: "2026-13-01" is not a date`},
		{`"until": ""`, `"until": "2025-12-31"`, `manifest.json:5:43: validity.00.until: "2025-12-31" is not a date on or after 2026-01-01`},
		{`"until": ""`, `"until": "2026-02-30"`, `manifest.json:5:43: validity.00.until: "2026-02-30" is not a date`},
		{`"00":`, `"02":`, `manifest.json:5:11: validity.02: "02" is not an ambiente`},
		{`"version": "2.0.0", `, ``, `manifest.json:1:1: version: "" is not three numbers`},
		{`"fuel": 1000`, `"fuel": -1`, `manifest.json:3:11: fuel: -1 is negative`},
		{`"fuel": 1000`, `"fuel": "much"`, `manifest.json:3:16: fuel: a JSON string does not fit`},
		{`"fuel"`, `"Fuel"`, `manifest.json:3:11: Fuel: there is no such field; the nearest that there is: fuel`},
		{`"fuel": 1000`, `"abi": 1`, `manifest.json:3:10: abi: appears twice`},
		{`"from": "2026-01-01"`, `"from": "2026-01-01", "to": ""`, `validity.00.to: there is no such field`},
		{`"fuel": 1000`, `"valid_from": "2027-01-01"`,
			`manifest.json:3:17: valid_from: there is no such field; the nearest that there is: validity."00".from (tests) and validity."01".from (production)`},
		{`"fuel": 1000`, `"verison": "2.0.0"`, `verison: there is no such field; the nearest that there is: version`},
		{`"value": "0.13"`, `"valeu": "0.13"`,
			`params[0].valeu: there is no such field; the nearest that there is: params[0].value`},
		{`"kind": "document", `, `"kind": "document" `, `manifest.json:2:58: invalid character`},
		{"]\n}", "]", `manifest.json:10:4: it ends too early`},
		{"]\n}", "]\n}\n[]", `manifest.json:12:1: something follows`},
	} {
		text := strings.Replace(goodManifest, c[0], c[1], 1)
		if _, err := ParseManifest([]byte(text)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s for %s: want %q, got %v", c[1], c[0], c[2], err)
		}
	}
}

// TestParseManifest_LastDay: a rule may end on its first day, or on any later day.
func TestParseManifest_LastDay(t *testing.T) {
	for _, until := range []string{"", "2026-01-01", "2026-01-02", "2031-12-31"} {
		text := strings.Replace(goodManifest, `"until": ""`, `"until": "`+until+`"`, 1)
		if m, err := ParseManifest([]byte(text)); err != nil || m.Validity["00"] != (Window{"2026-01-01", until}) {
			t.Errorf("%q: %+v, %v", until, m.Validity, err)
		}
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(goodManifest))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := ParseManifest(b); err == nil && m.Check() != nil {
			t.Fatal("let a bad manifest out")
		}
	})
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"2.0.3", "2.0.3", 0}, {"2.0.9", "2.0.10", -1}, {"2.1.0", "2.0.10", 1}, {"10.0.0", "9.9.9", 1}, {"1.999999.0",
		"2.0.0", -1}} {
		if got := Compare(c.a, c.b); min(1, max(-1, got)) != c.want || min(1, max(-1, Compare(c.b, c.a))) != -c.want {
			t.Errorf("%s against %s: %d", c.a, c.b, got)
		}
	}
}
