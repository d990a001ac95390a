package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/barebox"
	"dtegate/cmd/dtectl/adminclient"
	"dtegate/cmd/dtectl/disk"
	"dtegate/engine/books"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/sign"
	"dtegate/storage"
)

// sold stores an invoice of a branch as the engine does, signed with a key, and returns its code.
func sold(b *barebox.Box, s *storage.Store, k *sign.Key, establishment string, at time.Time, state storage.State,
	total string) string {
	b.T.Helper()
	code, document, store := invoice(b, s, establishment, at, state, total)
	jws, err := sign.New(k).Right(code, record.FormNormal).Sign(context.Background(), document)
	b.Must(err)
	store(jws)
	return code.String()
}

// invoice makes an invoice; store stores it with a signature.
func invoice(b *barebox.Box, s *storage.Store, establishment string, at time.Time, state storage.State,
	total string) (code dte.Code, document []byte, store func(jws []byte)) {
	b.T.Helper()
	a, err := s.Begin(context.Background(), storage.Keys{Series: fmt.Sprintf("01/01/%s/P001/%d", establishment,
		dte.Year(at))})
	b.Must(err)
	slot, err := a.Number()
	b.Must(err)
	code = dte.Code{0: establishment[3], 1: byte(slot.ID >> 8), 2: byte(slot.ID), 6: 0x40, 8: 0x80}
	control := fmt.Sprintf("DTE-01-%sP001-%015d", establishment, slot.Number)
	document, err = json.Marshal(map[string]any{
		"identificacion": map[string]any{"ambiente": "01", "tipoDte": "01", "codigoGeneracion": code.String(),
			"numeroControl": control, "fecEmi": dte.Date(at), "horEmi": dte.Hour(at)},
		"emisor":          map[string]any{"nit": "06141804941035", "nrc": "2390516", "nombre": "Abarrotes La Ceiba"},
		"cuerpoDocumento": []any{map[string]any{"tipoItem": 1, "ventaGravada": json.Number(total)}},
		"resumen":         map[string]any{"totalGravada": json.Number(total), "totalPagar": json.Number(total)}})
	b.Must(err)
	head := map[string]any{"document": "01", "version": 2, "control_number": control, "ambiente": "01",
		"date": dte.Date(at), "total": total, "form": "normal",
		"branch_id": int(establishment[3] - '0'), "created_at": at,
		"response": map[string]string{"selloRecibido": fmt.Sprintf("2026%036X", slot.ID), "descripcionMsg": "NO"}}
	if state == 5 {
		head["invalidation"] = map[string]any{"estado": "PROCESSED", "at": "2026-11-15T12:00:00Z"}
	}
	raw, err := json.Marshal(head)
	b.Must(err)
	days := []uint32{record.Day(dte.Date(at))}
	if back := record.Day("2026-11-15"); state == 5 && back != days[0] {
		days = append(days, back)
	}
	return code, document, func(jws []byte) {
		_, err = a.Append(storage.Draft{Code: storage.Code(code), State: state, Head: raw, Days: days,
			Parts: []storage.Part{{Name: record.FormNormal, Data: jws}}})
		b.Must(err)
	}
}

// backup makes a backup of a box.
func backup(b *barebox.Box) string {
	b.T.Helper()
	dir := filepath.Join(b.T.TempDir(), "backup")
	_, err := barebox.Output(b.T, func() error { return (&disk.Backup{Dir: dir}).Run(context.Background(), b.Options) })
	b.Must(err)
	return dir
}

// signers makes two keys of the taxpayer: a past one and today's. The files are as MH gives them.
func signers(t *testing.T) (keys [2]*sign.Key, files []string) {
	t.Helper()
	for i := range keys {
		k, err := sign.Generate(2048)
		if err != nil {
			t.Fatal(err)
		}
		year := time.Date(2025+i, 1, 1, 0, 0, 0, 0, dte.Zone)
		crt, err := sign.DemoCertificate(k, "06141804941035", "clave-2026", year, year.AddDate(1, 0, 0))
		file := filepath.Join(t.TempDir(), "nit.crt")
		if err := errors.Join(err, os.WriteFile(file, crt, 0o600)); err != nil {
			t.Fatal(err)
		}
		keys[i], files = k, append(files, file)
	}
	return keys, files
}

