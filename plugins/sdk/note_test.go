package sdk

import (
	"slices"
	"testing"

	"dtegate/rules/abi"
)

// noteInput is the worked example of MF2 pp.47-48: five units at 21.00 less 15.00, and a payment of −5.00 beside the tax
// base.
func noteInput() *abi.Input {
	line := func(quantity, price, descu, noGravado, unit int64) []int64 {
		return []int64{quantity, price, descu, Gravado, noGravado, 1, unit, 0, 0}
	}
	return &abi.Input{
		Params: []int64{13 * Cent, 1 * Cent, 1 * Cent, 5 * Cent, 7 * One, 20 * Cent, 10 * Cent, One, One, 0, One}, N: 2,
		Scalars: []int64{1, abi.Absent, 1},
		Lines:   append(line(5*One, 21*One, 15*One, abi.Absent, 59), line(One, 0, abi.Absent, -5*One, 99)...),
	}
}

func TestNote_OfficialExample(t *testing.T) {
	var out abi.Output
	Note(noteInput(), &out)
	d := NoteDescription("dte05")
	if len(out.Faults) > 0 {
		t.Fatalf("refused: %s", d.Faults[out.Faults[0].Code].Code)
	}
	for name, want := range map[string]int64{"totalGravada": 90 * One, "subTotalVentas": 90 * One, "totalDescu": 15 * One, "ivaPerci": 0, "ivaRete": 90 * Cent,
		"montoTotalOperacion": 10170 * Cent, "totalNoGravado": -5 * One, "totalPagar": 9580 * Cent} {
		if got := out.Summary[slices.Index(d.Summary, name)]; got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
	if !slices.Equal(out.Taxes, []abi.Tax{{Tax: TaxIVA, Amount: 1170 * Cent}}) || out.Lines[OutIvaRete] != 90*Cent || out.Lines[OutIvaPerci] != 0 {
		t.Errorf("taxes %v, lines %v", out.Taxes, out.Lines)
	}
}

func TestNote_Refuses(t *testing.T) {
	d := NoteDescription("dte05")
	for name, x := range map[string]struct {
		change func(in *abi.Input)
		want   abi.Fault
	}{
		"an invoice, forbidden":    {func(in *abi.Input) { in.Scalars[NoteOrigen], in.Params[noteOrigin01] = 0, 0 }, abi.Fault{Code: FaultOrigin, Line: -1, Column: NoteOrigen}},
		"a retention voucher":      {func(in *abi.Input) { in.Scalars[NoteOrigen] = 2 }, abi.Fault{Code: FaultOrigin, Line: -1, Column: NoteOrigen}},
		"noGravado has no place":   {func(in *abi.Input) { in.Params[noteNoGravado] = 0 }, abi.Fault{Code: FaultNoGravadoNote, Line: 1, Column: ColNoGravado}},
		"retention and perception": {func(in *abi.Input) { in.Scalars[NotePercepcion] = 1 }, abi.Fault{Code: FaultBothRetentions, Line: -1, Column: NotePercepcion}},
		"discount above the line":  {func(in *abi.Input) { in.Lines[ColDescuento] = 106 * One }, abi.Fault{Code: FaultDiscount, Line: 0, Column: ColDescuento}},
	} {
		in, out := noteInput(), abi.Output{}
		x.change(in)
		Note(in, &out)
		if !slices.Equal(out.Faults, []abi.Fault{x.want}) {
			t.Errorf("%s: %+v, want %s", name, out.Faults, d.Faults[x.want.Code].Code)
		}
	}
	in, out := noteInput(), abi.Output{}
	in.Scalars[NoteOrigen] = 0 // an invoice, which the parameter permits
	if Note(in, &out); len(out.Faults) > 0 {
		t.Errorf("an invoice: %+v", out.Faults)
	}
}
