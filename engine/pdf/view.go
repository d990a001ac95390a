package pdf

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"dtegate/engine/dte"
)

// view is what a document says, in words and in print order, before any layout. All texts are clean.
type view struct {
	kind           string // a document, or an event
	title, version string
	code, control  string
	trial          bool // of the authority's test system
	state          State
	note           []string
	codes          []field // that identify the document
	received       []field // what the authority said of it, besides the seal
	facts          []field // about its issue
	emisor         party
	receptor       party
	groups         []table // third parties, related and associated documents
	items          table
	key            string // what the letters behind a ticket's amounts mean; "" when there are none
	totals         []field
	total          field
	words          string
	terms          []field // condition of the operation and the like
	payments       table
	observations   []string
	delivery       []field
	appendix       []field
	legend         string
	consult        string // what the QR code is good for, and since when
	url            string
	host           string // of url, for people
	issued         time.Time
	footer         string
	rest           func() // Document.Rest; nil: none
}

// pause is called between two pieces of work.
func (v *view) pause() {
	if v.rest != nil {
		v.rest()
	}
}

type field struct{ label, value string }

type party struct {
	heading     string
	name, trade string
	fields      []field
}

// table is anything in rows. Its last flexible column takes the width that the others leave.
type table struct {
	title string
	cols  []col
	rows  []row
}

type col struct {
	head    string
	numeric bool
	flex    bool
}

type row struct {
	cells []string
	notes []string // beneath the flexible cell
	sale  sale     // how a ticket says it
}

// sale is a line of the document on a ticket.
type sale struct {
	text   string
	about  []string
	sum    string // "2 × 6.95"
	amount string
	more   []field
}

// builder makes a view of one document.
type builder struct {
	*fonts
	catalogue func(catalogue, code string) (string, bool)
	doc       dte.Value
	lone      string // number of the only related document, which lines need not repeat
}

// text is the first of these members that holds something, cleaned; "" when none does.
func (b *builder) text(v dte.Value, names ...string) string {
	return b.clean(pick(v, names...).Text())
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
		return b.clean(placeName(s))
	}
	return b.clean(code)
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
	return b.clean(s)
}

var errNoDocument = errors.New("not a JSON object")

// view reads the sealed bytes.
func (p *Printer) view(d Document) (*view, error) {
	doc, err := dte.Parse(d.JSON)
	if err != nil {
		return nil, fmt.Errorf("pdf: reading document: %w", err)
	}
	if doc.Kind() != dte.KindObject {
		return nil, fmt.Errorf("pdf: reading document: %w", errNoDocument)
	}
	b := &builder{fonts: p.fonts, catalogue: p.catalogue, doc: doc}
	if r := list(doc.Get("documentoRelacionado")); len(r) == 1 {
		b.lone = b.text(r[0], relatedNumber...)
	}
	id := doc.Get("identificacion")
	v := &view{
		state:   d.State,
		code:    b.text(id, "codigoGeneracion"),
		control: b.text(id, "numeroControl"),
		version: b.text(id, "version"),
		trial:   id.Get("ambiente").Text() == "00",
		note:    b.paragraphs(d.Note),
		footer:  b.clean(p.look.Footer),
		rest:    d.Rest,
	}
	fecEmi := id.Get("fecEmi").Text()
	switch {
	case v.code == "":
		return nil, errors.New("pdf: identificacion.codigoGeneracion: required")
	case fecEmi == "":
		return nil, errors.New("pdf: identificacion.fecEmi: required")
	}
	v.kind = "DOCUMENTO TRIBUTARIO ELECTRÓNICO"
	if !id.Get("tipoDte").Exists() {
		v.kind = "EVENTO DE DTE"
	}
	// Capitals can be letters that the fonts lack: clean again.
	v.title = b.clean(strings.ToUpper(b.coded(id, "CAT-002", "tipoDte", "tipoEvento")))
	v.issued = time.Unix(0, 0).UTC() // fpdf takes zero for now
	if t, err := time.Parse(time.DateTime, fecEmi+" "+id.Get("horEmi").Text()); err == nil && !t.IsZero() {
		v.issued = t
	}
	v.url = strings.NewReplacer(
		"{ambiente}", url.QueryEscape(id.Get("ambiente").Text()),
		"{codigoGeneracion}", url.QueryEscape(id.Get("codigoGeneracion").Text()),
		"{fecEmi}", url.QueryEscape(fecEmi),
	).Replace(p.consult)
	v.host, _, _ = strings.Cut(v.url, "?")
	v.host = b.clean(strings.TrimPrefix(v.host, "https://"))
	b.identity(v, id, d)
	v.consult = "Consulte su documento"
	if d.State == Contingency {
		v.consult = "Consúltelo cuando tenga sello" // MH does not know the document before
		v.legend = "Emitido en contingencia: aún no tiene sello de recepción del Ministerio de Hacienda, " +
			"al que será transmitido. Cuando Hacienda lo haya recibido podrá consultarlo con el código QR."
	}
	v.emisor = b.party("Emisor", doc.Get("emisor"))
	v.receptor = b.party(b.receptorName())
	if v.receptor.name == "" {
		v.receptor.name = "Consumidor final"
	}
	v.groups = b.groups()
	v.items = b.items(v.pause)
	if slices.ContainsFunc(v.items.cols, func(c col) bool { return c.head == "Ventas gravadas" }) {
		v.key = "G gravado, E exento, N no sujeto, A no afecto"
	}
	b.summary(v)
	return v, nil
}

