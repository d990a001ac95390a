package rulestore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/recordmac"
	"dtegate/rules"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// Order is a person's order to change the rules, with the reason.
type Order struct {
	Who, Reason string
	// Dry runs every step except stepRecord, and changes nothing.
	Dry bool
	// FewerCases admits a bundle with fewer golden cases than the replaced bundle, and catalogues with which some rule
	// refuses one of its own golden cases.
	FewerCases bool
}

// Steps of an activation after those of rules.Host.Admit.
const (
	stepLines  = "lines"  // the module's fuel suffices for the golden cases with the most lines possible: see PeakFuel
	stepCases  = "cases"  // at least as many golden cases as the replaced bundle; for catalogues: see stillMade
	stepDates  = "dates"  // the bundle would be in force on some day
	stepLayout = "layout" // the bundle compiles together with the others, and accepts the issuer's own data
	stepRecord = "record" // the bundle and the decision, in one commit
)

// States of a bundle in this branch.
const (
	Live    = "live"    // in force today
	Coming  = "coming"  // in force from a later day
	Spare   = "spare"   // superseded; used again if a later version fails
	Retired = "retired" // taken off
)

// How a bundle came to this branch.
const (
	wayShipped = "shipped"
	wayPushed  = "pushed"
)

// Kinds of a StepBack.
const (
	wayRollback    = "rollback"
	wayReturn      = "return"
	wayReinstate   = "reinstate"   // an operator puts back a bundle that the branch had left by itself
	wayCancel      = "cancel"      // takes off a bundle that is not in force yet, or that brought its type: see Cancel
	wayAgain       = "again"       // a cancelled bundle was pushed again
	wayAcknowledge = "acknowledge" // somebody has seen the latest return; no bundle changes
)

// Activation is the result of Activate, Backtest or Shadow for a bundle.
type Activation struct {
	Rule    record.RuleRef `json:"rule"`
	State   string         `json:"state"` // live or coming; "" if the bundle was refused or only tried
	From    string         `json:"from,omitempty"`
	Already bool           `json:"already,omitempty"` // the bundle was live or coming before, and nothing changed
	Steps   []rules.Step   `json:"steps"`
	Refused string         `json:"refused,omitempty"` // the step that failed, or ""
	Error   string         `json:"error,omitempty"`
}

// step runs one step and notes it. It returns false if the step failed.
func (a *Activation) step(name string, run func() (string, error)) bool {
	step := rules.Step{Name: name}
	err := step.Run(run)
	if err != nil {
		a.Refused, a.Error = name, step.Error
	}
	a.Steps = append(a.Steps, step)
	return err == nil
}

// errAlready ends the admission of a bundle that is live or coming.
var errAlready = errors.New("it is here already")

// check returns the conditions of an admission. For a pushed bundle, the method admit replaces Floor.
func (s *Store) check() rules.Check {
	var run func(context.Context, *rules.Rule, []byte) error
	return rules.Check{Keys: s.o.Keys,
		Floor: func(b *bundle.Bundle) (string, error) { return s.floorFor(b), nil },
		Case: func(ctx context.Context, r *rules.Rule, golden []byte) error {
			if run == nil {
				c, err := s.cataloguesFor(ctx, &r.Bundle.Manifest)
				if err != nil {
					return err
				}
				run = Golden(c)
			}
			return run(ctx, r, golden)
		}}
}

// cataloguesFor returns the catalogues that a bundle is checked against. For a future bundle these are the catalogues
// of its first day, because a new law may bring new codes. For other bundles, and for a future bundle that ends on its
// first day (see forEarlier), these are the current catalogues.
func (s *Store) cataloguesFor(ctx context.Context, m *bundle.Manifest) (*dte.Catalogues, error) {
	w, day := m.Validity[s.o.Ambiente], s.today()
	if w.From > day && w.Until != w.From {
		day = w.From
	} else if b := s.book.Load(); b != nil && b.Catalogues() != nil {
		return b.Catalogues(), nil
	}
	on := s.computable() // a start, or a future bundle: find the catalogues among the stored bundles
	n := slices.IndexFunc(on, func(i *shelved) bool { return i.Kind == "catalogue" })
	if n < 0 {
		return nil, ErrNoCatalogue
	}
	i := cmp.Or(inForce(on, on[n], day), on[n])
	r, err := s.rule(ctx, i)
	if err != nil {
		return nil, err
	}
	return s.parseCatalogues(r)
}

