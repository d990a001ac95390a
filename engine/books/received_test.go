package books

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dtegate/cmd/cmdtest/skip"
)

// mailed returns the file of a supplier's document; change alters it after it was signed.
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

// TestReceived: each supplier's file is in its annexes, cell by cell as in the manual, or is named with the reason.
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
	for _, c := range []struct {
		name   string
		data   []byte
		motive string // "" if it is placed
	}{
		{"a.json", mailed(t, "03", "01", voucher), ""},
		{"b.json", mailed(t, "05", "19", voucher, `"ivaPerci":1`, `"ivaPerci":0`), "difieren en resumen"},
		{"c.json", mailed(t, "05", "19", strings.Replace(voucher, `"ivaPerci":1`, `"ivaPerci":0`, 1)), ""},
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
		{"s.json", mailed(t, "06", "15", voucher, `,"selloRecibido"`,
			`,"Resumen":{"totalExenta":9000,"ivaPerci":9},"selloRecibido"`), ""},
		{"t.json", mailed(t, "06", "16", voucher, `"resumen":{`, `"resumen":{"totalNoSuj":9000},"resumen":{`), "no es el JSON"},
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
			"05/11/2026;4;05;" + code("19") + ";;Persona " +
			"Natural;8.00;0.00;0.00;100.00;0.00;0.00;0.00;13.00;108.00;012345678;1;1;2;5;3\r\n" +
			"05/11/2026;4;06;" + code("15") + ";06140101901011;Proveedora, " +
			"S.A.;8.00;0.00;0.00;100.00;0.00;0.00;0.00;13.00;108.00;;1;1;2;5;3\r\n",
		"anexo06.csv": "06140101901011;05/11/2026;" + seal + ";" + code("04") + ";1000.00;20.00;;6\r\n",
		"anexo07.csv": "06140101901011;05/11/2026;07;" + seal + ";" + code("03") + ";500.00;5.00;;7\r\n",
		"anexo08.csv": "06140101901011;05/11/2026;03;" + seal + ";" + code("01") + ";100.00;1.00;;8\r\n" +
			"06140101901011;05/11/2026;06;" + seal + ";" + code("13") + ";100.00;1.00;;8\r\n" +
			"06140101901011;05/11/2026;06;" + seal + ";" + code("15") + ";100.00;1.00;;8\r\n",
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
	if err != nil || json.Unmarshal(data, &summary) != nil || len(summary.Received) != 20 {
		t.Errorf("%v: %s", err, data)
	}
	other := mailed(t, "03", "17", voucher, `"receptor":{"nit":"06141804941035","nrc":"2390516"`,
		`"receptor":{"nit":"06140000000000"`)
	if err := b.Receive("u.json", other, Addressee{NIT: "06141804941035"}); err != nil ||
		!strings.Contains(b.Received()[20].Motive, "a nombre de otro") {
		t.Errorf("neither the document nor the taxpayer has an NRC: %+v, %v", b.Received()[20], err)
	}
}

// TestReceived_Elsewhere: what no annex of received documents takes is named with its own reason, whatever the two
// parties are called in its generation.
func TestReceived_Elsewhere(t *testing.T) {
	b, err := New(Options{Month: "2026-11", Dir: t.TempDir(), Received: true})
	if err != nil {
		t.Fatal(err)
	}
	const nit, receptor = `"emisor":{"nit":`, `"receptor":{"nit":"06141804941035","nrc":"2390516",`
	const kind = `"receptor":{"tipoDocumento":"36","numDocumento":"06141804941035",`
	sold := `"cuerpoDocumento":[{"tipoItem":1,"ventaGravada":100}],"resumen":{"totalGravada":100}`
	for i, c := range []struct {
		kind, body, motive string
		change             []string
	}{
		{"04", sold, "nota de remisión", []string{receptor, kind}},
		{"08", sold, "comprobante de liquidación", []string{receptor, kind}},
		{"08", sold, "comprobante de liquidación", nil},
		{"09", `"cuerpoDocumento":{"montoSujetoPercepcion":1000,"ivaPercibido":0},"resumen":null`, "no percibe el 2 %", nil},
		{"11", sold, "solo un usuario de zona franca o DPA", []string{receptor, kind}},
		{"14", sold, "sujeto excluido", []string{receptor, kind}},
		{"14", sold, "sujeto excluido", []string{receptor, strings.Replace(kind, "receptor", "sujetoExcluido", 1)}},
		{"15", sold, "comprobante de donación", []string{receptor, kind, nit, `"emisor":{"tipoDocumento":"36","numDocumento":`}},
		{"15", sold, "comprobante de donación", []string{receptor, strings.Replace(kind, "receptor", "donante", 1), nit,
			`"donatario":{"tipoDocumento":"36","numDocumento":`}},
	} {
		file := regexp.MustCompile(`,"firmaElectronica":"[^"]*"`).ReplaceAll(mailed(t, c.kind, fmt.Sprint(10+i), c.body,
			c.change...), nil)
		if err := b.Receive("x.json", file, Addressee{NIT: "06141804941035"}); err != nil {
			t.Fatal(err)
		}
		if got := b.Received()[i]; len(got.Files) > 0 || !strings.Contains(got.Motive, c.motive) {
			t.Errorf("%s: %+v, want %q", c.kind, got, c.motive)
		}
	}
}

