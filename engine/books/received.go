package books

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"
)

// What others issued to the taxpayer: each file is the JSON of one document (the "archivo DTE") as a supplier mails it.
// Where it goes:
//
//	03, 05, 06        anexo03 (pp. 11 to 15); with perception anexo08 too (p. 33)
//	07 of 1 % (22)    anexo07 (p. 31); other rates are named
//	09                anexo06, the 2 % that the liquidator took (p. 28)
//	the rest          none; named in resumen.json with why

// The annexes of what was received.
var (
	annex03 = annex("anexo03.csv", "GHIJKLMNO", Column{Name: "Fecha de emisión del documento", Page: 11},
		Column{Name: "Clase de documento", Page: 11},
		Column{Name: "Tipo de documento", Page: 12}, Column{Name: "Número de documento", Page: 12},
		Column{Name: "NIT o NRC del proveedor", Page: 12},
		Column{Name: "Nombre del proveedor", Page: 12}, Column{Name: "Compras internas exentas y/o no sujetas",
			Page: 12},
		Column{Name: "Internaciones exentas y/o no sujetas", Page: 12},
		Column{Name: "Importaciones exentas y/o no sujetas", Page: 12},
		Column{Name: "Compras internas gravadas", Page: 13}, Column{Name: "Internaciones gravadas de bienes", Page: 13},
		Column{Name: "Importaciones gravadas de bienes", Page: 13}, Column{Name: "Importaciones gravadas de servicios",
			Page: 13},
		Column{Name: "Crédito fiscal", Page: 13}, Column{Name: "Total de compras", Page: 13},
		Column{Name: "DUI del proveedor", Page: 13},
		Column{Name: "Tipo de operación (Renta)", Page: 13}, Column{Name: "Clasificación (Renta)", Page: 14},
		Column{Name: "Sector (Renta)", Page: 14},
		Column{Name: "Tipo de costo / gasto (Renta)", Page: 14}, Column{Name: "Número de anexo", Page: 14}).withNotes(2)
	annex06 = annex("anexo06.csv", "EF", Column{Name: "NIT agente", Page: 27},
		Column{Name: "Fecha de emisión del documento", Page: 27},
		Column{Name: "Serie de documento", Page: 27}, Column{Name: "Número de documento", Page: 27},
		Column{Name: "Monto sujeto", Page: 27},
		Column{Name: "Monto del anticipo a cuenta 2% de IVA", Page: 28}, Column{Name: "DUI agente", Page: 28},
		Column{Name: "Número de anexo", Page: 28})
	annex07 = annex("anexo07.csv", "FG", Column{Name: "NIT agente", Page: 30}, Column{Name: "Fecha de emisión",
		Page: 30},
		Column{Name: "Tipo de documento", Page: 30}, Column{Name: "Serie", Page: 30},
		Column{Name: "Número de documento", Page: 31},
		Column{Name: "Monto sujeto", Page: 31}, Column{Name: "Monto de la retención 1%", Page: 31},
		Column{Name: "DUI agente", Page: 31},
		Column{Name: "Número de anexo", Page: 31})
	annex08 = annex("anexo08.csv", "FG", Column{Name: "NIT agente", Page: 33},
		Column{Name: "Fecha de emisión del documento", Page: 33},
		Column{Name: "Tipo de documento", Page: 33}, Column{Name: "Serie de documento", Page: 33},
		Column{Name: "Número de documento", Page: 33},
		Column{Name: "Monto sujeto", Page: 34}, Column{Name: "Monto de la percepción", Page: 34},
		Column{Name: "DUI agente", Page: 34},
		Column{Name: "Número de anexo", Page: 34}).withNotes(2)
)

var receivedLayouts = []*layout{annex03, annex06, annex07, annex08}

// Addressee is the taxpayer whose documents are expected. Test: they are of the test ambiente.
type Addressee struct {
	NIT, NRC string
	Test     bool
}

// received is what a document of a supplier has beside what the books read of every document.
type received struct {
	Identificacion struct {
		Tipo    string `json:"tipoDte"`
		Control string `json:"numeroControl"`
	} `json:"identificacion"`
	Seal      string `json:"selloRecibido"`
	Signature string `json:"firmaElectronica"`
}

// liquidation is the body of a 09: one object.
type liquidation struct {
	Body struct {
		Base      decimal.Decimal `json:"montoSujetoPercepcion"`
		Perceived decimal.Decimal `json:"ivaPercibido"`
	} `json:"cuerpoDocumento"`
}

// elsewhereReceived is why documents of suppliers are in no file, by type.
var elsewhereReceived = map[string]string{
	"01": "factura de consumidor final: no da crédito fiscal; el gasto se anota a mano",
	"04": "nota de remisión: acompaña bienes; la compra se declara con su comprobante",
	"08": "comprobante de liquidación: son ventas propias por medio de un tercero; se declaran a mano",
	"11": "factura de exportación: solo un usuario de zona franca o DPA la anota aquí (p. 12), a mano",
	"14": "sujeto excluido: la emite quien compra",
	"15": "comprobante de donación: da derecho en la renta, no en el IVA",
}

