package engine

import (
	"fmt"
	"strconv"

	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/storage"
)

// record makes the public record of a stored document that has left Signed.
func (e *Engine) record(entry storage.Entry) (*record.View, error) {
	h, err := record.DecodeHead(entry)
	if err != nil {
		return nil, err
	}
	named := h.Form
	jws, err := e.signed(entry, h)
	if err == nil && h.Form != named {
		err = e.mend(entry, h)
	}
	if err != nil {
		return nil, fmt.Errorf("reading signed document: %w", err)
	}
	document, err := record.Payload(jws)
	if err != nil {
		return nil, err
	}
	return e.view(entry, h, document, jws)
}

func (e *Engine) view(entry storage.Entry, h *record.Head, document, jws []byte) (*record.View, error) {
	estado := record.Estado(entry.State)
	if estado == "" {
		return nil, fmt.Errorf("record %s is in state %d, which has no public name", dte.Code(entry.Code), entry.State)
	}
	r := &record.View{
		ID:             int64(entry.ID),
		Document:       h.Document,
		Tipo:           record.Types[h.Document].Tipo,
		Code:           dte.Code(entry.Code).String(),
		ControlNumber:  h.ControlNumber,
		Estado:         estado,
		Ambiente:       record.AmbienteName(h.Ambiente),
		Total:          h.Total,
		JSON:           document,
		JWS:            jws,
		Response:       h.Response,
		SequenceNumber: strconv.FormatUint(entry.Number, 10),
		SequenceID:     int64(entry.SequenceID),
		Serie:          h.Serie,
		EmisorID:       h.EmisorID, BranchID: h.BranchID, PointID: h.PointID, TokenID: h.TokenID,
		CreatedAt:    h.CreatedAt,
		Rule:         h.Rule,
		Warnings:     h.Warnings,
		Invalidation: h.Invalidation,
	}
	if entry.State == record.Rejected {
		r.TechnicalError = "Rechazado por Hacienda: " + record.RefusalText(h.Response)
		return r, nil
	}
	if h.Response != nil {
		r.Sello = h.Response.SelloRecibido
	}
	r.JSONURL = outbox.ArchivePath(e.issuer.Slug, h, "json", r.Code)
	r.PDFURL = outbox.ArchivePath(e.issuer.Slug, h, "pdf", r.Code)
	return r, nil
}
