package setup_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/dtectl/setup"
	"dtegate/cmd/dted/config"
	"dtegate/engine/sign"
)

// A certificate that MH would not believe, or that is incomplete, is refused at the installation with a sentence that
// helps, and the box stays as it was; doctor reports the same for the same file.
func TestInit_Certificate(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	b.Must(os.RemoveAll(b.Config.Data), os.Remove(b.Config.Mark))
	key, err := sign.Generate(2048)
	b.Must(err)
	now := time.Now()
	crt := func(nit string, from, until time.Time) []byte {
		data, err := sign.DemoCertificate(key, nit, "clave privada", from, until)
		b.Must(err)
		return data
	}
	nit, day := b.Config.Issuer.NIT, 24*time.Hour
	good := crt(nit, now.Add(-day), now.Add(day))
	for name, c := range map[string]struct {
		file     []byte
		password string
		says     []string
	}{
		"ended yesterday": {crt(nit, now.Add(-60*day), now.Add(-day)), "clave privada",
			[]string{"ended on " + now.Add(-day).In(time.FixedZone("", -6*3600)).Format(time.DateOnly),
				"make a new certificate in MH's portal"}},
		"begins tomorrow": {crt(nit, now.Add(day), now.Add(60*day)), "clave privada", []string{"begins on",
			"clock"}},
		"another taxpayer's": {crt("06140101901019", now.Add(-day), now.Add(day)), "clave privada",
			[]string{"0614-010190-101-9", "0614-180494-103-5", "issuer.nit"}},
		"the API's password": {good, "secreto-mh.2026", []string{"does not open the private key",
			"not the password of MH's API"}},
		"no password": {good, "", []string{"--certificate-password"}},
		"cut by a mail": {good[:len(good)-200], "clave privada", []string{"not a certificate of MH",
			"copy it as it is"}},
		"a key that lost a piece": {bytes.Replace(good, []byte("<encodied>MIIE"), []byte("<encodied>"), 1),
			"clave privada", []string{"not a usable RSA private key"}},
		"a page of the portal": {[]byte("<!DOCTYPE html><html><body>Sesión expirada</body></html>"), "clave privada",
			[]string{"not a certificate of MH"}},
		"empty": {nil, "clave privada", []string{"not a certificate of MH"}},
	} {
		t.Run(name, func(t *testing.T) {
			b.Must(config.WriteFile(b.At("mh.crt"), c.file), config.WriteFile(b.At("mh.password"), []byte(c.password)))
			before := entries(b)
			_, err := barebox.Output(t, func() error {
				return (&setup.Init{Certificate: b.At("mh.crt"), CertificatePassword: b.At("mh.password")}).Run(
					b.T.Context(), b.Config)
			})
			for _, want := range append(c.says, "mh.crt") {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
			if after := entries(b); !slices.Equal(before, after) {
				t.Errorf("left behind: %v, before %v", after, before)
			}
		})
	}
	b.Must(config.WriteFile(b.At("mh.crt"), good), config.WriteFile(b.At("mh.password"), []byte("clave privada\r\n")))
	// The certificate's password is probably not the password of MH's API: a warning, no error.
	b.Must(config.WriteFile(b.Config.Authority.PasswordFile, []byte("clave privada\n")))
	said, err := barebox.Output(t, func() error {
		return (&setup.Init{Certificate: b.At("mh.crt"), CertificatePassword: b.At("mh.password")}).Run(b.T.Context(),
			b.Config)
	})
	if err != nil || !strings.Contains(said, "does not look like the password of MH's API") ||
		!strings.Contains(said, "it has no digit") || strings.Contains(said, "clave privada") {
		t.Errorf("%v\n%s", err, said)
	}
}

// entries are those of the box's folder.
func entries(b *barebox.Box) (list []string) {
	b.T.Helper()
	entries, err := os.ReadDir(b.Dir)
	b.Must(err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// The disk died, and its mark with it; the card with the second copy lies in the box: init names recover, and makes no
// store that would begin at 1.
func TestInit_BesideCard(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	b.WithCard()
	s := b.Copied()
	b.Fill(s, "2026-11-01", 10)
	b.Must(s.Close(), os.RemoveAll(b.Config.Data), os.Remove(b.Config.Mark))
	key, err := sign.Generate(2048)
	b.Must(err)
	crt, err := sign.DemoCertificate(key, b.Config.Issuer.NIT, "clave privada", time.Now().Add(-time.Hour),
		time.Now().Add(time.Hour))
	b.Must(err, config.WriteFile(b.At("mh.crt"), crt), config.WriteFile(b.At("mh.password"), []byte("clave privada")))
	_, err = barebox.Output(t, func() error {
		return (&setup.Init{Certificate: b.At("mh.crt"), CertificatePassword: b.At("mh.password")}).Run(t.Context(),
			b.Config)
	})
	if err == nil || !strings.Contains(err.Error(), "dtectl recover rebuilds its store") {
		t.Error(err)
	}
	if _, err := os.Stat(b.Config.Data); err == nil {
		t.Error("an empty store was made")
	}
}
