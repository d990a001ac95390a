package page

import (
	"strings"
	"testing"
)

// TestPage_Month: the month so far has documents and amounts by type, as MH has sealed them; documents that do not
// count are a remark; a month that is still being counted says so.
func TestPage_Month(t *testing.T) {
	o := overviews()["normal"]
	for lang, want := range map[string][]string{
		"es": {"Lo que va de diciembre", "<td>4,210</td><td>$1,234,567.80</td>", "sin sello todavía: 12",
			"invalidados: 3", "<td>0</td><td>$0.00</td>", "rechazados: 1"},
		"en": {"So far in December", "<td>4,210</td><td>$1,234,567.80</td>", "without a seal yet: 12", "invalidated: 3",
			"rejected: 1"},
	} {
		page := string(renderStatus(lang, o))
		for _, text := range want {
			if !strings.Contains(page, text) {
				t.Errorf("%s: no %q", lang, text)
			}
		}
	}
	o.Month = nil
	if page := string(renderStatus("es", o)); !strings.Contains(page,
		"<h2>Este mes</h2><p>Contando por primera vez desde el arranque.") {
		t.Error("a month that is being counted")
	}
}
