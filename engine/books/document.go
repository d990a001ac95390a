package books

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"dtegate/engine/dte"

	"github.com/shopspring/decimal"
)

// Document is the present state of a stored document. Its JSON is that of GET /admin/books.
type Document struct {
	Code          string `json:"codigoGeneracion"` // upper case, with hyphens
	ControlNumber string `json:"numeroControl"`    // of a return (18): the branch's own number, not MH's
	Type          string `json:"tipoDte"`          // CAT-002
	State         string `json:"estado"`           // as the API names it; "" without an outcome
	Date          string `json:"fecEmi"`           // yyyy-mm-dd
	Total         string `json:"total"`            // USD, as GET /dte/documentos shows it
	Seal          string `json:"selloRecibido"`
	Branch        int64  `json:"sucursal"` // id of the branch that issued it
	// Deferred: the document was issued in contingency, so the customer has it even if MH rejects it.
	Deferred bool `json:"contingencia,omitempty"`
	// Invalidated is the day of the invalidation's event, yyyy-mm-dd in El Salvador; "" without an invalidation.
	Invalidated string `json:"invalidado,omitempty"`
	Refusal     string `json:"rechazo,omitempty"` // MH's reason for rejecting the document
	JSON        []byte `json:"payload"`           // the signed bytes, empty if the box lost them
	// Unproven: the signature was checked, and none of the given certificates made it.
	Unproven bool `json:"-"`
}

// States of a document, as the API names them.
const (
	processed   = "PROCESSED"
	rejected    = "REJECTED"
	contingency = "CONTINGENCIA"
	invalidated = "INVALIDATED"
)

// content is the part of a signed document that the books use, for both generations of MH's schemas. An absent amount
// counts as 0.
type content struct {
	Identificacion struct {
		Ambiente         string `json:"ambiente"`
		CodigoGeneracion string `json:"codigoGeneracion"`
		FecEmi           string `json:"fecEmi"`
		HorEmi           string `json:"horEmi"`
		Type             string `json:"tipoDte"`
		Event            string `json:"tipoEvento"` // "18", instead of the type
		Control          string `json:"numeroControl"`
	} `json:"identificacion"`
	Emisor Issuer `json:"emisor"`
	// Third is the third party for whom the taxpayer sells. In annex 2, only types 01 and 11 have it; in 01 it is null.
	Third *struct {
		Name     string `json:"nombre"`
		Domicile int    `json:"codDomiciliado"` // CAT-032: 2 is abroad; absent in 11 v1
	} `json:"ventaTercero"`
	Donatario      *Issuer   `json:"donatario"` // the issuer in 15 v1
	Receptor       *party    `json:"receptor"`
	SujetoExcluido *party    `json:"sujetoExcluido"` // only in 14 v1
	Donante        *party    `json:"donante"`        // only in 15 v1
	Relacionados   []related `json:"documentoRelacionado"`
	Cuerpo         items     `json:"cuerpoDocumento"`
	Resumen        totals    `json:"resumen"`
}

// items are the lines of a document; a 09 has a single object instead of a list.
type items []item

func (l *items) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		*l = make(items, 1)
		return json.Unmarshal(b, &(*l)[0])
	}
	return json.Unmarshal(b, (*[]item)(l))
}

// Issuer is the taxpayer as named in its documents.
type Issuer struct {
	NIT     string `json:"nit"`
	Number  string `json:"numDocumento"`  // in 15 instead of the NIT
	NRC     string `json:"nrc"`           // absent in returns (18)
	Exports int    `json:"tipoItemExpor"` // the kind of item of an export invoice (11): 1 goods, 2 services, 3 both
	Name    string `json:"nombre"`
}

// party is a receptor. Some types have a nit, the others a kind of identity document (CAT-022) and its number.
type party struct {
	NIT          string `json:"nit"`
	DocumentType string `json:"tipoDocumento"`
	Number       string `json:"numDocumento"`
	NRC          string `json:"nrc"`
	Country      string `json:"codPais"` // CAT-020, only in 11
	Name         string `json:"nombre"`
}

