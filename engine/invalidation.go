package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// InvalidationRequest is a request to invalidate a document at MH (MF2 pp.9-17).
type InvalidationRequest struct {
	Code                   dte.Code
	Kind                   int64 // a code of CAT-024: 1 error, 2 the operation is rescinded, 3 other
	Reason                 string
	Responsible, Applicant record.Person
	// Replacement, for kinds 1 and 3, is the code of the accepted document that replaces this document; otherwise "".
	Replacement string
	Caller      record.Caller
}

// invalidateAfter is how often an invalidation without an answer is sent again.
const invalidateAfter = time.Minute

// PermissionInvalidate is the permission that the gateway requires for Invalidate (SPEC 2.8).
const PermissionInvalidate = "ANULACION"

// Invalidate invalidates an accepted document. The event is signed and stored before it is sent. An event that was sent
// without an answer stays pending, and its bytes are sent again until MH decides; a repeated request sends them now.
// After MH's refusal, a request makes a new event. For an invalidated document it sends nothing. Errors:
// *refusal.Error, or the store's.
func (e *Engine) Invalidate(ctx context.Context, req InvalidationRequest) (*record.View, error) {
	shown, err := e.invalidate(ctx, req)
	e.metrics.invalidated(shown, err)
	return shown, err
}

func (e *Engine) invalidate(ctx context.Context, req InvalidationRequest) (*record.View, error) {
	if err := e.mayInvalidate(ctx, req); err != nil { // waits if the document is being settled
		return nil, err
	}
	release, err := e.documents.Hold(ctx, req.Code)
	if err != nil {
		return nil, refusal.Unavailable(err, "El documento aún se está procesando")
	}
	defer release()
	entry, h, err := record.Read(e.store, storage.Code(req.Code))
	if err != nil {
		return nil, refusal.Internal(err)
	}
	var stored int64
	switch {
	case entry.State == record.Invalidated:
		return e.public(entry)
	case entry.State != record.Accepted:
		return nil, &refusal.Error{Code: refusal.CodeNotProcessed,
			Message: "Solo se invalida un documento que Hacienda aceptó; este está " + record.Estado(entry.State)}
	case e.contingency.Current() != nil: // the event cannot be sent and would stay in the store
		return nil, away(nil)
	case h.Invalidation.Pending() && !e.lostEvent(entry, h):
		h.Invalidation = h.Invalidation.Doubted()
	default: // also in place of a lost event: if MH accepted that event, it refuses this one as already registered
		if entry, h, stored, err = e.beginInvalidation(ctx, req, entry, h); err != nil {
			return nil, err
		}
	}
	entry, err = e.sendInvalidation(ctx, entry, h, false)
	if !errors.Is(err, errNothingSent) {
		e.recordAct(req.Caller, ActInvalidate, req.Code, "")
	}
	if err != nil {
		return nil, err
	}
	shown, err := e.public(entry)
	if err == nil {
		shown.Stored = stored
	}
	return shown, err
}

func away(why error) error {
	return &refusal.Error{Code: refusal.CodeUnavailable,
		Message:    "Hacienda no está disponible, y no recibe invalidaciones en contingencia: repita más tarde",
		RetryAfter: invalidateAfter, Err: errors.Join(errNothingSent, why)}
}

// mayInvalidate returns an error if the caller may not see the document. The permission to invalidate includes reading.
func (e *Engine) mayInvalidate(ctx context.Context, req InvalidationRequest) error {
	req.Caller.OwnTypes = false
	_, err := e.documents.Document(ctx, req.Code, req.Caller)
	return err
}

func (e *Engine) lostEvent(entry storage.Entry, h *record.Head) bool {
	_, err := record.Part(e.store, entry.Code, record.PartInvalidation(h.Invalidation.Code))
	return errors.Is(err, record.ErrLost)
}

var errNothingSent = errors.New("nothing was sent")

// authorityTime returns MH's time, or the box's time if MH's is unknown or differs by at most 2 s. It first asks MH if
// MH's time is unknown, or differs by more than a minute: the box's clock is wrong, or the box was suspended meanwhile.
func (e *Engine) authorityTime(ctx context.Context) time.Time {
	now, at := e.now(), e.sender.Client.Time()
	if now.Sub(at).Abs() > time.Minute {
		e.sender.Client.Probe(ctx)
		now, at = e.now(), e.sender.Client.Time()
	}
	if at.IsZero() || now.Sub(at).Abs() <= 2*time.Second { // no difference: Client.Time lags
		return now
	}
	return at
}

