package certify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"

	"dtegate/engine/dte"
	"dtegate/rules/bundle"
)

// tree is a till's request: objects are tree, lists []any, numbers json.Number.
type tree = map[string]any

// maker makes one random sale. The same seed, kind and ordinal give the same sale, on any day and after any restart.
type maker struct {
	rng       *rand.Rand
	receivers []tree // taxpayers that MH knows; empty: made-up taxpayers
}

func newMaker(seed uint64, kind string, ordinal int, receivers []tree) *maker {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d/%s", seed, kind)
	return &maker{rng: rand.New(rand.NewPCG(h.Sum64(), uint64(ordinal))), receivers: receivers}
}

// Seed returns the seed of an issuer on a day of El Salvador (yyyy-mm-dd). Two issuers do not send the same sales. An
// issuer that continues on the same day does not repeat its sales.
func Seed(nit, day string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, nit, "/", day)
	return h.Sum64()
}

func pick[T any](m *maker, list ...T) T { return list[m.rng.IntN(len(list))] }

// often returns true n times in a hundred.
func (m *maker) often(n int) bool { return m.rng.IntN(100) < n }

// between returns a whole number of a range, both ends included.
func (m *maker) between(low, high int) int { return low + m.rng.IntN(high-low+1) }

func (m *maker) digits(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('0' + m.rng.IntN(10))
	}
	return string(b)
}

// cents writes a number of cents as USD.
func cents(n int) json.Number { return json.Number(fmt.Sprintf("%d.%02d", n/100, n%100)) }

func whole(n int) json.Number { return json.Number(fmt.Sprint(n)) }

// dui returns an identity number with its check digit.
func (m *maker) dui() string {
	d, sum := m.digits(8), 0
	for i, c := range d {
		sum += int(c-'0') * (9 - i)
	}
	return d + fmt.Sprint((10-sum%10)%10)
}

var (
	firstNames = []string{"Ana", "Carlos", "Marta", "José", "Sofía", "Luis", "Gabriela", "Mauricio", "Elena", "Óscar",
		"Ñico", "Roxana"}
	lastNames = []string{"Morales", "Hernández", "Peña", "Rivas", "Argueta", "Portillo", "Zelaya", "Menjívar",
		"Guzmán", "Ayala"}
	trades = []string{"Comercial", "Ferretería", "Distribuidora", "Agroservicio", "Librería", "Inversiones",
		"Repuestos"}
	places = []string{"El Roble", "San Miguel", "La Palma", "Los Héroes", "Cuscatlán", "El Pacífico", "Izalco"}
	goods  = []string{"Café molido 1 lb", "Resma de papel carta", "Tornillo de 1/2\"", "Arroz precocido",
		"Cable eléctrico n.º 12", "Jabón de lavar", "Cuaderno rayado", "Foco LED 9 W",
		"Pintura látex blanca", "Llave de paso Ø 1/2\"", "Aceite de cocina", "Detergente en polvo", "Silla plástica",
		"Machete", "Mochila escolar"}
	free = []string{"Libro de texto", "Medicamento genérico", "Frijol rojo", "Transporte público",
		"Alquiler de vivienda"}
	services = []string{"Reparación de techo", "Limpieza de local", "Flete local", "Instalación eléctrica",
		"Corte de grama"}
)

func (m *maker) person() string { return pick(m, firstNames...) + " " + pick(m, lastNames...) }

func (m *maker) address() tree {
	return tree{"departamento": "05", "municipio": "28", "distrito": "11",
		"complemento": fmt.Sprintf("%s %s, casa %d", pick(m, "Avenida", "Calle", "Pasaje", "Colonia"),
			pick(m, places...), m.between(1, 240))}
}

// consumer returns the receptor of an invoice; the receptor may stay unnamed.
func (m *maker) consumer() tree {
	r := tree{}
	if m.often(85) {
		r["nombre"] = m.person()
	}
	if m.often(50) {
		r["tipoDocumento"], r["numDocumento"] = "13", m.dui()
	}
	if m.often(25) {
		r["direccion"] = m.address()
	}
	if m.often(25) {
		r["telefono"] = "7" + m.digits(7)
	}
	return r
}

// taxpayer returns a receptor of a document between taxpayers.
func (m *maker) taxpayer() tree {
	if len(m.receivers) > 0 {
		return pick(m, m.receivers...)
	}
	nit := fmt.Sprintf("%04d%02d%02d%02d", m.between(101, 619), m.between(1, 28), m.between(1, 12), m.between(60, 99)) +
		m.digits(4)
	r := tree{"tipoDocumento": "36", "numDocumento": nit, "nit": nit, "nrc": m.digits(6) + "1", "nombre": pick(m,
		trades...) + " " + pick(m, places...) + ", S.A. de C.V.",
		"codActividad": "47111", "descActividad": "Venta en supermercados", "direccion": m.address(), "telefono": "2" +
			m.digits(7), "correo": "compras@example.com"}
	if m.often(30) {
		r["nombreComercial"] = pick(m, places...)
	}
	return r
}

