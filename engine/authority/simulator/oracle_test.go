package simulator_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dtegate/engine/authority/simulator"
)

// oracle is the folder of MH's schemas and of example documents beside the checkout; the test is skipped without it.
func oracle(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
	dir = filepath.Join(dir, "..", "shared", "mh")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no oracle folder beside the checkout")
	}
	return dir
}

// examples are the documents of the generations that the simulator receives, by file name.
func examples(t testing.TB) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	for _, pattern := range []string{"01/v2_*.json", "03/v4_*.json"} {
		files, err := filepath.Glob(filepath.Join(oracle(t), "examples", filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %d files", pattern, err, len(files))
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all[filepath.Base(f)] = data
		}
	}
	return all
}

// branchOf is open for the issuer and on the day of a document.
func branchOf(t *testing.T, d *tree) *branch {
	t.Helper()
	id := d.get("emisor.nit").(string)
	day, err := time.Parse(time.DateOnly, d.get("identificacion.fecEmi").(string))
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, func(o *simulator.Options) {
		o.Issuers[0].NIT, o.Issuers[0].NRC = id, d.get("emisor.nrc").(string)
	})
	b.clock.set(day.Add(20 * time.Hour))
	b.login(id)
	return b
}

func TestOracle_ExamplesAreAccepted(t *testing.T) {
	for name, data := range examples(t) {
		t.Run(name, func(t *testing.T) {
			d := parse(t, data)
			b := branchOf(t, d)
			if strings.Contains(name, "contingency") {
				b.refused(d, "014", "[identificacion.tipoContingencia] NO EXISTE UN REGISTRO CON ESTE DATO")
				for path, v := range map[string]any{"tipoModelo": 1, "tipoOperacion": 1, "tipoContingencia": nil} {
					d.set("identificacion."+path, v)
				}
			}
			if a := b.accepted(d); a.CodigoMsg != "001" {
				t.Error(a)
			}
		})
	}
}

// Documents that the real apitest refused, brought up to this generation, are refused with the same words.
func TestOracle_RefusedAsByMH(t *testing.T) {
	for _, name := range []string{
		"01_subTotal_item_discount_repeated_as_global", "01_schema_tributo20_in_fe", "03_subTotal_item_discount_repeated_as_global",
		"03_tributo20_wrong", "03_tributo20_wrong_base", "03_tributos_missing", "03_receptor_nit_unknown",
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(oracle(t), "examples", "_rejected")
			data, err := os.ReadFile(filepath.Join(dir, name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := os.ReadFile(filepath.Join(dir, name+".mh.json"))
			if err != nil {
				t.Fatal(err)
			}
			var mh struct{ DescripcionMsg string }
			if err := json.Unmarshal(answer, &mh); err != nil {
				t.Fatal(err)
			}
			d := raised(parse(t, data))
			b := branchOf(t, d)
			if strings.Contains(name, "unknown") {
				b = open(t, func(o *simulator.Options) {
					o.Issuers[0].NIT, o.Taxpayers = d.get("emisor.nit").(string), []string{"06140101010101"}
				})
				b.clock.set(noon)
				d.set("identificacion.fecEmi", "2026-12-15")
			}
			a := b.send(d)
			if a.status != 400 || a.DescripcionMsg != mh.DescripcionMsg {
				t.Errorf("got %v, MH said %q", a, mh.DescripcionMsg)
			}
		})
	}
}

// raised makes a document of the previous generation one of the current: members renamed, dropped and added, amounts
// untouched.
func raised(d *tree) *tree {
	root := d.root
	delete(root, "extension")
	tipo := d.get("identificacion.tipoDte").(string)
	serial := d.get("identificacion.numeroControl").(string)
	d.set("identificacion.numeroControl", "DTE-"+tipo+"-M001P001-"+serial[len(serial)-15:])
	emisor, sum := root["emisor"].(map[string]any), root["resumen"].(map[string]any)
	for _, name := range []string{"tipoEstablecimiento", "codEstableMH", "codPuntoVentaMH"} {
		delete(emisor, name)
	}
	emisor["codEstable"], emisor["codPuntoVenta"] = "M001", "P001"
	place := map[string]any{"departamento": "06", "municipio": "23", "distrito": "14", "complemento": "Calle 1"}
	emisor["direccion"] = place
	emisor["codActividad"] = "47521"
	if receptor, ok := root["receptor"].(map[string]any); ok && receptor != nil {
		receptor["direccion"] = place
		if receptor["codActividad"] != nil {
			receptor["codActividad"] = "41001"
		}
		if tipo == "01" {
			receptor["tipoDocumento"], receptor["numDocumento"] = "37", "X1"
		}
	}
	sum["ivaRete"] = sum["ivaRete1"]
	delete(sum, "ivaRete1")
	delete(sum, "reteRenta")
	sum["observaciones"] = nil
	sum["pagos"] = nil
	if tipo == "03" {
		sum["ivaPerci"] = sum["ivaPerci1"]
		delete(sum, "ivaPerci1")
		root["identificacion"].(map[string]any)["version"] = json.Number("4")
	} else {
		root["identificacion"].(map[string]any)["version"] = json.Number("2")
	}
	return d
}
