package pdf

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/pdf/sheet"
	"dtegate/rules/bundle"
)

// View is the content of a document as clean texts in print order, before any layout.
type View struct {
	Kind           string // the words for a document, or for an event
	Title, Version string
	Code, Control  string
	Trial          bool // a document of the authority's test system
	State          State
	Note           []string
	Codes          Fields // the codes that identify the document
	Received       Fields // MH's statements about the document, besides the seal
	Facts          Fields // facts about its issue
	Emisor         Party
	Receptor       Party
	Groups         []Table // third parties, related and associated documents
	Items          Table
	Key            string // meaning of the letters after a ticket's amounts, or ""
	Totals         Fields
	Total          Field
	Words          string
	Terms          Fields // condition of the operation and the like
	Payments       Table
	Observations   []string
	Delivery       Fields
	Appendix       Fields
	Legend         string
	Consult        string // what a reader can do with the QR code, and when
	URL            string
	Host           string // URL without scheme and query, for people
	Issued         time.Time
	Footer         string
	rest           func() // Document.Rest; may be nil
}

// Pause calls Document.Rest between two pieces of work.
func (v *View) Pause() {
	if v.rest != nil {
		v.rest()
	}
}

// Field is a label and its value.
type Field struct{ Label, Value string }

// Fields are in print order.
type Fields []Field

func (f *Fields) add(label, value string) {
	if value != "" {
		*f = append(*f, Field{label, value})
	}
}

// Party is one side of the operation.
type Party struct {
	Heading     string
	Name, Trade string
	Fields      Fields
}

// Table has columns and rows. Its last flexible column gets the rest of the width.
type Table struct {
	Title string
	Cols  []Col
	Rows  []Row
}

// Col is a column of a table.
type Col struct {
	Head    string
	Numeric bool
	Flex    bool
}

func (c Col) align() float64 {
	if c.Numeric {
		return 1
	}
	return 0
}

// Row is a row of a table.
type Row struct {
	Cells []string
	Notes []string // printed below the text of the flexible cell
	Sale  Sale     // the row on a ticket
}

// Sale is a line of the document on a ticket.
type Sale struct {
	Text   string
	About  []string
	Sum    string // "2 × 6.95"
	Amount string
	More   Fields
}

type builder struct {
	fonts     *sheet.Fonts
	catalogue func(catalogue, code string) (string, bool)
	own       *bundle.View // values printed only for this type of document
	doc       dte.Value
	lone      string // number of the only related document: the lines do not repeat this number
}

// text returns the cleaned text of the first non-empty member among names, or "".
func (b *builder) text(v dte.Value, names ...string) string {
	return b.fonts.Clean(pick(v, names...).Text())
}

// pick returns the first non-empty member among names. Generations name a member differently.
func pick(v dte.Value, names ...string) dte.Value {
	for _, n := range names {
		if m := v.Get(n); m.Text() != "" || m.Len() > 0 {
			return m
		}
	}
	return dte.Value{}
}

// word returns the catalogue's text of a code, or the code itself if the catalogue does not contain it.
func (b *builder) word(catalogue, code string) string {
	if code == "" {
		return ""
	}
	if s, ok := b.catalogue(catalogue, code); ok {
		return b.fonts.Clean(placeName(s))
	}
	return b.fonts.Clean(code)
}

func (b *builder) coded(v dte.Value, catalogue string, names ...string) string {
	return b.word(catalogue, pick(v, names...).Text())
}

// placeName turns the capitals of MH's place names into "La Libertad Sur". Other texts stay as they are.
func placeName(s string) string {
	if s != strings.ToUpper(s) || !strings.ContainsRune(s, ' ') && len(s) < 4 {
		return s
	}
	words := strings.Fields(strings.ToLower(s))
	for i, w := range words {
		switch w {
		case "de", "del", "y":
			continue
		}
		first := []rune(w)
		words[i] = strings.ToUpper(string(first[:1])) + string(first[1:])
	}
	return strings.Join(words, " ")
}

func (b *builder) date(s string) string { return b.fonts.Clean(dte.FormatDay(s)) }

