package books

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// world makes documents of every type and state, of both generations of MH's schemas, from a seed. Its amounts need not
// be a rule's results: the books use them as they are.
type world struct {
	t       *testing.T
	r       *rand.Rand
	month   string
	numbers map[string]int
}

func newWorld(t *testing.T, seed uint64, month string) *world {
	return &world{t: t, r: rand.New(rand.NewPCG(seed, 7)), month: month, numbers: make(map[string]int)}
}

// record is a document in the form that the oracle reads.
type record struct {
	Code          string          `json:"codigoGeneracion"`
	ControlNumber string          `json:"numeroControl"`
	Type          string          `json:"tipoDte"`
	State         string          `json:"estado"`
	Date          string          `json:"fecEmi"`
	Total         string          `json:"total"`
	Seal          string          `json:"selloRecibido"`
	Deferred      bool            `json:"contingencia"`
	Invalidated   string          `json:"invalidado"`
	Document      json.RawMessage `json:"document"`
}

func recordOf(d Document) record {
	return record{d.Code, d.ControlNumber, d.Type, d.State, d.Date, d.Total, d.Seal, d.Deferred, d.Invalidated,
		json.RawMessage(d.JSON)}
}

type object = map[string]any

func (w *world) one(of ...string) string { return of[w.r.IntN(len(of))] }

func (w *world) chance(percent int) bool { return w.r.IntN(100) < percent }

func (w *world) cents(most int) int { return w.r.IntN(most) }

// usd is an amount in cents as JSON writes it.
func usd(cents int) json.Number {
	sign := ""
	if cents < 0 {
		sign, cents = "-", -cents
	}
	return json.Number(fmt.Sprintf("%s%d.%02d", sign, cents/100, cents%100))
}

func (w *world) digits(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('0' + w.r.IntN(10))
	}
	return string(b)
}

func (w *world) code() string {
	h := fmt.Sprintf("%016X%016X", w.r.Uint64(), w.r.Uint64())
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-8" + h[17:20] + "-" + h[20:]
}

var weights = [...]struct {
	kind string
	of   int
}{{"01", 38}, {"03", 12}, {"05", 5}, {"06", 4}, {"07", 5}, {"14", 6}, {"18", 6}, {"11", 13}, {"04", 3}, {"08", 4},
	{"09", 3}, {"15", 1}}

// document makes a document: of the month, or of an earlier month and invalidated in this one.
func (w *world) document() Document {
	kind, n := "01", w.r.IntN(100)
	for _, x := range weights {
		if n -= x.of; n < 0 {
			kind = x.kind
			break
		}
	}
	first, err := time.Parse("2006-01", w.month)
	if err != nil {
		w.t.Fatal(err)
	}
	day := func(back int) time.Time {
		m := first.AddDate(0, -back, 0)
		return m.AddDate(0, 0, w.r.IntN(m.AddDate(0, 1, -1).Day()))
	}
	d := Document{Code: w.code(), Type: kind, State: processed, Branch: int64(1 + w.r.IntN(3)),
		Date: day(0).Format(time.DateOnly)}
	switch n := w.r.IntN(100); {
	case n < 4:
		d.State, d.Refusal, d.Deferred = rejected, w.one("[identificacion.numeroControl] YA EXISTE UN REGISTRO CON "+
			"ESE VALOR", "DOCUMENTO NO CUMPLE; ESQUEMA"), w.chance(30)
	case n < 8:
		d.State, d.Deferred = contingency, true
	case n < 9:
		d.State = ""
	case n < 13:
		d.State, d.Invalidated = invalidated, d.Date
	case n < 19:
		d.State, d.Invalidated = invalidated, first.AddDate(0, 1, w.r.IntN(20)).Format(time.DateOnly)
	case n < 24:
		d.State, d.Date, d.Invalidated = invalidated, day(1+w.r.IntN(4)).Format(time.DateOnly),
			day(0).Format(time.DateOnly)
	}
	if d.State == processed || d.State == invalidated {
		d.Seal = fmt.Sprintf("2026%032X%s", w.r.Uint64(), w.one("ABCD", "9QTZ", "SIMU"))
	}
	series := fmt.Sprintf("%s%s", []string{"M001", "S002", "S003"}[d.Branch-1], w.one("P001", "P002"))
	w.numbers[kind+series]++
	d.ControlNumber = fmt.Sprintf("DTE-%s-%s-%015d", kind, series, w.numbers[kind+series])
	doc, total := w.content(&d)
	d.Total = string(usd(total))
	if d.JSON, err = json.Marshal(doc); err != nil {
		w.t.Fatal(err)
	}
	return d
}

