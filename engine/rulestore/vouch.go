package rulestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"dtegate/engine/record"
	"dtegate/engine/recordmac"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// A record in the store may come from a forged backup. A bundle may therefore be used only if keys that are pinned
// today have signed it, or if its record has this box's authentication code (the mark). The box marks a record when it
// admits the bundle, or later finds it signed by pinned keys: see vet.

// Why a stored bundle may not be used.
const (
	TroubleDamaged   = "damaged"   // the record or the bytes cannot be read, or the bundle does not load or compile
	TroubleUnvouched = "unvouched" // the bundle can be read, but neither pinned keys nor this box vouch for it
)

// Trouble is why a stored bundle may not be used. The branch continues without the bundle.
type Trouble struct {
	Why  string `json:"why"` // damaged or unvouched
	Text string `json:"text"`
}

// Who vouches for a bundle.
const (
	VouchedByKeys = "keys" // as many pinned keys as are required
	VouchedByBox  = "box"  // this box: it admitted the bundle when other keys were pinned
)

var errUnvouched = errors.New("nobody vouches for it")

func placeOf(e *storage.Entry) recordmac.Place {
	return recordmac.Place{Series: e.Series, Number: e.Number, Code: e.Code, State: uint8(e.State)}
}

// openBundle reads the bytes of a bundle and finds who vouches for the bundle. It changes no record.
func (s *Store) openBundle(i *shelved) (*bundle.Bundle, error) {
	fail := func(format string, args ...any) (*bundle.Bundle, error) {
		return nil, fmt.Errorf("opening the stored bundle %s %s: "+format, append([]any{i.Name, i.Version}, args...)...)
	}
	s.mu.RLock()
	a, word := i.Admitted, i.word
	s.mu.RUnlock()
	data, err := s.o.Store.Part(i.entry.Code, cmp.Or(a.Part, PartBundle))
	if err != nil {
		return fail("%w", err)
	}
	b, err := bundle.Reopen(data, a.Digest)
	if err != nil {
		return fail("%w", err)
	}
	signers, err := s.o.Keys.Vouch(b)
	by := VouchedByKeys
	switch {
	case err == nil:
	case word == recordmac.Own:
		by, signers = VouchedByBox, a.Signers
	case word == recordmac.Altered:
		return fail("%w: its record was rewritten after this box had written it, and it is %w", errUnvouched, err)
	default:
		return fail("%w: its record lacks this box's mark, and it is %w", errUnvouched, err)
	}
	if err := a.agrees(&b.Manifest, i.entry.Series); err != nil {
		return fail("%w: %w", errUnvouched, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i.vouched, i.signedBy = by, signers
	return b, nil
}

func (a *Admitted) agrees(m *bundle.Manifest, series string) error {
	ambiente, _, _ := strings.Cut(series, "/")
	w := m.Validity[ambiente]
	for _, f := range []struct{ name, record, manifest string }{{"name", a.Name, m.Name}, {"version", a.Version,
		m.Version}, {"kind", a.Kind, m.Kind},
		{"document", a.Document, m.Document}, {"schema", strconv.Itoa(a.Schema), strconv.Itoa(m.Schema)},
		{"from", a.From, w.From}, {"until", a.Until, w.Until}} {
		if f.record != f.manifest {
			return fmt.Errorf("its record says %s %q, the signed manifest %q", f.name, f.record, f.manifest)
		}
	}
	return nil
}

// legible refuses a record with unprintable characters: they could deceive an operator at a terminal.
func (a *Admitted) legible() error {
	for _, text := range []string{a.Name, a.Version, a.Kind, a.Document, a.From, a.Until} {
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return fmt.Errorf("%q is not a text for a record", text)
		}
	}
	return nil
}

// refuse stops the use of a bundle, until the next start or push. It changes no record.
func (s *Store) refuse(i *shelved, err error) {
	why := TroubleDamaged
	if errors.Is(err, errUnvouched) {
		why = TroubleUnvouched
	}
	s.mu.Lock()
	i.trouble = &Trouble{Why: why, Text: err.Error()}
	delete(s.loaded, i.Digest)
	s.mu.Unlock()
	if i.off != nil {
		return // the bundle was already taken off: the branch loses nothing
	}
	goes := "nothing: the branch refuses what this rule would compute"
	if next := inForce(s.computable(), i, max(i.From, s.today())); next != nil {
		goes = next.Name + " " + next.Version
	}
	s.o.Logger.Error("a stored rule may not compute: push it again", "rule", i.Name, "version", i.Version, "digest",
		i.Digest, "why", why, "goes_on", goes, "error", err)
}

// vet finds who vouches for each bundle whose record lacks this box's mark, even for a bundle taken off. It marks the
// records of bundles that pinned keys have signed: these bundles stay usable without the keys.
func (s *Store) vet(ctx context.Context) {
	for _, i := range s.items {
		if i.trouble != nil || i.word == recordmac.Own {
			continue
		}
		if _, err := s.openBundle(i); err != nil {
			s.refuse(i, err)
			continue
		}
		if s.o.Box == nil {
			continue
		}
		if err := s.rewrite(ctx, i, i.Admitted, nil); err != nil {
			s.o.Logger.Warn("a stored rule could not be marked as this box's: the next start tries again", "rule",
				i.Name, "version", i.Version, "error", err)
		}
	}
}

// rewrite gives a bundle's record a new head with this box's mark. packed, if set, becomes the bundle's bytes.
func (s *Store) rewrite(ctx context.Context, i *shelved, a Admitted, packed []byte) error {
	var parts []storage.Part
	if packed != nil {
		a.Part = fmt.Sprintf("%s.%d", PartBundle, i.entry.Revision+1) // the earlier part stays unchanged
		parts = []storage.Part{{Name: a.Part, Data: packed}}
	}
	head, err := encodeHead(a)
	if err != nil {
		return err
	}
	entry, err := record.Move(ctx, s.o.Store, i.entry.Code, record.RuleAdmitted, storage.Change{To: record.RuleAdmitted,
		Head: s.o.Box.Mark(head, placeOf(&i.entry)), Parts: parts, Due: i.entry.Due})
	if err != nil {
		return fmt.Errorf("marking the record of a rule: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i.Admitted, i.entry, i.trouble, i.word = a, entry, nil, s.o.Box.Check(entry.Head, placeOf(&entry))
	return nil
}

// misplacedRecord returns the record under a bundle's code if it is unusable and not taken off, or nil.
func (s *Store) misplacedRecord(digest string) *shelved {
	code, err := CodeOf(digest)
	if err != nil {
		return nil
	}
	return s.find(func(i *shelved) bool { return i.entry.Code == code && i.trouble != nil && i.off == nil })
}

// assembleSound makes the book of all usable bundles. It leaves out a bundle that makes the book fail.
func (s *Store) assembleSound(ctx context.Context) (*Book, error) {
	for {
		on := s.computable()
		book, err := s.assemble(ctx, on, s.o.Now())
		var bad *BundleError
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &bad):
			i := s.find(func(i *shelved) bool { return i.Digest == bad.Digest && i.trouble == nil && i.off == nil })
			if i == nil {
				return nil, err
			}
			s.refuse(i, err)
		case errors.Is(err, ErrNoCatalogue):
			// Without catalogues no document can be filled: the branch refuses every sale, and accepts a pushed bundle.
			s.o.Logger.Error("no catalogue bundle among the rules may be used: nothing can be issued", "rules", len(on))
			return NewBook(nil, nil, nil, nil, nil)
		default:
			return book, err
		}
	}
}

// twin returns an earlier bundle with i's document, first day and version (i is then invalid), or nil.
func twin(on []*shelved, i *shelved) *shelved {
	for _, o := range on[:max(slices.Index(on, i), 0)] {
		if o.sameDocument(i) && o.rank(i) == 0 {
			return o
		}
	}
	return nil
}
