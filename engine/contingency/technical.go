package contingency

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// MH wants a technical report (Informe Técnico) before the event of a contingency of more than three consecutive days
// (Normativa 2.0 p.31, 13.2.1.1). A person writes and sends it. The box warns in time, prepares the contents, and
// records the person's statement that MH has the report.

// reportNotice is how long the box warns before a technical report is needed.
const reportNotice = 24 * time.Hour

// ReportNote is the operator's statement that MH has the technical report of a contingency.
type ReportNote struct {
	At        time.Time `json:"at"`
	Reference string    `json:"reference"` // MH's or the operator's name for the report
}

// stretch is what MH counts as one contingency: periods with gaps shorter than the law's time for an event.
type stretch struct {
	began, ended time.Time // ended is zero while the contingency continues
	periods      []*Period // sorted by their beginning, at least one period
}

// needsReportFrom returns when the stretch becomes too long without a technical report.
func (s *stretch) needsReportFrom(l law) time.Time { return s.began.Add(l.report) }

func (s *stretch) tooLong(l law, now time.Time) bool {
	end := s.ended
	if end.IsZero() {
		end = now
	}
	return end.After(s.needsReportFrom(l))
}

func (s *stretch) reportNote() *ReportNote {
	for _, p := range s.periods {
		if p.Report != nil {
			return p.Report
		}
	}
	return nil
}

// stretches joins periods, sorted by their beginning, if the time between two periods is shorter than gap.
func stretches(periods []*Period, gap time.Duration) []*stretch {
	var list []*stretch
	for _, p := range periods {
		if n := len(list); n > 0 && p.Began.Sub(list[n-1].ended) < gap { // the zero end of an open period is long ago
			last := list[n-1]
			last.ended, last.periods = p.Ended, append(last.periods, p)
			continue
		}
		list = append(list, &stretch{p.Began, p.Ended, []*Period{p}})
	}
	return list
}

// waitingStretches returns, sorted by their beginning, the stretches that continue and the stretches with documents
// that wait for a sealed event. unreported has the codes of the periods with waiting documents.
func (c *Contingency) waitingStretches(unreported map[string]bool) ([]*stretch, error) {
	all, err := c.periods()
	if err != nil {
		return nil, err
	}
	known := make(map[string]bool, len(all))
	for _, p := range all {
		known[p.code.String()] = true
	}
	for code := range unreported { // a period that ended days ago is in no queue
		if known[code] {
			continue
		}
		p, err := c.periodOf(code)
		if err != nil {
			return nil, err
		}
		if p != nil {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *Period) int { return a.Began.Compare(b.Began) })
	return stretches(slices.DeleteFunc(all, func(p *Period) bool {
		return !unreported[p.Code()] && !p.Ended.IsZero() // MH has the period's event: no report is needed
	}), c.law().event), nil
}

// needingReport returns the oldest stretch that needs a technical report and lacks it. Otherwise it returns the last
// stretch that is too long or continues, or nil.
func needingReport(list []*stretch, law law, now time.Time) (current *stretch) {
	for _, s := range list {
		if s.tooLong(law, now) && s.reportNote() == nil {
			return s
		}
		if s.tooLong(law, now) || s.ended.IsZero() {
			current = s
		}
	}
	return current
}

// ReportCount counts the documents of one type that one point of sale issued in a contingency.
type ReportCount struct {
	Document      string `json:"document"` // CAT-002
	Establishment string `json:"establishment"`
	PointOfSale   string `json:"point_of_sale"`
	Documents     int    `json:"documents"`
	First         string `json:"first"` // control number
	Last          string `json:"last"`
}

// TechnicalReport is the contents of the technical report of a contingency, from the records.
type TechnicalReport struct {
	Needed     bool            `json:"needed"`      // the contingency exceeds the time allowed without a report
	NeededFrom time.Time       `json:"needed_from"` // when the need begins or began
	Began      time.Time       `json:"began"`
	Ended      time.Time       `json:"ended,omitzero"`     // zero while the contingency continues
	EventDue   time.Time       `json:"event_due,omitzero"` // when MH must have the event
	Periods    []*Period       `json:"periods"`            // by their beginning
	Issuer     json.RawMessage `json:"issuer"`             // emisor, as in documents
	Ambiente   string          `json:"ambiente"`           // CAT-001
	Who        record.Person   `json:"responsible"`        // the person who is responsible for the event
	Documents  []ReportCount   `json:"documents"`          // by type and point of sale
	Noted      *ReportNote     `json:"noted,omitempty"`    // MH has the report
}