// beginInvalidation checks, signs and stores the event; stored is its size in bytes. After that, a crash is safe.
func (e *Engine) beginInvalidation(ctx context.Context, req InvalidationRequest, entry storage.Entry,
	h *record.Head) (_ storage.Entry, _ *record.Head, stored int64, _ error) {
	if err := e.checkReplaced(req.Caller.Point); err != nil {
		return entry, nil, 0, err
	}
	now := e.authorityTime(ctx)
	rule, err := e.rules().PickEvent("invalidacion", e.issuer.Ambiente, dte.Date(now))
	if err != nil {
		return entry, nil, 0, refusal.Unavailable(err, "No hay reglas vigentes para la invalidación")
	}
	o := &origin{entry: entry, head: h}
	if err := e.readOrigin(o); err != nil {
		return entry, nil, 0, err
	}
	if err := e.invalidable(rule, o, now); err != nil {
		return entry, nil, 0, err
	}
	code, err := dte.NewCode(e.o.Rand)
	if err != nil {
		return entry, nil, 0, refusal.Internal(err)
	}
	document, faults, err := e.fillInvalidation(req, rule, o, code, now)
	if err == nil && len(faults) > 0 {
		err = refusal.Of(faults)
	}
	if err != nil {
		return entry, nil, 0, err
	}
	jws, err := e.signer.Right(code, record.FormNormal).Sign(ctx, document)
	if err != nil {
		return entry, nil, 0, refusal.Unavailable(err, "La invalidación no pudo firmarse")
	}
	next := *h
	next.Invalidation = &record.Invalidation{Code: code.String(), Estado: record.EstadoPending, Kind: req.Kind,
		Reason: req.Reason, Replacement: req.Replacement, At: now.UTC().Truncate(time.Millisecond),
		Version: rule.Filler.Version(), Rule: rule.Ref, TokenID: req.Caller.TokenID}
	entry, err = e.move(ctx, entry, storage.Change{To: record.Accepted,
		Parts: []storage.Part{{Name: record.PartInvalidation(code.String()), Data: jws}},
		Due:   &storage.Due{Queue: record.QueueInvalidate, At: e.now().Add(invalidateAfter)}}, &next)
	if err != nil {
		return entry, nil, 0, err
	}
	// Check again, now that the pending invalidation is stored: a note may have been stored since the first check. From
	// now on the pending invalidation makes other requests fail: notes on this document, credit notes that need the
	// amount of this debit note, and invalidations that name this document as replacement.
	err = e.invalidable(rule, &origin{entry: entry, head: &next}, now)
	if f := e.replacementFault(req, rule, o); err == nil && f != nil {
		err = refusal.Of([]dte.Fault{*f})
	}
	if err != nil {
		_, undo := e.abandonInvalidation(ctx, entry, &next)
		return entry, nil, 0, cmp.Or(undo, err)
	}
	return entry, &next, int64(len(jws)), nil
}

func (e *Engine) abandonInvalidation(ctx context.Context, entry storage.Entry, h *record.Head) (storage.Entry, error) {
	next := *h
	next.Invalidation = nil
	return e.move(ctx, entry, storage.Change{To: record.Accepted}, &next)
}

