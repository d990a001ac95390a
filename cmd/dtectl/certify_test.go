package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/cmdtest/skip"
	"dtegate/cmd/dtectl/certify"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/term"
	"dtegate/engine/documents"
	"dtegate/gateway/tilltest"
)

// rehearsed is a box whose configuration points to a branch in the test ambiente and to its operators' listener.
func rehearsed(t *testing.T, wanted map[string]int) (*barebox.Box, *tilltest.Branch) {
	t.Helper()
	branch := tilltest.Open(t, "00", time.Now())
	tally := documents.NewTally(branch.Engine.Documents(), 1, branch.Now)
	ops := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, err := tally.Count(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		for i := range a.Kinds {
			if n, ok := wanted[a.Kinds[i].Kind]; ok {
				a.Kinds[i].Wanted = n
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"ambiente": "00", "owed": branch.Engine.CountBacklog(),
			"authorisation": a})
	}))
	t.Cleanup(ops.Close)
	b := barebox.New(t, "127.0.0.1:1")
	text, err := os.ReadFile(b.Options.Config)
	b.Must(err)
	for _, address := range []string{branch.URL, ops.URL} {
		text = []byte(strings.Replace(string(text), "127.0.0.1:0", strings.TrimPrefix(address, "http://"), 1))
	}
	b.Must(config.WriteFile(b.Options.Config, text))
	b.Config, err = config.Load(b.Options.Config)
	b.Must(err)
	return b, branch
}

// TestCertify_Plan: the plan says what is missing and shows the next sales; it sends nothing and makes no token.
func TestCertify_Plan(t *testing.T) {
	b, branch := rehearsed(t, nil)
	text, err := barebox.Output(t, func() error {
		return (&certifyCommand{Plan: true, Seed: 7}).Run(t.Context(), b.Config)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"KIND          WANTED  SEALED  WAITING  TO SEND\n01            90      0       0    " +
		"    90\n", "03            75 ", "05            50 ", "06            25 ", "07            50 ",
		"14            25 ",
		"18            5 ", "invalidacion  5 ", "contingencia  5 ", "\nnext  POST /dte/dte01 {",
		"\nnext  POST /dte/dte07 {"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	narrow, err := barebox.Output(t, func() error {
		return (&certifyCommand{Plan: true, Seed: 7, Types: []string{"14"}}).Run(t.Context(), b.Config)
	})
	if err != nil || strings.Contains(narrow, "01 ") || !strings.Contains(text, narrow[strings.Index(narrow,
		"\nnext"):]) {
		t.Errorf("%v\n%s", err, narrow)
	}
	if _, err := os.Stat(b.At("tokens.toml")); !errors.Is(err, os.ErrNotExist) || branch.Sim.Received().Documents != 0 {
		t.Errorf("a plan does something: %v, %+v", err, branch.Sim.Received())
	}
	if err := (&certifyCommand{Plan: true, Types: []string{"99"}}).Run(t.Context(), b.Config); err == nil ||
		!strings.HasPrefix(err.Error(), "--types: 99") {
		t.Error(err)
	}
}

// TestCertify_Token: a given token of a till sends, and no token is made; a token that the appliance does not know is
// refused before anything is sent. The report is written, and a page beside it.
func TestCertify_Token(t *testing.T) {
	b, branch := rehearsed(t, map[string]int{"07": 2, "14": 3})
	b.Must(config.WriteFile(b.At("till"), []byte(tilltest.Token+"\n")), config.WriteFile(b.At("other"),
		[]byte("another token\n")))
	c := certifyCommand{Types: []string{"07", "14"}, Token: b.At("other"), Report: b.At("report.json"), Seed: 7,
		Every: time.Millisecond, Patience: time.Minute}
	if err := c.Run(t.Context(), b.Config); err == nil || !strings.Contains(err.Error(),
		"the appliance says 401 UNAUTHORIZED") {
		t.Error(err)
	}
	if branch.Sim.Received().Documents != 0 {
		t.Error("something was sent")
	}
	c.Token = b.At("till")
	text, err := barebox.Output(t, func() error { return c.Run(t.Context(), b.Config) })
	if err != nil || text != "KIND  SEALED  WANTED  WAITING  REFUSED\n07    2       2       0        0\n14    3       "+
		"3       0        0\n" {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := os.Stat(b.At("tokens.toml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a token was made: %v", err)
	}
	raw, err := os.ReadFile(b.At("report.json"))
	b.Must(err)
	var report certify.Report
	b.Must(json.Unmarshal(raw, &report))
	page, err := os.ReadFile(b.At("report.html"))
	if err != nil || !report.Complete || report.Seed != 7 || !strings.Contains(string(page),
		"Hacienda selló el mínimo") {
		t.Errorf("%s, %v", raw, err)
	}
	if got := branch.Sim.Types(); got["07"] != 2 || got["14"] != 3 || len(got) != 2 {
		t.Errorf("MH sealed %v", got)
	}
	c.Report = b.At("report.html")
	if _, err := barebox.Output(t, func() error { return c.Run(t.Context(), b.Config) }); err == nil ||
		!strings.Contains(err.Error(), "name it .json") {
		t.Error(err)
	}
}

// TestCertify_OwnToken: a run without --token ends the token that it makes, and the one that a killed run left, and no
// other.
func TestCertify_OwnToken(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	b.Must((&config.TokenFile{Secret: config.Secret()}).Save(b.Config.Tokens))
	for _, name := range []string{certifyToken, "caja"} {
		b.Must(config.EditTokens(b.Config.Tokens, func(f *config.TokenFile) error {
			_, _, err := f.Add(b.Config, name, b.Config.Points[0].ID, config.Permissions, "ana", b.Config.Now())
			return err
		}))
	}
	_, err := new(certifyCommand).open(t.Context(), b.Config, &certify.Options{Now: b.Config.Now})
	if err == nil {
		t.Error("no appliance runs")
	}
	f, err := config.LoadTokens(b.Config.Tokens)
	b.Must(err)
	for _, token := range f.Tokens {
		if token.Active() != (token.Name == "caja") {
			t.Errorf("%s is active: %v", token.Name, token.Active())
		}
	}
	if len(f.Tokens) != 3 {
		t.Errorf("%d tokens", len(f.Tokens))
	}
}

// terminal opens a real terminal, and returns what it shows until it is closed.
func terminal(t *testing.T) (tty *os.File, shown func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		skip.Test(t, "terminal", err)
	}
	var lock, n int32
	for request, arg := range map[uintptr]*int32{syscall.TIOCSPTLCK: &lock, syscall.TIOCGPTN: &n} {
		if _, _, no := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(arg))); no != 0 {
			skip.Test(t, "terminal", no)
		}
	}
	if tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		skip.Test(t, "terminal", err)
	}
	text := make(chan string)
	go func() {
		b, _ := io.ReadAll(master) // it ends with EIO
		text <- string(b)
	}()
	return tty, func() string {
		_ = tty.Close()
		return <-text
	}
}

