// Package bundle reads and writes rule bundles: one signed file for one document type and schema generation. Read
// returns only bundles that enough pinned keys have signed.
package bundle

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"dtegate/rules/signed"
)

// Extension of bundle files.
const Extension = ".dterule"

// Manifest is the signed description of a bundle. In a source folder it is the file manifest.json, without Parts.
type Manifest struct {
	Name    string `json:"name"`
	Version string `json:"version"` // three numbers, like "2.0.3"
	Kind    string `json:"kind"`    // document, event or catalogue
	// Document is the document type that the rule computes (CAT-002), an event ("invalidacion"), or "catalogues".
	Document string `json:"document"`
	// Schema is the generation of MH's schema: the value of identificacion.version.
	Schema int `json:"schema,omitempty"`
	// ABI is the version of the module's interface, 0 without a module.
	ABI int `json:"abi,omitempty"`
	// Validity maps each ambiente (CAT-001) to the rule's period. An ended rule stays in force until another begins.
	Validity map[string]Window `json:"validity"`
	Params   []Param           `json:"params"`
	// Fuel is the most fuel of one call of the module, in units of package fuel; 0: the host's default.
	Fuel int64 `json:"fuel,omitempty"`
	// Parts are the SHA-256 of the bundle's other files, in hex.
	Parts map[string]string `json:"parts,omitempty"`
}

// Window is a period in whole days of El Salvador: its first and its last day, yyyy-mm-dd. Until empty: no last day.
type Window struct {
	From  string `json:"from"`
	Until string `json:"until"`
}

// Param is a rate or threshold with the law that sets it. Value is a decimal text of at most 8 decimals.
type Param struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

var versionForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})$`)

// Compare orders versions. The result is negative if a is earlier than b.
func Compare(a, b string) int {
	for range 3 {
		var first, second string
		first, a, _ = strings.Cut(a, ".")
		second, b, _ = strings.Cut(b, ".")
		x, _ := strconv.Atoi(first) // versionForm has checked the numbers
		y, _ := strconv.Atoi(second)
		if x != y {
			return x - y
		}
	}
	return 0
}

// The fields of a manifest with the first and the last day of a rule.
const (
	dateFrom  = `validity."00".from (tests) and validity."01".from (production)`
	dateUntil = `validity."00".until (tests) and validity."01".until (production)`
)

// manifestForm permits null for params: a manifest without parameters is written with null.
var manifestForm = signed.Form{Name: "manifest.json", Wrong: ErrFormat, Null: "params",
	Meant: map[string]string{"from": dateFrom, "valid_from": dateFrom, "date": dateFrom, "ambiente": dateFrom,
		"until": dateUntil, "valid_until": dateUntil}}

// ParseManifest reads and checks a manifest. Every error names the file's line and column and the field.
func ParseManifest(b []byte) (m Manifest, err error) {
	err = parsePart(manifestForm, b, &m, m.faults)
	return m, err
}

// Check returns all faults of a manifest. Each fault names the field.
func (m *Manifest) Check() error {
	var faults []error
	m.faults(func(path, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: %s: %s", ErrFormat, path, fmt.Sprintf(format, args...)))
	})
	return errors.Join(faults...)
}

func (m *Manifest) faults(add add) {
	add.text("name", m.Name)
	if !versionForm.MatchString(m.Version) {
		add("version", "%q is not three numbers like 2.0.3", m.Version)
	}
	if m.Kind != "document" && m.Kind != "event" && m.Kind != "catalogue" {
		add("kind", "%q is not document, event or catalogue", m.Kind)
	}
	add.text("document", m.Document)
	if m.Fuel < 0 {
		add("fuel", "%d is negative", m.Fuel)
	}
	if len(m.Validity) == 0 {
		add("validity", "is missing")
	}
	for _, ambiente := range slices.Sorted(maps.Keys(m.Validity)) {
		w := m.Validity[ambiente]
		if ambiente != "00" && ambiente != "01" {
			add("validity."+ambiente, "%q is not an ambiente (00 or 01)", ambiente)
		}
		if _, err := time.Parse(time.DateOnly, w.From); err != nil {
			add("validity."+ambiente+".from", "%q is not a date", w.From)
		}
		if _, err := time.Parse(time.DateOnly, w.Until); w.Until != "" && (err != nil || w.Until < w.From) {
			add("validity."+ambiente+".until", "%q is not a date on or after %s", w.Until, w.From)
		}
	}
	for i, p := range m.Params {
		path := fmt.Sprintf("params[%d]", i)
		if p.Name == "" {
			add(path+".name", "is missing")
		}
		if slices.ContainsFunc(m.Params[:i], func(o Param) bool { return o.Name == p.Name }) {
			add(path+".name", "%q appears twice", p.Name)
		}
		if _, err := p.Fixed(); err != nil {
			add(path+".value", "%q is not a decimal of at most 8 decimals", p.Value)
		}
		if p.Source == "" {
			add(path+".source", "every rate names the law that sets it")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Parts)) {
		if !plainName(name) {
			add("parts", "%q is not a path inside a bundle", name)
		}
	}
}

var decimalForm = regexp.MustCompile(`^[0-9]{1,40}(\.[0-9]{1,8})?$`)

// Fixed returns the value in units of 1e-8.
func (p Param) Fixed() (int64, error) {
	whole, fraction, _ := strings.Cut(p.Value, ".")
	n, err := strconv.ParseInt(whole+(fraction + "00000000")[:8], 10, 64)
	if err != nil || !decimalForm.MatchString(p.Value) {
		return 0, ErrFormat
	}
	return n, nil
}