var (
	codeForm    = regexp.MustCompile(`^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$`)
	controlForm = regexp.MustCompile(`^DTE-[0-9]{2}-[A-Z0-9]{8}-[0-9]{15}$`)
)

// Receive adds the file of a document that a supplier issued to the taxpayer. What cannot be placed is named in
// resumen.json with why; an error is the disk's.
func (b *Book) Receive(name string, data []byte, to Addressee) error {
	d, p := b.placeReceived(data, to)
	if amount := p.widestCell(); amount != "" {
		*p = placement{motive: "lleva " + amount + ", y una columna de los anexos admite hasta 9999999999.99: " +
			"declárelo a mano"}
	}
	entry := ReceivedFile{File: name, Code: d.Code, Type: d.Type, Date: d.Date, Files: p.names, Motive: p.motive,
		Notes: p.notes}
	b.received = append(b.received, entry)
	o, err := orderOf(d, d.Date)
	if err != nil && p.motive == "" {
		b.received[len(b.received)-1] = ReceivedFile{File: name, Code: d.Code, Type: d.Type,
			Motive: "su fecha u hora no es válida"}
		return nil
	}
	for i, r := range p.rows {
		o.tie = uint8(i)
		if err := b.put(r.file, o, r.cells); err != nil {
			return err
		}
		b.files[r.file].documents++
	}
	return nil
}

// ReceivedFile is a file of a supplier in resumen.json.
type ReceivedFile struct {
	File   string   `json:"archivo"`
	Code   string   `json:"codigoGeneracion,omitempty"`
	Type   string   `json:"tipo,omitempty"`
	Date   string   `json:"fecEmi,omitempty"`
	Files  []string `json:"anexos,omitempty"`
	Motive string   `json:"motivo,omitempty"` // why it is in no file
	Notes  []string `json:"avisos,omitempty"`
}

// Received returns the files of suppliers, in the order in which they came; nil when none were read.
func (b *Book) Received() []ReceivedFile { return b.received }

// placeReceived reads a file and decides where it goes.
func (b *Book) placeReceived(data []byte, to Addressee) (*sealed, *placement) {
	d, p := new(sealed), new(placement)
	no := func(format string, args ...any) (*sealed, *placement) {
		p.motive = fmt.Sprintf(format, args...)
		return d, p
	}
	var head received
	if err := json.Unmarshal(data, &head); err != nil {
		return no("no es el JSON de un documento: %s", text(err.Error()))
	}
	d.Type, d.Seal, d.ControlNumber = head.Identificacion.Tipo, head.Seal, head.Identificacion.Control
	var body liquidation
	if d.Type == "09" { // its body is one object, all others have a list
		if err := json.Unmarshal(data, &body); err != nil {
			return no("no tiene la forma de un 09: %s", text(err.Error()))
		}
		var whole map[string]json.RawMessage
		_ = json.Unmarshal(data, &whole)
		delete(whole, "cuerpoDocumento")
		data, _ = json.Marshal(whole)
	}
	if err := json.Unmarshal(data, &d.content); err != nil {
		return no("no tiene la forma de un documento: %s", text(err.Error()))
	}
	id := &d.Identificacion
	d.Code, d.Date, d.hour = id.CodigoGeneracion, id.FecEmi, twoDigits(id.HorEmi)
	if d.customer = d.Receptor; d.customer == nil {
		d.customer = &party{}
	}
	nit, dui := d.customer.identity()
	switch {
	case !codeForm.MatchString(d.Code) || !controlForm.MatchString(d.ControlNumber) || d.Type == "":
		return no("le falta o no es válido tipoDte, codigoGeneracion o numeroControl")
	case d.ControlNumber[4:6] != d.Type:
		return no("su numeroControl es de un %s", d.ControlNumber[4:6])
	case digits(nit+dui) != digits(to.NIT) && (to.NRC == "" || digits(d.customer.NRC) != digits(to.NRC)):
		return no("está a nombre de otro: %s", text(d.customer.Name))
	case (id.Ambiente != "01") != to.Test:
		return no("es del ambiente %s", text(id.Ambiente))
	case !strings.HasPrefix(d.Date, b.o.Month):
		return no("es de %s; el anexo 3 admite documentos de hasta tres períodos antes (p. 11), a mano", text(d.Date))
	case len(d.Seal) != 40:
		return no("no lleva el sello de recepción: pídalo al proveedor, o véalo en la consulta pública de Hacienda")
	}
	if at := slices.IndexFunc(b.received, func(r ReceivedFile) bool {
		return r.Code == d.Code &&
			r.Motive == ""
	}); at >= 0 {
		return no("es el mismo documento que %s", b.received[at].File)
	}
	switch err := signedAs(head.Signature, data, d.Type); {
	case head.Signature == "":
		p.note("no lleva firma electrónica: compruébelo en la consulta pública de Hacienda")
	case err != nil:
		return no("%s", err)
	}
	d.count()
	d.establishment = "" // the supplier's, not one of the taxpayer
	switch d.Type {
	case "03", "05", "06":
		p.bought(d, &b.o.Settings)
	case "07":
		p.withheldFrom(d)
	case "09":
		nit, dui := supplier(d)
		if !body.Body.Perceived.IsPositive() {
			return no("no percibe el 2 %%: no hay anticipo que declarar")
		}
		p.add(annex06, nit, day(d.Date), d.Seal, plain(d.Code), money(body.Body.Base), money(body.Body.Perceived), dui,
			"6")
	default:
		p.motive = elsewhereReceived[d.Type]
		if p.motive == "" {
			p.motive = "ningún anexo lleva el tipo " + text(d.Type)
		}
	}
	return d, p
}

