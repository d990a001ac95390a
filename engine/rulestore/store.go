// Package rulestore has the rules of a branch. Store admits bundles (activation.go), decides which bundles are in force
// (inforce.go), goes back to earlier bundles (stepback.go, autorollback.go), uses a stored bundle only when a pinned
// key or the box vouches for it (vouch.go), and computes stored sales again with a candidate (backtest.go, shadow.go)
// or with their own rules (replay.go). Book is the rules in force, ready for use: a Rule takes the facts of a sale and
// returns the amounts and a filled document, or the faults of the sale (rulebook.go, evaluate.go, golden.go). Guard
// counts each bundle's failures and MH's refusals, and decides when the branch leaves a bundle by itself (guard.go).
package rulestore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/record"
	"dtegate/engine/recordmac"
	"dtegate/rules"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// PartBundle is the name of the part with a signed bundle.
const PartBundle = "bundle"

// Options of New. Every field without a default is required.
type Options struct {
	Store *storage.Store
	Host  *rules.Host
	// Interpreter runs the golden cases of pushed bundles first; nil if Host is an interpreter.
	Interpreter *rules.Host
	Keys        bundle.Keys
	// Box authenticates the records of the bundles that this box admits. These bundles stay usable when their keys are
	// no longer pinned. If Box is nil, only bundles of pinned keys are used.
	Box *recordmac.Key
	// Open reports whether the branch issues a type; nil: every type. Other types' bundles are admitted with a warning.
	Open     func(document string) bool
	Ambiente string // CAT-001
	// OnFailure decides, by the kind of failure, about a sale whose rule fails: Valid (default), Any or Refuse.
	OnFailure map[string]string
	// Points is how many points of sale the branch has, default 1. Returned, if set, gets each automatic return.
	Points   int
	Returned func(StepBack)
	// Accept may refuse the layouts of the book with a pushed bundle; nil accepts all.
	Accept func(Layouts) error
	Book   *Book // in force until Load; nil: none
	Logger *slog.Logger
	Now    func() time.Time
}

// Store has the rule bundles of a branch. It admits new bundles, gives the engine the bundles in force, and goes back
// to earlier bundles. Call Load first, then Run. A Store is safe for concurrent use.
type Store struct {
	o       Options
	book    atomic.Pointer[Book] // the rules in force
	guard   *Guard
	metrics *metrics
	shadows shadows

	changing sync.Mutex // held during a change of the rules; a change may take seconds

	mu         sync.RWMutex // guards the fields below
	items      []*shelved   // by the numbers of their records
	loaded     map[string]*rules.Rule
	catalogues map[string]*dte.Catalogues
	last       *StepBack // the latest automatic return; nil: none, or its bundle was reinstated
	notes      []string  // sentences about the records, for operators
}

// Admitted is the stored record of a bundle that passed every step.
type Admitted struct {
	record.RuleRef
	Kind     string       `json:"kind"`
	Document string       `json:"document"`
	Schema   int          `json:"schema,omitempty"`
	From     string       `json:"from"` // first day in this ambiente; Until is the last day, or ""
	Until    string       `json:"until,omitempty"`
	Signers  []string     `json:"signers"`
	Steps    []rules.Step `json:"steps"`
	Way      string       `json:"way"` // shipped or pushed
	Who      string       `json:"who"`
	Reason   string       `json:"reason,omitempty"`
	At       time.Time    `json:"at"`
	// Described describes the type. It is kept forever: documents are still shown and printed after the bundle is gone.
	Described *Described `json:"described,omitempty"`
	// Part names the part with the bytes of a bundle that was admitted again to repair its record; or "".
	Part string `json:"part,omitempty"`
}

// StepBack is the stored record of a step back, by an operator or by the branch itself.
type StepBack struct {
	Way    string           `json:"way"` // rollback, return, reinstate, cancel, again or acknowledge
	To     record.RuleRef   `json:"to"`
	Off    []record.RuleRef `json:"off"`
	Who    string           `json:"who"`
	Reason string           `json:"reason"`
	At     time.Time        `json:"at"`
	// Expired is the last day of the bundle To, if To goes live again although that day has passed.
	Expired string `json:"expired,omitempty"`
	// Acknowledged names who acknowledged the return to an older rule; nil: nobody has.
	Acknowledged *Acknowledgement `json:"acknowledged,omitempty"`

	word recordmac.Verdict // whether this box has written the record
}

// shelved is a stored bundle, in use or taken off.
type shelved struct {
	Admitted
	entry storage.Entry     // its record
	word  recordmac.Verdict // whether this box has written the record
	// who vouched for the bundle when it was last opened: VouchedByKeys or VouchedByBox; "": not opened yet
	vouched  string
	signedBy []string
	trouble  *Trouble  // nil: the bundle may be used
	off      *StepBack // nil: the bundle was not taken off
}

