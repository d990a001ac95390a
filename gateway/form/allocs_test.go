//go:build !race

package form

import (
	"strings"
	"testing"
)

// TestFill_Allocations holds how many allocations the form of a sale of ten lines makes. If a change needs more, change
// the limit.
func TestFill_Allocations(t *testing.T) {
	const most = 48 // 47 on 2026-11-30
	line := `{"codigo":"A-1","descripcion":"Artículo de la línea","cantidad":2,"precioUnitario":1.95}`
	body := parsed(t, `{"receptor":{"nombre":"Ana Pérez","tipoDocumento":"13","numDocumento":"00000000-0","correo":`+
		`"a@example.com"},"items":[`+strings.Repeat(line+",", 9)+line+`],"condicionOperacion":1}`)
	if n := testing.AllocsPerRun(100, func() { Documents["01"].Fill(body, nil) }); n > most {
		t.Errorf("the form of a sale of ten lines makes %v allocations, want at most %d", n, most)
	}
}
