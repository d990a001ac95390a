package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulebook"
	"dtegate/engine/seller"
	"dtegate/storage"
)

// InvalidationRequest is a request to invalidate a document at MH (MF2 pp.9-17).
type InvalidationRequest struct {
	Code dte.Code
	// Kind is CAT-024: 1 error, 2 the operation is rescinded, 3 other.
	Kind                   int64
	Reason                 string
	Responsible, Applicant seller.Person
	// Replacement, of kinds 1 and 3, is the code of the accepted document that takes its place; "" otherwise.
	Replacement string
	Caller      seller.Caller
}

// invalidations take documents back.
type invalidations struct {
	*core
	*origins
}

// invalidateAfter is how often an invalidation without an answer is sent again.
const invalidateAfter = time.Minute

// PermissionInvalidate is the permission that Invalidate takes (SPEC 2.8).
const PermissionInvalidate = "ANULACION"

// Invalidate invalidates an accepted document. The event is signed and stored before it is sent. Without an answer it stays
// pending, and the same bytes are sent again until MH decides. If the request is repeated, Invalidate returns the document as
// it stands now. Errors are *refusal.Error.
func (inv *invalidations) Invalidate(ctx context.Context, req InvalidationRequest) (*record.View, error) {
	shown, err := inv.invalidate(ctx, req)
	inv.metrics.invalidated(shown, err)
	return shown, err
}

func (inv *invalidations) invalidate(ctx context.Context, req InvalidationRequest) (*record.View, error) {
	reader := req.Caller
	reader.OwnTypes = false                                        // the permission to invalidate is one to read what is invalidated
	if _, err := inv.Document(ctx, req.Code, reader); err != nil { // waits for one that is being settled
		return nil, err
	}
	release, err := inv.Hold(ctx, req.Code)
	if err != nil {
		return nil, refusal.Unavailable(err, "El documento aún se está procesando")
	}
	defer release()
	entry, err := inv.store.Get(storage.Code(req.Code))
	if err != nil {
		return nil, refusal.Internal(err)
	}
	h, err := record.DecodeHead(entry)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	switch {
	case entry.State == record.Invalidated:
		return inv.public(entry)
	case entry.State != record.Accepted:
		return nil, &refusal.Error{Code: refusal.CodeNotProcessed, Message: "Solo se invalida un documento que Hacienda aceptó; este está " + record.Estado(entry.State)}
	case h.Invalidation.Pending():
		h.Invalidation = h.Invalidation.Doubted()
	default:
		if entry, h, err = inv.begin(ctx, req, entry, h); err != nil {
			return nil, err
		}
	}
	entry, err = inv.sendInvalidation(ctx, entry, h, false)
	if !errors.Is(err, errNothingSent) {
		inv.recordAct(req.Caller, ActInvalidate, req.Code, "")
	}
	if err != nil {
		return nil, err
	}
	return inv.public(entry)
}

// errNothingSent: MH did not receive the event, which is forgotten.
var errNothingSent = errors.New("nothing was sent")

