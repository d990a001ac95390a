package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/fair"
	"dtegate/engine/mail"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// receiver is whom a document is made out to, in its facts or in itself: a return names it documento.
func receiver(document dte.Value) dte.Value {
	for _, name := range []string{"receptor", "sujetoExcluido", "documento"} {
		if v := document.Get(name); v.Kind() == dte.KindObject {
			return v
		}
	}
	return dte.Null()
}

// Recipient returns the receiver's address of a document, "" if there is none.
func Recipient(document dte.Value) string {
	return strings.TrimSpace(receiver(document).Get("correo").Text())
}

// messageID is the left side of a message's ID: a document's own message and each resend have one for ever, so that a
// server can drop what it was given twice.
func messageID(code storage.Code) string { return strings.ToLower(dte.Code(code).String()) }

var (
	errNoMail = errors.New("no mail server is configured")
	// errSetup marks what stays so until somebody sets the mail right.
	errSetup = errors.New("the mail server does not take this box")
)

// mailTo makes one attempt to mail a document and says in s what came of it. When ctx ends before anything is known, s
// stays as it is.
func (box *letters) mailTo(ctx context.Context, s *record.Step, entry storage.Entry, h *record.Head, to, id string) {
	now := box.now()
	if box.delivery.Mail == nil {
		box.mailLater(s, now, errNoMail, false, false)
		return
	}
	if open, why := box.delivery.mail.leftAlone(now); open {
		box.mailLater(s, now, why, true, errors.Is(why, errSetup))
		return
	}
	m, err := box.message(ctx, entry, to, id, s.Since)
	if err != nil {
		if ctx.Err() == nil {
			box.log.Error("composing a message", "code", dte.Code(entry.Code).String(), "error", err)
			box.mailLater(s, now, err, false, false)
		}
		return
	}
	o := box.delivery.Mail.Send(ctx, m)
	now = box.now()
	switch {
	case o.Kind == mail.Sent:
		s.End(record.StepDone, nil)
		box.delivery.mail.reset()
		box.metrics.mailed.WithLabelValues("sent").Inc()
	case o.Kind == mail.Refused:
		s.End(record.StepFailed, o.Err)
		box.metrics.mailed.WithLabelValues("refused").Inc()
		if o.Code > 0 {
			box.delivery.mail.reset()
		}
		box.log.Warn("a message is refused for good", "code", dte.Code(entry.Code).String(), "reply", o.Code, refusal.LogAttr(o.Err))
	case ctx.Err() != nil:
	default:
		away := o.Setup || o.Code == 0 && !o.Doubtful
		if o.Setup {
			o.Err = fmt.Errorf("%w: %w", errSetup, o.Err)
		}
		if away {
			box.delivery.mail.fail(now, o.Err)
		} else if o.Code > 0 {
			box.delivery.mail.reset()
		}
		result := "later"
		if o.Setup {
			result = "setup"
		}
		box.metrics.mailed.WithLabelValues(result).Inc()
		box.log.Warn("mailing a document", "code", dte.Code(entry.Code).String(), "reply", o.Code, "doubtful", o.Doubtful, "setup", o.Setup, refusal.LogAttr(o.Err))
		box.mailLater(s, now, o.Err, away, o.Setup)
	}
}

// mailLater puts a message off, or gives it up when its time is over. What waits for somebody to set the mail right is
// never given up.
func (box *letters) mailLater(s *record.Step, now time.Time, why error, away, setup bool) {
	if now.Sub(s.Since) < box.delivery.GiveUpAfter || setup {
		s.Postpone(now, why, away)
		return
	}
	s.End(record.StepFailed, fmt.Errorf("given up: %w", why))
	box.metrics.mailed.WithLabelValues("given_up").Inc()
}

// message is a document as it is mailed now: the words, the readable version and the legal file.
func (box *letters) message(ctx context.Context, entry storage.Entry, to, id string, written time.Time) (mail.Message, error) {
	r, err := box.docs.View(entry)
	if err != nil {
		return mail.Message{}, err
	}
	document, err := dte.Parse(r.JSON)
	if err != nil {
		return mail.Message{}, fmt.Errorf("reading document: %w", err)
	}
	printed, err := box.Print(ctx, fair.House, Printable(r), pdf.Letter, false)
	if err != nil {
		return mail.Message{}, fmt.Errorf("printing: %w", err)
	}
	m := mail.Message{ID: id + "@" + box.delivery.Domain, To: []string{to}, Date: written.In(dte.Zone), Attachments: []mail.Attachment{
		{Name: r.Code + ".pdf", ContentType: "application/pdf", Data: printed},
		{Name: r.Code + ".json", ContentType: "application/json", Data: archivo(r)},
	}}
	f := box.facts(r, document)
	if picture, w, h := box.delivery.Printer.Logo(); picture != nil {
		f.Look.Logo, f.Look.LogoWidth, f.Look.LogoHeight = logoName, w, h
		m.Inline = []mail.Attachment{{Name: logoName, ContentType: "image/png", Data: picture}}
	}
	m.Subject, m.Text, m.HTML = mail.Compose(f)
	return m, nil
}

// logoName is the emisor's logo within a message.
const logoName = "logo.png"

func (box *letters) facts(r *record.View, document dte.Value) mail.Facts {
	id := document.Get("identificacion")
	f := mail.Facts{Test: r.Ambiente == "TEST", Number: id.Get("numeroControl").Text(), Code: r.Code, Seal: r.Sello, Total: thousands(r.Total),
		Emisor: document.Get("emisor").Get("nombre").Text(), Receptor: receiver(document).Get("nombre").Text(),
		Document: cmp.Or(id.Get("tipoDte").Text(), id.Get("tipoEvento").Text())}
	f.Look = box.delivery.Look
	f.Look.Tax = dte.FormatNIT(document.Get("emisor").Get("nit").Text())
	f.Look.Phone = dte.FormatPhone(document.Get("emisor").Get("telefono").Text())
	if word, ok := box.docs.Catalogue("CAT-002", f.Document); ok {
		f.Document = word
	}
	day := id.Get("fecEmi").Text()
	f.Consult = strings.NewReplacer("{ambiente}", id.Get("ambiente").Text(), "{codigoGeneracion}", r.Code, "{fecEmi}", day).Replace(pdf.ConsultURL)
	f.Date = day
	if t, err := time.Parse(time.DateOnly, day); err == nil {
		f.Date = t.Format("02/01/2006")
	}
	switch r.Estado {
	case record.EstadoContingency:
		f.State, f.Seal = mail.Contingency, ""
	case record.EstadoInvalidated:
		f.State = mail.Invalidated
	}
	return f
}

// thousands writes 1234.50 as 1,234.50.
func thousands(amount string) string {
	whole, cents, _ := strings.Cut(amount, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if cents != "" {
		whole += "." + cents
	}
	return sign + whole
}
