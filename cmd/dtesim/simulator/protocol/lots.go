package protocol

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"

	"dtegate/cmd/dtesim/simulator/document"
	"dtegate/cmd/dtesim/simulator/hostility"
	"dtegate/cmd/dtesim/simulator/registry"
)

// maxLotSize is how many documents a lot may hold (MT1 §3.4).
const maxLotSize = 100

// sendForm: idEnvio of a lot is a UUIDv4 in capitals.
var sendForm = regexp.MustCompile(`^[0-9A-F]{8}-[0-9A-F]{4}-4[0-9A-F]{3}-[89AB][0-9A-F]{3}-[0-9A-F]{12}$`)

// lotAnswer is the body of recepcionlote's answer (MT1 §4.2.5), member for member. No body of a refusal was published.
type lotAnswer struct {
	Version         int      `json:"version"`
	Ambiente        *string  `json:"ambiente"`
	VersionApp      int      `json:"versionApp"`
	Estado          string   `json:"estado"`
	IDEnvio         *string  `json:"idEnvio"`
	FhProcesamiento string   `json:"fhProcesamiento"`
	CodigoLote      *string  `json:"codigoLote"`
	CodigoMsg       string   `json:"codigoMsg"`
	DescripcionMsg  string   `json:"descripcionMsg"`
	ClasificaMsg    *string  `json:"clasificaMsg"`
	Observaciones   []string `json:"observaciones,omitempty"`
}

type lotEnvelope struct {
	Ambiente   *string  `json:"ambiente"`
	IDEnvio    *string  `json:"idEnvio"`
	Version    *int     `json:"version"`
	NITEmisor  *string  `json:"nitEmisor"`
	Documentos []string `json:"documentos"`
}

// receiveLot is POST /fesv/recepcionlote.
func (s *Protocol) receiveLot(w http.ResponseWriter, r *http.Request) {
	body, ok := s.body(w, r)
	if !ok {
		return
	}
	at := s.Now()
	var e lotEnvelope
	bad := document.Incomplete()
	if err := json.Unmarshal(body, &e); err == nil {
		bad = s.acceptable(&e, holder(r))
	}
	a := lotAnswer{Version: 1, Ambiente: e.Ambiente, VersionApp: 1, IDEnvio: e.IDEnvio,
		FhProcesamiento: at.Format(registry.Stamp)}
	if bad != nil {
		a.Estado, a.CodigoMsg, a.DescripcionMsg, a.ClasificaMsg, a.Observaciones = "RECHAZADO", bad.Code, bad.Text,
			registry.OrNull(bad.Class), bad.Notes
		s.Deliver(w, r, hostility.Lots, http.StatusBadRequest, a, nil)
		return
	}
	subs := make([]document.Submission, len(e.Documentos))
	for i, jws := range e.Documentos {
		subs[i] = document.Enclosed(jws)
		subs[i].Ambiente = *e.Ambiente
		if s.Poisons(subs[i].Code) {
			s.Fault(w, r, http.StatusInternalServerError, "No message available")
			return
		}
	}
	code := s.registry.Queue(subs, holder(r), at)
	s.log.Debug("lot", "code", code, "documents", len(subs))
	a.Estado, a.CodigoLote, a.CodigoMsg, a.DescripcionMsg, a.ClasificaMsg = "RECIBIDO", &code, "001", "LOTE RECIBIDO",
		registry.OrNull("10")
	s.Deliver(w, r, hostility.Lots, http.StatusOK, a, nil)
}

// acceptable checks a lot as a whole, without its documents.
func (s *Protocol) acceptable(e *lotEnvelope, issuer document.Issuer) *document.Refusal {
	if e.Ambiente == nil || e.IDEnvio == nil || e.Version == nil || e.NITEmisor == nil || len(e.Documentos) == 0 {
		return document.Incomplete()
	}
	if r := s.reader.Guard(document.Submission{Ambiente: *e.Ambiente}); r != nil {
		return r
	}
	switch {
	case *e.NITEmisor != issuer.NIT:
		return document.Stranger("nitEmisor")
	case !sendForm.MatchString(*e.IDEnvio):
		return document.Misshapen("idEnvio")
	case *e.Version != 1 && *e.Version != 2: // integrators use either
		return document.NotAllowed("version")
	case len(e.Documentos) > maxLotSize:
		s.registry.Oversized(len(e.Documentos))
		return document.NotAllowed("documentos", fmt.Sprintf("El lote tiene más de %d documentos", maxLotSize))
	case s.Take(func(c *hostility.Chaos) *int { return &c.RejectLots }):
		return document.NotAllowed("documentos", registry.Provoked)
	}
	return nil
}

// queryLot is GET /fesv/recepcion/consultadtelote/{codigoLote}: it answers the verdicts, 204 while the lot is in
// process, or 400 for a lot that MH does not hold. MH's own answer for an unknown lot was not published.
func (s *Protocol) queryLot(w http.ResponseWriter, r *http.Request) {
	issuer, at := holder(r), s.Now()
	v, known := s.registry.LotVerdicts(r.PathValue("lot"), issuer.NIT)
	switch {
	case !known:
		a := registry.Rejected("", "", at, document.Absent("codigoLote"))
		s.Deliver(w, r, hostility.Queries, a.Status(), a, nil)
	case v == nil:
		if s.Wait(r.Context()) {
			w.WriteHeader(http.StatusNoContent)
		}
	default:
		s.Deliver(w, r, hostility.Queries, http.StatusOK, v, nil)
	}
}
