package simulator_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
)

// Each of MH's codes of authentication can be provoked; the account is well again afterwards.
func TestLogin_Codes(t *testing.T) {
	b := open(t)
	for code := 100; code <= 111; code++ {
		b.chaos(simulator.Chaos{LoginCode: code})
		status, body := b.form(url.Values{"user": {nit}, "pwd": {password}})
		var out struct{ Status, Error, Codigo, Message string }
		if err := json.Unmarshal(body, &out); err != nil || status != 200 || out.Status != "ERROR" ||
			out.Codigo != fmt.Sprint(code) || out.Message == "" {
			t.Errorf("%d: %d %s", code, status, body)
		}
	}
	b.chaos(simulator.Chaos{})
	b.login(nit)
	for _, wrong := range []int{-1, 99, 112} {
		if err := b.sim.Chaos(simulator.Chaos{LoginCode: wrong}); err == nil {
			t.Errorf("login_code %d is taken", wrong)
		}
	}
}

// MH gives out no password that its own rule forbids (MT2): 13 to 25 characters, with letters, digits and others.
func TestNew_PasswordForm(t *testing.T) {
	for password, good := range map[string]bool{
		"abcdefghij.12": true, "abcdefghij.1": false, "abcdefghijklmnopqrstuv.12": true,
		"abcdefghijklmnopqrstuvw.12": false,
		"abcdefghijk12":              false, "abcdefghijk.-": false, "1234567890.12": false, "ñandú-áéíóú-1": true,
	} {
		func() {
			defer func() {
				if refused := recover() != nil; refused == good {
					t.Errorf("%q: refused is %v", password, refused)
				}
			}()
			simulator.New(simulator.Options{Now: time.Now, Issuers: []simulator.Issuer{{NIT: nit, Password: password,
				PublicKey: &newKey().PublicKey}}})
		}()
	}
}

// One percent is withheld from 100.00 without VAT on (CT art. 162): below that it is refused only with strict_base.
func TestReception_LeastBase(t *testing.T) {
	for base, good := range map[string]bool{"99.99": false, "100": true} {
		d := sample(t, "03", 1)
		d.root["cuerpoDocumento"] = d.root["cuerpoDocumento"].([]any)[:1]
		d.set("cuerpoDocumento.0.cantidad", n("1")).set("cuerpoDocumento.0.precioUni",
			n(base)).set("cuerpoDocumento.0.montoDescu", n("0")).
			set("cuerpoDocumento.0.ventaGravada", n(base)).set("cuerpoDocumento.0.tributos",
			[]any{"20"}).set("cuerpoDocumento.0.noGravado", n("0")).
			set("cuerpoDocumento.0.ventaExenta", n("0")).set("cuerpoDocumento.0.ventaNoSuj",
			n("0")).set("resumen.tributos", []any{tax("20", "13")})
		for field, v := range map[string]string{"totalGravada": base, "totalExenta": "0", "totalNoSuj": "0",
			"subTotalVentas": base, "descuGravada": "0", "descuExenta": "0",
			"descuNoSuj": "0", "totalDescu": "0", "porcentajeDescuento": "0", "subTotal": base, "ivaRete": "1",
			"ivaPerci": "0", "totalNoGravado": "0"} {
			d.set("resumen."+field, n(v))
		}
		total := map[string]string{"99.99": "111.99", "100": "112"}[base]
		d.set("resumen.montoTotalOperacion", n(total)).set("resumen.totalPagar",
			n(total)).set("resumen.pagos.0.montoPago", n(total))
		b := open(t)
		b.chaos(simulator.Chaos{StrictBase: true})
		if !good {
			b.refused(d, "007", "[resumen.ivaRete"+banned)
			b.chaos(simulator.Chaos{})
		}
		b.accepted(d)
	}
}

// Lots of cyclic billing are counted by window, those of contingency are not.
func TestLot_ADay(t *testing.T) {
	b := open(t, func(o *simulator.Options) { o.CyclicLots = 2 })
	b.chaos(simulator.Chaos{})
	taken := func(i int) bool { return len(b.done(b.lot(sample(t, "01", i))).Procesados) == 1 }
	if !taken(1) || !taken(2) || taken(3) {
		t.Error("of three lots in a day not the first two are taken")
	}
	d := deferred(sample(t, "01", 4), 1)
	b.reported(eventOf(t, "contingencia", 1, 1, d))
	if got := b.done(b.lot(d)); len(got.Procesados) != 1 {
		t.Errorf("a contingency's lot: %v", got)
	}
	b.clock.set(noon.Add(24 * time.Hour))
	b.login(nit)
	if !taken(5) {
		t.Error("the next day's first lot is refused")
	}
}

// Thursday, Friday and Saturday of Holy Week are no business days: 2028-04-13 to 15, 2026-04-02 to 04.
func TestInvalidation_HolyWeek(t *testing.T) {
	for sealed, last := range map[string]string{"2028-03-20": "2028-04-18", "2028-04-20": "2028-05-16",
		"2029-02-20": "2029-03-14", "2029-03-20": "2029-04-13"} {
		for _, late := range []bool{false, true} {
			day, _ := time.Parse(time.DateOnly, sealed)
			b := openAt(t, day.Add(18*time.Hour))
			d := sample(t, "03", 1).set("identificacion.fecEmi", sealed)
			a := b.accepted(d)
			end, _ := time.Parse(time.DateOnly, last)
			end = end.Add(30*time.Hour - time.Second)
			if late {
				end = end.Add(time.Second)
			}
			b.clock.set(end)
			b.login(nit)
			e := invalidationOf(t, b, 1, "03", code("03", 1), a, d).set("identificacion.fecEmi",
				sealed).set("documento.fecEmi", sealed)
			if got := b.invalidate(e); (got.Estado == "PROCESADO") == late {
				t.Errorf("sealed on %s, late %v: %v", sealed, late, got)
			}
		}
	}
}