// begin checks, signs and stores the event. After it a crash is safe: the event is due and is sent.
func (inv *invalidations) begin(ctx context.Context, req InvalidationRequest, entry storage.Entry, h *record.Head) (storage.Entry, *record.Head, error) {
	now := inv.now()
	day := dte.Date(now)
	rule, err := inv.rules().PickEvent("invalidacion", inv.issuer.Ambiente, day)
	if err != nil {
		return entry, nil, refusal.Unavailable(err, "No hay reglas vigentes para la invalidación")
	}
	o := &origin{entry: entry, head: h}
	if err := inv.readOrigin(o); err != nil {
		return entry, nil, err
	}
	if err := inv.invalidable(rule, o, now); err != nil {
		return entry, nil, err
	}
	code, err := dte.NewCode(inv.rand)
	if err != nil {
		return entry, nil, refusal.Internal(err)
	}
	document, faults := inv.fillInvalidation(req, rule, o, code, now)
	if len(faults) > 0 {
		return entry, nil, refusal.Of(faults)
	}
	jws, err := inv.signer.Right(code, record.FormNormal).Sign(ctx, document)
	if err != nil {
		return entry, nil, refusal.Unavailable(err, "La invalidación no pudo firmarse")
	}
	next := *h
	next.Invalidation = &record.Invalidation{Code: code.String(), Estado: record.EstadoPending, Kind: req.Kind, Reason: req.Reason, Replacement: req.Replacement,
		At: now.UTC().Truncate(time.Millisecond), Version: rule.Filler.Version(), Rule: rule.Ref, TokenID: req.Caller.TokenID}
	entry, err = inv.move(ctx, entry, storage.Change{To: record.Accepted, Parts: []storage.Part{{Name: record.PartInvalidation(code.String()), Data: jws}},
		Due: &storage.Due{Queue: record.QueueInvalidate, At: now.Add(invalidateAfter)}}, &next)
	if err != nil {
		return entry, nil, err
	}
	// A note that was being issued against the document came before the line above, and is counted here, or sees that
	// its original is being taken back.
	if err := inv.unburdened(entry); err != nil {
		_, undo := inv.abandon(ctx, entry, &next)
		if undo != nil {
			return entry, nil, undo
		}
		return entry, nil, err
	}
	return entry, &next, nil
}

// abandon forgets an event that MH has not received.
func (inv *invalidations) abandon(ctx context.Context, entry storage.Entry, h *record.Head) (storage.Entry, error) {
	next := *h
	next.Invalidation = nil
	return inv.move(ctx, entry, storage.Change{To: record.Accepted}, &next)
}

// sendInvalidation sends a pending event and records what MH says; late: nobody waits for it, it is announced. The caller
// holds the document's lock.
func (inv *invalidations) sendInvalidation(ctx context.Context, entry storage.Entry, h *record.Head, late bool) (storage.Entry, error) {
	jws, err := inv.store.Part(entry.Code, record.PartInvalidation(h.Invalidation.Code))
	if err != nil {
		return entry, refusal.Internal(err)
	}
	o := inv.client.Invalidate(ctx, authority.Event{Version: h.Invalidation.Version, Code: h.Invalidation.Code, JWS: string(jws), SendID: inv.sendID()})
	next, event := *h, *h.Invalidation
	next.Invalidation = &event
	event.Response = o.Response
	switch {
	case o.Kind == authority.Accepted, o.Kind == authority.Rejected && o.Response.CodigoMsg == authority.CodeRegistered:
		// Already registered: MH holds the very event that it was sent before, without telling, or one that took the document
		// back in a time that this store has lost.
		event.Estado, event.Doubtful = record.EstadoProcessed, false
		return inv.move(ctx, entry, storage.Change{To: record.Invalidated, Announce: late}, &next)
	case o.Kind == authority.Rejected:
		event.Estado, event.Doubtful = record.EstadoRejected, false
		return inv.move(ctx, entry, storage.Change{To: record.Accepted, Announce: late}, &next)
	case !o.Sent && !h.Invalidation.Doubtful:
		if _, err := inv.abandon(ctx, entry, h); err != nil {
			return entry, err
		}
		return entry, &refusal.Error{Code: refusal.CodeUnavailable, Message: "Hacienda no está disponible, y no recibe invalidaciones en contingencia: repita más tarde", RetryAfter: invalidateAfter, Err: errors.Join(errNothingSent, o.Err)}
	}
	event.Doubtful = true
	if _, err := inv.move(ctx, entry, storage.Change{To: record.Accepted, Due: &storage.Due{Queue: record.QueueInvalidate, At: inv.now().Add(invalidateAfter)}}, &next); err != nil {
		return entry, err
	}
	return entry, &refusal.Error{Code: refusal.CodeUnavailable, Message: "Hacienda no ha respondido a la invalidación; se enviará otra vez", RetryAfter: invalidateAfter, Err: o.Err}
}

