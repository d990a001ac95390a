package simulator_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
)

func TestReception_Accepted(t *testing.T) {
	b := open(t)
	seal := regexp.MustCompile(`^2026[0-9A-F]{12}4[0-9A-F]{3}[89AB][0-9A-F]{15}SIMU$`)
	seen := make(map[string]bool)
	for n, tipo := range []string{"01", "03"} {
		d := sample(t, tipo, n+1)
		a := b.accepted(d)
		if a.CodigoMsg != "001" || a.DescripcionMsg != "RECIBIDO" || *a.ClasificaMsg != "10" ||
			len(a.Observaciones) != 0 ||
			*a.FhProcesamiento != "15/12/2026 12:00:00" || *a.Ambiente != "00" || *a.CodigoGeneracion != code(tipo,
			n+1) {
			t.Errorf("%s: %v", tipo, a)
		}
		if !seal.MatchString(*a.SelloRecibido) || seen[*a.SelloRecibido] {
			t.Errorf("%s: seal %s", tipo, *a.SelloRecibido)
		}
		seen[*a.SelloRecibido] = true
		// The query repeats the reception's answer.
		q := b.lookup(tipo, code(tipo, n+1))
		if q.String() != a.String() || *q.SelloRecibido != *a.SelloRecibido ||
			*q.FhProcesamiento != *a.FhProcesamiento {
			t.Errorf("%s: query %v, reception %v", tipo, q, a)
		}
		kept, ok := b.sim.Document(code(tipo, n+1))
		if !ok || !kept.Accepted || kept.Attempts != 1 || kept.Sello != *a.SelloRecibido ||
			string(kept.Document) != string(d.bytes()) {
			t.Errorf("%s: kept %+v", tipo, kept)
		}
	}
	if got := b.sim.Received(); got != (simulator.Counts{Documents: 2}) {
		t.Errorf("received %+v", got)
	}
}

func TestReception_TrailingSlash(t *testing.T) {
	b := open(t)
	if a := b.ask("/fesv/recepciondte/", envelope(sample(t, "01", 1))); a.Estado != "PROCESADO" {
		t.Error(a)
	}
	if a := b.ask("/fesv/recepcion/consultadte", map[string]any{"nitEmisor": nit, "tdte": "01",
		"codigoGeneracion": code("01", 1)}); a.Estado != "PROCESADO" {
		t.Error(a)
	}
}

