package contingency

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// Period is a contingency of the branch, in the form in which its record and /status have it.
type Period struct {
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended,omitzero"`
	Cause  int64     `json:"cause"`  // CAT-005
	Motive string    `json:"motive"` // of cause 5, MH's; of the others for people
	// Declared by the operator: only the operator ends it.
	Declared bool `json:"declared,omitempty"`
	// Resumed is how often trouble came back before the period was reported.
	Resumed int `json:"resumed,omitempty"`
	// Report is the operator's word that MH has the technical report of this contingency; nil: nobody has said so.
	Report *ReportNote `json:"technical_report,omitempty"`

	code dte.Code
}

// MotiveOnDocument returns the motive for the documents of the period: MH wants one with cause 5, and none with any other
// cause.
func (p *Period) MotiveOnDocument() string {
	if p.Cause == 5 {
		return p.Motive
	}
	return ""
}

// Code returns the code of the period's record. The heads of the period's documents have it as Period.
func (p *Period) Code() string { return p.code.String() }

func decodePeriod(entry storage.Entry) (*Period, error) {
	p := &Period{code: dte.Code(entry.Code)}
	if err := json.Unmarshal(entry.Head, p); err != nil {
		return nil, fmt.Errorf("decoding contingency period: %w", err)
	}
	return p, nil
}

// periods returns the open period and those of the last two days, by their beginning.
func (c *common) periods() ([]*Period, error) {
	entries, err := c.branch.Store.Due(record.QueuePeriod, record.Whenever, 10_000)
	if err != nil {
		return nil, fmt.Errorf("reading contingency periods: %w", err)
	}
	list := make([]*Period, len(entries))
	for i, entry := range entries {
		if list[i], err = decodePeriod(entry); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b *Period) int { return a.Began.Compare(b.Began) })
	return list, nil
}

func (c *common) periodOf(code string) (*Period, error) {
	id, err := dte.ParseCode(code)
	if err != nil {
		return nil, err
	}
	entry, err := c.branch.Store.Get(storage.Code(id))
	if err != nil {
		return nil, err
	}
	return decodePeriod(entry)
}

// extend returns the end of a cause that could not be reported in time because the next one began before: for MH it is one
// cause, which ended with the last.
func (e events) extend(ended time.Time) (time.Time, error) {
	now, most := e.branch.Now(), e.law().event
	if now.Sub(ended) < most-time.Hour {
		return ended, nil
	}
	periods, err := e.periods()
	for _, p := range periods {
		if !p.Ended.IsZero() && p.Ended.After(ended) && p.Began.Sub(ended) < most {
			ended = p.Ended
		}
	}
	return ended, err
}