type related struct {
	Type string `json:"tipoDocumento"`
	Code string `json:"codigoGeneracion"` // only in 18; notes have the number instead
}

type item struct {
	Kind       int             `json:"tipoItem"` // CAT-011
	NonSubject decimal.Decimal `json:"ventaNoSuj"`
	Exempt     decimal.Decimal `json:"ventaExenta"`
	Taxed      decimal.Decimal `json:"ventaGravada"`
	Purchase   decimal.Decimal `json:"compra"`
	// Only in 07.
	Base      decimal.Decimal `json:"montoSujetoGrav"`
	Retention string          `json:"codigoRetencionMH"` // CAT-006: 22 is 1 %, C4 is 13 %
	Retained  decimal.Decimal `json:"ivaRetenido"`
	// Only in 09.
	PerceivedBase decimal.Decimal `json:"montoSujetoPercepcion"`
	Perceived     decimal.Decimal `json:"ivaPercibido"`
}

type totals struct {
	NonSubject         decimal.Decimal `json:"totalNoSuj"`
	Exempt             decimal.Decimal `json:"totalExenta"`
	Taxed              decimal.Decimal `json:"totalGravada"`
	DiscountNonSubject decimal.Decimal `json:"descuNoSuj"`
	DiscountExempt     decimal.Decimal `json:"descuExenta"`
	DiscountTaxed      decimal.Decimal `json:"descuGravada"`
	Taxes              []tax           `json:"tributos"`
	SubTotal           decimal.Decimal `json:"subTotal"`
	Perceived          decimal.Decimal `json:"ivaPerci"`
	Perceived1         decimal.Decimal `json:"ivaPerci1"` // name in the previous generation
	Retained           decimal.Decimal `json:"ivaRete"`
	Retained1          decimal.Decimal `json:"ivaRete1"`
	IncomeTax          decimal.Decimal `json:"reteRenta"`
	VAT                decimal.Decimal `json:"totalIva"` // only in 01 and 18: included in the prices
	NonTaxed           decimal.Decimal `json:"totalNoGravado"`
	Discount           decimal.Decimal `json:"descuento"` // only in 11 v1
	Insurance          decimal.Decimal `json:"seguro"`    // only in 11
	Freight            decimal.Decimal `json:"flete"`
	Excluded           decimal.Decimal `json:"totalCompraExcluidos"` // only in 18
}

type tax struct {
	Code  string          `json:"codigo"` // CAT-015
	Value decimal.Decimal `json:"valor"`
}

// sealed is a document with its amounts as the books count them: all positive, after global discounts.
type sealed struct {
	Document `json:"-"`
	content
	hour          string
	establishment string // "S001", from the control number
	item          int    // CAT-011: the kind with the largest amount
	customer      *party

	// These texts have the form of the annexes.
	day, control, code, name string

	exempt, nonSubject, taxed decimal.Decimal
	vat                       decimal.Decimal // added to the prices in 03, 05 and 06, included in 01 and 18
	perceived, retained       decimal.Decimal
	otherTaxes, nonTaxed      decimal.Decimal
	incomeTax, purchase       decimal.Decimal
	total                     decimal.Decimal // the amount paid; in 07 the amount withheld
}

// ErrAltered means that a document is not the one that the issuer signed under this code.
var ErrAltered = errors.New("not as it was signed")

