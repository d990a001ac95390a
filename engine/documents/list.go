package documents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// Info is the result of a bulk look-up for one document (SPEC 4.10).
type Info struct {
	Code, Sello, Estado, Tipo string
	Found                     bool
}

// Infos looks up documents of the caller's branch, in the order of the codes. It waits for documents that are being
// settled; a document that remains unsettled counts as not found.
func (r *Register) Infos(ctx context.Context, codes []dte.Code, c record.Caller) ([]Info, error) {
	infos := make([]Info, len(codes))
	for i, code := range codes {
		infos[i].Code = code.String()
		entry, err := r.Settled(ctx, code)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("looking document %s up: %w", code, err)
		}
		estado := record.Estado(entry.State)
		if estado == "" {
			continue
		}
		h, err := record.DecodeHead(entry)
		if err != nil {
			return nil, err
		}
		if h.BranchID != c.Point.BranchID || !c.Reads(h) {
			continue
		}
		infos[i].Found, infos[i].Estado, infos[i].Tipo = true, estado, record.TypeOf(h.Document).Name
		infos[i].Sello = h.Seal(entry.State)
	}
	return infos, nil
}

// Filter selects documents of a branch. From and To are days of fecEmi, inclusive. Other empty members select all.
type Filter struct {
	From, To  string
	PointID   int64
	Documents []string // types of CAT-002
	Estado    string
	// A document must match each of these values that is set. Key is an Idempotency-Key of the point of sale PointID
	// or, without PointID, of the caller's. A search for Key ignores From and To.
	ControlNumber, Receiver, Key string
	Amount                       *dte.Amount
	// After is the id of the previous page's last document, 0 for the first page. Limit is 1 to 500.
	After int64
	Limit int
}

// MaxDays is the largest number of days that one Filter may span.
const MaxDays = 31

// Line is a document in a list.
type Line struct {
	ID                                                              int64
	Tipo, Document, Code, ControlNumber, Estado, Total, Date, Sello string
	PointID                                                         int64
	CreatedAt                                                       time.Time
}

// Total is the number and amount of the documents of a type in a state. A rejected document's amount is not payable.
type Total struct {
	Tipo, Estado string
	Count        int
	Amount       string // USD, two decimals
}

// Listing is one page of documents, in the order of their ids, and the totals of all documents that the filter selects.
// A search by number, receiver, amount or key has no totals.
type Listing struct {
	Lines  []Line
	Next   int64 // the value of After for the next page; 0 on the last page
	Totals []Total
}

// List returns the page that a filter selects. Only a search by number or receiver reads records that are not on it.
func (r *Register) List(ctx context.Context, f Filter, c record.Caller) (*Listing, error) {
	days, err := f.days()
	if err != nil {
		return nil, err
	}
	match := func(g group) bool {
		estado := record.Estado(g.state)
		return estado != "" && g.branch == c.Point.BranchID && (f.PointID == 0 || g.point == f.PointID) &&
			(f.Estado == "" || estado == f.Estado) &&
			(len(f.Documents) == 0 || slices.Contains(f.Documents, g.document))
	}
	if f.Key != "" {
		return r.byKey(f, c, match)
	}
	l := &Listing{}
	q := query{days: days, match: match, amount: f.Amount, after: uint64(f.After), limit: f.Limit}
	if f.ControlNumber != "" || f.Receiver != "" { // the ledger lacks these values: read the records
		q.limit = searchChunk
	}
	for read := 0; ; {
		page, err := r.ledger.page(ctx, q)
		if err != nil {
			if ctx.Err() != nil {
				return nil, refusal.Unavailable(err, "Las sumas de esos días aún se están preparando")
			}
			return nil, fmt.Errorf("listing documents: %w", err)
		}
		entries, err := r.store.ByID(page.ids)
		if err != nil {
			return nil, fmt.Errorf("listing documents: %w", err)
		}
		r.ledger.read.Add(float64(len(entries)))
		full := false
		for i := 0; i < len(entries) && !full; i++ {
			h, err := record.DecodeHead(entries[i])
			if err != nil {
				return nil, err
			}
			q.after = entries[i].ID
			if match(groupOf(entries[i], h)) && f.finds(h) { // else it has just changed, or f excludes it
				l.Lines = append(l.Lines, line(entries[i], h, record.Estado(entries[i].State)))
				full = len(l.Lines) == f.Limit && i < len(entries)-1
			}
		}
		if read += len(entries); f.ControlNumber == "" && f.Receiver == "" && f.Amount == nil {
			l.Totals = publicTotals(page.totals)
		}
		if full || page.more && (len(l.Lines) == f.Limit || read >= searchMost) {
			l.Next = int64(q.after)
			return l, nil
		}
		if !page.more || len(entries) == 0 {
			return l, nil
		}
	}
}

// A search reads at most searchChunk records at once. After searchMost records the page ends, full or not.
const (
	searchChunk = 256
	searchMost  = 20_000
)

