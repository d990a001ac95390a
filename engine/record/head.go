package record

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/storage"
)

// Head is the part of a stored document that changes with its state. The signed forms, and the facts behind them, are
// separate parts of the record, each written once.
type Head struct {
	Document      string              `json:"document"`
	Version       int                 `json:"version"` // of the schema: identificacion.version
	ControlNumber string              `json:"control_number"`
	Ambiente      string              `json:"ambiente"` // "00" or "01"
	Date          string              `json:"date"`     // fecEmi
	Total         string              `json:"total"`
	Form          string              `json:"form"` // the signed part that MH has, or is to receive
	Serie         string              `json:"serie"`
	EmisorID      int64               `json:"emisor_id"`
	BranchID      int64               `json:"branch_id"`
	PointID       int64               `json:"point_id"`
	TokenID       int64               `json:"token_id"`
	CreatedAt     time.Time           `json:"created_at"`
	Bytes         int64               `json:"bytes,omitempty"` // of the facts and the signed form that the sale stored
	Rule          RuleRef             `json:"rule"`
	Warnings      []string            `json:"warnings,omitempty"`
	Response      *authority.Response `json:"response,omitempty"`
	// Doubtful: MH may have the document. Query MH before the next sending.
	Doubtful bool `json:"doubtful,omitempty"`
	// Why is why the document was deferred, for people. In JSON, Why is "cause" and Cause is "kind".
	Why string `json:"cause,omitempty"`
	// Period is the code of the branch's contingency; "" if the document was deferred alone. Until is when the document
	// was deferred. For MH, the contingency of a document deferred alone ends at Until.
	Period string    `json:"period,omitempty"`
	Cause  int64     `json:"kind,omitempty"`   // CAT-005, as in the contingency form
	Motive string    `json:"motive,omitempty"` // as in the contingency form
	Until  time.Time `json:"until,omitzero"`
	Sent   time.Time `json:"sent,omitzero"` // the last time that the document was sent to MH without an answer
	// Event is the code of the sealed event with this document, or else of the last refused event. Limit is when the
	// event's documents are due. Forwarded is when the contingency form was first sent, by MH's clock.
	Event     string    `json:"event,omitempty"`
	Limit     time.Time `json:"limit,omitzero"`
	Forwarded time.Time `json:"forwarded,omitzero"`
	// Refused is when MH refused a document issued in contingency, by MH's clock. Corrections are earlier refusals; a
	// corrected form answered each of them.
	Refused     time.Time    `json:"refused,omitzero"`
	Corrections []Correction `json:"corrections,omitempty"`
	// Refusals is the number of refused events that listed the document. Known: MH refused the last of them because
	// MH already has the document's code, in another event or as a document.
	Refusals int  `json:"refusals,omitempty"`
	Known    bool `json:"known,omitempty"`
	// Origin is the code of the document that a note or a return is issued against.
	Origin       string        `json:"origin,omitempty"`
	Invalidation *Invalidation `json:"invalidation,omitempty"`
	Receiver     Receiver      `json:"receiver,omitzero"` // what a search by receiver compares
	Mail         string        `json:"mail,omitempty"`    // the receiver's mail address, or ""
	Delivery     *Delivery     `json:"delivery,omitempty"`
}

// Parts of a stored document. Each form is signed once, by its own sign.Right.
const (
	PartFacts       = "facts"       // the facts, JSON
	FormNormal      = "normal"      // JWS of the document as issued online
	FormContingency = "contingency" // JWS of the same document with the marks of contingency
	// a prefix, followed by n: JWS of the nth correction of a refused document; the correction's facts are PartFacts-n
	FormCorrection = "correction-"
	PartDraws      = "draws" // the document's draws on its origin's counters, JSON
)

func (h *Head) Encode() ([]byte, error) {
	b, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encoding record: %w", err)
	}
	return b, nil
}

// DecodeHead returns the head of a document's record. ErrLost if the head is not the JSON of a Head.
func DecodeHead(e storage.Entry) (*Head, error) {
	h := new(Head)
	if err := json.Unmarshal(e.Head, h); err != nil {
		return nil, fmt.Errorf("%w: decoding record %s: %w", ErrLost, dte.Code(e.Code), err)
	}
	return h, nil
}

// Payload returns the signed bytes inside a compact JWS. A document's bytes are stored only there.
func Payload(jws []byte) ([]byte, error) {
	dot := []byte(".")
	_, rest, _ := bytes.Cut(jws, dot)
	body, _, ok := bytes.Cut(rest, dot)
	if !ok {
		return nil, fmt.Errorf("decoding signed document: not a compact JWS")
	}
	b, err := base64.RawURLEncoding.AppendDecode(nil, body)
	if err != nil {
		return nil, fmt.Errorf("decoding signed document: %w", err)
	}
	return b, nil
}

