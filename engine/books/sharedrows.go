package books

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/shopspring/decimal"
)

// share holds the amounts that a document adds to a row of several documents.
type share struct {
	sales
	date              string // of the row, yyyy-mm-dd
	operation, income int
	kind              string // CAT-002: "11" for an export, "" for an invoice
	adjust            string // why the document has a row of its own, to subtract or restore amounts; "": a shared row
}

type sales struct {
	exempt, nonSubject, taxed decimal.Decimal
	vat                       decimal.Decimal // included in taxed
	exports                   exports
}

func (s sales) total() decimal.Decimal {
	return s.exempt.Add(s.nonSubject).Add(s.taxed).Add(s.exports.total())
}

func (s sales) plus(o sales) sales {
	s.exempt, s.nonSubject = s.exempt.Add(o.exempt), s.nonSubject.Add(o.nonSubject)
	s.taxed, s.vat = s.taxed.Add(o.taxed), s.vat.Add(o.vat)
	for i := range s.exports {
		s.exports[i] = s.exports[i].Add(o.exports[i])
	}
	return s
}

// exports are columns O to S of annex 2 (p. 9): goods within Central America, goods elsewhere, services, sales to free
// zones, and sales on behalf of others.
type exports [5]decimal.Decimal

const central, overseas, service, freeZone, others = 0, 1, 2, 3, 4

func (e exports) total() decimal.Decimal { return decimal.Sum(e[0], e[1:]...) }

func (s *share) negate() {
	s.exempt, s.nonSubject, s.taxed, s.vat = s.exempt.Neg(), s.nonSubject.Neg(), s.taxed.Neg(), s.vat.Neg()
	for i := range s.exports {
		s.exports[i] = s.exports[i].Neg()
	}
}

// annexCells returns the cells of a row of annex 2; first and last are the codes of its first and last document.
func (s *share) annexCells(first, last string) []string {
	return []string{day(s.date), class, cmp.Or(s.kind, "01"), notApplicable, notApplicable, notApplicable,
		notApplicable, first, last, "", money(s.exempt), "0.00", money(s.nonSubject), money(s.taxed),
		money(s.exports[0]), money(s.exports[1]), money(s.exports[2]), money(s.exports[3]), money(s.exports[4]),
		money(s.total()), strconv.Itoa(s.operation), strconv.Itoa(s.income), "2"}
}

func (d *sealed) share(s *Settings) *share {
	operation, income := s.sale(d)
	if d.Type == "11" {
		e := &share{date: d.Date, operation: operation, income: exportedGoods, kind: "11"}
		if d.Emisor.Exports == 2 {
			e.income = exportedServices
		}
		e.exports[d.exportColumn()] = d.taxed
		return e
	}
	return &share{sales: sales{exempt: d.exempt, nonSubject: d.nonSubject, taxed: d.taxed, vat: d.vat}, date: d.Date,
		operation: operation, income: income}
}

// exportColumn returns the column of an export invoice. A customer in this country is a free zone (type 11 on p. 13).
func (d *sealed) exportColumn() int {
	switch {
	case d.Third != nil:
		return others
	case slices.Contains(here, d.customer.Country):
		return freeZone
	case d.Emisor.Exports == 2:
		return service
	case slices.Contains(centralAmerica, d.customer.Country):
		return central
	}
	return overseas
}

// dayKey is a row of annex 2: one day, one type of income and, depending on Settings.ConsumerRows, one establishment.
type dayKey struct {
	date, establishment string
	income              int
	kind                string
	// apart is the document's type of operation if sales of this type share no row with other types (3, 12 or 13),
	// otherwise 0. A row with taxed (1) and exempt (2) sales has the type mixed (4), see p. 9.
	apart int
	// part is 0 for the first row. Before a sum becomes too wide for a column, the next row begins.
	part int
}

type seriesKey struct{ date, series, kind string }

type line struct {
	sales
	first, last             order
	firstCode, lastCode     string
	firstNumber, lastNumber string
	operation, documents    int
}

