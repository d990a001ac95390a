package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// amount is in 1e-8 USD.
type amount int64

const usd amount = 1e8

func (a *amount) UnmarshalJSON(text []byte) error {
	whole, part, _ := strings.Cut(string(text), ".")
	if len(part) > 8 {
		return fmt.Errorf("%s has more than 8 decimals", text)
	}
	n, err := strconv.ParseInt(whole+part+strings.Repeat("0", 8-len(part)), 10, 64)
	*a = amount(n)
	return err
}

func (a amount) MarshalJSON() ([]byte, error) {
	text := strconv.AppendInt(nil, int64(a/usd), 10)
	if part := a % usd; part != 0 {
		text = append(text, strings.TrimRight(fmt.Sprintf(".%08d", part), "0")...)
	}
	return text, nil
}

// A sale is what a till sends: whole quantities, prices with VAT in them.
type sale struct {
	Receptor struct {
		Name         string `json:"nombre"`
		DocumentType string `json:"tipoDocumento"`
		Document     string `json:"numDocumento"`
		Mail         string `json:"correo"`
	} `json:"receptor"`
	Items []struct {
		Code        string `json:"codigo"`
		Description string `json:"descripcion"`
		Quantity    int64  `json:"cantidad"`
		Price       amount `json:"precioUnitario"`
		Discount    amount `json:"montoDescu"`
	} `json:"items"`
	Condition int `json:"condicionOperacion"`
}

// A document has the members of MH's consumer invoice; members that such a sale does not use stay as they are in the
// form.
type document struct {
	Identificacion struct {
		Version     int             `json:"version"`
		Ambiente    string          `json:"ambiente"`
		Type        string          `json:"tipoDte"`
		Number      string          `json:"numeroControl"`
		Code        string          `json:"codigoGeneracion"`
		Model       int             `json:"tipoModelo"`
		Operation   int             `json:"tipoOperacion"`
		Contingency json.RawMessage `json:"tipoContingencia"`
		Reason      json.RawMessage `json:"motivoContin"`
		Date        string          `json:"fecEmi"`
		Time        string          `json:"horEmi"`
		Currency    string          `json:"tipoMoneda"`
	} `json:"identificacion"`
	Related json.RawMessage `json:"documentoRelacionado"`
	Emisor  struct {
		NIT           string          `json:"nit"`
		NRC           string          `json:"nrc"`
		Name          string          `json:"nombre"`
		Activity      string          `json:"codActividad"`
		ActivityText  string          `json:"descActividad"`
		TradeName     json.RawMessage `json:"nombreComercial"`
		Address       json.RawMessage `json:"direccion"`
		Telephone     string          `json:"telefono"`
		Mail          string          `json:"correo"`
		Establishment string          `json:"codEstable"`
		Point         string          `json:"codPuntoVenta"`
	} `json:"emisor"`
	Receptor struct {
		DocumentType string          `json:"tipoDocumento"`
		Document     string          `json:"numDocumento"`
		NRC          json.RawMessage `json:"nrc"`
		Name         string          `json:"nombre"`
		Activity     json.RawMessage `json:"codActividad"`
		ActivityText json.RawMessage `json:"descActividad"`
		Address      json.RawMessage `json:"direccion"`
		Telephone    json.RawMessage `json:"telefono"`
		Mail         string          `json:"correo"`
	} `json:"receptor"`
	Others     json.RawMessage `json:"otrosDocumentos"`
	ThirdParty json.RawMessage `json:"ventaTercero"`
	Lines      []line          `json:"cuerpoDocumento"`
	Resumen    struct {
		NotSubject         amount          `json:"totalNoSuj"`
		Exempt             amount          `json:"totalExenta"`
		Taxed              amount          `json:"totalGravada"`
		Sales              amount          `json:"subTotalVentas"`
		DiscountNotSubject amount          `json:"descuNoSuj"`
		DiscountExempt     amount          `json:"descuExenta"`
		DiscountTaxed      amount          `json:"descuGravada"`
		DiscountPercent    amount          `json:"porcentajeDescuento"`
		Discount           amount          `json:"totalDescu"`
		Taxes              json.RawMessage `json:"tributos"`
		SubTotal           amount          `json:"subTotal"`
		Withheld           amount          `json:"ivaRete"`
		Total              amount          `json:"montoTotalOperacion"`
		Untaxed            amount          `json:"totalNoGravado"`
		ToPay              amount          `json:"totalPagar"`
		// copied from the form: all sales of the measurement have one total
		Words      string          `json:"totalLetras"`
		VAT        amount          `json:"totalIva"`
		Balance    amount          `json:"saldoFavor"`
		Condition  int             `json:"condicionOperacion"`
		Payments   []payment       `json:"pagos"`
		Electronic json.RawMessage `json:"numPagoElectronico"`
		Remarks    json.RawMessage `json:"observaciones"`
	} `json:"resumen"`
	Appendix json.RawMessage `json:"apendice"`
}

type line struct {
	Number      int             `json:"numItem"`
	Type        int             `json:"tipoItem"`
	Related     json.RawMessage `json:"numeroDocumento"`
	Quantity    int64           `json:"cantidad"`
	Code        string          `json:"codigo"`
	Tax         json.RawMessage `json:"codTributo"`
	Unit        int             `json:"uniMedida"`
	Description string          `json:"descripcion"`
	Price       amount          `json:"precioUni"`
	Discount    amount          `json:"montoDescu"`
	NotSubject  amount          `json:"ventaNoSuj"`
	Exempt      amount          `json:"ventaExenta"`
	Taxed       amount          `json:"ventaGravada"`
	Taxes       json.RawMessage `json:"tributos"`
	Suggested   amount          `json:"psv"`
	Untaxed     amount          `json:"noGravado"`
	VAT         amount          `json:"ivaItem"`
}

type payment struct {
	Code      string          `json:"codigo"`
	Amount    amount          `json:"montoPago"`
	Reference json.RawMessage `json:"referencia"`
	Term      json.RawMessage `json:"plazo"`
	Period    json.RawMessage `json:"periodo"`
}

// of fills a copy of the form with a sale.
func (form document) of(s *sale) (*document, error) {
	d := &form
	d.Receptor.Name, d.Receptor.DocumentType, d.Receptor.Document, d.Receptor.Mail = s.Receptor.Name,
		s.Receptor.DocumentType, s.Receptor.Document, s.Receptor.Mail
	d.Lines = make([]line, len(s.Items))
	var total, discount, vat amount
	for i, item := range s.Items {
		taxed := amount(item.Quantity)*item.Price - item.Discount
		if item.Quantity <= 0 || taxed < 0 {
			return nil, fmt.Errorf("items[%d]: no such sale", i)
		}
		within := (taxed*13*2 + 113) / (113 * 2) // half up
		d.Lines[i] = line{Number: i + 1, Type: 1, Quantity: item.Quantity, Code: item.Code, Unit: 59,
			Description: item.Description, Price: item.Price, Discount: item.Discount, Taxed: taxed, VAT: within}
		total, discount, vat = total+taxed, discount+item.Discount, vat+within
	}
	total, vat = cents(total), cents(vat)
	r := &d.Resumen
	r.Taxed, r.Sales, r.SubTotal, r.Total, r.ToPay, r.Discount, r.VAT = total, total, total, total, total, discount, vat
	r.Condition, r.Payments = s.Condition, []payment{{Code: "01", Amount: total}}
	return d, nil
}

// cents rounds half up.
func cents(a amount) amount { return (a + usd/200) / (usd / 100) * (usd / 100) }
