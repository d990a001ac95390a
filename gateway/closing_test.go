package gateway

import (
	"net/http"
	"testing"
	"time"
)

// A Z is numbered and final: only a token that may issue documents closes a day, and any that reads all sees it.
func TestCloseDay_Permission(t *testing.T) {
	secret := []byte("secret of the test")
	for permission, want := range map[string]int{"CONSULTA": 403, "ANULACION": 403, "REENVIO": 403,
		"FACTURA_CONSUMIDOR_FINAL": 201, "DE_UN_TIPO_NUEVO": 201} {
		fake := new(said)
		table := NewTokenTable(secret, []Token{{ID: 1, Hash: keyed("may", secret),
			Permissions: []string{"CONSULTA", permission}}})
		url := served(t, New(Options{Sales: fake, Documents: fake, Outbox: fake, Tokens: table,
			Now: time.Now}).Serve)
		for method, want := range map[string]int{http.MethodPost: want, http.MethodGet: 200} {
			req, err := http.NewRequest(method, url+"/dte/cierre", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("x-api-token", "may")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s with CONSULTA %s: %d, want %d", method, permission, resp.StatusCode, want)
			}
		}
		if fake.closed != (want == 201) {
			t.Errorf("with CONSULTA %s: closed: %v", permission, fake.closed)
		}
	}
}