// Correction is a refusal by MH that the branch answered with a corrected document.
type Correction struct {
	At        time.Time `json:"at"`
	TokenID   int64     `json:"token_id"`
	Digest    string    `json:"digest"`        // of the request, hex
	Refused   string    `json:"refused"`       // MH's text of the refusal
	Rule      RuleRef   `json:"rule,omitzero"` // of the refused form, with its Version and Total
	Version   int       `json:"version,omitempty"`
	Total     string    `json:"total,omitempty"`
	Bytes     int64     `json:"bytes,omitempty"`    // of the facts and the signed form that the correction stored
	Forwarded time.Time `json:"forwarded,omitzero"` // when the corrected form was first sent, by MH's clock
}

// FactsPart returns the name of the part with the facts of the form that the record names.
func (h *Head) FactsPart() string {
	if n, corrected := strings.CutPrefix(h.Form, FormCorrection); corrected {
		return PartFacts + "-" + n
	}
	return PartFacts
}

// CorrectableUntil returns the time until which a refused document may be corrected under its own code. within is the
// permitted time after the refusal. Zero: the sale must be issued again as a new document, because MH refused it at
// once and the customer has no document yet; because MH already has the code or the number; or because another document
// may have used the rest of the origin meanwhile.
func (h *Head) CorrectableUntil(within time.Duration) time.Time {
	if h.Refused.IsZero() || h.Origin != "" || h.Response != nil && h.Response.CodigoMsg == authority.CodeRegistered {
		return time.Time{}
	}
	return h.Refused.Add(within)
}

// Seal returns MH's seal of a document in the given state; "" for a refused document, or before the seal.
func (h *Head) Seal(state storage.State) string {
	if h.Response == nil || state == Rejected {
		return ""
	}
	return h.Response.SelloRecibido
}

// AmbienteName maps CAT-001 to the API's word.
func AmbienteName(ambiente string) string {
	if ambiente == "01" {
		return "PROD"
	}
	return "TEST"
}

// RefusalText returns MH's text of a refusal, or "" if r is nil.
func RefusalText(r *authority.Response) string {
	if r == nil {
		return ""
	}
	return r.DescripcionMsg
}

// RuleRef names the rule module that computed a document.
type RuleRef struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Digest  string `json:"digest"`
}

// Public states of a document (SPEC section 3).
const (
	EstadoProcessed   = "PROCESSED"
	EstadoRejected    = "REJECTED"
	EstadoContingency = "CONTINGENCIA"
	EstadoInvalidated = "INVALIDATED"
)

// Invalidation is the event that invalidates a document, as the document's record shows it.
type Invalidation struct {
	Code        string              `json:"code"` // of the event
	Estado      string              `json:"estado"`
	Kind        int64               `json:"kind"`
	Reason      string              `json:"reason"`
	Replacement string              `json:"replacement,omitempty"`
	At          time.Time           `json:"at"`
	Version     int                 `json:"version"`
	Rule        RuleRef             `json:"rule"`
	Response    *authority.Response `json:"response,omitempty"`
	// TokenID is the token that requested the invalidation; 0: an operator.
	TokenID  int64 `json:"token_id,omitempty"`
	Doubtful bool  `json:"doubtful,omitempty"` // the event may have reached MH
}

// EstadoPending is Invalidation.Estado until MH's answer, which replaces it by a public state such as PROCESSED.
const EstadoPending = "PENDING"

// Pending reports whether MH has not answered the event yet. It is false for nil.
func (i *Invalidation) Pending() bool { return i != nil && i.Estado == EstadoPending }

// PartInvalidation returns the name of the part with the JWS of an invalidation; event is its codigoGeneracion.
func PartInvalidation(event string) string { return "invalidacion:" + event }

// Doubted returns a pending event read from the store with Doubtful set: a crash may have lost MH's answer.
func (i *Invalidation) Doubted() *Invalidation {
	event := *i
	event.Doubtful = true
	return &event
}

// View is a document as the API shows it (SPEC 2.2).
type View struct {
	ID            int64
	Document      string // CAT-002
	Tipo          string // FACTURA_CONSUMIDOR_FINAL, ...
	Code          string // codigoGeneracion, upper case
	ControlNumber string
	Estado        string // one of the public states
	Ambiente      string // TEST or PROD
	Total         string // in USD, two decimals
	JSON          []byte // the signed bytes
	JWS           []byte
	Sello         string // "" until MH seals the document
	Response      *authority.Response
	JSONURL       string // "" where SPEC says null
	PDFURL        string

	SequenceNumber string
	SequenceID     int64
	Serie          string

	EmisorID, BranchID, PointID, TokenID int64

	TechnicalError string // "" where SPEC says null
	CreatedAt      time.Time
	Date           string // of issue, yyyy-mm-dd in El Salvador
	Rule           RuleRef
	Warnings       []string
	Invalidation   *Invalidation // nil until an invalidation is requested

	Stored int64 // the number of bytes of facts and signed document that this request stored; 0: nothing new
}

