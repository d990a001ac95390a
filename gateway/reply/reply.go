// Package reply writes answers as JSON: records, lists, results and problems (reply.go, listings.go). It also reads a
// request's body and headers, and sends answers over HTTP (http.go). Package form interprets the members of the body.
package reply

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
)

// object appends a JSON object. members alternate: a name, then its value.
func object(b []byte, members ...any) []byte {
	b = append(b, '{')
	for i := 0; i < len(members); i += 2 {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), members[i].(string)...), `":`...)
		b = value(b, members[i+1])
	}
	return append(b, '}')
}

// Strings and bytes with a special form in JSON.
type (
	optional string // written as null if empty
	verbatim []byte // JSON
)

// value appends the value of a member. If the value is a function, value calls it with b.
func value(b []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return text(b, v)
	case optional:
		if v == "" {
			return append(b, `null`...)
		}
		return text(b, string(v))
	case verbatim:
		return append(b, v...)
	case []string:
		return array(b, v, text)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case time.Time:
		return v.UTC().AppendFormat(b, `"2006-01-02T15:04:05.000Z"`)
	case func([]byte) []byte:
		return v(b)
	}
	panic("reply: a value of an unknown type")
}

func array[T any](b []byte, items []T, item func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, x := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, x)
	}
	return append(b, ']')
}

func text(b []byte, s string) []byte { return dte.Str(s).Append(b) }

// success returns the success envelope (SPEC 2.1) with an object of members as its data.
func success(members ...any) []byte {
	return append(object([]byte(`{"status":"success","data":`), members...), '}')
}

func Problem(b []byte, e *refusal.Error) []byte {
	b = text(append(b, `{"status":"error","type":`...), e.Code)
	b = text(append(b, `,"message":`...), e.Message)
	if len(e.RequiredFields) > 0 {
		b = array(append(b, `,"requiredFields":`...), e.RequiredFields, text)
	}
	if e.Document != "" {
		b = text(append(b, `,"codigoGeneracion":`...), e.Document)
	}
	return append(array(append(b, `,"errors":`...), e.Faults, func(b []byte, f dte.Fault) []byte {
		return object(b, "path", f.Path, "code", f.Code, "message", f.Message)
	}), '}')
}

// Record appends the success envelope with a record (SPEC 2.1, 2.2); document and signature are copied unchanged.
func Record(b []byte, r *record.View) []byte {
	return append(appendRecord(append(b, `{"status":"success","data":`...), r), '}')
}

// InvalidationRefused returns the answer to an invalidation that MH has refused: the document remains valid.
func InvalidationRefused(r *record.View) []byte {
	message := "Hacienda no aceptó la invalidación y el documento sigue vigente: " +
		record.RefusalText(r.Invalidation.Response)
	return object(nil, "status", "error", "message", message,
		"data", func(b []byte) []byte { return appendRecord(b, r) })
}

// RecordSize estimates how many bytes Record appends.
func RecordSize(r *record.View) int { return len(r.JSON) + len(r.JWS) + 2048 }

func appendRecord(b []byte, r *record.View) []byte {
	b = object(b, "id", r.ID, "tipo", r.Tipo, "codigoGeneracion", r.Code, "numeroControl", r.ControlNumber,
		"estado", r.Estado, "ambiente", r.Ambiente, "total", r.Total, "dteJson", verbatim(r.JSON),
		// The signature is base64url and dots.
		"dteFirmado", func(b []byte) []byte { return append(append(append(b, '"'), r.JWS...), '"') }, "selloRecibido",
		optional(r.Sello), "respuestaMh", func(b []byte) []byte { return appendResponse(b, r.Response) },
		"dteJsonUrl", optional(r.JSONURL), "dtePdfUrl", optional(r.PDFURL), "sequenceNumber", r.SequenceNumber,
		"sequenceId", r.SequenceID, "serie", r.Serie, "emisorId", r.EmisorID, "branchId", r.BranchID,
		"pointOfSaleId", r.PointID, "tokenId", r.TokenID, "errorTecnico", optional(r.TechnicalError), "createdAt",
		r.CreatedAt, "analisisHacienda", func(b []byte) []byte { return appendAnalysis(b, r) }, "regla",
		func(b []byte) []byte {
			return object(b, "nombre", r.Rule.Name, "version", r.Rule.Version, "digest", r.Rule.Digest)
		})
	if r.Invalidation == nil {
		return b
	}
	return append(appendInvalidation(append(b[:len(b)-1], `,"invalidacion":`...), r.Invalidation), '}')
}