// TestBooks_Branches: backups of three branches together make one row a day of the taxpayer, from the first to the last
// code by time of issue, in whatever order the backups are given; a backup that is named twice is refused.
func TestBooks_Branches(t *testing.T) {
	at := func(day, hour int) time.Time { return time.Date(2026, 11, day, hour, 0, 0, 0, dte.Zone) }
	var dirs, codes []string
	var undone string
	keys, certificates := signers(t)
	for i := range 3 {
		b := barebox.New(t, "127.0.0.1:1")
		s := b.Store()
		establishment := fmt.Sprintf("S%03d", i+1)
		text, err := os.ReadFile(b.Options.Config)
		b.Must(err, os.WriteFile(b.Options.Config, bytes.ReplaceAll(text, []byte("M001"), []byte(establishment)), 0o600))
		undone = sold(b, s, keys[min(i, 1)], establishment, at(-60, 9), 5, "5.00") // of September, invalidated in November
		for day := range 2 {
			codes = append(codes, sold(b, s, keys[min(i, 1)], establishment, at(day+1, 12-i), 2, "10.00"), sold(b, s, keys[min(i, 1)], establishment,
				at(day+1, 13+i), 2, "1.50"))
		}
		sold(b, s, keys[min(i, 1)], establishment, at(2, 20), 3, "7.00")
		sold(b, s, keys[min(i, 1)], establishment, at(31, 9), 2, "99.00") // of December
		b.Must(s.Close())
		dirs = append([]string{backup(b)}, dirs...)
	}
	nobody := &adminclient.Options{Config: filepath.Join(t.TempDir(), "none.toml")}
	c := &booksCommand{Month: "2026-11", Out: filepath.Join(t.TempDir(), "books"), Backup: dirs,
		Certificate: certificates}
	text, err := barebox.Output(t, func() error { return c.Run(context.Background(), nobody) })
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(c.Out, "anexo02.csv"))
	if err != nil {
		t.Fatal(err)
	}
	plain := func(code string) string { return strings.ReplaceAll(code, "-", "") }
	rows := strings.Split(strings.TrimSuffix(string(got), "\r\n"), "\r\n")
	if len(rows) != 5 || strings.Count(string(got), ";-5.00;1;3;2") != 3 {
		t.Fatalf("%s\n%s", got, text)
	}
	for day, row := range rows[3:] {
		// The third branch sold first, at 10, and last, at 15.
		want := fmt.Sprintf("%02d/11/2026;4;01;N/A;N/A;N/A;N/A;%s;%s;;0.00;0.00;0.00;34.50;0.00;0.00;0.00;0.00;0.00;34.50;1;3;2", day+1, plain(codes[8+2*day]), plain(codes[9+2*day]))
		if row != want {
			t.Errorf("got  %s\nwant %s", row, want)
		}
	}
	for _, name := range []string{"libro_consumidores.pdf", "libro_contribuyentes.pdf", "resumen.json", "f930.csv"} {
		if _, err := os.Stat(filepath.Join(c.Out, name)); err != nil {
			t.Error(err)
		}
	}
	if !strings.Contains(text, "in no file 3 documents") {
		t.Errorf("%s", text)
	}

	// Again, into the same folder: earlier books are replaced; anything else there is refused.
	if _, err := barebox.Output(t, func() error { return c.Run(context.Background(), nobody) }); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(c.Out, "mine.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := barebox.Output(t, func() error { return c.Run(context.Background(), nobody) }); err == nil ||
		!strings.Contains(err.Error(), "mine.txt") {
		t.Errorf("a folder with something else in it: %v", err)
	}
	twice := &booksCommand{Month: "2026-11", Out: filepath.Join(t.TempDir(), "twice"), Backup: []string{dirs[0],
		dirs[0]}, NoPDF: true, Certificate: certificates}
	if _, err := barebox.Output(t, func() error { return twice.Run(context.Background(), nobody) }); err == nil ||
		!strings.Contains(err.Error(), "appears twice") {
		t.Errorf("one branch twice: %v", err)
	}
	if _, err := os.Stat(twice.Out); err == nil {
		t.Error("books that failed left a folder")
	}

	// Explained with a configuration that has only [books].
	settings := filepath.Join(t.TempDir(), "books.toml")
	if err := os.WriteFile(settings, []byte("[books]\nday_hyphens = true\n[[books.sale]]\nestablishment = "+
		"\"S002\"\nincome = 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	explained := func(month, code string) string {
		c := &booksCommand{Month: month, Explain: code, Backup: dirs, Certificate: certificates}
		text, err := barebox.Output(t, func() error {
			return c.Run(context.Background(), &adminclient.Options{Config: settings})
		})
		if err != nil {
			t.Error(err)
		}
		return text
	}
	if text := explained("", codes[4]); strings.Count(text, "books of ") != 1 ||
		!strings.Contains(text, "anexo02.csv: fila del 01/11/2026") ||
		!strings.Contains(text, "Tipo de ingreso (Renta) (p. 10)                              2\n") {
		t.Error(text)
	}
	// An invalidated document is in the books of two months.
	for month, want := range map[string][]string{"": {"2026-09\n", "2026-11\n"}, "2026-11": {"2026-11\n"}} {
		text := explained(month, undone)
		if parts := strings.Split(text, "\nbooks of ")[1:]; len(parts) != len(want) ||
			!strings.HasPrefix(parts[0], want[0]) || !strings.HasPrefix(parts[len(want)-1], want[len(want)-1]) ||
			!strings.Contains(parts[len(want)-1], "anexo02.csv: fila propia: ") {
			t.Errorf("%q: %s", month, text)
		}
	}
}

// TestBooks_Altered: books of a backup are refused if a signature is by none of the certificates, or if the record says
// something else than the signed bytes. Every such document is named.
func TestBooks_Altered(t *testing.T) {
	b := barebox.New(t, "127.0.0.1:1")
	s := b.Store()
	keys, certificates := signers(t)
	at := time.Date(2026, 11, 5, 9, 0, 0, 0, dte.Zone)
	whole := sold(b, s, keys[0], "M001", at, 2, "10.00")
	code, document, store := invoice(b, s, "M001", at, 2, "19.00")
	jws, err := sign.New(keys[1]).Right(code, record.FormNormal).Sign(context.Background(), bytes.ReplaceAll(document,
		[]byte("19.00"), []byte("10.00")))
	b.Must(err)
	parts := strings.Split(string(jws), ".")
	store([]byte(parts[0] + "." + base64.RawURLEncoding.EncodeToString(document) + "." + parts[2]))
	moved, document, store := invoice(b, s, "M001", at, 2, "12.00")
	jws, err = sign.New(keys[1]).Right(moved, record.FormNormal).Sign(context.Background(), bytes.ReplaceAll(document,
		[]byte("DTE-01-M001P001-000000000000003"), []byte("DTE-01-M001P001-000000000000009")))
	b.Must(err)
	store(jws)
	b.Must(s.Close())
	dir := backup(b)
	c := &booksCommand{Month: "2026-11", Out: filepath.Join(t.TempDir(), "books"), Backup: []string{dir}, NoPDF: true,
		Certificate: certificates}
	_, err = barebox.Output(t, func() error { return c.Run(context.Background(), b.Options) })
	if err == nil {
		t.Fatal("books were made")
	}
	for _, want := range []string{dir + ": document " + code.String() + ", DTE-01-M001P001-000000000000002: not as it was signed: none",
		moved.String() + ", DTE-01-M001P001-000000000000003: not as it was signed: its record says", "2 documents are"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing of %q in: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), whole) {
		t.Errorf("a whole document is named: %v", err)
	}
	if _, err := os.Stat(c.Out); err == nil {
		t.Error("refused books left a folder")
	}
	c.Certificate = certificates[1:]
	_, err = barebox.Output(t, func() error { return c.Run(context.Background(), b.Options) })
	if err == nil || !strings.Contains(err.Error(), whole) {
		t.Errorf("without the past certificate: %v", err)
	}
	c.Explain = code.String()
	_, err = barebox.Output(t, func() error { return c.Run(context.Background(), b.Options) })
	if err == nil || !strings.Contains(err.Error(), "none of the certificates") {
		t.Errorf("--explain of an altered document: %v", err)
	}
}

