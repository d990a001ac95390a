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

// Seller returns the taxpayer's data under MH's names, with the members of all generations of MH's schemas.
func (c *Config) Seller() record.Issuer {
	i := c.Issuer
	address := dte.Texts("departamento", i.Address.Departamento, "municipio", i.Address.Municipio,
		"distrito", i.Address.Distrito, "complemento", i.Address.Complemento)
	return record.Issuer{ID: i.ID, Slug: i.Slug, Ambiente: c.Ambiente, Facts: dte.Texts("nit", i.NIT, "nrc", i.NRC,
		"nombre", i.Name, "codActividad", i.Activity, "descActividad", i.ActivityDescription,
		"nombreComercial", i.TradeName, "tipoEstablecimiento", i.EstablishmentType).With("direccion", address).
		With("telefono", dte.Text(i.Phone)).With("correo", dte.Text(i.Mail))}
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

// CheckShipped compares the issuer's data with the layouts of the bundles in Shipped that pinned keys have signed and
// that have not ended.
func (in *Inputs) CheckShipped(c *Config) error {
	var bundles []*bundle.Bundle
	for _, path := range slices.Sorted(maps.Keys(in.Shipped)) {
		b, err := in.Rules.Read(in.Shipped[path])
		if err != nil {
			continue
		}
		if until := b.Manifest.Validity[c.Ambiente].Until; until == "" || until >= dte.Date(c.Now()) {
			bundles = append(bundles, b)
		}
	}
	return c.CheckIssuer(rulestore.ReadLayouts(bundles))
}

// CheckIssuer compares the issuer's data, and the person who answers for contingency events, with layouts of the rules.
// A fault is thus found when a rule arrives, or by dtectl doctor; in a document's data also at a start.
func (c *Config) CheckIssuer(layouts rulestore.Layouts) error {
	seen, who := make(map[string]bool), c.Contingency.Responsible
	responsible := dte.Texts("nombreResponsable", who.Name, "tipoDocResponsable", who.DocumentType,
		"numeroDocResponsable", who.Document).Members()
	var faults []error
	for i, at := range c.PointsOfSale() {
		for _, f := range layouts.CheckIssuer(record.Emisor(c.Seller(), at).Set(responsible...)) {
			s := settingOf(c, &c.Points[i], f.Path)
			if !seen[s.name] {
				seen[s.name] = true
				faults = append(faults, s.fault(f.Code))
			}
		}
	}
	return errors.Join(faults...)
}

// issuerSetting is the setting from which a member of emisor comes, and the form of its value.
type issuerSetting struct{ name, value, form string }

// settingOf returns the setting that supplies the member at a path of a document.
func settingOf(c *Config, p *Point, path string) issuerSetting {
	i, a, who := &c.Issuer, &c.Issuer.Address, &c.Contingency.Responsible
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
		"codEstable":        {"point_of_sale.establecimiento", p.Establishment, "M, S, B or P and three digits"},
		"codPuntoVenta":     {"point_of_sale.punto_venta", p.PointOfSale, "P and three digits"},
		"nombreResponsable": {"contingency.responsible.nombre", who.Name, "a name of at most 100 characters"},
		"tipoDocResponsable": {"contingency.responsible.tipo_documento", who.DocumentType,
			"a code of CAT-022, 13 for a DUI"},
		"numeroDocResponsable": {"contingency.responsible.numero_documento", who.Document,
			"the document's number, of at most 25 characters"},
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