var customers = []string{"Ana María Pérez", "Comercial El Roble, S.A. de C.V.", "José \"Chepe\" Núñez; hijo",
	"=SUMA(A1)", "+Café & Cía.", "Muebles\tÑandú\nS.A.",
	"  Doble  espacio ", "Ferretería O'Brien", "-", "日本商事", "Inversiones 2000 (sucursal)"}

// customer returns a receptor in the generation's form, with every existing kind of number.
func (w *world) customer(kind string, old bool) object {
	p := object{"nombre": w.one(customers...), "nrc": w.one(w.digits(7), w.digits(6), "123456-7")}
	if w.chance(10) {
		p["nrc"] = nil
	}
	if kind == "03" || kind == "09" || old && (kind == "05" || kind == "06" || kind == "08") {
		p["nit"] = w.one(w.digits(14), w.digits(14), w.digits(9), "0614-140280-102-8")
		return p
	}
	switch w.r.IntN(6) {
	case 0, 1:
		p["tipoDocumento"], p["numDocumento"] = "36", w.digits(14)
	case 2:
		p["tipoDocumento"], p["numDocumento"] = "36", w.digits(9)
	case 3:
		p["tipoDocumento"], p["numDocumento"] = "13", w.digits(8)+"-"+w.digits(1)
	case 4:
		p["tipoDocumento"], p["numDocumento"] = "13", w.digits(9)
	default:
		p["tipoDocumento"], p["numDocumento"] = w.one("03", "02", "37"), w.one("A"+w.digits(7), "PE-"+w.digits(8),
			"X"+w.digits(17))
	}
	return p
}

// content makes the signed document and the amount paid, in cents.
func (w *world) content(d *Document) (object, int) {
	old := w.chance(40)
	emisor := object{"nit": "06141804941035", "nrc": "2390516", "nombre": "Tienda de Ejemplo, S.A. de C.V."}
	id := object{"ambiente": "01", "tipoDte": d.Type, "numeroControl": d.ControlNumber, "codigoGeneracion": d.Code,
		"fecEmi": d.Date,
		"horEmi": fmt.Sprintf("%02d:%02d:%02d", 7+w.r.IntN(14), w.r.IntN(60), w.r.IntN(60))}
	switch w.r.IntN(10) { // several in a day's first and last second
	case 0:
		id["horEmi"] = "07:00:0" // MH's schema allows it
	case 1:
		id["horEmi"] = "20:59:59"
	}
	doc := object{"identificacion": id, "emisor": emisor, "documentoRelacionado": nil, "apendice": nil}
	switch d.Type {
	case "07":
		return doc, w.withholding(doc)
	case "14":
		return doc, w.purchase(doc, old)
	case "11":
		return doc, w.export(doc, old)
	case "08":
		return doc, w.liquidation(doc, old)
	case "09":
		return doc, w.advance(doc)
	case "15":
		return doc, w.donation(doc, old)
	case "18":
		delete(emisor, "nrc")
		delete(id, "tipoDte")
		delete(id, "numeroControl")
		id["tipoEvento"] = "18"
	}
	if d.Type != "18" && (d.Type != "01" || w.chance(30)) {
		doc["receptor"] = w.customer(d.Type, old)
	}
	return doc, w.sale(doc, d.Type, old)
}

