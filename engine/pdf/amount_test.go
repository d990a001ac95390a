package pdf

import (
	"testing"

	"dtegate/engine/dte"
)

func TestPrinted(t *testing.T) {
	for _, c := range []struct {
		literal  string
		decimals int
		want     string
	}{
		{"0", 2, "0.00"}, {"100", 2, "100.00"}, {"100.5", 2, "100.50"}, {"25.88495575", 2, "25.88495575"},
		{"2.00", 0, "2.00"}, {"12", 0, "12"}, {"-5", 2, "-5.00"}, {"1234", 2, "1,234.00"}, {"-1234567.8", 2,
			"-1,234,567.80"},
		{"999999999999.12345678", 2, "999,999,999,999.12345678"}, {"100000", 0, "100,000"},
		{"1.4381E-4", 2, "0.00014381"}, {"1e3", 2, "1,000.00"}, {"12.345e+1", 2, "123.45"}, {"12.345e1", 2, "123.45"},
		{"5e-1", 2, "0.50"}, {"1e400", 2, "1e400"}, {"-1e-400", 2, "-1e-400"}, {"", 2, ""}, {"0e0", 2, "0.00"},
		{"0.10000000", 2, "0.10000000"},
		{"1e3", 0, "1,000"}, {"12.5e3", 0, "12,500"}, {"12.5e1", 0, "125"},
	} {
		if got := Printed(c.literal, c.decimals); got != c.want {
			t.Errorf("printed(%q, %d) = %q, want %q", c.literal, c.decimals, got, c.want)
		}
	}
	for literal, zero := range map[string]bool{"0": true, "0.00": true, "-0.0": true, "0e9": true, "0.01": false,
		"1e-9": false} {
		if isZero(literal) != zero {
			t.Errorf("isZero(%q) = %v", literal, !zero)
		}
	}
}

// TestView_Signs: wherever a document has an amount, its sign is printed: the total, the sums, the taxes, the payments,
// the lines. A percentage has no sign.
func TestView_Signs(t *testing.T) {
	p, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, sign := range []string{"", "-", "", "-"} {
		n, list, end := sign+"1234.5", "", ""
		if i > 1 { // the export invoice's schema has a list of one summary
			list, end = "[", "]"
		}
		v, err := p.view(Document{JSON: []byte(`{"identificacion":{"codigoGeneracion":"A","fecEmi":"2026-12-01","tipoDte":"01"},
			"cuerpoDocumento":[{"descripcion":"Café","cantidad":` + n + `,"precioUni":` + n + `,"ventaGravada":` + n + `,"noGravado":` + n + `}],
			"resumen":` + list + `{"subTotal":` + n + `,"totalNoGravado":` + n + `,"otroMonto":` + n + `,"porcentajeDescuento":` + n + `,"totalPagar":` + n + `,
			"tributos":[{"codigo":"59","descripcion":"Turismo","valor":` + n + `}],"pagos":[{"codigo":"01","montoPago":` + n + `}]}` + end + `}`)})
		if err != nil {
			t.Fatal(err)
		}
		dollars, number := sign+"$1,234.50", sign+"1,234.50"
		if v.Total.Value != dollars {
			t.Errorf("the total is %q", v.Total.Value)
		}
		if len(v.Totals) != 5 {
			t.Errorf("%d sums: %+v", len(v.Totals), v.Totals)
		}
		for _, f := range v.Totals {
			want := dollars
			if f.Label == labels["porcentajeDescuento"] {
				want = number + " %"
			}
			if f.Value != want {
				t.Errorf("%s is %q, want %q", f.Label, f.Value, want)
			}
		}
		if cells := v.Payments.Rows[0].Cells; cells[len(cells)-1] != dollars {
			t.Errorf("a payment: %q", cells)
		}
		row := v.Items.Rows[0]
		if row.Sale.Amount != number+" G" || row.Sale.Sum != sign+"1,234.5 × "+number || len(row.Sale.More) != 1 ||
			row.Sale.More[0].Value != number+" A" {
			t.Errorf("a line of a ticket: %+v", row.Sale)
		}
	}
}

// TestDollars: the sign stands before the currency.
func TestDollars(t *testing.T) {
	b := builder{}
	for literal, want := range map[string]string{"5": "$5.00", "-5": "-$5.00", "-0.004": "-$0.004", "0": "$0.00",
		"-1e3": "-$1,000.00"} {
		v, err := dte.Parse([]byte(literal))
		if err != nil {
			t.Fatal(err)
		}
		if got := b.dollars(v); got != want {
			t.Errorf("%s is %q, want %q", literal, got, want)
		}
	}
}
