package form

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"dtegate/engine"
	"dtegate/engine/dte"
)

// This file holds what the tables of Documents cannot say: one thing under two names, and the documents that a request
// refers to.

// alternatives checks the pairs of which one member is due.
func (d *Filled) alternatives() {
	for _, pair := range d.form.either {
		a, b := d.body.Get(pair[0]), d.body.Get(pair[1])
		switch {
		case !hasValue(a) && !hasValue(b):
			d.fault(pair[0], dte.FaultRequired, "Es obligatorio (o "+pair[1]+")")
		case hasValue(a) && hasValue(b) && a.Kind() == b.Kind() && !bytes.Equal(a.Append(nil), b.Append(nil)):
			d.contradict(pair[0], pair[1])
		}
	}
}

// maxEntry is the longest value of an entry of the appendix, in characters.
const maxEntry = 150

// entry is a member of the request as an entry of the appendix.
func (d *Filled) entry(f *field, v dte.Value) dte.Value {
	s := v.Text()
	if n := utf8.RuneCountInString(s); n == 0 || n > maxEntry {
		d.fault(f.name, dte.FaultLength, fmt.Sprintf("Lleva de 1 a %d caracteres", maxEntry))
	}
	d.entries = append(d.entries, f.name)
	return dte.Obj(dte.Member{Name: "campo", Value: dte.Str(f.name)}, dte.Member{Name: "etiqueta", Value: dte.Str(f.label)}, dte.Member{Name: "valor", Value: dte.Str(s)})
}

// append puts entries before the request's own.
func (d *Filled) append(entries []dte.Value) {
	if len(entries) == 0 {
		return
	}
	own := d.Facts.Get("apendice")
	for i := range own.Len() {
		entries = append(entries, own.Index(i))
	}
	d.Facts = d.Facts.With("apendice", dte.Arr(entries...))
}

// shape finishes what depends on the type of document.
func (d *Filled) shape() {
	d.specialUnits()
	switch d.form.Document {
	case "05", "06":
		d.noteOrigin()
	case "07":
		d.withholdings()
	case "18":
		d.Origin = &engine.Origin{Code: d.code(d.body.Get("documentoOrigen"), "documentoOrigen")}
	}
}

// noteOrigin reads which document a note adjusts, from the payload's name, the client library's, or both.
func (d *Filled) noteOrigin() {
	if t := d.body.Get("tipoDte"); hasValue(t) && t.Text() != d.form.Document {
		d.fault("tipoDte", dte.FaultCondition, "Esta dirección emite documentos de tipo "+d.form.Document)
	}
	plain, related := d.body.Get("codigoGeneracion"), d.body.Get("documentoRelacionado")
	inner := related.Get("codigoGeneracion")
	if hasValue(plain) && hasValue(inner) && !strings.EqualFold(plain.Text(), inner.Text()) {
		d.contradict("codigoGeneracion", "documentoRelacionado.codigoGeneracion")
	}
	d.Origin = &engine.Origin{Document: related.Get("tipoDte").Text(), Date: related.Get("fechaEmision").Text()}
	if hasValue(plain) {
		d.Origin.Code = d.code(plain, "codigoGeneracion")
	} else {
		d.Origin.Code = d.code(inner, "documentoRelacionado.codigoGeneracion")
	}
}

// maxWithholdings is the most lines of a withholding voucher (FACTS §1.8).
const maxWithholdings = 500

// withholdings numbers the lines of a withholding voucher, and fills what the client library's shape does not have: a
// document number that is a generation code is an electronic one (CAT-007).
func (d *Filled) withholdings() {
	name := "cuerpoDocumento"
	if !hasValue(d.body.Get(name)) {
		name = "items"
	}
	lines := d.Facts.Get("cuerpoDocumento")
	items := make([]dte.Value, lines.Len())
	for i := range items {
		v := lines.Index(i)
		if n, ok := v.Get("numItem").Int(); ok && n != int64(i+1) {
			d.fault(index(name, i)+".numItem", dte.FaultCondition, fmt.Sprintf("Los ítems se numeran en orden desde 1: debe ser %d", i+1))
		}
		v = v.With("numItem", dte.Int(int64(i+1)))
		kind := int64(1)
		if c, err := dte.ParseCode(v.Get("numeroDocumento").Text()); err == nil {
			kind = 2
			v = v.With("numeroDocumento", dte.Str(c.String()))
		}
		if !v.Get("tipoGeneracion").Exists() {
			v = v.With("tipoGeneracion", dte.Int(kind))
		}
		_, noCode := dte.ParseCode(v.Get("numeroDocumento").Text())
		if n, _ := v.Get("tipoGeneracion").Int(); n == 2 && noCode != nil && v.Get("numeroDocumento").Exists() {
			d.fault(d.requestPath(index("cuerpoDocumento", i)+".numeroDocumento"), dte.FaultPattern,
				"Un documento electrónico se nombra con su código de generación; si solo tiene el número, indíquelo como de papel (1)")
		}
		if !v.Get("descripcion").Exists() {
			v = v.With("descripcion", dte.Str("Retención de IVA sobre el documento "+v.Get("numeroDocumento").Text()))
		}
		items[i] = v
	}
	if len(items) > 0 {
		d.Facts = d.Facts.With("cuerpoDocumento", dte.Arr(items...))
	}
}

// specialUnits gives lines that are a tax or a charge beside the tax base the unit that MH wants of them (MF2 pp.30, 33),
// where the request states none.
func (d *Filled) specialUnits() {
	asked, lines := d.body.Get("items"), d.Facts.Get("cuerpoDocumento")
	if asked.Len() != lines.Len() {
		return // some are no objects, and that is told
	}
	var items []dte.Value
	for i := range lines.Len() {
		line := lines.Index(i)
		charge, _ := line.Get("noGravado").Amount()
		if hasValue(asked.Index(i).Get("uniMedida")) || charge == 0 && line.Get("codTributo").Text() == "" {
			continue
		}
		if items == nil {
			items = make([]dte.Value, lines.Len())
			for j := range items {
				items[j] = lines.Index(j)
			}
		}
		items[i] = line.With("uniMedida", dte.Int(otherUnit))
	}
	if items != nil {
		d.Facts = d.Facts.With("cuerpoDocumento", dte.Arr(items...))
	}
}

const otherUnit = 99 // CAT-014
