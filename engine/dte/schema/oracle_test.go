package schema

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/skip"
	"dtegate/engine/dte"
)

// published are the schema files by type and version, as the documents name them.
var published = map[string]string{
	"01 2": "2026-08-11_v2.0-current/v2/fe-f-v2.json", "03 4": "2026-08-11_v2.0-current/v4/fe-ccf-v4.json",
	"05 4": "2026-08-11_v2.0-current/v4/fe-nc-v4.json", "06 4": "2026-08-11_v2.0-current/v4/fe-nd-v4.json",
	"07 2": "2026-08-11_v2.0-current/v2/fe-cr-v2.json", "14 2": "2026-08-11_v2.0-current/v2/fe-fse-v2.json",
	"18 1":           "2026-08-11_v2.0-current/v1/fe-eret-v1.json",
	"contingencia 4": "2026-08-11_v2.0-current/v4/contingencia-schema-v4.json",
	"invalidacion 3": "2026-08-11_v2.0-current/v3/invalidacion-schema-v3.json",
	"01 1":           "prev-generation/fe-fc-v1.json", "03 3": "prev-generation/fe-ccf-v3.json",
	"05 3": "prev-generation/fe-nc-v3.json", "06 3": "prev-generation/fe-nd-v3.json",
	"07 1": "prev-generation/fe-cr-v1.json", "14 1": "prev-generation/fe-fse-v1.json",
	"contingencia 3": "prev-generation/contingencia-schema-v3.json",
	"invalidacion 2": "prev-generation/anulacion-schema-v2.json",
}

// misspelt are the keywords that MH's files spell wrong.
var misspelt = map[string]string{
	"fe-cd-v1.json":  `{"path":"donante.codActividad","keyword":"trype","reason":"type, misspelt"}`,
	"fe-nc-v3.json":  `{"path":"resumen.subTotalVentas","keyword":"exclusiveMonimun","reason":"exclusiveMinimum, misspelt"}`,
	"fe-nd-v3.json":  `{"path":"resumen.subTotalVentas","keyword":"exclusiveMonimun","reason":"exclusiveMinimum, misspelt"}`,
	"fe-fex-v1.json": `{"path":"emisor.regimen","keyword":"minimun","reason":"minimum, misspelt"}`,
}

// stale are the address conditions of the previous generation that MH's live validator no longer applies: accepted
// documents breach them.
var stale = map[string][]string{
	"fe-fc-v1.json": {"emisor.direccion", "receptor.direccion"}, "fe-ccf-v3.json": {"emisor.direccion",
		"receptor.direccion"},
	"fe-nc-v3.json": {"emisor.direccion", "receptor.direccion"}, "fe-nd-v3.json": {"emisor.direccion",
		"receptor.direccion"},
	"fe-cr-v1.json": {"emisor.direccion", "receptor.direccion"}, "fe-fse-v1.json": {"emisor.direccion",
		"sujetoExcluido.direccion"},
}

// drops returns an overlay that removes the known defects from a file, and the stale conditions too if loose is set.
func drops(file string, loose bool) []byte {
	var all []string
	if d, ok := misspelt[file]; ok {
		all = append(all, d)
	}
	if loose {
		for _, path := range stale[file] {
			all = append(all, `{"path":"`+path+`","keyword":"allOf","reason":"stale"}`)
			for _, name := range []string{"departamento", "municipio"} {
				all = append(all, `{"path":"`+path+`.`+name+`","keyword":"pattern","reason":"stale"}`)
			}
		}
	}
	return []byte(`{"drop":[` + strings.Join(all, ",") + `]}`)
}

func schemaFiles(t testing.TB) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(skip.Folder(t), "schemas"), func(path string, d os.DirEntry,
		err error) error {
		if err == nil && strings.HasSuffix(path, ".json") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.TrimPrefix(string(b), "\ufeff"))
}

// example is one document of the oracle folder.
type example struct {
	name, schema string
	document     dte.Value
}

// notMH are members that people's archives add around a document.
var notMH = map[string]bool{
	"firmaElectronica": true, "selloRecibido": true, "sello": true, "respuestaHacienda": true, "responseMH": true,
	"selloRecepcion": true,
}