// resumeInvalidations sends the events that are due before a time.
func (inv *invalidations) resumeInvalidations(ctx context.Context, before time.Time) error {
	open, err := inv.store.Due(record.QueueInvalidate, before, 100)
	if err != nil {
		return fmt.Errorf("listing pending invalidations: %w", err)
	}
	for _, due := range open {
		if err := inv.resumeInvalidation(ctx, due.Code); err != nil {
			inv.log.Warn("sending an invalidation", "code", dte.Code(due.Code).String(), "error", err)
		}
	}
	return nil
}

func (inv *invalidations) resumeInvalidation(ctx context.Context, code storage.Code) error {
	entry, h, release, err := inv.Lock(ctx, code)
	if err != nil {
		return err
	}
	defer release()
	if entry.State != record.Accepted || !h.Invalidation.Pending() {
		return nil
	}
	h.Invalidation = h.Invalidation.Doubted()
	_, err = inv.sendInvalidation(ctx, entry, h, true)
	return err
}

// invalidable returns what forbids an invalidation (MF2 pp.9-17): its time is over, or something stands against the document.
func (inv *invalidations) invalidable(rule *rulebook.Event, o *origin, now time.Time) error {
	forbidden := func(format string, args ...any) error {
		return &refusal.Error{Code: refusal.CodeNotInvalidable, Message: fmt.Sprintf(format, args...)}
	}
	if end := window(rule, o.head); !end.IsZero() && !now.Before(end) {
		return forbidden("El plazo para invalidar el documento terminó el %s", dte.Date(end.Add(-time.Second)))
	}
	if err := inv.unburdened(o.entry); err != nil {
		return err
	}
	if record.Types[o.head.Document].Against == record.Debits {
		if err := inv.roomWithout(o); err != nil {
			return err
		}
	}
	return nil
}

// unburdened refuses while a note or a return stands against a document.
func (inv *invalidations) unburdened(entry storage.Entry) error {
	n, err := inv.store.Counter(entry.Code, record.LineActive)
	if err != nil {
		return refusal.Internal(err)
	}
	if n > 0 {
		return &refusal.Error{Code: refusal.CodeNotInvalidable, Message: fmt.Sprintf("Hay %d notas o retornos vigentes sobre el documento: invalídelos antes", n)}
	}
	return nil
}

// roomWithout refuses to take back a debit note whose amount has been credited since.
func (inv *invalidations) roomWithout(o *origin) error {
	code, err := dte.ParseCode(o.head.Origin)
	if err != nil {
		return refusal.Internal(err)
	}
	original, err := inv.store.Get(storage.Code(code))
	if err != nil {
		return refusal.Internal(err)
	}
	base := &origin{entry: original}
	if base.head, err = record.DecodeHead(original); err != nil {
		return refusal.Internal(err)
	}
	if err := inv.readOrigin(base); err != nil {
		return err
	}
	changes, err := inv.effect(o.entry, o.head, record.Invalidated)
	if err != nil {
		return refusal.Internal(err)
	}
	left := base.creditable()
	for _, c := range changes {
		if c.Line == record.LineActive {
			continue
		}
		n, err := inv.store.Counter(c.Origin, c.Line)
		if err != nil {
			return refusal.Internal(err)
		}
		if n+c.Value > int64(left[c.Line-record.LineCredited]) {
			return &refusal.Error{Code: refusal.CodeNotInvalidable, Message: "Notas de crédito posteriores usan el monto de esta nota de débito: invalídelas antes"}
		}
	}
	return nil
}

// window is when the time to invalidate a document ends, from its seal: a number of months, or the end of a business
// day of the month after. The parameters are the bundle's, by document type; zero time when it sets neither.
func window(rule *rulebook.Event, h *record.Head) time.Time {
	sealed := h.CreatedAt
	if h.Response != nil {
		if at, err := time.ParseInLocation("02/01/2006 15:04:05", h.Response.FhProcesamiento, dte.Zone); err == nil {
			sealed = at
		}
	}
	sealed = sealed.In(dte.Zone)
	midnight := time.Date(sealed.Year(), sealed.Month(), sealed.Day(), 0, 0, 0, 0, dte.Zone)
	if n := rule.Whole("windowMonths" + h.Document); n > 0 {
		return midnight.AddDate(0, n, 1)
	}
	if n := rule.Whole("windowBusinessDay" + h.Document); n > 0 {
		next := time.Date(sealed.Year(), sealed.Month()+1, 1, 0, 0, 0, 0, dte.Zone)
		return dte.NthBusinessDay(next.Year(), next.Month(), n).AddDate(0, 0, 1)
	}
	return time.Time{}
}

