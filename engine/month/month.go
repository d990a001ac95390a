// Package month reads what the accountant files of a month from a store: see engine/books, which makes files of it.
package month

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// Reader reads the documents of a month for the accountant: every document issued in it, and documents of earlier months that
// were invalidated in it. It reads a page at a time and keeps nothing between pages.
type Reader struct {
	store   *storage.Store
	records int   // that a page reads at most
	bytes   int64 // of documents that a page holds at most, as the store keeps them, or one document
}

// New returns a reader of a store.
func New(store *storage.Store) *Reader { return &Reader{store, 256, 1 << 18} }

// Document is a document as it stands, with the bytes that were signed.
type Document struct {
	Code          string `json:"codigoGeneracion"`
	ControlNumber string `json:"numeroControl"`
	Document      string `json:"tipoDte"`
	Estado        string `json:"estado"` // "" while it has no outcome
	Date          string `json:"fecEmi"`
	Total         string `json:"total"`
	Sello         string `json:"selloRecibido"`
	BranchID      int64  `json:"sucursal"`
	// Deferred: it was issued in contingency.
	Deferred bool `json:"contingencia,omitempty"`
	// Invalidated is the day of the event that took it back, El Salvador's, yyyy-mm-dd.
	Invalidated string `json:"invalidado,omitempty"`
	// Refusal is what MH said of a rejected document.
	Refusal string `json:"rechazo,omitempty"`
	// Payload is the second part of the JWS: base64url of the signed bytes.
	Payload string `json:"payload"`
}

// Page is some documents, by growing id.
type Page struct {
	Documents []Document `json:"documents"`
	Next      uint64     `json:"next"` // After of the next page; 0 when this is the last
	Done      uint64     `json:"done"` // records read of Total, for a progress bar
	Total     uint64     `json:"total"`
}

const (
	// monthsBack is how many months before its own a document may be to be invalidated in one: MF2 p. 11 gives three from the
	// seal, and what was issued in contingency is sealed days after its date.
	monthsBack = 4
	// unsizedBytes is what a document is taken for whose record does not say its size.
	unsizedBytes = 16 << 10
)

// Valid reports whether a text is a month like "2026-11".
func Valid(text string) bool {
	_, err := time.Parse("2006-01", text)
	return err == nil
}

// Page reads the documents of a month ("2026-11") above an id, 0 for the first page.
func (r *Reader) Page(month string, after uint64) (*Page, error) {
	first, err := time.Parse("2006-01", month)
	if err != nil {
		return nil, fmt.Errorf("%q is no month like 2026-11", month)
	}
	from, err := record.FirstID(r.store, first.AddDate(0, -monthsBack, 0).Format(time.DateOnly))
	if err != nil {
		return nil, fmt.Errorf("finding the documents of %s: %w", month, err)
	}
	end, err := record.LastID(r.store, first.AddDate(0, 1, 0).Format(time.DateOnly))
	if err != nil {
		return nil, fmt.Errorf("finding the end of %s: %w", month, err)
	}
	p := &Page{Documents: []Document{}, Total: end - min(from, end)}
	at, size := max(from, after), int64(0)
	for read := 0; at < end; {
		if read >= r.records || size >= r.bytes {
			p.Next, p.Done = at, at-from
			return p, nil
		}
		entries, err := r.store.Page(at, 64)
		if err != nil {
			return nil, fmt.Errorf("reading the documents of %s: %w", month, err)
		}
		if len(entries) == 0 {
			break
		}
		for _, e := range entries {
			if read >= r.records || size >= r.bytes {
				break
			}
			at = e.ID
			read++
			n, err := p.take(r.store, e, month)
			if err != nil {
				return nil, err
			}
			size += n
		}
	}
	p.Done = p.Total
	return p, nil
}

// ErrNotFound means that the store has no document with this code.
var ErrNotFound = storage.ErrNotFound

// Document reads one document, whatever its month. ErrNotFound.
func (r *Reader) Document(code dte.Code) (*Document, error) {
	entry, err := r.store.Get(storage.Code(code))
	if err == nil && !record.IsDocument(entry.State) {
		err = storage.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading document %s: %w", code, err)
	}
	h, err := record.DecodeHead(entry)
	if err != nil {
		return nil, err
	}
	return documentOf(r.store, entry, h)
}

// take adds a record to the page if it is of the month, and returns its size.
func (p *Page) take(store *storage.Store, entry storage.Entry, month string) (int64, error) {
	if !record.IsDocument(entry.State) || entry.State != record.Invalidated && !bytes.Contains(entry.Head, []byte(month)) {
		return 0, nil // the date is in the head: what lacks the month's text is of another
	}
	h, err := record.DecodeHead(entry)
	if err != nil {
		return 0, err
	}
	in := func(date string) bool { return strings.HasPrefix(date, month) }
	if !in(h.Date) && (entry.State != record.Invalidated || !in(invalidatedOn(h))) {
		return 0, nil
	}
	d, err := documentOf(store, entry, h)
	if err != nil {
		return 0, err
	}
	p.Documents = append(p.Documents, *d)
	if h.Bytes > 0 {
		return h.Bytes, nil
	}
	return unsizedBytes, nil
}

func documentOf(store *storage.Store, entry storage.Entry, h *record.Head) (*Document, error) {
	jws, _, err := record.SignedForm(store, entry, h)
	if err != nil {
		return nil, fmt.Errorf("reading document %s: %w", dte.Code(entry.Code), err)
	}
	_, rest, _ := bytes.Cut(jws, []byte("."))
	body, _, ok := bytes.Cut(rest, []byte("."))
	if !ok {
		return nil, fmt.Errorf("reading document %s: not a compact JWS", dte.Code(entry.Code))
	}
	d := &Document{Code: dte.Code(entry.Code).String(), ControlNumber: h.ControlNumber, Document: h.Document, Estado: record.Estado(entry.State), Date: h.Date,
		Total: h.Total, BranchID: h.BranchID, Deferred: h.Form != record.FormNormal, Payload: string(body)}
	if h.Response != nil {
		if entry.State == record.Rejected {
			d.Refusal = record.RefusalText(h.Response)
		} else {
			d.Sello = h.Response.SelloRecibido
		}
	}
	if entry.State == record.Invalidated {
		d.Invalidated = invalidatedOn(h)
	}
	return d, nil
}

// invalidatedOn is the day of El Salvador of the event that took a document back.
func invalidatedOn(h *record.Head) string {
	if h.Invalidation == nil {
		return h.Date
	}
	return dte.Date(h.Invalidation.At)
}
