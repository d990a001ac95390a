package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/engine/dte"
	"dtegate/storage"
)

// box is a branch's folder, made by hand: an empty store, no key, no token, no rules.
type box struct {
	t   *testing.T
	dir string
	top *cli
	cfg *config.Config
}

func newBox(t *testing.T, authority string) *box {
	t.Helper()
	b := &box{t: t, dir: t.TempDir()}
	b.top = &cli{Config: b.at("dted.toml")}
	b.must(os.Mkdir(b.at("rules"), 0o700), config.WriteFile(b.top.Config, fmt.Appendf(nil, boxConfig, authority)))
	b.must(config.WriteFile(b.at("authority.password"), []byte("secreto-mh.2026\n")), config.WriteFile(b.at("admin.token"), []byte(boxAdmin+"\n")))
	_, err := rulesKey(b.at("rules.key"))
	b.must(err)
	b.cfg, err = config.Load(b.top.Config)
	b.must(err)
	b.must(storage.Create(storage.Options{Dir: b.cfg.Data, MarkPath: b.cfg.Mark}))
	return b
}

// boxAdmin is the admin token of a box.
const boxAdmin = "admin token of the box, long enough"

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

func (b *box) at(name string) string { return filepath.Join(b.dir, name) }

func (b *box) must(errs ...error) {
	b.t.Helper()
	for _, err := range errs {
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *box) store() *storage.Store {
	b.t.Helper()
	s, err := storage.Open(storage.Options{Dir: b.cfg.Data, MarkPath: b.cfg.Mark, Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	b.must(err)
	return s
}

// fill appends documents as the engine stores them, from a day on, one a day.
func (b *box) fill(s *storage.Store, day string, documents int) {
	b.t.Helper()
	at, err := time.Parse(time.DateOnly, day)
	b.must(err)
	for i := range documents {
		a, err := s.Begin(context.Background(), storage.Keys{Series: fmt.Sprintf("00/01/M001/P001/%d", at.Year())})
		b.must(err)
		slot, err := a.Number()
		b.must(err)
		code := dte.Code{15: byte(slot.ID), 14: byte(slot.ID >> 8), 6: 0x40, 8: 0x80}
		head, err := json.Marshal(map[string]any{"document": "01", "version": 2, "control_number": fmt.Sprintf("DTE-01-M001P001-%015d", slot.Number),
			"ambiente": "00", "date": at.AddDate(0, 0, i).Format(time.DateOnly), "total": "16.40", "form": "normal", "branch_id": 1, "point_id": 1,
			"token_id": 2, "created_at": at.Add(18 * time.Hour), "rule": map[string]string{"name": "dte01", "version": "2.0.0"},
			"response": map[string]string{"selloRecibido": "2026ABC"}})
		b.must(err)
		_, err = a.Append(storage.Draft{Code: storage.Code(code), State: storage.State(2 + i%2), Head: head,
			Parts: []storage.Part{{Name: "normal", Data: []byte("eyJ9.eyJ0b3RhbCI6MTYuNDB9.c2ln")}}})
		b.must(err)
	}
}

// output is what a command writes to the standard output.
func output(t *testing.T, command func() error) (string, error) {
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
