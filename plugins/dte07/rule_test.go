package main

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"dtegate/engine/dte"
	"dtegate/plugins/plugintest"
	"dtegate/plugins/sdk"
	"dtegate/rules/abi"
)

const generationCode = "0F79FB29-205D-4A5A-B731-DAC56D9C4369"

// due is the VAT to withhold by exact fractions, rounded half up to cents. It shares nothing with the rule.
func due(base dte.Amount, percent int64) dte.Amount {
	r := new(big.Rat).Mul(big.NewRat(int64(base), dte.Scale), big.NewRat(percent, 1))
	r.Add(r, big.NewRat(1, 2)) // in cents
	return dte.Amount(new(big.Int).Quo(r.Num(), r.Denom()).Int64() * sdk.Cent)
}

func random(rng *rand.Rand) dte.Value {
	n := 1 + rng.IntN(8)
	if rng.IntN(8) == 0 {
		n = 1 + rng.IntN(500)
	}
	var lines []dte.Value
	for i := range n {
		base := dte.Amount(1+rng.Int64N([]int64{100, 10_000, 1_000_000, 100_000_000}[rng.IntN(4)])) * sdk.Cent
		if rng.IntN(4) == 0 { // 1 % and 13 % of 2.50 are half a cent
			base = dte.Amount(2*rng.Int64N(5000)+1) * 50 * sdk.Cent
		}
		code := []string{"22", "C4", "C9"}[rng.IntN(3)]
		var withheld dte.Amount
		switch code {
		case "22":
			base = max(base, 50*sdk.Cent) // a withholding of nothing is none
			withheld = due(base, 1)
		case "C4":
			base = max(base, 4*sdk.Cent)
			withheld = due(base, 13)
		default:
			withheld = dte.Amount(1+rng.Int64N(int64(base)/sdk.Cent)) * sdk.Cent
		}
		generation, number := dte.Int(2), dte.Str(generationCode)
		if rng.IntN(3) == 0 {
			generation, number = dte.Int(1), dte.Str("23DS000F-1345")
		}
		lines = append(lines, dte.Obj(dte.Member{Name: "numItem", Value: dte.Int(int64(i + 1))}, dte.Member{Name: "tipoDte", Value: dte.Str("03")},
			dte.Member{Name: "tipoGeneracion", Value: generation}, dte.Member{Name: "numeroDocumento", Value: number},
			dte.Member{Name: "fechaEmision", Value: dte.Str("2026-12-01")}, dte.Member{Name: "montoSujetoGrav", Value: dte.Num(base)},
			dte.Member{Name: "codigoRetencionMH", Value: dte.Str(code)}, dte.Member{Name: "ivaRetenido", Value: dte.Num(withheld)},
			dte.Member{Name: "descripcion", Value: dte.Str("Compra")}))
	}
	return plugintest.BaseFacts("07").With("cuerpoDocumento", dte.Arr(lines...))
}

