package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/mail"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/seller"
	"dtegate/storage"
)

// Letter is a message about a document that is sent besides the document's own message: a resend, or a message before the seal.
type Letter struct {
	Document string `json:"document"` // codigoGeneracion
	To       string `json:"to"`
	// TokenID asked for it, or issued the document that goes out before its seal. 0: of a store before tokens were kept.
	TokenID int64       `json:"token_id,omitempty"`
	Step    record.Step `json:"step"`
}

func decodeLetter(entry storage.Entry) (*Letter, error) {
	l := new(Letter)
	if err := json.Unmarshal(entry.Head, l); err != nil {
		return nil, fmt.Errorf("decoding letter %s: %w", dte.Code(entry.Code), err)
	}
	return l, nil
}

// Resent is the result of a resend (SPEC 4.8).
type Resent struct {
	Code, To, Tipo, Estado string
	Sent                   bool // the mail server took it; else it is in the outbox, unless
	Refused                bool // the mail server will not take it, however often it is tried
}

// resendWait is how long a resend waits for the mail server.
const resendWait = 5 * time.Second

// Resend mails a document to an address, or to its receiver if the address is empty. Another address than the receiver's needs
// the caller's MailsOthers; otherwise the error is a *refusal.Error of CodePermission. The letter is stored before anything is
// sent. If the mail server does not accept it within five seconds, it is sent later.
func (box *letters) Resend(ctx context.Context, code dte.Code, to string, c seller.Caller) (*Resent, error) {
	r, err := box.legal(ctx, code, c)
	if err != nil {
		return nil, err
	}
	if to != "" && !mail.Mailable(to) {
		return nil, refusal.Of([]dte.Fault{{Path: "email", Code: dte.FaultFormat, Message: "No es una dirección de correo"}})
	}
	entry, err := box.store.Get(storage.Code(code))
	if err != nil {
		return nil, refusal.Internal(err)
	}
	h, err := record.DecodeHead(entry)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	other := to != "" && !strings.EqualFold(to, h.Mail)
	switch {
	case to == "" && h.Mail == "":
		return nil, &refusal.Error{Code: refusal.CodeNoRecipient, Message: "El documento no lleva correo del receptor y la solicitud no indica email"}
	case other && !c.MailsOthers:
		return nil, &refusal.Error{Code: refusal.CodePermission, Message: "El token solo puede enviar el documento al correo del receptor: para otra dirección necesita el permiso " + seller.PermissionMail}
	case !other:
		to = h.Mail // as the document spells it: a server may tell cases apart
	}
	if box.delivery.Mail == nil {
		return nil, refusal.Unavailable(errNoMail, "El envío de correo no está configurado")
	}
	done := make(chan string, 1)
	if err := box.post(ctx, Letter{Document: r.Code, To: to, TokenID: c.TokenID}, done); err != nil {
		return nil, refusal.Unavailable(err, "El correo no pudo guardarse para su envío")
	}
	if other {
		box.docs.Mailed(c, code, to)
	}
	out := &Resent{Code: r.Code, To: to, Tipo: r.Tipo, Estado: r.Estado}
	select {
	case result := <-done:
		out.Sent, out.Refused = result == record.StepDone, result == record.StepFailed
	case <-ctx.Done():
	case <-time.After(resendWait):
	}
	return out, nil
}

// Mailable reports whether mail can be sent to a receiver's address, by the address's form alone.
func Mailable(address string) bool { return mail.Mailable(address) }

// post puts a letter into the outbox, in front of what waits there. done, if not nil, is told what came of the first
// attempt.
func (box *letters) post(ctx context.Context, l Letter, done chan string) error {
	code, err := dte.NewCode(box.rand)
	if err != nil {
		return err
	}
	now := box.now().UTC().Truncate(time.Millisecond)
	l.Step = record.Step{Since: now, Next: now}
	head, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if done != nil {
		box.delivery.mu.Lock()
		box.delivery.waiting[storage.Code(code)] = done
		box.delivery.mu.Unlock()
	}
	_, err = box.store.Append(ctx, storage.Keys{Series: box.issuer.Ambiente + "/correo"}, storage.Draft{Code: storage.Code(code), State: record.LetterOpen, Head: head, Due: &storage.Due{Queue: record.QueueDeliver, At: time.Unix(0, 0)}})
	if err != nil {
		box.answerWaiting(storage.Code(code), "")
		return err
	}
	box.delivery.bell.Ring()
	return nil
}

