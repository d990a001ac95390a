package pdf

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dtegate/engine/dte"
	"dtegate/rules/bundle"
)

func TestRender_Errors(t *testing.T) {
	p := printer(t)
	good := fixture(t, "dte01", Processed)
	for want, c := range map[string]struct {
		change func(d *Document)
		layout Layout
	}{
		"Seal: required":                  {func(d *Document) { d.Seal = "" }, Letter},
		"Seal: a document in contingency": {func(d *Document) { d.State = Contingency }, Ticket80},
		"reading document":                {func(d *Document) { d.JSON = d.JSON[:100] }, Letter},
		"not a JSON object":               {func(d *Document) { d.JSON = []byte(`[]`) }, Letter},
		"identificacion.codigoGeneracion": {func(d *Document) {
			d.JSON = []byte(
				`{"identificacion":{"fecEmi":"2026-12-01"}}`)
		}, Letter},
		"identificacion.fecEmi: required": {func(d *Document) {
			d.JSON = []byte(
				`{"identificacion":{"codigoGeneracion":"X"}}`)
		}, Letter},
		"QR of": {func(d *Document) {
			d.JSON = bytes.Replace(d.JSON, []byte("3F6C1B52"), bytes.Repeat([]byte("A"), 2400), 1)
		}, Letter},
	} {
		d := good
		c.change(&d)
		var b bytes.Buffer
		if err := p.Render(&b, d, c.layout); err == nil || !strings.Contains(err.Error(), want) || b.Len() > 0 {
			t.Errorf("%s: got %v and %d bytes", want, err, b.Len())
		}
	}
	if err := p.Render(broken{}, good, Letter); !errors.Is(err, errBroken) {
		t.Errorf("writer's error: %v", err)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

// TestView_Moved renames, adds and drops members as a future generation might: what is printed stays.
func TestView_Moved(t *testing.T) {
	p := printer(t)
	d := fixture(t, "dte14", Processed)
	for _, r := range [][2]string{
		{`"receptor"`, `"sujetoExcluido"`},
		{`"reteRenta": 12,`, `"reteRenta": 12, "totalOtrosCargos": 3.25, "tipoCalculo": 4,`},
		{`"compra": 180,`, `"compra": 180, "impuestoNuevo": 0.77,`},
		{`"compra": 180`, `"compra": 180, "impuestoNuevo": 0.77`},
	} {
		if bytes.Contains(d.JSON, []byte(r[0])) {
			d.JSON = bytes.Replace(d.JSON, []byte(r[0]), []byte(r[1]), 1)
		}
	}
	for l := Letter; l <= Ticket58; l++ {
		text := said(p.pages(t, d, l))
		for _, want := range []string{"Jesús Bartolomé", "Total otros cargos", "$3.25", "Impuesto nuevo: 0.77"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q", l, want)
			}
		}
	}
}

func TestView_Words(t *testing.T) {
	p := printer(t)
	for name, want := range map[string][]string{
		"dte01": {"FACTURA", "DUI", "Billetes y monedas", "Tarjeta Crédito", "Contado", "Sonsonate Centro",
			"Galón"},
		"dte01-contingency": {"Transmisión por contingencia", "Modelo Facturación diferido",
			"TRANSMISIÓN POR CONTINGENCIA", "Falla en el suministro de servicio de Internet", "Consumidor final"},
		"dte03-previous": {"Casa Matriz", "Lucía Ibáñez", "P123-456", "Recibido a satisfacción.", "INVALIDADO",
			"$20.00"},
		"dte05": {"NOTA DE CRÉDITO", "Comprobante de crédito fiscal", "Electrónico", "Retención IVA 1%"},
		"dte07": {"Retención IVA 13%", "Físico", "Total sujeto a retención", "$2,119.44",
			"TOTAL IVA RETENIDO"},
		"dte14-previous": {"Corte de la fibra óptica en la colonia por obras viales", "Retención de renta",
			"San Vicente"},
		"dte18": {"EVENTO DE RETORNO", "EVENTO DE DTE", "Motivo"},
	} {
		state := Processed
		if strings.Contains(name, "contingency") || name == "dte14-previous" {
			state = Contingency
		}
		if name == "dte03-previous" {
			state = Invalidated
		}
		for l := Letter; l <= Ticket58; l++ {
			text := squeeze(said(p.pages(t, fixture(t, name, state), l)))
			for _, phrase := range want {
				for w := range strings.FieldsSeq(phrase) {
					if !strings.Contains(text, w) {
						t.Errorf("%s %s: no %q", name, l, phrase)
					}
				}
			}
			if name == "dte18" && strings.Contains(text, "control") {
				t.Errorf("%s: a retorno has no control number", l)
			}
		}
	}
}

// TestView_Rare: members that few documents have are printed too, in the words of their catalogue.
func TestView_Rare(t *testing.T) {
	p := printer(t)
	for name, x := range map[string]struct{ in, out, want string }{
		"title of the goods": {`"emisor": {`, `"emisor": {"bienTitulo": "03",`, "Título de los bienes: 03"},
		"customs house":      {`"emisor": {`, `"emisor": {"recintoFiscal": "01",`, "Recinto fiscal: 01"},
		"tax of a line": {`"codTributo": null`, `"codTributo": "A8"`,
			"Tributo: Impuesto Especial al Combustible (0%, 0.5%, 1%)"},
	} {
		d := fixture(t, "dte01", Processed)
		if d.JSON = bytes.Replace(d.JSON, []byte(x.in), []byte(x.out), 1); !bytes.Contains(d.JSON, []byte(x.out)) {
			t.Fatalf("%s: the fixture has no %s", name, x.in)
		}
		for l := Letter; l <= Ticket58; l++ {
			text := squeeze(said(p.pages(t, d, l)))
			for w := range strings.FieldsSeq(x.want) {
				if !strings.Contains(text, w) {
					t.Errorf("%s, %s: no %q", name, l, w)
				}
			}
		}
	}
}

// TestView_Address: a municipio is named by its own catalogue. In older documents, which name no district, its code may be
// that of a district; beside a district it never is.
func TestView_Address(t *testing.T) {
	words := map[string]string{"CAT-012 06": "San Salvador", "CAT-013 06/23": "San Salvador Centro",
		"CAT-008 06/14": "Apopa", "CAT-008 06/23": "Tonacatepeque"}
	b := &builder{fonts: printer(t).fonts, catalogue: func(catalogue, code string) (string, bool) {
		word, ok := words[catalogue+" "+code]
		return word, ok
	}}
	for at, want := range map[string]string{
		`{"departamento":"06","municipio":"23","distrito":"14","complemento":"Km 5"}`: "Km 5, Apopa, San Salvador Centro, San Salvador",
		`{"departamento":"06","municipio":"23","complemento":"Km 5"}`:                 "Km 5, San Salvador Centro, San Salvador",
		`{"departamento":"06","municipio":"14","complemento":"Km 5"}`:                 "Km 5, Apopa, San Salvador",
		`{"departamento":"06","municipio":"14","distrito":"23","complemento":"Km 5"}`: "Km 5, Tonacatepeque, 14, San Salvador",
		`{"departamento":"07","municipio":"99","complemento":"Km 5"}`:                 "Km 5, 99, 07",
		`"Km 5"`: "Km 5",
	} {
		v, err := dte.Parse([]byte(`{"direccion":` + at + `}`))
		if got := b.address(v); err != nil || got != want {
			t.Errorf("%s: %q, %v", at, got, err)
		}
	}
}

// TestView_Trial: a document of the test system cannot be mistaken for a real one.
func TestView_Trial(t *testing.T) {
	p := printer(t)
	d := fixture(t, "dte01", Processed)
	d.JSON = bytes.Replace(d.JSON, []byte(`"ambiente": "01"`), []byte(`"ambiente": "00"`), 1)
	for l := Letter; l <= Ticket58; l++ {
		pages := p.pages(t, d, l)
		checkBoxes(t, l.String(), p.fonts, pages, l)
		if got := squeeze(said(pages)); !strings.Contains(got, squeeze(isTrial)) ||
			strings.Contains(squeeze(said(p.pages(t, fixture(t, "dte01", Processed), l))), squeeze(isTrial)) {
			t.Errorf("%s: %s", l, got)
		}
	}
}

// TestNew_NoCatalogue prints codes as they are.
func TestNew_NoCatalogue(t *testing.T) {
	p, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := fixture(t, "dte01", Processed)
	if text := said(p.pages(t, d, Ticket80)); !strings.Contains(text, "06") {
		t.Error(text)
	}
	v, _, _ := p.prepare(d)
	if want := "https://admin.factura.gob.sv/consultaPublica?ambiente=01&codGen=3F6C1B52-8A0D-4E57-9C11-0D5B7A9E2F01" +
		"&fechaEmi="; !strings.HasPrefix(v.URL, want) || len(v.URL) != len(want)+len("2026-12-01") {
		t.Error(v.URL)
	}
	for l := Letter; l <= Ticket58; l++ {
		if got, ok := ParseLayout(l.String()); !ok || got != l {
			t.Errorf("%s is %v", l, got)
		}
	}
}

// FuzzRender: no document at all makes it panic or leaves a text outside its place.
func FuzzRender(f *testing.F) {
	for _, x := range fixtures {
		f.Add(fixture(f, x.name, x.state).JSON)
	}
	f.Add([]byte(`{"identificacion":{"codigoGeneracion":"A","fecEmi":"x","tipoDte":7},"emisor":[],"cuerpoDocumento":{"a":1},"resumen":[[]],"apendice":"x","extension":1}`))
	f.Add([]byte(`{"identificacion":{"codigoGeneracion":"A","fecEmi":"x"},"cuerpoDocumento":[null,1,"x",{"tributos":3,"noGravado":-1e3,"ivaRetenido":true,"montoSujetoGrav":1}],"resumen":{"pagos":[1],"tributos":{"a":[]}},"documentoRelacionado":{"tipoDocumento":{}}}`))
	p := printer(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64<<10 {
			return
		}
		for l := Letter; l <= Ticket58; l++ {
			d := Document{JSON: data, Seal: seal}
			var b bytes.Buffer
			if err := p.Render(&b, d, l); err != nil {
				return
			}
			checkBoxes(t, l.String(), p.fonts, p.pages(t, d, l), l)
			if l != Letter {
				b.Reset()
				if err := p.ESCPOS(&b, d, l); err != nil {
					t.Fatal(err)
				}
				interpret(t, b.Bytes())
			}
		}
	})
}

