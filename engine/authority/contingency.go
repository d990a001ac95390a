package authority

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// This file implements the protocol for contingency: the event, the lots, and the probe.

// zone is El Salvador's time zone, in which MH writes times.
var zone = time.FixedZone("America/El_Salvador", -6*60*60)

// Receipt is MH's answer to a contingency event (MT1 §4.5). The event's code is not in it.
type Receipt struct {
	Estado        string    `json:"estado"`
	FechaHora     string    `json:"fechaHora"`
	Mensaje       string    `json:"mensaje"`
	SelloRecibido string    `json:"selloRecibido"`
	Observaciones []string  `json:"observaciones"`
	At            time.Time `json:"at"` // FechaHora; zero if it cannot be read
}

// Text returns MH's message and its observations as one line.
func (r *Receipt) Text() string {
	return strings.TrimSpace(strings.Join(append([]string{r.Mensaje}, r.Observaciones...), " "))
}

// Report sends a contingency event once. The receipt is nil only if Kind is Unknown.
func (c *Client) Report(ctx context.Context, jws string) (o Outcome, r *Receipt) {
	defer c.observe("event", &o)()
	status, answer, sent, err := c.exchange(ctx, http.MethodPost, "/fesv/contingencia",
		map[string]any{"nit": c.options.NIT, "documento": jws})
	if err != nil {
		return Outcome{Sent: sent, Err: err}, nil
	}
	a, err := readAnswer(answer)
	r = &Receipt{Estado: a.text("estado"), FechaHora: a.text("fechaHora"), Mensaje: a.text("mensaje"),
		SelloRecibido: a.text("selloRecibido"), Observaciones: a.texts("observaciones"),
		At: ParseTime(a.text("fechaHora"))}
	switch {
	case err != nil:
	case status == http.StatusOK && r.Estado == "RECIBIDO" && sello.MatchString(r.SelloRecibido):
		if o = c.accepted(r.SelloRecibido, nil); o.Kind != Accepted {
			return o, nil
		}
		return o, r
	case (status == http.StatusOK || status == http.StatusBadRequest) && r.Estado == "RECHAZADO" &&
		r.SelloRecibido == "":
		return Outcome{Kind: Rejected}, r
	}
	return undecided(status, "%.60q", answer), nil
}

// SubmitLot sends a lot once: at most 100 documents (MT1 §4.4). sendID is the idEnvio, a UUID version 4 in capitals
// that the sender chooses. Accepted: MH has the lot, and decides its documents later, under the returned code.
// Rejected: MH accepts no document of the lot, for the returned reason.
func (c *Client) SubmitLot(ctx context.Context, sendID string, jws []string) (o Outcome, code, reason string) {
	defer c.observe("lot", &o)()
	// MT1's example has version 1.
	body := map[string]any{"ambiente": c.options.Ambiente, "idEnvio": sendID, "version": 1,
		"nitEmisor": c.options.NIT, "documentos": jws}
	status, answer, sent, err := c.exchange(ctx, http.MethodPost, "/fesv/recepcionlote/", body)
	if err != nil {
		return Outcome{Sent: sent, Err: err}, "", ""
	}
	a, err := readAnswer(answer)
	id, estado := a.text("idEnvio"), a.text("estado")
	switch {
	case err != nil, id != "" && id != sendID:
	case status == http.StatusOK && estado == "RECIBIDO" && a.text("codigoLote") != "":
		return Outcome{Kind: Accepted}, a.text("codigoLote"), ""
	case (status == http.StatusOK || status == http.StatusBadRequest) && estado == "RECHAZADO":
		return Outcome{Kind: Rejected}, "", strings.TrimSpace(strings.Join(append([]string{a.text("codigoMsg"),
			a.text("descripcionMsg")}, a.texts("observaciones")...), " "))
	}
	return undecided(status, "%.60q", answer), "", ""
}

// QueryLot asks MH for the results of a lot. The outcomes are by codigoGeneracion; an outcome is Unknown if MH's answer
// about the document decides nothing. There is no outcome if MH has not begun the lot or does not know it.
func (c *Client) QueryLot(ctx context.Context, code string) (outcomes map[string]Outcome, err error) {
	o := Outcome{Kind: Accepted}
	defer c.observe("lot_query", &o)()
	defer func() {
		if err != nil {
			o = Outcome{Err: err, Sent: true}
		}
	}()
	status, answer, _, err := c.exchange(ctx, http.MethodGet, "/fesv/recepcion/consultadtelote/"+code, nil)
	if err != nil {
		return nil, err
	}
	var w struct {
		Procesados []json.RawMessage `json:"procesados"`
		Rechazados []json.RawMessage `json:"rechazados"`
		Estado     string            `json:"estado"`
	}
	switch {
	case status == http.StatusNoContent:
		return nil, nil
	case json.Unmarshal(answer, &w) != nil:
		return nil, fmt.Errorf("%w: HTTP %d: %.60q", ErrAnswer, status, answer)
	case (status == http.StatusBadRequest || status == http.StatusNotFound) && w.Estado == "RECHAZADO":
		return nil, nil
	case status != http.StatusOK:
		return nil, fmt.Errorf("%w: HTTP %d: %.60q", ErrAnswer, status, answer)
	}
	outcomes = make(map[string]Outcome)
	for i, list := range [][]json.RawMessage{w.Procesados, w.Rechazados} {
		for _, one := range list {
			var about struct {
				Code string `json:"codigoGeneracion"`
			}
			if json.Unmarshal(one, &about) != nil || about.Code == "" {
				continue
			}
			httpStatus := http.StatusOK
			if i == 1 {
				httpStatus = http.StatusBadRequest
			}
			outcomes[about.Code] = c.decide(httpStatus, one, about.Code)
		}
	}
	return outcomes, nil
}

const nobody = "00000000-0000-4000-8000-000000000000"

// Probe queries MH for a document that does not exist. Kind is Unknown if the service did not answer.
func (c *Client) Probe(ctx context.Context) Outcome {
	o := c.ask(ctx, "/fesv/recepcion/consultadte/", map[string]any{"nitEmisor": c.options.NIT, "tdte": "01",
		"codigoGeneracion": nobody}, nobody)
	c.metrics.count("probe", o, 0)
	return o
}

// ParseTime returns a time that MH wrote, zero if it cannot be read.
func ParseTime(s string) time.Time {
	t, _ := time.ParseInLocation("02/01/2006 15:04:05", s, zone)
	return t
}