// answerWaiting gives the result of the first attempt at a letter to whoever waits for it: "" when it will be tried again.
func (box *letters) answerWaiting(code storage.Code, result string) {
	box.delivery.mu.Lock()
	defer box.delivery.mu.Unlock()
	if done := box.delivery.waiting[code]; done != nil {
		done <- result
		delete(box.delivery.waiting, code)
	}
}

// deliverLetter makes one attempt at a letter.
func (box *letters) deliverLetter(ctx context.Context, entry storage.Entry, away bool) error {
	l, err := decodeLetter(entry)
	if err != nil {
		return err
	}
	if away && !stepWanted(&l.Step, box.now(), away, &box.delivery.mail) {
		return nil
	}
	code, err := dte.ParseCode(l.Document)
	if err != nil {
		return err
	}
	document, err := box.store.Get(storage.Code(code))
	if err != nil {
		return err
	}
	before := l.Step
	if document.State == record.Rejected {
		l.Step.End(record.StepFailed, errors.New("MH refused the document"))
	} else {
		h, err := record.DecodeHead(document)
		if err != nil {
			return err
		}
		box.mailTo(ctx, &l.Step, document, h, l.To, messageID(entry.Code))
	}
	if l.Step == before {
		return nil // stopping
	}
	head, err := json.Marshal(l)
	if err != nil {
		return err
	}
	change := storage.Change{To: record.LetterOpen, Head: head, Due: &storage.Due{Queue: record.QueueDeliver, At: l.Step.Next}}
	switch l.Step.Result {
	case record.StepDone:
		change.To, change.Due = record.LetterSent, nil
	case record.StepFailed:
		change.To, change.Due = record.LetterFailed, &storage.Due{Queue: record.QueueUndelivered, At: l.Step.Since}
	}
	if _, err := record.Move(context.WithoutCancel(ctx), box.store, entry.Code, record.LetterOpen, change); err != nil {
		return err
	}
	box.answerWaiting(entry.Code, l.Step.Result)
	if l.Step.Result == record.StepDone {
		return box.clearGivenUp(ctx, code)
	}
	return nil
}

// clearGivenUp takes a document that has been mailed after all out of the list of those that were given up.
func (box *core) clearGivenUp(ctx context.Context, code dte.Code) error {
	failed, err := box.store.Due(record.QueueUndelivered, record.Whenever, deliverMany)
	if err != nil {
		return fmt.Errorf("reading queue %s: %w", record.QueueUndelivered, err)
	}
	for _, entry := range failed {
		if record.IsDocument(entry.State) {
			if entry.Code != storage.Code(code) {
				continue
			}
			err = box.docs.ChangeDelivery(ctx, entry.Code, func(d *record.Delivery) {
				if d.Mail.Failed() {
					d.Mail = &record.Step{Result: record.StepDone, Since: d.Mail.Since}
				}
			})
		} else if l, bad := decodeLetter(entry); bad == nil && l.Document == code.String() {
			_, err = record.Move(ctx, box.store, entry.Code, record.LetterFailed, storage.Change{To: record.LetterFailed})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// MailBeforeSeal mails a document that was issued in contingency, if Delivery.Contingency is set. A crash may lose this
// message; the message with the seal is never lost.
func (box *letters) MailBeforeSeal(ctx context.Context, r *record.View) {
	if !box.delivery.Contingency || box.delivery.Mail == nil {
		return
	}
	document, err := dte.Parse(r.JSON)
	if err != nil {
		return
	}
	to := Recipient(document)
	if to == "" {
		return
	}
	if err := box.post(ctx, Letter{Document: r.Code, To: to, TokenID: r.TokenID}, nil); err != nil {
		box.log.Error("mailing a document issued in contingency", "code", r.Code, "error", err)
	}
}
