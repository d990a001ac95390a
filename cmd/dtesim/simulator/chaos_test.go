package simulator_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dtegate/cmd/dtesim/simulator"
)

func TestChaos_LostAnswer(t *testing.T) {
	b := open(t)
	b.chaos(simulator.Chaos{LostAnswers: 1})
	d := sample(t, "01", 1)
	if status, _, err := b.try(d); err == nil {
		t.Fatalf("answered %d", status)
	}
	// It was processed nevertheless: the query finds it, a resend is a duplicate.
	if a := b.lookup("01", code("01", 1)); a.Estado != "PROCESADO" {
		t.Error(a)
	}
	b.refused(d, "004", "[identificacion.codigoGeneracion] YA EXISTE UN REGISTRO CON ESE VALOR")
	if got := b.sim.Received(); got != (simulator.Counts{Documents: 1, Duplicates: 1}) {
		t.Errorf("%+v", got)
	}
}

func TestChaos_LostRequest(t *testing.T) {
	b := open(t)
	b.chaos(simulator.Chaos{LostRequests: 2})
	d := sample(t, "01", 1)
	for range 2 {
		if status, _, err := b.try(d); err == nil {
			t.Fatalf("answered %d", status)
		}
	}
	if _, known := b.sim.Document(code("01", 1)); known {
		t.Error("a lost request was received")
	}
	b.accepted(d)
}

func TestChaos_ServerErrorsAndHTML(t *testing.T) {
	b := open(t)
	b.chaos(simulator.Chaos{ServerErrors: 1, HTML: 1})
	d := sample(t, "01", 1)
	if status, body, err := b.try(d); err != nil || status != http.StatusInternalServerError || !json.Valid(body) {
		t.Errorf("%d %s %v", status, body, err)
	}
	if status, body, err := b.try(d); err != nil || status != http.StatusOK || !strings.Contains(string(body),
		"<html>") {
		t.Errorf("%d %s %v", status, body, err)
	}
	if _, known := b.sim.Document(code("01", 1)); known {
		t.Error("processed")
	}
	// Queries are not receptions.
	b.chaos(simulator.Chaos{ServerErrors: 1})
	if a := b.lookup("01", code("01", 1)); a.status != 400 {
		t.Error(a)
	}
	b.chaos(simulator.Chaos{})
	b.accepted(d)
}

func TestChaos_HalfAnswer(t *testing.T) {
	b := open(t)
	b.chaos(simulator.Chaos{HalfAnswers: 1})
	status, body, err := b.try(sample(t, "01", 1))
	if status != http.StatusOK || !errors.Is(err, io.ErrUnexpectedEOF) || len(body) == 0 || json.Valid(body) {
		t.Errorf("%d %s %v", status, body, err)
	}
	if a := b.lookup("01", code("01", 1)); a.Estado != "PROCESADO" {
		t.Error(a)
	}
}

func TestChaos_Reject(t *testing.T) {
	b := open(t)
	b.chaos(simulator.Chaos{Reject: 1})
	d := sample(t, "01", 1)
	// A document that is refused anyway does not use up the hostility.
	b.refused(sample(t, "01", 2).set("resumen.totalPagar", 1), "020", "[resumen.totalPagar] CALCULO INCORRECTO")
	b.refused(d, "007", "[resumen.totalPagar] VALOR NO ES PERMITIDO")
	b.accepted(d)
}

func TestChaos_ExpiredTokens(t *testing.T) {
	b := open(t)
	b.chaos(simulator.Chaos{ExpiredTokens: 1})
	d := sample(t, "01", 1)
	if a := b.send(d); a.status != http.StatusUnauthorized {
		t.Error(a)
	}
	b.accepted(d)
}

func TestChaos_Silence(t *testing.T) {
	b := open(t)
	b.chaos(simulator.Chaos{Silence: true})
	done := make(chan error, 1)
	go func() {
		_, _, err := b.try(sample(t, "01", 1))
		done <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/seguridad/auth", strings.NewReader("user=x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.http.Do(req); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("login in silence: %v", err)
	}
	select {
	case err := <-done:
		t.Errorf("answered: %v", err)
	default:
	}
	// Its end cuts what it swallowed: nothing of it was processed.
	b.chaos(simulator.Chaos{})
	if err := <-done; err == nil {
		t.Error("a swallowed request was answered")
	}
	if _, known := b.sim.Document(code("01", 1)); known {
		t.Error("a swallowed request was processed")
	}
	b.accepted(sample(t, "01", 1))
}

func TestChaos_OutageWithoutServe(t *testing.T) {
	b := open(t)
	b.chaos(simulator.Chaos{Outage: true})
	if _, _, err := b.try(sample(t, "01", 1)); err == nil {
		t.Error("answered")
	}
	b.chaos(simulator.Chaos{})
	b.accepted(sample(t, "01", 1))
}

// Only the answer is delayed; on a fake clock, by exactly that time.
func TestChaos_Delay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulator.New(simulator.Options{Now: time.Now, Issuers: []simulator.Issuer{{NIT: nit, Password: password,
			PublicKey: &newKey().PublicKey}}})
		if err := s.Chaos(simulator.Chaos{DelayMS: 9000}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		w := newRecorder()
		s.Protocol().ServeHTTP(w, formRequest(t.Context()))
		if took := time.Since(start); took != 9*time.Second || !strings.Contains(w.Body.String(), `"status":"OK"`) {
			t.Errorf("took %v: %s", took, w.Body)
		}
		// A client that waits 8 seconds gets nothing.
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		w = newRecorder()
		s.Protocol().ServeHTTP(w, formRequest(ctx))
		if w.Body.Len() > 0 {
			t.Errorf("answered %s", w.Body)
		}
	})
}

func TestChaos_Refused(t *testing.T) {
	b := open(t)
	b.chaos(simulator.Chaos{Reject: 3})
	for _, c := range []simulator.Chaos{{Reject: -1}, {LostAnswers: -1}, {DelayMS: 3_600_001}, {LotMS: -5}} {
		if err := b.sim.Chaos(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	if got := b.sim.Hostilities(); got != (simulator.Chaos{Reject: 3}) {
		t.Errorf("%+v", got)
	}
}

// TestChaos_RejectType: a refusal aimed at one type does not affect the others, and waits for its own type.
func TestChaos_RejectType(t *testing.T) {
	b := open(t)
	b.chaos(simulator.Chaos{Reject: 1, RejectType: "03"})
	b.accepted(sample(t, "01", 1))
	if a := b.send(sample(t, "03", 1)); a.Estado != "RECHAZADO" || a.CodigoMsg != "007" {
		t.Errorf("%+v", a)
	}
	b.accepted(sample(t, "03", 2))
	if got := b.sim.Types(); len(got) != 2 || got["01"] != 1 || got["03"] != 1 {
		t.Errorf("%v", got)
	}
	if err := b.sim.Chaos(simulator.Chaos{RejectType: "3"}); err == nil {
		t.Error("a type that there is not is taken")
	}
}
