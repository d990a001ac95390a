package documents

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dtegate/engine/books"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/sign"
	"dtegate/storage"
)

// MonthReader reads the documents issued or invalidated in a month, for engine/books, a page at a time.
type MonthReader struct {
	store   *storage.Store
	records int   // the most records that a page reads
	bytes   int64 // a page ends once its documents have this many stored bytes
	signers []*rsa.PublicKey
}

// NewMonthReader returns a reader of a store. With signers, it verifies that one of them signed each document.
func NewMonthReader(store *storage.Store, signers ...*rsa.PublicKey) *MonthReader {
	return &MonthReader{store, 256, 1 << 18, signers}
}

// MonthPage is a page of documents, by day and then by id.
type MonthPage struct {
	Documents []books.Document `json:"documents"`
	Next      uint64           `json:"next"` // the value of after for the next page; 0 on the last page
	Done      uint64           `json:"done"` // days read, of Total days; for a progress bar
	Total     uint64           `json:"total"`
}

// IsMonth reports whether a text is a month like "2026-11".
func IsMonth(text string) bool {
	_, err := time.Parse("2006-01", text)
	return err == nil
}

// Page reads a page of a month ("2026-11"). after is 0 for the first page, then MonthPage.Next of the page before.
func (r *MonthReader) Page(month string, after uint64) (*MonthPage, error) {
	first, err := time.Parse("2006-01", month)
	if err != nil {
		return nil, fmt.Errorf("%q is not a month like 2026-11", month)
	}
	begin, last := record.Day(month+"-01"), record.Day(first.AddDate(0, 1, -1).Format(time.DateOnly))
	day, id := max(begin, begin-1+uint32(min(after>>idBits, 32))), after&(1<<idBits-1)
	p := &MonthPage{Documents: []books.Document{}, Total: uint64(last - begin + 1)}
	read, size := 0, int64(0)
	for ; day <= last; day, id = day+1, 0 {
		for d, err := range record.OfDay(context.Background(), r.store, day, id) {
			if read >= r.records || size >= r.bytes {
				p.Done, p.Next = uint64(day-begin), uint64(day-begin+1)<<idBits|id
				return p, nil
			}
			n := int64(0)
			if err == nil {
				n, err = r.take(p, d, month, day)
			}
			if err != nil {
				return nil, fmt.Errorf("reading the documents of %s: %w", month, err)
			}
			id, read, size = d.ID, read+1, size+n
		}
	}
	p.Done = p.Total
	return p, nil
}

// idBits is how many low bits of MonthPage.Next hold the last id. The higher bits hold the day of the month.
const idBits = 48

// ErrNotFound means that the store has no document with this code.
var ErrNotFound = storage.ErrNotFound

// Document reads one document of any month. Error: ErrNotFound.
func (r *MonthReader) Document(code dte.Code) (*books.Document, error) {
	entry, h, err := record.Read(r.store, storage.Code(code))
	if err != nil {
		return nil, fmt.Errorf("reading document %s: %w", code, err)
	}
	return r.documentOf(entry, h)
}

// take adds a document to the page if the month shows the document on the given day, and returns the document's size. A
// document is shown on its date; an invalidated document of another month, on the day of its invalidation.
func (r *MonthReader) take(p *MonthPage, doc record.Stored, month string, day uint32) (int64, error) {
	date := doc.Head.Date
	if !strings.HasPrefix(date, month) && doc.State == record.Invalidated {
		date = invalidatedOn(doc.Head)
	}
	if record.Day(date) != day {
		return 0, nil // the document was corrected on this day, or invalidated in its month of issue
	}
	d, err := r.documentOf(doc.Entry, doc.Head)
	if err != nil {
		return 0, err
	}
	p.Documents = append(p.Documents, *d)
	return doc.Head.Bytes, nil
}

func (r *MonthReader) documentOf(entry storage.Entry, h *record.Head) (*books.Document, error) {
	jws, err := record.SignedForm(r.store, entry.Code, h)
	var signed []byte // nil: lost
	if err == nil {
		signed, err = record.Payload(jws)
	}
	if err != nil && !errors.Is(err, record.ErrLost) {
		return nil, fmt.Errorf("reading document %s: %w", dte.Code(entry.Code), err)
	}
	d := &books.Document{Code: dte.Code(entry.Code).String(), ControlNumber: h.ControlNumber, Type: h.Document,
		State: record.Estado(entry.State), Seal: h.Seal(entry.State), Date: h.Date, Total: h.Total, Branch: h.BranchID,
		Deferred: h.Form != record.FormNormal, JSON: signed}
	madeBy := func(k *rsa.PublicKey) bool { return sign.Verify(k, jws) == nil }
	d.Unproven = signed != nil && len(r.signers) > 0 && !slices.ContainsFunc(r.signers, madeBy)
	if entry.State == record.Rejected {
		d.Refusal = record.RefusalText(h.Response)
	}
	if entry.State == record.Invalidated {
		d.Invalidated = invalidatedOn(h)
	}
	return d, nil
}

func invalidatedOn(h *record.Head) string {
	if h.Invalidation == nil {
		return h.Date
	}
	return dte.Date(h.Invalidation.At)
}
