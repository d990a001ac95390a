package tilltest

import (
	"net/http"
	"testing"
	"time"
)

// TestList_Span: a list spans 31 days, both counted, and no more.
func TestList_Span(t *testing.T) {
	b := Open(t, "00", time.Date(2026, 12, 1, 18, 0, 0, 0, time.UTC))
	for to, want := range map[string]int{"2026-11-01": http.StatusOK, "2026-11-30": http.StatusOK, "2026-12-01": http.StatusOK, "2026-12-02": http.StatusBadRequest, "2026-10-31": http.StatusBadRequest} {
		if got := b.Get("documentos?desde=2026-11-01&hasta=" + to); got.Status != want {
			t.Errorf("to %s: %d %s", to, got.Status, got.Body)
		}
	}
}
