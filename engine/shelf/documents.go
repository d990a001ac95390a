package shelf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// Made selects documents by the bundle that computed them.
type Made struct {
	// Rule is the bundle's version, or the first 8 digits or more of its digest.
	Rule string
	// Name is the rule's name, "" for all: rules of several documents may share a version.
	Name string
	// From and To are days of fecEmi (yyyy-mm-dd, inclusive); "" is the first day, or the last.
	From, To string
	// After is the id at which the page before ended, 0 for the first page; Limit is 1 to 5000 documents.
	After uint64
	Limit int
}

// MadeDocument is a document and the bundle that computed it.
type MadeDocument struct {
	ID       uint64         `json:"id"`
	Code     string         `json:"codigoGeneracion"`
	Control  string         `json:"numeroControl"`
	Document string         `json:"tipoDte"`
	Date     string         `json:"fecEmi"`
	Estado   string         `json:"estado"` // "": it has no outcome yet
	Total    string         `json:"total"`
	Sello    string         `json:"selloRecibido"`
	BranchID int64          `json:"sucursal"`
	PointID  int64          `json:"puntoVenta"`
	Origin   string         `json:"documentoRelacionado"` // of a note or a return
	Rule     record.RuleRef `json:"rule"`
}

// MadePage is a page of documents, in the order of their ids.
type MadePage struct {
	Documents []MadeDocument `json:"documents"`
	// Next is After of the next page, 0 when this is the last. A page may be empty and not be the last: it ends after pageLook records.
	Next uint64 `json:"next"`
	// Looked is how many records were looked at, Of the id of the store's last one: what is left of the work is Of - Next.
	Looked int    `json:"looked"`
	Of     uint64 `json:"of"`
}

// pageLook is how many records a page looks at: a second's work, however few of them a bundle computed.
const pageLook = 100_000

// digestLeast is how many digits of a digest name a bundle.
const digestLeast = 8

// Check returns an error that names what is wrong with a selection, nil for nothing.
func (m *Made) Check() error {
	for name, day := range map[string]string{"from": m.From, "to": m.To} {
		if _, err := time.Parse(time.DateOnly, day); day != "" && err != nil {
			return fmt.Errorf("%s: %q is not a day (yyyy-mm-dd)", name, day)
		}
	}
	switch {
	case m.To != "" && m.To < m.From:
		return fmt.Errorf("to: %s is before %s", m.To, m.From)
	case !strings.Contains(m.Rule, ".") && (len(m.Rule) < digestLeast || strings.Trim(m.Rule, "0123456789abcdef") != ""):
		return fmt.Errorf("rule: %q is neither a version (2.1.0) nor the first %d digits or more of a digest", m.Rule, digestLeast)
	case m.Limit < 1 || m.Limit > 5000:
		return fmt.Errorf("limit: %d is not within 1 and 5000", m.Limit)
	}
	return nil
}

// computed reports whether a bundle is the one that is chosen.
func (m *Made) computed(r record.RuleRef) bool {
	if m.Name != "" && r.Name != m.Name {
		return false
	}
	return r.Version == m.Rule || !strings.Contains(m.Rule, ".") && strings.HasPrefix(r.Digest, m.Rule)
}

// Documents returns a page of the documents that a bundle computed. It reads every record of the days, and gives way to the
// tills. There is no index, because it would cost every sale a row, and this question is asked a few times a year.
func (s *recomputation) Documents(ctx context.Context, m Made) (*MadePage, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	page := &MadePage{Documents: []MadeDocument{}, Of: s.o.Store.LastID()}
	after, end, err := s.bounds(&m)
	if err != nil {
		return nil, err
	}
	named, rest := []byte(m.Rule), s.GiveWay(6)
	err = s.o.Store.Records(after, func(entry storage.Entry) error {
		if len(page.Documents) == m.Limit || page.Looked == pageLook || entry.ID > end {
			page.Next = after
			if entry.ID > end {
				page.Next = 0
			}
			return record.ErrEnough
		}
		after = entry.ID
		page.Looked++
		rest()
		if err := ctx.Err(); err != nil || !record.IsDocument(entry.State) || !bytes.Contains(entry.Head, named) {
			return err
		}
		h, err := record.DecodeHead(entry)
		if err != nil {
			return err
		}
		if m.computed(h.Rule) && h.Date >= m.From && (m.To == "" || h.Date <= m.To) {
			page.Documents = append(page.Documents, madeDocument(entry, h))
		}
		return nil
	})
	if err != nil && !errors.Is(err, record.ErrEnough) {
		return nil, fmt.Errorf("listing the documents of %s: %w", m.Rule, err)
	}
	return page, nil
}

// bounds are the ids between which the documents of a choice lie.
func (s *recomputation) bounds(m *Made) (after, end uint64, err error) {
	after, end = m.After, s.o.Store.LastID()
	if m.From != "" {
		first, err := record.FirstID(s.o.Store, m.From)
		if err != nil {
			return 0, 0, fmt.Errorf("finding the first document of %s: %w", m.From, err)
		}
		after = max(after, first)
	}
	if m.To != "" {
		last, err := time.Parse(time.DateOnly, m.To)
		if err != nil {
			return 0, 0, err
		}
		next := last.AddDate(0, 0, 1).Format(time.DateOnly)
		until, err := record.LastID(s.o.Store, next)
		if err != nil {
			return 0, 0, fmt.Errorf("finding the last document of %s: %w", m.To, err)
		}
		end = min(end, until)
	}
	return after, end, nil
}

func madeDocument(entry storage.Entry, h *record.Head) MadeDocument {
	d := MadeDocument{ID: entry.ID, Code: dte.Code(entry.Code).String(), Control: h.ControlNumber, Document: h.Document, Date: h.Date,
		Estado: record.Estado(entry.State), Total: h.Total, BranchID: h.BranchID, PointID: h.PointID, Origin: h.Origin, Rule: h.Rule}
	if h.Response != nil && d.Estado != record.EstadoRejected {
		d.Sello = h.Response.SelloRecibido
	}
	return d
}