// sendInvalidation sends a pending event and records MH's answer. late: no caller waits. The caller holds the lock.
func (e *Engine) sendInvalidation(ctx context.Context, entry storage.Entry, h *record.Head, late bool) (storage.Entry,
	error) {
	jws, err := record.Part(e.store, entry.Code, record.PartInvalidation(h.Invalidation.Code))
	if err != nil {
		return entry, refusal.Internal(err)
	}
	o := e.sender.Client.Invalidate(ctx, authority.Submission{Version: h.Invalidation.Version,
		Code: h.Invalidation.Code, JWS: string(jws), SendID: e.sendID()})
	next, event := *h, *h.Invalidation
	next.Invalidation = &event
	event.Response = o.Response
	switch {
	case o.Kind == authority.Accepted, o.Kind == authority.Rejected && o.Response.CodigoMsg == authority.CodeRegistered:
		// Already registered: MH has this event from an earlier sending, or another event that the store has lost.
		event.Estado, event.Doubtful = record.EstadoProcessed, false
		e.shelf.JudgeEvent(event.Rule, true)
		return e.move(ctx, entry, storage.Change{To: record.Invalidated, Announce: late}, &next)
	case o.Kind == authority.Rejected:
		event.Estado, event.Doubtful = record.EstadoRejected, false
		e.shelf.JudgeEvent(event.Rule, false)
		return e.move(ctx, entry, storage.Change{To: record.Accepted, Announce: late}, &next)
	case !o.Sent && !h.Invalidation.Doubtful:
		if _, err := e.abandonInvalidation(ctx, entry, h); err != nil {
			return entry, err
		}
		e.contingency.Suspect()
		return entry, away(o.Err)
	}
	event.Doubtful = true
	if _, err := e.move(ctx, entry, storage.Change{To: record.Accepted, Due: &storage.Due{Queue: record.QueueInvalidate,
		At: e.now().Add(invalidateAfter)}}, &next); err != nil {
		return entry, err
	}
	return entry, &refusal.Error{Code: refusal.CodeUnavailable,
		Message: "Hacienda no ha respondido a la invalidación; se enviará otra vez", RetryAfter: invalidateAfter,
		Err: o.Err}
}

func (e *Engine) resumeInvalidations(ctx context.Context, before time.Time) error {
	open, err := record.Due(e.store, record.QueueInvalidate, before, 100)
	if err != nil {
		return fmt.Errorf("listing pending invalidations: %w", err)
	}
	for _, due := range open {
		err := e.resumeInvalidation(ctx, due.Code)
		if errors.Is(err, record.ErrLost) {
			err = e.lost.SetAside(ctx, due, err)
		}
		if err != nil {
			e.log.Warn("sending an invalidation", "code", dte.Code(due.Code).String(), "error", err)
		}
	}
	return nil
}

func (e *Engine) resumeInvalidation(ctx context.Context, code storage.Code) error {
	entry, h, release, err := e.documents.Lock(ctx, code)
	if err != nil {
		return err
	}
	defer release()
	if entry.State != record.Accepted || !h.Invalidation.Pending() {
		return nil
	}
	h.Invalidation = h.Invalidation.Doubted()
	_, err = e.sendInvalidation(ctx, entry, h, true)
	return err
}

func forbidden(format string, args ...any) error {
	return &refusal.Error{Code: refusal.CodeNotInvalidable, Message: fmt.Sprintf(format, args...)}
}

// invalidable returns an error if the time to invalidate the document is over, or if a note, return or later credit
// depends on the document (MF2 pp.9-17).
func (e *Engine) invalidable(rule *rulestore.Event, o *origin, now time.Time) error {
	if last := lastDay(rule, o.head); dte.Date(now) > last {
		return forbidden("El plazo para invalidar el documento terminó el %s", last)
	}
	n, err := e.store.Counter(o.entry.Code, record.LineActive)
	switch {
	case err != nil:
		return refusal.Internal(err)
	case n > 1:
		return forbidden("Hay %d notas o retornos vigentes sobre el documento: invalídelos antes", n)
	case n != 0:
		return forbidden("Hay una nota o un retorno vigente sobre el documento: invalídelo antes")
	case record.TypeOf(o.head.Document).Effect == bundle.Debits:
		return e.roomWithout(o)
	}
	return nil
}

// roomWithout refuses to invalidate a debit note if later credit notes use its amount.
func (e *Engine) roomWithout(o *origin) error {
	base := &origin{}
	code, err := dte.ParseCode(o.head.Origin)
	if err == nil {
		base.entry, base.head, err = record.Read(e.store, storage.Code(code))
	}
	if err == nil {
		err = e.readOrigin(base)
	}
	var changes []storage.Counter
	if err == nil {
		changes, err = e.counterChanges(o.entry, o.head, record.Invalidated)
	}
	if err != nil {
		return refusal.Internal(err)
	}
	for i, left := range base.creditable() {
		line := uint32(record.LineCredited + i)
		n, err := e.store.Counter(base.entry.Code, line)
		if err != nil {
			return refusal.Internal(err)
		}
		for _, c := range changes { // changes is empty once the invalidation is pending
			if c.Line == line {
				n += c.Value
			}
		}
		if n > int64(left) {
			return forbidden("Notas de crédito posteriores usan el monto de esta nota de débito: invalídelas antes")
		}
	}
	return nil
}

