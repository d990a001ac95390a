package engine

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"dtegate/engine/dte"
	"dtegate/storage"
)

// Info is what a bulk look-up shows of a document (SPEC 4.10).
type Info struct {
	Code, Sello, Estado, Tipo string
	Found                     bool
}

// Infos looks documents of the caller's branch up, in the order of the codes. Those that are being settled are waited
// for; one that stays unsettled counts as not found.
func (e *Engine) Infos(ctx context.Context, codes []dte.Code, c Caller) ([]Info, error) {
	infos := make([]Info, len(codes))
	for i, code := range codes {
		infos[i].Code = code.String()
		entry, err := e.store.Get(storage.Code(code))
		if err == nil && entry.State == Signed {
			entry, err = e.await(ctx, code)
		}
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("looking document %s up: %w", code, err)
		}
		estado, public := estados[entry.State]
		if !public {
			continue
		}
		h, err := decodeHead(entry)
		if err != nil {
			return nil, err
		}
		if h.BranchID != c.Point.BranchID {
			continue
		}
		infos[i].Found, infos[i].Estado, infos[i].Tipo = true, estado, kinds[h.Document].Tipo
		if h.Response != nil && estado != EstadoRejected {
			infos[i].Sello = h.Response.SelloRecibido
		}
	}
	return infos, nil
}

// Filter chooses documents of a branch. From and To are days of fecEmi (yyyy-mm-dd, inclusive, at most MaxDays); the
// other members, when empty, choose all.
type Filter struct {
	From, To  string
	PointID   int64
	Documents []string // types of CAT-002
	Estado    string
	// After is the id of the last document of the page before, 0 for the first page; Limit 1 to 500.
	After int64
	Limit int
}

// MaxDays is the longest time that one Filter may span.
const MaxDays = 31

// Line is a document in a list.
type Line struct {
	ID                                                              int64
	Tipo, Document, Code, ControlNumber, Estado, Total, Date, Sello string
	PointID                                                         int64
	CreatedAt                                                       time.Time
}

// Total is how many documents of a type are in a state, and what they add up to. Rejected documents have an amount
// too: nobody owes it.
type Total struct {
	Tipo, Estado string
	Count        int
	Amount       string // USD, two decimals
}

// Listing is one page of documents, by growing id, and the totals of all that the filter chooses.
type Listing struct {
	Lines  []Line
	Next   int64 // After of the next page; 0 when this is the last
	Totals []Total
}

// window is how far the ids of two days may be mixed: requests that read the clock before midnight get their ids after
// others that read it later.
const idWindow = 256

// List reads the documents that a filter chooses. Ids grow with time, so that it starts near the first of the day.
func (e *Engine) List(ctx context.Context, f Filter, c Caller) (*Listing, error) {
	start, err := firstID(e.store, f.From)
	if err != nil {
		return nil, fmt.Errorf("finding the first document of %s: %w", f.From, err)
	}
	l := &Listing{}
	type group struct{ document, estado string }
	sums := make(map[group]*Total)
	amounts := make(map[group]dte.Amount)
	late := 0 // documents in a row that are behind the filter's time
	err = e.store.Records(start, func(entry storage.Entry) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !isDocument(entry.State) {
			return nil
		}
		h, err := decodeHead(entry)
		if err != nil {
			return err
		}
		if h.Date > f.To {
			if late++; late > idWindow {
				return errEnough
			}
			return nil
		}
		late = 0
		estado, public := estados[entry.State]
		if !public || h.Date < f.From || h.BranchID != c.Point.BranchID || f.PointID != 0 && h.PointID != f.PointID ||
			f.Estado != "" && estado != f.Estado || !f.wants(h.Document) {
			return nil
		}
		g := group{h.Document, estado}
		if sums[g] == nil {
			sums[g] = &Total{Tipo: kinds[h.Document].Tipo, Estado: estado}
		}
		sums[g].Count++
		a, err := dte.ParseAmount(h.Total)
		if err != nil {
			return fmt.Errorf("total of record %d: %w", entry.ID, err)
		}
		amounts[g] += a
		switch {
		case int64(entry.ID) <= f.After:
		case len(l.Lines) < f.Limit:
			l.Lines = append(l.Lines, line(entry, h, estado))
		default:
			l.Next = l.Lines[len(l.Lines)-1].ID
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("listing documents: %w", err)
	}
	for g, t := range sums {
		t.Amount = amounts[g].Fixed2()
		l.Totals = append(l.Totals, *t)
	}
	sort.Slice(l.Totals, func(i, j int) bool {
		a, b := l.Totals[i], l.Totals[j]
		return a.Tipo < b.Tipo || a.Tipo == b.Tipo && a.Estado < b.Estado
	})
	return l, nil
}

var errEnough = errors.New("enough")

func (f *Filter) wants(document string) bool {
	for _, d := range f.Documents {
		if d == document {
			return true
		}
	}
	return len(f.Documents) == 0
}

func line(entry storage.Entry, h *head, estado string) Line {
	l := Line{ID: int64(entry.ID), Tipo: kinds[h.Document].Tipo, Document: h.Document, Code: dte.Code(entry.Code).String(),
		ControlNumber: h.ControlNumber, Estado: estado, Total: h.Total, Date: h.Date, PointID: h.PointID, CreatedAt: h.CreatedAt}
	if h.Response != nil && estado != EstadoRejected {
		l.Sello = h.Response.SelloRecibido
	}
	return l
}

// firstID returns an id behind which every document of a day, and of later ones, lies: binary search over ids.
func firstID(store *storage.Store, day string) (uint64, error) {
	var failed error
	at := func(after uint64) (date string) { // of the first document behind an id; "" when there is none
		err := store.Records(after, func(entry storage.Entry) error {
			if !isDocument(entry.State) {
				return nil
			}
			h, err := decodeHead(entry)
			if err == nil {
				date = h.Date
				err = errEnough
			}
			return err
		})
		if err != nil && !errors.Is(err, errEnough) {
			failed = err
		}
		return date
	}
	// Ids are below 2^48: a thousand documents a second for nine thousand years.
	n := sort.Search(1<<48, func(i int) bool {
		date := at(uint64(i))
		return date == "" || date >= day
	})
	return uint64(max(0, n-idWindow)), failed
}
