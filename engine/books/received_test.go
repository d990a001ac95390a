package books

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mailed is the file of a supplier's document; change alters it after it was signed.
func mailed(t *testing.T, kind, code, body string, change ...string) []byte {
	t.Helper()
	issuer := `{"nit":"06140101901011","nrc":"12345","nombre":"Proveedora, S.A."}`
	if strings.HasSuffix(code, "9") {
		issuer = `{"nit":"012345678","nrc":"777","nombre":"Persona Natural"}`
	}
	document := fmt.Sprintf(`{"identificacion":{"ambiente":"01","tipoDte":%q,"numeroControl":"DTE-%s-M001P001-0000000000000%s","codigoGeneracion":`+
		`"5B0C2A6E-4D6F-4F3C-9C55-0A1B2C3D4E%s","fecEmi":"2026-11-05","horEmi":"10:00:00"},"emisor":%s,`+
		`"receptor":{"nit":"06141804941035","nrc":"2390516","nombre":"Tienda"},%s}`, kind, kind, code, code, issuer,
		body)
	payload := base64.RawURLEncoding.EncodeToString([]byte(document))
	text := strings.TrimSuffix(document, "}") + `,"firmaElectronica":"e30.` + payload + `.AAAA","selloRecibido":"` +
		strings.Repeat("A", 40) + `"}`
	for i := 0; i < len(change); i += 2 {
		if !strings.Contains(text, change[i]) {
			t.Fatalf("no %s in %s", change[i], text)
		}
		text = strings.ReplaceAll(text, change[i], change[i+1])
	}
	return []byte(text)
}

