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

// Law is what a new law may change: rates, thresholds and codes, as data. The arithmetic stays this package's. A nil
// number, and a code that is not named, stay as they were the day before.
type Law struct {
	Document string // type of CAT-002, "" for all
	From     string // first day, yyyy-mm-dd, by the document's date; for a note or retorno, by its original's
	VAT      *big.Rat
	Withheld *big.Rat // share of the VAT's base that is withheld or perceived (CT art. 162, 163)
	Income   *big.Rat // share of a purchase (14) that is withheld as income tax, at most

	LeastBase      *big.Rat // without VAT, in USD: see leastBase
	Identification *big.Rat // in USD: see identification
	// PerGallon are the taxes in USD a gallon, by code of CAT-015.
	PerGallon map[string]*big.Rat
	// PerUnit are further taxes of the summary in USD a unit, for any unit, by code of CAT-015.
	PerUnit map[string]*big.Rat
	// Layout is the JSON Schema of the type in generation Version. It is used for a type that this package does not
	// know; the amounts of such documents are not checked.
	Layout  []byte
	Version int
	// Codes are further codes by catalogue, "CAT-015". A further code of CAT-015 is a tax that is added in the summary.
	Codes map[string][]string
}

// todays returns the law for which this package was written.
func todays() Law {
	return Law{VAT: big.NewRat(13, 100), Withheld: big.NewRat(1, 100), Income: big.NewRat(10, 100),
		LeastBase: leastBase, Identification: identification, PerGallon: gallonTaxes}
}

// Laws holds the enacted laws, in addition to the law for which this package was written.
type Laws struct {
	mu   sync.RWMutex
	laws []Law // by their first day
	// brought holds the generations of types that a law introduced.
	brought map[generation]*schema
}

// Enact adds laws. If two laws of one day and type set the same value, the law that was added later applies.
func (s *Laws) Enact(laws ...Law) error {
	laws = slices.Clone(laws)
	for i, l := range laws {
		if fresh := l.Codes["CAT-015"]; fresh != nil { // codes known here keep their section
			laws[i].Codes = maps.Clone(l.Codes)
			laws[i].Codes["CAT-015"] = slices.DeleteFunc(slices.Clone(fresh), func(code string) bool {
				return slices.Contains(slices.Concat(bodyTaxes, summaryTaxes, informativeTaxes), code)
			})
		}
		if _, err := time.Parse(time.DateOnly, l.From); err != nil {
			return fmt.Errorf("a law begins on %q, which is not a day (yyyy-mm-dd)", l.From)
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

// form returns the schema of a generation, or false if its documents are not received.
func (s *Laws) form(g generation) (*schema, bool) {
	if form, known := compiled()[g]; known {
		return form, true
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	form, known := s.brought[g]
	return form, known
}

// brings reports whether a law brought a type that this package does not know.
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

// On returns the law for a type of document on a day.
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

// included returns the VAT's share of a price that includes VAT: 13/113, never 13 %.
func (l *Law) included() *big.Rat { return new(big.Rat).Quo(l.VAT, l.gross()) }

// gross returns the factor that adds VAT to a price: 113/100.
func (l *Law) gross() *big.Rat { return add(one, l.VAT) }

// net returns an amount that includes VAT, without the VAT.
func (l *Law) net(amount *big.Rat) *big.Rat { return new(big.Rat).Quo(amount, l.gross()) }

// lists reports whether a catalogue has a code: among the codes known here, or among the codes that a law added.
func (l *Law) lists(catalogue string, known []string, code string) bool {
	return slices.Contains(known, code) || slices.Contains(l.Codes[catalogue], code)
}

func product(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
