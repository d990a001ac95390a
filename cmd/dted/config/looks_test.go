package config

import (
	"strings"
	"testing"
)

// TestConfig_Looks: values that would not look as intended are refused by their setting's name.
func TestConfig_Looks(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string // "" is good
	}{
		{func(*Config) {}, ""},
		{func(c *Config) { c.Issuer.LogoURL = "tienda/logo.png" }, "issuer.logo_url: "},
		{func(c *Config) { c.Issuer.LogoURL, c.Print.Logo = "tienda/logo.png", "/etc/dted/logo.png" }, ""},
		{func(c *Config) { c.Issuer.PrimaryColour = "blue" }, "issuer.color_principal: "},
		{func(c *Config) { c.Issuer.SecondaryColour = "#12345" }, "issuer.color_secundario: "},
		{func(c *Config) { c.Issuer.BackgroundColour = "#FFFFFF" }, ""},
		{func(c *Config) { c.Mail = &Mail{Greeting: "¡Gracias!\r\nBcc: x"} }, "mail.greeting: "},
		{func(c *Config) { c.Mail = &Mail{Greeting: "¡Gracias!"} }, ""},
		{func(c *Config) { c.Print.Footer = strings.Repeat("ñ", 201) }, "print.footer: "},
		{func(c *Config) { c.Branch.Name = "a\nb" }, "branch.nombre: "},
	} {
		var cfg Config
		c.change(&cfg)
		var found []string
		for _, err := range append(Faults(prepare(&cfg, "", "/")), Faults(cfg.check())...) {
			switch Setting(err) {
			case "issuer.logo_url", "issuer.color_principal", "issuer.color_secundario", "issuer.color_fondo",
				"mail.greeting", "print.footer", "branch.nombre":
				found = append(found, Setting(err)+": ")
			}
		}
		if strings.Join(found, "") != c.want {
			t.Errorf("want %q, got %v", c.want, found)
		}
	}
	for _, c := range []struct{ branch, trade, name, want string }{{"Santa Ana", "La Ceiba", "La Ceiba, S.A.",
		"Santa Ana"}, {"", "La Ceiba", "La Ceiba, S.A.", "La Ceiba"}, {"", "", "La Ceiba, S.A.", "La Ceiba, S.A."}} {
		cfg := Config{Branch: Branch{Name: c.branch}, Issuer: Issuer{TradeName: c.trade, Name: c.name}}
		if got := cfg.StoreName(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
