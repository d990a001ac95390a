package books

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dtegate/engine/books/sample"
)

var update = flag.Bool("update", false, "write the sample month anew")

// shop makes the documents of the sample month in the reference.
type shop struct {
	t       *testing.T
	numbers map[string]int
	list    []Document
}

// sold adds a document of MH's form: its type, point of sale, day and hour, customer, lines by kind of sale and
// summary.
func (s *shop) sold(kind, series, at string, customer object, lines []object, summary object) *Document {
	s.t.Helper()
	s.numbers[kind+series]++
	n := len(s.list) + 1
	d := Document{Code: fmt.Sprintf("%08X-%04X-4%03X-A%03X-%012X", 0x5E1A0000+n*7919, n*257, n*31, n*17, n*99991),
		Type: kind, State: processed, Branch: 1, Date: "2026-" + at[:5],
		ControlNumber: fmt.Sprintf("DTE-%s-%s-%015d", kind, series, s.numbers[kind+series]),
		Seal:          fmt.Sprintf("2026%032X%s", n*1_000_003, "TTTG")}
	id := object{"ambiente": "01", "tipoDte": kind, "numeroControl": d.ControlNumber, "codigoGeneracion": d.Code,
		"fecEmi": d.Date, "horEmi": at[6:] + ":00"}
	doc := object{"identificacion": id, "emisor": object{"nit": "06141804941035", "nrc": "2390516",
		"nombre": "Abarrotes La Ceiba, S.A. de C.V."}, "receptor": customer,
		"cuerpoDocumento": lines, "resumen": summary}
	if related, ok := summary["of"]; ok {
		delete(summary, "of")
		doc["documentoRelacionado"] = []object{{"tipoDocumento": summary["type"], "codigoGeneracion": related,
			"numeroDocumento": related}}
	}
	total, ok := summary["totalPagar"].(json.Number)
	if !ok {
		total = summary["totalIvaRetenido"].(json.Number)
	}
	d.Total = total.String()
	var err error
	if d.JSON, err = json.Marshal(doc); err != nil {
		s.t.Fatal(err)
	}
	s.list = append(s.list, d)
	return &s.list[len(s.list)-1]
}

// sale returns the summary of a sale, in cents; VAT is added to taxed, or within it for consumers.
func sale(kind string, taxed, exempt, perceived int, of ...string) (lines []object, summary object) {
	lines = []object{{"tipoItem": 1, "ventaGravada": usd(taxed)}, {"tipoItem": 1, "ventaExenta": usd(exempt)}}
	summary = object{"totalGravada": usd(taxed), "totalExenta": usd(exempt), "totalNoSuj": 0}
	vat := 0
	if kind == "01" || kind == "18" {
		summary["totalIva"] = usd((taxed*13 + 56) / 113)
	} else {
		vat = (taxed*13 + 50) / 100
		summary["tributos"], summary["ivaPerci"] = []object{{"codigo": "20", "valor": usd(vat)}}, usd(perceived)
	}
	summary["totalPagar"] = usd(taxed + exempt + vat + perceived)
	if len(of) == 2 {
		summary["type"], summary["of"] = of[0], of[1]
	}
	return lines, summary
}

func company(nit, nrc, name string) object {
	return object{"tipoDocumento": "36", "numDocumento": nit, "nit": nit, "nrc": nrc, "nombre": name}
}

