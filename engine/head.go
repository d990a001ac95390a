package engine

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/storage"
)

// head is the part of a stored document that changes with its state. What was signed, and the facts that it was
// computed from, lie beside it in parts that are never written twice.
type head struct {
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
	Doubtful bool   `json:"doubtful,omitempty"`
	Cause    string `json:"cause,omitempty"` // why it was deferred, for people
	// Period is the branch's contingency that it was issued in; "" when it was deferred alone. Until is when it was
	// deferred: for MH the cause of one alone ends then.
	Period string    `json:"period,omitempty"`
	Kind   int64     `json:"kind,omitempty"`   // CAT-005, as the contingency form says
	Motive string    `json:"motive,omitempty"` // likewise
	Until  time.Time `json:"until,omitzero"`
	// Sent is when it was last sent to MH without an answer.
	Sent time.Time `json:"sent,omitzero"`
	// Event is the contingency event that MH sealed, or the last that it refused; Limit is when its documents are due there,
	// Forwarded when the contingency form was first sent, by MH's clock.
	Event     string    `json:"event,omitempty"`
	Limit     time.Time `json:"limit,omitzero"`
	Forwarded time.Time `json:"forwarded,omitzero"`
	// Refused is when MH refused what was issued in contingency; Corrections are the refusals before that were answered.
	Refused     time.Time    `json:"refused,omitzero"`
	Corrections []correction `json:"corrections,omitempty"`
	// Refusals is how many events that listed it MH has refused. Known: MH refused one because it has the document's code
	// already: in another event, or the document itself.
	Refusals int  `json:"refusals,omitempty"`
	Known    bool `json:"known,omitempty"`
	// Origin is the code of the document that a note or a return is issued against.
	Origin       string        `json:"origin,omitempty"`
	Invalidation *Invalidation `json:"invalidation,omitempty"`
	// Mail is the receiver's address, "" when the document has none.
	Mail     string     `json:"mail,omitempty"`
	Delivery *delivered `json:"delivery,omitempty"`
}

// Parts of a stored document. Each form is signed by its own right, once.
const (
	partFacts       = "facts"       // the facts, JSON
	formNormal      = "normal"      // JWS of the document as issued online
	formContingency = "contingency" // JWS of the same document with the marks of contingency
	formCorrection  = "correction-" // and n: JWS of the nth correction of one that MH refused; its facts are partFacts-n
	partDraws       = "draws"       // what it takes of its origin's counters, JSON
)

func (h *head) encode() ([]byte, error) {
	b, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encoding record: %w", err)
	}
	return b, nil
}

func decodeHead(e storage.Entry) (*head, error) {
	h := new(head)
	if err := json.Unmarshal(e.Head, h); err != nil {
		return nil, fmt.Errorf("decoding record %s: %w", dte.Code(e.Code), err)
	}
	return h, nil
}

// payload returns the signed bytes inside a compact JWS: they are kept once, in the signature.
func payload(jws []byte) ([]byte, error) {
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

// record makes the public record of a stored document that has left Signed.
func (e *Engine) record(entry storage.Entry) (*Record, error) {
	h, err := decodeHead(entry)
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
	document, err := payload(jws)
	if err != nil {
		return nil, err
	}
	return e.view(entry, h, document, jws)
}

func (e *Engine) view(entry storage.Entry, h *head, document, jws []byte) (*Record, error) {
	estado, ok := estados[entry.State]
	if !ok {
		return nil, fmt.Errorf("record %s is in state %d, which has no public name", dte.Code(entry.Code), entry.State)
	}
	r := &Record{
		ID:             int64(entry.ID),
		Document:       h.Document,
		Tipo:           kinds[h.Document].Tipo,
		Code:           dte.Code(entry.Code).String(),
		ControlNumber:  h.ControlNumber,
		Estado:         estado,
		Ambiente:       ambienteName(h.Ambiente),
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
	if entry.State == Rejected {
		r.TechnicalError = "Rechazado por Hacienda: " + rejection(h.Response)
		return r, nil
	}
	if h.Response != nil {
		r.Sello = h.Response.SelloRecibido
	}
	r.JSONURL = e.path(h, "json", r.Code)
	r.PDFURL = e.path(h, "pdf", r.Code)
	return r, nil
}

// path is where the archive keeps a document (SPEC 2.2). h.Date is yyyy-mm-dd.
func (e *Engine) path(h *head, kind, code string) string {
	return e.issuer.Slug + "/DTES/" + strings.ToLower(ambienteName(h.Ambiente)) + "/" + strings.ReplaceAll(h.Date, "-", "/") +
		"/DTE" + h.Document + "/" + kind + "/" + code + "." + kind
}

func rejection(r *authority.Response) string {
	if r == nil {
		return ""
	}
	return r.DescripcionMsg
}

// ambienteName maps CAT-001 to the API's word.
func ambienteName(code string) string {
	if code == "01" {
		return "PROD"
	}
	return "TEST"
}
