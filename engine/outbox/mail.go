package outbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/mail"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// Recipient returns the receiver's mail address in a document, or "" if the document has none.
func Recipient(document dte.Value) string {
	return strings.TrimSpace(record.Party(document).Get("correo").Text())
}

// messageID returns the left side of a Message-ID. It never changes, so that a server recognizes a duplicate.
func messageID(code storage.Code) string { return strings.ToLower(dte.Code(code).String()) }

var (
	errNoMail = errors.New("no mail server is configured")
	// errSetup means that every attempt fails until somebody corrects the mail settings.
	errSetup = errors.New("the mail server does not accept this box")
)

// mailTo makes one attempt to mail a document and records the result in s, unless ctx ends before the result is known.
func (box *Outbox) mailTo(ctx context.Context, s *record.Step, entry storage.Entry, to, id string) {
	now := box.o.Now()
	if box.o.Delivery.Mail == nil {
		box.mailLater(s, now, errNoMail, false)
		return
	}
	if open, why := box.delivery.servers[mailServer].leftAlone(now); open {
		box.mailLater(s, now, why, true)
		return
	}
	m, err := box.message(ctx, entry, to, id, s.Since)
	if err != nil {
		if ctx.Err() == nil {
			box.o.Logger.Error("composing a message", "code", dte.Code(entry.Code).String(), "error", err)
			box.mailLater(s, now, err, false)
		}
		return
	}
	o := box.o.Delivery.Mail.Send(ctx, m)
	now = box.o.Now()
	switch {
	case o.Kind == mail.Sent:
		s.End(record.StepDone, nil)
		box.delivery.servers[mailServer].reset()
		box.metrics.mailed.WithLabelValues("sent").Inc()
	case o.Kind == mail.Refused:
		s.End(record.StepFailed, o.Err)
		box.metrics.mailed.WithLabelValues("refused").Inc()
		if o.Code > 0 {
			box.delivery.servers[mailServer].reset()
		}
		box.o.Logger.Warn("a message is refused for good", "code", dte.Code(entry.Code).String(), "reply", o.Code,
			refusal.LogAttr(o.Err))
	case ctx.Err() != nil:
	default:
		away, result := o.Setup || o.Code == 0 && !o.Doubtful, "later"
		if o.Setup {
			o.Err, result = fmt.Errorf("%w: %w", errSetup, o.Err), "setup"
		}
		if away {
			box.delivery.servers[mailServer].fail(now, o.Err)
		} else if o.Code > 0 {
			box.delivery.servers[mailServer].reset()
		}
		box.metrics.mailed.WithLabelValues(result).Inc()
		box.o.Logger.Warn("mailing a document", "code", dte.Code(entry.Code).String(), "reply", o.Code, "doubtful",
			o.Doubtful, "setup", o.Setup, refusal.LogAttr(o.Err))
		box.mailLater(s, now, o.Err, away)
	}
}

// mailLater postpones a message. It gives the message up after GiveUpAfter, unless the cause (why) is errSetup.
func (box *Outbox) mailLater(s *record.Step, now time.Time, why error, away bool) {
	if now.Sub(s.Since) < box.o.Delivery.GiveUpAfter || errors.Is(why, errSetup) {
		s.Postpone(now, why, away)
		return
	}
	s.End(record.StepFailed, fmt.Errorf("given up: %w", why))
	box.metrics.mailed.WithLabelValues("given_up").Inc()
}

// message returns the mail message of a document: the text, the readable version and the legal file.
func (box *Outbox) message(ctx context.Context, entry storage.Entry, to, id string, written time.Time) (mail.Message,
	error) {
	r, err := box.o.Documents.View(entry)
	if err != nil {
		return mail.Message{}, err
	}
	document, err := dte.Parse(r.JSON)
	if err != nil {
		return mail.Message{}, fmt.Errorf("reading document: %w", err)
	}
	printed, err := box.Print(ctx, fairqueue.House, Printable(r), pdf.Letter, false)
	if err != nil {
		return mail.Message{}, fmt.Errorf("printing: %w", err)
	}
	m := mail.Message{ID: id + "@" + box.o.Delivery.Domain, To: to, Date: written.In(dte.Zone),
		Attachments: []mail.Attachment{
			{Name: r.Code + ".pdf", ContentType: "application/pdf", Data: printed},
			{Name: r.Code + ".json", ContentType: "application/json", Data: archivo(r)},
		}}
	f := box.facts(r, document)
	if picture, w, h := box.o.Delivery.Printer.Logo(); picture != nil {
		f.Look.Logo, f.Look.LogoWidth, f.Look.LogoHeight = logoName, w, h
		m.Inline = []mail.Attachment{{Name: logoName, ContentType: "image/png", Data: picture}}
	}
	m.Subject, m.Text, m.HTML = mail.Compose(f)
	return m, nil
}

