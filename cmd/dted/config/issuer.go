package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundle"
)

// Seller returns the taxpayer's data under MH's names. Each generation of MH's schemas uses the members that it
// defines.
func (c *Config) Seller() record.Issuer {
	i := c.Issuer
	text := func(name, value string) dte.Member {
		if value == "" {
			return dte.Member{Name: name, Value: dte.Null()}
		}
		return dte.Member{Name: name, Value: dte.Str(value)}
	}
	return record.Issuer{ID: i.ID, Slug: i.Slug, Ambiente: c.Ambiente, Facts: dte.Obj(
		text("nit", i.NIT), text("nrc", i.NRC), text("nombre", i.Name), text("codActividad", i.Activity),
		text("descActividad", i.ActivityDescription), text("nombreComercial", i.TradeName),
		text("tipoEstablecimiento", i.EstablishmentType),
		dte.Member{Name: "direccion", Value: dte.Obj(text("departamento", i.Address.Departamento),
			text("municipio", i.Address.Municipio), text("distrito", i.Address.Distrito), text("complemento",
				i.Address.Complemento))},
		text("telefono", i.Phone), text("correo", i.Mail))}
}

// PointsOfSale returns all points of sale of the branch.
func (c *Config) PointsOfSale() []record.Point {
	list := make([]record.Point, len(c.Points))
	for i, p := range c.Points {
		list[i] = record.Point{ID: p.ID, BranchID: c.Branch.ID, Establishment: p.Establishment,
			PointOfSale: p.PointOfSale}
	}
	return list
}

// CheckIssuer compares the issuer's data with the layouts of the rules in force. A fault is therefore found at a start
// or when a rule arrives, not at the till.
func (c *Config) CheckIssuer(b *rulestore.Book) error { return c.checkLayouts(b.Layouts()) }

// CheckShipped compares the issuer's data with the layouts of the bundles in Shipped that pinned keys have signed.
func (in *Inputs) CheckShipped(c *Config) error {
	var bundles []*bundle.Bundle
	for _, path := range slices.Sorted(maps.Keys(in.Shipped)) {
		if b, err := in.Rules.Read(in.Shipped[path]); err == nil {
			bundles = append(bundles, b)
		}
	}
	return c.checkLayouts(rulestore.ReadLayouts(bundles))
}

// checkLayouts returns one fault for each setting that a layout refuses.
func (c *Config) checkLayouts(layouts rulestore.Layouts) error {
	seen := make(map[string]bool)
	var faults []error
	for i, at := range c.PointsOfSale() {
		for _, f := range layouts.CheckIssuer(record.Emisor(c.Seller(), at)) {
			s := settingOf(c, &c.Points[i], f.Path)
			if !seen[s.name] {
				seen[s.name] = true
				faults = append(faults, s.fault(f.Code))
			}
		}
	}
	return errors.Join(faults...)
}

// issuerSetting is the setting from which a member of emisor comes, and the form that its value must have.
type issuerSetting struct{ name, value, form string }

// settingOf returns the setting that supplies the member at a path of a document.
func settingOf(c *Config, p *Point, path string) issuerSetting {
	i, a := &c.Issuer, &c.Issuer.Address
	member := strings.TrimPrefix(path, "emisor.")
	s, ok := map[string]issuerSetting{
		"nit":             {"issuer.nit", i.NIT, "14 digits, or the 9 of a DUI, without hyphens"},
		"nrc":             {"issuer.nrc", i.NRC, "2 to 8 digits without the hyphen"},
		"nombre":          {"issuer.nombre", i.Name, "the name that MH has, of at most 250 characters"},
		"nombreComercial": {"issuer.nombre_comercial", i.TradeName, "a name of at most 150 characters"},
		"codActividad":    {"issuer.codigo_actividad", i.Activity, "a code of CAT-019"},
		"descActividad": {"issuer.actividad_economica", i.ActivityDescription,
			"the activity in words, of at most 150 characters"},
		"tipoEstablecimiento": {"issuer.tipo_establecimiento", i.EstablishmentType,
			"a code of CAT-009: 01, 02, 04 or 07"},
		"telefono":               {"issuer.telefono", i.Phone, "8 to 30 digits"},
		"correo":                 {"issuer.correo", i.Mail, "an e-mail address of at most 100 characters"},
		"direccion.departamento": {"issuer.direccion.departamento", a.Departamento, "a code of CAT-012"},
		"direccion.municipio":    {"issuer.direccion.municipio", a.Municipio, "a code of CAT-013 of the departamento"},
		"direccion.distrito":     {"issuer.direccion.distrito", a.Distrito, "a code of CAT-008 of the departamento"},
		"direccion.complemento": {"issuer.direccion.complemento", a.Complemento,
			"the rest of the address, of at most 200 characters"},
		"direccion": {"issuer.direccion", strings.TrimSpace(a.Departamento + " " + a.Municipio + " " + a.Distrito),
			"a departamento with its own municipio and distrito"},
		"codEstable":    {"point_of_sale.establecimiento", p.Establishment, "M, S, B or P and three digits"},
		"codPuntoVenta": {"point_of_sale.punto_venta", p.PointOfSale, "P and three digits"},
	}[strings.TrimSuffix(member, "MH")]
	if !ok {
		return issuerSetting{"issuer", member, "what the documents' layout asks for"}
	}
	return s
}

func (s *issuerSetting) fault(code string) error {
	if s.value == "" {
		return fmt.Errorf("%s: is missing, must be %s", s.name, s.form)
	}
	return fmt.Errorf("%s: is %q, must be %s (%s)", s.name, s.value, s.form, strings.ToLower(code))
}
