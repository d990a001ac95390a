package rulestore

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/engine/record"
	"dtegate/rules"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// storedDocument is a document of the store with the facts from which it was made.
type storedDocument struct {
	entry storage.Entry
	head  *record.Head
	facts dte.Value
	// document is one form: the correction that the head names, or else the normal form, or else the contingency form.
	document []byte
	deferred []byte // the contingency form of a document that has both forms; otherwise nil
	lost     error  // why the document cannot be computed again: the store has lost a piece of it
}

func (s *Store) readStored(entry storage.Entry, h *record.Head) (*storedDocument, error) {
	list, err := s.o.Store.Parts(entry.Code)
	if err != nil {
		return nil, fmt.Errorf("reading document %s: %w", dte.Code(entry.Code), err)
	}
	return assemble(entry, h, list), nil
}

func assemble(entry storage.Entry, h *record.Head, list []storage.Part) *storedDocument {
	parts := make(map[string][]byte, len(list))
	for _, p := range list {
		parts[p.Name] = p.Data
	}
	d := &storedDocument{entry: entry, head: h}
	normal, deferred := parts[record.FormNormal], parts[record.FormContingency]
	switch {
	case strings.HasPrefix(h.Form, record.FormCorrection):
		normal, deferred = parts[h.Form], nil
	case normal == nil:
		normal, deferred = deferred, nil
	}
	d.facts, d.lost = dte.ParseFacts(parts[h.FactsPart()])
	if d.lost == nil {
		d.document, d.lost = record.Payload(normal)
	}
	if d.lost == nil && deferred != nil {
		d.deferred, d.lost = record.Payload(deferred)
	}
	return d
}

// Results of a comparison.
const (
	MadeSame    = "identical"
	MadeOther   = "amounts" // numbers differ
	MadeLayout  = "layout"  // no number differs, other bytes differ
	MadeRefused = "refused" // the rule refuses the facts of a document that was issued
	MadeFailed  = "failed"  // the rule failed
	// MadeNothing: the document's bundle is not in the store or may not be used, or a piece of the document is lost.
	MadeNothing = "no bundle"
)

// Comparison compares a stored document with a rule's result for its facts.
type Comparison struct {
	Code        string         `json:"code"`
	Control     string         `json:"control"`
	Document    string         `json:"document"`
	Date        string         `json:"date"`
	Rule        record.RuleRef `json:"rule"` // the rule that computed the stored document
	Result      string         `json:"result"`
	Differences []Difference   `json:"differences,omitempty"`
	Error       string         `json:"error,omitempty"`
}

func (d *storedDocument) comparison(result string) *Comparison {
	return &Comparison{Code: dte.Code(d.entry.Code).String(), Control: d.head.ControlNumber, Document: d.head.Document,
		Date: d.head.Date, Rule: d.head.Rule, Result: result}
}

func (d *storedDocument) compare(ctx context.Context, r *Rule) (*Comparison, error) {
	if d.lost != nil {
		return d.unmade(fmt.Errorf("the store has lost a piece of it: %w", d.lost)), nil
	}
	c := d.comparison(MadeSame)
	made, faults, err := r.Remake(ctx, d.facts, schema.FillOptions{})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		c.Result, c.Error = MadeFailed, err.Error()
		return c, nil
	case len(faults) > 0:
		c.Result, c.Error = MadeRefused, faults[0].Error()
		return c, nil
	case bytes.Equal(made, d.document):
		return c, nil
	}
	was, err := dte.Parse(d.document)
	if err != nil {
		return nil, fmt.Errorf("reading document %s: %w", c.Code, err)
	}
	now, err := dte.Parse(made)
	if err != nil {
		return nil, fmt.Errorf("reading what was made of %s: %w", c.Code, err)
	}
	c.Result = MadeLayout
	if c.Differences = Differences(was, now); len(c.Differences) > 0 {
		c.Result = MadeOther
	}
	return c, nil
}

// DocumentPeriod is a period of documents, by fecEmi: yyyy-mm-dd, both inclusive.
type DocumentPeriod struct{ From, To string }

// Check returns an error that names the fault of a period, or nil.
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

// BacktestTotals counts what a candidate would have changed.
type BacktestTotals struct {
	Rule      record.RuleRef `json:"rule"`
	Documents int            `json:"documents"`
	// Results counts the documents by result: identical, amounts, layout, refused, failed, no bundle.
	Results map[string]int         `json:"results"`
	Fields  map[string]*FieldTotal `json:"fields"` // the amounts that differ, by path without the line's number
	Seconds float64                `json:"seconds"`
}

// FieldTotal sums an amount across all documents in which the amount differs.
type FieldTotal struct {
	Documents int    `json:"documents"` // documents in which the amount differs
	Amounts   int    `json:"amounts"`   // differing amounts; an amount of a line counts once for each line
	Old       string `json:"old"`       // sum of the differing amounts
	New       string `json:"new"`

	old, made dte.Amount
}