// column is a row of a manual's table of columns: the letter, the content, and the number of characters.
var column = regexp.MustCompile(`^\s+([A-U])\s{3,}\S.*?\s{3,}([0-9]+|SIN LÍMITE)\s*$`)

// columnsOf reads the table of columns of a section of MH's manual, such as "V.": the widths, 0 for no limit.
func columnsOf(t *testing.T, manual, section string) (widths []int) {
	t.Helper()
	at := strings.LastIndex(manual, section) // the table of contents has it too
	if at < 0 {
		t.Fatalf("the manual has no section %s", section)
	}
	for line := range strings.Lines(manual[at:]) {
		if m := column.FindStringSubmatch(line); m != nil && m[1] == string(rune('A'+len(widths))) {
			n, _ := strconv.Atoi(m[2])
			widths = append(widths, n)
		} else if len(widths) > 0 {
			return widths
		}
	}
	return nil
}

// TestReceived_Manual: a hundred random documents of suppliers, each cell as the manual's own columns require. The
// expected content below was read from the manual, pp. 12-15, 28-29, 31-32, 34-35, and not from the Go.
func TestReceived_Manual(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(skip.Folder(t), "manuals", "f07_v14_annexes.txt"))
	if err != nil {
		t.Fatal(err)
	}
	manual := string(text)
	widths := map[string][]int{"03": columnsOf(t, manual, "    V.        DETALLE DE COMPRAS"),
		"06": columnsOf(t, manual, "VIII.        ANTICIPO"), "07": columnsOf(t, manual, "IX.       RETENCIÓN"),
		"08": columnsOf(t, manual, "X.              PERCEPCIÓN")}
	b, err := New(Options{Month: "2026-11", Dir: t.TempDir(), Received: true})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(35, 37))
	cents := func(n int) string { return fmt.Sprintf("%d.%02d", n/100, n%100) }
	want := make(map[string][]string)
	for i := range 100 {
		kind := []string{"03", "05", "06", "07", "09"}[rng.IntN(5)]
		suffix := fmt.Sprintf("%02d", i)
		number, seal := "5B0C2A6E4D6F4F3C9C550A1B2C3D4E"+suffix, strings.Repeat("A", 40)
		nit, dui, name := "06140101901011", "", "Proveedora, S.A."
		if i%10 == 9 {
			nit, dui, name = "", "012345678", "Persona Natural"
		}
		put := func(annex string, cells ...string) {
			want[annex] = append(want[annex], strings.Join(cells, ";"))
			for c, width := range widths[annex] {
				if len(widths[annex]) != len(cells) || width > 0 && len(cells[c]) > width {
					t.Fatalf("annex %s has the widths %v: %v", annex, widths[annex], cells)
				}
			}
		}
		taxed, exempt, other, off := 100+rng.IntN(999_999), rng.IntN(2)*rng.IntN(9_999), rng.IntN(2)*rng.IntN(9_999),
			rng.IntN(100)
		var body string
		switch kind {
		case "07":
			held, more := (taxed+50)/100, rng.IntN(2)
			body = fmt.Sprintf(`"cuerpoDocumento":[{"montoSujetoGrav":%s,"codigoRetencionMH":"22","ivaRetenido":%s}`,
				cents(taxed), cents(held)) + strings.Repeat(
				`,{"montoSujetoGrav":10.50,"codigoRetencionMH":"22","ivaRetenido":0.11}`, more) + `],"resumen":{}`
			put("07", nit, "05/11/2026", "07", seal, number, cents(taxed+more*1050), cents(held+more*11), dui, "7")
		case "09":
			body = fmt.Sprintf(`"cuerpoDocumento":{"montoSujetoPercepcion":%s,"ivaPercibido":%s},"resumen":null`,
				cents(taxed), cents((taxed+25)/50))
			put("06", nit, "05/11/2026", seal, number, cents(taxed), cents((taxed+25)/50), dui, "6")
		default:
			base := taxed - off
			vat, perceived := (base*13+50)/100, rng.IntN(2)*(base+50)/100
			body = fmt.Sprintf(`"cuerpoDocumento":[{"tipoItem":1,"ventaGravada":%s}],"resumen":{"totalGravada":%s,`+
				`"totalExenta":%s,"totalNoSuj":%s,"descuGravada":%s,"tributos":[{"codigo":"20","valor":%s}],"ivaPerci":%s}`,
				cents(taxed), cents(taxed), cents(exempt), cents(other), cents(off), cents(vat), cents(perceived))
			put("03", "05/11/2026", "4", kind, number, nit, name, cents(exempt+other), "0.00", "0.00", cents(base), "0.00",
				"0.00", "0.00", cents(vat), cents(exempt+other+base), dui, "1", "1", "2", "5", "3")
			if perceived > 0 {
				put("08", nit, "05/11/2026", kind, seal, number, cents(base), cents(perceived), dui, "8")
			}
		}
		to := Addressee{NIT: "06141804941035", NRC: "2390516"}
		if err := b.Receive(suffix+".json", mailed(t, kind, suffix, body), to); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Finish(); err != nil {
		t.Fatal(err)
	}
	for annex, rows := range want {
		got, err := os.ReadFile(filepath.Join(b.o.Dir, "anexo"+annex+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		have := strings.Split(strings.TrimSuffix(string(got), "\r\n"), "\r\n")
		slices.Sort(have)
		slices.Sort(rows)
		if !slices.Equal(have, rows) {
			t.Errorf("annex %s:\n%s\nthe manual's\n%s", annex, strings.Join(have, "\n"), strings.Join(rows, "\n"))
		}
	}
}

// TestReceived_Hostile: whatever text a supplier writes in a member of its file, each row of the annexes has the
// columns of its layout, and no cell is a formula, in either encoding.
func TestReceived_Hostile(t *testing.T) {
	unsigned := regexp.MustCompile(`,"firmaElectronica":"[^"]*"`)
	texts := []string{"\x1f999.00\x1f1\x1f1", ";;;1", "=cmd|' /C calc'!A0", "–2+3", "\"=1\"", "\r\n05/11/2026;4;03", "\t=1", "１;２",
		"A\u2028=1", "’=1", "\u00ad=1", "+1e3", strings.Repeat("A", 40) + "\x1f"}
	for i := range texts {
		texts = append(texts, texts[i]+strings.Repeat("A", max(0, 40-len(texts[i]))), strings.Repeat("A", 14)+texts[i])
	}
	for _, encoding := range []string{"utf-8", "windows-1252"} {
		b, err := New(Options{Month: "2026-11", Settings: Settings{Encoding: encoding}, Dir: t.TempDir(), Received: true})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for kind, body := range map[string]string{
			"03": `"cuerpoDocumento":[{"tipoItem":1,"ventaGravada":100}],"resumen":{"totalGravada":100,"tributos":[{"codigo":"20","valor":13}],"ivaPerci":1}`,
			"07": `"cuerpoDocumento":[{"montoSujetoGrav":500,"codigoRetencionMH":"22","ivaRetenido":5}],"resumen":{}`,
			"09": `"cuerpoDocumento":{"montoSujetoPercepcion":1000,"ivaPercibido":20},"resumen":null`,
		} {
			var root map[string]any
			if err := json.Unmarshal(unsigned.ReplaceAll(mailed(t, kind, "01", body), nil), &root); err != nil {
				t.Fatal(err)
			}
			receive := func() {
				n++
				id := root["identificacion"].(map[string]any)
				if code, _ := id["codigoGeneracion"].(string); codeForm.MatchString(code) {
					id["codigoGeneracion"] = fmt.Sprintf("5B0C2A6E-4D6F-4F3C-9C55-%012X", n)
				}
				data, _ := json.Marshal(root)
				if err := b.Receive(strconv.Itoa(n), data, Addressee{NIT: "06141804941035", NRC: "2390516"}); err != nil {
					t.Fatal(err)
				}
			}
			var walk func(v any, set func(any))
			walk = func(v any, set func(any)) {
				switch v := v.(type) {
				case map[string]any:
					for _, name := range slices.Sorted(maps.Keys(v)) {
						walk(v[name], func(x any) { v[name] = x })
					}
				case []any:
					for i := range v {
						walk(v[i], func(x any) { v[i] = x })
					}
				default:
					for _, text := range texts {
						set(text)
						receive()
					}
					set(v)
				}
			}
			walk(root, nil)
		}
		if err := b.Finish(); err != nil {
			t.Fatal(err)
		}
		for _, l := range receivedLayouts {
			file, err := os.ReadFile(filepath.Join(b.o.Dir, l.Name))
			if err != nil {
				t.Fatal(err)
			}
			rows := strings.Split(strings.TrimSuffix(string(file), "\r\n"), "\r\n")
			if len(rows) != b.files[l].rows || len(rows) < 20 {
				t.Errorf("%s: %d rows, %d were put", l.Name, len(rows), b.files[l].rows)
			}
			for _, row := range rows {
				cells := strings.Split(row, ";")
				if len(cells) != len(l.Columns) || slices.ContainsFunc(cells, func(c string) bool {
					return c != "" && strings.Contains("=+-@\t\r\"'", c[:1])
				}) {
					t.Errorf("%s, %s: %q", l.Name, encoding, row)
				}
			}
		}
	}
}
