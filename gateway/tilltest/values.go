package tilltest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// chance makes what a till fills in: numbers, texts, people.
type chance struct{ rng *rand.Rand }

// pick is one of a list.
func pick[T any](c *chance, list ...T) T { return list[c.rng.IntN(len(list))] }

// often is true n times in a hundred.
func (c *chance) often(n int) bool { return c.rng.IntN(100) < n }

func (c *chance) digits(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('0' + c.rng.IntN(10))
	}
	return string(b)
}

// number is a decimal with a bounded number of decimals. Its magnitude, or an exact half, often reveals errors of
// arithmetic.
func (c *chance) number(decimals int) json.Number {
	whole := pick(c, 0, 0, 1, 2, 3, 9, 10, 99, 999, c.rng.IntN(2000))
	fraction := pick(c, "0", "5", "005", "015", "125", "33333333", "66666667", "99999999", "00000001", "00500000",
		"00499999", "50000001", c.digits(2), c.digits(8))
	if len(fraction) > decimals {
		fraction = fraction[:decimals]
	}
	if fraction == "" {
		return json.Number(fmt.Sprint(whole))
	}
	return json.Number(fmt.Sprintf("%d.%s", whole, fraction))
}

// positive is a number above zero.
func (c *chance) positive(decimals int) json.Number {
	for {
		n := c.number(decimals)
		if f, _ := n.Float64(); f > 0 {
			return n
		}
	}
}

func (c *chance) text() string {
	return pick(c, "Café molido 1 lb", "Pan francés", "Tubería Ø 1/2\"", "Ñandú & Cía <S.A.>", "a",
		"Servicio técnico – visita", "日本茶", "Línea \\ diagonal")
}

// dui and taxNumber are identity numbers in one of the ways in which people write them.
func (c *chance) dui() string {
	d := c.digits(9)
	return pick(c, d, d[:8]+"-"+d[8:], d[:8]+" "+d[8:])
}

func (c *chance) taxNumber() string {
	if c.often(20) {
		return c.dui()
	}
	d := "0614" + c.digits(10)
	return pick(c, d, d[:4]+"-"+d[4:10]+"-"+d[10:13]+"-"+d[13:], " "+d+" ")
}

func (c *chance) registry() string {
	d := c.digits(pick(c, 2, 6, 7, 8))
	return pick(c, d, d[:len(d)-1]+"-"+d[len(d)-1:])
}

// identify gives a person a kind and a number of an identity document (CAT-022).
func (c *chance) identify(r Request) {
	switch kind := pick(c, "13", "13", "36", "37", "03", "02"); kind {
	case "13":
		r["tipoDocumento"], r["numDocumento"] = kind, c.dui()
	case "36":
		r["tipoDocumento"], r["numDocumento"] = kind, c.taxNumber()
	default:
		r["tipoDocumento"], r["numDocumento"] = kind, pick(c, "A"+c.digits(7), c.digits(6), "PA-"+c.digits(5))
	}
}

func (c *chance) address() Request {
	return Request{"departamento": "05", "municipio": "28", "distrito": "11", "complemento": "Avenida Las Magnolias 2"}
}

func (c *chance) reach(r Request) {
	if c.often(50) {
		r["correo"] = "compras@example.com"
	}
	if c.often(30) {
		r["telefono"] = pick(c, "22223333", "+503 2222-3333")
	}
}

func (c *chance) consumer() Request {
	r := Request{}
	if c.often(80) {
		r["nombre"] = "Ana Morales"
	}
	if c.often(50) {
		c.identify(r)
	}
	if c.often(20) {
		r["direccion"] = c.address()
	}
	c.reach(r)
	return r
}

func (c *chance) taxpayer() Request {
	n := c.taxNumber()
	r := Request{"tipoDocumento": "36", "numDocumento": n, "nit": n, "nombre": "Comercial El Roble, S.A. de C.V.",
		"nrc": c.registry(), "codActividad": "62010", "descActividad": "Programación informática",
		"direccion": c.address(), "telefono": "22223333", "correo": "compras@example.com"}
	if c.often(30) {
		r["nombreComercial"] = "El Roble"
	}
	return r
}