// appendResponse appends respuestaMh (SPEC 2.3): null in contingency, MH's PROCESADO as PROCESSED.
func appendResponse(b []byte, r *authority.Response) []byte {
	if r == nil {
		return append(b, `null`...)
	}
	estado := r.Estado
	if estado == "PROCESADO" {
		estado = record.EstadoProcessed
	}
	return object(b, "estado", estado, "version", r.Version, "versionApp", r.VersionApp, "ambiente", r.Ambiente,
		"codigoMsg", r.CodigoMsg, "clasificaMsg", r.ClasificaMsg, "descripcionMsg", r.DescripcionMsg,
		"observaciones", r.Observaciones, "selloRecibido", optional(r.SelloRecibido),
		"fhProcesamiento", r.FhProcesamiento, "codigoGeneracion", r.CodigoGeneracion)
}

// appendAnalysis appends analisisHacienda (SPEC 2.4).
func appendAnalysis(b []byte, r *record.View) []byte {
	var notes, faults []string
	message, response := "Documento recibido y procesado por Hacienda", cmp.Or(r.Response, new(authority.Response))
	notes = append(append(notes, response.Observaciones...), r.Warnings...)
	switch r.Estado {
	case record.EstadoRejected:
		message = "Documento rechazado: " + response.DescripcionMsg
		faults = []string{message}
	case record.EstadoInvalidated:
		message = "Documento invalidado: Hacienda recibió el evento de invalidación"
	case record.EstadoContingency:
		message = "Documento emitido en contingencia: se transmitirá a Hacienda cuando sea posible"
	}
	return object(b, "estadoDocumento", r.Estado, "aceptadoPorMH", r.Estado == record.EstadoProcessed,
		"tieneObservaciones", len(notes) > 0, "observaciones", notes, "erroresValidacion", faults, "mensaje", message)
}

func appendInvalidation(b []byte, i *record.Invalidation) []byte {
	var token any = i.TokenID
	if i.TokenID == 0 {
		token = optional("")
	}
	return object(b, "codigoGeneracion", i.Code, "estado", i.Estado, "tipoAnulacion", i.Kind, "motivo", i.Reason,
		"codigoGeneracionReemplazo", optional(i.Replacement), "tokenId", token, "selloRecibido",
		optional(cmp.Or(i.Response, new(authority.Response)).SelloRecibido), "createdAt", i.At, "respuestaMh",
		func(b []byte) []byte { return appendResponse(b, i.Response) })
}

// Information is emisor in the answer of GET /dte/information (SPEC 2.8), as alternating names and values. The point of
// sale, which depends on the token, is missing.
type Information []any

// Issuer returns the answer of GET /dte/information: the emisor, the point of sale, and the permissions of the token.
// SPEC 2.8 has a closed list of permissions; the appliance's own are left out.
func Issuer(i Information, point record.Point, permissions []string) []byte {
	shown := slices.DeleteFunc(slices.Clone(permissions), func(p string) bool {
		return p == record.PermissionRead || p == record.PermissionMail
	})
	return success("emisor", func(b []byte) []byte {
		return object(b, append(slices.Clip(i), "codEstableMH", point.Establishment, "codEstable", point.Establishment,
			"codPuntoVentaMH", point.PointOfSale, "codPuntoVenta", point.PointOfSale)...)
	}, "permissions", shown)
}
