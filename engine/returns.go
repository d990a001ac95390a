package engine

import (
	"fmt"
	"slices"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulebook"
	"dtegate/rules/abi"
)

// takeBack makes the facts of a return event: the lines of the origin that it names, each with what its rule needs to
// give back exactly what was taken (FACTS §9; SPEC 4.6). Quantities are checked here, where the counters stand still.
func (from *origins) takeBack(d *draft, o *origin) error {
	asked := d.facts.Get("cuerpoDocumento")
	sold := o.document.Get("cuerpoDocumento")
	code := dte.Str(dte.Code(o.entry.Code).String())
	var faults []dte.Fault
	reason := "" // the code of the first fault names the answer, where SPEC names it so
	fault := func(kind, path, message string) {
		switch {
		case reason != "":
		case kind == dte.FaultDuplicate:
			reason = refusal.CodeValidation
		default:
			reason = kind
		}
		faults = append(faults, dte.Fault{Path: path, Code: kind, Message: message})
	}
	lines := make([]dte.Value, 0, asked.Len())
	before := sumsAbove(sold)
	seen := make(map[int64]bool)
	for i := range asked.Len() {
		at := fmt.Sprintf("cuerpoDocumento[%d].", i)
		number, _ := asked.Index(i).Get("numItem").Int()
		line := lineNumbered(sold, number)
		switch {
		case !line.Exists():
			fault(refusal.CodeItemNotFound, at+"numItem", fmt.Sprintf("El documento de origen no tiene el ítem %d", number))
			continue
		case seen[number]:
			fault(dte.FaultDuplicate, at+"numItem", fmt.Sprintf("El ítem %d está dos veces", number))
			continue
		}
		seen[number] = true
		back, err := from.store.Counter(o.entry.Code, uint32(number))
		if err != nil {
			return refusal.Internal(err)
		}
		quantity, had := amount(asked.Index(i), "cantidad"), amount(line, "cantidad")
		if rest := had - dte.Amount(back); quantity > rest {
			fault(refusal.CodeOverReturn, at+"cantidad", fmt.Sprintf("Del ítem %d quedan %s por devolver", number, rest))
			continue
		}
		d.draws = append(d.draws, record.Draw{Line: uint32(number), Amount: int64(quantity)})
		lines = append(lines, returned(line, int64(i+1), code, quantity, dte.Amount(back)).With("acumuladoOrigen", dte.Num(before[number-1])))
	}
	if len(faults) > 0 {
		return &refusal.Error{Code: reason, Message: faults[0].Message, Faults: faults}
	}
	return from.completeReturn(d, o, lines)
}

// completeReturn makes the facts of a return with its lines.
func (from *origins) completeReturn(d *draft, o *origin, lines []dte.Value) error {
	code := dte.Str(dte.Code(o.entry.Code).String())
	if receptor := o.facts.Get("receptor"); receptor.Exists() {
		d.facts = d.facts.With("receptor", receptor)
	}
	given, err := from.returnedBefore(o)
	if err != nil {
		return err
	}
	d.facts = d.facts.With("cuerpoDocumento", dte.Arr(lines...)).With("devuelto", given).With("emisor", o.emisorOf(d.facts.Get("emisor"))).
		With("isRetenIva", dte.Bool(o.facts.Get("isRetenIva").Bool())).
		With("applyrent", dte.Bool(o.facts.Get("applyrent").Bool())).
		With("origen", o.totals()).
		With("documentoRelacionado", dte.Arr(dte.Obj(
			dte.Member{Name: "tipoDocumento", Value: dte.Str(o.head.Document)},
			dte.Member{Name: "codigoGeneracion", Value: code},
			dte.Member{Name: "fechaEmision", Value: dte.Str(o.head.Date)})))
	return nil
}

// amountsOfLine are the members of a line that hold its amount: one of them is not 0. Their order is that of the counters
// of what was returned.
var amountsOfLine = [...]string{"ventaNoSuj", "ventaExenta", "ventaGravada", "compra"}

// returnedBefore is what earlier returns gave back of an origin, by kind of amount.
func (from *origins) returnedBefore(o *origin) (dte.Value, error) {
	members := make([]dte.Member, len(amountsOfLine))
	for k, name := range amountsOfLine {
		n, err := from.store.Counter(o.entry.Code, uint32(record.LineReturned+k))
		if err != nil {
			return dte.Value{}, refusal.Internal(err)
		}
		members[k] = dte.Member{Name: name, Value: dte.Num(dte.Amount(n))}
	}
	return dte.Obj(members...), nil
}

// givenBack adds to what a return draws the amounts of its lines, by kind.
func (d *draft) givenBack(r *rulebook.Rule, ev *rulebook.Evaluation) {
	outputs := r.Description().LineOutputs
	for k, name := range amountsOfLine {
		column := slices.IndexFunc(outputs, func(f abi.Field) bool { return f.Name == name })
		if column < 0 {
			continue
		}
		sum := int64(0)
		for i := range ev.Computed.N {
			sum += ev.Computed.Lines[i*len(outputs)+column]
		}
		if sum != 0 {
			d.draws = append(d.draws, record.Draw{Line: uint32(record.LineReturned + k), Amount: sum})
		}
	}
}

// sumsAbove are, line by line, what the lines before it add up to, of the same kind of amount.
func sumsAbove(lines dte.Value) []dte.Amount {
	list := make([]dte.Amount, lines.Len())
	var sums [len(amountsOfLine)]dte.Amount
	for i := range list {
		for k, name := range amountsOfLine {
			if a := amount(lines.Index(i), name); a != 0 {
				list[i] = sums[k]
				sums[k] += a
			}
		}
	}
	return list
}

// lineNumbered is the line with a numItem: lines are numbered from 1, in order.
func lineNumbered(lines dte.Value, number int64) dte.Value {
	if number < 1 || number > int64(lines.Len()) {
		return dte.Value{}
	}
	return lines.Index(int(number - 1))
}

// returned is a line of the event: the origin's line with the quantity that comes back, and beside it what the rule
// prorates.
func returned(line dte.Value, number int64, origin dte.Value, quantity, before dte.Amount) dte.Value {
	members := []dte.Member{
		{Name: "numItem", Value: dte.Int(number)}, {Name: "codigoGeneracion", Value: origin},
		{Name: "cantidad", Value: dte.Num(quantity)}, {Name: "cantidadDevuelta", Value: dte.Num(before)},
		{Name: "cantidadOrigen", Value: line.Get("cantidad")},
	}
	for _, name := range [...]string{"tipoItem", "descripcion", "codigo", "uniMedida", "codTributo", "tributos", "precioUni"} {
		if v := line.Get(name); v.Exists() && !v.IsNull() {
			members = append(members, dte.Member{Name: name, Value: v})
		}
	}
	for _, name := range [...]string{"montoDescu", "ventaNoSuj", "ventaExenta", "ventaGravada", "compra", "noGravado"} {
		members = append(members, dte.Member{Name: name + "Origen", Value: dte.Num(amount(line, name))})
	}
	return dte.Obj(members...)
}

// totals are the amounts of an origin that its lines share.
func (o *origin) totals() dte.Value {
	members := []dte.Member{{Name: "tipoDte", Value: dte.Str(o.head.Document)}}
	for _, name := range [...]string{"totalNoSuj", "totalExenta", "totalGravada", "totalCompra", "descuNoSuj", "descuExenta", "descuGravada", "descu", "totalIva"} {
		members = append(members, dte.Member{Name: name, Value: dte.Num(amount(o.document.Get("resumen"), name))})
	}
	return dte.Obj(members...)
}
