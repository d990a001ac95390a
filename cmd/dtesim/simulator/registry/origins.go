package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"dtegate/cmd/dtesim/simulator/document"
)

// slowReturns are the activities (CAT-019) whose sales may be returned for two years; MF2 and NV2 list different ones.
var slowReturns = strings.Fields("01282 21001 21008 46482 46484 46491 47721")

// origins looks up what a note adjusts or a retorno gives back, and holds it to what the originals leave (MF2 pp.26-28,
// 48). Only what was sealed before this one was sent, and is not invalidated, counts. One lock for this and the
// seal: two notes cannot both take the rest of one document.
func (b *books) origins(d *document.Document) ([]*record, *document.Refusal) {
	var all []*record
	for _, rel := range d.Root.Objects("documentoRelacionado") {
		field := "numeroDocumento"
		switch {
		case d.Tipo == "18":
			field = "codigoGeneracion"
		case d.Tipo != "05" && d.Tipo != "06": // a 01 or 03 may name documents that are not received here
			return nil, nil
		case rel.Integer("tipoGeneracion") == document.Physical:
			continue
		}
		o := b.records[rel.Text(field)]
		if o == nil || o.nit != d.Issuer.NIT || o.ambiente != d.Ambiente || o.tipo != rel.Text("tipoDocumento") ||
			o.turn > d.Turn {
			b.breach("%s was sent before %s was sealed", d.Code, rel.Text(field))
			return nil, document.Absent("documentoRelacionado." + field)
		}
		if o.invalidated {
			return nil, document.NotAllowed("documentoRelacionado."+field, "El documento relacionado fue invalidado")
		}
		if rel.Text("fechaEmision") != o.date {
			return nil, document.Misdated()
		}
		months := 3
		if d.Tipo == "18" && slices.Contains(slowReturns, o.read().Root.Object("emisor").Text("codActividad")) {
			months = 24
		}
		// From the seal: MF2 p.27 also says from the date of issue, which is no later.
		if day := d.Date(); day < o.date || day > addMonths(o.at.Format(time.DateOnly), months) {
			return nil, document.NotAllowed("identificacion.fecEmi",
				fmt.Sprintf("Fuera de los %d meses del documento relacionado", months))
		}
		if r := d.SameParties(o.read()); r != nil {
			return nil, r
		}
		all = append(all, o)
	}
	for _, o := range all {
		var before []*document.Document
		for _, a := range o.active() {
			before = append(before, a.read())
		}
		if r := d.Fits(o.read(), before, b.reader.On(o.tipo, o.date)); r != nil {
			return nil, r
		}
	}
	return all, nil
}
