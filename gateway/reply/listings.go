package reply

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"time"

	"dtegate/engine"
	"dtegate/engine/documents"
	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
)

// Infos returns the answer of POST /dte/documentos-info (SPEC 4.10). found is in the order of the request.
func Infos(found []documents.Info) []byte {
	n := 0
	for _, i := range found {
		if i.Found {
			n++
		}
	}
	return success("totalSolicitados", len(found), "totalEncontrados", n, "totalNoEncontrados", len(found)-n,
		"documentos", func(b []byte) []byte {
			return array(b, found, func(b []byte, f documents.Info) []byte {
				return object(b, "codigoGeneracion", f.Code, "encontrado", f.Found, "selloRecibido", optional(f.Sello),
					"estado", optional(f.Estado), "tipo", optional(f.Tipo))
			})
		})
}

// Listing returns a page of GET /dte/documentos.
func Listing(l *documents.Listing) []byte {
	next := ""
	if l.Next != 0 {
		next = strconv.FormatInt(l.Next, 36)
	}
	return success("documentos", func(b []byte) []byte {
		return array(b, l.Lines, func(b []byte, x documents.Line) []byte {
			return object(b, "id", x.ID, "tipo", x.Tipo, "tipoDte", x.Document, "codigoGeneracion", x.Code,
				"numeroControl", x.ControlNumber, "estado", x.Estado, "total", x.Total, "fecEmi", x.Date,
				"selloRecibido", optional(x.Sello), "pointOfSaleId", x.PointID, "createdAt", x.CreatedAt)
		})
	}, "siguiente", optional(next), "totales", func(b []byte) []byte {
		return array(b, l.Totals, func(b []byte, x documents.Total) []byte {
			return object(b, "tipo", x.Tipo, "estado", x.Estado, "documentos", x.Count, "total", x.Amount)
		})
	})
}

// Changes returns a page of GET /dte/cambios; next is the cursor of the next page.
func Changes(list []documents.Late, next uint64) []byte {
	return success("cambios", func(b []byte) []byte {
		return array(b, list, func(b []byte, l documents.Late) []byte {
			return object(b, "cursor", strconv.FormatUint(l.Cursor, 36), "codigoGeneracion", l.Code,
				"numeroControl", l.ControlNumber, "tipo", l.Tipo, "estado", l.Estado,
				"selloRecibido", optional(l.Sello), "descripcionMsg", optional(l.Text), "pointOfSaleId", l.PointID)
		})
	}, "siguiente", strconv.FormatUint(next, 36))
}

// Validation returns the answer to a sale with Prefer: validate: its total, lines and summary, and the warnings.
func Validation(v *engine.Validation) ([]byte, error) {
	document, err := dte.Parse(v.JSON)
	if err != nil {
		return nil, err
	}
	part := func(name string) func([]byte) []byte {
		return func(b []byte) []byte {
			if p := document.Get(name); p.Exists() {
				return p.Append(b)
			}
			return append(b, `null`...)
		}
	}
	return success("valido", true, "tipoDte", v.Document, "tipo", record.TypeOf(v.Document).Name, "total", v.Total,
		"cuerpoDocumento", part("cuerpoDocumento"), "resumen", part("resumen"), "observaciones", v.Warnings), nil
}

// CodeLists returns the answer of GET /dte/catalogos: the names of all catalogues.
func CodeLists(c *dte.Catalogues) []byte {
	return success("catalogos", func(b []byte) []byte {
		return array(b, c.Lists(), func(b []byte, l *dte.CodeList) []byte {
			return object(b, "catalogo", l.ID, "nombre", l.Name)
		})
	})
}

// CodeList returns the answer of GET /dte/catalogos/:catalogo: the codes of a catalogue, in MH's version.
func CodeList(version string, l *dte.CodeList) []byte {
	return success("catalogo", l.ID, "nombre", l.Name, "version", version, "valores", func(b []byte) []byte {
		return array(b, slices.Sorted(maps.Keys(l.Texts)), func(b []byte, code string) []byte {
			return object(b, "codigo", code, "texto", l.Texts[code])
		})
	})
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
	return object(nil, "status", "success", "message", message, "data", func(b []byte) []byte {
		return object(b, "codigoGeneracion", r.Code, "emailEnviado", r.To, "correoEnviado", r.Sent, "tipo", r.Tipo,
			"estado", r.Estado)
	})
}

// Printed returns the answer of GET /dte/pdf?format=base64.
func Printed(code dte.Code, name string, pdf []byte) []byte {
	return success("codigoGeneracion", code.String(), "base64", func(b []byte) []byte {
		return append(base64.StdEncoding.AppendEncode(append(b, '"'), pdf), '"')
	}, "contentType", "application/pdf", "filename", name)
}

// Link returns the answer of GET /dte/pdf?format=url. life is how long the link is valid.
func Link(code dte.Code, url string, life time.Duration) []byte {
	return success("codigoGeneracion", code.String(), "url", url, "expiresIn", int(life/time.Second),
		"filename", code.String()+".pdf")
}
