package reply

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"dtegate/engine"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
)

// Infos returns the answer of POST /dte/documentos-info (SPEC 4.10), in the order of the request.
func Infos(found []documents.Info) []byte {
	n := 0
	for _, i := range found {
		if i.Found {
			n++
		}
	}
	b := fmt.Appendf(nil, `{"status":"success","data":{"totalSolicitados":%d,"totalEncontrados":%d,"totalNoEncontrados":%d,"documentos":[`, len(found), n, len(found)-n)
	for i, f := range found {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(append(b, `{"codigoGeneracion":`...), f.Code)
		b = strconv.AppendBool(append(b, `,"encontrado":`...), f.Found)
		b = optional(append(b, `,"selloRecibido":`...), f.Sello)
		b = optional(append(b, `,"estado":`...), f.Estado)
		b = append(optional(append(b, `,"tipo":`...), f.Tipo), '}')
	}
	return append(b, `]}}`...)
}

// Listing returns a page of GET /dte/documentos.
func Listing(l *documents.Listing) []byte {
	b := append([]byte(nil), `{"status":"success","data":{"documentos":[`...)
	for i, x := range l.Lines {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendLine(b, &x)
	}
	b = append(b, `],"siguiente":`...)
	if l.Next == 0 {
		b = append(b, `null`...)
	} else {
		b = text(b, strconv.FormatInt(l.Next, 36))
	}
	b = append(b, `,"totales":[`...)
	for i, x := range l.Totals {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(append(b, `{"tipo":`...), x.Tipo)
		b = text(append(b, `,"estado":`...), x.Estado)
		b = strconv.AppendInt(append(b, `,"documentos":`...), int64(x.Count), 10)
		b = append(text(append(b, `,"total":`...), x.Amount), '}')
	}
	return append(b, `]}}`...)
}

func appendLine(b []byte, x *documents.Line) []byte {
	b = strconv.AppendInt(append(b, `{"id":`...), x.ID, 10)
	b = text(append(b, `,"tipo":`...), x.Tipo)
	b = text(append(b, `,"tipoDte":`...), x.Document)
	b = text(append(b, `,"codigoGeneracion":`...), x.Code)
	b = text(append(b, `,"numeroControl":`...), x.ControlNumber)
	b = text(append(b, `,"estado":`...), x.Estado)
	b = text(append(b, `,"total":`...), x.Total)
	b = text(append(b, `,"fecEmi":`...), x.Date)
	b = optional(append(b, `,"selloRecibido":`...), x.Sello)
	b = strconv.AppendInt(append(b, `,"pointOfSaleId":`...), x.PointID, 10)
	b = append(b, `,"createdAt":"`...)
	return append(x.CreatedAt.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z"), `"}`...)
}

// Changes returns a page of GET /dte/cambios; next is the cursor of the next page.
func Changes(list []documents.Late, next uint64) []byte {
	b := append([]byte(nil), `{"status":"success","data":{"cambios":[`...)
	for i, l := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(append(b, `{"cursor":`...), strconv.FormatUint(l.Cursor, 36))
		b = text(append(b, `,"codigoGeneracion":`...), l.Code)
		b = text(append(b, `,"numeroControl":`...), l.ControlNumber)
		b = text(append(b, `,"tipo":`...), l.Tipo)
		b = text(append(b, `,"estado":`...), l.Estado)
		b = optional(append(b, `,"selloRecibido":`...), l.Sello)
		b = optional(append(b, `,"descripcionMsg":`...), l.Text)
		b = append(strconv.AppendInt(append(b, `,"pointOfSaleId":`...), l.PointID, 10), '}')
	}
	b = text(append(b, `],"siguiente":`...), strconv.FormatUint(next, 36))
	return append(b, `}}`...)
}

// Validation returns the answer to a sale that was only to be validated: what it comes to.
func Validation(v *engine.Validation) ([]byte, error) {
	document, err := dte.Parse(v.JSON)
	if err != nil {
		return nil, err
	}
	b := text([]byte(`{"status":"success","data":{"valido":true,"tipoDte":`), v.Document)
	b = text(append(b, `,"tipo":`...), record.TypeOf(v.Document).Name)
	b = text(append(b, `,"total":`...), v.Total)
	for _, name := range []string{"cuerpoDocumento", "resumen"} {
		b = append(text(append(b, ','), name), ':')
		if part := document.Get(name); part.Exists() {
			b = part.Append(b)
		} else {
			b = append(b, "null"...)
		}
	}
	return append(texts(append(b, `,"observaciones":`...), v.Warnings), `}}`...), nil
}

// CodeLists returns the answer of GET /dte/catalogos: the names of all catalogues.
func CodeLists(c *dte.Catalogues) []byte {
	b := []byte(`{"status":"success","data":{"catalogos":[`)
	for i, l := range c.Lists() {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(append(text(append(b, `{"catalogo":`...), l.ID), `,"nombre":`...), l.Name)
		b = append(b, '}')
	}
	return append(b, `]}}`...)
}

// CodeList returns the answer of GET /dte/catalogos/:catalogo: the codes of one catalogue, in order. version is MH's
// edition.
func CodeList(version string, l *dte.CodeList) []byte {
	b := text([]byte(`{"status":"success","data":{"catalogo":`), l.ID)
	b = text(append(b, `,"nombre":`...), l.Name)
	b = append(text(append(b, `,"version":`...), version), `,"valores":[`...)
	for i, code := range slices.Sorted(maps.Keys(l.Texts)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(append(b, `{"codigo":`...), code)
		b = append(text(append(b, `,"texto":`...), l.Texts[code]), '}')
	}
	return append(b, `]}}`...)
}

// Resent returns the answer of POST /dte/resend.
func Resent(r *outbox.Resent) []byte {
	message := "Documento enviado a " + r.To
	switch {
	case r.Refused:
		message = "El servidor de correo no acepta el documento para " + r.To + ": revise la dirección"
	case !r.Sent:
		message = "El servidor de correo no ha recibido el documento todavía: se enviará a " + r.To +
			" en cuanto sea posible"
	}
	b := text(append([]byte(nil), `{"status":"success","message":`...), message)
	b = text(append(b, `,"data":{"codigoGeneracion":`...), r.Code)
	b = text(append(b, `,"emailEnviado":`...), r.To)
	b = strconv.AppendBool(append(b, `,"correoEnviado":`...), r.Sent)
	b = text(append(b, `,"tipo":`...), r.Tipo)
	return append(text(append(b, `,"estado":`...), r.Estado), `}}`...)
}
