package simulator

import (
	"encoding/json"
	"net/http"
	"time"
)

// stamp is the layout of fhProcesamiento (MT1 §4.2.1).
const stamp = "02/01/2006 15:04:05"

// answer is the body of recepciondte and of consultadte (MT1 §4.2.1, §4.2.2), member for member.
type answer struct {
	Version          int      `json:"version"`
	Ambiente         *string  `json:"ambiente"`
	VersionApp       int      `json:"versionApp"`
	Estado           string   `json:"estado"`
	CodigoGeneracion *string  `json:"codigoGeneracion"`
	SelloRecibido    *string  `json:"selloRecibido"`
	FhProcesamiento  *string  `json:"fhProcesamiento"`
	ClasificaMsg     *string  `json:"clasificaMsg"`
	CodigoMsg        string   `json:"codigoMsg"`
	DescripcionMsg   string   `json:"descripcionMsg"`
	Observaciones    []string `json:"observaciones"`
}

// orNull is null for the empty string.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func accepted(d *document, seal string, notes []string) answer {
	a := answer{
		Version: 2, VersionApp: 2, Ambiente: orNull(d.ambiente), Estado: "PROCESADO",
		CodigoGeneracion: orNull(d.code), SelloRecibido: &seal, FhProcesamiento: orNull(d.done.Format(stamp)),
		ClasificaMsg: orNull("10"), CodigoMsg: "001", DescripcionMsg: "RECIBIDO", Observaciones: []string{},
	}
	if len(notes) > 0 {
		a.CodigoMsg, a.DescripcionMsg, a.Observaciones = "002", "RECIBIDO CON OBSERVACIONES", notes
	}
	return a
}

// rejected answers a refusal. Observaciones is null when there is nothing to observe, as MT1 §4.2.1 prints it.
func rejected(ambiente, code string, at time.Time, r *refusal) answer {
	return answer{
		Version: 2, VersionApp: 2, Ambiente: orNull(ambiente), Estado: "RECHAZADO",
		CodigoGeneracion: orNull(code), FhProcesamiento: orNull(at.Format(stamp)),
		ClasificaMsg: orNull(r.class), CodigoMsg: r.code, DescripcionMsg: r.text, Observaciones: r.notes,
	}
}

// status is the HTTP status that MH gives an answer.
func (a *answer) status() int {
	if a.Estado == "RECHAZADO" {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

const jsonKind = "application/json;charset=UTF-8"

// reply writes an answer, after the delay in force.
func (s *hostility) reply(w http.ResponseWriter, r *http.Request, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		panic("simulator: encoding an answer: " + err.Error())
	}
	s.write(w, r, status, jsonKind, data)
}

// write answers after the delay in force. A client that leaves first gets nothing.
func (s *hostility) write(w http.ResponseWriter, r *http.Request, status int, kind string, data []byte) {
	if s.wait(r.Context()) {
		send(w, status, kind, data)
	}
}

func send(w http.ResponseWriter, status int, kind string, data []byte) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(data) // the client is gone: nobody to tell
}

// fault answers what MH's application server answers for itself, in its own shape.
func (s *hostility) fault(w http.ResponseWriter, r *http.Request, status int, message string) {
	s.reply(w, r, status, map[string]any{
		"timestamp": s.now().Format("2006-01-02T15:04:05.000-0700"),
		"status":    status,
		"error":     http.StatusText(status),
		"message":   message,
		"path":      r.URL.Path,
	})
}

// now is MH's time.
func (s *core) now() time.Time {
	return s.options.Now().Add(time.Duration(s.ahead.Load())).In(zone)
}