func (f *Filter) finds(h *record.Head) bool {
	if f.Amount != nil {
		if total, err := dte.ParseAmount(h.Total); err != nil || total != *f.Amount {
			return false
		}
	}
	return (f.ControlNumber == "" || h.ControlNumber == f.ControlNumber) && (f.Receiver == "" ||
		h.Receiver.Is(f.Receiver))
}

// byKey lists the document that was issued under an Idempotency-Key, if the filter selects the document.
func (r *Register) byKey(f Filter, c record.Caller, match func(group) bool) (*Listing, error) {
	point := cmp.Or(f.PointID, c.Point.ID)
	code, _, err := r.store.Lookup(record.IdempotencyKey(point, f.Key))
	if errors.Is(err, storage.ErrNotFound) {
		return &Listing{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking a key up: %w", err)
	}
	entry, err := r.store.Get(code)
	if err != nil {
		return nil, fmt.Errorf("looking a key up: %w", err)
	}
	l := &Listing{}
	h, err := record.DecodeHead(entry)
	if err == nil && record.IsDocument(entry.State) && match(groupOf(entry, h)) && f.finds(h) {
		l.Lines = []Line{line(entry, h, record.Estado(entry.State))}
	}
	return l, err
}

// publicTotals adds up groups that the API does not distinguish: by point of sale, and by states of one public name.
func publicTotals(groups map[group]total) []Total {
	type public struct{ document, estado string }
	sums := make(map[public]total)
	for g, t := range groups {
		name := public{g.document, record.Estado(g.state)}
		sum := sums[name]
		sum.count += t.count
		sum.amount.Merge(t.amount)
		sums[name] = sum
	}
	list := make([]Total, 0, len(sums))
	for name, t := range sums {
		list = append(list, Total{Tipo: record.TypeOf(name.document).Name, Estado: name.estado, Count: t.count,
			Amount: t.amount.Fixed2()})
	}
	slices.SortFunc(list, func(a, b Total) int {
		return cmp.Or(strings.Compare(a.Tipo, b.Tipo), strings.Compare(a.Estado, b.Estado))
	})
	return list
}

func (f *Filter) days() ([]string, error) {
	from, err := time.Parse(time.DateOnly, f.From)
	to, bad := time.Parse(time.DateOnly, f.To)
	if err = cmp.Or(err, bad); err != nil {
		return nil, fmt.Errorf("listing documents: %w", err)
	}
	var days []string
	for at := from; !at.After(to) && len(days) < MaxDays; at = at.AddDate(0, 0, 1) {
		days = append(days, at.Format(time.DateOnly))
	}
	return days, nil
}

func line(entry storage.Entry, h *record.Head, estado string) Line {
	return Line{ID: int64(entry.ID), Tipo: record.TypeOf(h.Document).Name, Document: h.Document,
		Code: dte.Code(entry.Code).String(), ControlNumber: h.ControlNumber, Estado: estado, Total: h.Total,
		Date: h.Date, Sello: h.Seal(entry.State), PointID: h.PointID, CreatedAt: h.CreatedAt}
}

// Late is a result that came after the answer to the till: of a document issued in contingency or settled after a
// crash, or of an invalidation. If MH refuses an invalidation, the document is still PROCESSED.
type Late struct {
	Cursor uint64 // grows; pass the last cursor to the next call of Changes
	Info
	ControlNumber string
	PointID       int64
	Text          string // MH's words on a refusal
}

// ErrCursor means that this store announced no such result: another box announced it, or this box before a restoration.
var ErrCursor = storage.ErrCursor

const maxChanges = 500

// Changes returns the late results of the caller's branch after a cursor, each once and in order, and the next cursor.
// If there is none yet, it waits for a result until ctx ends. Errors: ErrCursor, or the store's.
func (r *Register) Changes(ctx context.Context, after uint64, c record.Caller) ([]Late, uint64, error) {
	for {
		rung := r.store.Announced()
		list, err := r.store.Changes(after, maxChanges)
		if err != nil {
			return nil, after, fmt.Errorf("reading late results: %w", err)
		}
		var late []Late
		for _, a := range list {
			after = a.Sequence
			entry, err := r.store.Get(a.Code)
			if err != nil {
				return nil, after, fmt.Errorf("reading a late result: %w", err)
			}
			h, err := record.DecodeHead(entry)
			if err != nil {
				return nil, after, err
			}
			if h.BranchID != c.Point.BranchID || !c.Reads(h) {
				continue
			}
			l := Late{Cursor: a.Sequence, ControlNumber: h.ControlNumber, PointID: h.PointID,
				Info: Info{Code: dte.Code(a.Code).String(), Estado: record.Estado(a.State),
					Tipo: record.TypeOf(h.Document).Name, Sello: h.Seal(a.State), Found: true}}
			if a.State == record.Rejected {
				l.Text = record.RefusalText(h.Response)
			}
			late = append(late, l)
		}
		if len(late) > 0 {
			return late, after, nil
		}
		if len(list) > 0 {
			continue // no result is for this caller
		}
		select {
		case <-ctx.Done():
			return nil, after, nil
		case <-rung:
		}
	}
}
