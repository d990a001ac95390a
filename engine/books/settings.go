package books

import (
	"cmp"
	"slices"
)

// Settings are values that the documents lack and the manual leaves open; [books] of the configuration sets and checks
// them. Zero values are the defaults of a shop: the first of several words, or the value in brackets.
type Settings struct {
	// SaleCodes apply to sales that no rule of Sale fits. If several rules fit, the first one decides.
	SaleCodes
	// ConsumerRows is "taxpayer" (annex 2 has one row for each day; the manual says "agrupar por día", p. 8) or
	// "establishment" (one row for each day and establishment).
	ConsumerRows string `toml:"consumer_rows" json:"consumer_rows" one:"taxpayer establishment"`
	// Returns is "summary" or "annex2". Returns (18) of invoices are in the book of consumers (art. 87) and in
	// resumen.json; annex2 also puts them into annex 2 as negative rows. Annex 2 accepts negative amounts "únicamente
	// para los documentos anulados/invalidados" (p. 10), and its list of types (p. 8) has no 18.
	Returns string `toml:"returns" json:"returns" one:"summary annex2"`
	// DayHyphens (false) writes the codes of annex 2 with hyphens. Other annexes of sales omit the hyphens.
	DayHyphens bool `toml:"day_hyphens" json:"day_hyphens"`
	// CancelledHyphens (true) writes the control number and the code of invalidated documents with hyphens. For column
	// A the manual says "incluyendo guiones", and for column J "36 caracteres" (pp. 55, 57).
	CancelledHyphens *bool `toml:"cancelled_hyphens" json:"cancelled_hyphens"`
	// Encoding of the annexes is "utf-8", or "windows-1252" as Excel saves "CSV (delimitado por comas)" (p. 2).
	Encoding string         `toml:"encoding" json:"encoding" one:"utf-8 windows-1252"`
	Sale     []SaleRule     `toml:"sale" json:"sale"`
	Purchase []PurchaseRule `toml:"purchase" json:"purchase"` // excluded subjects (14) and received documents
}

// SaleCodes are a sale's codes for the income tax (pp. 3 and 4).
type SaleCodes struct {
	Operation int `toml:"operation" json:"operation" one:"1 2 3 4 12 13"`        // (by each document's amounts)
	Income    int `toml:"income" json:"income" one:"1 2 3 4 5 6 7 8 9 10 12 13"` // (3, commerce)
}

// Fits selects documents by establishment, by kind of item, or by both.
type Fits struct {
	Establishment string `toml:"establishment" json:"establishment" form:"establishment"` // "S001"; "": any
	Item          int    `toml:"item" json:"item" one:"1 2 3 4"`                          // CAT-011; 0: any
}

func (f Fits) fit(d *sealed) bool {
	return (f.Establishment == "" || f.Establishment == d.establishment) && (f.Item == 0 || f.Item == d.item)
}

// SaleRule gives codes to some sales.
type SaleRule struct {
	Fits
	SaleCodes
}

// PurchaseCodes are columns I to L of annex 5 (pp. 23 and 24).
type PurchaseCodes struct {
	Operation      int `toml:"operation" json:"operation" one:"1 2 3 4 8 9"`
	Classification int `toml:"classification" json:"classification" one:"1 2 8 9"` // 1 cost, 2 expense
	Sector         int `toml:"sector" json:"sector" one:"1 2 3 4 8 9"`
	Cost           int `toml:"cost" json:"cost" one:"1 2 3 4 5 6 7 8 9"`
}

// PurchaseRule gives codes to some purchases.
type PurchaseRule struct {
	Fits
	PurchaseCodes
}

// Codes of purchases in a shop: goods are "artículos comprados interno", services an expense of administration.
var (
	goods    = PurchaseCodes{Operation: 1, Classification: 1, Sector: 2, Cost: 5}
	services = PurchaseRule{Fits{Item: 2}, PurchaseCodes{Operation: 1, Classification: 2, Sector: 2, Cost: 2}}
)

func (s Settings) complete() *Settings {
	s.Income, s.CancelledHyphens = cmp.Or(s.Income, 3), cmp.Or(s.CancelledHyphens, new(true))
	s.ConsumerRows, s.Returns = cmp.Or(s.ConsumerRows, "taxpayer"), cmp.Or(s.Returns, "summary")
	s.Encoding = cmp.Or(s.Encoding, "utf-8")
	s.Sale, s.Purchase = slices.Clone(s.Sale), slices.Clone(s.Purchase)
	for i := range s.Sale {
		s.Sale[i].Income = cmp.Or(s.Sale[i].Income, s.Income)
	}
	for i := range s.Purchase {
		c := &s.Purchase[i].PurchaseCodes
		c.Operation = cmp.Or(c.Operation, goods.Operation)
		c.Classification = cmp.Or(c.Classification, goods.Classification)
		c.Sector, c.Cost = cmp.Or(c.Sector, goods.Sector), cmp.Or(c.Cost, goods.Cost)
	}
	s.Purchase = append(s.Purchase, services)
	return &s
}

// sale returns the codes of a sale. If the settings leave the operation open, the amounts decide.
func (s *Settings) sale(d *sealed) (operation, income int) {
	codes := s.SaleCodes
	if i := slices.IndexFunc(s.Sale, func(r SaleRule) bool { return r.fit(d) }); i >= 0 {
		codes = s.Sale[i].SaleCodes
	}
	operation = codes.Operation
	if operation == 0 {
		other := !d.exempt.IsZero() || !d.nonSubject.IsZero()
		switch {
		case other && !d.taxed.IsZero():
			operation = mixed
		case other:
			operation = 2
		default:
			operation = 1
		}
	}
	return operation, codes.Income
}

// mixed is the type of operation of a sale that is partly taxed and partly exempt (p. 3).
const mixed = 4

func (s *Settings) purchase(d *sealed) PurchaseCodes {
	if i := slices.IndexFunc(s.Purchase, func(r PurchaseRule) bool { return r.fit(d) }); i >= 0 {
		return s.Purchase[i].PurchaseCodes
	}
	return goods
}
