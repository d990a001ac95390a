package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
)

// Transport says how a listener is encrypted.
type Transport struct {
	// TLS is "on", or "off" for plain HTTP. Default: on, but for an address of the box itself.
	TLS string `toml:"tls"`
	// Certificate and Key are PEM files of the listener's own, read again when they change; the certificate's chain
	// behind it. Default: what the box's own authority signs, see TLS.
	Certificate string `toml:"certificate"`
	Key         string `toml:"key"`
}

// TLS is the box's own certificate authority, for listeners that have no certificate of their own.
type TLS struct {
	Folder string `toml:"folder"` // default "tls" beside data
	// Names are further names and addresses that the box is reached by. Its host name and those of its interfaces are
	// taken by themselves.
	Names []string `toml:"names"`
}

// Limits of what a token may ask, per second.
type Limits struct {
	// Rate is how many requests a second a token may make for long (50), Burst how many at once (200).
	Rate  int `toml:"rate"`
	Burst int `toml:"burst"`
	// LargeBytes is how much of sales over 32 KiB a token may send a second for long (1 MiB), eight times as much at
	// once.
	LargeBytes Size `toml:"large_bytes"`
	// DailyBytes is how much a token may have stored in a day (1 GiB).
	DailyBytes Size `toml:"daily_bytes"`
}

// Encrypted tells whether a listener at an address speaks TLS.
func (t *Transport) Encrypted(listen string) bool {
	switch {
	case t.TLS == "off":
		return false
	case t.TLS == "on", t.Certificate != "":
		return true
	}
	return !loopback(listen)
}

// OwnAuthority tells whether any listener needs the box's own certificate authority.
func (c *Config) OwnAuthority() bool {
	return c.API.Encrypted(c.API.Listen) && c.API.Certificate == "" || c.Ops.Encrypted(c.Ops.Listen) &&
		c.Ops.Certificate == ""
}

func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

func (t *Transport) check(section string) error {
	var faults []error
	if t.TLS != "" && t.TLS != "on" && t.TLS != "off" {
		faults = append(faults, fmt.Errorf("%s.tls: is %q, must be \"on\" or \"off\"", section, t.TLS))
	}
	if (t.Certificate == "") != (t.Key == "") {
		faults = append(faults, fmt.Errorf("%s.certificate, %s.key: the one needs the other", section, section))
	}
	if t.TLS == "off" && t.Certificate != "" {
		faults = append(faults, fmt.Errorf("%s.tls: is off, and %s.certificate is given", section, section))
	}
	return errors.Join(faults...)
}

func (t *Transport) resolve(folder string) {
	resolve(folder, &t.Certificate)
	resolve(folder, &t.Key)
}

// setTransport fills what the file does not say; data is absolute by then.
func (c *Config) setTransport(folder string) {
	c.API.resolve(folder)
	c.Ops.resolve(folder)
	if c.TLS.Folder == "" {
		c.TLS.Folder = filepath.Join(filepath.Dir(c.Data), "tls")
	}
	resolve(folder, &c.TLS.Folder)
}
