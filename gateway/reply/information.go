package reply

import (
	"slices"
	"strconv"
	"time"

	"dtegate/engine/seller"
)

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

// Encode returns the part of the answer that does not depend on the token. It ends inside the object; Issuer completes it.
func (i *Information) Encode() []byte {
	b := strconv.AppendInt([]byte(`{"id":`), i.ID, 10)
	for _, m := range [...]struct{ name, value string }{{"nit", i.NIT}, {"nrc", i.NRC}, {"nombre", i.Nombre}, {"nombreComercial", i.NombreComercial},
		{"codigoActividad", i.CodigoActividad}, {"actividadEconomica", i.ActividadEconomica}, {"direccion", i.Direccion},
		{"tipoEstablecimiento", i.TipoEstablecimiento}, {"departamento", i.Departamento}, {"municipio", i.Municipio}, {"distrito", i.Distrito},
		{"telefono", i.Telefono}, {"correo", i.Correo}, {"logoUrl", i.LogoURL}, {"colorPrincipal", i.ColorPrincipal},
		{"colorSecundario", i.ColorSecundario}, {"colorFondo", i.ColorFondo}, {"ambiente", i.Ambiente}} {
		b = text(append(text(append(b, ','), m.name), ':'), m.value)
	}
	b = strconv.AppendInt(append(b, `,"clientId":`...), i.ClientID, 10)
	b = append(b, `,"createdAt":"`...)
	return append(i.CreatedAt.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z"), '"')
}

// Issuer returns the answer of GET /dte/information: the emisor (from Encode), the point of sale, and the permissions of the
// token.
func Issuer(emisor []byte, point seller.Point, permissions []string) []byte {
	b := append([]byte(`{"status":"success","data":{"emisor":`), emisor...)
	for _, m := range [...]struct{ name, value string }{{"codEstableMH", point.Establishment}, {"codEstable", point.Establishment},
		{"codPuntoVentaMH", point.PointOfSale}, {"codPuntoVenta", point.PointOfSale}} {
		b = text(append(text(append(b, ','), m.name), ':'), m.value)
	}
	return append(texts(append(b, `},"permissions":`...), slices.DeleteFunc(slices.Clone(permissions), own)), `}}`...)
}

// own tells a permission of this appliance from those of SPEC 2.8, whose list is closed for the tills.
func own(permission string) bool {
	return permission == seller.PermissionRead || permission == seller.PermissionMail
}