func TestReception_PrettyPayload(t *testing.T) {
	// MH's own signer writes the payload with Jackson: indented, doubles in Java's form.
	b := open(t)
	d := sample(t, "03", 1).set("cuerpoDocumento.0.cantidad", json.Number("12.0")).set("resumen.subTotal",
		json.Number("1.1E2"))
	payload, err := json.MarshalIndent(d.root, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	e := envelope(d)
	e["documento"] = sign(payload)
	if a := b.ask("/fesv/recepciondte", e); a.Estado != "PROCESADO" {
		t.Error(a)
	}
}

func TestReception_Signature(t *testing.T) {
	b := open(t)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	d := sample(t, "01", 1)
	good := sign(d.bytes())
	parts := strings.Split(good, ".")
	for name, doc := range map[string]string{
		"another key":       jws(`{"alg":"RS512"}`, d.bytes(), other),
		"another algorithm": jws(`{"alg":"RS256"}`, d.bytes(), newKey()),
		"a typ":             jws(`{"alg":"RS512","typ":"JWT"}`, d.bytes(), newKey()),
		"a blank":           jws(`{"alg": "RS512"}`, d.bytes(), newKey()),
		"none":              jws(`{"alg":"none"}`, d.bytes(), newKey()),
		"another payload":   parts[0] + "." + strings.Split(sign(sample(t, "01", 2).bytes()), ".")[1] + "." + parts[2],
		"padding":           good + "=",
		"idle bits set":     good[:len(good)-1] + string(good[len(good)-1]+1), // one base64 text a signature
		"two parts":         parts[0] + "." + parts[1],
		"no signature":      parts[0] + "." + parts[1] + ".",
		"not signed":        string(d.bytes()),
		"nothing":           "",
	} {
		t.Run(name, func(t *testing.T) {
			e := envelope(d)
			e["documento"] = doc
			a := b.ask("/fesv/recepciondte", e)
			if a.status != 400 || a.CodigoMsg != "802" || *a.ClasificaMsg != "20" ||
				a.DescripcionMsg != "Firma no válida" {
				t.Error(a)
			}
		})
	}
	if kept, _ := b.sim.Document(code("01", 1)); kept.Document != nil {
		t.Error("a payload that nobody signed was kept")
	}
	b.accepted(d)
}

func TestReception_EnvelopeDisagrees(t *testing.T) {
	b := open(t)
	d := sample(t, "01", 1)
	for member, v := range map[string]any{
		"tipoDte": "03", "version": 1, "codigoGeneracion": code("01", 2),
	} {
		e := envelope(d)
		e[member] = v
		a := b.ask("/fesv/recepciondte", e)
		if a.CodigoMsg != "003" || a.DescripcionMsg != "[identificacion."+member+"] NO COINCIDE CON LA PETICION" {
			t.Errorf("%s: %v", member, a)
		}
	}
	for _, member := range []string{"ambiente", "idEnvio", "version", "tipoDte", "documento", "codigoGeneracion"} {
		e := envelope(d)
		delete(e, member)
		if a := b.ask("/fesv/recepciondte", e); a.CodigoMsg != "094" || a.status != 400 {
			t.Errorf("without %s: %v", member, a)
		}
	}
	e := envelope(d)
	e["idEnvio"] = "uno"
	if a := b.ask("/fesv/recepciondte", e); a.CodigoMsg != "094" {
		t.Errorf("idEnvio as text: %v", a)
	}
}

func TestReception_NotJSON(t *testing.T) {
	b := open(t)
	d := sample(t, "01", 1)
	text := string(d.bytes())
	for name, payload := range map[string]string{
		"twice a member": `{"apendice":null,` + text[1:],
		"trailing":       text + "{}",
		"cut":            text[:len(text)-1],
		"bad utf-8":      strings.Replace(text, "Marta", "Mart\xff", 1),
		"an array":       "[" + text + "]",
		"huge exponent":  strings.Replace(text, `"psv":0`, `"psv":1e999999999`, 1),
		"deep":           strings.Repeat("[", 10000) + strings.Repeat("]", 10000),
	} {
		e := envelope(d)
		e["documento"] = sign([]byte(payload))
		if a := b.ask("/fesv/recepciondte", e); a.CodigoMsg != "096" {
			t.Errorf("%s: %v", name, a)
		}
	}
}

func TestReception_Duplicates(t *testing.T) {
	b := open(t)
	d := sample(t, "01", 1)
	first := b.accepted(d)
	b.refused(d, "004", "[identificacion.codigoGeneracion] YA EXISTE UN REGISTRO CON ESE VALOR")
	b.refused(d, "004", "[identificacion.codigoGeneracion] YA EXISTE UN REGISTRO CON ESE VALOR")
	other := sample(t, "01", 2).set("identificacion.numeroControl", d.get("identificacion.numeroControl"))
	b.refused(other, "004", "[identificacion.numeroControl] YA EXISTE UN REGISTRO CON ESE VALOR")

	if got := b.sim.Received(); got != (simulator.Counts{Documents: 1, Duplicates: 2}) {
		t.Errorf("received %+v", got)
	}
	kept, _ := b.sim.Document(code("01", 1))
	if kept.Attempts != 3 || kept.Sello != *first.SelloRecibido {
		t.Errorf("kept %+v", kept)
	}
	// A refused document registers neither its number nor its code: corrected, the same code passes.
	b.accepted(other.set("identificacion.numeroControl", "DTE-01-M001P001-000000000000002"))

	// The number is free again in another year.
	b.clock.set(noon.AddDate(1, 0, 0))
	b.login(nit)
	next := sample(t, "01", 3).set("identificacion.numeroControl", d.get("identificacion.numeroControl")).set(
		"identificacion.fecEmi", "2027-12-15")
	b.accepted(next)
}

func TestReception_NumbersPerIssuer(t *testing.T) {
	const other = "06142202970017"
	b := open(t, func(o *simulator.Options) {
		o.Issuers = append(o.Issuers, simulator.Issuer{NIT: other, Password: password, PublicKey: &newKey().PublicKey})
	})
	b.accepted(sample(t, "01", 1))
	foreign := sample(t, "01", 2).set("identificacion.numeroControl",
		"DTE-01-M001P001-000000000000001").set("emisor.nit", other)
	b.refused(foreign, "008", "[emisor.nit] NO CORRESPONDE A CONTRIBUYENTE")
	b.login(other)
	b.accepted(foreign)
	// Nobody sees another issuer's documents.
	for _, who := range []string{nit, other} {
		if a := b.lookupOf(who, "01", code("01", 1)); a.status != 400 || a.CodigoMsg != "014" {
			t.Errorf("as %s: %v", who, a)
		}
	}
	if a := b.lookupOf(other, "01", code("01", 2)); a.Estado != "PROCESADO" {
		t.Error(a)
	}
	if a := b.lookupOf(nit, "01", code("01", 2)); a.status != 400 {
		t.Error(a)
	}
}

func TestReception_Dates(t *testing.T) {
	b := open(t)
	late := b.accepted(sample(t, "01", 1).set("identificacion.fecEmi", "2026-12-11"))
	if late.CodigoMsg != "002" || late.DescripcionMsg != "RECIBIDO CON OBSERVACIONES" ||
		!slices.Equal(late.Observaciones, []string{"identificacion.fecEmi Difiere de la fecha de envío."}) {
		t.Error(late)
	}
	b.refused(sample(t, "01", 2).set("identificacion.fecEmi", "2026-12-16"), "007",
		"[identificacion.fecEmi] VALOR NO ES PERMITIDO")
	// At 23:30 in El Salvador it is tomorrow in UTC: the Salvadoran day counts.
	b.clock.set(time.Date(2026, 12, 16, 5, 30, 0, 0, time.UTC))
	if a := b.accepted(sample(t, "01", 3)); a.CodigoMsg != "001" {
		t.Error(a)
	}
}

func TestReception_Contingency(t *testing.T) {
	b := open(t)
	d := sample(t, "01", 1).set("identificacion.tipoModelo", 2).set("identificacion.tipoOperacion",
		2).set("identificacion.tipoContingencia", 1)
	a := b.refused(d, "014", "[identificacion.tipoContingencia] NO EXISTE UN REGISTRO CON ESTE DATO")
	if len(a.Observaciones) != 1 || !strings.Contains(a.Observaciones[0], "evento de contingencia") {
		t.Error(a)
	}
	b.refused(d.set("identificacion.tipoContingencia", 5), "003",
		"[identificacion.motivoContin] FALTAN DATOS PARA VALIDAR INFORMACION")
	b.refused(d.set("identificacion.tipoModelo", 1), "007", "[identificacion.tipoModelo] VALOR NO ES PERMITIDO")
	b.refused(sample(t, "01", 2).set("identificacion.tipoContingencia", 1), "007",
		"[identificacion.tipoContingencia] VALOR NO ES PERMITIDO")
}

func TestReception_Production(t *testing.T) {
	b := open(t)
	d := sample(t, "01", 1).set("identificacion.ambiente", "01")
	a := b.refused(d, "007", "[ambiente] VALOR NO ES PERMITIDO")
	if len(a.Observaciones) != 1 || !strings.Contains(a.Observaciones[0], "simulador") {
		t.Error(a)
	}
	// The envelope cannot smuggle it in.
	e := envelope(d)
	e["ambiente"] = "00"
	if a := b.ask("/fesv/recepciondte",
		e); a.DescripcionMsg != "[identificacion.ambiente] NO COINCIDE CON LA PETICION" {
		t.Error(a)
	}
	open(t, func(o *simulator.Options) { o.AllowProduction = true }).accepted(d)
}

func TestReception_OtherGenerations(t *testing.T) {
	b := open(t)
	for _, version := range []int{0, 3, 4} {
		a := b.refused(sample(t, "01", 1).set("identificacion.version", version), "096",
			"DOCUMENTO NO CUMPLE ESQUEMA JSON")
		if !slices.Equal(a.Observaciones, []string{"Campo #/identificacion/version contiene un valor inválido"}) {
			t.Error(a)
		}
	}
	// Another generation's version on this one's members.
	a := b.refused(sample(t, "01", 1).set("identificacion.version", 1), "096", "DOCUMENTO NO CUMPLE ESQUEMA JSON")
	if !slices.Contains(a.Observaciones, "Campo #/resumen/ivaRete1 es requerido") {
		t.Error(a)
	}
}

func TestQuery_NotFound(t *testing.T) {
	b := open(t)
	b.accepted(sample(t, "01", 1))
	for _, a := range []answer{b.lookup("01", code("01", 9)), b.lookup("03", code("01", 1))} {
		if a.status != 400 || a.Estado != "RECHAZADO" || a.SelloRecibido != nil || a.Observaciones != nil {
			t.Error(a)
		}
	}
	// What was refused is not there.
	b.refused(sample(t, "01", 2).set("resumen.totalPagar", 1), "020", "[resumen.totalPagar] CALCULO INCORRECTO")
	if a := b.lookup("01", code("01", 2)); a.status != 400 {
		t.Error(a)
	}
	if a := b.ask("/fesv/recepcion/consultadte/", map[string]any{"tdte": "01"}); a.CodigoMsg != "094" {
		t.Error(a)
	}
}

func TestProtocol_OtherPaths(t *testing.T) {
	b := open(t)
	for _, path := range []string{"/fesv/recepcionevento", "/fesv/recepciondte/x", "/"} {
		status, body, err := b.post(path, map[string]any{})
		var out struct {
			Status      int
			Error, Path string
		}
		if err != nil || status != http.StatusNotFound || json.Unmarshal(body, &out) != nil || out.Status != 404 ||
			out.Path != path {
			t.Errorf("%s: %d %s %v", path, status, body, err)
		}
	}
}
