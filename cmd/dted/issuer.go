package main

import (
	"encoding/hex"
	"fmt"
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/engine"
	"dtegate/engine/dte"
	"dtegate/gateway"
)

// issuer is the taxpayer's data under the schemas' names; each generation of schemas takes what it knows.
func issuer(c *config.Config) engine.Issuer {
	i := c.Issuer
	text := func(name, value string) dte.Member {
		if value == "" {
			return dte.Member{Name: name, Value: dte.Null()}
		}
		return dte.Member{Name: name, Value: dte.Str(value)}
	}
	return engine.Issuer{ID: i.ID, Slug: i.Slug, Ambiente: c.Ambiente, Facts: dte.Obj(
		text("nit", i.NIT), text("nrc", i.NRC), text("nombre", i.Name), text("codActividad", i.Activity),
		text("descActividad", i.ActivityDescription), text("nombreComercial", i.TradeName),
		text("tipoEstablecimiento", i.EstablishmentType),
		dte.Member{Name: "direccion", Value: dte.Obj(text("departamento", i.Address.Departamento),
			text("municipio", i.Address.Municipio), text("distrito", i.Address.Distrito), text("complemento", i.Address.Complemento))},
		text("telefono", i.Phone), text("correo", i.Mail))}
}

func point(c *config.Config, p config.Point) engine.Point {
	return engine.Point{ID: p.ID, BranchID: c.Branch.ID, Establishment: p.Establishment, PointOfSale: p.PointOfSale}
}

// contingency is how the branch lives without MH; what the file does not say takes the engine's defaults.
func contingency(c config.Contingency) engine.Contingency {
	return engine.Contingency{
		Responsible: engine.Person{Name: c.Responsible.Name, DocumentType: c.Responsible.DocumentType, Document: c.Responsible.Document},
		ProbeEvery:  time.Duration(c.ProbeEvery), ProbeMax: time.Duration(c.ProbeMax), ProbeTimeout: time.Duration(c.ProbeTimeout),
		Stable: time.Duration(c.Stable), StableMax: time.Duration(c.StableMax), ReportAfter: time.Duration(c.ReportAfter),
		DoubtFor: time.Duration(c.DoubtFor), LotSize: c.LotSize, LotPoll: time.Duration(c.LotPoll), LotsInFlight: c.LotsInFlight,
		LotPatience: time.Duration(c.LotPatience), CorrectAfter: time.Duration(c.CorrectAfter), Internet: c.Internet,
	}
}

// tokens joins the token file with the points of sale that the tokens name.
func tokens(c *config.Config) (gateway.TokenTable, error) {
	file, err := config.LoadTokens(c.Tokens)
	if err != nil {
		return gateway.TokenTable{}, err
	}
	points := make(map[int64]engine.Point)
	for _, p := range c.Points {
		points[p.ID] = point(c, p)
	}
	var list []gateway.Token
	for _, t := range file.Tokens {
		p, ok := points[t.Point]
		if !ok {
			return gateway.TokenTable{}, fmt.Errorf("%s: token %d names point of sale %d, which the configuration lacks", c.Tokens, t.ID, t.Point)
		}
		k := gateway.Token{ID: t.ID, Point: p, Permissions: t.Permissions}
		hex.Decode(k.Hash[:], []byte(t.Hash)) // LoadTokens checked it
		list = append(list, k)
	}
	secret, _ := hex.DecodeString(file.Secret)
	return gateway.NewTokenTable(secret, list), nil
}

// information is the issuer as the API shows it (SPEC 2.8).
func information(c *config.Config) gateway.Information {
	i := c.Issuer
	ambiente := "TEST"
	if c.Ambiente == "01" {
		ambiente = "PROD"
	}
	return gateway.Information{ID: i.ID, ClientID: i.ClientID, NIT: i.NIT, NRC: i.NRC, Nombre: i.Name, NombreComercial: i.TradeName,
		CodigoActividad: i.Activity, ActividadEconomica: i.ActivityDescription, Direccion: i.Address.Complemento,
		TipoEstablecimiento: i.EstablishmentType, Departamento: i.Address.Departamento, Municipio: i.Address.Municipio, Distrito: i.Address.Distrito,
		Telefono: i.Phone, Correo: i.Mail, LogoURL: i.LogoURL, ColorPrincipal: i.PrimaryColour, ColorSecundario: i.SecondaryColour,
		ColorFondo: i.BackgroundColour, Ambiente: ambiente, CreatedAt: i.CreatedAt}
}