// floorFor returns the version that a bundle must exceed; "": none, or the bundle replaces its own unusable record.
func (s *Store) floorFor(b *bundle.Bundle) string {
	if s.misplacedRecord(b.Digest) != nil {
		return ""
	}
	return s.floor(&b.Manifest)
}

// Activate takes a bundle through every step. The bundle is then live, or coming if its first day is in the future; an
// order with Dry changes nothing. The error is a failure of the branch; faults of the bundle are in the Activation.
func (s *Store) Activate(ctx context.Context, data []byte, o Order) (*Activation, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	a := &Activation{}
	r, err := s.admit(ctx, data, a, true, func(b *bundle.Bundle) (string, error) {
		if s.answerRepeated(a.Rule) != nil {
			return "", errAlready
		}
		return s.floorFor(b), nil
	})
	if errors.Is(err, errAlready) {
		return s.answerRepeated(a.Rule), nil
	}
	if err != nil {
		s.metrics.activations.WithLabelValues("refused").Inc()
		s.o.Logger.Warn("rule bundle refused", "rule", a.Rule.Name, "version", a.Rule.Version, "step", a.Refused,
			"error", a.Error, "who", o.Who)
		return a, nil
	}
	i := &shelved{Admitted: admitted(r, s.o.Ambiente, nil)}
	i.Way, i.Who, i.Reason = wayPushed, o.Who, o.Reason
	a.Rule, a.From = i.RuleRef, i.From
	on := append(s.computable(), i)
	var book *Book
	ok := (r.Module == nil || a.step(stepLines, func() (string, error) {
		peak, err := PeakFuel(ctx, r)
		return fmt.Sprintf("at most %d units", peak), err
	})) &&
		a.step(stepDates, func() (string, error) { return s.dates(r, i, on) }) &&
		(o.FewerCases || a.step(stepCases, func() (string, error) { return s.coveredBy(ctx, r, i, on) })) &&
		a.step(stepLayout, func() (detail string, err error) {
			book, detail, err = s.layout(ctx, r, i, on)
			return detail, err
		})
	if !ok || o.Dry {
		s.forget(i.Digest)
		if !ok {
			s.metrics.activations.WithLabelValues("refused").Inc()
		}
		return a, nil
	}
	i.Steps = a.Steps
	ok = a.step(stepRecord, func() (string, error) {
		if before := s.cancelled(i.Digest); before != nil {
			return "it had been cancelled", s.note(ctx, &StepBack{Way: wayAgain, To: before.RuleRef, Who: o.Who,
				Reason: o.Reason, At: s.o.Now().UTC()})
		}
		return "", s.keep(ctx, i.Admitted, r)
	})
	if !ok {
		s.forget(i.Digest)
		return a, fmt.Errorf("recording the rule: %s", a.Error)
	}
	// If we crash before this line, the next start reads the record; no document names the bundle yet.
	s.publish(book)
	a.State = s.stateOf(i)
	s.metrics.activations.WithLabelValues("activated").Inc()
	s.o.Logger.Info("rule bundle activated", "rule", i.Name, "version", i.Version, "digest", i.Digest, "from", i.From,
		"state", a.State, "who", o.Who, "reason", o.Reason)
	return a, nil
}

// coveredBy returns an error if a bundle has fewer golden cases than the bundle that it replaces: the bundle that would
// be in force on its first day, if both are of one generation. Catalogues have no cases: see stillMade.
func (s *Store) coveredBy(ctx context.Context, r *rules.Rule, i *shelved, on []*shelved) (string, error) {
	if i.Kind == "catalogue" {
		return s.stillMade(ctx, r, i, on)
	}
	before := inForce(s.computable(), i, max(i.From, s.today()))
	if before == nil || !before.sameGeneration(i) {
		return "it replaces no bundle", nil
	}
	b, err := s.openBundle(before)
	if err != nil {
		return "", err
	}
	return bundle.CompareCases(r.Bundle.Different(), b)
}

// cancelled returns the bundle with a digest if it was cancelled (see Cancel), otherwise nil.
func (s *Store) cancelled(digest string) *shelved {
	return s.find(func(i *shelved) bool { return i.Digest == digest && i.off != nil && i.off.Way == wayCancel })
}