// lastDay returns the last day on which a document may be invalidated, counted from its seal: some months later, or a
// business day of the next month. If the event's bundle sets no window for a type, the type's own window applies; for a
// type without a window, the result is the day before the seal.
func lastDay(rule *rulestore.Event, h *record.Head) string {
	sealed := sealedAt(h)
	switch months, day := windowOf(rule, h.Document); {
	case months > 0:
		return dte.MonthsAfter(dte.Date(sealed), months)
	case day > 0:
		return dte.Date(dte.NthBusinessDay(sealed.Year(), sealed.Month()+1, day))
	}
	return dte.Date(sealed.AddDate(0, 0, -1))
}

func windowOf(rule *rulestore.Event, document string) (months, businessDay int) {
	months, businessDay = rule.Whole("windowMonths"+document), rule.Whole("windowBusinessDay"+document)
	if own := record.TypeOf(document).Invalidation; months == 0 && businessDay == 0 {
		return own.Months, own.BusinessDay
	}
	return months, businessDay
}

// sealedAt returns the time of a document's seal or, if MH's answer lacks it, of the document's issue.
func sealedAt(h *record.Head) time.Time {
	if h.Response != nil {
		if at := authority.ParseTime(h.Response.FhProcesamiento); !at.IsZero() {
			return at.In(dte.Zone)
		}
	}
	return h.CreatedAt.In(dte.Zone)
}

// invalidationFacts returns the event's facts. The receptor's values are those of the document (MF2 p.12).
func (e *Engine) invalidationFacts(req InvalidationRequest, rule *rulestore.Event, o *origin, code dte.Code,
	now time.Time) dte.Value {
	h := o.head
	day := dte.Date(now)
	if rule.Says("sameDate", h.Document, record.TypeOf(h.Document).Invalidation.SameDate) {
		day = h.Date
	} else if months, _ := windowOf(rule, h.Document); months > 0 { // counted from the issue here, not from the seal
		day = min(day, dte.MonthsAfter(h.Date, months))
	}
	establishment, point := record.EstablishmentOf(h, req.Caller.Point)
	receptor := o.receptor()
	// The layout before DTE 2.0 requires a customer's name and number; the applicant's name and number stand in.
	if rule.Whole("applicantForCustomer") == 1 {
		if receptor.Get("numDocumento").Text() == "" {
			receptor = receptor.With("tipoDocumento", dte.Text(req.Applicant.DocumentType)).With("numDocumento",
				dte.Text(req.Applicant.Document))
		}
		if receptor.Get("nombre").Text() == "" {
			receptor = receptor.With("nombre", dte.Text(req.Applicant.Name))
		}
	}
	document := dte.Texts("tipoDte", h.Document, "codigoGeneracion", dte.Code(o.entry.Code).String(),
		"selloRecibido", h.Response.SelloRecibido, "numeroControl",
		o.document.Get("identificacion").Get("numeroControl").Text(), "fecEmi", h.Date,
		"codigoGeneracionR", req.Replacement)
	// If the receptor lacks a value, the layout writes null or omits the member.
	for _, name := range [...]string{"tipoDocumento", "numDocumento", "nombre", "telefono", "correo"} {
		if v := receptor.Get(name); v.Present() {
			document = document.With(name, v)
		}
	}
	who, by := req.Responsible, req.Applicant
	return dte.Obj().With("identificacion", dte.Texts("ambiente", e.issuer.Ambiente, "codigoGeneracion", code.String(),
		"fecEmi", day, "horEmi", dte.Hour(now))).
		With("emisor", o.emisorOf(record.Emisor(e.issuer, record.Point{Establishment: establishment,
			PointOfSale: point}))).
		With("documento", document).
		With("motivo", dte.Obj(dte.Member{Name: "tipoAnulacion", Value: dte.Int(req.Kind)}).Set(dte.Texts(
			"motivoAnulacion", req.Reason, "nombreResponsable", who.Name, "tipDocResponsable", who.DocumentType,
			"numDocResponsable", who.Document, "nombreSolicita", by.Name, "tipDocSolicita", by.DocumentType,
			"numDocSolicita", by.Document).Members()...))
}

// CheckInvalidation returns further faults of a request that the gateway could not read completely. It changes nothing.
// If the document cannot be invalidated, there are no further faults.
func (e *Engine) CheckInvalidation(ctx context.Context, req InvalidationRequest) []dte.Fault {
	if e.mayInvalidate(ctx, req) != nil {
		return nil
	}
	if a, err := e.Appraise(ctx, req); err == nil {
		return a.Faults
	}
	return nil
}