// sale returns an invoice, or a tax credit voucher if the customer is a taxpayer.
func (m *maker) sale(taxpayer bool) tree {
	r := tree{"receptor": m.consumer()}
	flag := ""
	if taxpayer {
		r["receptor"] = m.taxpayer()
		if m.often(35) {
			flag = pick(m, "isRetenIva", "isRetenIva", "isPerciIva")
			r[flag] = true
		}
	}
	items, taxed := m.items(flag != "")
	r["items"] = items
	if flag == "" && taxed > 2_000 && m.often(20) {
		r["descuentoGlobal"] = tree{"gravada": cents(m.between(1, taxed/20))}
	}
	m.pays(r)
	return r
}

// items returns the lines of a sale, and the sum of the taxed lines in cents. A retention is lawful from 100 USD on (CT
// art. 162): if large, the first line alone is worth more.
func (m *maker) items(large bool) (list []any, taxed int) {
	for i := range pick(m, 1, 1, 2, 2, 3, 4, 6) {
		price, quantity := m.between(25, 9_999), m.between(1, 12)
		if i == 0 {
			quantity = m.between(2, 12) // some of the first line can be returned
			if large {
				price = m.between(8_000, 19_999)
			}
		}
		it := tree{"descripcion": pick(m, goods...), "cantidad": whole(quantity), "precioUnitario": cents(price)}
		amount := price * quantity
		switch {
		case i == 0:
		case m.often(12): // a charge that is no sale
			list = append(list, tree{"descripcion": pick(m, "Propina voluntaria", "Donación a la Cruz Roja",
				"Depósito de envase"), "cantidad": whole(1),
				"precioUnitario": whole(0), "uniMedida": whole(99), "noGravado": cents(m.between(25, 500))})
			continue
		case m.often(20):
			it["descripcion"], it["tipoImpuesto"], amount = pick(m, free...), pick(m, "EXENTO", "EXENTO", "NO_SUJETO"),
				0
		case m.often(15): // by weight
			n := m.between(1, 39) * 25
			it["cantidad"], it["uniMedida"], amount = cents(n), pick(m, whole(34), whole(36)), price*n/100
		case m.often(15):
			it["tipoItem"], it["descripcion"] = whole(2), pick(m, services...)
		}
		if m.often(25) {
			off := m.between(1, max(1, price*quantity/10))
			if n, weighed := it["uniMedida"]; !weighed || n == nil {
				it["montoDescu"] = cents(off)
				amount = max(0, amount-off)
			}
		}
		if m.often(40) {
			it["codigo"] = "SKU-" + m.digits(5)
		}
		taxed += amount
		list = append(list, it)
	}
	return list, taxed
}

// pays gives a sale its condition and its payment: cash, card, cheque, transfer, or credit for days or months.
func (m *maker) pays(r tree) {
	if m.often(65) {
		r["condicionOperacion"], r["pago"] = whole(1), tree{"codigo": pick(m, "01", "01", "02", "03", "04", "05")}
		if m.often(30) {
			r["pago"].(tree)["referencia"] = "REF-" + m.digits(6)
		}
	} else {
		term := pick(m, tree{"plazo": "01", "periodo": whole(m.between(8, 90))}, tree{"plazo": "02",
			"periodo": whole(m.between(1, 6))})
		term["codigo"] = "13"
		r["condicionOperacion"], r["pago"] = pick(m, whole(2), whole(2), whole(3)), term
	}
	if m.often(25) {
		r["observaciones"] = pick(m, "Entregar por la tarde", "Pedido por teléfono", "Cliente frecuente")
	}
}

func (m *maker) purchase() tree {
	r := tree{"sujetoExcluido": tree{"tipoDocumento": "13", "numDocumento": m.dui(), "nombre": m.person(),
		"direccion": m.address(),
		"telefono":  "7" + m.digits(7), "correo": "proveedor@example.com"}, "applyrent": m.often(60)}
	total := 0
	var items []any
	for range m.between(1, 3) {
		price, quantity := m.between(500, 30_000), m.between(1, 4)
		items, total = append(items, tree{"descripcion": pick(m, services...), "tipoItem": pick(m, whole(1), whole(2)),
			"cantidad": whole(quantity), "precioUnitario": cents(price)}), total+price*quantity
	}
	r["items"] = items
	if m.often(20) {
		r["descuentoGlobal"] = tree{"compra": cents(m.between(1, total/20))}
	}
	m.pays(r)
	return r
}

