package dte

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"580.5": "QUINIENTOS OCHENTA 50/100 USD", "140.05": "CIENTO CUARENTA 05/100 USD", "0": "CERO 00/100 USD",
		"0.99": "CERO 99/100 USD", "1": "UNO 00/100 USD", "21": "VEINTIUNO 00/100 USD",
		"31.1": "TREINTA Y UNO 10/100 USD",
		"100":  "CIEN 00/100 USD", "101": "CIENTO UNO 00/100 USD", "1000": "MIL 00/100 USD",
		"1001":  "MIL UNO 00/100 USD",
		"21000": "VEINTIÚN MIL 00/100 USD", "31000": "TREINTA Y UN MIL 00/100 USD",
		"101000": "CIENTO UN MIL 00/100 USD",
		"100000": "CIEN MIL 00/100 USD", "1000000": "UN MILLÓN 00/100 USD", "2000000": "DOS MILLONES 00/100 USD",
		"1000001": "UN MILLÓN UNO 00/100 USD", "21000021": "VEINTIÚN MILLONES VEINTIUNO 00/100 USD",
		"1000000000":  "MIL MILLONES 00/100 USD",
		"1001001001":  "MIL UN MILLONES MIL UNO 00/100 USD",
		"92000000000": "NOVENTA Y DOS MIL MILLONES 00/100 USD",
		"21716.22":    "VEINTIÚN MIL SETECIENTOS DIECISÉIS 22/100 USD",
		"999999.995":  "UN MILLÓN 00/100 USD", "0.005": "CERO 01/100 USD", "-3.5": "MENOS TRES 50/100 USD",
		"781.2": "SETECIENTOS OCHENTA Y UNO 20/100 USD",
	} {
		a, err := ParseAmount(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(AppendWords(nil, a)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// slowly writes a whole number in words by groups of three digits, and then inserts the short forms.
func slowly(n uint64) string {
	text := fmt.Sprintf("%012d", n)
	var groups [4]string // thousands of millions, millions, thousands, units
	for i := range groups {
		groups[i] = three(text[3*i : 3*i+3])
	}
	short := func(s string) string {
		if s, ok := strings.CutSuffix(s, "VEINTIUNO"); ok {
			return s + "VEINTIÚN"
		}
		if s, ok := strings.CutSuffix(s, "UNO"); ok {
			return s + "UN"
		}
		return s
	}
	thousands := func(high, low string) string {
		switch high {
		case "":
			return low
		case "UNO":
			return strings.TrimSpace("MIL " + low)
		}
		return strings.TrimSpace(short(high) + " MIL " + low)
	}
	result := thousands(groups[2], groups[3])
	switch millions := thousands(groups[0], groups[1]); millions {
	case "":
	case "UNO":
		result = "UN MILLÓN " + result
	default:
		result = short(millions) + " MILLONES " + result
	}
	if result = strings.TrimSpace(result); result == "" {
		return "CERO"
	}
	return result
}

// three writes three digits in words, "" for 000.
func three(d string) string {
	first := strings.Fields("_ CIENTO DOSCIENTOS TRESCIENTOS CUATROCIENTOS QUINIENTOS SEISCIENTOS SETECIENTOS " +
		"OCHOCIENTOS NOVECIENTOS")
	second := strings.Fields("_ DIECI VEINTI TREINTA CUARENTA CINCUENTA SESENTA SETENTA OCHENTA NOVENTA")
	third := strings.Fields("_ UNO DOS TRES CUATRO CINCO SEIS SIETE OCHO NUEVE")
	special := map[string]string{
		"10": "DIEZ", "11": "ONCE", "12": "DOCE", "13": "TRECE", "14": "CATORCE", "15": "QUINCE", "16": "DIECISÉIS",
		"20": "VEINTE",
		"22": "VEINTIDÓS", "23": "VEINTITRÉS", "26": "VEINTISÉIS",
	}
	if d == "100" {
		return "CIEN"
	}
	var words []string
	if d[0] != '0' {
		words = append(words, first[d[0]-'0'])
	}
	ten, one := d[1]-'0', d[2]-'0'
	if s, ok := special[d[1:]]; ok {
		words = append(words, s)
	} else {
		switch {
		case ten == 0 && one > 0:
			words = append(words, third[one])
		case ten == 1 || ten == 2:
			words = append(words, second[ten]+third[one])
		case ten > 2 && one == 0:
			words = append(words, second[ten])
		case ten > 2:
			words = append(words, second[ten], "Y", third[one])
		}
	}
	return strings.Join(words, " ")
}

func agreeWords(t interface{ Fatalf(string, ...any) }, cents uint64) {
	want := fmt.Sprintf("%s %02d/100 USD", slowly(cents/100), cents%100)
	if got := string(AppendWords(nil, Amount(cents)*(Scale/100))); got != want {
		t.Fatalf("%d cents: %q, want %q", cents, got, want)
	}
}

func TestWords_AgreesWithSlowWay(t *testing.T) {
	for n := range uint64(25_000) {
		agreeWords(t, n*100+n%100)
	}
	rapid.Check(t, func(t *rapid.T) {
		agreeWords(t, rapid.Uint64Range(0, uint64(MaxAmount/(Scale/100))).Draw(t,
			"cents"))
	})
}

func TestWords_FitsItsPlace(t *testing.T) {
	longest := string(AppendWords(nil, -(74_454_454_454*Scale + 99*Scale/100)))
	if n := len(longest); n > 256 {
		t.Errorf("%d bytes do not fit the run's buffer: %s", n, longest)
	}
	if n := len([]rune(longest)); n > 200 {
		t.Errorf("%d characters do not fit totalLetras", n)
	}
}

func FuzzWords(f *testing.F) {
	f.Add(uint64(100))
	f.Add(uint64(2_100_000_00))
	f.Fuzz(func(t *testing.T, cents uint64) { agreeWords(t, cents%uint64(MaxAmount/(Scale/100)+1)) })
}
