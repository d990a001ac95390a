package reply

import (
	"strconv"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
)

// Record appends the success envelope with a record (SPEC 2.1, 2.2). It copies the document and its signature
// unchanged, and does not read them again.
func Record(b []byte, r *record.View) []byte {
	b = append(b, `{"status":"success","data":`...)
	return append(appendRecord(b, r), '}')
}

// InvalidationRefused returns the record of a document whose invalidation MH refused: the document stays as it was.
func InvalidationRefused(r *record.View) []byte {
	b := text([]byte(`{"status":"error","message":`),
		"Hacienda no aceptó la invalidación y el documento sigue vigente: "+record.RefusalText(r.Invalidation.Response))
	return append(appendRecord(append(b, `,"data":`...), r), '}')
}

// RecordSize returns roughly how many bytes Record appends.
func RecordSize(r *record.View) int { return len(r.JSON) + len(r.JWS) + 2048 }

func appendRecord(b []byte, r *record.View) []byte {
	b = strconv.AppendInt(append(b, `{"id":`...), r.ID, 10)
	b = text(append(b, `,"tipo":`...), r.Tipo)
	b = text(append(b, `,"codigoGeneracion":`...), r.Code)
	b = text(append(b, `,"numeroControl":`...), r.ControlNumber)
	b = text(append(b, `,"estado":`...), r.Estado)
	b = text(append(b, `,"ambiente":`...), r.Ambiente)
	b = text(append(b, `,"total":`...), r.Total)
	b = append(append(b, `,"dteJson":`...), r.JSON...)
	b = append(append(append(b, `,"dteFirmado":"`...), r.JWS...), '"') // base64url and dots
	b = optional(append(b, `,"selloRecibido":`...), r.Sello)
	b = appendResponse(append(b, `,"respuestaMh":`...), r.Response)
	b = optional(append(b, `,"dteJsonUrl":`...), r.JSONURL)
	b = optional(append(b, `,"dtePdfUrl":`...), r.PDFURL)
	b = text(append(b, `,"sequenceNumber":`...), r.SequenceNumber)
	b = strconv.AppendInt(append(b, `,"sequenceId":`...), r.SequenceID, 10)
	b = text(append(b, `,"serie":`...), r.Serie)
	b = strconv.AppendInt(append(b, `,"emisorId":`...), r.EmisorID, 10)
	b = strconv.AppendInt(append(b, `,"branchId":`...), r.BranchID, 10)
	b = strconv.AppendInt(append(b, `,"pointOfSaleId":`...), r.PointID, 10)
	b = strconv.AppendInt(append(b, `,"tokenId":`...), r.TokenID, 10)
	b = optional(append(b, `,"errorTecnico":`...), r.TechnicalError)
	b = append(b, `,"createdAt":"`...)
	b = append(r.CreatedAt.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z"), '"')
	b = append(appendAnalysis(append(b, `,"analisisHacienda":`...), r), `,"regla":{`...)
	b = text(append(b, `"nombre":`...), r.Rule.Name)
	b = text(append(b, `,"version":`...), r.Rule.Version)
	b = append(text(append(b, `,"digest":`...), r.Rule.Digest), '}')
	if r.Invalidation == nil {
		return append(b, '}')
	}
	return append(appendInvalidation(append(b, `,"invalidacion":`...), r.Invalidation), '}')
}

// appendResponse is respuestaMh (SPEC 2.3): null in contingency, MH's PROCESADO as PROCESSED.
func appendResponse(b []byte, r *authority.Response) []byte {
	if r == nil {
		return append(b, `null`...)
	}
	estado := r.Estado
	if estado == "PROCESADO" {
		estado = record.EstadoProcessed
	}
	b = text(append(b, `{"estado":`...), estado)
	b = strconv.AppendInt(append(b, `,"version":`...), int64(r.Version), 10)
	b = strconv.AppendInt(append(b, `,"versionApp":`...), int64(r.VersionApp), 10)
	b = text(append(b, `,"ambiente":`...), r.Ambiente)
	b = text(append(b, `,"codigoMsg":`...), r.CodigoMsg)
	b = text(append(b, `,"clasificaMsg":`...), r.ClasificaMsg)
	b = text(append(b, `,"descripcionMsg":`...), r.DescripcionMsg)
	b = texts(append(b, `,"observaciones":`...), r.Observaciones)
	b = optional(append(b, `,"selloRecibido":`...), r.SelloRecibido)
	b = text(append(b, `,"fhProcesamiento":`...), r.FhProcesamiento)
	return append(text(append(b, `,"codigoGeneracion":`...), r.CodigoGeneracion), '}')
}

// appendAnalysis is analisisHacienda (SPEC 2.4).
func appendAnalysis(b []byte, r *record.View) []byte {
	var notes, faults []string
	message := "Documento recibido y procesado por Hacienda"
	if r.Response != nil {
		notes = append(notes, r.Response.Observaciones...)
	}
	notes = append(notes, r.Warnings...)
	switch r.Estado {
	case record.EstadoRejected:
		message = "Documento rechazado: "
		if r.Response != nil {
			message += r.Response.DescripcionMsg
		}
		faults = []string{message}
	case record.EstadoInvalidated:
		message = "Documento invalidado: Hacienda recibió el evento de invalidación"
	case record.EstadoContingency:
		message = "Documento emitido en contingencia: se transmitirá a Hacienda cuando sea posible"
	}
	b = text(append(b, `{"estadoDocumento":`...), r.Estado)
	b = strconv.AppendBool(append(b, `,"aceptadoPorMH":`...), r.Estado == record.EstadoProcessed)
	b = strconv.AppendBool(append(b, `,"tieneObservaciones":`...), len(notes) > 0)
	b = texts(append(b, `,"observaciones":`...), notes)
	b = texts(append(b, `,"erroresValidacion":`...), faults)
	return append(text(append(b, `,"mensaje":`...), message), '}')
}

// appendInvalidation is what a record shows of the event that takes it back.
func appendInvalidation(b []byte, i *record.Invalidation) []byte {
	b = text(append(b, `{"codigoGeneracion":`...), i.Code)
	b = text(append(b, `,"estado":`...), i.Estado)
	b = dte.Int(i.Kind).Append(append(b, `,"tipoAnulacion":`...))
	b = text(append(b, `,"motivo":`...), i.Reason)
	b = optional(append(b, `,"codigoGeneracionReemplazo":`...), i.Replacement)
	sello := ""
	if i.Response != nil {
		sello = i.Response.SelloRecibido
	}
	b = append(b, `,"tokenId":`...)
	if i.TokenID == 0 {
		b = append(b, `null`...)
	} else {
		b = strconv.AppendInt(b, i.TokenID, 10)
	}
	b = optional(append(b, `,"selloRecibido":`...), sello)
	b = append(i.At.UTC().AppendFormat(append(b, `,"createdAt":"`...), "2006-01-02T15:04:05.000Z"), '"')
	return append(appendResponse(append(b, `,"respuestaMh":`...), i.Response), '}')
}
