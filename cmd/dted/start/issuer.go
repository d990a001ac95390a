package start

import (
	"errors"
	"fmt"
	"strings"

	"dtegate/cmd/dted/config"
	"dtegate/engine/dte"
	"dtegate/engine/rulestore"
	"dtegate/engine/seller"
	"dtegate/rules/bundle"
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

// CheckIssuer compares the issuer's data with the layouts of rules that are up: told at a start or when a rule comes, not at the
// till.
func CheckIssuer(c *config.Config, b *rulestore.Book) error {
	return checkIssuer(c, func(i seller.Issuer, p seller.Point) []dte.Fault { return b.CheckIssuer(seller.Emisor(i, p)) })
}

// checkBundles compares the issuer's data with the layouts in bundles that nobody has put up.
func checkBundles(c *config.Config, bundles []*bundle.Bundle) error {
	l, err := rulestore.ReadLayouts(bundles)
	if err != nil {
		return nil // the rules' own check says what is wrong with them
	}
	return checkIssuer(c, func(i seller.Issuer, p seller.Point) []dte.Fault { return l.CheckIssuer(seller.Emisor(i, p)) })
}

// checkIssuer names each setting that a layout refuses, once.
func checkIssuer(c *config.Config, check func(seller.Issuer, seller.Point) []dte.Fault) error {
	seen := make(map[string]bool)
	var faults []error
	for _, p := range c.Points {
		for _, f := range check(Issuer(c), Point(c, p)) {
			s := settingOf(c, &p, f.Path)
			if !seen[s.name] {
				seen[s.name] = true
				faults = append(faults, s.fault(f.Code))
			}
		}
	}
	return errors.Join(faults...)
}

// issuerSetting is a setting behind a member of emisor.
type issuerSetting struct{ name, value, form string }

// settingOf finds the setting behind a place in a document.
func settingOf(c *config.Config, p *config.Point, path string) issuerSetting {
	i := &c.Issuer
	switch member := strings.TrimPrefix(path, "emisor."); member {
	case "nit":
		return issuerSetting{"issuer.nit", i.NIT, "14 digits, or the 9 of a DUI, without hyphens"}
	case "nrc":
		return issuerSetting{"issuer.nrc", i.NRC, "2 to 8 digits without the hyphen"}
	case "nombre":
		return issuerSetting{"issuer.nombre", i.Name, "the name that MH has, of at most 250 characters"}
	case "nombreComercial":
		return issuerSetting{"issuer.nombre_comercial", i.TradeName, "a name of at most 150 characters"}
	case "codActividad":
		return issuerSetting{"issuer.codigo_actividad", i.Activity, "a code of CAT-019"}
	case "descActividad":
		return issuerSetting{"issuer.actividad_economica", i.ActivityDescription, "the activity in words, of at most 150 characters"}
	case "tipoEstablecimiento":
		return issuerSetting{"issuer.tipo_establecimiento", i.EstablishmentType, "a code of CAT-009: 01, 02, 04 or 07"}
	case "telefono":
		return issuerSetting{"issuer.telefono", i.Phone, "8 to 30 digits"}
	case "correo":
		return issuerSetting{"issuer.correo", i.Mail, "an e-mail address of at most 100 characters"}
	case "direccion.departamento":
		return issuerSetting{"issuer.direccion.departamento", i.Address.Departamento, "a code of CAT-012"}
	case "direccion.municipio":
		return issuerSetting{"issuer.direccion.municipio", i.Address.Municipio, "a code of CAT-013 of the departamento"}
	case "direccion.distrito":
		return issuerSetting{"issuer.direccion.distrito", i.Address.Distrito, "a code of CAT-008 of the departamento"}
	case "direccion.complemento":
		return issuerSetting{"issuer.direccion.complemento", i.Address.Complemento, "the rest of the address, of at most 200 characters"}
	case "direccion":
		a := &i.Address
		return issuerSetting{"issuer.direccion", strings.TrimSpace(a.Departamento + " " + a.Municipio + " " + a.Distrito), "a departamento with its own municipio and distrito"}
	case "codEstable", "codEstableMH":
		return issuerSetting{"point_of_sale.establecimiento", p.Establishment, "M, S, B or P and three digits"}
	case "codPuntoVenta", "codPuntoVentaMH":
		return issuerSetting{"point_of_sale.punto_venta", p.PointOfSale, "P and three digits"}
	default:
		return issuerSetting{"issuer", member, "what the documents' layout asks for"}
	}
}

func (s *issuerSetting) fault(code string) error {
	if s.value == "" {
		return fmt.Errorf("%s: is missing, must be %s", s.name, s.form)
	}
	return fmt.Errorf("%s: is %q, must be %s (%s)", s.name, s.value, s.form, strings.ToLower(code))
}