// TestRender_AnyTree puts values of every kind in the place of every other: valid JSON that no schema would pass.
func TestRender_AnyTree(t *testing.T) {
	alone(t)
	p := printer(t)
	r := rand.New(rand.NewPCG(1, 2))
	strange := []string{`null`, `true`, `-1e-400`, `1e400`, `-0.5`, `7`, strings.Repeat("9", 300), `""`, `"x"`,
		`"\u0000\ufffd\ud83d\ude00"`, `[]`, `{}`,
		`[null,1,{"codigo":[]}]`, `{"a":{"b":[{}]}}`, `"` + strings.Repeat("lorem ", 300) + `"`,
		`"` + strings.Repeat("Q", 900) + `"`}
	for i := range 60 {
		d := fixture(t, fixtures[i%len(fixtures)].name, Processed)
		var tree any
		if err := json.Unmarshal(d.JSON, &tree); err != nil {
			t.Fatal(err)
		}
		var walk func(v any, depth int) any
		walk = func(v any, depth int) any {
			if depth > 0 && r.IntN(12) == 0 {
				return json.RawMessage(strange[r.IntN(len(strange))])
			}
			switch v := v.(type) {
			case map[string]any:
				for _, k := range slices.Sorted(maps.Keys(v)) {
					if k != "codigoGeneracion" && k != "fecEmi" {
						v[k] = walk(v[k], depth+1)
					}
				}
			case []any:
				for i := range v {
					v[i] = walk(v[i], depth+1)
				}
			}
			return v
		}
		data, err := json.Marshal(walk(tree, -1))
		if err != nil {
			t.Fatal(err)
		}
		d.JSON = data
		for l := Letter; l <= Ticket58; l++ {
			var b bytes.Buffer
			if err := p.Render(&b, d, l); err != nil && !strings.Contains(err.Error(), "identificacion.") &&
				!strings.Contains(err.Error(), "QR of") {
				t.Fatalf("%v\n%s", err, data)
			} else if err != nil {
				break
			}
			checkBoxes(t, l.String(), p.fonts, p.pages(t, d, l), l)
		}
	}
}