const logoName = "logo.png"

func (box *Outbox) facts(r *record.View, document dte.Value) mail.Facts {
	id, emisor := document.Get("identificacion"), record.IssuerOf(document)
	f := mail.Facts{Test: r.Ambiente == "TEST", Number: id.Get("numeroControl").Text(), Code: r.Code, Seal: r.Sello,
		Total:  pdf.Printed(r.Total, 2),
		Emisor: emisor.Get("nombre").Text(), Receptor: record.Party(document).Get("nombre").Text(),
		Document: cmp.Or(id.Get("tipoDte").Text(), id.Get("tipoEvento").Text())}
	f.Look = box.o.Delivery.Look
	f.Look.Tax = dte.FormatNIT(cmp.Or(emisor.Get("nit").Text(), emisor.Get("numDocumento").Text()))
	f.Look.Phone = dte.FormatPhone(emisor.Get("telefono").Text())
	if word, ok := box.o.Documents.Catalogue("CAT-002", f.Document); ok {
		f.Document = word
	}
	f.Consult, f.Date = pdf.ConsultURL(id), dte.FormatDay(id.Get("fecEmi").Text())
	switch r.Estado {
	case record.EstadoContingency:
		f.State, f.Seal = mail.Contingency, ""
	case record.EstadoInvalidated:
		f.State = mail.Invalidated
	}
	return f
}

// Mailing is a letter: a resend of a document, or a message about it before MH's seal.
type Mailing struct {
	Document string `json:"document"` // codigoGeneracion
	To       string `json:"to"`
	// Receiver: To is the receiver's address in the document; a correction of the document changes it.
	Receiver bool `json:"receiver,omitempty"`
	// TokenID is the token that requested the resend, or that issued the document mailed before its seal.
	TokenID int64       `json:"token_id,omitempty"`
	Step    record.Step `json:"step"`
}

func decodeLetter(entry storage.Entry) (*Mailing, error) {
	l := new(Mailing)
	if err := json.Unmarshal(entry.Head, l); err != nil {
		return nil, fmt.Errorf("%w: decoding letter %s: %w", record.ErrLost, dte.Code(entry.Code), err)
	}
	return l, nil
}

// Resent is the result of a resend (SPEC 4.8).
type Resent struct {
	Code, To, Tipo, Estado string
	Sent                   bool // the mail server accepted the message; if neither Sent nor Refused, it waits
	Refused                bool // the mail server refused the message for good
}

const resendWait = 5 * time.Second