// identity is the block that identifies the document (MF2 pp. 55-74). A retorno has no numeroControl.
func (b *builder) identity(v *view, id dte.Value, d Document) {
	add := func(to *[]field, label, value string) {
		if value != "" {
			*to = append(*to, field{label, value})
		}
	}
	add(&v.codes, "Código de generación", v.code)
	add(&v.codes, "Número de control", v.control)
	seal := b.clean(d.Seal)
	if seal == "" {
		seal = "-"
	}
	add(&v.codes, "Sello de recepción", seal)
	add(&v.facts, "Modelo de facturación", b.coded(id, "CAT-003", "tipoModelo"))
	add(&v.facts, "Tipo de transmisión", b.coded(id, "CAT-004", "tipoOperacion"))
	reason := b.text(id, "motivoContin", "motivoContigencia")
	if reason == "" {
		reason = b.coded(id, "CAT-005", "tipoContingencia")
	}
	add(&v.facts, "Motivo de contingencia", reason)
	add(&v.facts, "Fecha y hora de generación", strings.TrimSpace(b.date(id.Get("fecEmi").Text())+" "+b.text(id, "horEmi")))
	add(&v.received, "Procesado por Hacienda", b.clean(d.Received))
	add(&v.facts, "Fusión", b.text(id, "fusion"))
	add(&v.facts, "Moneda", b.text(id, "tipoMoneda"))
}

// receptorName finds who receives, under the name that each generation and type gives it.
func (b *builder) receptorName() (string, dte.Value) {
	for _, r := range []struct{ name, heading string }{
		{"receptor", "Receptor"}, {"sujetoExcluido", "Sujeto excluido"}, {"documento", "Receptor"}, {"donante", "Donante"},
	} {
		if v := b.doc.Get(r.name); v.Kind() == dte.KindObject {
			if pick(b.doc.Get("identificacion"), "tipoDte").Text() == "14" {
				return "Sujeto excluido", v
			}
			return r.heading, v
		}
	}
	return "Receptor", dte.Value{}
}

// party is one side of the operation.
func (b *builder) party(heading string, v dte.Value) party {
	p := party{heading: heading, name: b.text(v, "nombre"), trade: b.text(v, "nombreComercial")}
	if p.trade == p.name {
		p.trade = ""
	}
	add := func(label, value string) {
		if value != "" {
			p.fields = append(p.fields, field{label, value})
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
		return b.clean(placeName(s))
	}
	return b.clean(code)
}
