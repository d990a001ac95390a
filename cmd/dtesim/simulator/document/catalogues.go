package document

import (
	_ "embed"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Codes of CAT v1.1 (07/2026) that the documents received here use.
var (
	// CAT-022
	receiverDocuments = words("36 13 37 03 02")
	// CAT-017
	payments = words("01 02 03 04 05 08 09 11 12 13 14 99")
	// CAT-018: days, months, years
	terms = words("01 02 03")
	// CAT-002, without events
	DocumentTypes = words("01 03 04 05 06 07 08 09 11 14 15")
	// CAT-006
	withholdings = words("22 C4 C9")
	// CAT-015 section 2: taxes that are separate items
	bodyTaxes = words("A8 57 90 D4 D5 A6")
	// CAT-015 section 1: taxes that the summary adds
	summaryTaxes = words("20 C3 59 71 D1 C8 D5 D4")
	// CAT-015 section 3: taxes that only inform
	informativeTaxes = words(
		"C5 C6 C7 19 28 31 32 33 34 35 36 37 38 39 42 43 44 50 51 52 53 54 55 58 77 78 79 85 86 91 92 A1 A5 A7 A9")
	// CAT-014
	units = words("1 2 6 9 10 13 15 18 20 22 23 24 26 30 32 33 34 36 37 38 39 40 42 43 44 45 46 47 49 50 " +
		"51 52 53 54 55 56 57 58 59 99")
)

const (
	gallon    = 22 // CAT-014
	otherUnit = 99 // CAT-014
	taxItem   = 4  // CAT-011: an item that is a tax of CAT-015 section 2
)

// gallonTaxes are in USD a gallon, from CAT-015.
var gallonTaxes = map[string]*big.Rat{"D1": big.NewRat(20, 100), "C8": big.NewRat(10, 100)}

// department holds the CAT-013 codes of its municipalities, and the number of its districts in CAT-008, from 01 on.
type department struct {
	municipalities []string
	districts      int
}

// departments are the departments of CAT-012 by code. "00", for foreigners, is not listed.
var departments = map[string]department{
	"01": {words("13 14 15"), 12},
	"02": {words("14 15 16 17"), 13},
	"03": {words("17 18 19 20"), 16},
	"04": {words("34 35 36"), 33},
	"05": {words("23 24 25 26 27 28"), 22},
	"06": {words("20 21 22 23 24"), 19},
	"07": {words("17 18"), 16},
	"08": {words("23 24 25"), 22},
	"09": {words("10 11"), 9},
	"10": {words("14 15"), 13},
	"11": {words("24 25 26"), 23},
	"12": {words("21 22 23"), 20},
	"13": {words("27 28"), 26},
	"14": {words("19 20"), 18},
}

//go:embed catalogues/activities.txt
var activityText string

var activities = func() map[string]bool {
	_, codes, _ := strings.Cut(activityText, "\n") // the first line is a description
	all := make(map[string]bool)
	for _, code := range words(codes) {
		all[code] = true
	}
	return all
}()

func words(s string) []string { return strings.Fields(s) }

// placed checks an address against CAT-012, 013 and 008, but not whether the district lies in the municipality: MH does
// not publish that. The previous generation has no district. Its municipality is a code of CAT-013, or a code from
// before 2024, now a district of CAT-008: its schema has only the old codes, MH seals both.
func placed(address Object, path string) *Refusal {
	if address == nil {
		return nil
	}
	dep, mun, dis := address.Text("departamento"), address.Text("municipio"), address.Text("distrito")
	if dep == "00" {
		switch {
		case mun != "00":
			return NotAllowed(path + ".municipio")
		case dis != "00":
			return NotAllowed(path + ".distrito")
		}
		return nil
	}
	d, known := departments[dep]
	if !known {
		return NotAllowed(path + ".departamento")
	}
	if _, has := address["distrito"]; !has {
		if slices.Contains(d.municipalities, mun) || d.district(mun) {
			return nil
		}
		return NotAllowed(path + ".municipio")
	}
	if !slices.Contains(d.municipalities, mun) {
		return NotAllowed(path + ".municipio")
	}
	if !d.district(dis) {
		return NotAllowed(path + ".distrito")
	}
	return nil
}

func (d department) district(code string) bool {
	n, err := strconv.Atoi(code)
	return err == nil && len(code) == 2 && 1 <= n && n <= d.districts
}

// active checks an economic activity against CAT-019. "" passes, because the schema decides where null is allowed.
func active(code, path string) *Refusal {
	if code != "" && !activities[code] {
		return NotAllowed(path)
	}
	return nil
}

// unhyphened removes hyphens, so that DUIs of both generations can be compared.
func unhyphened(number string) string { return strings.ReplaceAll(number, "-", "") }

// hyphened reports whether number is a DUI as 01 v1 writes it.
func hyphened(number string) bool {
	return len(number) == 10 && number[8] == '-' && digits(number[:8], 8) && digits(number[9:], 1)
}

// digits reports whether s consists of decimal digits and has one of the lengths.
func digits(s string, lengths ...int) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return slices.Contains(lengths, len(s))
}
