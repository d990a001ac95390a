package books

import (
	"cmp"
	"slices"
)

// Settings are values that the documents do not contain and the manual leaves open: [books] of dted.toml, with the
// tags of config.Config.
type Settings struct {
	SaleCodes // of sales that no rule fits
	// ConsumerRows is "taxpayer" (default) or "establishment": annex 2 has a row a day for the one or for each. The
	// return is the taxpayer's, and the manual says "agrupar por día" (p. 8).
	ConsumerRows string `toml:"consumer_rows" one:"taxpayer establishment"`
	// Returns is "summary" (default) or "annex2", which has returns (18) of invoices as negative rows, besides the book
	// of consumers (art. 87). By default they are in resumen.json, because annex 2 accepts negative amounts "únicamente
	// para los documentos anulados/invalidados" (p. 10) and its list of types (p. 8) has no 18.
	Returns string `toml:"returns" one:"summary annex2"`
	// DayHyphens writes the codes of annex 2 with hyphens. Default: without, as in every other annex of sales.
	DayHyphens bool `toml:"day_hyphens"`
	// CancelledHyphens (default true) writes the control number and the code of invalidated documents with hyphens,
	// because column A says "incluyendo guiones" and column J "36 caracteres" (pp. 55, 57).
	CancelledHyphens *bool `toml:"cancelled_hyphens"`
	// Encoding of the annexes is "utf-8" (default) or "windows-1252", Excel's "CSV (delimitado por comas)" (p. 2).
	Encoding  string         `toml:"encoding" one:"utf-8 windows-1252"`
	Sales     []SaleRule     `toml:"sale"`     // the first rule that fits a document decides
	Purchases []PurchaseRule `toml:"purchase"` // the same for purchases from excluded subjects (14)
}

// SaleCodes are a sale's codes for the income tax (pp. 3 and 4).
type SaleCodes struct {
	// Operation is the tipo de operación; default: from each document's amounts.
	Operation int `toml:"operation" json:"operation" one:"1 2 3 4 12 13"`
	// Income is the tipo de ingreso; default 3, commerce, and in a rule that of all sales.
	Income int `toml:"income" json:"income" one:"1 2 3 4 5 6 7 8 9 10 12 13"`
}

// SaleRule gives codes to the sales of an establishment, of a kind of item (CAT-011), or of both together.
type SaleRule struct {
	Establishment string `toml:"establishment" json:"establishment" form:"establishment"` // "S001"; "": any
	Item          int    `toml:"item" json:"item" one:"1 2 3 4"`                          // 0: any
	SaleCodes
}

// PurchaseCodes are columns I to L of annex 5 (pp. 23 and 24).
type PurchaseCodes struct {
	Operation      int `toml:"operation" json:"operation" one:"1 2 3 4 8 9"`
	Classification int `toml:"classification" json:"classification" one:"1 2 8 9"` // 1 cost, 2 expense
	Sector         int `toml:"sector" json:"sector" one:"1 2 3 4 8 9"`
	Cost           int `toml:"cost" json:"cost" one:"1 2 3 4 5 6 7 8 9"`
}

// PurchaseRule gives codes to the purchases of an establishment, of a kind of item, or of both together.
type PurchaseRule struct {
	Establishment string `toml:"establishment" json:"establishment" form:"establishment"`
	Item          int    `toml:"item" json:"item" one:"1 2 3 4"`
	PurchaseCodes
}

// purchaseDefault is for purchases that no rule fits: a cost, "artículos comprados interno". Purchased services are an
// expense of administration.
var (
	purchaseDefault = PurchaseCodes{Operation: 1, Classification: 1, Sector: 2, Cost: 5}
	purchasedItem   = PurchaseRule{Item: 2, PurchaseCodes: PurchaseCodes{1, 2, 2, 2}}
)

// complete returns the settings with the defaults of what is not set, which are a shop's.
func (s Settings) complete() Settings {
	s.ConsumerRows, s.Returns = cmp.Or(s.ConsumerRows, "taxpayer"), cmp.Or(s.Returns, "summary")
	s.Encoding, s.Income = cmp.Or(s.Encoding, "utf-8"), cmp.Or(s.Income, 3)
	if s.CancelledHyphens == nil {
		s.CancelledHyphens = new(bool)
		*s.CancelledHyphens = true
	}
	s.Sales = slices.Clone(s.Sales)
	for i := range s.Sales {
		s.Sales[i].Income = cmp.Or(s.Sales[i].Income, s.Income)
	}
	s.Purchases = append(slices.Clone(s.Purchases), purchasedItem)
	for i := range s.Purchases {
		c, d := &s.Purchases[i].PurchaseCodes, purchaseDefault
		*c = PurchaseCodes{cmp.Or(c.Operation, d.Operation), cmp.Or(c.Classification, d.Classification),
			cmp.Or(c.Sector, d.Sector), cmp.Or(c.Cost, d.Cost)}
	}
	return s
}

func fits(establishment string, item int, ofEstablishment string, ofItem int) bool {
	return (establishment == "" || establishment == ofEstablishment) && (item == 0 || item == ofItem)
}

// sale returns the codes of a sale. If the settings leave the operation open, it follows from the sale's amounts.
func (s *Settings) sale(d *sealed) (operation, income int) {
	codes := s.SaleCodes
	for _, r := range s.Sales {
		if fits(r.Establishment, r.Item, d.establishment, d.item) {
			codes = r.SaleCodes
			break
		}
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
	for _, r := range s.Purchases {
		if fits(r.Establishment, r.Item, d.establishment, d.item) {
			return r.PurchaseCodes
		}
	}
	return purchaseDefault
}
