package tilltest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestValidate: a sale that is only validated gets the total and the faults that it gets when issued, spends no number,
// and is stored nowhere. A request that is not a sale is refused when it asks to validate, and changes nothing.
func TestValidate(t *testing.T) {
	b := Open(t, "00", time.Date(2026, 12, 1, 18, 0, 0, 0, time.UTC))
	voucher := b.Post("dte03", []byte(example(t, "dte03")))
	invoice := b.Post("dte01", []byte(example(t, "dte01")))
	last := b.Store.LastID()
	for path, body := range map[string]string{
		"dte01":   example(t, "dte01"),
		"dte03":   example(t, "dte03"),
		"dte05":   example(t, "dte05", "ORIGINAL", voucher.Code),
		"dte06":   example(t, "dte06", "ORIGINAL", voucher.Code),
		"dte07":   example(t, "dte07"),
		"dte14":   example(t, "dte14"),
		"retorno": example(t, "retorno", "ORIGINAL", invoice.Code),
	} {
		tried := b.keyed("a key", path, body, "Prefer", "validate, wait=5")
		var said struct {
			Data struct {
				Valido          bool
				Total           string
				Resumen         json.RawMessage
				CuerpoDocumento json.RawMessage
			}
		}
		if err := json.Unmarshal(tried.Body, &said); err != nil || tried.Status != http.StatusOK || !said.Data.Valido {
			t.Errorf("%s: %s", path, tried.Body)
			continue
		}
		if b.Store.LastID() != last {
			t.Errorf("%s: something was stored", path)
		}
		made := b.keyed("key of "+path, path, body)
		last = b.Store.LastID()
		if made.Estado != "PROCESSED" || made.Total != said.Data.Total || !strings.Contains(made.Document,
			string(said.Data.Resumen)) ||
			!strings.Contains(made.Document, string(said.Data.CuerpoDocumento)) {
			t.Errorf("%s: validated\n%s\nissued\n%s %s", path, tried.Body, made.Total, made.Document)
		}
	}
	bad := strings.Replace(example(t, "dte01"), `"cantidad": 10`, `"cantidad": -10`, 1)
	tried, refused := b.keyed("", "dte01", bad, "Prefer", "validate"), b.Post("dte01", []byte(bad))
	if tried.Status != http.StatusBadRequest || string(tried.Body) != string(refused.Body) || len(tried.Faults) == 0 {
		t.Errorf("%s\n%s", tried.Body, refused.Body)
	}
	for path, body := range map[string]string{"correccion/" + invoice.Code: example(t, "invalidacion"),
		"invalidacion/" + invoice.Code: example(t, "invalidacion"), "resend/" + invoice.Code: "", "cierre": ""} {
		if a := b.keyed("", path, body, "Prefer", "validate"); a.Status != http.StatusBadRequest {
			t.Errorf("%s: %s", path, a)
		}
	}
	if now := b.Get("documento/" + invoice.Code); now.Estado != "PROCESSED" || b.Store.LastID() != last {
		t.Error(now)
	}
}
