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

// Head is the part of a stored document that changes with its state. The signed forms, and the facts that they were
// computed from, are separate parts of the record, and each part is written only once.
type Head struct {
	Document      string              `json:"document"`
	Version       int                 `json:"version"` // of the schema: identificacion.version
	ControlNumber string              `json:"control_number"`
	Ambiente      string              `json:"ambiente"` // "00" or "01"
	Date          string              `json:"date"`     // fecEmi
	Total         string              `json:"total"`
	Form          string              `json:"form"` // which signed part is the record
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
	// Doubtful: the normal form may have reached MH. It must be asked before the contingency form is sent.
	Doubtful bool `json:"doubtful,omitempty"`
	// Why is why the document was deferred, for people. The names in JSON are older than those in Go.
	Why string `json:"cause,omitempty"`
	// Period is the branch's contingency that it was issued in; "" when it was deferred alone. Until is when it was
	// deferred: for MH the cause of one alone ends then.
	Period string    `json:"period,omitempty"`
	Cause  int64     `json:"kind,omitempty"`   // CAT-005, as the contingency form bears it
	Motive string    `json:"motive,omitempty"` // likewise
	Until  time.Time `json:"until,omitzero"`
	// Sent is when it was last sent to MH without an answer.
	Sent time.Time `json:"sent,omitzero"`
	// Event is the contingency event that MH sealed, or the last that it refused; Limit is when its documents are due
	// there, Forwarded when the contingency form was first sent, by MH's clock.
	Event     string    `json:"event,omitempty"`
	Limit     time.Time `json:"limit,omitzero"`
	Forwarded time.Time `json:"forwarded,omitzero"`
	// Refused is when MH refused what was issued in contingency; Corrections are the refusals before that were
	// answered.
	Refused     time.Time    `json:"refused,omitzero"`
	Corrections []Correction `json:"corrections,omitempty"`
	// Refusals is how many events that listed it MH has refused. Known: MH refused one because it has the document's
	// code already: in another event, or the document itself.
	Refusals int  `json:"refusals,omitempty"`
	Known    bool `json:"known,omitempty"`
	// Origin is the code of the document that a note or a return is issued against.
	Origin       string        `json:"origin,omitempty"`
	Invalidation *Invalidation `json:"invalidation,omitempty"`
	// Receiver is who a search finds the document by.
	Receiver Receiver `json:"receiver,omitzero"`
	// Mail is the receiver's address, "" when the document has none.
	Mail     string    `json:"mail,omitempty"`
	Delivery *Delivery `json:"delivery,omitempty"`
}

// Parts of a stored document. Each form is signed by its own right, once.
const (
	PartFacts       = "facts"       // the facts, JSON
	FormNormal      = "normal"      // JWS of the document as issued online
	FormContingency = "contingency" // JWS of the same document with the marks of contingency
	// and n: JWS of the nth correction of one that MH refused; its facts are partFacts-n
	FormCorrection = "correction-"
	PartDraws      = "draws" // what it takes of its origin's counters, JSON
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

// Correction is one refusal by MH that the branch answered with a corrected document.
type Correction struct {
	At      time.Time `json:"at"`
	TokenID int64     `json:"token_id"`
	Digest  string    `json:"digest"`          // of the request, hex
	Refused string    `json:"refused"`         // what MH had said
	Bytes   int64     `json:"bytes,omitempty"` // of the facts and the signed form that it stored
	// Forwarded is when the corrected form was first sent, by MH's clock.
	Forwarded time.Time `json:"forwarded,omitzero"`
}

// FactsPart returns the name of the part with the facts that the record was computed from.
func (h *Head) FactsPart() string {
	if n, corrected := strings.CutPrefix(h.Form, FormCorrection); corrected {
		return PartFacts + "-" + n
	}
	return PartFacts
}

// CorrectableUntil returns until when a refused document may be corrected under its own code: within after the refusal.
// It returns zero if the document may not be corrected: MH refused it at once (its customer has no document yet), MH
// holds its code or number already, or it was issued against an origin (another document may have used the rest of the
// origin meanwhile). Such a sale is issued again as a new document.
func (h *Head) CorrectableUntil(within time.Duration) time.Time {
	if h.Refused.IsZero() || h.Origin != "" || h.Response != nil && h.Response.CodigoMsg == authority.CodeRegistered {
		return time.Time{}
	}
	return h.Refused.Add(within)
}
