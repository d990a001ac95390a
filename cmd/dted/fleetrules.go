package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"dtegate/engine/audit"
	"dtegate/engine/dte"
	"dtegate/engine/fleet"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// centreRules is the branch's shelf as the chain's agent meets it: what a person pushes goes the same way. Before a rule of
// documents is let in it makes the branch's own last sales again.
type centreRules struct {
	shelf *rulestore.Store
	trail *audit.Trail
	store *storage.Store
	log   *slog.Logger
	now   func() time.Time
}

// Limits of the back-test that stands before a rule of the centre.
const (
	backtestDays      = 7
	backtestDocuments = 2000
	// A rule may refuse one in so many of what was sold: MH's own rules become stricter.
	backtestRefused = 100
)

var errEnough = errors.New("enough documents")

// Bundles implements fleet.Rules.
func (c *centreRules) Bundles() []fleet.Bundle {
	var list []fleet.Bundle
	for _, b := range c.shelf.List().Rules {
		f := fleet.Bundle{Digest: b.Digest, Name: b.Name, Version: b.Version, Kind: b.Kind, Document: b.Document, Schema: b.Schema, From: b.From, Where: fleet.Where(b.State)}
		if b.Outcomes != nil {
			f.Outcomes = *b.Outcomes
		}
		switch f.Where {
		case fleet.Live, fleet.Coming, fleet.Spare:
		case fleet.Retired:
			if b.Off == nil {
				f.Where = fleet.Unsound
				break
			}
			f.Reason, f.Off = b.Off.Reason, fleet.OffOperator
			switch {
			case b.Off.Way == "return":
				f.Off = fleet.OffItself
			case fleet.Ordered(b.Off.Who):
				f.Off = fleet.OffCentre
			}
		default:
			f.Where = fleet.Unsound
		}
		list = append(list, f)
	}
	return list
}

// Admit implements fleet.Rules.
func (c *centreRules) Admit(ctx context.Context, file []byte, o fleet.Order) (fleet.Admission, error) {
	if c.store.Behind() != nil {
		return fleet.Admission{}, errors.New("the store is behind: it takes nothing before dtectl recover")
	}
	refused, err := c.backtest(ctx, file, o.AmountsChange)
	if err != nil {
		return fleet.Admission{}, err
	}
	made := fleet.Admission{Refused: "backtest", Reason: refused}
	act := audit.Act{Who: o.Who, From: "the chain", What: "rules.push", Detail: o.Reason, Outcome: audit.Refused}
	if b, err := bundle.Inspect(file); err == nil {
		act.Target = b.Manifest.Name + " " + b.Manifest.Version
	}
	if refused == "" {
		a, err := c.shelf.Activate(ctx, file, rulestore.Order{Who: o.Who, Reason: o.Reason, FewerCases: o.FewerCases})
		if err != nil {
			return fleet.Admission{}, err
		}
		made = fleet.Admission{Refused: a.Refused, Reason: a.Error}
		if a.Already {
			return made, nil
		}
	}
	if made.Refused == "" {
		act.Outcome = audit.Done
	} else {
		act.Error = made.Refused + ": " + made.Reason
	}
	c.record(act)
	return made, nil
}

// StepBack implements fleet.Rules.
func (c *centreRules) StepBack(ctx context.Context, to fleet.Bundle, o fleet.Order) error {
	_, err := c.shelf.Rollback(ctx, rulestore.Target{Name: to.Name, Schema: to.Schema, Version: to.Version}, rulestore.Order{Who: o.Who, Reason: cmp.Or(o.Reason, "ordered by the chain")})
	if err == nil {
		c.record(audit.Act{Who: o.Who, From: "the chain", What: "rules.rollback", Target: to.Name + " " + to.Version, Detail: o.Reason, Outcome: audit.Done})
	}
	return err
}

// Cancel implements fleet.Rules.
func (c *centreRules) Cancel(ctx context.Context, coming fleet.Bundle, o fleet.Order) error {
	_, err := c.shelf.Cancel(ctx, rulestore.Target{Name: coming.Name, Schema: coming.Schema, Version: coming.Version},
		rulestore.Order{Who: o.Who, Reason: cmp.Or(o.Reason, "ordered by the chain")})
	if err == nil {
		c.record(audit.Act{Who: o.Who, From: "the chain", What: "rules.cancel", Target: coming.Name + " " + coming.Version, Detail: o.Reason, Outcome: audit.Done})
	}
	return err
}

func (c *centreRules) record(act audit.Act) {
	if err := c.trail.Record(context.Background(), act); err != nil {
		c.log.Error("an act of the chain's centre is not in the trail", "error", err)
	}
}

// backtest makes the last sales of the branch again, where the rule is of the generation that they were made by. It returns
// why the rule is not let in. Amounts may differ only if the centre said so: a wrong rate has golden cases that agree with it.
func (c *centreRules) backtest(ctx context.Context, file []byte, amountsChange bool) (refused string, err error) {
	b, err := bundle.Inspect(file)
	if err != nil || b.Manifest.Kind != "document" || !c.sold(&b.Manifest) {
		return "", nil // Activate says what is wrong with it
	}
	today := c.now()
	results := make(map[string]int)
	example := ""
	seen := 0
	p := rulestore.DocumentPeriod{From: dte.Date(today.AddDate(0, 0, -backtestDays)), To: dte.Date(today)}
	totals, a, err := c.shelf.Backtest(ctx, file, p, rulestore.BacktestReport{
		Differs: func(d *rulestore.Comparison) error {
			if results[d.Result]++; d.Result == rulestore.MadeOther && example == "" {
				x := d.Differences[0]
				example = fmt.Sprintf("%s %s → %s", x.Path, x.Old, x.New)
			}
			return nil
		},
		Progress: func(n int, _ string) error {
			if seen = n; n >= backtestDocuments {
				return errEnough
			}
			return nil
		}})
	switch {
	case errors.Is(err, errEnough):
	case err != nil:
		return "", fmt.Errorf("making the last sales again: %w", err)
	case totals == nil: // it does not come so far; Activate says the same
		return "", nil
	default:
		_, seen = a, totals.Documents
	}
	if failed := results["failed"]; failed > 0 {
		return fmt.Sprintf("it fails at %d of the branch's last %d sales", failed, seen), nil
	}
	if n := results["refused"]; n*backtestRefused > seen {
		return fmt.Sprintf("it refuses %d of the branch's last %d sales", n, seen), nil
	}
	if n := results[rulestore.MadeOther]; n > 0 && !amountsChange {
		return fmt.Sprintf("it changes the amounts of %d of the branch's last %d sales (%s): if that is meant, publish it with --amounts-change", n, seen, example), nil
	}
	return "", nil
}

// sold tells that the branch's sales are made by a rule of this generation.
func (c *centreRules) sold(m *bundle.Manifest) bool {
	for _, b := range c.shelf.List().Rules {
		if b.Kind == m.Kind && b.Document == m.Document && b.Schema == m.Schema && b.State == string(fleet.Live) {
			return true
		}
	}
	return false
}

var _ fleet.Rules = (*centreRules)(nil)