// sale fills in a document that sells, or a return of a sale.
func (w *world) sale(doc object, kind string, old bool) int {
	var lines []object
	sum := map[string]int{}
	amount := 0
	for range 1 + w.r.IntN(4) {
		if amount == 0 || w.chance(90) { // else two kinds of item of one amount
			amount = 1 + w.cents(40_000)
		}
		into := w.one("ventaGravada", "ventaGravada", "ventaGravada", "ventaExenta", "ventaNoSuj")
		line := object{"numItem": len(lines) + 1, "tipoItem": 1 + w.r.IntN(3), "ventaNoSuj": 0, "ventaExenta": 0,
			"ventaGravada": 0, "cantidad": 1}
		line[into] = usd(amount)
		sum[into] += amount
		lines = append(lines, line)
	}
	doc["cuerpoDocumento"] = lines
	r := object{"totalNoSuj": usd(sum["ventaNoSuj"]), "totalExenta": usd(sum["ventaExenta"]),
		"totalGravada": usd(sum["ventaGravada"]), "condicionOperacion": 1}
	taxed := sum["ventaGravada"]
	if kind == "01" || kind == "03" {
		discount := 0
		if w.chance(20) && taxed > 200 {
			discount = w.cents(taxed / 2)
		}
		r["descuGravada"], r["descuExenta"], r["descuNoSuj"] = usd(discount), 0, json.Number("0.00")
		if sum["ventaExenta"] > 100 && w.chance(15) {
			r["descuExenta"] = usd(99)
			sum["ventaExenta"] -= 99
		}
		taxed -= discount
	}
	perceived, retained, taxes, vat := 0, 0, 0, 0
	var tributos any
	if kind != "01" && kind != "18" && taxed > 0 { // a remission names its tax too
		vat = taxed * 13 / 100
		list := []object{{"codigo": "20", "descripcion": "Impuesto al Valor Agregado 13%", "valor": usd(vat)}}
		if w.chance(10) {
			taxes = w.cents(500)
			list = append(list, object{"codigo": w.one("D1", "C8", "59"), "descripcion": "otro", "valor": usd(taxes)})
		}
		tributos = list
		switch w.r.IntN(4) {
		case 0:
			perceived = taxed / 100
		case 1:
			retained = taxed / 100
		}
	}
	r["tributos"] = tributos
	if old {
		r["ivaPerci1"], r["ivaRete1"] = usd(perceived), usd(retained)
	} else {
		r["ivaPerci"], r["ivaRete"] = usd(perceived), usd(retained)
	}
	if kind == "01" || kind == "18" {
		delete(r, "ivaPerci")
		r["totalIva"] = usd(taxed * 13 / 113)
	}
	total := taxed + sum["ventaExenta"] + sum["ventaNoSuj"] + vat + taxes + perceived - retained
	r["totalPagar"] = usd(total)
	doc["resumen"] = r
	switch kind {
	case "04": // nothing is paid
		delete(r, "totalPagar")
		r["montoTotalOperacion"] = usd(total)
		doc["ventaTercero"] = w.third(20)
	case "05", "06":
		doc["documentoRelacionado"] = []object{{"tipoDocumento": w.one("03", "03", "03", "03", "01", "07"),
			"tipoGeneracion": 2, "numeroDocumento": w.code(), "fechaEmision": w.month + "-01"}}
	case "18":
		origin := w.one("01", "01", "14")
		related := []object{{"tipoDocumento": origin, "codigoGeneracion": w.code(), "fechaEmision": w.month + "-01"}}
		if w.chance(20) {
			related = append(related, object{"tipoDocumento": origin, "codigoGeneracion": w.code(),
				"fechaEmision": w.month + "-01"})
		}
		doc["documentoRelacionado"] = related
	}
	return total
}

func (w *world) withholding(doc object) int {
	doc["receptor"] = w.customer("07", false)
	var lines []object
	total := 0
	for i := range 1 + w.r.IntN(3) {
		code := w.one("22", "22", "22", "C4", "C9")
		base := 10_000 + w.cents(900_000)
		held := base * map[string]int{"22": 1, "C4": 13, "C9": 2}[code] / 100
		total += held
		lines = append(lines, object{"numItem": i + 1, "montoSujetoGrav": usd(base), "codigoRetencionMH": code,
			"ivaRetenido": usd(held)})
	}
	doc["cuerpoDocumento"] = lines
	doc["resumen"] = object{w.one("totalIvaRetenido", "totalIVAretenido"): usd(total)}
	return total
}

func (w *world) purchase(doc object, old bool) int {
	seller := "receptor"
	if old {
		seller = "sujetoExcluido"
	}
	doc[seller] = w.customer("14", old)
	amount := 100 + w.cents(500_000)
	doc["cuerpoDocumento"] = []object{{"numItem": 1, "tipoItem": 1 + w.r.IntN(2), "compra": usd(amount)}}
	discount, held, income := 0, 0, amount/10
	if w.chance(20) {
		discount = w.cents(amount / 2)
	}
	if old && w.chance(20) {
		held = (amount - discount) * 13 / 100
	}
	r := object{"totalCompra": usd(amount), "descu": usd(discount), "subTotal": usd(amount - discount),
		"reteRenta": usd(income), "totalPagar": usd(amount - discount - held - income)}
	if old {
		r["ivaRete1"] = usd(held)
	}
	doc["resumen"] = r
	return amount - discount - held - income
}

