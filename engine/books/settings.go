package books

import (
	"errors"
	"fmt"
	"slices"
)

// Settings are values that the documents do not contain and the manual leaves open.
type Settings struct {
	// The first rule of Sales that fits a document decides. Sale is for sales that no rule fits.
	Sale  SaleCodes
	Sales []SaleRule
	// Purchase and Purchases are the same for purchases from excluded subjects (14).
	Purchase  PurchaseCodes
	Purchases []PurchaseRule
	// ByEstablishment makes one row for each day and establishment in annex 2. Default: one row for each day, because
	// the return is the taxpayer's and the manual says "agrupar por día" (p. 8).
	ByEstablishment bool
	// ReturnsInAnnex puts returns (18) of invoices into annex 2 as negative rows. Default: returns are only in the book
	// of consumers (art. 87) and in resumen.json, because annex 2 accepts negative amounts "únicamente para los
	// documentos anulados/invalidados" (p. 10) and its list of types (p. 8) has no 18.
	ReturnsInAnnex bool
	// DayHyphens writes the codes of annex 2 with hyphens. Default: without, as in every other annex of sales.
	DayHyphens bool
	// PlainCancelled writes the control number and the code of invalidated documents without hyphens. Default: with
	// hyphens, because column A says "incluyendo guiones" and column J "36 caracteres" (pp. 55, 57).
	PlainCancelled bool
	// Windows writes the annexes in Windows-1252, as Excel saves "CSV (delimitado por comas)" (p. 2). Default: UTF-8.
	Windows bool
}

// SaleCodes are a sale's codes for the income tax (pp. 3 and 4).
type SaleCodes struct {
	Operation int `json:"operation"` // tipo de operación: 1, 2, 3, 4, 12 or 13; 0: from each document's amounts
	Income    int `json:"income"`    // tipo de ingreso: 1 to 10, 12 or 13
}

// SaleRule gives codes to the sales of an establishment, of a kind of item, or of both together.
type SaleRule struct {
	Establishment string `json:"establishment"` // "S001"; "": any
	Item          int    `json:"item"`          // CAT-011: 1 goods, 2 services, 3 both, 4 taxes; 0: any
	SaleCodes
}

// PurchaseCodes are columns I to L of annex 5 (pp. 23 and 24).
type PurchaseCodes struct {
	Operation      int `json:"operation"`      // 1 to 4, 8 or 9
	Classification int `json:"classification"` // 1 cost, 2 expense, 8 or 9
	Sector         int `json:"sector"`         // 1 to 4, 8 or 9
	Cost           int `json:"cost"`           // 1 to 9
}

// PurchaseRule gives codes to the purchases of an establishment, of a kind of item, or of both together.
type PurchaseRule struct {
	Establishment string `json:"establishment"`
	Item          int    `json:"item"`
	PurchaseCodes
}

// Defaults returns the settings of a shop: sales are income of commerce (3); purchased goods are a cost, "artículos
// comprados interno"; purchased services are an expense of administration.
func Defaults() Settings {
	return Settings{Sale: SaleCodes{Income: 3}, Purchase: PurchaseCodes{Operation: 1, Classification: 1, Sector: 2,
		Cost: 5},
		Purchases: []PurchaseRule{{Item: 2, PurchaseCodes: PurchaseCodes{Operation: 1, Classification: 2, Sector: 2,
			Cost: 2}}}}
}

var (
	operations = []int{1, 2, 3, 4, 12, 13}
	incomes    = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13}
)

// Check returns an error for each value that the manual does not list. The error names the setting.
func (s *Settings) Check() error {
	var faults []error
	one := func(name string, value int, of []int) {
		if !slices.Contains(of, value) {
			faults = append(faults, fmt.Errorf("%s: is %d, must be one of %v", name, value, of))
		}
	}
	sale := func(name string, c SaleCodes) {
		one(name+"operation", c.Operation, append([]int{0}, operations...))
		one(name+"income", c.Income, incomes)
	}
	purchase := func(name string, c PurchaseCodes) {
		one(name+"operation", c.Operation, []int{1, 2, 3, 4, 8, 9})
		one(name+"classification", c.Classification, []int{1, 2, 8, 9})
		one(name+"sector", c.Sector, []int{1, 2, 3, 4, 8, 9})
		one(name+"cost", c.Cost, []int{1, 2, 3, 4, 5, 6, 7, 8, 9})
	}
	sale("books.", s.Sale)
	for i, r := range s.Sales {
		name := fmt.Sprintf("books.sale[%d].", i)
		sale(name, r.SaleCodes)
		one(name+"item", r.Item, []int{0, 1, 2, 3, 4})
	}
	purchase("books.", s.Purchase)
	for i, r := range s.Purchases {
		name := fmt.Sprintf("books.purchase[%d].", i)
		purchase(name, r.PurchaseCodes)
		one(name+"item", r.Item, []int{0, 1, 2, 3, 4})
	}
	return errors.Join(faults...)
}

func fits(establishment string, item int, ofEstablishment string, ofItem int) bool {
	return (establishment == "" || establishment == ofEstablishment) && (item == 0 || item == ofItem)
}

// sale returns the codes of a sale. If the settings leave the operation open, it follows from the sale's amounts.
func (s *Settings) sale(d *sealed) (operation, income int) {
	codes := s.Sale
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
	return s.Purchase
}
