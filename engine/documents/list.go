package documents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/seller"
	"dtegate/engine/totals"
	"dtegate/storage"
)

// Info is what a bulk look-up shows of a document (SPEC 4.10).
type Info struct {
	Code, Sello, Estado, Tipo string
	Found                     bool
}

// Infos looks up documents of the caller's branch, in the order of the codes. It waits for documents that are being
// settled; a document that remains unsettled counts as not found.
func (r *Register) Infos(ctx context.Context, codes []dte.Code, c seller.Caller) ([]Info, error) {
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
		if h.Response != nil && estado != record.EstadoRejected {
			infos[i].Sello = h.Response.SelloRecibido
		}
	}
	return infos, nil
}

// Filter selects documents of a branch. From and To are days of fecEmi (yyyy-mm-dd, inclusive, at most MaxDays).
// PointID, Documents and Estado, if empty, select all.
type Filter struct {
	From, To  string
	PointID   int64
	Documents []string // types of CAT-002
	Estado    string
	// What a search compares; empty selects all. Key is an Idempotency-Key of the point of sale PointID, or of the
	// caller's: its document is found on whatever day it was issued.
	ControlNumber, Receiver, Key string
	Amount                       *dte.Amount
	// After is the id of the last document of the page before, 0 for the first page; Limit 1 to 500.
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

// Total is the number of documents of a type in a state, and the sum of their amounts. Rejected documents have an
// amount too, but nobody owes it.
type Total struct {
	Tipo, Estado string
	Count        int
	Amount       string // USD, two decimals
}

// Listing is one page of documents, in the order of their ids, and the totals of all documents that the filter selects.
type Listing struct {
	Lines  []Line
	Next   int64 // After of the next page; 0 when this is the last
	Totals []Total
}

// List returns a page of the documents that a filter selects. It reads only the records of the page: the ledger knows
// which these are, and has the totals.
func (r *Register) List(ctx context.Context, f Filter, c seller.Caller) (*Listing, error) {
	days, err := f.days()
	if err != nil {
		return nil, err
	}
	match := func(g totals.Group) bool {
		estado := record.Estado(g.State)
		return estado != "" && g.BranchID == c.Point.BranchID && (f.PointID == 0 || g.PointID == f.PointID) &&
			(f.Estado == "" || estado == f.Estado) && f.includesType(g.Document)
	}
	if f.Key != "" {
		return r.byKey(f, c, match)
	}
	l := &Listing{}
	q := totals.Query{Days: days, Match: match, Amount: f.Amount, After: uint64(f.After), Limit: f.Limit}
	if f.ControlNumber != "" || f.Receiver != "" { // the ledger knows neither: the records are read
		q.Limit = searchChunk
	}
	for read := 0; ; {
		page, err := r.ledger.Page(ctx, q)
		if err != nil {
			if ctx.Err() != nil {
				return nil, refusal.Unavailable(err, "Las sumas de esos días aún se están preparando")
			}
			return nil, fmt.Errorf("listing documents: %w", err)
		}
		entries, err := r.store.ByID(page.IDs)
		if err != nil {
			return nil, fmt.Errorf("listing documents: %w", err)
		}
		r.ledger.Shown(len(entries))
		full := false
		for i := 0; i < len(entries) && !full; i++ {
			h, err := record.DecodeHead(entries[i])
			if err != nil {
				return nil, err
			}
			q.After = entries[i].ID
			if match(groupOf(entries[i], h)) && f.finds(h) { // else it changed just now, or it is another's
				l.Lines = append(l.Lines, line(entries[i], h, record.Estado(entries[i].State)))
				full = len(l.Lines) == f.Limit && i < len(entries)-1
			}
		}
		if read += len(entries); !f.searches() {
			l.Totals = publicTotals(page.Totals)
		}
		if full || page.More && (len(l.Lines) == f.Limit || read >= searchMost) {
			l.Next = int64(q.After)
			return l, nil
		}
		if !page.More || len(entries) == 0 {
			return l, nil
		}
	}
}

// A search reads so many records at once, and so many at most for one page: then the page ends, full or not.
const (
	searchChunk = 256
	searchMost  = 20_000
)

func (f *Filter) searches() bool {
	return f.ControlNumber != "" || f.Receiver != "" || f.Key != "" || f.Amount != nil
}

// finds reports whether a document is one that the filter searches for.
func (f *Filter) finds(h *record.Head) bool {
	if f.Amount != nil {
		if total, err := dte.ParseAmount(h.Total); err != nil || total != *f.Amount {
			return false
		}
	}
	return (f.ControlNumber == "" || h.ControlNumber == f.ControlNumber) && (f.Receiver == "" ||
		h.Receiver.Is(f.Receiver))
}

// byKey lists the document that an Idempotency-Key made, if the filter selects it.
func (r *Register) byKey(f Filter, c seller.Caller, match func(totals.Group) bool) (*Listing, error) {
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

// publicTotals adds up the groups that the API shows as one: of all points of sale, and of states with one public name.
func publicTotals(groups map[totals.Group]totals.Total) []Total {
	type public struct{ document, estado string }
	sums := make(map[public]totals.Total)
	for g, t := range groups {
		name := public{g.Document, record.Estado(g.State)}
		sum := sums[name]
		sum.Count += t.Count
		sum.Amount.Merge(t.Amount)
		sums[name] = sum
	}
	list := make([]Total, 0, len(sums))
	for name, t := range sums {
		list = append(list, Total{Tipo: record.TypeOf(name.document).Name, Estado: name.estado, Count: t.Count,
			Amount: t.Amount.Fixed2()})
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		return a.Tipo < b.Tipo || a.Tipo == b.Tipo && a.Estado < b.Estado
	})
	return list
}

// newLedger returns the ledger of a store's documents.
func newLedger(store *storage.Store, rest func() func()) *totals.Ledger {
	return totals.New(totals.Options{Store: store, Day: record.Day,
		Read: func(entry storage.Entry) (totals.Row, bool, error) {
			if !record.IsDocument(entry.State) {
				return totals.Row{}, false, nil
			}
			h, err := record.DecodeHead(entry)
			if err != nil {
				return totals.Row{}, false, err
			}
			amount, err := dte.ParseAmount(h.Total)
			if err != nil {
				return totals.Row{}, false, fmt.Errorf("total of record %d: %w", entry.ID, err)
			}
			return totals.Row{Day: h.Date, Group: groupOf(entry, h), Amount: amount}, true, nil
		},
		Rest: rest})
}

func groupOf(entry storage.Entry, h *record.Head) totals.Group {
	return totals.Group{BranchID: h.BranchID, PointID: h.PointID, Document: h.Document, State: entry.State}
}

// days are the days of a filter, in order.
func (f *Filter) days() ([]string, error) {
	from, err := time.Parse(time.DateOnly, f.From)
	if err != nil {
		return nil, fmt.Errorf("listing documents: %w", err)
	}
	to, err := time.Parse(time.DateOnly, f.To)
	if err != nil {
		return nil, fmt.Errorf("listing documents: %w", err)
	}
	var days []string
	for at := from; !at.After(to) && len(days) < MaxDays; at = at.AddDate(0, 0, 1) {
		days = append(days, at.Format(time.DateOnly))
	}
	return days, nil
}

func (f *Filter) includesType(document string) bool {
	for _, d := range f.Documents {
		if d == document {
			return true
		}
	}
	return len(f.Documents) == 0
}

func line(entry storage.Entry, h *record.Head, estado string) Line {
	l := Line{ID: int64(entry.ID), Tipo: record.TypeOf(h.Document).Name, Document: h.Document,
		Code:          dte.Code(entry.Code).String(),
		ControlNumber: h.ControlNumber, Estado: estado, Total: h.Total, Date: h.Date, PointID: h.PointID,
		CreatedAt: h.CreatedAt}
	if h.Response != nil && estado != record.EstadoRejected {
		l.Sello = h.Response.SelloRecibido
	}
	return l
}