func examples(t testing.TB) []example {
	t.Helper()
	var all []example
	root := skip.Folder(t)
	err := filepath.WalkDir(filepath.Join(root, "examples"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".json") || strings.HasSuffix(path, ".response.json") {
			return err
		}
		rel, _ := filepath.Rel(filepath.Join(root, "examples"), path)
		if strings.HasPrefix(rel, "_") {
			return nil
		}
		v, err := dte.Parse(read(t, path))
		if err != nil {
			t.Errorf("%s: %v", rel, err)
			return nil
		}
		var kept []dte.Member
		for _, m := range v.Members() {
			if !notMH[m.Name] {
				kept = append(kept, m)
			}
		}
		v = dte.Obj(kept...)
		id := v.Get("identificacion")
		kind := id.Get("tipoDte").Text() + id.Get("tipoEvento").Text()
		if kind == "" {
			kind, _, _ = strings.Cut(rel, string(filepath.Separator))
		}
		if file, ok := published[kind+" "+id.Get("version").Text()]; ok {
			all = append(all, example{rel, filepath.Join(root, "schemas", file), v})
		} else {
			t.Logf("%s: no schema for %s %s", rel, kind, id.Get("version").Text())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func compile(t testing.TB, path, overlay string, out Outputs) *Filler {
	t.Helper()
	f, err := Compile(read(t, path), []byte(overlay), out, nil)
	if err != nil {
		t.Fatalf("%s: %v", filepath.Base(path), err)
	}
	return f
}

func TestCompileSchema_EveryPublishedFile(t *testing.T) {
	files := schemaFiles(t)
	if len(files) < 28 {
		t.Fatalf("only %d schemas", len(files))
	}
	for _, path := range files {
		name := filepath.Base(path)
		if _, err := Compile(read(t, path), drops(name, false), Outputs{}, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, known := misspelt[name]; known {
			if _, err := Compile(read(t, path), nil, Outputs{}, nil); err == nil {
				t.Errorf("%s: its misspelt keyword was taken", name)
			} else {
				t.Log(err)
			}
		}
	}
}

// sameJSON compares by value: numbers exactly, members in any order.
func sameJSON(t testing.TB, a, b []byte) bool {
	t.Helper()
	return canonical(t, a) == canonical(t, b)
}

func canonical(t testing.TB, data []byte) string {
	t.Helper()
	v, err := dte.Parse(data)
	if err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	var plain any
	if err := json.Unmarshal(v.Append(nil), &plain); err != nil { // numbers are in shortest form by now
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(string(v.Append(nil))))
	dec.UseNumber()
	if err := dec.Decode(&plain); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(plain)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestFill_ExamplesComeBack(t *testing.T) {
	all := examples(t)
	if len(all) < 60 {
		t.Errorf("only %d examples", len(all))
	}
	fillers := map[string]*Filler{}
	for _, e := range all {
		f := fillers[e.schema]
		if f == nil {
			f = compile(t, e.schema, string(drops(filepath.Base(e.schema), true)), Outputs{})
			fillers[e.schema] = f
		}
		got, faults := f.Fill(nil, e.document, nil, FillOptions{})
		for _, fault := range faults {
			t.Errorf("%s: %s", e.name, fault.Error())
		}
		if faults == nil && !sameJSON(t, got, e.document.Append(nil)) {
			t.Errorf("%s: came back as\n%s\nnot\n%s", e.name, got, e.document.Append(nil))
		}
	}
	t.Logf("%d documents", len(all))
}

// The amounts of every document that MH accepted agree, by the layouts of both generations; after one of its totals is
// changed by a dollar, each document is contradicted.
func TestAddUp_Examples(t *testing.T) {
	judge := func(f *Filler, document dte.Value) dte.Fault {
		r := f.runs.Get().(*run)
		defer r.release()
		r.grow(1)
		r.load(0, 0, &document)
		r.addUp()
		return r.contradiction
	}
	checked, found := 0, 0
	for _, e := range examples(t) {
		f := compile(t, e.schema, string(drops(filepath.Base(e.schema), true)), Outputs{})
		if wrong := judge(f, e.document); wrong.Code != "" {
			t.Errorf("%s: %s", e.name, wrong.Error())
		}
		resumen := e.document.Get("resumen")
		for _, name := range []string{"totalGravada", "totalCompra", "subTotalVentas", "subTotal",
			"montoTotalOperacion", "totalPagar", "totalIvaRetenido"} {
			was, err := resumen.Get(name).Amount()
			if err != nil {
				continue
			}
			checked++
			if judge(f, e.document.With("resumen", resumen.With(name, dte.Num(was+dte.Scale)))).Code != "" {
				found++
			}
		}
	}
	if checked < 200 || found != checked {
		t.Errorf("%d of %d totals that are a dollar too much are found", found, checked)
	}
}