// withholding returns a voucher of amounts withheld from suppliers, on paper and electronic documents.
func (m *maker) withholding(day string) tree {
	r := tree{"receptor": m.taxpayer()}
	var lines []any
	for i := range m.between(1, 4) {
		amount, code, kept := m.between(10_000, 400_000), "22", 0
		kept = (amount + 50) / 100
		if m.often(20) {
			code, kept = "C4", (amount*13+50)/100
		}
		number, kind := "S"+m.digits(9), 1
		if m.often(70) {
			u := fmt.Sprintf("%016X%016X", m.rng.Uint64(), m.rng.Uint64())
			number, kind = u[:8]+"-"+u[8:12]+"-4"+u[13:16]+"-A"+u[17:20]+"-"+u[20:], 2
		}
		lines = append(lines, tree{"numItem": whole(i + 1), "tipoDte": pick(m, sales[:2]...),
			"tipoGeneracion": whole(kind), "numDocumento": number, "fechaEmision": day,
			"montoSujetoGrav": cents(amount), "codigoRetencionMH": code, "ivaRetenido": cents(kept),
			"descripcion": "Compra de " + pick(m, goods...)})
	}
	r["cuerpoDocumento"] = lines
	return r
}

// sold holds the members of an original that a note or a return needs.
type sold struct {
	Cuerpo []struct {
		NumItem      int         `json:"numItem"`
		TipoItem     int         `json:"tipoItem"`
		Descripcion  string      `json:"descripcion"`
		Cantidad     json.Number `json:"cantidad"`
		VentaGravada json.Number `json:"ventaGravada"`
		VentaExenta  json.Number `json:"ventaExenta"`
	} `json:"cuerpoDocumento"`
}

// note adjusts a voucher by a small part of one or more lines, each taxed as its line.
func (m *maker) note(kind, code string, of *sold) tree {
	var items []any
	for _, i := range m.rng.Perm(len(of.Cuerpo)) {
		line := of.Cuerpo[i]
		it := tree{"descripcion": line.Descripcion, "cantidad": whole(1)}
		most := centsOf(line.VentaGravada)
		if most < 10 {
			most = centsOf(line.VentaExenta)
			it["tipoImpuesto"] = "EXENTO"
		}
		if most < 10 {
			continue
		}
		it["precioUnitario"] = cents(m.between(1, most/5)) // leaves room for more notes
		if types[kind].Effect == bundle.Debits {
			it["descripcion"] = pick(m, "Flete no facturado", "Diferencia de precio", "Recargo por entrega")
		}
		items = append(items, it)
		if m.often(60) {
			break
		}
	}
	r := tree{"codigoGeneracion": code, "items": items, "condicionOperacion": whole(1)}
	if m.often(70) {
		r["motivo"] = pick(m, "Producto dañado", "Diferencia de precio", "Bonificación acordada")
	}
	return r
}

// giveBack makes a return of one unit of a line that has at least one unit.
func (m *maker) giveBack(code string, of *sold) tree {
	for _, i := range m.rng.Perm(len(of.Cuerpo)) {
		line := of.Cuerpo[i]
		if line.TipoItem != 4 && centsOf(line.Cantidad) >= 100 && centsOf(line.VentaGravada)+
			centsOf(line.VentaExenta) > 0 {
			return tree{"documentoOrigen": code, "motivo": pick(m, "El empaque venía abierto",
				"El cliente cambió de opinión"),
				"items": []any{tree{"numItem": whole(line.NumItem), "cantidadRetorno": whole(1)}}}
		}
	}
	return tree{"documentoOrigen": code, "motivo": "Sin líneas", "items": []any{}}
}

// centsOf cuts a decimal to hundredths; 0 if it is not a decimal.
func centsOf(n json.Number) int {
	a, err := dte.ParseAmount(string(n))
	if err != nil {
		return 0
	}
	return int(a / (dte.Scale / 100))
}

// Sample returns the n-th sale of a kind that needs no other document, for a day (yyyy-mm-dd); nil for other kinds. The
// same arguments give the same sale. For a type that is no sale, purchase or withholding known here, Sample returns the
// examples of its form in turn.
func Sample(seed uint64, kind string, n int, day string, receivers []map[string]any) (map[string]any, error) {
	t := types[kind]
	if t == nil || t.Effect != bundle.Nothing {
		return nil, nil
	}
	m := newMaker(seed, kind, n, receivers)
	uses := func(group string) bool {
		return slices.ContainsFunc(t.Form.Members, func(f bundle.Member) bool { return f.Use == group })
	}
	switch {
	case t.Closing == bundle.Purchase:
		return m.purchase(), nil
	case t.Closing == bundle.Sale && (uses("consumer") || uses("taxpayer")):
		return m.sale(uses("taxpayer")), nil
	case slices.Contains(t.Form.Does, "withholding"):
		return m.withholding(day), nil
	}
	names := slices.Sorted(maps.Keys(t.Form.Examples))
	d := json.NewDecoder(bytes.NewReader(t.Form.Examples[names[n%len(names)]]))
	d.UseNumber()
	var example tree
	if err := d.Decode(&example); err != nil {
		return nil, fmt.Errorf("reading the example of %s: %w", kind, err)
	}
	return example, nil
}