// answerRepeated returns the result of a repeated push, or nil if the bundle is neither live nor coming.
func (s *Store) answerRepeated(ref record.RuleRef) *Activation {
	for _, i := range s.computable() {
		if state := s.stateOf(i); i.Digest == ref.Digest && (state == Live || state == Coming) {
			return &Activation{Rule: ref, State: state, From: i.From, Steps: i.Steps, Already: true}
		}
	}
	return nil
}

// admit takes a pushed bundle through the steps of rules.Host.Admit and notes them in a, with the bundle's name. For
// named and floor, see rules.Check.
func (s *Store) admit(ctx context.Context, data []byte, a *Activation, named bool,
	floor func(*bundle.Bundle) (string, error)) (*rules.Rule, error) {
	c := s.check()
	c.Interpreter, c.Pace, c.Named = s.o.Interpreter, s.GiveWay(2), named
	c.Floor = func(b *bundle.Bundle) (string, error) {
		a.Rule = record.RuleRef{Name: b.Manifest.Name, Version: b.Manifest.Version, Digest: b.Digest}
		return floor(b)
	}
	r, taken, err := s.o.Host.Admit(ctx, data, c)
	a.Steps = taken
	if err != nil {
		last := taken[len(taken)-1]
		a.Refused, a.Error = last.Name, last.Err.Error()
		return nil, err
	}
	return r, nil
}

func (s *Store) dates(r *rules.Rule, i *shelved, on []*shelved) (string, error) {
	if _, there := r.Bundle.Manifest.Validity[s.o.Ambiente]; !there {
		return "", fmt.Errorf("validity.%s: the manifest has no dates for this ambiente", s.o.Ambiente)
	}
	if at := s.find(func(o *shelved) bool { return o.Digest == i.Digest && o.off != nil }); at != nil &&
		at.off.Way != wayCancel {
		return "", fmt.Errorf("version: %s was taken off on %s: dtectl rules rollback puts it back", i.Version,
			dte.Date(at.off.At))
	}
	if s.knowsVersion(&r.Bundle.Manifest) && s.misplacedRecord(i.Digest) == nil && s.cancelled(i.Digest) == nil {
		return "", fmt.Errorf("version: %s was here before: a version names one bundle for ever", i.Version)
	}
	best := inForce(on, i, max(i.From, s.today()))
	if best != i {
		return "", fmt.Errorf("validity.%s.from: it would never be in force: %s %s begins on %s", s.o.Ambiente,
			best.Name, best.Version, best.From)
	}
	if i.Until != "" && i.Until < s.today() {
		return "", fmt.Errorf("validity.%s.until: it was over on %s", s.o.Ambiente, i.Until)
	}
	detail := "in force since " + i.From
	if i.From > s.today() {
		detail = "takes over on " + i.From
	}
	for _, o := range on {
		if o.ofGeneration(&r.Bundle.Manifest) && bundle.Compare(o.Version, i.Version) < 0 && o.From > s.today() &&
			inForce(on, o, o.From) == o {
			detail += fmt.Sprintf("; warning: the lower version %s takes over on %s: if it must not, cancel it, or "+
				"push a higher version for that day", o.Version, o.From)
		}
	}
	if i.Kind == "document" && i.Described == nil && record.TypeOf(i.Document).Document == "" {
		detail += fmt.Sprintf("; warning: no till can ask for a document of type %s: the bundle has no %s", i.Document,
			strings.Join(bundle.TypeParts, ", "))
	}
	if i.Kind == "document" && s.o.Open != nil && !s.o.Open(i.Document) {
		detail += fmt.Sprintf("; warning: this branch does not issue documents of type %s: [types] issue, or the "+
			"chain's settings, opens it from the next start on, and dtectl token grant lets a till ask for it",
			i.Document)
	}
	return detail, nil
}

// layout compiles the book that would go live with the bundle, and the books of future days on which bundles begin.
func (s *Store) layout(ctx context.Context, r *rules.Rule, i *shelved, on []*shelved) (*Book, string, error) {
	detail := fmt.Sprintf("%d bundles", len(wantedBundles(on, s.o.Now())))
	if i.Described != nil {
		changed, err := record.Successor(i.Described.Type)
		if err != nil {
			return nil, "", err
		}
		detail = strings.Join(append([]string{detail}, changed...), "; ")
	}
	s.mu.Lock()
	s.loaded[i.Digest] = r
	s.mu.Unlock()
	book, err := s.assemble(ctx, on, s.o.Now())
	var days []string
	for _, o := range on {
		if o.From > s.today() && !slices.Contains(days, o.From) && err == nil {
			day, _ := time.ParseInLocation(time.DateOnly, o.From, dte.Zone) // the dates were checked
			if _, err = s.assemble(ctx, on, day); err != nil {
				err = fmt.Errorf("on %s: %w", o.From, err)
			}
			days = append(days, o.From)
		}
	}
	if err == nil && s.o.Accept != nil {
		layouts := book.Layouts()
		if e := book.events[r]; e != nil {
			layouts = append(layouts, e.Filler)
		}
		err = s.o.Accept(layouts)
	}
	return book, detail, err
}

