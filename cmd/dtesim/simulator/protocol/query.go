package protocol

import (
	"encoding/json"
	"net/http"

	"dtegate/cmd/dtesim/simulator/document"
	"dtegate/cmd/dtesim/simulator/hostility"
	"dtegate/cmd/dtesim/simulator/registry"
)

// query is POST /fesv/recepcion/consultadte/: it repeats the answer to an accepted document, or answers 400 if MH does
// not hold the document (MT1 §4.2.2). A refused document is unknown, because a refusal registers nothing.
func (s *Protocol) query(w http.ResponseWriter, r *http.Request) {
	body, ok := s.body(w, r)
	if !ok {
		return
	}
	var q struct {
		NITEmisor        *string `json:"nitEmisor"`
		TipoDte          *string `json:"tdte"`
		CodigoGeneracion *string `json:"codigoGeneracion"`
	}
	at := s.Now()
	if err := json.Unmarshal(body, &q); err != nil || q.NITEmisor == nil || q.TipoDte == nil ||
		q.CodigoGeneracion == nil {
		a := registry.Rejected("", text(q.CodigoGeneracion), at, document.Incomplete())
		s.Deliver(w, r, hostility.Queries, a.Status(), a, nil)
		return
	}
	issuer := holder(r)
	held, known := s.registry.Find(issuer.NIT, *q.TipoDte, *q.CodigoGeneracion)
	if !known || *q.NITEmisor != issuer.NIT {
		a := registry.Rejected("", *q.CodigoGeneracion, at, document.Absent("codigoGeneracion"))
		s.Deliver(w, r, hostility.Queries, a.Status(), a, nil)
		return
	}
	s.Deliver(w, r, hostility.Queries, held.Status(), held, nil)
}