// rank orders bundles as Book.inForce does: by their first day, then by version.
func (i *shelved) rank(o *shelved) int {
	return cmp.Or(cmp.Compare(i.From, o.From), bundle.Compare(i.Version, o.Version))
}

func (i *shelved) sameDocument(o *shelved) bool { return i.Kind == o.Kind && i.Document == o.Document }

func (i *shelved) ofGeneration(m *bundle.Manifest) bool {
	return i.Kind == m.Kind && i.Document == m.Document && i.Schema == m.Schema
}

func (i *shelved) sameGeneration(o *shelved) bool { return i.sameDocument(o) && i.Schema == o.Schema }

// New returns an empty store.
func New(o Options) *Store {
	s := &Store{
		o:          o,
		metrics:    newMetrics(),
		loaded:     make(map[string]*rules.Rule),
		catalogues: make(map[string]*dte.Catalogues),
		guard:      newGuard(o.Points),
		shadows:    shadows{changed: fairqueue.NewBell()},
	}
	s.book.Store(o.Book)
	return s
}

// Book returns the rules in force.
func (s *Store) Book() *Book { return s.book.Load() }

func (s *Store) series() string { return s.o.Ambiente + "/reglas" }

func (s *Store) today() string { return dte.Date(s.o.Now()) }

// Load restores the bundles from their records, and adds the new shipped bundles; shipped maps file names to bundles. A
// shipped bundle is new if its version is unknown and above its floor (see the method floor), or if its own record is
// unusable. A faulty shipped bundle fails the first start; later starts log the fault and use the stored bundles. A
// faulty stored bundle is replaced by the newest bundle that opens and that pinned keys or the box vouch for.
func (s *Store) Load(ctx context.Context, shipped map[string][]byte) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.restore(); err != nil {
		return err
	}
	s.vet(ctx)
	first := len(s.items) == 0
	// The catalogues come first, because other bundles' golden cases need them.
	candidates, faults := s.candidates(shipped)
	for _, c := range candidates {
		if err := s.ship(ctx, c.data); err != nil {
			faults = append(faults, fmt.Errorf("rule bundle %s: %w", c.file, err))
		}
	}
	if err := errors.Join(faults...); err != nil {
		if first {
			return err
		}
		s.o.Logger.Error("shipped rule bundles are left out", "error", err)
	}
	s.learn()
	s.warm(ctx)
	book, err := s.assembleSound(ctx)
	if err != nil {
		return fmt.Errorf("loading the live rules: %w", err)
	}
	if first && book.Catalogues() == nil {
		return fmt.Errorf("loading the live rules: %w", ErrNoCatalogue)
	}
	for _, note := range s.notes {
		s.o.Logger.Warn("a note on the stored rules", "note", note)
	}
	s.publish(book)
	return s.recount()
}

// learn registers the types that the records describe. Authentic bundles in use come first, then authentic retired
// bundles whose type was issued, then records that are not authentic; each group in the order of the records.
func (s *Store) learn() {
	var on, off, other []*shelved
	for _, i := range s.items {
		switch {
		case i.Described == nil || i.Described.Type == nil:
		case !i.counts():
			other = append(other, i)
		case i.off == nil:
			on = append(on, i)
		case s.issued(i.Document):
			off = append(off, i)
		}
	}
	for n, i := range slices.Concat(on, off, other) {
		t := *i.Described.Type
		t.Document, t.View = i.Document, i.Described.View
		if before := record.TypeOf(i.Document); before.Document != "" {
			if n >= len(on) {
				continue
			}
			t.Form = before.Form
		}
		if err := record.Learn(&t); err != nil {
			s.notes = append(s.notes, fmt.Sprintf("the record of %s %s describes its type differently than before: %v",
				i.Name, i.Version, err))
		}
	}
}

