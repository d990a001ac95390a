package books

import (
	"cmp"
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

	"dtegate/engine/dte"
)

// Documents that others issued to the taxpayer: each file is the JSON of one document (the "archivo DTE") that a
// supplier mails. The files of each document:
//
//	03, 05, 06        anexo03 (pp. 12 to 15); with perception anexo08 too (p. 34)
//	07 of 1 % (22)    anexo07 (p. 31); other rates: named in resumen.json
//	09                anexo06, the 2 % that the liquidator took (p. 28)
//	the rest          none; named in resumen.json with the reason

// Addressee is the taxpayer whose documents are expected. Test: the documents are of the test ambiente.
type Addressee struct {
	NIT, NRC string
	Test     bool
}

var elsewhereReceived = map[string]string{
	"01": "factura de consumidor final: no da crédito fiscal; el gasto se anota a mano",
	"04": "nota de remisión: acompaña bienes; la compra se declara con su comprobante",
	"08": "comprobante de liquidación: son ventas propias por medio de un tercero; se declaran a mano",
	"11": "factura de exportación: solo un usuario de zona franca o DPA la anota aquí (p. 13), a mano",
	"14": "sujeto excluido: la emite quien compra",
	"15": "comprobante de donación: da derecho en la renta, no en el IVA",
}

var (
	codeForm    = regexp.MustCompile(`^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$`)
	controlForm = regexp.MustCompile(`^DTE-[0-9]{2}-[A-Z0-9]{8}-[0-9]{15}$`)
	sealForm    = regexp.MustCompile(`^[A-Z0-9]{40}$`)
)

// Receive adds the file of a document that a supplier issued to the taxpayer. resumen.json names each file that cannot
// be placed, and why. Receive writes no file; it fails only if a row's amount is no number.
func (b *Book) Receive(name string, data []byte, to Addressee) error {
	d, p := b.placeReceived(data, to)
	p = p.limit()
	entry := ReceivedFile{File: name, Code: d.Code, Type: d.Type, Date: d.Date, Motive: p.motive, Notes: p.notes}
	o, _ := orderOf(d, d.Date) // placeReceived has checked the hour
	for _, l := range p.files {
		entry.Files = append(entry.Files, l.Name)
	}
	b.received = append(b.received, entry)
	return b.addPlacement(o, p)
}

// ReceivedFile is a file of a supplier in resumen.json.
type ReceivedFile struct {
	File   string   `json:"archivo"`
	Code   string   `json:"codigoGeneracion,omitempty"`
	Type   string   `json:"tipo,omitempty"`
	Date   string   `json:"fecEmi,omitempty"`
	Files  []string `json:"anexos,omitempty"`
	Motive string   `json:"motivo,omitempty"` // why the document is in no file
	Notes  []string `json:"avisos,omitempty"`
}

// Received returns the files of suppliers, in the order in which Receive got them; nil without such files.
func (b *Book) Received() []ReceivedFile { return b.received }

func (b *Book) placeReceived(data []byte, to Addressee) (*sealed, *placement) {
	d, p := new(sealed), new(placement)
	no := func(format string, args ...any) (*sealed, *placement) {
		p.motive = fmt.Sprintf(format, args...)
		return d, p
	}
	file, err := dte.Parse(data)
	if err != nil {
		return no("no es el JSON de un documento")
	}
	jws := file.Get("firmaElectronica").Text()
	signed, forged := signedAs(jws, data)
	if err := json.Unmarshal(signed, &d.content); err != nil {
		return no("no tiene la forma de un documento: %s", text(err.Error()))
	}
	id := &d.Identificacion
	d.Code, d.ControlNumber, d.Type, d.Date = id.CodigoGeneracion, id.Control, id.Type, id.FecEmi
	d.Seal = file.Get("selloRecibido").Text()
	d.count()
	nit, dui := d.customer.identity()
	issuer, person := d.supplier()
	_, unordered := orderOf(d, d.Date)
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
		return no("es de %s; el anexo 3 admite documentos de hasta tres períodos antes (p. 12), a mano", text(d.Date))
	case unordered != nil:
		return no("su fecha u hora no es válida")
	case issuer+person == "":
		return no("su emisor no tiene un NIT ni un DUI: %s", text(d.Emisor.NIT))
	case !sealForm.MatchString(d.Seal):
		return no("no lleva el sello de recepción: pídalo al proveedor, o véalo en la consulta pública de Hacienda")
	}
	same := func(r ReceivedFile) bool { return r.Code == d.Code && r.Motive == "" }
	if i := slices.IndexFunc(b.received, same); i >= 0 {
		return no("es el mismo documento que %s", b.received[i].File)
	}
	switch {
	case jws == "":
		p.note("no lleva firma electrónica: compruébelo en la consulta pública de Hacienda")
	case forged != nil:
		return no("%s", forged)
	}
	switch d.Type {
	case "03", "05", "06":
		p.bought(d, b.settings)
	case "07":
		p.withheldFrom(d)
	case "09":
		if len(d.Cuerpo) != 1 || !d.Cuerpo[0].Perceived.IsPositive() {
			return no("no percibe el 2 %%: no hay anticipo que declarar")
		}
		l := &d.Cuerpo[0]
		p.add(annex06, issuer, d.day, d.Seal, d.code, money(l.PerceivedBase), money(l.Perceived), person, "6")
	default:
		p.motive = cmp.Or(elsewhereReceived[d.Type], "ningún anexo lleva el tipo "+text(d.Type))
	}
	return d, p
}

