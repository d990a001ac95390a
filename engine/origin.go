package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulebook"
	"dtegate/storage"
)

// Origin names the document that a note adjusts or that a return takes goods back from.
type Origin struct {
	Code dte.Code
	// Document and Date (yyyy-mm-dd), if not empty, are what the request says of it; where that is not so, the
	// request is refused.
	Document, Date string
}

// origin is a stored document that another one is issued against.
type origin struct {
	entry    storage.Entry
	head     *record.Head
	facts    dte.Value // what its till said
	document dte.Value // what was signed
}

// origins finds what documents are issued against, and keeps account of what is left of it.
type origins struct{ *core }

// amounts that notes change, in the order of their counters, by the rule's own names. MH compares them one by one
// ("[resumen.totalGravada] MONTO ES MAYOR AL DOCUMENTO RELACIONADO").
var creditable = [...]string{"totalGravada", "totalExenta", "totalNoSuj"}

// creditableNames are what people call them.
var creditableNames = [...]string{"Lo gravado de la nota", "Lo exento de la nota", "Lo no sujeto de la nota"}

// findOrigin finds the document that a request is issued against and tells what forbids it. Only under its lock does the
// answer stand.
func (from *origins) findOrigin(ctx context.Context, d *draft) (*origin, error) {
	o := &origin{}
	var err error
	o.entry, err = from.Settled(ctx, d.request.Origin.Code)
	if errors.Is(err, storage.ErrNotFound) || err == nil && !record.IsDocument(o.entry.State) {
		return nil, refusal.NotFound(d.request.Origin.Code)
	}
	if err != nil {
		return nil, refusal.Internal(err)
	}
	if o.head, err = record.DecodeHead(o.entry); err != nil {
		return nil, refusal.Internal(err)
	}
	caller := d.request.Caller
	if o.head.BranchID != caller.Point.BranchID {
		return nil, refusal.NotFound(d.request.Origin.Code)
	}
	if err := from.eligible(d, o); err != nil {
		return nil, err
	}
	return o, from.readOrigin(o)
}

// eligible tells whether the type and the state of an origin allow what the request wants of it (SPEC section 3).
func (from *origins) eligible(d *draft, o *origin) error {
	isReturn := record.Types[d.request.Document].Against == record.TakesBack
	wrong := func(code, message string) error {
		return &refusal.Error{Code: code, Message: message, Faults: []dte.Fault{{Path: "origen", Code: code, Message: message}}}
	}
	types := []string{"01", "03", "07"} // of these, the rule of the note takes what it allows
	if isReturn {
		types = []string{"01", "14"}
	}
	if !slices.Contains(types, o.head.Document) {
		return wrong(refusal.CodeOriginType, "El documento de origen es "+record.Types[o.head.Document].Tipo+", que no admite esta operación")
	}
	if p := record.Types[o.head.Document].Permission; isReturn && !slices.Contains(d.request.Caller.Permissions, p) {
		return &refusal.Error{Code: refusal.CodePermission, Message: "El token no tiene el permiso " + p}
	}
	if o.entry.State != record.Accepted || o.head.Invalidation.Pending() {
		estado := record.Estado(o.entry.State)
		if o.head.Invalidation.Pending() {
			estado = "en invalidación"
		}
		if isReturn {
			return wrong(refusal.CodeOriginStatus, "Hacienda no ha aceptado el documento de origen: está "+estado)
		}
		return wrong(refusal.CodeNotProcessed, "Hacienda no ha aceptado el documento original: está "+estado)
	}
	return nil
}

// misnamed is what a request says of its origin and is not so.
func (o *origin) misnamed(said *Origin) (faults []dte.Fault) {
	if said.Document != "" && said.Document != o.head.Document {
		faults = append(faults, dte.Fault{Path: "documentoRelacionado.tipoDte", Code: dte.FaultCondition, Message: "El documento original es de tipo " + o.head.Document})
	}
	if said.Date != "" && said.Date != o.head.Date {
		faults = append(faults, dte.Fault{Path: "documentoRelacionado.fechaEmision", Code: dte.FaultCondition, Message: "El documento original se emitió el " + o.head.Date})
	}
	return faults
}

// readOrigin reads what an origin was made of.
func (from *origins) readOrigin(o *origin) error {
	jws, err := from.Signed(o.entry, o.head)
	if err != nil {
		return refusal.Internal(err)
	}
	signed, err := record.Payload(jws)
	if err != nil {
		return refusal.Internal(err)
	}
	if o.document, err = dte.Parse(signed); err != nil {
		return refusal.Internal(fmt.Errorf("reading origin: %w", err))
	}
	facts, err := from.store.Part(o.entry.Code, o.head.FactsPart())
	if err != nil {
		return refusal.Internal(err)
	}
	if o.facts, err = dte.Parse(facts); err != nil {
		return refusal.Internal(fmt.Errorf("reading origin's facts: %w", err))
	}
	return nil
}

// amount is a number of a document, 0 when it is not there.
func amount(v dte.Value, name string) dte.Amount {
	a, _ := v.Get(name).Amount()
	return a
}

// completeDraft completes a draft from its origin, which stands still: the facts of the note or of the return, and what it
// draws. A note is complete even where an error names its faults. A note's amounts are not known yet; see drawn.
func (from *origins) completeDraft(d *draft, o *origin) error {
	if record.Types[d.request.Document].Against == record.TakesBack {
		return from.takeBack(d, o)
	}
	faults := o.misnamed(d.request.Origin)
	d.facts, faults = noteFacts(d.facts, o, faults)
	if len(faults) > 0 {
		return refusal.Of(faults)
	}
	return nil
}

// drawn returns what a computed document takes from its origin. It refuses the document if that is more than is left.
func (from *origins) drawn(d *draft, o *origin, r *rulebook.Rule, ev *rulebook.Evaluation) error {
	how := record.Types[d.request.Document].Against
	if how == record.TakesBack {
		d.givenBack(r, ev)
		return nil
	}
	left := o.creditable()
	var faults []dte.Fault
	for i, name := range creditable {
		at := slices.Index(r.Description().Summary, name)
		if at < 0 || ev.Computed.Summary[at] == 0 {
			continue
		}
		n := ev.Computed.Summary[at]
		line := uint32(record.LineCredited + i)
		d.draws = append(d.draws, record.Draw{Line: line, Amount: n})
		if how == record.Debits {
			continue
		}
		credited, err := from.store.Counter(o.entry.Code, line)
		if err != nil {
			return refusal.Internal(err)
		}
		if rest := int64(left[i]) - credited; n > rest {
			faults = append(faults, dte.Fault{Path: "cuerpoDocumento", Code: "CREDIT_ABOVE_ORIGINAL",
				Message: fmt.Sprintf("%s suma %s, y del documento original quedan %s", creditableNames[i], dte.Amount(n).Fixed2(), dte.Amount(max(0, rest)).Fixed2())})
		}
	}
	if len(faults) > 0 {
		return refusal.Of(faults)
	}
	return nil
}

// counters are what appending a document adds to its origin's counters, as absolute values. The origin is locked.
func (from *origins) counters(d *draft, o *origin) ([]storage.Counter, error) {
	changes := record.Effect(record.Types[d.request.Document].Against, 0, record.Signed, d.draws, o.entry.Code)
	for i, c := range changes {
		n, err := from.store.Counter(c.Origin, c.Line)
		if err != nil {
			return nil, refusal.Internal(err)
		}
		changes[i].Value += n
	}
	return changes, nil
}