// TestView_Labels: the texts of a type's view are cleaned like a document's, so that a careless one stops no print.
func TestView_Labels(t *testing.T) {
	hostile := "🧾a\u202eb\nc\x1b@(d) Tj"
	view := &bundle.View{Fields: []bundle.ViewField{{Path: "identificacion.codigoGeneracion", In: "issue",
		Label: hostile}, {Path: "emisor.nombre", In: "emisor", Label: hostile}}}
	view.Party.Paths, view.Party.Heading = []string{"receptor"}, hostile
	p := *printer(t)
	p.o.Type = func(string, int64) *bundle.View { return view }
	d := fixture(t, "dte01", Processed)
	v, err := p.view(d)
	if err != nil {
		t.Fatal(err)
	}
	want := "□ab c @(d) Tj"
	if v.Receptor.Heading != want || v.Facts[len(v.Facts)-1].Label != want {
		t.Errorf("%q, %+v", v.Receptor.Heading, v.Facts)
	}
	for _, l := range []Layout{Letter, Ticket80} {
		render(t, &p, d, l)
	}
}

// TestView_OwnSum: an amount of the summary that MH's layouts do not have is printed once: among the sums, or where the
// type's view puts it.
func TestView_OwnSum(t *testing.T) {
	p := *printer(t)
	d := fixture(t, "dte01", Processed)
	d.JSON = bytes.Replace(d.JSON, []byte(`"resumen": {`), []byte(`"resumen": {"puntosUsados": 731.25,`), 1)
	for in, want := range map[string]string{"": "Puntos usados $731.25", "terms": "Puntos 731.25"} {
		p.o.Type = func(string, int64) *bundle.View {
			return &bundle.View{Fields: []bundle.ViewField{{Path: "resumen.puntosUsados", Label: "Puntos", In: in}}[:len(in)/5]}
		}
		v, err := p.view(d)
		if err != nil {
			t.Fatal(err)
		}
		var shown []string
		for _, f := range slices.Concat(v.Terms, v.Totals) {
			if strings.HasSuffix(f.Value, "731.25") {
				shown = append(shown, f.Label+" "+f.Value)
			}
		}
		if len(shown) != 1 || shown[0] != want {
			t.Errorf("in %q: %q, want %q", in, shown, want)
		}
	}
}

// TestView_Columns: a column of a type's view takes no member that it does not name from a column of all types.
func TestView_Columns(t *testing.T) {
	p := *printer(t)
	table := func(own ...bundle.ViewColumn) map[string]string {
		p.o.Type = func(string, int64) *bundle.View { return &bundle.View{Columns: own} }
		v, err := p.view(fixture(t, "dte01", Processed))
		if err != nil {
			t.Fatal(err)
		}
		all := make(map[string]string)
		for i, c := range v.Items.Cols {
			all[c.Head] = v.Items.Rows[0].Cells[i]
		}
		return all
	}
	was := table()
	for _, s := range columns {
		for _, name := range s.names {
			is := table(bundle.ViewColumn{Paths: []string{"codigo", name}, Head: "Nota"})
			for _, c := range columns {
				if !slices.Contains(c.names, name) || len(c.names) > 1 && c.names[0] != name {
					if is[c.head] != was[c.head] {
						t.Errorf("codigo, %s: %s is %q, was %q", name, c.head, is[c.head], was[c.head])
					}
				}
			}
		}
	}
}