// fillInvalidation makes the event, or returns all faults of the request. The error, if not nil, comes from the bundle.
func (e *Engine) fillInvalidation(req InvalidationRequest, rule *rulestore.Event, o *origin, code dte.Code,
	now time.Time) ([]byte, []dte.Fault, error) {
	var faults []dte.Fault
	if f := e.replacementFault(req, rule, o); f != nil {
		faults = append(faults, *f)
	}
	document, found, err := rule.Fill(e.invalidationFacts(req, rule, o, code, now))
	if err != nil {
		return nil, nil, e.shelf.EventFailed(rule, err)
	}
	for _, f := range found {
		if f.Path != "documento.codigoGeneracionR" || len(faults) == 0 { // otherwise replacementFault has reported it
			faults = append(faults, f)
		}
	}
	return document, slices.Clip(faults), nil
}

// replacementFault returns the fault of the request's replacement, or nil (MF2 pp.9-17).
func (e *Engine) replacementFault(req InvalidationRequest, rule *rulestore.Event, o *origin) *dte.Fault {
	fault := func(code, message string) *dte.Fault {
		return &dte.Fault{Path: "codigoGeneracionReemplazo", Code: code, Message: message}
	}
	never := req.Kind == 2 ||
		rule.Says("noReplacement", o.head.Document, record.TypeOf(o.head.Document).Invalidation.NoReplacement)
	switch {
	case req.Kind < 1 || req.Kind > 3: // an unknown kind: it may require a replacement or forbid it
		return nil
	case never && req.Replacement != "":
		return fault(dte.FaultCondition, "Esta invalidación no lleva documento de reemplazo")
	case never:
		return nil
	case req.Replacement == "":
		return fault(dte.FaultRequired, "Falta el documento que lo reemplaza: es obligatorio por error en los datos "+
			"(1) y por otro motivo (3)")
	}
	code, err := dte.ParseCode(req.Replacement)
	if err != nil {
		return fault(dte.FaultPattern, "No es un código de generación: son 36 caracteres en cinco grupos, con guiones")
	}
	other, h, err := record.Read(e.store, storage.Code(code))
	if err != nil || code == req.Code || other.State != record.Accepted || h.Document != o.head.Document ||
		h.BranchID != o.head.BranchID || h.Invalidation.Pending() {
		return fault(dte.FaultCondition, "Debe ser otro documento del mismo tipo, ya aceptado por Hacienda")
	}
	return nil
}

// Verdicts on a document in a list of documents to invalidate.
const (
	RecallPossible    = "POSSIBLE"
	RecallInvalidated = "INVALIDATED"       // the document is invalidated already
	RecallPending     = "PENDING"           // its event waits for MH's answer
	RecallRefused     = "REFUSED"           // MH refused its event
	RecallLate        = "TOO_LATE"          // the time to invalidate the document is over
	RecallHeld        = "HELD"              // a note or a return is in force, or credit notes use the amount
	RecallReplacement = "NEEDS_REPLACEMENT" // the request names no replacement
	RecallNotValid    = "NOT_VALID"         // the request has faults: see Faults
	RecallNotAccepted = "NOT_ACCEPTED"      // MH has not accepted the document
	RecallUnknown     = "NOT_FOUND"
)

// Appraisal is the result that an invalidation of a document would have.
type Appraisal struct {
	Code     string `json:"codigoGeneracion"` // the next five fields describe the document; "": unknown
	Document string `json:"tipoDte"`
	Control  string `json:"numeroControl"`
	Date     string `json:"fecEmi"`
	Total    string `json:"total"`
	Estado   string `json:"estado"`
	Verdict  string `json:"verdict"` // RecallPossible or another Recall constant
	Until    string `json:"until"`   // the last day on which the document may be invalidated (yyyy-mm-dd), or ""
	// Held is the number of notes and returns in force on the document.
	Held         int64                `json:"held"`
	Faults       []dte.Fault          `json:"errors"`
	Invalidation *record.Invalidation `json:"invalidacion"` // the last requested invalidation, or nil
}

// giveWayFor limits how long one invalidation lets sales go first: a list must end even if sales never pause.
const giveWayFor = 2 * time.Second