// third is whose sale a document is: seldom somebody else's.
func (w *world) third(percent int) any {
	if !w.chance(percent) {
		return nil
	}
	return object{"nit": w.digits(14), "nombre": w.one(customers...), "codDomiciliado": 1 + w.r.IntN(2)}
}

// export fills in an export invoice. The generation before has no kind of item and another name of the discount.
func (w *world) export(doc object, old bool) int {
	emisor := doc["emisor"].(object)
	emisor["tipoItemExpor"], emisor["recintoFiscal"], emisor["regimen"] = 1+w.r.IntN(3), "02", "1000.000"
	doc["receptor"] = object{"nombre": w.one(customers...), "tipoDocumento": "37", "numDocumento": "GT-" + w.digits(6),
		"codPais": w.one("GT", "HN", "NI", "CR", "SV", "US", "US", "PA", "BZ", "MX"), "nombrePais": "País",
		"tipoPersona": 2}
	doc["ventaTercero"] = w.third(10)
	if old && doc["ventaTercero"] != nil {
		delete(doc["ventaTercero"].(object), "codDomiciliado")
	}
	var lines []object
	taxed, untaxed := 0, 0
	for i := range 1 + w.r.IntN(4) {
		line := object{"numItem": i + 1, "cantidad": 1, "ventaGravada": 0, "noGravado": 0, "tributos": []string{"C3"}}
		if !old {
			line["tipoItem"], line["numeroDocumento"] = 1+w.r.IntN(4), nil
		}
		if i > 0 && w.chance(10) { // what is no sale
			untaxed = w.cents(2_000) - 1_000
			line["noGravado"], line["tributos"] = usd(untaxed), nil
		} else {
			amount := 1 + w.cents(400_000)
			line["ventaGravada"] = usd(amount)
			taxed += amount
		}
		lines = append(lines, line)
		if untaxed != 0 {
			break
		}
	}
	doc["cuerpoDocumento"] = lines
	discount, insurance, freight, tax := 0, 0, 0, 0
	if w.chance(25) {
		discount = w.cents(taxed/2 + 1)
	}
	if w.chance(30) {
		insurance, freight = w.cents(10_000), w.cents(50_000)
	}
	r := object{"totalGravada": usd(taxed), "porcentajeDescuento": 0, "totalDescu": usd(discount), "seguro": usd(insurance),
		"flete": usd(freight), "totalNoGravado": usd(untaxed), "condicionOperacion": 1, "codIncoterms": "09"}
	if old {
		r["descuento"] = usd(discount)
		if insurance == 0 {
			r["seguro"] = nil
		}
	} else {
		tributos := []object{{"codigo": "C3", "descripcion": "Impuesto al Valor Agregado (exportaciones) 0%", "valor": 0}}
		if w.chance(10) {
			tax = w.cents(900)
			tributos = append(tributos, object{"codigo": "D1", "descripcion": "FOVIAL", "valor": usd(tax)})
		}
		r["descuGravada"], r["tributos"], r["totalNoOnerosas"], r["saldoFavor"] = usd(discount), tributos, 0, 0
	}
	if freight == 0 {
		r["flete"] = nil
	}
	whole := taxed - discount + insurance + freight + tax
	r["montoTotalOperacion"], r["totalPagar"] = usd(whole), usd(max(0, whole+untaxed))
	doc["resumen"] = r
	return max(0, whole+untaxed)
}

