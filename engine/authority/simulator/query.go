package simulator

import (
	"encoding/json"
	"net/http"
)

// query is POST /fesv/recepcion/consultadte/: the answer that the document got when it was accepted, or a 400 when MH
// holds none (MT1 §4.2.2). A document that was refused is unknown, since a refusal registers nothing.
func (s *Simulator) query(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(w, r)
	if err != nil {
		s.fault(w, r, http.StatusBadRequest, "Bad Request")
		return
	}
	var q struct {
		NITEmisor        *string `json:"nitEmisor"`
		TipoDte          *string `json:"tdte"`
		CodigoGeneracion *string `json:"codigoGeneracion"`
	}
	at := s.now()
	if err := json.Unmarshal(body, &q); err != nil || q.NITEmisor == nil || q.TipoDte == nil || q.CodigoGeneracion == nil {
		a := rejected("", text(q.CodigoGeneracion), at, incomplete())
		s.deliver(w, r, queries, a.status(), a, nil)
		return
	}
	issuer := holder(r)
	s.lock()
	held := s.books.records[*q.CodigoGeneracion]
	s.mu.Unlock()
	if held == nil || held.nit != issuer.NIT || *q.NITEmisor != issuer.NIT || held.tipo != *q.TipoDte || event(held.tipo) {
		a := rejected("", *q.CodigoGeneracion, at, absent("codigoGeneracion"))
		s.deliver(w, r, queries, a.status(), a, nil)
		return
	}
	s.deliver(w, r, queries, held.answer.status(), held.answer, nil)
}
