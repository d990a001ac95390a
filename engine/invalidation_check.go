package engine

import (
	"context"
	"slices"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/record"
	"dtegate/engine/rulebook"
	"dtegate/storage"
)

// CheckInvalidation returns what is wrong with a request that the gateway could not read completely, besides the faults that
// the gateway found. It changes nothing. It returns nothing for a document that cannot be invalidated.
func (inv *invalidations) CheckInvalidation(ctx context.Context, req InvalidationRequest) []dte.Fault {
	reader := req.Caller
	reader.OwnTypes = false
	if _, err := inv.Document(ctx, req.Code, reader); err != nil {
		return nil
	}
	now := inv.now()
	rule, err := inv.rules().PickEvent("invalidacion", inv.issuer.Ambiente, dte.Date(now))
	if err != nil {
		return nil
	}
	o := &origin{}
	if o.entry, err = inv.store.Get(storage.Code(req.Code)); err != nil {
		return nil
	}
	if o.head, err = record.DecodeHead(o.entry); err != nil || o.entry.State != record.Accepted || inv.readOrigin(o) != nil || inv.invalidable(rule, o, now) != nil {
		return nil
	}
	_, faults := inv.fillInvalidation(req, rule, o, req.Code, now) // any code serves
	return faults
}

// fillInvalidation makes the event, or returns everything that is wrong with what was asked for.
func (inv *invalidations) fillInvalidation(req InvalidationRequest, rule *rulebook.Event, o *origin, code dte.Code, now time.Time) ([]byte, []dte.Fault) {
	var faults []dte.Fault
	if f := inv.replacementFault(req, rule, o); f != nil {
		faults = append(faults, *f)
	}
	document, found := rule.Filler.Fill(nil, inv.invalidationFacts(req, rule, o, code, now), nil, schema.FillOptions{Catalogues: true})
	for _, f := range found {
		if f.Path != "documento.codigoGeneracionR" || len(faults) == 0 { // said in words of the request
			faults = append(faults, f)
		}
	}
	return document, slices.Clip(faults)
}

// replacementFault is what is wrong with the document that replaces the invalidated one, nil for nothing (MF2 pp.9-17).
func (inv *invalidations) replacementFault(req InvalidationRequest, rule *rulebook.Event, o *origin) *dte.Fault {
	fault := func(code, message string) *dte.Fault {
		return &dte.Fault{Path: "codigoGeneracionReemplazo", Code: code, Message: message}
	}
	never := rule.Whole("noReplacement"+o.head.Document) == 1 || req.Kind == 2
	switch {
	case req.Kind < 1 || req.Kind > 3: // not known whether it bears one
		return nil
	case never && req.Replacement != "":
		return fault(dte.FaultCondition, "Esta invalidación no lleva documento de reemplazo")
	case never:
		return nil
	case req.Replacement == "":
		return fault(dte.FaultRequired, "Falta el documento que lo reemplaza: es obligatorio por error en los datos (1) y por otro motivo (3)")
	}
	code, err := dte.ParseCode(req.Replacement)
	if err != nil {
		return fault(dte.FaultPattern, "No es un código de generación: son 36 caracteres en cinco grupos, con guiones")
	}
	other, err := inv.store.Get(storage.Code(code))
	var h *record.Head
	if err == nil {
		h, err = record.DecodeHead(other)
	}
	if err != nil || code == req.Code || other.State != record.Accepted || h.Document != o.head.Document || h.BranchID != o.head.BranchID {
		return fault(dte.FaultCondition, "Debe ser otro documento del mismo tipo, ya aceptado por Hacienda")
	}
	return nil
}