// TestReceived: each file of a supplier is in its annexes, cell by cell as the manual has them, or is named with why.
func TestReceived(t *testing.T) {
	voucher := `"cuerpoDocumento":[{"tipoItem":1,"ventaGravada":100,"ventaExenta":8}],"resumen":{"totalGravada":100,"totalExenta":8,` +
		`"tributos":[{"codigo":"20","valor":13}],"ivaPerci":1}`
	withheld := `"cuerpoDocumento":[{"montoSujetoGrav":500,"codigoRetencionMH":"22","ivaRetenido":5},{"montoSujetoGrav":10,"codigoRetencionMH":"C4","ivaRetenido":1.3}],"resumen":{}`
	unsigned := func(b []byte) []byte {
		i := strings.Index(string(b), `,"firmaElectronica"`)
		return []byte(string(b[:i]) + string(b[i+strings.Index(string(b[i:]), `,"sello`):]))
	}
	seal := strings.Repeat("A", 40)
	b, err := New(Options{Month: "2026-11", Settings: Settings{}, Dir: t.TempDir(), Received: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, c := range []struct {
		name   string
		data   []byte
		motive string // "" when it is placed
	}{
		{"a.json", mailed(t, "03", "01", voucher), ""},
		{"b.json", mailed(t, "05", "19", voucher, `"ivaPerci":1`, `"ivaPerci":0`), "difieren en resumen"},
		{"c.json", mailed(t, "05", "29", strings.Replace(voucher, `"ivaPerci":1`, `"ivaPerci":0`, 1)), ""},
		{"d.json", mailed(t, "07", "03", withheld), ""},
		{"e.json", mailed(t, "09", "04",
			`"cuerpoDocumento":{"montoSujetoPercepcion":1000,"ivaPercibido":20},"resumen":null`), ""},
		{"f.json", mailed(t, "03", "01", voucher), "el mismo documento que a.json"},
		{"g.json", mailed(t, "03", "05", voucher, `"receptor":{"nit":"06141804941035","nrc":"2390516"`,
			`"receptor":{"nit":"06140000000000","nrc":"1"`), "a nombre de otro"},
		{"h.json", mailed(t, "03", "06", voucher, `"fecEmi":"2026-11-05"`, `"fecEmi":"2026-09-05"`),
			"es de 2026-09-05"},
		{"i.json", mailed(t, "03", "07", voucher, seal, ""), "sello"},
		{"j.json", mailed(t, "03", "08", voucher, `"ambiente":"01"`, `"ambiente":"00"`), "ambiente 00"},
		{"k.json", mailed(t, "01", "10", voucher), "consumidor final"},
		{"l.json", []byte(`{"resumen":`), "no es el JSON"},
		{"m.json", []byte(`{"resumen":[]}`), "no tiene la forma"},
		{"n.json", []byte(`{}`), "no es válido tipoDte"},
		{"o.json", nil, "no es el JSON"},
		{"p.json", mailed(t, "06", "12", voucher, "DTE-06-", "DTE-03-"), "es de un 03"},
		{"q.json", unsigned(mailed(t, "06", "13", strings.Replace(voucher, `"valor":13`, `"valor":12`, 1))), ""},
		{"r.json", mailed(t, "07", "14", strings.ReplaceAll(withheld, `"22"`, `"C9"`)), "código C4"},
	} {
		if err := b.Receive(c.name, c.data, Addressee{NIT: "0614-180494-103-5", NRC: "239051-6"}); err != nil {
			t.Fatal(err)
		}
		got := b.Received()[len(b.Received())-1]
		if c.motive == "" && (got.Motive != "" || len(got.Files) == 0) || !strings.Contains(got.Motive, c.motive) {
			t.Errorf("%+v, want %q", got, c.motive)
		}
	}
	if notes := b.Received()[16].Notes; len(notes) != 2 || !strings.Contains(notes[0], "firma") ||
		!strings.Contains(notes[1], "13 %") {
		t.Errorf("of what is not signed and adds up wrongly: %q", notes)
	}
	if err := b.Finish(); err != nil {
		t.Fatal(err)
	}
	code := func(n string) string { return "5B0C2A6E4D6F4F3C9C550A1B2C3D4E" + n }
	for name, want := range map[string]string{
		"anexo03.csv": "05/11/2026;4;03;" + code("01") + ";06140101901011;Proveedora, " +
			"S.A.;8.00;0.00;0.00;100.00;0.00;0.00;0.00;13.00;108.00;;1;1;2;5;3\r\n" +
			"05/11/2026;4;06;" + code("13") + ";06140101901011;Proveedora, " +
			"S.A.;8.00;0.00;0.00;100.00;0.00;0.00;0.00;12.00;108.00;;1;1;2;5;3\r\n" +
			"05/11/2026;4;05;" + code("29") + ";;Persona " +
			"Natural;8.00;0.00;0.00;100.00;0.00;0.00;0.00;13.00;108.00;012345678;1;1;2;5;3\r\n",
		"anexo06.csv": "06140101901011;05/11/2026;" + seal + ";" + code("04") + ";1000.00;20.00;;6\r\n",
		"anexo07.csv": "06140101901011;05/11/2026;07;" + seal + ";" + code("03") + ";500.00;5.00;;7\r\n",
		"anexo08.csv": "06140101901011;05/11/2026;03;" + seal + ";" + code("01") + ";100.00;1.00;;8\r\n" +
			"06140101901011;05/11/2026;06;" + seal + ";" + code("13") + ";100.00;1.00;;8\r\n",
	} {
		got, err := os.ReadFile(filepath.Join(b.o.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		rows, wanted := strings.SplitAfter(string(got), "\n"), strings.SplitAfter(want, "\n")
		for _, row := range wanted {
			if !strings.Contains(string(got), row) || len(rows) != len(wanted) {
				t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
				break
			}
		}
	}
	var summary struct {
		Received []ReceivedFile `json:"recibidos"`
	}
	data, err := os.ReadFile(filepath.Join(b.o.Dir, SummaryName))
	if err != nil || json.Unmarshal(data, &summary) != nil || len(summary.Received) != 18 {
		t.Errorf("%v: %s", err, data)
	}
}
