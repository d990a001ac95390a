package main

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
)

// A bundle gives the law's rates, thresholds and codes, in the simulated ambiente.
func TestLawsOf(t *testing.T) {
	data := bundletest.Edition(t, "dte01/v2", "3.0.0", bundletest.In("2027-01-01", ""), bundletest.Param("ivaRate",
		"0.15"), bundletest.Param("fovialRate", "0.25"))
	laws, name, err := lawsOf(data, "01")
	if err != nil || name != "dte01 3.0.0" || len(laws) != 1 {
		t.Fatal(laws, name, err)
	}
	if l := laws[0]; l.From != "2027-01-01" || l.Document != "01" || l.VAT.FloatString(2) != "0.15" ||
		l.Withheld.FloatString(2) != "0.01" ||
		l.Identification.FloatString(2) != "25000.00" || l.PerGallon["D1"].FloatString(2) != "0.25" {
		t.Errorf("%+v", l)
	}
	laws, _, err = lawsOf(bundletest.Edition(t, "dte01/v2", "3.0.0", func(_ map[string][]byte, m *bundle.Manifest) {
		m.Params = append(m.Params, bundle.Param{Name: "levyB1", Value: "0.05", Source: "a law"})
	}), "00")
	if err != nil || len(laws[0].PerUnit) != 1 || laws[0].PerUnit["B1"].FloatString(2) != "0.05" {
		t.Errorf("a tax of its own: %+v, %v", laws, err)
	}
	laws, _, err = lawsOf(bundletest.Edition(t, "catalogues", "3.0.0"), "00")
	if err != nil || !slices.Contains(laws[0].Codes["CAT-015"], "D1") || !slices.Contains(laws[0].Codes["CAT-017"],
		"01") {
		t.Errorf("%v %v", laws[0].Codes["CAT-015"], err)
	}
	if _, _, err := lawsOf([]byte("PK"), "00"); err == nil {
		t.Error("what is no bundle is law")
	}
}

// Laws come at the start and later, and the authority's clock is ahead.
func TestRun_Law(t *testing.T) {
	protocol, manage := cmdtest.Port(t), cmdtest.Port(t)
	t.Setenv("DTESIM_ADDR", protocol)
	t.Setenv("DTESIM_MANAGE_ADDR", manage)
	t.Setenv("DTESIM_SMTP_ADDR", cmdtest.Port(t))
	data := bundletest.Edition(t, "dte03/v4", "9.0.0", bundletest.In("2027-01-01", ""), bundletest.Param("ivaRate",
		"0.15"))
	file := filepath.Join(t.TempDir(), "dte03.dterule")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	done, up := make(chan error, 1), make(chan struct{})
	log := slog.New(slog.NewTextHandler(&tee{began(up), &said}, nil))
	go func() {
		done <- run(ctx, options{issuers: issuersFile(t, one), seed: 1, ahead: 1000 * time.Hour, laws: []string{file}},
			log)
	}()
	<-up
	for body, want := range map[string]string{string(data): "dte03 9.0.0 is law from 2027-01-01 on\n",
		"PK": "not a rule bundle"} {
		resp, err := http.Post("http://"+manage+"/law", "application/octet-stream", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		_, _ = got.ReadFrom(resp.Body)
		resp.Body.Close()
		if !strings.Contains(got.String(), want) {
			t.Errorf("%d %s, want %s", resp.StatusCode, got.String(), want)
		}
	}
	resp, err := http.PostForm("http://"+protocol+"/seguridad/auth", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if at, err := http.ParseTime(resp.Header.Get("Date")); err != nil || time.Until(at) < 999*time.Hour {
		t.Errorf("MH's clock is at %v, %v", at, err)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !strings.Contains(said.String(), `bundle="dte03 9.0.0" from=2027-01-01`) {
		t.Errorf("said %s", said.String())
	}
}

// tee closes began at the first write and keeps what is written.
type tee struct {
	began
	kept *bytes.Buffer
}

func (w *tee) Write(p []byte) (int, error) {
	w.kept.Write(p)
	return w.began.Write(p)
}