// Resend mails a document to an address, or to its receiver if the address is empty. Without MailsOthers a caller may
// use only the receiver's address: CodePermission. The letter is stored first, and sent later if the mail server does
// not accept it within five seconds.
func (box *Outbox) Resend(ctx context.Context, code dte.Code, to string, c record.Caller) (*Resent, error) {
	r, err := box.legal(ctx, code, c)
	if err != nil {
		return nil, err
	}
	if to != "" && !mail.Mailable(to) {
		return nil, refusal.Of([]dte.Fault{{Path: "email", Code: dte.FaultFormat,
			Message: "No es una dirección de correo"}})
	}
	_, h, err := record.Read(box.o.Store, storage.Code(code))
	if err != nil {
		return nil, refusal.Internal(err)
	}
	other := to != "" && !strings.EqualFold(to, h.Mail)
	switch {
	case to == "" && h.Mail == "":
		return nil, &refusal.Error{Code: refusal.CodeNoRecipient,
			Message: "El documento no lleva correo del receptor y la solicitud no indica email"}
	case other && !c.MailsOthers:
		return nil, &refusal.Error{Code: refusal.CodePermission,
			Message: "El token solo puede enviar el documento al correo del receptor: para otra dirección necesita " +
				"el permiso " + record.PermissionMail}
	case !other:
		to = h.Mail // in the document's spelling: a server may distinguish upper and lower case
	}
	if box.o.Delivery.Mail == nil {
		return nil, refusal.Unavailable(errNoMail, "El envío de correo no está configurado")
	}
	done := make(chan string, 1)
	if err := box.post(ctx, Mailing{Document: r.Code, To: to, Receiver: !other, TokenID: c.TokenID}, done); err != nil {
		return nil, refusal.Unavailable(err, "El correo no pudo guardarse para su envío")
	}
	if other {
		box.o.Documents.Mailed(c, code, to)
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

// Mailable reports whether an address has a form to which mail can be sent.
func Mailable(address string) bool { return mail.Mailable(address) }

// post puts a letter into the outbox, ahead of other deliveries. done, if not nil, receives the first attempt's result.
func (box *Outbox) post(ctx context.Context, l Mailing, done chan string) error {
	code, err := dte.NewCode(box.o.Rand)
	if err != nil {
		return err
	}
	now := box.o.Now().UTC().Truncate(time.Millisecond)
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
	_, err = box.o.Store.Append(ctx, storage.Keys{Series: box.o.Issuer.Ambiente + "/correo"},
		storage.Draft{Code: storage.Code(code), State: record.LetterOpen, Head: head,
			Due: &storage.Due{Queue: record.QueueDeliver, At: time.Unix(0, 0)}})
	if err != nil {
		box.answerWaiting(storage.Code(code), "")
		return err
	}
	box.delivery.bell.Ring()
	return nil
}

// answerWaiting sends the result of a letter's first attempt to the waiting caller; "" means that more attempts follow.
func (box *Outbox) answerWaiting(code storage.Code, result string) {
	box.delivery.mu.Lock()
	defer box.delivery.mu.Unlock()
	if done := box.delivery.waiting[code]; done != nil {
		done <- result
		delete(box.delivery.waiting, code)
	}
}

func (box *Outbox) deliverLetter(ctx context.Context, entry storage.Entry, away bool) error {
	l, err := decodeLetter(entry)
	if err != nil {
		return err
	}
	if away && !stepWanted(&l.Step, box.o.Now(), away, &box.delivery.servers[mailServer]) {
		return nil
	}
	code, err := dte.ParseCode(l.Document)
	if err != nil {
		return err
	}
	document, h, err := record.Read(box.o.Store, storage.Code(code))
	if errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("%w: its document %s", record.ErrLost, l.Document)
	}
	if err != nil {
		return err
	}
	before := l.Step
	if l.Receiver {
		l.To = h.Mail
	}
	switch {
	case document.State == record.Rejected:
		l.Step.End(record.StepFailed, errors.New("MH refused the document"))
	case l.To == "":
		l.Step.End(record.StepFailed, errors.New("the corrected document has no address"))
	default:
		if _, err := record.SignedForm(box.o.Store, document.Code, h); err != nil {
			return err
		}
		box.mailTo(ctx, &l.Step, document, l.To, messageID(entry.Code))
	}
	if l.Step == before {
		return nil // the program is stopping
	}
	head, err := json.Marshal(l)
	if err != nil {
		return err
	}
	change := storage.Change{To: record.LetterOpen, Head: head, Due: &storage.Due{Queue: record.QueueDeliver,
		At: l.Step.Next}}
	switch l.Step.Result {
	case record.StepDone:
		change.To, change.Due = record.LetterSent, nil
	case record.StepFailed:
		change.To, change.Due = record.LetterFailed, &storage.Due{Queue: record.QueueUndelivered, At: l.Step.Since}
	}
	ctx = context.WithoutCancel(ctx)
	if _, err := record.Move(ctx, box.o.Store, entry.Code, record.LetterOpen, change); err != nil {
		return err
	}
	box.answerWaiting(entry.Code, l.Step.Result)
	if l.Step.Result == record.StepDone {
		return box.clearGivenUp(ctx, code)
	}
	return nil
}

// clearGivenUp removes a document and its letters from the given-up deliveries after a later mailing has succeeded.
func (box *Outbox) clearGivenUp(ctx context.Context, code dte.Code) error {
	failed, err := box.o.Store.Due(record.QueueUndelivered, record.Whenever, deliverMany)
	if err != nil {
		return fmt.Errorf("reading queue %s: %w", record.QueueUndelivered, err)
	}
	for _, entry := range failed {
		if record.IsDocument(entry.State) {
			if entry.Code != storage.Code(code) {
				continue
			}
			err = box.o.Documents.ChangeDelivery(ctx, entry.Code, func(d *record.Delivery) {
				if d.Mail.Failed() {
					d.Mail = &record.Step{Result: record.StepDone, Since: d.Mail.Since}
				}
			})
		} else if l, bad := decodeLetter(entry); bad == nil && l.Document == code.String() {
			_, err = record.Move(ctx, box.o.Store, entry.Code, record.LetterFailed,
				storage.Change{To: record.LetterFailed})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// MailBeforeSeal mails a document issued in contingency, if so configured. A crash may lose the message.
func (box *Outbox) MailBeforeSeal(ctx context.Context, r *record.View) {
	if !box.o.Delivery.Contingency || box.o.Delivery.Mail == nil {
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
	if err := box.post(ctx, Mailing{Document: r.Code, To: to, Receiver: true, TokenID: r.TokenID}, nil); err != nil {
		box.o.Logger.Error("mailing a document issued in contingency", "code", r.Code, "error", err)
	}
}
