package register

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// FormFault is a document whose record names a form that was never signed. It appears in lists, but cannot be read, printed or
// mailed before its record names another form.
type FormFault struct {
	Code    string
	Control string // its number
	Form    string // of the record
	Signed  []string
}

func (f FormFault) String() string {
	s := fmt.Sprintf("document %s (%s): its record is in the form %q, which was never signed; ", f.Code, f.Control, f.Form)
	if len(f.Signed) == 0 {
		return s + "no form of it is in the store"
	}
	return s + "signed is: " + strings.Join(f.Signed, ", ") + ". The appliance mends the record when it next reads the document"
}

// CheckForms calls found for every document of a store whose record names a form without a signature. It changes nothing. An
// error of found ends it.
func CheckForms(ctx context.Context, store *storage.Store, found func(FormFault) error) error {
	err := store.Records(0, func(entry storage.Entry) error {
		if err := ctx.Err(); err != nil || !record.IsDocument(entry.State) {
			return err
		}
		h, err := record.DecodeHead(entry)
		if err != nil {
			return err
		}
		_, err = store.Part(entry.Code, h.Form)
		if !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		f := FormFault{Code: dte.Code(entry.Code).String(), Control: h.ControlNumber, Form: h.Form}
		parts, err := store.Parts(entry.Code)
		if err != nil {
			return err
		}
		for _, p := range record.FormsOf(parts) {
			f.Signed = append(f.Signed, p.Name)
		}
		return found(f)
	})
	if err != nil {
		return fmt.Errorf("checking the forms of documents: %w", err)
	}
	return nil
}

// Signed returns the JWS of a document in the form that was signed. If the record names another form, h gets the name of the
// signed form; nothing is stored.
func (r *Register) Signed(entry storage.Entry, h *record.Head) ([]byte, error) {
	jws, form, err := record.SignedForm(r.store, entry, h)
	if err == nil {
		h.Form = form
	}
	return jws, err
}

// mend writes a record anew as it stands, but for its head. Whoever changes the record meanwhile has read it, and mends it too.
// The caller holds no lock of the store.
func (r *Register) mend(entry storage.Entry, h *record.Head) error {
	r.log.Warn("the record of a document named a form that was never signed: mended", "code", dte.Code(entry.Code).String(), "form", h.Form)
	data, err := h.Encode()
	if err != nil {
		return err
	}
	now, err := r.store.Get(entry.Code)
	if err != nil || now.Revision != entry.Revision {
		return err
	}
	_, err = record.Move(context.Background(), r.store, entry.Code, entry.State, storage.Change{To: entry.State, Head: data, Due: now.Due})
	var conflict *storage.ConflictError
	if errors.As(err, &conflict) || errors.Is(err, storage.ErrReadOnly) || errors.Is(err, storage.ErrRestored) {
		return nil
	}
	return err
}
