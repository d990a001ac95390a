package protocol

import (
	"encoding/json"
	"net/http"
	"time"

	"dtegate/cmd/dtesim/simulator/document"
	"dtegate/cmd/dtesim/simulator/hostility"
	"dtegate/cmd/dtesim/simulator/registry"
)

// envelope is the request of recepciondte (MT1 §4.2.1). An absent member is a nil pointer.
type envelope struct {
	Ambiente         *string `json:"ambiente"`
	IDEnvio          *int64  `json:"idEnvio"`
	Version          *int    `json:"version"`
	TipoDte          *string `json:"tipoDte"`
	Documento        *string `json:"documento"`
	CodigoGeneracion *string `json:"codigoGeneracion"`
}

func (e *envelope) complete() bool {
	return e.Ambiente != nil && e.IDEnvio != nil && e.Version != nil && e.TipoDte != nil && e.Documento != nil &&
		e.CodigoGeneracion != nil
}

// receive is POST /fesv/recepciondte.
func (s *Protocol) receive(w http.ResponseWriter, r *http.Request) {
	body, ok := s.body(w, r)
	if !ok {
		return
	}
	at := s.Now()
	var e envelope
	if err := json.Unmarshal(body, &e); err != nil || !e.complete() {
		a := registry.Rejected(text(e.Ambiente), text(e.CodigoGeneracion), at, document.Incomplete())
		s.Reply(w, r, a.Status(), a)
		return
	}
	if s.Poisons(*e.CodigoGeneracion) {
		s.Fault(w, r, http.StatusInternalServerError, "No message available")
		return
	}
	sub := document.Submission{Ambiente: *e.Ambiente, Tipo: *e.TipoDte, Code: *e.CodigoGeneracion, JWS: *e.Documento,
		Version: *e.Version}
	d := &document.Document{Submission: sub, Issuer: holder(r), At: at, Done: at}
	if s.Strikes(hostility.Documents, func(c *hostility.Chaos) *int { return &c.LateRequests }) {
		d.Done = at.Add(time.Duration(s.Hostilities().LateMS) * time.Millisecond)
		s.registry.Delay(d)
		hostility.Cut()
	}
	a := s.registry.Judge(d)
	s.log.Debug("reception", "code", sub.Code, "state", a.Estado, "message", a.CodigoMsg, "text", a.DescripcionMsg,
		"notes", a.Observaciones)
	s.Deliver(w, r, hostility.Documents, a.Status(), a, nil)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
