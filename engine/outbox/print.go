package outbox

import (
	"bytes"
	"context"
	"errors"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// legal returns a stored document. It refuses a document that MH refused, because that document has no legal existence.
func (box *Outbox) legal(ctx context.Context, code dte.Code, c record.Caller) (*record.View, error) {
	r, err := box.o.Documents.Document(ctx, code, c)
	if err != nil {
		return nil, err
	}
	if r.Estado == record.EstadoRejected {
		return nil, &refusal.Error{Code: refusal.CodeNotProcessed,
			Message: "Hacienda rechazó el documento: no tiene versión legible ni se entrega"}
	}
	return r, nil
}

// Printed returns the readable version of a document. layout is letter, ticket80 or ticket58. escpos, for a ticket,
// returns the commands of a thermal printer instead of a PDF. Errors: *refusal.Error, or the store's.
func (box *Outbox) Printed(ctx context.Context, code dte.Code, c record.Caller, layout string, escpos bool) ([]byte,
	error) {
	l, ok := pdf.ParseLayout(layout)
	if !ok || escpos && l == pdf.Letter {
		return nil, refusal.Of([]dte.Fault{{Path: "layout", Code: dte.FaultEnum,
			Message: "Debe ser letter, ticket80 o ticket58; con format=escpos, ticket80 o ticket58"}})
	}
	// Refuse before reading, because reading a document of 2,000 lines is expensive.
	if err := box.delivery.printing.Refusal(c.TokenID); err != nil {
		return nil, notPrinted(err, "")
	}
	r, err := box.legal(ctx, code, c)
	if err != nil {
		return nil, err
	}
	b, err := box.Print(ctx, c.TokenID, Printable(r), l, escpos)
	return b, notPrinted(err, "La versión legible no pudo generarse")
}

// notPrinted returns the refusal for an error of printing: CodeBusy if the token's share is used up, otherwise message.
func notPrinted(err error, message string) error {
	var busy *fairqueue.Busy
	switch {
	case err == nil:
		return nil
	case errors.As(err, &busy):
		return &refusal.Error{Code: refusal.CodeBusy, RetryAfter: busy.Wait, Err: busy,
			Message: "Este token ha pedido demasiadas versiones legibles de documentos grandes"}
	}
	return refusal.Unavailable(err, message)
}

// LinkHolders is the TokenID of callers that have a link to a document but no token. They share one allowance.
const LinkHolders = -1

var errNoPrinter = errors.New("this branch prints nothing")

// Print lays out a document. It waits for the token's turn; token is a token's id, LinkHolders or fairqueue.House.
// Errors: a *fairqueue.Busy if the token has used up its share, or the printer's.
func (box *Outbox) Print(ctx context.Context, token int64, d pdf.Document, l pdf.Layout, escpos bool) ([]byte, error) {
	return box.print(ctx, token, func(b *bytes.Buffer, p *pdf.Printer) error {
		d.Rest = box.o.GiveWay()
		if escpos {
			return p.ESCPOS(b, d, l)
		}
		return p.Render(b, d, l)
	})
}

func (box *Outbox) print(ctx context.Context, token int64, do func(*bytes.Buffer, *pdf.Printer) error) ([]byte, error) {
	if box.o.Delivery.Printer == nil {
		return nil, errNoPrinter
	}
	leave, err := box.delivery.printing.Enter(ctx, token)
	if err != nil {
		return nil, err
	}
	defer leave()
	var b bytes.Buffer
	err = do(&b, box.o.Delivery.Printer)
	return b.Bytes(), err
}

// PrintSlip lays out a slip of a till. layout is ticket80 or ticket58; see Printed. Errors are *refusal.Error.
func (box *Outbox) PrintSlip(ctx context.Context, c record.Caller, s pdf.Slip, layout string, escpos bool) ([]byte,
	error) {
	l, _ := pdf.ParseLayout(layout)
	b, err := box.print(ctx, c.TokenID, func(b *bytes.Buffer, p *pdf.Printer) error { return p.Slip(b, s, l, escpos) })
	return b, notPrinted(err, "El ticket no pudo generarse")
}

// Printable returns a document's view in the form that the printer needs.
func Printable(r *record.View) pdf.Document {
	d := pdf.Document{JSON: r.JSON, Seal: r.Sello}
	if r.Response != nil {
		d.Received = r.Response.FhProcesamiento
	}
	switch r.Estado {
	case record.EstadoContingency:
		d.State, d.Seal, d.Received = pdf.Contingency, "", ""
	case record.EstadoInvalidated:
		d.State = pdf.Invalidated
		if i := r.Invalidation; i != nil {
			at := i.At.In(dte.Zone).Format("02/01/2006 15:04:05")
			if i.Response != nil && i.Response.FhProcesamiento != "" {
				at = i.Response.FhProcesamiento
			}
			d.Note = "Invalidado el " + at + "\nEvento " + i.Code
			if i.Reason != "" {
				d.Note += "\nMotivo: " + i.Reason
			}
		}
	}
	return d
}

// Archivo returns the legal file of a document, the "Archivo DTE": the signed document with its signature and its seal.
// The seal is null in contingency. Errors: CodeNotProcessed for a refused document; see also Documents.Document.
func (box *Outbox) Archivo(ctx context.Context, code dte.Code, c record.Caller) ([]byte, error) {
	r, err := box.legal(ctx, code, c)
	if err != nil {
		return nil, err
	}
	return archivo(r), nil
}

func archivo(r *record.View) []byte {
	b := make([]byte, 0, len(r.JSON)+len(r.JWS)+100)
	b = append(b, bytes.TrimSuffix(bytes.TrimSpace(r.JSON), []byte("}"))...)
	b = append(dte.Str(string(r.JWS)).Append(append(b, `,"firmaElectronica":`...)), `,"selloRecibido":`...)
	if r.Sello == "" {
		return append(b, `null}`...)
	}
	return append(dte.Str(r.Sello).Append(b), '}')
}

// Link returns a link to a document's PDF in the archive, valid for a time. "": the archive does not have this version.
// The archive has the letter-size version of sealed documents, as they were before any invalidation.
func (box *Outbox) Link(ctx context.Context, code dte.Code, c record.Caller, layout string,
	validity time.Duration) (string, error) {
	if box.o.Delivery.Archive == nil || layout != pdf.Letter.String() {
		return "", nil
	}
	r, err := box.legal(ctx, code, c)
	if err != nil || r.Estado != record.EstadoProcessed {
		return "", err
	}
	_, h, err := record.Read(box.o.Store, storage.Code(code))
	if err != nil || !h.Archived() {
		return "", refusal.Internal(err)
	}
	link, err := box.o.Delivery.Archive.Presign(ctx, ArchivePath(box.o.Issuer.Slug, h, "pdf", r.Code), validity,
		`inline; filename="`+r.Code+`.pdf"`)
	return link, refusal.Internal(err)
}
