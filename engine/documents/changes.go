package documents

import (
	"context"
	"fmt"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/seller"
	"dtegate/storage"
)

// Late is a result that came after the till was answered: of a document that was issued in contingency or found after a
// crash, or of an invalidation. If MH refuses the invalidation, the document is still PROCESSED.
type Late struct {
	Cursor uint64 // grows; the reader's place
	Info
	ControlNumber string
	PointID       int64
	Text          string // MH's words on a refusal
}

// ErrCursor means that no result that was announced here has the cursor: it is of another box, or of this box before a
// restoration.
var ErrCursor = storage.ErrCursor

// maxChanges is the most changes of one answer.
const maxChanges = 500

// Changes returns the late results of the caller's branch after a cursor, in order, and the cursor for the next call.
// No result is missed and none comes twice, also after restarts. If there is no result, it waits for one until ctx
// ends. Errors: ErrCursor, or the store's.
func (r *Register) Changes(ctx context.Context, after uint64, c seller.Caller) ([]Late, uint64, error) {
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
					Tipo: record.TypeOf(h.Document).Name, Found: true}}
			if a.State == record.Rejected {
				l.Text = record.RefusalText(h.Response)
			} else if h.Response != nil {
				l.Sello = h.Response.SelloRecibido
			}
			late = append(late, l)
		}
		if len(late) > 0 {
			return late, after, nil
		}
		if len(list) > 0 {
			continue // all of another branch
		}
		select {
		case <-ctx.Done():
			return nil, after, nil
		case <-rung:
		}
	}
}
