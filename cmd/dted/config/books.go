package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// Books is what dtectl books cannot read from the documents (F-07 v14). Zero values take the defaults in brackets.
type Books struct {
	// Operation and Income are the types of operation (by the document's amounts) and of income (3) for the income tax.
	Operation int `toml:"operation"`
	Income    int `toml:"income"`
	// ConsumerRows is "taxpayer" (default) or "establishment": one row a day of which in annex 2.
	ConsumerRows string `toml:"consumer_rows"`
	// Returns is "summary" (default) or "annex2": where returns of invoices go, beside the book of consumers.
	Returns string `toml:"returns"`
	// DayHyphens (false) writes the codes of annex 2 with hyphens; CancelledHyphens (true) those of the invalidated.
	DayHyphens       bool  `toml:"day_hyphens"`
	CancelledHyphens *bool `toml:"cancelled_hyphens"`
	// Encoding of the annexes is "utf-8" (default) or "windows-1252".
	Encoding string `toml:"encoding"`
	// Sale and Purchase give other codes to some documents; the first that fits decides.
	Sale     []BooksSale     `toml:"sale"`
	Purchase []BooksPurchase `toml:"purchase"`
}

// BooksSale gives codes to the sales of an establishment, of a kind of item (CAT-011), or of both.
type BooksSale struct {
	Establishment string `toml:"establishment"`
	Item          int    `toml:"item"`
	Operation     int    `toml:"operation"`
	Income        int    `toml:"income"`
}

// BooksPurchase does so for purchases from excluded subjects.
type BooksPurchase struct {
	Establishment  string `toml:"establishment"`
	Item           int    `toml:"item"`
	Operation      int    `toml:"operation"`
	Classification int    `toml:"classification"`
	Sector         int    `toml:"sector"`
	Cost           int    `toml:"cost"`
}

var isEstablishment = regexp.MustCompile(`^[MBSP][0-9]{3}$`)

// check refuses codes that the manual of the F-07 v14 does not list.
func (b *Books) check() error {
	var faults []error
	one := func(name string, value int, of ...int) {
		if value != 0 && !slices.Contains(of, value) {
			faults = append(faults, fmt.Errorf("%s: is %d, must be one of %v", name, value, of))
		}
	}
	word := func(name, value string, of ...string) {
		if value != "" && !slices.Contains(of, value) {
			faults = append(faults, fmt.Errorf("%s: is %q, must be one of %q", name, value, of))
		}
	}
	whose := func(name, establishment string, item int) {
		if establishment != "" && !isEstablishment.MatchString(establishment) {
			faults = append(faults, fmt.Errorf("%s.establishment: is %q, must be like \"S001\"", name, establishment))
		}
		one(name+".item", item, 1, 2, 3, 4)
	}
	sale := func(name string, operation, income int) {
		one(name+".operation", operation, 1, 2, 3, 4, 12, 13)
		one(name+".income", income, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13)
	}
	sale("books", b.Operation, b.Income)
	word("books.consumer_rows", b.ConsumerRows, "taxpayer", "establishment")
	word("books.returns", b.Returns, "summary", "annex2")
	word("books.encoding", b.Encoding, "utf-8", "windows-1252")
	for i, s := range b.Sale {
		name := fmt.Sprintf("books.sale[%d]", i)
		whose(name, s.Establishment, s.Item)
		sale(name, s.Operation, s.Income)
	}
	for i, p := range b.Purchase {
		name := fmt.Sprintf("books.purchase[%d]", i)
		whose(name, p.Establishment, p.Item)
		one(name+".operation", p.Operation, 1, 2, 3, 4, 8, 9)
		one(name+".classification", p.Classification, 1, 2, 8, 9)
		one(name+".sector", p.Sector, 1, 2, 3, 4, 8, 9)
		one(name+".cost", p.Cost, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	}
	return errors.Join(faults...)
}

// LoadBooks reads [books] of a configuration, of which nothing else need be there: whoever makes books of backups has
// no box.
func LoadBooks(path string) (*Books, error) {
	c := new(Config)
	if err := read(path, c); err != nil {
		return nil, err
	}
	if err := invalid(path, c.Books.check()); err != nil {
		return nil, err
	}
	return &c.Books, nil
}
