package document

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"
)

// Law is what another law would change: rates, thresholds and codes, as data. The arithmetic over them stays this
// package's. A nil number, and codes that are not named, are as they were the day before.
type Law struct {
	Document string // type of CAT-002 that it is for, "" for all
	From     string // first day, yyyy-mm-dd: by the date of the document, of a note or retorno by that of its original
	VAT      *big.Rat
	Withheld *big.Rat // share of the VAT's base that is withheld or perceived (CT art. 162, 163)
	Income   *big.Rat // share of a purchase (14) that is withheld as income tax, at most

	LeastBase      *big.Rat // without VAT, in USD: see leastBase
	Identification *big.Rat // in USD: see identification
	// PerGallon are the taxes in USD a gallon, by code.
	PerGallon map[string]*big.Rat
	// PerUnit are further taxes of the summary in USD a unit, whatever the unit is, by code.
	PerUnit map[string]*big.Rat
	// Layout is the JSON Schema of the type in generation Version: documents of a type that this package has no reading
	// of are held to it, and their amounts to nothing.
	Layout  []byte
	Version int
	// Codes are further codes by catalogue, "CAT-015". A further code of CAT-015 is a tax that is added in the summary.
	Codes map[string][]string
}

// todays is the law that this package was written after.
func todays() Law {
	return Law{VAT: big.NewRat(13, 100), Withheld: big.NewRat(1, 100), Income: big.NewRat(10, 100),
		LeastBase: leastBase, Identification: identification, PerGallon: gallonTaxes}
}

// Laws is what was enacted, beside the law that this package was written after.
type Laws struct {
	mu   sync.RWMutex
	laws []Law // by their first day
	// brought are the types that came with a law.
	brought map[generation]*schema
}

// Enact adds laws. Where two of one day and type say something of one thing, the later one holds.
func (s *Laws) Enact(laws ...Law) error {
	laws = slices.Clone(laws)
	for i, l := range laws {
		if fresh := l.Codes["CAT-015"]; fresh != nil { // what is known lies in another section, and stays there
			laws[i].Codes = maps.Clone(l.Codes)
			laws[i].Codes["CAT-015"] = slices.DeleteFunc(slices.Clone(fresh), func(code string) bool {
				return slices.Contains(slices.Concat(bodyTaxes, summaryTaxes, informativeTaxes), code)
			})
		}
		if _, err := time.Parse(time.DateOnly, l.From); err != nil {
			return fmt.Errorf("a law begins on %q, which is no day (yyyy-mm-dd)", l.From)
		}
		for name, r := range map[string]*big.Rat{"VAT": l.VAT, "withheld": l.Withheld, "income": l.Income} {
			if r != nil && (r.Sign() < 0 || r.Cmp(one) >= 0) {
				return fmt.Errorf("the law of %s has the rate %s for %s: a share, 0.15 for 15 %%", l.From,
					r.RatString(), name)
			}
		}
	}
	brought := make(map[generation]*schema)
	for _, l := range laws {
		g := generation{l.Document, l.Version}
		if _, own := forms[g]; own || len(l.Layout) == 0 {
			continue
		}
		form, err := layout(l.Layout)
		if err != nil {
			return fmt.Errorf("the layout of %s version %d: %w", l.Document, l.Version, err)
		}
		brought[g] = &schema{form: form, checks: common}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.brought == nil {
		s.brought = make(map[generation]*schema)
	}
	maps.Copy(s.brought, brought)
	s.laws = append(s.laws, laws...)
	slices.SortStableFunc(s.laws, func(a, b Law) int { return strings.Compare(a.From, b.From) })
	return nil
}

// form is what documents of a generation are held to; false when nobody receives them.
func (s *Laws) form(g generation) (*schema, bool) {
	if form, known := compiled()[g]; known {
		return form, true
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	form, known := s.brought[g]
	return form, known
}

// brings reports whether a law brought a type that this package has no reading of.
func (s *Laws) brings(tipo string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for g := range s.brought {
		if g.tipo == tipo {
			return true
		}
	}
	return false
}

// On is what holds for a type of document on a day.
func (s *Laws) On(tipo, day string) Law {
	now := todays()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, l := range s.laws {
		if l.From > day || l.Document != "" && l.Document != tipo {
			continue
		}
		for _, pair := range []struct{ to, from **big.Rat }{{&now.VAT, &l.VAT}, {&now.Withheld, &l.Withheld},
			{&now.Income, &l.Income},
			{&now.LeastBase, &l.LeastBase}, {&now.Identification, &l.Identification}} {
			if *pair.from != nil {
				*pair.to = *pair.from
			}
		}
		now.PerGallon, now.PerUnit = replaced(now.PerGallon, l.PerGallon), replaced(now.PerUnit, l.PerUnit)
		for catalogue, codes := range l.Codes {
			if now.Codes == nil {
				now.Codes = make(map[string][]string)
			}
			now.Codes[catalogue] = slices.Concat(now.Codes[catalogue], codes)
		}
	}
	return now
}

// replaced returns a copy of rates in which the rates of fresh replace the old ones.
func replaced(rates, fresh map[string]*big.Rat) map[string]*big.Rat {
	if len(fresh) == 0 {
		return rates
	}
	all := make(map[string]*big.Rat, len(rates)+len(fresh))
	maps.Copy(all, rates)
	maps.Copy(all, fresh)
	return all
}

// under returns the law that applies to a document: the law of its own day. A note or retorno gives back what was
// charged; therefore it falls under the law of its original's day.
func (s *Laws) under(d *Document) Law {
	day := d.Date()
	if d.Tipo == "05" || d.Tipo == "06" || d.Tipo == "18" {
		for _, rel := range d.Root.Objects("documentoRelacionado") {
			if of := rel.Text("fechaEmision"); of != "" {
				day = of
				break
			}
		}
	}
	return s.On(d.Tipo, day)
}

// included is the share of a price with VAT that is the VAT: 13/113, never 13 %.
func (l *Law) included() *big.Rat { return new(big.Rat).Quo(l.VAT, l.gross()) }

// gross is what a price without VAT is multiplied by to have it: 113/100.
func (l *Law) gross() *big.Rat { return add(one, l.VAT) }

// net is an amount with VAT without it.
func (l *Law) net(amount *big.Rat) *big.Rat { return new(big.Rat).Quo(amount, l.gross()) }

// lists tells whether a code is one of a catalogue: of the ones known here, or of those that a law added.
func (l *Law) lists(catalogue string, known []string, code string) bool {
	return slices.Contains(known, code) || slices.Contains(l.Codes[catalogue], code)
}

func product(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
