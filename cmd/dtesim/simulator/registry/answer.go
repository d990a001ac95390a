package registry

import (
	"net/http"
	"time"

	"dtegate/cmd/dtesim/simulator/document"
)

// Stamp is the layout of fhProcesamiento (MT1 §4.2.1).
const Stamp = "02/01/2006 15:04:05"

// Answer is the body of the answers of recepciondte and consultadte (MT1 §4.2.1, §4.2.2), member for member.
type Answer struct {
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

// OrNull returns nil, JSON's null, for the empty string.
func OrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func accepted(d *document.Document, seal string, notes []string) Answer {
	a := Answer{
		Version: 2, VersionApp: 2, Ambiente: OrNull(d.Ambiente), Estado: "PROCESADO",
		CodigoGeneracion: OrNull(d.Code), SelloRecibido: &seal, FhProcesamiento: OrNull(d.Done.Format(Stamp)),
		ClasificaMsg: OrNull("10"), CodigoMsg: "001", DescripcionMsg: "RECIBIDO", Observaciones: []string{},
	}
	if len(notes) > 0 {
		a.CodigoMsg, a.DescripcionMsg, a.Observaciones = "002", "RECIBIDO CON OBSERVACIONES", notes
	}
	return a
}

// Rejected returns the answer of a refusal. Observaciones is null without observations, as MT1 §4.2.1 prints it.
func Rejected(ambiente, code string, at time.Time, r *document.Refusal) Answer {
	return Answer{
		Version: 2, VersionApp: 2, Ambiente: OrNull(ambiente), Estado: "RECHAZADO",
		CodigoGeneracion: OrNull(code), FhProcesamiento: OrNull(at.Format(Stamp)),
		ClasificaMsg: OrNull(r.Class), CodigoMsg: r.Code, DescripcionMsg: r.Text, Observaciones: r.Notes,
	}
}

// Status returns the HTTP status that MH gives an answer.
func (a *Answer) Status() int {
	if a.Estado == "RECHAZADO" {
		return http.StatusBadRequest
	}
	return http.StatusOK
}
