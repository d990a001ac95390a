package outbox

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/mail"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/storage"
)

// TestMessage: a message about a document, with and without a logo: all attempts have the date at which it was written
// and the same files; the subject and the text tell the document's state.
func TestMessage(t *testing.T) {
	var logo bytes.Buffer
	if err := png.Encode(&logo, image.NewGray(image.Rect(0, 0, 30, 20))); err != nil {
		t.Fatal(err)
	}
	written := time.Date(2026, 11, 22, 3, 4, 5, 0, time.UTC) // the 21st in El Salvador
	for name, c := range map[string]struct {
		logo           []byte
		estado         string
		subject        string
		inline         int
		contains, lack string
	}{
		"processed": {nil, record.EstadoProcessed, "Factura N-1 de Ana", 0, "Sello de recepción: S", "cid:"},
		"with a logo": {logo.Bytes(), record.EstadoProcessed, "Factura N-1 de Ana", 1, `src="cid:logo.png" width=`,
			"INVALIDADO"},
		"contingency": {nil, record.EstadoContingency, "Factura N-1 (contingencia) de Ana", 0,
			"transmisión por contingencia", "Sello de recepción"},
		"invalidated": {nil, record.EstadoInvalidated, "INVALIDADO: Factura N-1 de Ana", 0, "DOCUMENTO INVALIDADO",
			"contingencia"},
	} {
		printer, err := pdf.New(pdf.Options{Style: pdf.Style{Logo: c.logo}})
		if err != nil {
			t.Fatal(err)
		}
		now := written
		view := record.View{Code: "C-1", Estado: c.estado, Sello: "S", Total: "1.00", JWS: []byte("a.b.c"),
			JSON: []byte(`{"identificacion":{"version":1,"ambiente":"00","codigoGeneracion":"C-1","tipoDte":"01",` +
				`"numeroControl":"N-1","fecEmi":"2026-11-21"},"emisor":{"nombre":"Ana","nit":"06140101001010"},` +
				`"receptor":{"nombre":"Eva"},"cuerpoDocumento":[],"resumen":{}}`)}
		box := New(Options{Now: func() time.Time { return now }, Delivery: Delivery{Printer: printer, Domain: "d.example",
			Look: mail.Look{Greeting: "Gracias"}}, GiveWay: func() func() { return nil }, Documents: Documents{
			View:      func(storage.Entry) (*record.View, error) { return &view, nil },
			Catalogue: func(list, code string) (string, bool) { return "Factura", list+code == "CAT-00201" }}})
		first, err := box.message(t.Context(), storage.Entry{}, "eva@example.com", "m", written)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		now = now.Add(48 * time.Hour)
		again, err := box.message(t.Context(), storage.Entry{}, "eva@example.com", "m", written)
		if err != nil || fmt.Sprint(first) != fmt.Sprint(again) {
			t.Errorf("%s: the next attempt is another message: %v", name, err)
		}
		var files []string
		for _, a := range first.Attachments {
			files = append(files, fmt.Sprintf("%s %s %.5s", a.Name, a.ContentType, a.Data))
		}
		if got := fmt.Sprint(files); got != `[C-1.pdf application/pdf %PDF- C-1.json application/json {"ide]` {
			t.Errorf("%s: the files %s", name, got)
		}
		for _, text := range []string{first.Text, first.HTML} {
			if !strings.Contains(text, "Eva") || !strings.Contains(text, "Gracias") ||
				!strings.Contains(text, "NIT 0614-010100-101-0") {
				t.Errorf("%s: %s", name, text)
			}
		}
		if whole := first.Text + first.HTML; first.ID != "m@d.example" || first.To != "eva@example.com" ||
			first.Subject != c.subject || !first.Date.Equal(written) || first.Date.Location() != dte.Zone ||
			len(first.Inline) != c.inline || !strings.Contains(whole, c.contains) || strings.Contains(whole, c.lack) {
			t.Errorf("%s: %q of %v, %d pictures: %s", name, first.Subject, first.Date, len(first.Inline), whole)
		}
	}
}