// view reads the sealed bytes. Amounts keep every digit of the document, except on the lines of a ticket.
func (p *Printer) view(d Document) (*View, error) {
	doc, err := dte.Parse(d.JSON)
	if err != nil {
		return nil, fmt.Errorf("pdf: reading document: %w", err)
	}
	if doc.Kind() != dte.KindObject {
		return nil, errors.New("pdf: reading document: not a JSON object")
	}
	id := doc.Get("identificacion")
	generation, _ := id.Get("version").Int()
	b := &builder{fonts: p.fonts, catalogue: p.o.Catalogue, doc: doc,
		own: cmp.Or(p.o.Type(pick(id, "tipoDte", "tipoEvento").Text(), generation), &bundle.View{})}
	if r := list(doc.Get("documentoRelacionado")); len(r) == 1 {
		b.lone = b.text(r[0], relatedNumber...)
	}
	v := &View{
		State:   d.State,
		Code:    b.text(id, "codigoGeneracion"),
		Control: b.text(id, "numeroControl"),
		Version: b.text(id, "version"),
		Trial:   id.Get("ambiente").Text() == "00",
		Note:    b.fonts.Paragraphs(d.Note),
		Footer:  b.fonts.Clean(p.o.Style.Footer),
		rest:    d.Rest,
	}
	fecEmi := id.Get("fecEmi").Text()
	switch {
	case v.Code == "":
		return nil, errors.New("pdf: identificacion.codigoGeneracion: required")
	case fecEmi == "":
		return nil, errors.New("pdf: identificacion.fecEmi: required")
	}
	v.Kind = "DOCUMENTO TRIBUTARIO ELECTRÓNICO"
	if !id.Get("tipoDte").Exists() {
		v.Kind = "EVENTO DE DTE"
	}
	// Clean again: the fonts may lack some capital letters.
	v.Title = b.fonts.Clean(strings.ToUpper(b.coded(id, "CAT-002", "tipoDte", "tipoEvento")))
	v.Issued = time.Unix(0, 0).UTC() // fpdf reads the zero time as the present time
	if t, err := time.Parse(time.DateTime, fecEmi+" "+id.Get("horEmi").Text()); err == nil && !t.IsZero() {
		v.Issued = t
	}
	v.URL = ConsultURL(id)
	v.Host, _, _ = strings.Cut(v.URL, "?")
	v.Host = b.fonts.Clean(strings.TrimPrefix(v.Host, "https://"))
	b.identity(v, id, d)
	v.Consult = "Consulte su documento"
	if d.State == Contingency {
		v.Consult = "Consúltelo cuando tenga sello" // MH may lack the document until the seal
		v.Legend = "Emitido en contingencia: aún no tiene sello de recepción del Ministerio de Hacienda, " +
			"al que será transmitido. Cuando Hacienda lo haya recibido podrá consultarlo con el código QR."
	}
	v.Emisor = b.party("Emisor", pick(doc, "emisor", "donatario"))
	v.Receptor = b.party(b.receptorName())
	v.Receptor.Name = cmp.Or(v.Receptor.Name, "Consumidor final")
	v.Groups = b.groups()
	v.Items = b.items(v.Pause)
	if slices.ContainsFunc(v.Items.Cols, func(c Col) bool { return c.Head == "Ventas gravadas" }) {
		v.Key = "G gravado, E exento, N no sujeto, A no afecto"
	}
	b.summary(v)
	b.ownFields(v)
	return v, nil
}

// identity adds the values that identify the document (MF2 pp. 55-74). A retorno has no numeroControl.
func (b *builder) identity(v *View, id dte.Value, d Document) {
	v.Codes.add("Código de generación", v.Code)
	v.Codes.add("Número de control", v.Control)
	v.Codes.add("Sello de recepción", cmp.Or(b.fonts.Clean(d.Seal), "-"))
	v.Facts.add("Modelo de facturación", b.coded(id, "CAT-003", "tipoModelo"))
	v.Facts.add("Tipo de transmisión", b.coded(id, "CAT-004", "tipoOperacion"))
	v.Facts.add("Motivo de contingencia", cmp.Or(b.text(id, "motivoContin", "motivoContigencia"),
		b.coded(id, "CAT-005", "tipoContingencia")))
	v.Facts.add("Fecha y hora de generación", strings.TrimSpace(b.date(id.Get("fecEmi").Text())+" "+b.text(id,
		"horEmi")))
	v.Received.add("Procesado por Hacienda", b.fonts.Clean(d.Received))
	v.Facts.add("Fusión", b.text(id, "fusion"))
	v.Facts.add("Moneda", b.text(id, "tipoMoneda"))
}

// receptorName finds the receiver at the path in the type's view, or under one of the names in MH's layouts.
func (b *builder) receptorName() (string, dte.Value) {
	for _, path := range b.own.Party.Paths {
		if v := b.doc.Get(path); v.Kind() == dte.KindObject {
			return b.fonts.Clean(b.own.Party.Heading), v
		}
	}
	for _, r := range []struct{ name, heading string }{
		{"receptor", "Receptor"}, {"sujetoExcluido", "Sujeto excluido"}, {"documento", "Receptor"},
	} {
		if v := b.doc.Get(r.name); v.Kind() == dte.KindObject {
			return r.heading, v
		}
	}
	return "Receptor", dte.Value{}
}

// ownFields adds the values that the type's view names. A value that is printed for all types gets the view's label.
func (b *builder) ownFields(v *View) {
	blocks := map[string]*Fields{"emisor": &v.Emisor.Fields, "party": &v.Receptor.Fields, "terms": &v.Terms,
		"issue": &v.Facts}
	common := map[string]int{}
	for in, fields := range blocks {
		common[in] = len(*fields)
	}
	for _, f := range b.own.Fields {
		label, value, to := b.fonts.Clean(f.Label), b.at(f), blocks[f.In]
		if value == "" || to == nil {
			continue
		}
		if i := slices.IndexFunc((*to)[:common[f.In]], func(have Field) bool { return have.Value == value }); i >= 0 {
			(*to)[i].Label = label
			continue
		}
		*to = append(*to, Field{label, value})
	}
}

