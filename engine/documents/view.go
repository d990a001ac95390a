package documents

import (
	"fmt"
	"strconv"

	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/storage"
)

// View returns the public record of a stored document whose state is no longer Signed.
func (r *Register) View(entry storage.Entry) (*record.View, error) {
	h, err := record.DecodeHead(entry)
	if err != nil {
		return nil, err
	}
	jws, err := record.SignedForm(r.store, entry.Code, h)
	if err != nil {
		return nil, fmt.Errorf("reading signed document: %w", err)
	}
	document, err := record.Payload(jws)
	if err != nil {
		return nil, err
	}
	return r.ViewOf(entry, h, document, jws)
}

// ViewOf is View for a caller that already has the document's head, text and signature.
func (r *Register) ViewOf(entry storage.Entry, h *record.Head, document, jws []byte) (*record.View, error) {
	estado := record.Estado(entry.State)
	if estado == "" {
		return nil, fmt.Errorf("record %s is in state %d, which has no public name", dte.Code(entry.Code), entry.State)
	}
	v := &record.View{
		ID:             int64(entry.ID),
		Document:       h.Document,
		Tipo:           record.TypeOf(h.Document).Name,
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
		v.TechnicalError = "Rechazado por Hacienda: " + record.RefusalText(h.Response)
		return v, nil
	}
	if h.Response != nil {
		v.Sello = h.Response.SelloRecibido
	}
	v.JSONURL = outbox.ArchivePath(r.slug, h, "json", v.Code)
	v.PDFURL = outbox.ArchivePath(r.slug, h, "pdf", v.Code)
	return v, nil
}