// signedAs returns the bytes that a supplier signed. If the file has no signature, or differs from these bytes,
// signedAs returns the file and an error. The signature is not verified: suppliers' keys are unknown.
func signedAs(jws string, file []byte) ([]byte, error) {
	var signed, shown map[string]any
	parts := strings.Split(jws, ".")
	if len(parts) != 3 {
		return file, fmt.Errorf("su firmaElectronica no es una firma (JWS)")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if _, bad := dte.Parse(payload); err != nil || bad != nil || json.Unmarshal(payload, &signed) != nil ||
		json.Unmarshal(file, &shown) != nil {
		return file, fmt.Errorf("su firmaElectronica no lleva un documento")
	}
	for name, v := range signed { // suppliers add unsigned members to the file
		if !reflect.DeepEqual(v, shown[name]) {
			return file, fmt.Errorf("lo firmado no es lo que dice el archivo: difieren en %s", text(name))
		}
	}
	return payload, nil
}

func (d *sealed) supplier() (nit, dui string) { return (&party{NIT: d.Emisor.NIT}).identity() }

func (p *placement) bought(d *sealed, s *Settings) {
	nit, dui := d.supplier()
	codes := s.purchase(d)
	other := d.exempt.Add(d.nonSubject)
	p.add(annex03, d.day, class, d.Type, d.code, nit, text(d.Emisor.Name), money(other), "0.00", "0.00", money(d.taxed),
		"0.00", "0.00", "0.00", money(d.vat), money(other.Add(d.taxed)), dui, strconv.Itoa(codes.Operation),
		strconv.Itoa(codes.Classification), strconv.Itoa(codes.Sector), strconv.Itoa(codes.Cost), "3")
	if due := d.taxed.Mul(decimal.New(13, -2)); due.Sub(d.vat).Abs().GreaterThan(decimal.New(1, -2)) {
		p.note("su IVA es %s, y el 13 %% de lo gravado es %s (columna N, p. 14)", money(d.vat), money(due))
	}
	if d.otherTaxes.IsPositive() {
		p.note("lleva %s de otros tributos, que el anexo 3 no tiene", money(d.otherTaxes))
	}
	if d.perceived.IsPositive() {
		p.add(annex08, nit, d.day, d.Type, d.Seal, d.code, money(d.taxed), money(d.perceived), dui, "8")
	}
}

// withheldFrom places the withholding voucher of a customer that withheld VAT from the taxpayer.
func (p *placement) withheldFrom(d *sealed) {
	nit, dui := d.supplier()
	bases, amounts := d.retentions()
	for _, code := range slices.Sorted(maps.Keys(bases)) {
		if code == "22" {
			p.add(annex07, nit, d.day, "07", d.Seal, d.code, money(bases[code]), money(amounts[code]), dui, "7")
		} else {
			p.note("retiene %s con el código %s: el anexo 7 lleva solo el 1 %%; se declara a mano",
				money(amounts[code]), text(code))
		}
	}
	if len(p.rows) == 0 {
		p.motive, p.notes = strings.Join(p.notes, "; "), nil
	}
}

// Addressee returns the taxpayer whose documents were added; false before the first document.
func (b *Book) Addressee() (Addressee, bool) {
	return Addressee{NIT: b.issuer.NIT, NRC: b.issuer.NRC, Test: b.test}, b.issuer.NIT != ""
}
