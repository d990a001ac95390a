package main

import (
	"time"

	"dtegate/cmd/dted/config"
	"dtegate/engine/contingency"
	"dtegate/engine/seller"
	"dtegate/gateway/reply"
)

// contingencyOptions are how the branch lives without MH; what the file does not say takes the engine's defaults.
func contingencyOptions(c config.Contingency) contingency.Options {
	return contingency.Options{
		Responsible: seller.Person{Name: c.Responsible.Name, DocumentType: c.Responsible.DocumentType, Document: c.Responsible.Document},
		ProbeEvery:  time.Duration(c.ProbeEvery), Stable: time.Duration(c.Stable), ReportAfter: time.Duration(c.ReportAfter),
		LotSize: c.LotSize, LotPoll: time.Duration(c.LotPoll), LotPatience: time.Duration(c.LotPatience),
		AwaitReport: time.Duration(c.AwaitReport), Internet: c.Internet,
	}
}

// information is the issuer as the API shows it (SPEC 2.8).
func information(c *config.Config) reply.Information {
	i := c.Issuer
	ambiente := "TEST"
	if c.Ambiente == "01" {
		ambiente = "PROD"
	}
	return reply.Information{ID: i.ID, ClientID: i.ClientID, NIT: i.NIT, NRC: i.NRC, Nombre: i.Name, NombreComercial: i.TradeName,
		CodigoActividad: i.Activity, ActividadEconomica: i.ActivityDescription, Direccion: i.Address.Complemento,
		TipoEstablecimiento: i.EstablishmentType, Departamento: i.Address.Departamento, Municipio: i.Address.Municipio, Distrito: i.Address.Distrito,
		Telefono: i.Phone, Correo: i.Mail, LogoURL: i.LogoURL, ColorPrincipal: i.PrimaryColour, ColorSecundario: i.SecondaryColour,
		ColorFondo: i.BackgroundColour, Ambiente: ambiente, CreatedAt: i.CreatedAt}
}