// sampleMonth is a small shop's November.
func sampleMonth(t *testing.T) []Document {
	s := &shop{t: t, numbers: make(map[string]int)}
	sell := func(kind, series, at string, customer object, taxed, exempt, perceived int, of ...string) *Document {
		t.Helper()
		lines, summary := sale(kind, taxed, exempt, perceived, of...)
		return s.sold(kind, series, at, customer, lines, summary)
	}
	roble, clinic := company("06142803901121", "1048827", "Comercial El Roble, S.A. de C.V."), company("02101210011015",
		"986541", `Clínica "Santa Ana", S.A.`)
	person := company("012345678", "3021459", "Ana María Pérez")
	person["tipoDocumento"] = "13"
	early := sell("01", "M001P001", "09-14 10:05", nil, 2_260, 0, 0)
	early.State, early.Invalidated = invalidated, "2026-11-04"
	for _, sale := range []struct {
		series, at    string
		taxed, exempt int
	}{{"M001P001", "11-03 08:12", 1_130, 0}, {"M001P001", "11-03 12:40", 4_520, 350}, {"M001P002", "11-03 12:41", 2_825,
		0}, {"M001P002", "11-03 18:55", 0, 775},
		{"M001P001", "11-04 09:01", 6_780, 0}, {"M001P001", "11-04 17:30", 1_695, 0}, {"M001P002", "11-05 10:20",
			11_300, 1_200}} {
		sell("01", sale.series, sale.at, nil, sale.taxed, sale.exempt, 0)
	}
	back := s.list[len(s.list)-3].Code
	wrong := sell("01", "M001P001", "11-05 11:02", nil, 9_900, 0, 0)
	wrong.State, wrong.Invalidated = invalidated, "2026-11-05"
	sell("18", "M001P001", "11-05 15:45", nil, 1_130, 0, 0, "01", back)
	voucher := sell("03", "M001P001", "11-04 11:15", roble, 16_000, 0, 160).Code
	sell("03", "M001P001", "11-05 16:02", person, 4_250, 1_800, 0)
	sell("03", "M001P002", "11-06 09:30", clinic, 82_500, 0, 0)
	sell("05", "M001P001", "11-06 14:10", roble, 1_700, 0, 17, "03", voucher)
	sell("06", "M001P001", "11-06 14:25", roble, 1_500, 0, 0, "03", voucher)
	held := func(at string, customer object, code string, base, amount int) {
		s.sold("07", "M001P001", at, customer, []object{{"montoSujetoGrav": usd(base), "codigoRetencionMH": code,
			"ivaRetenido": usd(amount)}}, object{"totalIvaRetenido": usd(amount)})
	}
	held("11-09 10:00", clinic, "22", 40_000, 400)
	held("11-10 10:30", person, "C4", 12_500, 1_625)
	bought := func(at string, seller object, amount, retained int) {
		s.sold("14", "M001P001", at, seller, []object{{"tipoItem": 1, "compra": usd(amount)}},
			object{"subTotal": usd(amount), "totalCompra": usd(amount), "descu": 0,
				"reteRenta": usd(amount / 10), "ivaRete": usd(retained), "totalPagar": usd(amount - amount/10 - retained)})
	}
	farmer := object{"tipoDocumento": "13", "numDocumento": "045678912", "nombre": "Julio César Menjívar"}
	bought("11-10 07:20", farmer, 18_000, 0)
	bought("11-11 07:35", object{"tipoDocumento": "36", "numDocumento": "11230509751019", "nombre": "Rosa Elena Mejía"},
		9_550, 0)
	late := sell("01", "M001P002", "11-11 19:10", nil, 3_390, 0, 0)
	late.State, late.Seal, late.Deferred = contingency, "", true
	return s.list
}

// TestSample: the month that the reference shows is what the books make. -update writes it anew; DTE_SAMPLE=DIR keeps
// the files.
func TestSample(t *testing.T) {
	dir, _ := madeBooks(t, "2026-11", Settings{}, sampleMonth(t))
	if keep := os.Getenv("DTE_SAMPLE"); keep != "" {
		if err := os.CopyFS(keep, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	}
	var files []sample.File
	for _, l := range layouts {
		text, err := os.ReadFile(filepath.Join(dir, l.Name))
		if err != nil {
			t.Fatal(err)
		}
		f := sample.File{Name: l.Name, Title: cmp.Or(l.why, l.title,
			"ventas a consumidor final, una fila por día"), Heading: l.header,
			Rows: rowsOf(strings.TrimPrefix(string(text), "\ufeff"))}
		for _, c := range l.Columns {
			f.Columns = append(f.Columns, sample.Column{Letter: c.Letter, Name: c.Name})
		}
		files = append(files, f)
	}
	raw, err := json.MarshalIndent(files, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("sample/sample.json", append(raw, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := json.MarshalIndent(sample.Files(), "", " ")
	if err != nil || !bytes.Equal(raw, want) {
		t.Errorf("the books make something else of the sample month; -update writes it anew: %v", err)
	}
}