// Delivery is the progress of a document to its receiver and into the archive. A step that is not needed is nil.
type Delivery struct {
	Mail    *Step `json:"mail,omitempty"`
	Archive *Step `json:"archive,omitempty"`
}

// Steps returns the addresses of the steps: Mail, then Archive.
func (d *Delivery) Steps() [2]**Step { return [2]**Step{&d.Mail, &d.Archive} }

// Step is one delivery of a document.
type Step struct {
	Result string    `json:"result,omitempty"` // "" until the step ends
	Since  time.Time `json:"since"`
	Next   time.Time `json:"next,omitzero"`
	// Away: the server could not be used, whatever the document. The step is tried again when the server works.
	Away  bool   `json:"away,omitempty"`
	Error string `json:"error,omitempty"` // of the last attempt
	// Held, in the archive's step, is the archive's report on the stored files, in the order of outbox.ArchiveFiles.
	Held [2]ArchivedObject `json:"held,omitzero"`
}

// ArchivedObject is what the archive reported about a file.
type ArchivedObject struct {
	Sum string `json:"sum"` // base64 of its SHA-256
	Tag string `json:"tag"` // its ETag
}

// Results of a step.
const (
	StepDone   = "done"
	StepFailed = "failed"
)

// Pending reports whether the step has no final result yet. It is false for nil.
func (s *Step) Pending() bool { return s != nil && s.Result == "" }

// Failed reports whether the step was given up. It is false for nil.
func (s *Step) Failed() bool { return s != nil && s.Result == StepFailed }

// Postpone records a failed attempt and sets the time of the next attempt. The wait is the time since the step began,
// at least one minute and at most six hours. away: see Step.Away.
func (s *Step) Postpone(now time.Time, why error, away bool) {
	s.Next = now.Add(min(max(now.Sub(s.Since), time.Minute), 6*time.Hour))
	s.Error, s.Away = why.Error(), away
}

// End records the last result of a step: StepDone, StepFailed or StepForgotten. why may be nil.
func (s *Step) End(result string, why error) {
	s.Result, s.Next, s.Away, s.Error = result, time.Time{}, false, ""
	if why != nil {
		s.Error = why.Error()
	}
}

// Due returns the queue and time of a delivery: of its next pending step, or else of its failed step, or else nil.
func (d *Delivery) Due() *storage.Due {
	if d == nil {
		return nil
	}
	var at time.Time
	var failed *Step
	for _, s := range []*Step{d.Mail, d.Archive} {
		switch {
		case s.Pending():
			Earliest(&at, s.Next)
		case s.Failed():
			failed = s
		}
	}
	switch {
	case !at.IsZero():
		return &storage.Due{Queue: QueueDeliver, At: at}
	case failed != nil:
		return &storage.Due{Queue: QueueUndelivered, At: failed.Since}
	}
	return nil
}

// StepForgotten is the result of a failed step that people have settled in another way.
const StepForgotten = "forgotten"

func (h *Head) Archived() bool {
	return h.Delivery != nil && h.Delivery.Archive != nil && h.Delivery.Archive.Result == StepDone
}

// Earliest sets *at to t if t is before *at, or if *at is zero. A zero t changes nothing.
func Earliest(at *time.Time, t time.Time) {
	if !t.IsZero() && (at.IsZero() || t.Before(*at)) {
		*at = t
	}
}

// OweDelivery returns when the next delivery of a document is due after a change of its state, or nil. When MH first
// accepts a document, the head gets its deliveries: to the receiver if mail is set and the document has an address, and
// to the archive if archive is set. A record is in one queue at most: during an invalidation in the queue of
// invalidations, and then again in the queue of deliveries.
func (h *Head) OweDelivery(from, to storage.State, mail, archive bool, now time.Time) *storage.Due {
	if to != Accepted && to != Invalidated {
		return nil
	}
	if h.Delivery == nil && from != Accepted && from != Invalidated {
		at := now.UTC().Truncate(time.Millisecond)
		var d Delivery
		if mail && h.Mail != "" {
			d.Mail = &Step{Since: at, Next: at}
		}
		if archive {
			d.Archive = &Step{Since: at, Next: at}
		}
		if d != (Delivery{}) {
			h.Delivery = &d
		}
	}
	return h.Delivery.Due()
}