// TestProgress: a terminal shows one line that is redrawn, no wider than any terminal; a file gets no bar.
func TestProgress(t *testing.T) {
	run := func(f *os.File) {
		bar := term.NewGauge(term.New(&f))
		for sealed := range 101 {
			bar.Show(float64(sealed)/100, fmt.Sprintf("%d of 100 sealed, 03 PROCESSED", sealed))
		}
		bar.Show(1, "100 of 100 sealed, asking the branch (is it running?): connection refused, and much more that "+
			"nobody has the room for; asking again")
		bar.Clear()
	}
	tty, shown := terminal(t)
	run(tty)
	lines := strings.Split(shown(), "\r")
	if len(lines) < 100 || !strings.Contains(lines[51], "[###############···············] 50 of 100 sealed, 03 "+
		"PROCESSED\x1b[K") {
		t.Errorf("%q", lines)
	}
	for _, line := range lines {
		if n := len([]rune(strings.TrimSuffix(line, "\x1b[K"))); n > 79 || strings.Contains(line, "\n") {
			t.Errorf("%d wide: %q", n, line)
		}
	}
	file, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	run(file)
	if text, err := os.ReadFile(file.Name()); err != nil || len(text) > 0 {
		t.Errorf("%q, %v", text, err)
	}
	_ = file.Close()
}

// TestCertify_Ambiente: a branch in production sends nothing, whatever its appliance answers.
func TestCertify_Ambiente(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	text, err := os.ReadFile(b.Options.Config)
	b.Must(err, config.WriteFile(b.Options.Config, []byte(strings.Replace(string(text), `ambiente = "00"`,
		`ambiente = "01"`, 1))))
	b.Config, err = config.Load(b.Options.Config)
	b.Must(err)
	if err := (&certifyCommand{}).Run(context.Background(), b.Config); !errors.Is(err, certify.ErrProduction) {
		t.Error(err)
	}
}