// liquidation fills in what a commission agent sold for a principal; what was invalidated is below zero.
func (w *world) liquidation(doc object, old bool) int {
	doc["receptor"] = w.customer("08", old)
	date, exported, name := "fechaEmision", "exportacion", "observaciones"
	if old {
		date, exported, name = "fechaGeneracion", "totalExportacion", "obsItem"
	}
	var lines []object
	sum, vat := map[string]int{}, 0
	for i := range 1 + w.r.IntN(4) {
		kind := w.one("01", "03", "05", "06", "11")
		into := w.one("ventaGravada", "ventaGravada", "ventaExenta", "ventaNoSuj")
		if kind == "11" {
			into = "exportaciones"
		}
		amount := 1 + w.cents(90_000)
		if i > 0 && w.chance(20) {
			amount = -amount
		}
		tax := 0
		if into == "ventaGravada" {
			tax = amount * 13 / 100
		}
		line := object{"numItem": i + 1, "tipoDte": kind, "tipoGeneracion": 2, "numeroDocumento": w.code(),
			date: w.month + "-01", "ventaNoSuj": 0, "ventaExenta": 0, "ventaGravada": 0, "exportaciones": 0,
			"tributos": nil, "ivaItem": usd(tax), name: "Venta del mes"}
		line[into] = usd(amount)
		sum[into] += amount
		vat += tax
		lines = append(lines, line)
	}
	doc["cuerpoDocumento"] = lines
	taxed, perceived := sum["ventaGravada"], 0
	if w.chance(25) {
		perceived = taxed / 100
	}
	var tributos any
	if vat != 0 {
		tributos = []object{{"codigo": "20", "descripcion": "Impuesto al Valor Agregado 13%", "valor": usd(vat)}}
	}
	subtotal := taxed + sum["ventaExenta"] + sum["ventaNoSuj"] + sum["exportaciones"]
	doc["resumen"] = object{"totalNoSuj": usd(sum["ventaNoSuj"]), "totalExenta": usd(sum["ventaExenta"]),
		"totalGravada": usd(taxed), exported: usd(sum["exportaciones"]), "subTotalVentas": usd(subtotal),
		"tributos": tributos, "montoTotalOperacion": usd(subtotal + vat), "ivaPerci": usd(perceived),
		"total": usd(subtotal + vat + perceived), "condicionOperacion": 1}
	return subtotal + vat + perceived
}

// advance fills in what a card's agent pays out, less the 2 % that it took. It has no summary.
func (w *world) advance(doc object) int {
	doc["receptor"] = w.customer("09", false)
	delete(doc, "documentoRelacionado")
	base := 100 + w.cents(5_000_000)
	vat, taken, fee := base*13/100, base*2/100, base*3/100
	free := 0
	if w.chance(20) {
		free = w.cents(9_000)
	}
	paid := base + vat + free - taken - fee - fee*13/100
	doc["cuerpoDocumento"] = object{"periodoLiquidacionFechaInicio": w.month + "-01",
		"periodoLiquidacionFechaFin": w.month + "-02", "codLiquidacion": nil, "cantidadDoc": 7,
		"valorOperaciones": usd(base + vat + free), "montoSinPercepcion": usd(free), "descripSinPercepcion": nil,
		"subTotal": usd(base + vat), "iva": usd(vat), "montoSujetoPercepcion": usd(base), "ivaPercibido": usd(taken),
		"comision": usd(fee), "porcentComision": 3, "ivaComision": usd(fee * 13 / 100), "liquidoApagar": usd(paid)}
	doc["extension"] = object{"nombEntrega": "Ana", "docuEntrega": "1", "codEmpleado": nil}
	return paid
}

// donation fills in what was given to the taxpayer; the generation before has other names of the two parties.
func (w *world) donation(doc object, old bool) int {
	donor := w.customer("15", old)
	doc["receptor"] = donor
	if old {
		doc["donante"], doc["donatario"] = donor, doc["emisor"]
		delete(doc, "receptor")
		delete(doc, "emisor")
	}
	value := 1 + w.cents(90_000)
	doc["cuerpoDocumento"] = []object{{"numItem": 1, "tipoDonacion": 1 + w.r.IntN(3), "cantidad": 1,
		"valorUni": usd(value), "valor": usd(value)}}
	doc["resumen"] = object{"valorTotal": usd(value), "pagos": nil}
	return value
}

func (w *world) documents(n int) []Document {
	list := make([]Document, n)
	for i := range list {
		list[i] = w.document()
	}
	return list
}

func madeBooks(t *testing.T, month string, s Settings, list []Document) (dir string, b *Book) {
	t.Helper()
	dir = t.TempDir()
	b, err := New(Options{Month: month, Settings: s, Dir: dir, Made: "now"})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		if err := b.Add(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Finish(); err != nil {
		t.Fatal(err)
	}
	return dir, b
}

func rowsOf(text string) (rows [][]string) {
	for line := range strings.Lines(text) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\r\n"), ";"))
	}
	return rows
}
