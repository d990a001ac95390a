// Package view is what a document says on paper, in words and in print order, before any layout: parties, lines, sums,
// with the texts of the catalogues. Amounts are printed digit for digit, as the document has them.
package view

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/rules/bundle"
)

// View is what a document says, in words and in print order, before any layout. All texts are clean.
type View struct {
	Kind           string // a document, or an event
	Title, Version string
	Code, Control  string
	Trial          bool // of the authority's test system
	State          State
	Note           []string
	Codes          []Field // that identify the document
	Received       []Field // what the authority said of it, besides the seal
	Facts          []Field // about its issue
	Emisor         Party
	Receptor       Party
	Groups         []Table // third parties, related and associated documents
	Items          Table
	Key            string // what the letters behind a ticket's amounts mean; "" when there are none
	Totals         []Field
	Total          Field
	Words          string
	Terms          []Field // condition of the operation and the like
	Payments       Table
	Observations   []string
	Delivery       []Field
	Appendix       []Field
	Legend         string
	Consult        string // what the QR code is good for, and since when
	URL            string
	Host           string // of URL, for people
	Issued         time.Time
	Footer         string
	rest           func() // Document.Rest; nil: none
}

// Pause is called between two pieces of work.
func (v *View) Pause() {
	if v.rest != nil {
		v.rest()
	}
}

// Field is a label and what stands behind it.
type Field struct{ Label, Value string }

// Party is one side of the operation.
type Party struct {
	Heading     string
	Name, Trade string
	Fields      []Field
}

// Table is anything in rows. Its last flexible column takes the width that the others leave.
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

// Row is a row of a table.
type Row struct {
	Cells []string
	Notes []string // beneath the flexible cell
	Sale  Sale     // how a ticket says it
}

// Sale is a line of the document on a ticket.
type Sale struct {
	Text   string
	About  []string
	Sum    string // "2 × 6.95"
	Amount string
	More   []Field
}

// builder makes a view of one document.
type builder struct {
	Cleaner
	catalogue func(catalogue, code string) (string, bool)
	of        *bundle.View // what is printed of the type beyond what is printed of every one
	doc       dte.Value
	lone      string // number of the only related document, which lines need not repeat
}

// text is the first of these members that holds something, cleaned; "" when none does.
func (b *builder) text(v dte.Value, names ...string) string {
	return b.Clean(pick(v, names...).Text())
}

// pick is the first of these members that is neither missing nor null nor empty. A name that moved between
// generations is listed under all its names.
func pick(v dte.Value, names ...string) dte.Value {
	for _, n := range names {
		if m := v.Get(n); m.Text() != "" || m.Len() > 0 {
			return m
		}
	}
	return dte.Value{}
}

// word is the catalogue's text of a code, or the code itself when the catalogue does not know it.
func (b *builder) word(catalogue, code string) string {
	if code == "" {
		return ""
	}
	if s, ok := b.catalogue(catalogue, code); ok {
		return b.Clean(placeName(s))
	}
	return b.Clean(code)
}

// coded is word of the first of these members that holds something.
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

// date turns MH's 2026-12-01 into 01/12/2026.
func (b *builder) date(s string) string {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t.Format("02/01/2006")
	}
	return b.Clean(s)
}

var errNoDocument = errors.New("not a JSON object")

// Cleaner makes texts of a document printable.
type Cleaner interface {
	Clean(s string) string        // as one line
	Paragraphs(s string) []string // the lines of a text whose line breaks count
}

// Maker makes the views of an emisor's documents.
type Maker struct {
	Text       Cleaner
	Catalogue  func(catalogue, code string) (text string, ok bool) // see pdf.Options; nil knows none
	Type       func(document string) *bundle.View                  // see pdf.Options; nil knows none
	ConsultURL string                                              // see pdf.Options; "" is the constant
	Footer     string
}

