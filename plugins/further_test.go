package plugins_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dtegate/engine/dte"
	"dtegate/engine/dte/schema"
	"dtegate/plugins/plugintest"
)

// published are MH's files of the bundles for which MH has no example.
var published = map[string]string{
	"dte04/v3": "prev-generation/fe-nr-v3.json", "dte04/v4": "2026-08-11_v2.0-current/v4/fe-nr-v4.json",
	"dte07/v1": "prev-generation/fe-cr-v1.json",
	"dte08/v1": "prev-generation/fe-cl-v1.json", "dte08/v2": "2026-08-11_v2.0-current/v2/fe-cl-v2.json",
	"dte09/v1": "prev-generation/fe-dcl-v1.json", "dte09/v2": "2026-08-11_v2.0-current/v2/fe-dcl-v2.json",
	"dte11/v1": "prev-generation/fe-fex-v1.json", "dte11/v3": "2026-08-11_v2.0-current/v3/fe-fex-v3.json",
	"dte15/v1": "prev-generation/fe-cd-v1.json", "dte15/v2": "2026-08-11_v2.0-current/v2/fe-cd-v2.json",
}

// cases are the golden cases of a bundle that make a document, by name.
func cases(t *testing.T, name string) map[string]plugintest.Golden {
	t.Helper()
	parts, _ := plugintest.Parts(t, name)
	all := make(map[string]plugintest.Golden)
	for part, data := range parts {
		var c plugintest.Golden
		if !strings.HasPrefix(part, "cases/") {
			continue
		}
		if err := json.Unmarshal(data, &c); err != nil {
			t.Fatal(err)
		}
		if c.Document != nil {
			all[strings.TrimSuffix(path.Base(part), ".json")] = c
		}
	}
	return all
}

var countries = regexp.MustCompile(`"codPais":"[A-Z]{2}"`)

// Each layout accepts what MH's own file accepts, on mutations of its golden documents.
func TestFurther_SchemaAgrees(t *testing.T) {
	for name, file := range published {
		t.Run(name, func(t *testing.T) {
			var documents []dte.Value
			for _, c := range cases(t, name) {
				if strings.HasSuffix(name, "/v1") { // its file has codes of four digits, which MH dropped
					c.Document = countries.ReplaceAll(c.Document, []byte(`"codPais":"9320"`))
				}
				documents = append(documents, plugintest.Read(t, c.Document))
			}
			plugintest.SchemaAgreesOn(t, name, file, documents...)
		})
	}
}

// The amounts of a document by fractions, from the printed rules (MF2, ME). They share no code with the modules.
type fractions struct {
	*testing.T
	facts dte.Value
}

func (f fractions) of(v dte.Value) *big.Rat {
	a, _ := v.Amount() // absent is zero
	return big.NewRat(int64(a), dte.Scale)
}

// half rounds away from zero, to so many places a unit.
func half(r *big.Rat, places int64) *big.Rat {
	scaled := new(big.Rat).Mul(new(big.Rat).Abs(r), big.NewRat(places, 1))
	scaled.Add(scaled, big.NewRat(1, 2))
	n := new(big.Int).Quo(scaled.Num(), scaled.Denom())
	return new(big.Rat).SetFrac(n.Mul(n, big.NewInt(int64(r.Sign()))), big.NewInt(places))
}

func plus(all ...*big.Rat) *big.Rat {
	sum := new(big.Rat)
	for _, r := range all {
		sum.Add(sum, r)
	}
	return sum
}

func less(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }

func share(a *big.Rat, percent int64) *big.Rat {
	return half(new(big.Rat).Mul(a, big.NewRat(percent, 100)), 100)
}

func floor(a *big.Rat) *big.Rat {
	if a.Sign() < 0 {
		return new(big.Rat)
	}
	return a
}

// column adds up what value returns for each line, in cents.
func (f fractions) column(value func(line dte.Value) *big.Rat) *big.Rat {
	sum := new(big.Rat)
	for i := range f.facts.Get("cuerpoDocumento").Len() {
		sum.Add(sum, value(f.facts.Get("cuerpoDocumento").Index(i)))
	}
	return half(sum, 100)
}

