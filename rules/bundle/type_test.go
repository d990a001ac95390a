package bundle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestParseType: an error in a type's parts names the part and the path.
func TestParseType(t *testing.T) {
	parts := make(map[string][]byte)
	for _, name := range TypeParts {
		data, err := os.ReadFile(filepath.Join("..", "..", "plugins", "dte11", name))
		if err != nil {
			t.Fatal(err)
		}
		parts[name] = data
	}
	if _, err := ParseType("11", parts); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][4]string{
		{"type.json", `"path": "dte11"`, `"path": "cierre"`,
			"type.json:5:10: path: \"cierre\" is a route of the API's own"},
		{"type.json", `"permission": "FACTURA_EXPORTACION"`, `"permission": "REENVIO"`,
			"permission: \"REENVIO\" is a permission of the API's own"},
		{"type.json", `"permission": "FACTURA_EXPORTACION"`, `"permission": "ANULACION"`,
			"permission: \"ANULACION\" is a permission of the API's own"},
		{"type.json", `"path": "dte11"`, `"path": "Dte/11"`, "is not like ventas"},
		{"type.json", `"name": "FACTURA_EXPORTACION"`, `"name": "factura"`, "name: \"factura\" is not like"},
		{"type.json", `"effect": "nothing"`, `"effect": "harms"`, "effect: \"harms\" is not"},
		{"type.json", `"effect": "nothing"`, `"effect": "credits"`, "origins: a type with an effect must list"},
		{"type.json", `"months": 3`, `"months": 0`, "invalidation: names no window"},
		{"type.json", `"months": 3`, `"months": 3, "businessDay": 4`, "names two windows"},
		{"type.json", `"tests": 90`, `"tests": 90, "contingencia": false`, "contingencia"},
		{"form.json", `"required": true, "catalogue": "CAT-022"`, `"requred": true`, "members[0].members[0].requred"},
		{"form.json", `"shape": "integer"`, `"shape": "whole"`, "shape: \"whole\" is not one of"},
		{"form.json", `{"use": "sale"`, `{"use": "sales"`, "use: \"sales\" is not one of"},
		{"form.json", `{"use": "sale", "extra": [`, `{"use": "sale", "extra": [{"name": "precio", "to": "precioUni"}, `,
			"extra[0]: every item already has a member precioUni"},
		{"form.json", `"shape": "number", "min": 0, "to": "resumen.seguro"`, `"min": 0, "to": "resumen.seguro"`,
			"min, max and above belong to a number"},
		{"view.json", `"paths": ["receptor"]`, `"paths": []`, "party: must give"},
		{"view.json", `"in": "terms"`, `"in": "elsewhere"`, "in: \"elsewhere\" is not"},
	} {
		changed := make(map[string][]byte)
		for name, data := range parts {
			changed[name] = data
		}
		if text := strings.Replace(string(parts[c[0]]), c[1], c[2], 1); text == string(parts[c[0]]) {
			t.Errorf("%s has no %s", c[0], c[1])
		} else {
			changed[c[0]] = []byte(text)
		}
		if _, err := ParseType("11", changed); err == nil || !strings.Contains(err.Error(), c[3]) {
			t.Errorf("%s, %s: %v", c[0], c[2], err)
		}
	}
	delete(parts, "view.json")
	if _, err := ParseType("11", parts); err == nil || !strings.Contains(err.Error(), "go together") {
		t.Errorf("two of three parts: %v", err)
	}
}
