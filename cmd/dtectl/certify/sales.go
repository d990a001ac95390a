package certify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"

	"dtegate/engine/dte"
	"dtegate/rules/bundle"
)

// tree is a till's request: an object is a tree, a list is an []any, a number is a json.Number.
type tree = map[string]any

// newMaker returns the random numbers of a request, the same for the same arguments.
func newMaker(seed uint64, kind string, ordinal int) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d/%s", seed, kind)
	return rand.New(rand.NewPCG(h.Sum64(), uint64(ordinal)))
}

// Seed returns the seed of an issuer for a day of El Salvador (yyyy-mm-dd). Two issuers send different sales; a second
// run on the same day continues with the same seed.
func Seed(nit, day string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, nit, "/", day)
	return h.Sum64()
}

func cents(n int) json.Number { return json.Number(fmt.Sprintf("%d.%02d", n/100, n%100)) }

func whole(n int) json.Number { return json.Number(fmt.Sprint(n)) }

// Sample returns the n-th sale of a kind, dated day (yyyy-mm-dd); nil for a kind that refers to another document. It
// takes the examples of the type's form in turn, and varies their quantities and the codes of documents in them.
// receivers replace the taxpayers of the examples. The same arguments give the same sale.
func Sample(seed uint64, kind string, n int, day string, receivers []map[string]any) (map[string]any, error) {
	t := types[kind]
	if t == nil || t.Effect != bundle.Nothing {
		return nil, nil
	}
	names := slices.Sorted(maps.Keys(t.Form.Examples))
	d := json.NewDecoder(bytes.NewReader(t.Form.Examples[names[n%len(names)]]))
	d.UseNumber()
	var sale tree
	if err := d.Decode(&sale); err != nil {
		return nil, fmt.Errorf("reading the example of %s: %w", kind, err)
	}
	rng := newMaker(seed, kind, n)
	vary(sale, rng, 1+rng.IntN(99), day)
	if r, _ := sale["receptor"].(tree); r["nrc"] != nil && len(receivers) > 0 {
		sale["receptor"] = receivers[rng.IntN(len(receivers))]
	}
	return sale, nil
}

// withheld are the amounts in a withholding voucher's line.
var withheld = []string{"montoSujetoGrav", "ivaRetenido", "montoSujetoRetencion", "montoRetenido"}

var (
	dated      = regexp.MustCompile(`^\d{4}-\d\d-\d\d$`)
	electronic = regexp.MustCompile(`^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$`)
)

// vary multiplies the quantities of a sale by a factor (times), sets its dates to a day, and replaces the codes of
// documents in it. In a line of one unit (a charge, a service, a sum of money) it multiplies the price instead.
func vary(sale tree, rng *rand.Rand, times int, day string) {
	grows := "cantidad"
	if sale[grows] == whole(1) {
		grows = "precioUnitario"
	}
	for _, name := range slices.Sorted(maps.Keys(sale)) {
		switch v := sale[name].(type) {
		case tree:
			vary(v, rng, times, day)
		case []any:
			for _, e := range v {
				if line, ok := e.(tree); ok {
					vary(line, rng, times, day)
				}
			}
		case string:
			if dated.MatchString(v) {
				sale[name] = day
			} else if electronic.MatchString(v) {
				sale[name] = v[:24] + fmt.Sprintf("%012X", rng.Uint64()>>16)
			}
		case json.Number:
			if a, err := dte.ParseAmount(string(v)); err == nil && (name == grows || slices.Contains(withheld, name)) {
				sale[name] = json.Number((a * dte.Amount(times)).String())
			}
		}
	}
}

// sold contains the members of the original document that a note or a return needs.
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

// note makes a note about a voucher: it adjusts one or more lines by a small part of their amount.
func note(rng *rand.Rand, kind, code string, original *sold) tree {
	var items []any
	for _, i := range rng.Perm(len(original.Cuerpo)) {
		line := original.Cuerpo[i]
		it := tree{"descripcion": line.Descripcion, "cantidad": whole(1)}
		most := centsOf(line.VentaGravada)
		if most < 10 {
			most = centsOf(line.VentaExenta)
			it["tipoImpuesto"] = "EXENTO"
		}
		if most < 10 {
			continue
		}
		it["precioUnitario"] = cents(1 + rng.IntN(most/5)) // at most a fifth, so that more notes are possible
		if types[kind].Effect == bundle.Debits {
			it["descripcion"] = "Flete no facturado"
		}
		items = append(items, it)
		if rng.IntN(2) == 0 {
			break
		}
	}
	return tree{"codigoGeneracion": code, "items": items, "condicionOperacion": whole(1),
		"motivo": "Diferencia de precio"}
}

// giveBack makes a return of one unit of one line.
func giveBack(rng *rand.Rand, code string, original *sold) tree {
	for _, i := range rng.Perm(len(original.Cuerpo)) {
		line := original.Cuerpo[i]
		if line.TipoItem != 4 && centsOf(line.Cantidad) >= 100 && centsOf(line.VentaGravada)+
			centsOf(line.VentaExenta) > 0 {
			return tree{"documentoOrigen": code, "motivo": "El empaque venía abierto",
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
