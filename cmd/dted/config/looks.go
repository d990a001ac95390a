package config

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// StoreName is what people call the store.
func (c *Config) StoreName() string { return cmp.Or(c.Branch.Name, c.Issuer.TradeName, c.Issuer.Name) }

var isColour = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

// checkLooks refuses what would not look as it was meant.
func (c *Config) checkLooks() error {
	var faults []error
	for _, v := range []struct{ name, value string }{{"issuer.color_principal", c.Issuer.PrimaryColour},
		{"issuer.color_secundario", c.Issuer.SecondaryColour}, {"issuer.color_fondo", c.Issuer.BackgroundColour}} {
		if v.value != "" && !isColour.MatchString(v.value) {
			faults = append(faults, fmt.Errorf("%s: is %q, must be like \"#1f5f8b\"", v.name, v.value))
		}
	}
	lines := []struct{ name, value string }{{"print.footer", c.Print.Footer}, {"branch.nombre", c.Branch.Name}}
	if c.Mail != nil {
		lines = append(lines, struct{ name, value string }{"mail.greeting", c.Mail.Greeting})
	}
	for _, v := range lines {
		if utf8.RuneCountInString(v.value) > 200 || strings.ContainsFunc(v.value, unicode.IsControl) {
			faults = append(faults, fmt.Errorf("%s: must be one line of at most 200 characters", v.name))
		}
	}
	if c.Issuer.LogoURL != "" && c.Print.Logo == "" {
		faults = append(faults, errors.New("issuer.logo_url: is only told to tills and prints nothing: name the "+
			"picture's file in print.logo, or leave logo_url empty"))
	}
	return errors.Join(faults...)
}
