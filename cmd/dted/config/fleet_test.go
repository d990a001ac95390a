package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine/fleet/fleetproto"
)

func TestFleet_Check(t *testing.T) {
	sound := func() *Config {
		c := &Config{Tokens: "/var/lib/dted/tokens.toml", Archive: &Archive{Endpoint: "https://s3.example.com"},
			Fleet: &Fleet{Chain: "super", Branch: "centro", Group: "norte", DirectorKey: "director.pem"}}
		return c
	}
	check := func(c *Config) error {
		err := prepare(c, "", "/etc/dted")
		c.presets()
		return errors.Join(slices.DeleteFunc(append(Faults(err), Faults(c.check())...), func(err error) bool {
			return !strings.HasPrefix(Setting(err), "fleet.")
		})...)
	}
	c := sound()
	if err := check(c); err != nil || c.Fleet.Store != c.Archive || c.Fleet.Key != "/var/lib/dted/fleet.key" ||
		c.Fleet.DirectorKey != "/etc/dted/director.pem" || c.Fleet.Poll != Duration(2*time.Minute) {
		t.Fatalf("%+v %v", c.Fleet, err)
	}
	for want, alter := range map[string]func(*Config){
		"fleet.chain: ":        func(c *Config) { c.Fleet.Chain = "" },
		"fleet.branch: ":       func(c *Config) { c.Fleet.Branch = "Centro" },
		"fleet.group: ":        func(c *Config) { c.Fleet.Group = "" },
		"fleet.director_key: ": func(c *Config) { c.Fleet.DirectorKey = "" },
		"fleet.store: ":        func(c *Config) { c.Archive = nil },
		"fleet.poll: ":         func(c *Config) { c.Fleet.Poll = Duration(time.Second) },
		"fleet.report: ":       func(c *Config) { c.Fleet.Report = Duration(24 * time.Hour) },
		"fleet.ship: is":       func(c *Config) { c.SecondCopy, c.Fleet.Ship = "copy", "often" },
		"fleet.ship: ships":    func(c *Config) { c.Fleet.Ship = "async" },
	} {
		c := sound()
		alter(c)
		if err := check(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Settings that the centre pushed override the file; unusable settings change nothing.
func TestFleet_Overlay(t *testing.T) {
	state := filepath.Join(t.TempDir(), "fleet.state")
	load := func(text []byte) *Config {
		c := &Config{Fleet: &Fleet{State: state}, Print: Print{Footer: "antes"},
			Payments: map[string]string{"03": "04"}, Branch: Branch{Hours: []Hours{{}}, Closed: []string{"2026-12-25"}}}
		if err := c.Fleet.Settings().Save(text); err != nil {
			t.Fatal(err)
		}
		c.overlay()
		return c
	}
	values, err := fleetproto.EncodeSettings(fleetproto.Settings{Footer: "Felices fiestas",
		Closed: []string{"2027-01-01"}, Payments: map[string]string{"99": "01"}})
	if err != nil {
		t.Fatal(err)
	}
	if c := load(values); c.Print.Footer != "Felices fiestas" || len(c.Branch.Closed) != 2 ||
		c.Payments["99"] != "01" || c.Payments["03"] != "04" {
		t.Errorf("%+v", c)
	}
	if c := load([]byte(`{"kind":"settings","data":"/"}`)); c.Print.Footer != "antes" {
		t.Errorf("%+v", c)
	}
}

// The box's key is made once, for its owner alone.
func TestFleet_MakeBox(t *testing.T) {
	f := &Fleet{Branch: "centro", Key: filepath.Join(t.TempDir(), "fleet.key")}
	first, made, err := f.MakeBox()
	if err != nil || !made {
		t.Fatal(made, err)
	}
	again, made, err := f.MakeBox()
	if err != nil || made || !first.Private.Equal(again.Private) {
		t.Error(made, err)
	}
	if info, err := os.Stat(f.Key); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	if err := os.WriteFile(f.Key, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, made, err := f.MakeBox(); err == nil || made {
		t.Error("a damaged key is replaced in silence")
	}
}
