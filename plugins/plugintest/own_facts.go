package plugintest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/engine/dte"
)

// BaseFacts are the facts of a document except its lines and its summary, as one JSON text, for people to read.
func BaseFacts(document string) dte.Value {
	v, err := dte.Parse([]byte(strings.ReplaceAll(`{
"identificacion": {"ambiente": "00", "numeroControl": "DTE-$-M001P001-000000000000001", "codigoGeneracion": "FF84E5DB-79C5-42CE-B415-EC510C53EFB5",
  "tipoModelo": 1, "tipoOperacion": 1, "tipoContingencia": null, "motivoContin": null, "fecEmi": "2026-12-02", "horEmi": "10:15:30", "tipoMoneda": "USD"},
"emisor": {"nit": "06141804941035", "nrc": "2390516", "nombre": "Tienda, S.A. de C.V.", "nombreComercial": "La Tienda", "tipoEstablecimiento": "02",
  "codActividad": "47111", "descActividad": "Venta en supermercados", "telefono": "22571234", "correo": "a@example.com", "codEstable": "M001", "codPuntoVenta": "P001",
  "direccion": {"departamento": "06", "municipio": "23", "distrito": "14", "complemento": "Calle Arce"}},
"receptor": {"tipoDocumento": "13", "numDocumento": "012345678", "nrc": null, "nombre": "Receptor", "codActividad": "62010", "descActividad": "Programación informática",
  "nombreComercial": null, "telefono": null, "correo": "b@example.com", "direccion": {"departamento": "06", "municipio": "23", "distrito": "14", "complemento": "Calle Arce"}},
"resumen": {"condicionOperacion": 1}}`, "$", document)))
	if err != nil {
		panic(err)
	}
	return v
}

// Examples are documents of the oracle folder by file name; tests that need them skip without it.
func Examples(t *testing.T, pattern string) map[string]dte.Value {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(Root(t), "..", "shared", "mh", "examples", filepath.FromSlash(pattern)))
	all := make(map[string]dte.Value)
	for _, path := range files {
		if strings.HasSuffix(path, ".response.json") {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(path)] = Read(t, b)
	}
	if len(all) == 0 {
		skip.Test(t, skip.MHDocuments)
	}
	return all
}

// FactsOf derives the facts that a document was filled from: values that the overlay moved return to their places, and
// values that it made are removed.
func FactsOf(t testing.TB, overlay []byte, document dte.Value) dte.Value {
	t.Helper()
	var o struct {
		From []struct{ Path, Fact string }
	}
	if err := json.Unmarshal(overlay, &o); err != nil {
		t.Fatal(err)
	}
	facts := document
	values := make(map[string]dte.Value)
	for _, e := range o.From {
		if e.Path == e.Fact {
			continue
		}
		steps := strings.Split(e.Path, ".")
		values[e.Path] = get(document, steps)
		facts = without(facts, steps)
	}
	for _, e := range o.From {
		if v := values[e.Path]; e.Fact != "" && e.Path != e.Fact && v.Exists() {
			facts = with(facts, strings.Split(e.Fact, "."), v)
		}
	}
	return facts
}

func get(v dte.Value, steps []string) dte.Value {
	for _, name := range steps {
		v = v.Get(name)
	}
	return v
}

func with(v dte.Value, steps []string, x dte.Value) dte.Value {
	if len(steps) > 1 {
		x = with(v.Get(steps[0]), steps[1:], x)
	}
	return v.With(steps[0], x)
}

func without(v dte.Value, steps []string) dte.Value {
	if v.Kind() != dte.KindObject {
		return v
	}
	var kept []dte.Member
	for _, m := range v.Members() {
		if m.Name == steps[0] {
			if len(steps) == 1 {
				continue
			}
			m.Value = without(m.Value, steps[1:])
		}
		kept = append(kept, m)
	}
	return dte.Obj(kept...)
}

// Differences returns the paths at which two documents differ: members in any order, numbers by value.
func Differences(a, b dte.Value, at string) []string {
	if a.Kind() != b.Kind() {
		return []string{at + ": " + string(a.Append(nil)) + " against " + string(b.Append(nil))}
	}
	var found []string
	switch a.Kind() {
	case dte.KindObject:
		names := make(map[string]bool)
		for _, v := range []dte.Value{a, b} {
			for _, m := range v.Members() {
				if !names[m.Name] {
					names[m.Name] = true
					if a.Get(m.Name).Exists() != b.Get(m.Name).Exists() {
						found = append(found, at+"."+m.Name+": only one has it")
						continue
					}
					found = append(found, Differences(a.Get(m.Name), b.Get(m.Name), at+"."+m.Name)...)
				}
			}
		}
	case dte.KindArray:
		if a.Len() != b.Len() {
			return []string{at + ": of different lengths"}
		}
		for i := range a.Len() {
			found = append(found, Differences(a.Index(i), b.Index(i), at+"[]")...)
		}
	case dte.KindNumber:
		x, err1 := a.Amount()
		y, err2 := b.Amount()
		if err1 != nil || err2 != nil || x != y {
			found = append(found, at+": "+a.Text()+" against "+b.Text())
		}
	default:
		if string(a.Append(nil)) != string(b.Append(nil)) {
			found = append(found, at+": "+string(a.Append(nil))+" against "+string(b.Append(nil)))
		}
	}
	return found
}