func TestRule_Agrees(t *testing.T) {
	plugintest.AgreeOn(t, "dte07/v2", description, evaluate, random, func(t *testing.T, doc *plugintest.Document) {
		var base, withheld dte.Amount
		lines := doc.Facts.Get("cuerpoDocumento")
		for i := range lines.Len() {
			b, _ := lines.Index(i).Get("montoSujetoGrav").Amount()
			w, _ := lines.Index(i).Get("ivaRetenido").Amount()
			base, withheld = base+b, withheld+w
		}
		for name, want := range map[string]dte.Amount{"totalSujetoRetencion": base, "totalIvaRetenido": withheld, "totalIva": due(base, 13)} {
			if got, _ := doc.Filled.Get("resumen").Get(name).Amount(); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if got := doc.Filled.Get("resumen").Get("totalLetras").Text(); got != string(dte.AppendWords(nil, withheld)) {
			t.Errorf("totalLetras is %s", got)
		}
	})
}

func TestSchema_Agrees(t *testing.T) {
	plugintest.SchemaAgrees(t, "dte07/v2", "v2/fe-cr-v2.json", "07/v2_*.json")
}

func TestExamples(t *testing.T) {
	r, filler := plugintest.Load(t, "dte07/v2", "compiler")
	for name, doc := range plugintest.Examples(t, "07/v2_*.json") {
		facts := plugintest.FactsOf(t, r.Bundle.Parts["overlay.json"], doc)
		in := plugintest.InputOf(t, description, r.Params, facts)
		var out abi.Output
		evaluate(&in, &out)
		got := plugintest.Read(t, plugintest.Fill(t, filler, facts, description, &in, &out))
		for _, d := range plugintest.Differences(got, doc, "") {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestRule_Refuses(t *testing.T) {
	params := []int64{13_000_000, 1_000_000, 13_000_000}
	for name, c := range map[string]struct {
		monto, codigo, retenido int64
		fault                   int // -1: accepted
		column                  int
	}{
		"exact":                    {354_40 * sdk.Cent, code22, 3_54 * sdk.Cent, -1, 0},
		"a cent above":             {354_40 * sdk.Cent, code22, 3_55 * sdk.Cent, -1, 0},
		"a cent below":             {354_40 * sdk.Cent, code22, 3_53 * sdk.Cent, -1, 0},
		"two cents above":          {354_40 * sdk.Cent, code22, 3_56 * sdk.Cent, fault22, colRetenido},
		"two cents below":          {354_40 * sdk.Cent, code22, 3_52 * sdk.Cent, fault22, colRetenido},
		"half rounds up":           {50 * sdk.Cent, code22, 2 * sdk.Cent, -1, 0}, // 0.005 is 0.01
		"the other rate":           {354_40 * sdk.Cent, codeC4, 3_54 * sdk.Cent, faultC4, colRetenido},
		"the whole VAT":            {444_44 * sdk.Cent, codeC4, 57_78 * sdk.Cent, -1, 0},
		"special, all of it":       {100 * sdk.Cent, codeC9, 100 * sdk.Cent, -1, 0},
		"special, more than all":   {100 * sdk.Cent, codeC9, 101 * sdk.Cent, faultC9, colRetenido},
		"no base":                  {0, code22, sdk.Cent, faultNotPositive, colMonto},
		"negative base":            {-sdk.Cent, code22, sdk.Cent, faultNotPositive, colMonto},
		"nothing withheld":         {100 * sdk.Cent, code22, 0, faultNotPositive, colRetenido},
		"base with three places":   {sdk.Cent + 1, code22, sdk.Cent, faultCents, colMonto},
		"withheld with mills":      {100 * sdk.Cent, code22, sdk.Cent + sdk.Cent/10, faultCents, colRetenido},
		"the largest that adds up": {sdk.Max, code22, sdk.Max / 100, -1, 0},
	} {
		var out abi.Output
		evaluate(&abi.Input{Params: params, Lines: []int64{c.monto, c.codigo, c.retenido}, N: 1}, &out)
		switch {
		case c.fault < 0 && (len(out.Faults) > 0 || len(out.Summary) != 3):
			t.Errorf("%s: %v", name, out.Faults)
		case c.fault >= 0 && (len(out.Faults) != 1 || out.Faults[0] != abi.Fault{Code: c.fault, Line: 0, Column: c.column}):
			t.Errorf("%s: %v", name, out.Faults)
		}
	}
	var out abi.Output
	evaluate(&abi.Input{Params: params, Lines: []int64{sdk.Max, codeC9, sdk.Cent, sdk.Max, codeC9, sdk.Cent}, N: 2}, &out)
	if len(out.Faults) != 1 || out.Faults[0] != (abi.Fault{Code: faultOverflow, Line: 1, Column: -1}) {
		t.Errorf("an overflow: %v", out.Faults)
	}
}

func TestSchema_Refuses(t *testing.T) {
	_, filler := plugintest.Load(t, "dte07/v2", "compiler")
	facts := plugintest.Merge(random(rand.New(rand.NewPCG(1, 1))),
		plugintest.Read(t, []byte(`{"cuerpoDocumento":[{"tipoGeneracion":2,"numeroDocumento":"`+generationCode+`"}]}`)))
	plugintest.Refusals(t, filler, facts, map[string]string{
		`{"cuerpoDocumento":[{"numeroDocumento":"0f79fb29-205d-4a5a-b731-dac56d9c4369"}]}`: "cuerpoDocumento[0].numeroDocumento",
		`{"cuerpoDocumento":[{"numeroDocumento":"S221001345"}]}`:                           "cuerpoDocumento[0].numeroDocumento",
		`{"cuerpoDocumento":[{"tipoGeneracion":1}]}`:                                       "cuerpoDocumento[0].numeroDocumento",
		`{"cuerpoDocumento":[{"tipoGeneracion":3}]}`:                                       "cuerpoDocumento[0].tipoGeneracion",
		`{"cuerpoDocumento":[{"fechaEmision":null}]}`:                                      "cuerpoDocumento[0].fechaEmision",
		`{"cuerpoDocumento":[{"tipoDte":"99"}]}`:                                           "cuerpoDocumento[0].tipoDte",
		`{"receptor":{"numDocumento":"01234567-8"}}`:                                       "receptor.numDocumento",
	})
}
