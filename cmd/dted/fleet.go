package main

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dtegate/cmd/dted/config"
	"dtegate/cmd/version"
	"dtegate/engine"
	"dtegate/engine/audit"
	"dtegate/engine/dte"
	"dtegate/engine/fleet"
	"dtegate/engine/fleet/fleetproto"
	"dtegate/engine/fleet/ship"
	records "dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// joinChain makes the branch part of a chain. It makes the chain's agent, connects the gate with the agent's fence
// (whether this box still has the branch), and makes the shipper of the second copy. Without [fleet] it does nothing.
// It sends no request to the chain's store.
func joinChain(d *daemon, cfg *config.Config, in *config.Inputs, s *status, registry *prometheus.Registry) error {
	f := cfg.Fleet
	if f == nil {
		return nil
	}
	boxKey, made, err := f.MakeBox()
	if err != nil {
		return err
	}
	if made {
		d.log.Info("made the box's key of the chain", "file", f.Key, "fingerprint",
			fleetproto.Fingerprint(boxKey.Private.Public().(ed25519.PublicKey)))
	}
	d.fleet, err = fleet.New(fleet.Options{
		Store:    in.Store,
		Chain:    cfg.Chain(),
		Branch:   f.Branch,
		Group:    f.Group,
		Director: in.Directors,
		Box:      boxKey,
		Points:   cfg.ChainPoints(),
		Rules:    &centreRules{shelf: d.shelf, trail: d.trail, store: d.store, log: d.log, now: cfg.Now},
		State:    config.Keeper(f.State),
		Settings: f.Settings(),
		Describe: s.describe,
		Last:     d.store.LastNumbers,
		Poll:     time.Duration(f.Poll),
		Report:   time.Duration(f.Report),
		Logger:   d.log,
		Now:      time.Now,
	})
	if err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	fence := d.fleet.Fence()
	d.gate.Fence = fence
	registry.MustRegister(prometheus.CollectorFunc(d.fleet.Collect))
	if f.Ship == "" {
		return nil
	}
	shipper, err := ship.New(ship.Options{
		Store:  in.Store,
		Chain:  cfg.Chain(),
		Branch: f.Branch,
		Box:    boxKey,
		Folder: cfg.SecondCopy,
		Epoch:  func() int64 { return fence.Standing().Epoch },
		Cloned: func() {
			d.log.Error("another copy of this box ships under its name: nothing is numbered here any more")
			fence.Close()
		},
		Live: func() bool {
			second, _ := d.store.SecondCopy()
			return second.Live
		},
		Restart: d.store.CopyAfter,
		State:   config.Keeper(f.State + ".ship"),
		Logger:  d.log,
		Now:     time.Now,
		Sync:    f.Ship == "sync",
		Segment: d.store.CopySegment,
		Has:     d.store.HasCopied,
		Count:   d.store.CopyChanges,
	})
	if err != nil {
		return err
	}
	fence.Compare(shipper.Compared)
	d.shipper.Store(shipper)
	registry.MustRegister(prometheus.CollectorFunc(shipper.Collect))
	return nil
}

// describe fills in the members of the branch's status that the agent does not know.
func (s *status) describe(w *fleetproto.Status) {
	w.Started, w.Program, w.Name = s.started.UTC(), version.String(), s.cfg.StoreName()
	w.Ready = true
	if err := s.ready(); err != nil {
		w.Ready, w.NotReady = false, []string{err.Error()}
		if r := (*refusal.Error)(nil); errors.As(err, &r) && r.English != "" {
			w.NotReady[0] = r.English
		}
	}
	describeBacklog(w, s.box.engine.CountBacklog())
	w.Certificates = s.box.access.Certificates()
	if shipper := s.box.shipper.Load(); shipper != nil {
		w.Copy = shipper.Shipped()
	}
	if today, err := s.today(); err == nil {
		for _, h := range today.Hours {
			w.Today += int64(h.Normal + h.Contingency + h.Rejected)
			w.Refused += int64(h.Rejected)
		}
	}
}

// describeBacklog fills in what the branch owes MH, with the first legal deadline; zero: there is none. A document that
// MH refused counts while it can be corrected.
func describeBacklog(w *fleetproto.Status, owed *engine.Backlog) {
	w.Waiting.Oldest = owed.Oldest
	for _, queue := range []string{records.QueueSettle, records.QueueReport, records.QueueForward,
		records.QueueCorrect} {
		w.Waiting.Documents += int64(owed.Waiting[queue])
	}
	for _, at := range []time.Time{owed.EventDeadline, owed.DocumentDeadline, owed.CorrectionDeadline,
		owed.RefusedDeadline} {
		records.Earliest(&w.Waiting.Deadline, at)
	}
	if c := owed.Contingency; c != nil {
		w.Contingency = &fleetproto.Contingency{Since: c.Began, Cause: int(c.Cause), Deadline: w.Waiting.Deadline}
	}
}

// centreRules is the branch's rule store for the chain's agent. It checks a bundle of the centre as if a person pushed
// it. Before that, it computes the latest sales again if the bundle has the rule of a document.
type centreRules struct {
	shelf *rulestore.Store
	trail *audit.Trail
	store *storage.Store
	log   *slog.Logger
	now   func() time.Time
}

const (
	backtestDays      = 7
	backtestDocuments = 2000
	// A new rule may refuse one in backtestRefused past sales, because MH's own rules may become stricter.
	backtestRefused = 100
)