// at returns the document's value at the path of a view's field, in the form for people.
func (b *builder) at(f bundle.ViewField) string {
	v := b.doc
	for name := range strings.SplitSeq(f.Path, ".") {
		v = v.Get(name)
	}
	switch {
	case f.Catalogue != "":
		return b.word(f.Catalogue, v.Text())
	case f.As == "count":
		return b.number(v, 0)
	case v.Kind() == dte.KindNumber:
		return b.number(v, 2)
	}
	return b.date(v.Text())
}

func (b *builder) party(heading string, v dte.Value) Party {
	p := Party{Heading: heading, Name: b.text(v, "nombre"), Trade: b.text(v, "nombreComercial")}
	if p.Trade == p.Name {
		p.Trade = ""
	}
	p.Fields.add("NIT", dte.FormatNIT(b.text(v, "nit")))
	kind := b.coded(v, "CAT-022", "tipoDocumento")
	if kind == "" || kind == "Otro" {
		kind = "Documento de identificación"
	}
	p.Fields.add(kind, dte.FormatDocument(v.Get("tipoDocumento").Text(), b.text(v, "numDocumento")))
	p.Fields.add("NRC", dte.FormatNRC(b.text(v, "nrc")))
	p.Fields.add("Actividad económica", cmp.Or(b.text(v, "descActividad"), b.coded(v, "CAT-019", "codActividad")))
	p.Fields.add("Dirección", b.address(v))
	p.Fields.add("País", cmp.Or(b.text(v, "nombrePais"), b.coded(v, "CAT-020", "codPais")))
	p.Fields.add("Teléfono", dte.FormatPhone(b.text(v, "telefono")))
	p.Fields.add("Correo", b.text(v, "correo"))
	p.Fields.add("Tipo de establecimiento", b.coded(v, "CAT-009", "tipoEstablecimiento"))
	p.Fields.add("Establecimiento", b.text(v, "codEstable", "codEstableMH", "codigoMH", "codigo"))
	p.Fields.add("Punto de venta", b.text(v, "codPuntoVenta", "codPuntoVentaMH", "puntoVentaMH", "puntoVenta"))
	p.Fields.add("Recinto fiscal", b.coded(v, "CAT-027", "recintoFiscal"))
	p.Fields.add("Régimen", b.coded(v, "CAT-028", "regimen"))
	p.Fields.add("Título de los bienes", b.coded(v, "CAT-025", "bienTitulo"))
	return p
}

// address joins a street with its places. In older documents a municipio has the code of today's district.
func (b *builder) address(v dte.Value) string {
	at := v.Get("direccion")
	if at.Kind() != dte.KindObject {
		return b.text(v, "direccion", "complemento")
	}
	region := at.Get("departamento").Text()
	parts := []string{b.text(at, "complemento")}
	if d := at.Get("distrito").Text(); d != "" {
		parts = append(parts, b.placed("CAT-008", region, d))
	}
	if m := at.Get("municipio").Text(); m != "" {
		list := "CAT-013"
		if _, ok := b.catalogue(list, region+"/"+m); !ok && !at.Get("distrito").Exists() {
			list = "CAT-008"
		}
		parts = append(parts, b.placed(list, region, m))
	}
	parts = append(parts, b.word("CAT-012", region))
	return strings.Join(slices.Compact(full(parts)), ", ")
}

// placed returns the name of a place whose code is unique only within its departamento.
func (b *builder) placed(list, region, code string) string {
	if s, ok := b.catalogue(list, region+"/"+code); ok {
		return b.fonts.Clean(placeName(s))
	}
	return b.fonts.Clean(code)
}

// ConsultURL returns MH's public page about the document with this identificacion, the content of the QR code (MT1 §5).
func ConsultURL(id dte.Value) string {
	query := func(name string) string { return url.QueryEscape(id.Get(name).Text()) }
	return "https://admin.factura.gob.sv/consultaPublica?ambiente=" + query("ambiente") + "&codGen=" +
		query("codigoGeneracion") + "&fechaEmi=" + query("fecEmi")
}

// State is the state of a document at the time of printing.
type State uint8

// The states that are printed. A rejected document has no printed version.
const (
	Processed   State = iota // sealed by MH
	Contingency              // issued in contingency, not sealed yet
	Invalidated              // sealed, later invalidated
)

// Document is a document to print, with its seal and its state.
type Document struct {
	JSON     []byte // the document as it was signed; Seal, if any, is MH's seal for these bytes
	Seal     string // selloRecibido; "" in the state Contingency, and only then
	Received string // fhProcesamiento of MH's answer, "01/12/2026 10:15:30"; may be ""
	State    State
	Note     string // printed with the mark INVALIDADO, such as the event's date and seal; may have line breaks
	// Rest, if set, is called between lines, pages or parts of a ticket, and may sleep: 2,000 lines take 0.1 s or more.
	Rest func()
}