// read decodes a document and compares its code, date, type and control number with the record's. Error: ErrAltered.
func read(doc Document) (*sealed, error) {
	d := &sealed{Document: doc}
	name := doc.Code + ", " + doc.ControlNumber
	wrong := func(err error) (*sealed, error) { return nil, fmt.Errorf("document %s: %w", name, err) }
	id := &d.Identificacion
	if len(doc.JSON) == 0 { // lost: the record has the date and the total
		id.CodigoGeneracion, id.FecEmi, id.HorEmi = doc.Code, doc.Date, "00:00:00"
		id.Type, id.Control = doc.Type, doc.ControlNumber
	} else if doc.Unproven {
		return wrong(fmt.Errorf("%w: none of the certificates made its signature", ErrAltered))
	} else if err := json.Unmarshal(doc.JSON, &d.content); err != nil {
		return wrong(err)
	}
	recorded := [...]string{doc.Code, doc.Date, doc.Type, doc.ControlNumber}
	// A return (18) has no control number of MH's.
	number := cmp.Or(id.Control, doc.ControlNumber)
	if signed := [...]string{id.CodigoGeneracion, id.FecEmi, cmp.Or(id.Type, id.Event), number}; recorded != signed {
		return wrong(fmt.Errorf("%w: its record says %v, its signed bytes say %v", ErrAltered, recorded, signed))
	}
	var err error
	if d.total, err = decimal.NewFromString(doc.Total); err != nil {
		return wrong(fmt.Errorf("total: %w", err))
	}
	if len(doc.ControlNumber) == 31 { // DTE-01-M001P001-000000000000001
		d.establishment = doc.ControlNumber[7:11]
	}
	d.count()
	return d, nil
}

// informative are the taxes of CAT-015 that the summary shows but that are not paid with the document.
const informative = "C5 C6 C7"

// count sets the fields of d that the rows are made from.
func (d *sealed) count() {
	d.hour = d.Identificacion.HorEmi
	if len(d.hour) == 7 { // MH's schema allows a single digit of seconds
		d.hour = d.hour[:6] + "0" + d.hour[6:]
	}
	d.Emisor = *cmp.Or(d.Donatario, &d.Emisor)
	d.Emisor.NIT = cmp.Or(d.Emisor.NIT, d.Emisor.Number)
	d.customer = cmp.Or(d.Receptor, d.SujetoExcluido, d.Donante, &party{})
	d.day, d.control, d.code, d.name = day(d.Date), plain(d.ControlNumber), plain(d.Code), text(d.customer.Name)
	r := &d.Resumen
	d.exempt, d.nonSubject, d.taxed = r.Exempt.Sub(r.DiscountExempt), r.NonSubject.Sub(r.DiscountNonSubject),
		r.Taxed.Sub(r.DiscountTaxed)
	if d.Type == "01" || d.Type == "18" {
		d.vat = r.VAT
	}
	for _, t := range r.Taxes {
		switch {
		case t.Code == dte.VAT:
			d.vat = d.vat.Add(t.Value)
		case !strings.Contains(informative, t.Code):
			d.otherTaxes = d.otherTaxes.Add(t.Value)
		}
	}
	d.perceived, d.retained = r.Perceived.Add(r.Perceived1), r.Retained.Add(r.Retained1)
	d.incomeTax, d.nonTaxed = r.IncomeTax, r.NonTaxed
	switch d.Type {
	case "11": // insurance and freight belong to the operation, at the same zero rate
		d.taxed = d.taxed.Sub(r.Discount).Add(r.Insurance).Add(r.Freight)
	case "14":
		d.purchase = r.SubTotal
	case "18":
		d.purchase = r.Excluded
	}
	kinds := make(map[int]decimal.Decimal)
	for i := range d.Cuerpo {
		it := &d.Cuerpo[i]
		if d.Type == "07" {
			d.retained = d.retained.Add(it.Retained)
		}
		kinds[it.Kind] = kinds[it.Kind].Add(it.Exempt).Add(it.NonSubject).Add(it.Taxed).Add(it.Purchase)
	}
	for kind, amount := range kinds {
		if best := kinds[d.item]; d.item == 0 || amount.GreaterThan(best) || amount.Equal(best) && kind < d.item {
			d.item = kind
		}
	}
}

// retentions returns the sums of a withholding voucher's lines for each code of CAT-006: the bases and the VAT.
func (d *sealed) retentions() (bases, amounts map[string]decimal.Decimal) {
	bases, amounts = make(map[string]decimal.Decimal), make(map[string]decimal.Decimal)
	for i := range d.Cuerpo {
		code := d.Cuerpo[i].Retention
		bases[code], amounts[code] = bases[code].Add(d.Cuerpo[i].Base), amounts[code].Add(d.Cuerpo[i].Retained)
	}
	return bases, amounts
}
