package enginetest

import (
	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/engine/record"
)

// named gives an invoice its customer: before DTE 2.0 an invalidation must name one.
func named(r engine.Request) engine.Request {
	r.Facts = r.Facts.With("receptor", Taxpayer)
	return r
}

// Originals are what notes and returns are issued against.
type Originals struct{ Invoice, Voucher *record.View }

func (b *Box) Originals(key string) Originals {
	b.T.Helper()
	return Originals{Issued(b.T, b.Engine, named(Invoice(key+" 01", Item(1, "3", "5.65"))), record.EstadoProcessed),
		Issued(b.T, b.Engine, Voucher(key+" 03", Item(1, "1", "100")), record.EstadoProcessed)}
}

// Request makes a request of one type. The credit note and the return take all that is left of their originals.
func (o Originals) Request(document, key string) engine.Request {
	key += " " + document
	switch document {
	case "01":
		return named(Invoice(key, Item(1, "1", "5.65")))
	case "03":
		return Voucher(key, Item(1, "1", "40"))
	case "05":
		return NoteOn("05", key, o.Voucher, Item(1, "1", "100"))
	case "06":
		return NoteOn("06", key, o.Voucher, Item(1, "1", "10"))
	case "07":
		return Request("07", key, Member("receptor", Taxpayer), onTerms(), Member("cuerpoDocumento", dte.Arr(dte.Obj(
			Member("numItem", dte.Int(1)), Member("tipoDte", dte.Str("03")), Member("tipoGeneracion", dte.Int(2)),
			Member("numeroDocumento", dte.Str("5B0C2A6E-4D6F-4F3C-9C55-0A1B2C3D4E5F")), Member("fechaEmision",
				dte.Str("2025-10-31")),
			Member("montoSujetoGrav", decimal("500")), Member("codigoRetencionMH", dte.Str("22")), Member("ivaRetenido",
				decimal("5")),
			Member("descripcion", dte.Str("Compra"))))))
	case "14":
		return Request("14", key, Member("receptor", Taxpayer), Member("applyrent", dte.Bool(true)),
			Member("cuerpoDocumento", dte.Arr(Item(1, "1", "20"))), Cash())
	}
	return ReturnOf(key, o.Invoice, Back(1, "3"))
}