// TestBooks_Refused: a wrong request is refused with the flag's name.
func TestBooks_Refused(t *testing.T) {
	for _, c := range []booksCommand{{Out: "x"}, {Month: "2026-11"}, {Month: "11/2026", Out: "x"}, {Month: "2026-13",
		Out: "x"}, {Explain: "ABC"}, {Month: "2026-11", Out: "x", Backup: []string{"x"}},
		{Month: "2026-11", Out: "x", Certificate: []string{"x"}}} {
		if err := c.check(); err == nil || !strings.HasPrefix(err.Error(), "--") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestBooks_Receive: a supplier's JSON file is read, also with an ending in capitals and a byte order mark. Other files
// are skipped, and a file that is too large is listed.
func TestBooks_Receive(t *testing.T) {
	box := barebox.New(t, "127.0.0.1:1")
	c := &booksCommand{Received: t.TempDir()}
	box.Must(os.Mkdir(filepath.Join(c.Received, "enero"), 0o700))
	for name, text := range map[string]string{"a.json": "{}", "b.JSON": "{}", "c.Json": "\ufeff{}", "enero/d.json": "{}",
		"e.json": "x", "f.pdf": "{}", "g.json": "{}" + strings.Repeat(" ", maxReceived)} {
		box.Must(os.WriteFile(filepath.Join(c.Received, name), []byte(text), 0o600))
	}
	b, err := books.New(books.Options{Month: "2026-11", Dir: t.TempDir(), Received: true})
	box.Must(err, c.receive(b, box.Options))
	var got []string
	for _, r := range b.Received() {
		if r.Motive != "no es el JSON de un documento" {
			r.File += " is read"
		}
		got = append(got, r.File)
	}
	if want := []string{"a.json is read", "b.JSON is read", "c.Json is read", "e.json", "enero/d.json is read",
		"g.json"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
