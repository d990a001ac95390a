package form

import (
	"fmt"
	"strings"
	"testing"

	"dtegate/engine/dte"
)

// TestDecode_FullCostsNothing: the decoder looks for no faults beyond those that are listed: a thousand times as many
// faults take no more work. Work is counted in allocations, of which a spelling hint makes one for each known name.
func TestDecode_FullCostsNothing(t *testing.T) {
	for name, body := range map[string]func(n int) string{
		"unknown members": func(n int) string {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, `"condicionOperacio%d":1,`, i)
			}
			return `{` + b.String() + `"items":[]}`
		},
		"unknown members of items": func(n int) string {
			return `{"items":[` + strings.Repeat(`{"cantidat":1,"descripsion":""},`, n/64) + `{}]}`
		},
		"items of the wrong kind": func(n int) string {
			return `{"items":[` + strings.Repeat(`1,`, min(n, maxItems-1)) +
				`1]}`
		},
	} {
		work := func(n int) float64 {
			v, err := dte.Parse([]byte(body(n)))
			if err != nil {
				t.Fatal(err)
			}
			return testing.AllocsPerRun(3, func() {
				if d := Documents["01"].Fill(v, nil); len(d.Faults) != MaxFaults {
					t.Fatalf("%s: %d faults", name, len(d.Faults))
				}
			})
		}
		if few, many := work(64*MaxFaults), work(64*1000); many > few+10 {
			t.Errorf("%s: %v allocations for 3,200 faults, %v for 64,000", name, few, many)
		}
	}
	// Nor do the rules look at such a request.
	v, err := dte.Parse([]byte(`{"items":[` + strings.Repeat(`1,`, MaxFaults) + `1]}`))
	if err != nil {
		t.Fatal(err)
	}
	d := Documents["01"].Fill(v, nil)
	d.MergeMore(func([]string) []dte.Fault {
		t.Error("the rules are asked for faults that nobody will read")
		return nil
	})
	if r := d.Refusal(); len(r.Faults) != MaxFaults {
		t.Errorf("%d faults", len(r.Faults))
	}
}

// Faults of facts are reported under the request's own names.
func TestRequestPath(t *testing.T) {
	payment, err := dte.Parse([]byte(`{"pago":{"codigo":"01"}}`))
	if err != nil {
		t.Fatal(err)
	}
	several, err := dte.Parse([]byte(`{"pagos":[{"codigo":"01"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	one, list := &Filled{form: Documents["01"], body: payment}, &Filled{form: Documents["01"], body: several}
	for fact, want := range map[string]string{
		"cuerpoDocumento[3].precioUni": "items[3].precioUnitario", "cuerpoDocumento": "items",
		"resumen.condicionOperacion": "condicionOperacion",
		"resumen.observaciones":      "observaciones", "resumen.pagos[0].plazo": "pagos[0].plazo",
		"receptor.direccion.municipio": "receptor.direccion.municipio",
		"resumen.totalPagar":           "items", "": "items", "cuerpoDocumento[3].ventaGravada": "items[3]",
		"resumen.pagos": "pagos",
	} {
		if got := list.requestPath(fact); got != want {
			t.Errorf("%s: %s, want %s", fact, got, want)
		}
	}
	if got := one.requestPath("resumen.pagos[0].plazo"); got != "pago.plazo" {
		t.Errorf("pago: %s", got)
	}
}

func TestDecode_PaymentCodes(t *testing.T) {
	v, err := dte.Parse([]byte(
		`{"receptor":{},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1}],"condicionOperacion":1,"pagos":[{"codigo":"T"},{"codigo":"05"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	d := Documents["01"].Fill(v, map[string]string{"T": "02"})
	payments := d.Facts.Get("resumen").Get("pagos")
	if len(d.Faults) > 0 || payments.Index(0).Get("codigo").Text() != "02" ||
		payments.Index(1).Get("codigo").Text() != "05" {
		t.Errorf("%v %s", d.Faults, payments.Append(nil))
	}
}

// Whatever a till sends, the decoder gives facts or a bounded number of faults.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"receptor":{"nombre":"Ana"},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1.5,"tributos":["D1"]}],"condicionOperacion":2,"pago":{"codigo":"01"}}`))
	f.Add([]byte(`{"receptor":null,"items":[[],{}],"descuentoGlobal":{"gravada":1e999},"pagos":[{"montoPago":-1}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := dte.Parse(body)
		if err != nil {
			return
		}
		for _, e := range Documents {
			d := e.Fill(v, map[string]string{"a": "b"})
			if len(d.Faults) > MaxFaults {
				t.Fatalf("%d faults", len(d.Faults))
			}
			if len(d.Faults) == 0 && d.Facts.Get("cuerpoDocumento").Len() == 0 {
				t.Fatalf("no items and no fault: %s", body)
			}
		}
	})
}

// TestDecode_AmbiguousPayment: where the specification and MH's catalogue name a payment's code differently, the till
// gets a warning, once a sale, until the branch says what its codes mean.
func TestDecode_AmbiguousPayment(t *testing.T) {
	const sale = `{"receptor":{"nombre":"Ana"},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1}],"condicionOperacion":1,"pagos":[{"codigo":"03","montoPago":0.5},{"codigo":"04","montoPago":0.5}]}`
	v, err := dte.Parse([]byte(sale))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		codes map[string]string
		want  int
	}{"no table": {nil, 1}, "a table": {map[string]string{"03": "04", "04": "05"}, 0},
		"as MH says": {map[string]string{"03": "03", "04": "04"}, 0}} {
		d := Documents["01"].Fill(v, c.codes)
		if len(d.Warnings) != c.want || len(d.Faults) > 0 || c.want > 0 && !strings.Contains(d.Warnings[0],
			"código de pago 03 es tarjeta de crédito") {
			t.Errorf("%s: %q %v", name, d.Warnings, d.Faults)
		}
	}
}

// TestDecode_Address: an address that cannot be mailed to is refused at the counter, and spaces around one are dropped.
func TestDecode_Address(t *testing.T) {
	sale := func(correo string) *Filled {
		return decodeText(t, "01", `{"receptor":{"nombre":"Ana","correo":"`+correo+
			`"},"items":[{"descripcion":"a","cantidad":1,"precioUnitario":1}],"condicionOperacion":1}`)
	}
	if d := sale(" ana@example.com "); len(d.Faults) > 0 ||
		d.Facts.Get("receptor").Get("correo").Text() != "ana@example.com" {
		t.Errorf("%v %s", d.Faults, d.Facts.Append(nil))
	}
	for _, bad := range []string{"ana", "ana@", "ana@localhost", "ana@example,com", "ñandú@example.com"} {
		if d := sale(bad); len(d.Faults) != 1 || d.Faults[0].Path != "receptor.correo" ||
			d.Faults[0].Code != dte.FaultFormat {
			t.Errorf("%s: %v", bad, d.Faults)
		}
	}
}

// TestPrinted: a text of characters that leave no ink is blank, whatever Unicode calls them.
func TestPrinted(t *testing.T) {
	for _, r := range "\U0001d159\u3164\u115f\u1160\uffa0\u2800\u17b4\u17b5\u034f\ufe0f\U000e0100 \u00a0" {
		if printed(r) {
			t.Errorf("%U counts as ink", r)
		}
	}
	for _, r := range "aÑ7.-ㄱ漢❤é⠁" {
		if !printed(r) {
			t.Errorf("%c counts as blank", r)
		}
	}
}