// signedAs compares the document with what its signature bears. Nobody checks the signature itself: suppliers' keys are
// not known here.
func signedAs(jws string, data []byte, kind string) error {
	if jws == "" {
		return nil
	}
	parts := strings.Split(jws, ".")
	var signed, shown map[string]any
	if len(parts) != 3 {
		return fmt.Errorf("su firmaElectronica no es una firma (JWS)")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &signed) != nil || json.Unmarshal(data, &shown) != nil {
		return fmt.Errorf("su firmaElectronica no lleva un documento")
	}
	for _, name := range []string{"firmaElectronica", "selloRecibido"} {
		delete(shown, name)
	}
	if kind == "09" {
		delete(signed, "cuerpoDocumento")
	}
	// suppliers add members of their own to the file: they are not signed, and nothing reads them
	for name, v := range signed {
		if !reflect.DeepEqual(v, shown[name]) {
			return fmt.Errorf("lo firmado no es lo que dice el archivo: difieren en %s", text(name))
		}
	}
	return nil
}

// supplier is who issued a document, as the annexes name people: a NIT of 14 digits, or a DUI.
func supplier(d *sealed) (nit, dui string) {
	number := digits(d.Emisor.NIT)
	if len(number) == 9 {
		return "", number
	}
	return number, ""
}

// bought places a voucher or note of a supplier.
func (p *placement) bought(d *sealed, s *Settings) {
	nit, dui := supplier(d)
	codes := s.purchase(d)
	other := d.exempt.Add(d.nonSubject)
	p.add(annex03, day(d.Date), class, d.Type, plain(d.Code), nit, text(d.Emisor.Name), money(other), "0.00", "0.00",
		money(d.taxed),
		"0.00", "0.00", "0.00", money(d.vat), money(other.Add(d.taxed)), dui,
		strconv.Itoa(codes.Operation), strconv.Itoa(codes.Classification), strconv.Itoa(codes.Sector),
		strconv.Itoa(codes.Cost), "3")
	if due := d.taxed.Mul(decimal.New(13, -2)); due.Sub(d.vat).Abs().GreaterThan(decimal.New(1, -2)) {
		p.note("su IVA es %s, y el 13 %% de lo gravado es %s (columna N, p. 13)", money(d.vat), money(due))
	}
	if d.otherTaxes.IsPositive() {
		p.note("lleva %s de otros tributos, que el anexo 3 no tiene", money(d.otherTaxes))
	}
	if d.perceived.IsPositive() {
		p.add(annex08, nit, day(d.Date), d.Type, d.Seal, plain(d.Code), money(d.taxed), money(d.perceived), dui, "8")
	}
}

// withheldFrom places a voucher of a customer that withheld VAT of the taxpayer.
func (p *placement) withheldFrom(d *sealed) {
	nit, dui := supplier(d)
	bases, amounts := d.retentions()
	for _, code := range slices.Sorted(maps.Keys(bases)) {
		if code == "22" {
			p.add(annex07, nit, day(d.Date), "07", d.Seal, plain(d.Code), money(bases[code]), money(amounts[code]), dui,
				"7")
		} else {
			p.note("retiene %s con el código %s: el anexo 7 lleva solo el 1 %%; se declara a mano",
				money(amounts[code]), text(code))
		}
	}
	if len(p.rows) == 0 {
		p.motive = strings.Join(p.notes, "; ")
		p.notes = nil
	}
}

// Addressee returns the taxpayer whose documents were added; false before the first.
func (b *Book) Addressee() (Addressee, bool) {
	return Addressee{NIT: b.issuer.NIT, NRC: b.issuer.NRC, Test: b.test}, b.issuer.NIT != ""
}
