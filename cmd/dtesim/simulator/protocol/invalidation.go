package protocol

import (
	"encoding/json"
	"net/http"

	"dtegate/cmd/dtesim/simulator/document"
	"dtegate/cmd/dtesim/simulator/hostility"
	"dtegate/cmd/dtesim/simulator/registry"
)

// annul is POST /fesv/anulardte.
func (s *Protocol) annul(w http.ResponseWriter, r *http.Request) {
	body, ok := s.body(w, r)
	if !ok {
		return
	}
	at := s.Now()
	var e struct {
		Ambiente  *string `json:"ambiente"`
		IDEnvio   *int64  `json:"idEnvio"`
		Version   *int    `json:"version"`
		Documento *string `json:"documento"`
	}
	if err := json.Unmarshal(body, &e); err != nil || e.Ambiente == nil || e.IDEnvio == nil || e.Version == nil ||
		e.Documento == nil {
		a := registry.Rejected(text(e.Ambiente), "", at, document.Incomplete())
		s.Reply(w, r, a.Status(), a)
		return
	}
	sub := document.Enclosed(*e.Documento)
	sub.Ambiente, sub.Tipo, sub.Version = *e.Ambiente, document.Anulacion, *e.Version
	d := &document.Document{Submission: sub, Issuer: holder(r), At: at, Done: at}
	a := s.registry.JudgeInvalidation(d)
	s.log.Debug("invalidation", "code", d.Code, "state", a.Estado, "message", a.CodigoMsg, "text", a.DescripcionMsg,
		"notes", a.Observaciones)
	s.Deliver(w, r, hostility.Invalidations, a.Status(), a, nil)
}