func (f fractions) priced(price, off string) func(dte.Value) *big.Rat {
	return func(line dte.Value) *big.Rat {
		return less(half(new(big.Rat).Mul(f.of(line.Get("cantidad")), f.of(line.Get(price))), dte.Scale), f.of(line.Get(off)))
	}
}

func (f fractions) gallons() *big.Rat {
	sum := new(big.Rat)
	for i := range f.facts.Get("cuerpoDocumento").Len() {
		if line := f.facts.Get("cuerpoDocumento").Index(i); line.Get("tributos").Len() > 0 {
			sum.Add(sum, f.of(line.Get("cantidad")))
		}
	}
	return sum
}

// amounts are the amounts that a document of a type must show, by path.
var amounts = map[string]func(f fractions) map[string]*big.Rat{
	"04": func(f fractions) map[string]*big.Rat {
		sold, off := f.column(f.priced("precioUni", "montoDescu")), f.of(f.facts.Get("descuentoGlobal").Get("gravada"))
		sub := less(sold, off)
		fuel := f.gallons()
		return map[string]*big.Rat{"resumen.totalGravada": sold, "resumen.subTotal": sub,
			"resumen.montoTotalOperacion": plus(sub, share(sub, 13), share(fuel, 20), share(fuel, 10))}
	},
	"11": func(f fractions) map[string]*big.Rat {
		sold, off := f.column(f.priced("precioUni", "montoDescu")), f.of(f.facts.Get("descuentoGlobal").Get("gravada"))
		carried := plus(f.of(f.facts.Get("resumen").Get("seguro")), f.of(f.facts.Get("resumen").Get("flete")))
		fuel := f.gallons()
		all := plus(less(sold, off), carried, share(fuel, 20), share(fuel, 10))
		return map[string]*big.Rat{"resumen.totalGravada": sold, "resumen.montoTotalOperacion": all, "resumen.totalPagar": all}
	},
	"15": func(f fractions) map[string]*big.Rat {
		return map[string]*big.Rat{"resumen.valorTotal": f.column(f.priced("valorUni", "depreciacion"))}
	},
	"08": func(f fractions) map[string]*big.Rat {
		sum := func(name string) *big.Rat {
			return f.column(func(line dte.Value) *big.Rat { return f.of(line.Get(name)) })
		}
		sold := floor(plus(sum("ventaNoSuj"), sum("ventaExenta"), sum("ventaGravada"), sum("exportaciones")))
		all := plus(sold, floor(share(sum("ventaGravada"), 13)), floor(sum("fovial")), floor(sum("cotrans")))
		return map[string]*big.Rat{"resumen.totalGravada": sum("ventaGravada"), "resumen.subTotalVentas": sold,
			"resumen.montoTotalOperacion": all, "resumen.total": plus(all, sum("ivaPerci"))}
	},
	"09": func(f fractions) map[string]*big.Rat {
		line := f.facts.Get("cuerpoDocumento").Index(0)
		value, fee := f.of(line.Get("valorOperaciones")), f.of(line.Get("comision"))
		sub := less(value, f.of(line.Get("montoSinPercepcion")))
		net := half(new(big.Rat).Mul(sub, big.NewRat(100, 113)), 100)
		paid := less(value, plus(share(net, 2), fee, share(fee, 13)))
		return map[string]*big.Rat{"cuerpoDocumento.montoSujetoPercepcion": net, "cuerpoDocumento.iva": less(sub, net),
			"cuerpoDocumento.ivaPercibido": share(net, 2), "cuerpoDocumento.ivaComision": share(fee, 13), "cuerpoDocumento.liquidoApagar": paid}
	},
}

