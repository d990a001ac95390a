package shelf

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/rulebook"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// DocumentPeriod is a period of documents, by fecEmi: yyyy-mm-dd, both inclusive.
type DocumentPeriod struct{ From, To string }

// Check returns an error that names what is wrong with a period, nil for nothing.
func (p DocumentPeriod) Check() error {
	for name, day := range map[string]string{"from": p.From, "to": p.To} {
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			return fmt.Errorf("%s: %q is not a day (yyyy-mm-dd)", name, day)
		}
	}
	if p.To < p.From {
		return fmt.Errorf("to: %s is before %s", p.To, p.From)
	}
	return nil
}

// BacktestTotals is what a candidate would have changed.
type BacktestTotals struct {
	Rule      record.RuleRef `json:"rule"`
	Documents int            `json:"documents"`
	// Results counts them: identical, amounts, layout, refused, failed.
	Results map[string]int `json:"results"`
	// Fields are the amounts that differ, by path without the line's number.
	Fields  map[string]*FieldTotal `json:"fields"`
	Seconds float64                `json:"seconds"`
}

// FieldTotal is an amount over all documents in which it differs.
type FieldTotal struct {
	Documents int    `json:"documents"` // in which it differs
	Amounts   int    `json:"amounts"`   // that differ: of a line's, one for each line
	Old       string `json:"old"`       // their sum
	New       string `json:"new"`

	old, made dte.Amount
}

// BacktestReport has the callbacks of a backtest. Progress is called every thousand documents and every second, with the day of
// the current document. An error of either ends the backtest.
type BacktestReport struct {
	Differs  func(*Comparison) error
	Progress func(documents int, day string) error
}

var lineNumber = regexp.MustCompile(`\[\d+\]`)

// Try takes a bundle through the steps that ask nothing of its version, for a backtest or a shadow. A refusal is in the
// Activation, and the rule nil.
func (s *admission) try(ctx context.Context, data []byte) (*rulebook.Rule, *Activation, error) {
	c := s.check(s.o.Interpreter)
	c.Pace = s.GiveWay(2)
	a := &Activation{}
	c.Floor = func(b *bundle.Bundle) (string, error) {
		a.Rule = record.RuleRef{Name: b.Manifest.Name, Version: b.Manifest.Version, Digest: b.Digest}
		return "", nil
	}
	r, err := s.admit(ctx, data, a, c)
	if err != nil {
		return nil, a, nil
	}
	m := r.Bundle.Manifest
	if m.Kind != "document" {
		a.Refused, a.Error = stepLayout, "a bundle of kind "+m.Kind+" computes nothing"
		return nil, a, nil
	}
	made, err := rulebook.Compile(r, s.book.Load().Catalogues())
	return made, a, err
}

// Backtest computes the stored documents of a period again with a candidate, and reports what would differ. It uses one
// goroutine, which gives way to sales.
func (s *recomputation) Backtest(ctx context.Context, data []byte, p DocumentPeriod, report BacktestReport) (*BacktestTotals, *Activation, error) {
	candidate, a, err := s.try(ctx, data)
	if candidate == nil || err != nil {
		return nil, a, err
	}
	began := time.Now()
	t := &BacktestTotals{Rule: candidate.Ref, Results: make(map[string]int), Fields: make(map[string]*FieldTotal)}
	document := candidate.Document
	var buffer []byte
	told := began
	err = s.eachDocument(ctx, p, func(h *record.Head) bool { return h.Document == document }, func(d *storedDocument) error {
		var c *Comparison
		var err error
		if c, buffer, err = d.compare(ctx, candidate, buffer); err != nil {
			return err
		}
		t.Documents++
		t.Results[c.Result]++
		if t.Documents%1000 == 0 || time.Since(told) > time.Second {
			told = time.Now()
			if err := report.Progress(t.Documents, c.Date); err != nil {
				return err
			}
		}
		if c.Result == MadeSame {
			return nil
		}
		t.add(c.Differences)
		return report.Differs(c)
	})
	for _, f := range t.Fields {
		f.Old, f.New = f.old.String(), f.made.String()
	}
	t.Seconds = time.Since(began).Seconds()
	return t, a, err
}

func (t *BacktestTotals) add(list []rulebook.Difference) {
	counted := make(map[string]bool)
	for _, d := range list {
		name := lineNumber.ReplaceAllString(d.Path, "")
		f := t.Fields[name]
		if f == nil {
			f = &FieldTotal{}
			t.Fields[name] = f
		}
		f.Amounts++
		if !counted[name] {
			counted[name] = true
			f.Documents++
		}
		was, _ := dte.ParseAmount(d.Old) // "" is nothing
		now, _ := dte.ParseAmount(d.New)
		f.old, f.made = f.old+was, f.made+now
	}
}

// eachDocument reads the documents of a period that are wanted, in the order of their ids. Between two of them it gives way.
func (s *recomputation) eachDocument(ctx context.Context, p DocumentPeriod, wanted func(*record.Head) bool, fn func(*storedDocument) error) error {
	rest := s.GiveWay(6)
	var entries []storage.Entry // wanted, and not yet read
	var heads []*record.Head
	read := func() error {
		parts, err := s.o.Store.PartsOf(entries)
		if err != nil {
			return err
		}
		for i, entry := range entries {
			d, err := assemble(entry, heads[i], parts[i])
			if err != nil {
				return err
			}
			rest()
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := fn(d); err != nil {
				return err
			}
		}
		entries, heads = entries[:0], heads[:0]
		return nil
	}
	after := func(h *record.Head) bool { return h.Date > p.To }
	err := record.EachDocument(ctx, s.o.Store, p.From, after, func(entry storage.Entry, h *record.Head) error {
		if h.Date < p.From || !wanted(h) {
			return nil
		}
		entries, heads = append(entries, entry), append(heads, h)
		if len(entries) < 32 {
			return nil
		}
		return read()
	})
	if err != nil {
		return err
	}
	return read()
}
