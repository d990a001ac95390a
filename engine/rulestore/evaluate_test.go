package rulestore

import (
	"testing"

	"dtegate/engine/dte"
	"dtegate/rules/abi"
)

// TestScalar_List: a scalar that names a list is the sum of its items' amounts; either every item has the amount, or
// none has.
func TestScalar_List(t *testing.T) {
	field := abi.Field{Name: "resumen.pagos[].montoPago", Kind: "amount"}
	b := bind(&abi.Description{Scalars: []abi.Field{field}})
	for facts, want := range map[string]struct {
		sum   int64
		fault string
	}{
		`{}`:                       {sum: abi.Absent},
		`{"resumen":{"pagos":[]}}`: {sum: abi.Absent},
		`{"resumen":{"pagos":[{},{"montoPago":null}]}}`:                        {sum: abi.Absent},
		`{"resumen":{"pagos":[{"montoPago":1.5},{"montoPago":2}]}}`:            {sum: 350_000_000},
		`{"resumen":{"pagos":[{"montoPago":0},{"montoPago":0}]}}`:              {},
		`{"resumen":{"pagos":[{"montoPago":1.5},{}]}}`:                         {fault: dte.FaultRequired},
		`{"resumen":{"pagos":[{},{"montoPago":1.5}]}}`:                         {fault: dte.FaultRequired},
		`{"resumen":{"pagos":[{"montoPago":1.5},{"montoPago":"x"}]}}`:          {fault: dte.FaultType},
		`{"resumen":{"pagos":[{"montoPago":6e10},{"montoPago":6e10}]}}`:        {fault: dte.FaultRange},
		`{"resumen":{"pagos":[{"montoPago":-6e10},{"montoPago":-6e10}]}}`:      {fault: dte.FaultRange},
		`{"resumen":{"pagos":[{"montoPago":60000000000},{"montoPago":-6e2}]}}`: {sum: 5_999_999_940_000_000_000},
	} {
		v, err := dte.Parse([]byte(facts))
		if err != nil {
			t.Fatal(err)
		}
		got, fault := scalar(&field, v, b.scalars[0])
		if fault == nil {
			fault = &dte.Fault{}
		}
		if got != want.sum || fault.Code != want.fault {
			t.Errorf("%s: %d, %q, want %d, %q", facts, got, fault.Code, want.sum, want.fault)
		}
	}
}