// lines are the random lines of a type, often at half a cent.
var lines = map[string]func(rng *rand.Rand, line dte.Value) dte.Value{
	"04": priced("precioUni", "montoDescu"), "11": priced("precioUni", "montoDescu"), "15": priced("valorUni", "depreciacion"),
	"08": func(rng *rand.Rand, line dte.Value) dte.Value {
		sold := []string{"ventaNoSuj", "ventaExenta", "ventaGravada"}
		if line.Get("tipoDte").Text() == "11" {
			sold = []string{"exportaciones"}
		}
		for _, name := range append(sold, "fovial", "cotrans") {
			line = line.With(name, dte.Num(dte.Amount(rng.Int64N(2_000_000)-500_000)*dte.Scale/1000))
		}
		return line.With("ivaPerci", dte.Num(dte.Amount(rng.Int64N(1000))*dte.Scale/1000))
	},
	"09": func(rng *rand.Rand, line dte.Value) dte.Value {
		value := 100 + rng.Int64N(100_000_000)
		return line.With("valorOperaciones", dte.Num(dte.Amount(value)*dte.Scale/100)).
			With("montoSinPercepcion", dte.Num(dte.Amount(rng.Int64N(value/2))*dte.Scale/100)).
			With("comision", dte.Num(dte.Amount(rng.Int64N(value/3))*dte.Scale/100))
	},
}

func priced(price, off string) func(*rand.Rand, dte.Value) dte.Value {
	return func(rng *rand.Rand, line dte.Value) dte.Value {
		quantity := dte.Amount(1+rng.Int64N(100)) * dte.Scale
		if line.Get("tipoDonacion").Text() == "1" {
			quantity = dte.Scale // money
		} else if rng.IntN(3) == 0 {
			quantity = dte.Amount(1 + rng.Int64N(10*dte.Scale))
		}
		line = line.With("cantidad", dte.Num(quantity)).With(price, dte.Num(dte.Amount(10+rng.Int64N(100_000))*dte.Scale/1000))
		if line.Get(off).Exists() {
			line = line.With(off, dte.Num(dte.Amount(rng.Int64N(int64(quantity)/100+1))*10/dte.Scale))
		}
		return line
	}
}

// Random documents of every type, in every generation, by the bundle and by fractions.
func TestFurther_Agrees(t *testing.T) {
	for name := range published {
		tipo := name[3:5]
		if amounts[tipo] == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			rule, filler := plugintest.Load(t, name, "compiler")
			rng := rand.New(rand.NewPCG(11, 4))
			for kase, c := range cases(t, name) {
				facts := plugintest.Read(t, c.Facts)
				if kase == "remitted-for-export" || kase == "under-an-export" || kase == "services-on-credit" || kase == "goods-on-their-way" {
					continue // without VAT, with a charge, partly exempt: the cases themselves say it
				}
				for range 60 {
					var all []dte.Value
					for i := range facts.Get("cuerpoDocumento").Len() {
						all = append(all, lines[tipo](rng, facts.Get("cuerpoDocumento").Index(i)))
					}
					asked := facts.With("cuerpoDocumento", dte.Arr(all...))
					if facts.Get("descuentoGlobal").Exists() {
						asked = asked.With("descuentoGlobal", dte.Obj(dte.Member{Name: "gravada", Value: dte.Num(dte.Scale / 100)}))
					}
					if pagos := facts.Get("resumen").Get("pagos"); pagos.Len() > 0 { // the bundle says how much
						payment := slices.DeleteFunc(slices.Clone(pagos.Index(0).Members()), func(m dte.Member) bool { return m.Name == "montoPago" })
						asked = asked.With("resumen", facts.Get("resumen").With("pagos", dte.Arr(dte.Obj(payment...))))
					}
					made, faults := plugintest.Issue(rule, filler, asked, schema.FillOptions{Catalogues: true})
					if len(faults) > 0 {
						t.Fatalf("%s: refused: %v\n%s", kase, faults, asked.Append(nil))
					}
					document := plugintest.Read(t, made)
					for at, want := range amounts[tipo](fractions{t, asked}) {
						object, member, _ := strings.Cut(at, ".")
						if got := document.Get(object).Get(member); fmt.Sprint(half(fractions{}.of(got), 100)) != fmt.Sprint(want) {
							t.Fatalf("%s: %s is %s, want %s\n%s", kase, at, got.Append(nil), want.FloatString(2), asked.Append(nil))
						}
					}
				}
			}
		})
	}
}