// restore reads the records. An unreadable bundle becomes unusable; an unreadable step back becomes a note.
func (s *Store) restore() error {
	entries, err := s.o.Store.Due(record.QueueRules, record.Whenever, math.MaxInt)
	if err != nil {
		return fmt.Errorf("reading the records of rules: %w", err)
	}
	slices.SortFunc(entries, func(a, b storage.Entry) int { return cmp.Compare(a.Number, b.Number) })
	bad := make(map[*shelved]error)
	for _, entry := range entries {
		word := s.o.Box.Check(entry.Head, placeOf(&entry))
		switch entry.State {
		case record.RuleAdmitted:
			i := &shelved{entry: entry, word: word}
			err := json.Unmarshal(entry.Head, &i.Admitted)
			if err == nil {
				err = i.legible()
			}
			if err != nil {
				i.Admitted = Admitted{RuleRef: record.RuleRef{Name: fmt.Sprintf("(record %d)", entry.Number)}}
				bad[i] = fmt.Errorf("decoding the record of a rule: %w", err)
			} else if code, err := CodeOf(i.Digest); err != nil || code != entry.Code {
				bad[i] = fmt.Errorf("the record of a rule is not where its digest %q belongs", i.Digest)
			}
			i.entry.Head = nil // the head is decoded
			s.items = append(s.items, i)
		case record.RuleStepBack:
			b := &StepBack{word: word}
			if err := json.Unmarshal(entry.Head, b); err != nil {
				s.notes = append(s.notes, fmt.Sprintf("a step back (record %d) cannot be read and has no effect; "+
					"repeat it with dtectl rules rollback if it is still wanted", entry.Number))
				continue
			}
			s.apply(b)
		}
	}
	for i, err := range bad {
		s.refuse(i, err)
	}
	s.unmarkedStepBacks()
	return nil
}

// unmarkedStepBacks adds a note for each step back that has an effect but was not written by this box.
func (s *Store) unmarkedStepBacks() {
	var told []*StepBack
	for _, i := range s.items {
		if b := i.off; b != nil && b.word != recordmac.Own && !slices.Contains(told, b) {
			told = append(told, b)
			s.notes = append(s.notes, fmt.Sprintf("the step back to %s %s of %s lacks this box's mark: it "+
				"came in a backup, or is older than the mark. "+
				"If it is not wanted, push a newer version", b.To.Name, b.To.Version, dte.Date(b.At)))
		}
	}
}

// apply gives the record of a step back its effect on the bundles. The caller holds mu, except at a start.
func (s *Store) apply(b *StepBack) {
	for _, i := range s.items {
		if slices.ContainsFunc(b.Off, func(r record.RuleRef) bool { return r.Digest == i.Digest }) {
			i.off = b
		}
		if i.Digest == b.To.Digest && b.Way != wayCancel {
			i.off = nil
		}
	}
	switch b.Way {
	case wayReturn:
		s.last = b
	case wayReinstate: // ends the automatic return from the bundle To
		if s.last != nil && len(s.last.Off) > 0 && s.last.Off[0].Digest == b.To.Digest {
			s.last = nil
		}
		// Only a record of this box may switch the guard off: a record from a backup may be forged.
		if b.word == recordmac.Own {
			s.guard.Trust(b.To.Digest)
		}
	case wayAcknowledge: // a copy, because readers may still use the old StepBack
		if s.last != nil {
			known := *s.last
			known.Acknowledged = &Acknowledgement{Who: b.Who, Reason: b.Reason, At: b.At}
			s.last = &known
		}
	}
}

type candidate struct {
	file string
	data []byte
	kind string
}

// admissionOrder is the order of admission by kind. All other golden cases need the catalogues.
var admissionOrder = [...]string{"catalogue", "document", "event"}

// candidates returns the shipped files that Load must admit, in the order of admission.
func (s *Store) candidates(shipped map[string][]byte) (list []candidate, faults []error) {
	files := slices.Sorted(maps.Keys(shipped))
	type opened struct {
		*bundle.Bundle
		error
	}
	bundles := make([]opened, len(files))
	var wg sync.WaitGroup
	for i, file := range files {
		wg.Go(func() { b, err := s.o.Keys.Read(shipped[file]); bundles[i] = opened{b, err} })
	}
	wg.Wait()
	for i, file := range files {
		b, err := bundles[i].Bundle, bundles[i].error
		if err != nil {
			faults = append(faults, fmt.Errorf("rule bundle %s: %w", file, err))
			continue
		}
		if _, there := b.Manifest.Validity[s.o.Ambiente]; !there {
			continue
		}
		if floor := s.floor(&b.Manifest); s.misplacedRecord(b.Digest) != nil || !s.knowsVersion(&b.Manifest) &&
			(floor == "" || bundle.Compare(b.Manifest.Version, floor) > 0) {
			list = append(list, candidate{file, shipped[file], b.Manifest.Kind})
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Compare(slices.Index(admissionOrder[:], a.kind), slices.Index(admissionOrder[:], b.kind))
	})
	return list, faults
}

func (s *Store) ship(ctx context.Context, data []byte) error {
	r, steps, err := s.o.Host.Admit(ctx, data, s.check())
	if err != nil {
		return err
	}
	a := admitted(r, s.o.Ambiente, steps)
	a.Way, a.Who = wayShipped, "the installation"
	return s.keep(ctx, a, r)
}
