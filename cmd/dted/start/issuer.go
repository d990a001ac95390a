package start

import (
	"dtegate/cmd/dted/config"
	"dtegate/engine/dte"
	"dtegate/engine/seller"
)

// Issuer is the taxpayer's data under the schemas' names; each generation of schemas takes what it knows.
func Issuer(c *config.Config) seller.Issuer {
	i := c.Issuer
	text := func(name, value string) dte.Member {
		if value == "" {
			return dte.Member{Name: name, Value: dte.Null()}
		}
		return dte.Member{Name: name, Value: dte.Str(value)}
	}
	return seller.Issuer{ID: i.ID, Slug: i.Slug, Ambiente: c.Ambiente, Facts: dte.Obj(
		text("nit", i.NIT), text("nrc", i.NRC), text("nombre", i.Name), text("codActividad", i.Activity),
		text("descActividad", i.ActivityDescription), text("nombreComercial", i.TradeName),
		text("tipoEstablecimiento", i.EstablishmentType),
		dte.Member{Name: "direccion", Value: dte.Obj(text("departamento", i.Address.Departamento),
			text("municipio", i.Address.Municipio), text("distrito", i.Address.Distrito), text("complemento", i.Address.Complemento))},
		text("telefono", i.Phone), text("correo", i.Mail))}
}

// Point is a point of sale of the branch.
func Point(c *config.Config, p config.Point) seller.Point {
	return seller.Point{ID: p.ID, BranchID: c.Branch.ID, Establishment: p.Establishment, PointOfSale: p.PointOfSale}
}

// Points are all points of sale of the branch.
func Points(c *config.Config) []seller.Point {
	list := make([]seller.Point, len(c.Points))
	for i, p := range c.Points {
		list[i] = Point(c, p)
	}
	return list
}