// View reads the sealed bytes.
func (m *Maker) View(d Document) (*View, error) {
	doc, err := dte.Parse(d.JSON)
	if err != nil {
		return nil, fmt.Errorf("pdf: reading document: %w", err)
	}
	if doc.Kind() != dte.KindObject {
		return nil, fmt.Errorf("pdf: reading document: %w", errNoDocument)
	}
	b := &builder{Cleaner: m.Text, catalogue: m.Catalogue, doc: doc}
	if b.catalogue == nil {
		b.catalogue = func(string, string) (string, bool) { return "", false }
	}
	if r := list(doc.Get("documentoRelacionado")); len(r) == 1 {
		b.lone = b.text(r[0], relatedNumber...)
	}
	id := doc.Get("identificacion")
	if m.Type != nil {
		b.of = m.Type(pick(id, "tipoDte", "tipoEvento").Text())
	}
	if b.of == nil {
		b.of = &bundle.View{}
	}
	v := &View{
		State:   d.State,
		Code:    b.text(id, "codigoGeneracion"),
		Control: b.text(id, "numeroControl"),
		Version: b.text(id, "version"),
		Trial:   id.Get("ambiente").Text() == "00",
		Note:    b.Paragraphs(d.Note),
		Footer:  b.Clean(m.Footer),
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
	// Capitals can be letters that the fonts lack: clean again.
	v.Title = b.Clean(strings.ToUpper(b.coded(id, "CAT-002", "tipoDte", "tipoEvento")))
	v.Issued = time.Unix(0, 0).UTC() // fpdf takes zero for now
	if t, err := time.Parse(time.DateTime, fecEmi+" "+id.Get("horEmi").Text()); err == nil && !t.IsZero() {
		v.Issued = t
	}
	v.URL = strings.NewReplacer(
		"{ambiente}", url.QueryEscape(id.Get("ambiente").Text()),
		"{codigoGeneracion}", url.QueryEscape(id.Get("codigoGeneracion").Text()),
		"{fecEmi}", url.QueryEscape(fecEmi),
	).Replace(cmp.Or(m.ConsultURL, ConsultURL))
	v.Host, _, _ = strings.Cut(v.URL, "?")
	v.Host = b.Clean(strings.TrimPrefix(v.Host, "https://"))
	b.identity(v, id, d)
	v.Consult = "Consulte su documento"
	if d.State == Contingency {
		v.Consult = "Consúltelo cuando tenga sello" // MH does not know the document before
		v.Legend = "Emitido en contingencia: aún no tiene sello de recepción del Ministerio de Hacienda, " +
			"al que será transmitido. Cuando Hacienda lo haya recibido podrá consultarlo con el código QR."
	}
	v.Emisor = b.party("Emisor", pick(doc, "emisor", "donatario"))
	v.Receptor = b.party(b.receptorName())
	if v.Receptor.Name == "" {
		v.Receptor.Name = "Consumidor final"
	}
	v.Groups = b.groups()
	v.Items = b.items(v.Pause)
	if slices.ContainsFunc(v.Items.Cols, func(c Col) bool { return c.Head == "Ventas gravadas" }) {
		v.Key = "G gravado, E exento, N no sujeto, A no afecto"
	}
	b.summary(v)
	b.ownFields(v)
	return v, nil
}

// identity is the block that identifies the document (MF2 pp. 55-74). A retorno has no numeroControl.
func (b *builder) identity(v *View, id dte.Value, d Document) {
	add := func(to *[]Field, label, value string) {
		if value != "" {
			*to = append(*to, Field{label, value})
		}
	}
	add(&v.Codes, "Código de generación", v.Code)
	add(&v.Codes, "Número de control", v.Control)
	seal := b.Clean(d.Seal)
	if seal == "" {
		seal = "-"
	}
	add(&v.Codes, "Sello de recepción", seal)
	add(&v.Facts, "Modelo de facturación", b.coded(id, "CAT-003", "tipoModelo"))
	add(&v.Facts, "Tipo de transmisión", b.coded(id, "CAT-004", "tipoOperacion"))
	reason := b.text(id, "motivoContin", "motivoContigencia")
	if reason == "" {
		reason = b.coded(id, "CAT-005", "tipoContingencia")
	}
	add(&v.Facts, "Motivo de contingencia", reason)
	add(&v.Facts, "Fecha y hora de generación", strings.TrimSpace(b.date(id.Get("fecEmi").Text())+" "+b.text(id,
		"horEmi")))
	add(&v.Received, "Procesado por Hacienda", b.Clean(d.Received))
	add(&v.Facts, "Fusión", b.text(id, "fusion"))
	add(&v.Facts, "Moneda", b.text(id, "tipoMoneda"))
}

// receptorName finds who receives: where the type's view says, or under a name that MH's layouts have.
func (b *builder) receptorName() (string, dte.Value) {
	for _, path := range b.of.Party.Paths {
		if v := b.doc.Get(path); v.Kind() == dte.KindObject {
			return b.of.Party.Heading, v
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

// ownFields adds the values that the type's view names. A value that is printed of every type takes the view's label.
func (b *builder) ownFields(v *View) {
	blocks := map[string]*[]Field{"emisor": &v.Emisor.Fields, "party": &v.Receptor.Fields, "terms": &v.Terms,
		"issue": &v.Facts}
	common := map[string]int{}
	for in, fields := range blocks {
		common[in] = len(*fields)
	}
	for _, f := range b.of.Fields {
		value, to := b.at(f), blocks[f.In]
		if value == "" || to == nil {
			continue
		}
		if i := slices.IndexFunc((*to)[:common[f.In]], func(have Field) bool { return have.Value == value }); i >= 0 {
			(*to)[i].Label = f.Label
			continue
		}
		*to = append(*to, Field{f.Label, value})
	}
}

// at is what a document has at the path of a view's field, as people read it.
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

// party is one side of the operation.
func (b *builder) party(heading string, v dte.Value) Party {
	p := Party{Heading: heading, Name: b.text(v, "nombre"), Trade: b.text(v, "nombreComercial")}
	if p.Trade == p.Name {
		p.Trade = ""
	}
	add := func(label, value string) {
		if value != "" {
			p.Fields = append(p.Fields, Field{label, value})
		}
	}
	add("NIT", dte.FormatNIT(b.text(v, "nit")))
	kind := b.coded(v, "CAT-022", "tipoDocumento")
	if kind == "" || kind == "Otro" {
		kind = "Documento de identificación"
	}
	add(kind, dte.FormatDocument(v.Get("tipoDocumento").Text(), b.text(v, "numDocumento")))
	add("NRC", dte.FormatNRC(b.text(v, "nrc")))
	activity := b.text(v, "descActividad")
	if activity == "" {
		activity = b.coded(v, "CAT-019", "codActividad")
	}
	add("Actividad económica", activity)
	add("Dirección", b.address(v))
	country := b.text(v, "nombrePais")
	if country == "" {
		country = b.coded(v, "CAT-020", "codPais")
	}
	add("País", country)
	add("Teléfono", dte.FormatPhone(b.text(v, "telefono")))
	add("Correo", b.text(v, "correo"))
	add("Tipo de establecimiento", b.coded(v, "CAT-009", "tipoEstablecimiento"))
	add("Establecimiento", b.text(v, "codEstable", "codEstableMH", "codigoMH", "codigo"))
	add("Punto de venta", b.text(v, "codPuntoVenta", "codPuntoVentaMH", "puntoVentaMH", "puntoVenta"))
	add("Recinto fiscal", b.coded(v, "CAT-027", "recintoFiscal"))
	add("Régimen", b.coded(v, "CAT-028", "regimen"))
	add("Título de los bienes", b.coded(v, "CAT-025", "bienTitulo"))
	return p
}

// address joins a street with the names of its three levels. Before the levels had districts, the district codes
// were those of the municipios.
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
	out := parts[:0]
	for _, s := range parts {
		if s != "" && (len(out) == 0 || out[len(out)-1] != s) {
			out = append(out, s)
		}
	}
	return strings.Join(out, ", ")
}

// placed is the name of a place whose code repeats in each departamento.
func (b *builder) placed(list, region, code string) string {
	if s, ok := b.catalogue(list, region+"/"+code); ok {
		return b.Clean(placeName(s))
	}
	return b.Clean(code)
}

// ConsultURL is MH's public consultation, the content of the QR code (MT1 §5).
const ConsultURL = "https://admin.factura.gob.sv/consultaPublica?ambiente={ambiente}&codGen={codigoGeneracion}&fechaEmi={fecEmi}"

// State is what a document is at the time of printing.
type State uint8

// The states that are printed. A rejected document has no printed version.
const (
	Processed   State = iota // sealed by MH
	Contingency              // issued in contingency, not sealed yet
	Invalidated              // sealed, and void since
)

// Document is what is printed.
type Document struct {
	JSON     []byte // the sealed bytes: the document as it was signed
	Seal     string // selloRecibido; "" exactly in the state Contingency
	Received string // fhProcesamiento as MH gave it, "01/12/2026 10:15:30"; may be ""
	State    State
	Note     string // printed with the mark INVALIDADO, such as the event's date and seal; may hold line breaks
	// Rest, if not nil, is called between two pieces of work, at each line and page, and may sleep: 2,000 lines take a
	// tenth of a second of the processor and more, and others want it too.
	Rest func()
}
