// Package reply writes answers: records, lists, results and problems as JSON (reply.go, record.go, list.go), and the
// one exchange of a request and its answer over HTTP (exchange.go). It is the counterpart of package form.
package reply

import (
	"encoding/base64"
	"slices"
	"strconv"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/seller"
	"dtegate/gateway/problem"
)

// Problem appends the error envelope.
func Problem(b []byte, p *problem.Problem) []byte {
	b = append(b, `{"status":"error","type":`...)
	b = text(b, p.Type)
	b = text(append(b, `,"message":`...), p.Message)
	if len(p.RequiredFields) > 0 {
		b = texts(append(b, `,"requiredFields":`...), p.RequiredFields)
	}
	if p.Document != "" {
		b = text(append(b, `,"codigoGeneracion":`...), p.Document)
	}
	b = append(b, `,"errors":[`...)
	for i, f := range p.Faults {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(append(b, `{"path":`...), f.Path)
		b = text(append(b, `,"code":`...), f.Code)
		b = append(text(append(b, `,"message":`...), f.Message), '}')
	}
	return append(b, `]}`...)
}

// text and texts write JSON strings through the vocabulary's encoder.
func text(b []byte, s string) []byte { return dte.Str(s).Append(b) }

func texts(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(b, s)
	}
	return append(b, ']')
}

// optional writes null for an empty text.
func optional(b []byte, s string) []byte {
	if s == "" {
		return append(b, `null`...)
	}
	return text(b, s)
}

// Information is the emisor of GET /dte/information (SPEC 2.8), without the point of sale, which depends on the token.
type Information struct {
	ID, ClientID                                           int64
	NIT, NRC, Nombre, NombreComercial                      string
	CodigoActividad, ActividadEconomica, Direccion         string
	TipoEstablecimiento, Departamento, Municipio, Distrito string
	Telefono, Correo, LogoURL                              string
	ColorPrincipal, ColorSecundario, ColorFondo            string
	Ambiente                                               string // TEST or PROD
	CreatedAt                                              time.Time
}

// Encode returns the part of the answer that does not depend on the token. It ends inside the object; Issuer completes
// it.
func (i *Information) Encode() []byte {
	b := strconv.AppendInt([]byte(`{"id":`), i.ID, 10)
	for _, m := range [...]struct{ name, value string }{{"nit", i.NIT}, {"nrc", i.NRC}, {"nombre", i.Nombre},
		{"nombreComercial", i.NombreComercial},
		{"codigoActividad", i.CodigoActividad}, {"actividadEconomica", i.ActividadEconomica},
		{"direccion", i.Direccion},
		{"tipoEstablecimiento", i.TipoEstablecimiento}, {"departamento", i.Departamento}, {"municipio", i.Municipio},
		{"distrito", i.Distrito},
		{"telefono", i.Telefono}, {"correo", i.Correo}, {"logoUrl", i.LogoURL}, {"colorPrincipal", i.ColorPrincipal},
		{"colorSecundario", i.ColorSecundario}, {"colorFondo", i.ColorFondo}, {"ambiente", i.Ambiente}} {
		b = text(append(text(append(b, ','), m.name), ':'), m.value)
	}
	b = strconv.AppendInt(append(b, `,"clientId":`...), i.ClientID, 10)
	b = append(b, `,"createdAt":"`...)
	return append(i.CreatedAt.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z"), '"')
}

// Issuer returns the answer of GET /dte/information: the emisor (from Encode), the point of sale, and the permissions
// of the token.
func Issuer(emisor []byte, point seller.Point, permissions []string) []byte {
	b := append([]byte(`{"status":"success","data":{"emisor":`), emisor...)
	for _, m := range [...]struct{ name, value string }{{"codEstableMH", point.Establishment}, {"codEstable",
		point.Establishment},
		{"codPuntoVentaMH", point.PointOfSale}, {"codPuntoVenta", point.PointOfSale}} {
		b = text(append(text(append(b, ','), m.name), ':'), m.value)
	}
	return append(texts(append(b, `},"permissions":`...), slices.DeleteFunc(slices.Clone(permissions), own)), `}}`...)
}

// own tells a permission of this appliance from those of SPEC 2.8, whose list is closed for the tills.
func own(permission string) bool {
	return permission == seller.PermissionRead || permission == seller.PermissionMail
}

// Printed returns the answer of GET /dte/pdf?format=base64.
func Printed(code dte.Code, name string, pdf []byte) []byte {
	b := text([]byte(`{"status":"success","data":{"codigoGeneracion":`), code.String())
	b = append(base64.StdEncoding.AppendEncode(append(b, `,"base64":"`...), pdf),
		`","contentType":"application/pdf","filename":`...)
	return append(text(b, name), `}}`...)
}

// Link returns the answer of GET /dte/pdf?format=url; life is how long the link works.
func Link(code dte.Code, url string, life time.Duration) []byte {
	b := text([]byte(`{"status":"success","data":{"codigoGeneracion":`), code.String())
	b = text(append(b, `,"url":`...), url)
	b = strconv.AppendInt(append(b, `,"expiresIn":`...), int64(life/time.Second), 10)
	b = text(append(b, `,"filename":`...), code.String()+".pdf")
	return append(b, `}}`...)
}
