package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"dtegate/cmd/dtesim/simulator/document"
)

// slowReturns are the activities (CAT-019) whose sales may be returned for two years; MF2's list differs from NV2's.
var slowReturns = strings.Fields("01282 21001 21008 46482 46484 46491 47721")

// origins returns the documents that a note or retorno adjusts, and checks its amounts against what remains of these
// originals (MF2 pp.26-28, 48). An original must be sealed before d was sent, and not invalidated. One lock covers this
// check and the seal, so that two notes cannot both take the same remainder.
func (b *books) origins(d *document.Document) ([]*record, *document.Refusal) {
	var all []*record
	for _, rel := range d.Root.Objects("documentoRelacionado") {
		field := "numeroDocumento"
		switch {
		case d.Tipo == "18":
			field = "codigoGeneracion"
		case d.Tipo != "05" && d.Tipo != "06": // a 01 or 03 may name documents unknown here
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
		// The months count from the seal. MF2 p.27 also says from the date of issue, which is not later than the seal.
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
