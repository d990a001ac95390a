package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/dtectl/disk"
	"dtegate/cmd/dtectl/operator"
	"dtegate/engine/record"
	"dtegate/storage"
)

func TestExport(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	s := b.Store()
	b.Fill(s, "2026-11-01", 20)
	ctx := context.Background()
	_, err := s.Append(ctx, storage.Keys{Series: "00/evento"}, storage.Draft{Code: storage.Code{1}, State: 33, Head: []byte(`{"version":3}`)})
	b.Must(err)
	c := &exportCommand{From: "2026-11-05", To: "2026-11-14", Format: "csv"}
	if _, err := barebox.Output(t, func() error { return c.Run(ctx, b.Options) }); err == nil {
		t.Error("exported from a store that is in use")
	}
	b.Must(s.Close())

	text, err := barebox.Output(t, func() error { return c.Run(ctx, b.Options) })
	if err != nil || strings.Count(text, "\r\n") != 11 || strings.Count(text, "\n") != 11 {
		t.Fatalf("%q, %v", text, err)
	}
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	b.Must(err)
	want := "00000000-0000-4000-8000-000000000005,DTE-01-M001P001-000000000000005,01,2,00,2026-11-05,PROCESSED,16.40,2026ABC," +
		"00/01/M001/P001/2026,5,1,1,2,2026-11-01T12:00:00-06:00,,dte01 2.0.0,"
	if got := strings.Join(rows[1], ","); got != want || strings.Join(rows[0], ",") != strings.Join(exportColumns, ",") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if rows[2][6] != "REJECTED" || rows[2][8] != "" {
		t.Errorf("a refused document: %q", rows[2])
	}

	_, err = barebox.Output(t, func() error { return (&disk.Backup{Dir: b.At("backup")}).Run(ctx, b.Options) })
	b.Must(err)
	s = b.Store() // in use: a backup is read
	c = &exportCommand{From: "2026-01-01", To: "2026-12-31", Format: "json", State: []string{"REJECTED"}, Type: []string{"01"}, Documents: true, Backup: b.At("backup")}
	text, err = barebox.Output(t, func() error { return c.Run(ctx, b.Options) })
	b.Must(s.Close())
	var line struct {
		Estado   string `json:"estado"`
		JWS      string `json:"jws"`
		Document struct{ Total json.Number }
	}
	if err != nil || strings.Count(text, "\n") != 10 || json.NewDecoder(strings.NewReader(text)).Decode(&line) != nil ||
		line.Estado != "REJECTED" || line.Document.Total != "16.40" || line.JWS != "eyJ9.eyJ0b3RhbCI6MTYuNDB9.c2ln" {
		t.Errorf("%s, %v, %+v", text, err, line)
	}
	if _, err := os.Stat(b.At("backup") + "/store/LOCK"); err == nil {
		t.Error("reading altered the backup")
	}
}

func TestExport_Refused(t *testing.T) {
	for _, c := range []exportCommand{
		{From: "2026-13-01", To: "2026-12-31"}, {From: "2026-12-31", To: "2026-12-01"}, {From: "2026-12-01", To: "1"},
		{From: "2026-12-01", To: "2026-12-01", Type: []string{"02"}}, {From: "2026-12-01", To: "2026-12-01", State: []string{"ACEPTADO"}},
		{From: "2026-12-01", To: "2026-12-01", Format: "csv", Documents: true},
	} {
		if err := c.check(); err == nil || !strings.HasPrefix(err.Error(), "--") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// The names of the stored states are the engine's.
func TestExport_States(t *testing.T) {
	for state, name := range map[storage.State]string{record.Signed: "", record.Accepted: record.EstadoProcessed, record.Rejected: record.EstadoRejected,
		record.Deferred: record.EstadoContingency, record.Reported: record.EstadoContingency, record.Invalidated: record.EstadoInvalidated} {
		if operator.PublicStates[state] != name {
			t.Errorf("state %d is %q, the engine says %q", state, operator.PublicStates[state], name)
		}
	}
	if record.Tipo("99") != "" {
		t.Error("99 is a document type")
	}
	for _, d := range disk.DocumentTypes {
		if record.Tipo(d) == "" {
			t.Errorf("%s is no document type", d)
		}
	}
}

// The names that an export reads are those that the engine writes.
func TestExport_Head(t *testing.T) {
	source, err := os.ReadFile("../../engine/record/head.go")
	if err != nil {
		t.Fatal(err)
	}
	head := reflect.TypeFor[storedHead]()
	for i := range head.NumField() {
		if name := head.Field(i).Tag.Get("json"); !regexp.MustCompile("`json:\"" + name + "[\",]").Match(source) {
			t.Errorf("the engine's head has no %s", name)
		}
	}
}
