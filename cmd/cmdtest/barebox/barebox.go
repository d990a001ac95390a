// Package barebox makes a branch's folder for tests of dtectl's verbs.
package barebox

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dtectl/workshop"
	"dtegate/cmd/dted/config"
	"dtegate/engine/dte"
	"dtegate/plugins/plugintest"
	"dtegate/storage"
)

// Box is a branch's folder, made by hand: an empty store, no key, no token, no rules.
type Box struct {
	T       *testing.T
	Dir     string
	Options *adminclient.Options
	Config  *config.Config
}

// New makes a box whose authority is at an address.
func New(t *testing.T, authority string) *Box {
	t.Helper()
	b := &Box{T: t, Dir: t.TempDir()}
	b.Options = &adminclient.Options{Config: b.At("dted.toml")}
	b.Must(os.Mkdir(b.At("rules"), 0o700), config.WriteFile(b.Options.Config, fmt.Appendf(nil, boxConfig, authority)))
	b.Must(config.WriteFile(b.At("authority.password"), []byte("secreto-mh.2026\n")),
		config.WriteFile(b.At("admin.token"), []byte(AdminToken+"\n")))
	_, err := workshop.NewKey(b.At("rules.key"))
	b.Must(err)
	b.Config, err = config.Load(b.Options.Config)
	b.Must(err)
	b.Must(storage.Create(storage.Options{Dir: b.Config.Data, MarkPath: b.Config.Mark}))
	return b
}

// AdminToken is the admin token of a box.
const AdminToken = "admin token of the box, long enough"

const boxConfig = `ambiente = "00"
data = "data"
mark = "mark"
tokens = "tokens.toml"
api = {listen = "127.0.0.1:0"}
ops = {listen = "127.0.0.1:0", admin_token_file = "admin.token"}
authority = {url = "http://%s", password_file = "authority.password"}
contingency = {responsible = {nombre = "María López", tipo_documento = "13", numero_documento = "012345678"}}
key = {file = "signing.jwe", passphrase_file = "signing.passphrase"}
branch = {id = 1}
issuer = {nit = "06141804941035", slug = "la-ceiba"}

[rules]
folder = "rules"
key = [{id = "central-it", file = "rules.key.pub"}]

[[point_of_sale]]
id = 1
establecimiento = "M001"
punto_venta = "P001"

[[point_of_sale]]
id = 2
establecimiento = "M001"
punto_venta = "P002"
`

// At is a file of the box.
func (b *Box) At(name string) string { return filepath.Join(b.Dir, name) }

// Must ends the test on an error.
func (b *Box) Must(errs ...error) {
	b.T.Helper()
	for _, err := range errs {
		if err != nil {
			b.T.Fatal(err)
		}
	}
}

// Store opens the box's store; the caller closes it.
func (b *Box) Store() *storage.Store {
	b.T.Helper()
	s, err := storage.Open(storage.Options{Dir: b.Config.Data, MarkPath: b.Config.Mark,
		Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	b.Must(err)
	return s
}

// Fill appends documents as the engine stores them, from a day on, one a day.
func (b *Box) Fill(s *storage.Store, day string, documents int) {
	b.T.Helper()
	at, err := time.Parse(time.DateOnly, day)
	b.Must(err)
	for i := range documents {
		a, err := s.Begin(context.Background(), storage.Keys{Series: fmt.Sprintf("00/01/M001/P001/%d", at.Year())})
		b.Must(err)
		slot, err := a.Number()
		b.Must(err)
		code := dte.Code{15: byte(slot.ID), 14: byte(slot.ID >> 8), 6: 0x40, 8: 0x80}
		head, err := json.Marshal(map[string]any{"document": "01", "version": 2,
			"control_number": fmt.Sprintf("DTE-01-M001P001-%015d", slot.Number),
			"ambiente":       "00", "date": at.AddDate(0, 0, i).Format(time.DateOnly), "total": "16.40", "form": "normal",
			"branch_id": 1, "point_id": 1,
			"token_id": 2, "created_at": at.Add(18 * time.Hour), "rule": map[string]string{"name": "dte01",
				"version": "2.0.0"},
			"response": map[string]string{"selloRecibido": "2026ABC"}})
		b.Must(err)
		_, err = a.Append(storage.Draft{Code: storage.Code(code), State: storage.State(2 + i%2), Head: head,
			Parts: []storage.Part{{Name: "normal", Data: []byte("eyJ9.eyJ0b3RhbCI6MTYuNDB9.c2ln")}}})
		b.Must(err)
	}
}

// Output is what a command writes to the standard output.
func Output(t *testing.T, command func() error) (string, error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	saved := os.Stdout
	os.Stdout = w
	text := make(chan string)
	go func() {
		b, _ := io.ReadAll(r)
		text <- string(b)
	}()
	err = command()
	os.Stdout = saved
	w.Close()
	return <-text, err
}

// WithCard gives the box a second copy.
func (b *Box) WithCard() {
	b.T.Helper()
	text, err := os.ReadFile(b.Options.Config)
	b.Must(err, config.WriteFile(b.Options.Config, append([]byte("second_copy = \"card\"\n"), text...)))
	b.Config, err = config.Load(b.Options.Config)
	b.Must(err)
}

// Copied is Store with its second copy.
func (b *Box) Copied() *storage.Store {
	b.T.Helper()
	s, err := storage.Open(storage.Options{Dir: b.Config.Data, MarkPath: b.Config.Mark, SecondCopy: b.Config.SecondCopy,
		Now: time.Now})
	b.Must(err)
	return s
}

// RunbookCommands are the commands that a section of the runbook shows, a line each.
func RunbookCommands(t *testing.T, section string) (list [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(plugintest.Root(t), "deploy", "RUNBOOK.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n## "+section+"\n")
	if !ok {
		t.Fatalf("the runbook has no section %s", section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(rest, -1) {
		for line := range strings.Lines(m[1]) {
			list = append(list, strings.Fields(line))
		}
	}
	return list
}