// Bundles implements fleet.Rules.
func (c *centreRules) Bundles() []fleet.Bundle {
	var list []fleet.Bundle
	for _, b := range c.shelf.List().Rules {
		f := fleet.Bundle{Digest: b.Digest, Name: b.Name, Version: b.Version, Kind: b.Kind, Document: b.Document,
			Schema: b.Schema, From: b.From, Where: fleet.Where(b.State), Ordered: fleet.Ordered(b.Who)}
		if b.Outcomes != nil {
			f.Outcomes = *b.Outcomes
		}
		switch {
		case f.Where == fleet.Live, f.Where == fleet.Coming, f.Where == fleet.Spare:
		case f.Where != fleet.Retired || b.Off == nil:
			f.Where = fleet.Unsound
		case b.Off.Way == "return":
			f.Reason, f.Off = b.Off.Reason, fleet.OffItself
		case fleet.Ordered(b.Off.Who):
			f.Reason, f.Off = b.Off.Reason, fleet.OffCentre
		default:
			f.Reason, f.Off = b.Off.Reason, fleet.OffOperator
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
	refused, changes, err := c.backtest(ctx, file)
	if err != nil {
		return fleet.Admission{}, err
	}
	if refused == "" && changes != "" && !o.AmountsChange {
		refused = changes + ": if that is meant, publish it with --amounts-change"
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
		made = fleet.Admission{Refused: a.Refused, Reason: cmp.Or(a.Error, changes)}
		if a.Already {
			return made, nil
		}
	}
	if made.Refused == "" {
		act.Outcome = audit.Done
	} else {
		act.Error = made.Refused + ": " + made.Reason
	}
	c.trail.Note(c.log, act)
	return made, nil
}

// StepBack implements fleet.Rules.
func (c *centreRules) StepBack(ctx context.Context, to fleet.Bundle, o fleet.Order) error {
	_, err := c.shelf.Rollback(ctx, targetOf(to), orderOf(o))
	return c.ordered("rules.rollback", to, o, err)
}

// Cancel implements fleet.Rules.
func (c *centreRules) Cancel(ctx context.Context, coming fleet.Bundle, o fleet.Order) error {
	_, err := c.shelf.Cancel(ctx, targetOf(coming), orderOf(o))
	return c.ordered("rules.cancel", coming, o, err)
}

func targetOf(b fleet.Bundle) rulestore.Target {
	return rulestore.Target{Name: b.Name, Schema: b.Schema, Version: b.Version}
}

func orderOf(o fleet.Order) rulestore.Order {
	return rulestore.Order{Who: o.Who, Reason: cmp.Or(o.Reason, "ordered by the chain")}
}

// ordered records the centre's order in the audit trail if err is nil, and returns err.
func (c *centreRules) ordered(what string, b fleet.Bundle, o fleet.Order, err error) error {
	if err == nil {
		c.trail.Note(c.log, audit.Act{Who: o.Who, From: "the chain", What: what, Target: b.Name + " " + b.Version,
			Detail: o.Reason, Outcome: audit.Done})
	}
	return err
}

// backtest computes the branch's latest sales of the bundle's generation again. It returns why the bundle is refused,
// or "", and how it changes the amounts of these sales, or "". Amounts may change only if the centre permits it: golden
// cases cannot reveal a wrong rate, because they were made with it.
func (c *centreRules) backtest(ctx context.Context, file []byte) (refused, changes string, err error) {
	b, err := bundle.Inspect(file)
	if err != nil || b.Manifest.Kind != "document" {
		return "", "", nil // Activate reports what is wrong with the bundle
	}
	generation, live := c.generation(&b.Manifest)
	if !live {
		return "", "", nil
	}
	now := c.now()
	results := make(map[string]int)
	example := ""
	seen := 0
	p := rulestore.DocumentPeriod{From: dte.Date(now.AddDate(0, 0, -backtestDays)), To: dte.Date(now)}
	totals, _, err := c.shelf.Backtest(ctx, file, p, rulestore.BacktestReport{
		MadeBy: func(r records.RuleRef) bool { return generation[r.Digest] },
		Differs: func(d *rulestore.Comparison) error {
			if results[d.Result]++; d.Result == rulestore.MadeOther && example == "" {
				x := d.Differences[0]
				example = fmt.Sprintf("%s %s → %s", x.Path, x.Old, x.New)
			}
			return nil
		},
		Progress: func(n int, _ string) error {
			if seen = n; n >= backtestDocuments {
				return records.ErrEnough
			}
			return nil
		}})
	switch {
	case errors.Is(err, records.ErrEnough):
	case err != nil:
		return "", "", fmt.Errorf("making the last sales again: %w", err)
	case totals != nil: // otherwise the bundle failed before any sale; Activate reports why
		seen = totals.Documents
	}
	if failed := results["failed"]; failed > 0 {
		return fmt.Sprintf("it fails at %d of the branch's last %d sales", failed, seen), "", nil
	}
	if n := results["refused"]; n*backtestRefused > seen {
		return fmt.Sprintf("it refuses %d of the branch's last %d sales", n, seen), "", nil
	}
	if n := results[rulestore.MadeOther]; n > 0 {
		changes = fmt.Sprintf("it changes the amounts of %d of the branch's last %d sales (%s)", n, seen, example)
	}
	return "", changes, nil
}

// generation returns the digests of the bundles of a bundle's generation in the branch, and whether one of them is in
// force. A layout may want facts that the sales of an earlier generation lack, such as a customer's distrito.
func (c *centreRules) generation(m *bundle.Manifest) (digests map[string]bool, live bool) {
	digests = make(map[string]bool)
	for _, b := range c.shelf.List().Rules {
		if b.Kind == m.Kind && b.Document == m.Document && b.Schema == m.Schema {
			digests[b.Digest] = true
			live = live || b.State == rulestore.Live
		}
	}
	return digests, live
}

var _ fleet.Rules = (*centreRules)(nil)