// Appraise returns the result that an invalidation would have. It stores nothing and sends nothing to MH.
func (e *Engine) Appraise(ctx context.Context, req InvalidationRequest) (*Appraisal, error) {
	a := &Appraisal{Code: req.Code.String(), Verdict: RecallUnknown}
	entry, err := e.documents.Settled(ctx, req.Code)
	if errors.Is(err, storage.ErrNotFound) || err == nil && record.Estado(entry.State) == "" {
		return a, nil
	}
	if err != nil {
		return nil, refusal.Internal(err)
	}
	h, err := record.DecodeHead(entry)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	a.Document, a.Control, a.Date, a.Total, a.Estado, a.Invalidation = h.Document, h.ControlNumber, h.Date, h.Total,
		record.Estado(entry.State), h.Invalidation
	switch {
	case entry.State == record.Invalidated:
		a.Verdict = RecallInvalidated
	case entry.State != record.Accepted:
		a.Verdict = RecallNotAccepted
	case h.Invalidation.Pending():
		a.Verdict = RecallPending
	default:
		err = e.judge(ctx, a, req, &origin{entry: entry, head: h})
	}
	return a, err
}

// judge sets the verdict by the rules of the law and of the layout (MF2 pp.9-17).
func (e *Engine) judge(ctx context.Context, a *Appraisal, req InvalidationRequest, o *origin) error {
	now := e.authorityTime(ctx)
	rule, err := e.rules().PickEvent("invalidacion", e.issuer.Ambiente, dte.Date(now))
	if err != nil {
		return &refusal.Error{Code: refusal.CodeUnavailable, Message: "No rule for invalidations is in force",
			Operator: true, Err: err}
	}
	if err := e.readOrigin(o); err != nil {
		return err
	}
	if a.Held, err = e.store.Counter(o.entry.Code, record.LineActive); err != nil {
		return refusal.Internal(err)
	}
	if a.Until = lastDay(rule, o.head); dte.Date(now) > a.Until {
		a.Verdict = RecallLate
		return nil
	}
	if err := e.invalidable(rule, o, now); err != nil {
		if refused, ok := errors.AsType[*refusal.Error](err); !ok || refused.Code != refusal.CodeNotInvalidable {
			return err
		}
		a.Verdict = RecallHeld
		return nil
	}
	missing := e.replacementFault(req, rule, o)
	if _, a.Faults, err = e.fillInvalidation(req, rule, o, req.Code, now); err != nil { // req.Code: no event exists yet
		return err
	}
	switch {
	case missing != nil && req.Replacement == "" && len(a.Faults) == 1:
		a.Verdict = RecallReplacement
	case len(a.Faults) > 0:
		a.Verdict = RecallNotValid
	case a.Invalidation != nil && a.Invalidation.Estado == record.EstadoRejected:
		a.Verdict = RecallRefused
	default:
		a.Verdict = RecallPossible
	}
	return nil
}

// Recall invalidates one document at a time for an operator, and returns the result; sales go first, for at most
// giveWayFor. For an invalidated document it sends nothing; an event without MH's answer is sent again, and a refused
// event is replaced only if again is set. In a contingency the error is CodeUnavailable.
func (e *Engine) Recall(ctx context.Context, req InvalidationRequest, again bool) (*Appraisal, error) {
	release, err := e.keys.Acquire(ctx, "recall")
	if err != nil {
		return nil, &refusal.Error{Code: refusal.CodeUnavailable,
			Message: "Another invalidation of a list is under way", Operator: true, RetryAfter: time.Second, Err: err}
	}
	defer release()
	a, err := e.Appraise(ctx, req)
	if err != nil || a.Verdict != RecallPossible && a.Verdict != RecallPending &&
		!(again && a.Verdict == RecallRefused) {
		return a, err
	}
	const look = 10 * time.Millisecond
	for waited := time.Duration(0); e.sending.Load() > 0 && waited < giveWayFor; waited += look {
		if err := fairqueue.Sleep(ctx, look); err != nil {
			return nil, refusal.Unavailable(err, "El documento aún se está transmitiendo")
		}
	}
	_, err = e.Invalidate(ctx, req)
	if code := refusalCode(err); err != nil && code != refusal.CodeNotInvalidable && code != refusal.CodeValidation {
		return nil, fmt.Errorf("invalidating %s: %w", req.Code, err)
	}
	return e.Appraise(ctx, req) // after a refusal, this finds the cause, such as a note issued meanwhile
}