// BacktestReport has the callbacks of a backtest; an error of a callback ends the backtest. Differs gets each document
// that differs. Progress is called every thousand documents and every second, with the day of the current document. If
// MadeBy is not nil, only documents of the rules that it reports are computed again.
type BacktestReport struct {
	MadeBy   func(record.RuleRef) bool
	Differs  func(*Comparison) error
	Progress func(documents int, day string) error
}

var lineNumber = regexp.MustCompile(`\[\d+\]`)

// try takes a bundle through the steps of rules.Host.Admit, whatever its version, for a backtest or a shadow. If the
// bundle is refused, the rule is nil and the Activation says why.
func (s *Store) try(ctx context.Context, data []byte) (*Rule, *Activation, error) {
	a := &Activation{}
	r, err := s.admit(ctx, data, a, false, func(*bundle.Bundle) (string, error) { return "", nil })
	if err != nil {
		return nil, a, nil
	}
	m := r.Bundle.Manifest
	if m.Kind != "document" {
		a.Refused, a.Error = stepLayout, "a bundle of kind "+m.Kind+" computes nothing"
		return nil, a, nil
	}
	made, err := Compile(r, s.book.Load().Catalogues())
	return made, a, err
}

// Backtest computes a period's stored documents of the candidate's type again, with the candidate. Sales go first.
func (s *Store) Backtest(ctx context.Context, data []byte, p DocumentPeriod, report BacktestReport) (*BacktestTotals,
	*Activation, error) {
	candidate, a, err := s.try(ctx, data)
	if candidate == nil || err != nil {
		return nil, a, err
	}
	began := time.Now()
	t := &BacktestTotals{Rule: candidate.Ref, Results: make(map[string]int), Fields: make(map[string]*FieldTotal)}
	told := began
	err = s.eachDocument(ctx, p, candidate.Document, func(d *storedDocument) error {
		if report.MadeBy != nil && !report.MadeBy(d.head.Rule) {
			return nil
		}
		c, err := d.compare(ctx, candidate)
		if err != nil {
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

func (t *BacktestTotals) add(list []Difference) {
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
		was, _ := dte.ParseAmount(d.Old) // "" counts as 0
		now, _ := dte.ParseAmount(d.New)
		f.old, f.made = f.old+was, f.made+now
	}
}

// eachDocument calls fn with a period's documents of a type ("": of all types), by day and id, and lets sales go first.
func (s *Store) eachDocument(ctx context.Context, p DocumentPeriod, document string,
	fn func(*storedDocument) error) error {
	rest := s.GiveWay(6)
	var entries []storage.Entry // selected, and their parts not read yet
	var heads []*record.Head
	read := func() error {
		parts, err := s.o.Store.PartsOf(entries)
		if err != nil {
			return err
		}
		for i, entry := range entries {
			rest()
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := fn(assemble(entry, heads[i], parts[i])); err != nil {
				return err
			}
		}
		entries, heads = entries[:0], heads[:0]
		return nil
	}
	for d, err := range record.Between(ctx, s.o.Store, p.From, p.To) {
		if err != nil {
			return err
		}
		if document == "" || document == d.Head.Document {
			entries, heads = append(entries, d.Entry), append(heads, d.Head)
		}
		if len(entries) == 32 {
			if err := read(); err != nil {
				return err
			}
		}
	}
	return read()
}

// Background work is done in slices, and lets the tills go first while they sell.
const (
	paceSlice  = 2 * time.Millisecond   // processor time of a slice
	paceBusy   = 100 * time.Millisecond // how long after a sale the tills count as busy
	paceAtMost = 500 * time.Millisecond // longest rest, after one long piece of work such as a compilation
)

// pacer makes one goroutine's background work yield to the tills.
type pacer struct {
	store *Store
	times time.Duration // the rest lasts this many times as long as the work
	used  time.Duration // processor time when the slice began
	began time.Time     // clock time when the slice began; the clock is cheaper to read than the processor time
	sales int64         // Book.Picks when the method rest last looked
	seen  time.Time     // when rest last found more sales than before
}

// GiveWay returns a function that background work calls between two pieces of work. While the tills sell, it pauses the
// goroutine for a multiple (times) of the duration of the work: if times is 2, the work takes a third of one core. It
// measures the thread's processor time: on a busy box, the clock would include waiting.
func (s *Store) GiveWay(times int) (rest func()) {
	p := &pacer{store: s, times: time.Duration(times), used: rules.ThreadTime(), began: time.Now()}
	return p.rest
}

// rest is called between two pieces of work. It rests when a slice is over and the tills are busy.
func (p *pacer) rest() {
	if time.Since(p.began) < paceSlice {
		return
	}
	worked := time.Since(p.began)
	if ran := rules.ThreadTime() - p.used; 0 < ran && ran < worked {
		worked = ran // if ran is negative, the goroutine has moved to another thread
	}
	defer func() { p.began, p.used = time.Now(), rules.ThreadTime() }()
	book := p.store.book.Load()
	if book == nil {
		return // before Load there are no rules and no sales
	}
	if sales := book.Picks(); sales != p.sales {
		p.sales, p.seen = sales, time.Now()
	}
	if time.Since(p.seen) < paceBusy {
		time.Sleep(min(p.times*worked, paceAtMost))
	}
}
