package sdk

import "dtegate/rules/abi"

// Params of a note, in the order of the description.
const (
	noteIVA = iota
	noteRete
	notePerci
	noteTurismo
	noteSalida
	noteFovial
	noteCotrans
	noteOrigin01
	noteOrigin03
	noteOrigin07
	noteNoGravado
)

// Scalars of a note, in this order.
const (
	NoteRetencion = iota
	NotePercepcion
	NoteOrigen
)

// Faults of a note, after those of a sale.
const (
	FaultOrigin = FaultNothing + 1 + iota
	FaultNoGravadoNote
)

// Line outputs of a note, after those of a sale.
const (
	OutIvaPerci = OutTributos + 1 + iota
	OutIvaRete
)

// NoteDescription describes a credit or debit note (05, 06). Prices are without VAT.
func NoteDescription(name string) *abi.Description {
	return &abi.Description{
		Name: name,
		Params: []abi.Param{{Name: "ivaRate", Unit: "ratio"}, {Name: "ivaReteRate", Unit: "ratio"},
			{Name: "ivaPerciRate", Unit: "ratio"}, {Name: "turismoRate", Unit: "ratio"},
			{Name: "salidaAmount", Unit: "USD"}, {Name: "fovialRate", Unit: "USD per gallon"},
			{Name: "cotransRate", Unit: "USD per gallon"}, {Name: "origin01", Unit: "1 or 0"},
			{Name: "origin03", Unit: "1 or 0"}, {Name: "origin07", Unit: "1 or 0"},
			{Name: "noGravado", Unit: "1 or 0"}},
		Scalars: []abi.Field{{Name: "isRetenIva", Kind: "flag"}, {Name: "isPerciIva", Kind: "flag"},
			{Name: "origen.tipoDte", Kind: "enum", Values: []string{"01", "03", "07"}, Required: true}},
		Columns:     SaleColumns(Taxes),
		LineOutputs: append(SaleOutputs(), Amounts("ivaPerci", "ivaRete")...),
		Summary: []string{"totalNoSuj", "totalExenta", "totalGravada", "subTotalVentas", "totalDescu", "ivaPerci",
			"ivaRete", "montoTotalOperacion", "totalNoGravado", "totalPagar"},
		Taxes: Taxes,
		Faults: append(SaleFaults(),
			abi.FaultText{Code: "INVALID_ORIGIN_TYPE", Message: "Una nota no puede ajustar un documento de este tipo"},
			abi.FaultText{Code: "NO_GRAVADO_NOT_TAKEN", Message: "Este documento no lleva montos no gravados"}),
	}
}

var noteLayout = Layout{Columns: ColTributos + 1, Outputs: OutIvaRete + 1, TaxBit: TaxBits, Net: One,
	Default: 1 << TaxIVA, NoDiscounts: true}

// Note computes a credit or debit note (MF2 pp.47-48): the amounts given back or added, at the original document's net
// prices, with taxes. Both notes have the same arithmetic; the document's type determines who pays.
func Note(in *abi.Input, out *abi.Output) {
	if in.Params[noteOrigin01+in.Scalars[NoteOrigen]] != One {
		out.Faults = append(out.Faults, abi.Fault{Code: FaultOrigin, Line: -1, Column: NoteOrigen})
		return
	}
	var s Sale
	if !s.Lines(&noteLayout, in, out, RatesOf(in.Params[noteTurismo:])) {
		return
	}
	if in.Params[noteNoGravado] != One && s.takesNoGravado(in, out) {
		return
	}
	s.Taxes[TaxIVA], _ = Cents(s.Gravada, in.Params[noteIVA], One) // no overflow, because rates are below one
	var rete, perci int64
	retains, perceives := Flag(in.Scalars[NoteRetencion]), Flag(in.Scalars[NotePercepcion])
	switch {
	case retains && perceives:
		out.Faults = append(out.Faults, abi.Fault{Code: FaultBothRetentions, Line: -1, Column: NotePercepcion})
		return
	case retains:
		// There is no warning below 100.00, because the original's amount decides about retention, not the note's (art.
		// 162 of the tax code; MF2 pp.47-48 retains 0.90 of 90.00).
		rete = noteShare(out, s.Gravada, in.Params[noteRete], OutIvaRete)
	case perceives:
		perci = noteShare(out, s.Gravada, in.Params[notePerci], OutIvaPerci)
	}
	taxes, pay, ok := s.Close(out, perci, rete)
	if !ok {
		return
	}
	// montoTotalOperacion does not include retention or perception, in both generations (MF2 p.48: 90.00 + 11.70 =
	// 101.70, with 0.90 retained).
	out.Summary = append(out.Summary, s.NoSuj, s.Exenta, s.Gravada, s.SubTotalVentas, s.TotalDescu, perci, rete,
		s.SubTotal+taxes, s.NoGravado, max(0, pay))
	s.AppendTaxes(out)
}

// noteShare sets an output of each line to a share of the line's taxed amount, to 8 decimals. It returns the share of
// the total, rounded to cents.
func noteShare(out *abi.Output, total, rate int64, output int) int64 {
	Shares(out.Lines, noteLayout.Outputs, OutGravada, output, rate, One)
	share, _ := Cents(total, rate, One)
	return share
}

// takesNoGravado refuses charges outside the tax base, and reports whether there are any. It is for generations whose
// notes have no member for them: leaving out a charge would change the amount to pay.
func (s *Sale) takesNoGravado(in *abi.Input, out *abi.Output) bool {
	for i := range in.N {
		if out.Lines[i*noteLayout.Outputs+OutNoGravado] != 0 {
			out.Faults = append(out.Faults, abi.Fault{Code: FaultNoGravadoNote, Line: i, Column: ColNoGravado})
			return true
		}
	}
	return false
}