func (l *line) add(d *sealed, o order, s *share) {
	if l.documents == 0 || o.compare(l.first) < 0 {
		l.first, l.firstCode, l.firstNumber = o, d.Code, d.ControlNumber
	}
	if l.documents == 0 || o.compare(l.last) > 0 {
		l.last, l.lastCode, l.lastNumber = o, d.Code, d.ControlNumber
	}
	switch {
	case l.documents == 0:
		l.operation = s.operation
	case l.operation != s.operation:
		l.operation = mixed
	}
	l.documents++
	l.sales = l.plus(s.sales)
}

func (b *Book) daily(d *sealed, o order, s *share) error {
	if s.adjust != "" {
		o, err := orderOf(d, s.date)
		if err != nil {
			return err
		}
		return b.put(annex02, o, s.annexCells(b.dayCode(d.Code), b.dayCode(d.Code)))
	}
	key := dayKey{date: s.date, income: s.income, kind: s.kind}
	if s.operation == 3 || s.operation > mixed {
		key.apart = s.operation
	}
	if b.settings.ConsumerRows == "establishment" {
		key.establishment = d.establishment
	}
	for lineOf(b.days, key).plus(s.sales).total().Abs().GreaterThanOrEqual(widest) {
		key.part++
	}
	lineOf(b.days, key).add(d, o, s)
	return nil
}

func (b *Book) dayCode(code string) string {
	if b.settings.DayHyphens {
		return code
	}
	return plain(code)
}

func (b *Book) addSale(d *sealed, o order, s *share) error {
	series := ""
	if len(d.ControlNumber) == 31 {
		series = d.ControlNumber[7:15]
	}
	b.sum.vat = b.sum.vat.Add(s.vat)
	if s.adjust != "" {
		var err error
		if o, err = orderOf(d, s.date); err != nil {
			return err
		}
		o.tie = 1
		return b.put(consumers, o, consumerCells(s.date, d.establishment, d.bookNumber(), d.bookNumber(), s, 1))
	}
	lineOf(b.series, seriesKey{s.date, series, s.kind}).add(d, o, s)
	return nil
}

func lineOf[K comparable](lines map[K]*line, key K) *line {
	if lines[key] == nil {
		lines[key] = new(line)
	}
	return lines[key]
}

// bookNumber returns a document's number in the book of consumers: its control number or, for a return, its code.
func (d *sealed) bookNumber() string {
	if d.Type == "18" {
		return d.Code
	}
	return d.ControlNumber
}

func consumerCells(date, establishment, first, last string, s *share, documents int) []string {
	third := s.exports[others] // not the taxpayer's own sale (art. 83 h)
	return []string{day(date), establishment, first, last, "", money(s.exempt), money(s.nonSubject), money(s.taxed),
		money(s.exports.total().Sub(third)), money(s.total().Sub(third)), money(third), strconv.Itoa(documents),
		text(s.adjust)}
}

func (b *Book) shared() error {
	for key, l := range b.days {
		s := &share{sales: l.sales, date: key.date, operation: l.operation, income: key.income, kind: key.kind}
		kind, _ := strconv.ParseUint(key.kind, 10, 8) // "", an invoice, gives 0
		o, err := dayOrder(key.date, key.establishment, 10_000*uint64(key.income)+100*kind+uint64(key.apart))
		if err != nil {
			return err
		}
		o.tie = uint8(min(key.part, 255))
		if err := b.put(annex02, o, s.annexCells(b.dayCode(l.firstCode), b.dayCode(l.lastCode))); err != nil {
			return err
		}
	}
	for key, l := range b.series {
		kind, _ := strconv.ParseUint(key.kind, 10, 8)
		o, err := dayOrder(key.date, key.series, kind)
		if err != nil {
			return err
		}
		establishment := key.series[:min(4, len(key.series))]
		cells := consumerCells(key.date, establishment, l.firstNumber, l.lastNumber, &share{sales: l.sales},
			l.documents)
		if err := b.put(consumers, o, cells); err != nil {
			return err
		}
	}
	return nil
}

// dayOrder returns the order of a day's shared row: before the rows of that day's single documents.
func dayOrder(date, series string, number uint64) (order, error) {
	o, err := orderOf(&sealed{hour: "00:00:00"}, date)
	copy(o.series[:], series)
	o.number = number
	return o, err
}