// invalidationFacts are the event's facts. The receptor is the document's own, null where that is null (MF2 p.12).
func (inv *invalidations) invalidationFacts(req InvalidationRequest, rule *rulebook.Event, o *origin, code dte.Code, now time.Time) dte.Value {
	h := o.head
	text := func(s string) dte.Value {
		if s == "" {
			return dte.Null()
		}
		return dte.Str(s)
	}
	day := dte.Date(now)
	if rule.Whole("sameDate"+h.Document) == 1 {
		day = h.Date
	}
	establishment, point := seller.EstablishmentOf(h, req.Caller.Point)
	receptor := o.facts.Get("receptor")
	// A document that names its receptor by NIT alone means type 36 of CAT-022, whatever else the till said.
	if nit := o.document.Get("receptor").Get("nit"); nit.Exists() && !nit.IsNull() {
		receptor = receptor.With("tipoDocumento", dte.Str("36")).With("numDocumento", nit)
	}
	// The layout before DTE 2.0 wants a customer even of a sale that names none: who asks stands for him.
	if rule.Whole("applicantForCustomer") == 1 && (receptor.Get("nombre").Text() == "" || receptor.Get("numDocumento").Text() == "") {
		receptor = receptor.With("tipoDocumento", text(req.Applicant.DocumentType)).With("numDocumento", text(req.Applicant.Document)).With("nombre", text(req.Applicant.Name))
	}
	// What the receptor does not say is left to the layout: null, or left out where that has no null for it.
	var said []dte.Member
	for _, name := range [...]string{"tipoDocumento", "numDocumento", "nombre", "telefono", "correo"} {
		if v := receptor.Get(name); v.Exists() && !v.IsNull() {
			said = append(said, dte.Member{Name: name, Value: v})
		}
	}
	number := o.document.Get("identificacion").Get("numeroControl")
	if !number.Exists() {
		number = dte.Null()
	}
	person := func(p seller.Person, suffix string) []dte.Member {
		return []dte.Member{{Name: "nombre" + suffix, Value: text(p.Name)}, {Name: "tipDoc" + suffix, Value: text(p.DocumentType)}, {Name: "numDoc" + suffix, Value: text(p.Document)}}
	}
	return dte.Obj(
		dte.Member{Name: "identificacion", Value: dte.Obj(
			dte.Member{Name: "ambiente", Value: dte.Str(inv.issuer.Ambiente)}, dte.Member{Name: "codigoGeneracion", Value: dte.Str(code.String())},
			dte.Member{Name: "fecEmi", Value: dte.Str(day)}, dte.Member{Name: "horEmi", Value: dte.Str(dte.Hour(now))})},
		dte.Member{Name: "emisor", Value: o.emisorOf(seller.Emisor(inv.issuer, seller.Point{Establishment: establishment, PointOfSale: point}))},
		dte.Member{Name: "documento", Value: dte.Obj(append([]dte.Member{
			{Name: "tipoDte", Value: dte.Str(h.Document)}, {Name: "codigoGeneracion", Value: dte.Str(dte.Code(o.entry.Code).String())},
			{Name: "selloRecibido", Value: text(h.Response.SelloRecibido)}, {Name: "numeroControl", Value: number},
			{Name: "fecEmi", Value: dte.Str(h.Date)}, {Name: "codigoGeneracionR", Value: text(req.Replacement)}}, said...)...)},
		dte.Member{Name: "motivo", Value: dte.Obj(slices.Concat(
			[]dte.Member{{Name: "tipoAnulacion", Value: dte.Int(req.Kind)}, {Name: "motivoAnulacion", Value: text(req.Reason)}},
			person(req.Responsible, "Responsable"), person(req.Applicant, "Solicita"))...)})
}
