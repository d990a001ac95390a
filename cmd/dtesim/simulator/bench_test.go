package simulator_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"dtegate/cmd/dtesim/simulator"
)

// BenchmarkReception is one document of ten lines, alone, with MH's size of key, without the network. It reports what
// an accepted document keeps in memory.
func BenchmarkReception(b *testing.B) {
	sim := simulator.New(simulator.Options{
		Seed: 7, Now: (&clock{at: noon}).now, Logger: slog.New(slog.DiscardHandler),
		Issuers: []simulator.Issuer{{NIT: nit, Password: password, PublicKey: &newKey().PublicKey}},
	})
	protocol := sim.Protocol()
	login := httptest.NewRequest(http.MethodPost, "/seguridad/auth", strings.NewReader(url.Values{"user": {nit},
		"pwd": {password}}.Encode()))
	login.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	login.Header.Set("User-Agent", "bench")
	w := httptest.NewRecorder()
	protocol.ServeHTTP(w, login)
	var out struct{ Body struct{ Token string } }
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		b.Fatal(err)
	}
	bodies, size := make([][]byte, b.N), 0
	for i := range bodies {
		d := tenLines(b, i)
		size = len(d.bytes())
		data, err := json.Marshal(envelope(d))
		if err != nil {
			b.Fatal(err)
		}
		bodies[i] = data
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	held := heap()
	var next atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r := httptest.NewRequest(http.MethodPost, "/fesv/recepciondte", bytes.NewReader(bodies[next.Add(1)-1]))
			r.Header.Set("Authorization", out.Body.Token)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("User-Agent", "bench")
			w := httptest.NewRecorder()
			if protocol.ServeHTTP(w, r); w.Code != http.StatusOK {
				b.Errorf("%d %s", w.Code, w.Body)
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "documents/s")
	b.ReportMetric((float64(heap())-float64(held))/float64(b.N), "kept-B/document")
	b.ReportMetric(float64(size), "payload-B")
	runtime.KeepAlive(bodies)
	runtime.KeepAlive(sim)
}

// tenLines is an invoice of ten lines.
func tenLines(t testing.TB, i int) *tree {
	t.Helper()
	d := sample(t, "01", i)
	line := d.get("cuerpoDocumento.0").(map[string]any)
	lines := []any{}
	for k := range 10 {
		one := map[string]any{}
		for name, v := range line {
			one[name] = v
		}
		one["numItem"], one["cantidad"], one["precioUni"], one["montoDescu"], one["ventaGravada"], one["ivaItem"] =
			k+1, n("1"), n("11.30"), n("0"), n("11.30"), n("1.30")
		lines = append(lines, one)
	}
	d.set("cuerpoDocumento", lines).set("resumen.pagos.0.montoPago", n("113"))
	for path, v := range map[string]string{"totalGravada": "113", "totalExenta": "0", "subTotalVentas": "113",
		"descuGravada": "0", "totalDescu": "0",
		"subTotal": "113", "totalIva": "13", "montoTotalOperacion": "113", "totalPagar": "113"} {
		d.set("resumen."+path, n(v))
	}
	return d
}