func (s *Store) forget(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.loaded, digest)
}

func admitted(r *rules.Rule, ambiente string, taken []rules.Step) Admitted {
	m := &r.Bundle.Manifest
	w := m.Validity[ambiente]
	return Admitted{RuleRef: record.RuleRef{Name: m.Name, Version: m.Version, Digest: r.Bundle.Digest}, Kind: m.Kind,
		Document: m.Document, Schema: m.Schema,
		From: w.From, Until: w.Until, Signers: r.Bundle.Signers, Steps: taken, Described: describe(r)}
}

// Described is a bundle's description of its type. Stored documents need Type; their printed versions need View.
type Described struct {
	Type *bundle.Type `json:"type"`
	View *bundle.View `json:"view"`
}

// describe returns a bundle's description of its type, or nil if the bundle has no description.
func describe(r *rules.Rule) *Described {
	t, err := bundle.ParseType(r.Bundle.Manifest.Document, r.Bundle.Parts)
	if t == nil || err != nil || r.Bundle.Manifest.Kind != "document" {
		return nil // Compile refuses a wrong description
	}
	return &Described{t, t.View}
}

// keep records a bundle's bytes and the decision in one commit. It stores the bytes that Pack writes, and first opens
// them as the next start will: a bundle that could not be opened again never goes live.
func (s *Store) keep(ctx context.Context, a Admitted, r *rules.Rule) error {
	packed, err := r.Bundle.Pack()
	if err != nil {
		return err
	}
	if _, err := bundle.Reopen(packed, a.Digest); err != nil {
		return fmt.Errorf("opening the bundle as the next start will: %w", err)
	}
	a.At = s.o.Now().UTC()
	i := s.misplacedRecord(a.Digest)
	if i != nil {
		err = s.rewrite(ctx, i, a, packed)
	} else {
		i = &shelved{Admitted: a}
		err = s.add(ctx, i, packed)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i.vouched, i.signedBy = VouchedByKeys, r.Bundle.Signers
	r.Forget()
	s.loaded[a.Digest] = r
	return nil
}

func (s *Store) add(ctx context.Context, i *shelved, packed []byte) error {
	code, err := CodeOf(i.Digest)
	if err != nil {
		return err
	}
	if i.entry, err = s.write(ctx, code, record.RuleAdmitted, i.Admitted, i.At, []storage.Part{{Name: PartBundle,
		Data: packed}}); err != nil {
		return err
	}
	i.word, i.entry.Head = s.o.Box.Check(i.entry.Head, placeOf(&i.entry)), nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = append(s.items, i)
	return nil
}

func (s *Store) write(ctx context.Context, code storage.Code, state storage.State, head any, at time.Time,
	parts []storage.Part) (storage.Entry, error) {
	b, err := encodeHead(head)
	if err != nil {
		return storage.Entry{}, err
	}
	a, err := s.o.Store.Begin(ctx, storage.Keys{Series: s.series()})
	if err != nil {
		return storage.Entry{}, err
	}
	defer a.Release()
	slot, err := a.Number()
	if err != nil {
		return storage.Entry{}, err
	}
	place := recordmac.Place{Series: s.series(), Number: slot.Number, Code: code, State: uint8(state)}
	return a.Append(storage.Draft{Code: code, State: state, Head: s.o.Box.Mark(b, place), Parts: parts,
		Due: &storage.Due{Queue: record.QueueRules, At: at}})
}

func encodeHead(head any) ([]byte, error) {
	b, err := json.Marshal(head)
	if err != nil {
		return nil, fmt.Errorf("encoding the record of a rule: %w", err)
	}
	return b, nil
}

// Refresh makes today's book. Yesterday's book has today's rules, but fills documents with yesterday's catalogues.
func (s *Store) Refresh(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	book, err := s.assembleSound(ctx)
	if err != nil {
		return err
	}
	s.publish(book)
	return nil
}