// ErrNone means that there is no contingency to report on.
var ErrNone = &refusal.Error{Code: refusal.CodeNoContingency, Message: "No contingency is open or waits for its event",
	Operator: true}

// TechnicalReport returns the contents of the technical report of a contingency that continues or lacks a sealed event.
// Errors: CodeNoContingency if there is no contingency, or the store's.
func (c *Contingency) TechnicalReport(ctx context.Context) (*TechnicalReport, error) {
	s, err := c.reportable(ctx)
	if err != nil {
		return nil, err
	}
	law := c.law()
	report := &TechnicalReport{Needed: s.tooLong(law, c.branch.Now()), NeededFrom: s.needsReportFrom(law),
		Began: s.began, Ended: s.ended, Periods: s.periods, Issuer: c.branch.Issuer.Facts.Append(nil),
		Ambiente: c.branch.Issuer.Ambiente, Who: c.options.Responsible, Noted: s.reportNote()}
	if !s.ended.IsZero() {
		report.EventDue = s.ended.Add(law.event)
	}
	report.Documents, err = c.countPeriods(ctx, s)
	return report, err
}

// reportable returns the stretch that a technical report would describe.
func (c *Contingency) reportable(ctx context.Context) (*stretch, error) {
	waiting, err := c.waiting(ctx, record.QueueReport, record.Whenever, record.MaxCounted)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	unreported := make(map[string]bool)
	for _, o := range waiting {
		if o.head.Period != "" {
			unreported[o.head.Period] = true
		}
	}
	list, err := c.waitingStretches(unreported)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	if len(list) == 0 {
		return nil, ErrNone
	}
	if s := needingReport(list, c.law(), c.branch.Now()); s != nil {
		return s, nil
	}
	return list[0], nil // no stretch is long, and no stretch continues
}

func (c *Contingency) countPeriods(ctx context.Context, s *stretch) ([]ReportCount, error) {
	in := make(map[string]bool, len(s.periods))
	for _, p := range s.periods {
		in[p.code.String()] = true
	}
	var counts []ReportCount
	// Search all documents: their dates do not prove their period, because the clock may have been set.
	err := c.branch.Store.Records(0, func(entry storage.Entry) error {
		if err := ctx.Err(); err != nil || !record.IsDocument(entry.State) || !bytes.Contains(entry.Head,
			[]byte(`"period":`)) {
			return err
		}
		h, err := record.DecodeHead(entry)
		if err == nil && in[h.Period] {
			counts = countIn(counts, h)
		}
		return err
	})
	if err != nil {
		return nil, refusal.Internal(fmt.Errorf("counting the documents of a contingency: %w", err))
	}
	slices.SortFunc(counts, func(a, b ReportCount) int {
		return slices.Compare([]string{a.Document, a.Establishment, a.PointOfSale}, []string{b.Document,
			b.Establishment, b.PointOfSale})
	})
	return counts, nil
}

// countIn adds a document to the counts. Control numbers of a series have the same length: they compare as text.
func countIn(counts []ReportCount, h *record.Head) []ReportCount {
	establishment, point := record.EstablishmentOf(h, record.Point{})
	i := slices.IndexFunc(counts, func(c ReportCount) bool {
		return c.Document == h.Document && c.Establishment == establishment && c.PointOfSale == point
	})
	if i < 0 {
		i, counts = len(counts), append(counts, ReportCount{Document: h.Document, Establishment: establishment,
			PointOfSale: point, First: h.ControlNumber})
	}
	counts[i].Documents++
	counts[i].First, counts[i].Last = min(counts[i].First, h.ControlNumber), max(counts[i].Last, h.ControlNumber)
	return counts
}

// NoteTechnicalReport records that MH has the report of the contingency that TechnicalReport describes. reference has 1
// to 200 characters. Errors: CodeNoContingency, CodeValidation, or the store's.
func (c *Contingency) NoteTechnicalReport(ctx context.Context, reference string) error {
	if n := len([]rune(reference)); n < 1 || n > 200 {
		return refusal.OfOperator([]dte.Fault{{Path: "reference", Code: dte.FaultLength,
			Message: "must have 1 to 200 characters"}})
	}
	s, err := c.reportable(ctx)
	if err != nil {
		return err
	}
	note := &ReportNote{At: c.branch.Now().UTC().Truncate(time.Second), Reference: reference}
	p, err := c.noteReport(ctx, s.periods[len(s.periods)-1].code.String(), note)
	if err != nil {
		return refusal.Internal(err)
	}
	c.branch.Logger.Info("MH has the technical report", "reference", reference, "began", p.Began)
	c.work.Ring()
	return nil
}
