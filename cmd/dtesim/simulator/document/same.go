package document

// This file compares a document with another document that it names: some data must be the same in both.

// SameParties checks that a note or retorno has the same parties as its original.
func (d *Document) SameParties(original *Document) *Refusal {
	if d.Tipo == "18" {
		return First(d.SameIssuer(original), d.sameReceiver(original))
	}
	return d.sameTaxpayer(original)
}

// SameIssuer checks that an event and the document to which it applies have the same data of the issuer (MF2 p.8: "los
// datos del emisor deben ser los mismos detallados en el DTE al que se le aplique"). Code 007.
func (d *Document) SameIssuer(o *Document) *Refusal {
	now, was := d.Root.Object("emisor"), o.Root.Object("emisor")
	for _, pair := range [][2]string{{"nombre", "nombre"}, {"codEstableMH", "codEstable"}, {"codPuntoVentaMH",
		"codPuntoVenta"}} {
		said := was.Text(pair[0])
		if said == "" {
			said = was.Text(pair[1]) // DTE 2.0 documents use this name
		}
		if got := now.Text(pair[0]); said != "" && got != "" && got != said {
			return NotAllowed("emisor."+pair[0], "Difiere del emisor del documento "+o.Code)
		}
	}
	return nil
}

// sameReceiver checks that a retorno and its original have the same receiver (MF2 p.28, step 1) and the same third
// party (p.26). A DUI may have lost its hyphen between generations. Code 007.
func (d *Document) sameReceiver(o *Document) *Refusal {
	was, _ := o.receiver()
	now, _ := d.receiver()
	for _, field := range []string{"tipoDocumento", "numDocumento", "nombre"} {
		if got, want := now.Text(field), was.Text(field); got != want && (field != "numDocumento" ||
			unhyphened(got) != unhyphened(want)) {
			return NotAllowed("documento."+field, "No es el receptor del documento relacionado")
		}
	}
	if d.Root.Object("ventaTercero").Text("nit") != o.Root.Object("ventaTercero").Text("nit") {
		return NotAllowed("ventaTercero.nit", "No es el tercero del documento relacionado")
	}
	return nil
}

// sameTaxpayer checks that a note and its original have the same receiver (MF2 p.31: an adjustment keeps the "NIT
// (Receptor)", unless fusion names a merger). An invoice may name no receiver. Code 007.
func (d *Document) sameTaxpayer(o *Document) *Refusal {
	was, _ := o.receiver()
	now, name := d.receiver()
	if d.Root.Object("identificacion").Text("fusion") != "" {
		return nil
	}
	named := false
	for _, before := range []string{was.Text("nit"), was.Text("numDocumento")} {
		for _, after := range []string{now.Text("nit"), now.Text("numDocumento")} {
			if before != "" && unhyphened(before) == unhyphened(after) {
				return nil
			}
		}
		named = named || before != ""
	}
	if !named {
		return nil
	}
	field := "numDocumento"
	if _, has := now["nit"]; has {
		field = "nit"
	}
	return NotAllowed(name+"."+field, "No es el receptor del documento relacionado")
}

// Describes checks that an invalidation repeats the type, seal, number, date and receiver of its document, with null
// for null. Telephone and mail may always be null: no refusal of that was published. Before DTE 2.0 the schema allows
// no null for the receiver's document and name; therefore these are not compared for an anonymous invoice.
func (d *Document) Describes(original *Document, seal string) *Refusal {
	said := d.Root.Object("documento")
	id := original.Root.Object("identificacion")
	switch {
	case said.Text("tipoDte") != original.Tipo:
		return NotAllowed("documento.tipoDte")
	case said.Text("selloRecibido") != seal:
		return NotAllowed("documento.selloRecibido")
	case said.Text("numeroControl") != id.Text("numeroControl"):
		return NotAllowed("documento.numeroControl")
	case said.Text("fecEmi") != original.Date():
		return NotAllowed("documento.fecEmi")
	}
	party, _ := original.receiver()
	kind, number := party.Text("tipoDocumento"), party.Text("numDocumento")
	if nit := party.Text("nit"); nit != "" {
		kind, number = "36", nit
	}
	for _, field := range [][2]string{
		{"tipoDocumento", kind}, {"numDocumento", number}, {"nombre", party.Text("nombre")},
		{"telefono", party.Text("telefono")}, {"correo", party.Text("correo")},
	} {
		got, want := said.Text(field[0]), field[1]
		if got == "" && (field[0] == "telefono" || field[0] == "correo") || d.Previous && (got == "" || want == "") {
			continue
		}
		if got != want && (field[0] != "numDocumento" || unhyphened(got) != unhyphened(want)) {
			return NotAllowed("documento." + field[0])
		}
	}
	return nil
}
