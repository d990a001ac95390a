package protocol

import (
	"encoding/json"
	"net/http"
	"time"

	"dtegate/cmd/dtesim/simulator/document"
	"dtegate/cmd/dtesim/simulator/hostility"
	"dtegate/cmd/dtesim/simulator/registry"
)

// eventAnswer is the body of contingencia's answer (MT1 §4.2.4), member for member. A refusal comes with HTTP 200.
type eventAnswer struct {
	Estado        string   `json:"estado"`
	FechaHora     string   `json:"fechaHora"`
	Mensaje       string   `json:"mensaje"`
	SelloRecibido *string  `json:"selloRecibido"`
	Observaciones []string `json:"observaciones"`
}

func refusedEvent(at time.Time, r *document.Refusal) eventAnswer {
	return eventAnswer{Estado: "RECHAZADO", FechaHora: at.Format(registry.Stamp), Mensaje: "Validaciones no superadas",
		Observaciones: append([]string{r.Text}, r.Notes...)}
}

// receiveEvent is POST /fesv/contingencia.
func (s *Protocol) receiveEvent(w http.ResponseWriter, r *http.Request) {
	body, ok := s.body(w, r)
	if !ok {
		return
	}
	at := s.Now()
	var e struct{ NIT, Documento *string }
	if err := json.Unmarshal(body, &e); err != nil || e.NIT == nil || e.Documento == nil {
		s.Deliver(w, r, hostility.Events, http.StatusOK, refusedEvent(at, document.Incomplete()), nil)
		return
	}
	sub := document.Enclosed(*e.Documento)
	sub.Tipo = document.Contingencia
	d := &document.Document{Submission: sub, Issuer: holder(r), At: at, Done: at}
	a := eventAnswer{Estado: "RECIBIDO", FechaHora: at.Format(registry.Stamp), Mensaje: "Documento recibido",
		Observaciones: []string{}}
	if seal, bad := s.registry.JudgeEvent(d, *e.NIT); bad != nil {
		a = refusedEvent(at, bad)
	} else {
		a.SelloRecibido = &seal
	}
	s.log.Debug("event", "code", d.Code, "state", a.Estado, "notes", a.Observaciones)
	s.Deliver(w, r, hostility.Events, http.StatusOK, a, func() { s.registry.Tell(d.Code) })
}
