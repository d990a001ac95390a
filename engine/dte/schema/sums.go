package schema

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"dtegate/engine/dte"
)

// This file adds up lines and totals by MH's member names, independently of rules and overlays: see fixed.go.

// MH's tolerances (MF2 pp.52-54). MH has accepted a line that differs by three cents from price times quantity.
const (
	cent          = dte.Scale / 100
	sumTolerance  = cent + cent/2 // a cent, and half a cent for rounding
	lineTolerance = 3*cent + cent/2
)

// sumOf pairs each total of resumen with the amount of the lines that it sums.
var sumOf = [][2]string{
	{"totalNoSuj", "ventaNoSuj"}, {"totalExenta", "ventaExenta"}, {"totalGravada", "ventaGravada"},
	{"totalExportacion", "exportaciones"}, {"exportacion", "exportaciones"},
	{"totalCompra", "compra"}, {"totalCompraExcluidos", "compra"}, {"totalNoGravado", "noGravado"},
	{"totalSeguro", "seguro"}, {"totalFlete", "flete"}, {"valorTotal", "valor"},
	{"totalSujetoRetencion", "montoSujetoGrav"}, {"totalIvaRetenido", "ivaRetenido"}, {"totalIVAretenido",
		"ivaRetenido"},
}

// soldAs lists the members for a line's amount: price times quantity, less the discount. At most one of them
// is not 0. If the line has no price, the till gives the amount.
var soldAs = []string{"ventaNoSuj", "ventaExenta", "ventaGravada", "compra", "valor"}

// Amounts of resumen, by their effect on the amount to be paid.
var (
	totalsSold = []string{"totalNoSuj", "totalExenta", "totalGravada", "totalCompra", "totalCompraExcluidos"}
	exported   = []string{"totalExportacion", "exportacion"}
	discounts  = []string{"descuNoSuj", "descuExenta", "descuGravada", "descu", "descuento"}
	carriage   = []string{"totalSeguro", "totalFlete", "seguro", "flete"}
	perceived  = []string{"ivaPerci", "ivaPerci1"}
	withheld   = []string{"ivaRete", "ivaRete1"}
	// besides lists amounts that are for information only, or the total of an equation.
	besides = []string{"subTotalVentas", "subTotal", "montoTotalOperacion", "totalPagar", "totalNoGravado", "reteRenta",
		"totalIva", "porcentajeDescuento", "totalDescu", "saldoFavor", "condicionOperacion", "totalSujetoRetencion",
		"totalIvaRetenido", "totalIVAretenido", "valorTotal", "totalNoOnerosas"}
	// known lists all amounts of resumen that occur in an equation, or are for information only.
	known = slices.Concat(totalsSold, exported, discounts, carriage, perceived, withheld, besides)
	// finals lists the amounts that may be a document's total: the first of them that a layout has is its total.
	finals = []string{"totalPagar", "total", "montoTotalOperacion", "totalIvaRetenido", "totalIVAretenido",
		"valorTotal"}
	// signed lists the amounts that may be below 0.
	signed = []string{"totalNoGravado", "saldoFavor"}
)

// counted reports whether this file checks a member, or the member only informs. The method agree checks the others.
func counted(name string) bool {
	return Priced(name) || slices.Contains(known, name) && name != "condicionOperacion" || name == "ivaItem"
}

// globalDiscounts maps amounts of resumen to the members of descuentoGlobal from which they come.
var globalDiscounts = map[string]string{
	"descuNoSuj": "noSujeta", "descuExenta": "exenta", "descuGravada": "gravada", "descu": "compra",
	"descuento": "gravada"}

// informative lists the taxes of CAT-015 that no total includes.
var informative = []string{"C5", "C6", "C7"}

// arithmetic locates the amounts of the equations in a layout. An int is the position of a member in its object, or -1.
type arithmetic struct {
	resumen, lines            int      // in the document
	line                      int      // index of the field of a line's first member
	sums                      [][2]int // the pairs of sumOf: in resumen, in a line
	quantity, price, discount int      // in a line; charge and kind are in a line too
	charge, kind              int      // noGravado, tipoDonacion
	said                      []given
	sold                      []int
	lineLacks, globalLacks    []string       // facts of lines and of descuentoGlobal without a place in the layout
	alone                     string         // an amount that nothing in the layout can be compared with
	discounts                 map[int]string // by position in resumen: the member of descuentoGlobal
	totalDiscount, percent    int            // totalDescu, porcentajeDescuento
	carriage                  []given        // amounts of resumen that are not a sum of lines
	equations, settled        []equation     // of resumen, and of a body of one line
	taxes, taxCode, taxValue  int
	pagos, paid               int
	strange                   []int // amounts that occur in no equation
	unsigned                  []int // amounts that must not be below 0
	total, output             int   // the position of overlay.total, and its index in the module's outputs
}

// given is a member of a line or of resumen whose amount comes from the till, and the name of the till's fact.
type given struct {
	position int
	fact     string
}

// equation states that a total is the sum of other amounts of its object, rounded to the cent and never below 0.
type equation struct {
	total       int // -1: the layout does not show the amount paid; use the module's output
	balance     int // saldoFavor: how far the sum is below 0; -1: the object lacks it
	plus, minus []int
	taxed       bool
	// otherwise lists amounts of perception and of retention: totals of accepted documents have all of them, or none.
	otherwise [2][]int
}

// member returns a member's position in an object, or -1. object is the index of the object's field, or -1.
func (c *compiler) member(object int, name string) int {
	return slices.IndexFunc(c.membersOf(object), func(x field) bool { return x.name == name })
}

// find returns the positions of the named members that an object has.
func (c *compiler) find(object int, names ...string) (found []int) {
	for _, name := range names {
		if i := c.member(object, name); i >= 0 {
			found = append(found, i)
		}
	}
	return found
}

// membersOf returns the members of an object, or nil for -1.
func (c *compiler) membersOf(object int) []field {
	if object < 0 {
		return nil
	}
	return c.fields[c.fields[object].first:][:c.fields[object].members]
}

func (c *compiler) arithmetic() (arithmetic, error) {
	resumen, line := c.layoutIndex(summaryName), c.layoutIndex(linesName+"[]")
	body := c.layoutIndex(linesName)
	if body >= 0 && !c.fields[body].item {
		line = body
	} else {
		body = -1
	}
	tax, payment := c.layoutIndex(summaryName+".tributos[]"), c.layoutIndex(summaryName+".pagos[]")
	a := arithmetic{resumen: c.member(0, summaryName), lines: c.member(0, linesName),
		quantity: c.member(line, "cantidad"), price: c.member(line, "precioUni"),
		discount: c.member(line, "montoDescu"),
		charge:   c.member(line, "noGravado"), kind: c.member(line, "tipoDonacion"), sold: c.find(line, soldAs...),
		discounts: make(map[int]string), totalDiscount: c.member(resumen, "totalDescu"),
		percent: c.member(resumen, "porcentajeDescuento"),
		taxes:   c.member(resumen, "tributos"),
		taxCode: c.member(tax, "codigo"), taxValue: c.member(tax, "valor"), pagos: c.member(resumen, "pagos"),
		paid: c.member(payment, "montoPago"), total: c.member(resumen, c.overlay.total),
		output: slices.Index(c.out.Summary, c.overlay.total),
	}
	if line >= 0 {
		a.line = c.fields[line].first
	}
	a.pair(c, resumen, line)
	whole := line >= 0 && (resumen >= 0 || body >= 0)
	a.placeLine(c, line, whole)
	a.placeSummary(c, resumen, whole)
	if body >= 0 {
		a.settle(c, body)
	}
	return a, a.equate(c, resumen)
}

// pair finds the pairs of sumOf that the layout has, and an amount that has no counterpart (alone).
func (a *arithmetic) pair(c *compiler, resumen, line int) {
	for _, s := range sumOf {
		if total, column := c.member(resumen, s[0]), c.member(line, s[1]); total >= 0 && column >= 0 {
			a.sums = append(a.sums, [2]int{total, column})
		}
	}
	for _, s := range sumOf {
		if i := c.member(resumen, s[0]); i >= 0 && !a.summed(0, i) {
			a.alone = summaryName + "." + s[0]
		}
		if i := c.member(line, s[1]); i >= 0 && !a.summed(1, i) {
			a.alone = linesName + "." + s[1]
		}
	}
	if a.price >= 0 && len(a.sold) == 0 {
		a.alone = linesName + ".precioUni"
	}
}

// summed reports whether a position is in a pair of sumOf: on side 0 in resumen, on side 1 in a line.
func (a *arithmetic) summed(side, i int) bool {
	return slices.ContainsFunc(a.sums, func(s [2]int) bool { return s[side] == i })
}

// placeLine finds the places of the till's facts of a line. whole: the layout has lines, and totals to compare with.
func (a *arithmetic) placeLine(c *compiler, line int, whole bool) {
	for _, name := range saidOfLine {
		i := c.member(line, name)
		if i < 0 { // the line may have the amount under another name
			i = slices.IndexFunc(c.membersOf(line), func(x field) bool { return x.path == linesName+"[]."+name })
		}
		if i >= 0 {
			a.said = append(a.said, given{i, name})
		}
		if i < 0 || !whole {
			a.lineLacks = append(a.lineLacks, name)
		}
		switch name {
		case "valorUni":
			a.price = max(a.price, i)
		case "depreciacion":
			a.discount = max(a.discount, i)
		}
	}
	// A layout may show these facts under another name.
	for _, name := range []string{"codigo", "descripcion", "numeroDocumento", "fechaEmision", "uniMedida",
		"observaciones"} {
		if !slices.ContainsFunc(c.fields, func(x field) bool { return x.path == linesName+"[]."+name }) {
			a.lineLacks = append(a.lineLacks, name)
		}
	}
}

// placeSummary finds the till's amounts in resumen, the amounts in no equation, and those that must not be below 0.
func (a *arithmetic) placeSummary(c *compiler, resumen int, whole bool) {
	for name, fact := range globalDiscounts {
		if i := c.member(resumen, name); i >= 0 {
			a.discounts[i] = fact
		}
	}
	for _, fact := range globalDiscounts {
		if !whole || !slices.Contains(slices.Collect(maps.Values(a.discounts)), fact) {
			a.globalLacks = append(a.globalLacks, fact)
		}
	}
	for _, name := range slices.Concat(carriage, []string{"totalNoOnerosas"}) {
		if i := c.member(resumen, name); i >= 0 && !a.summed(0, i) {
			a.carriage = append(a.carriage, given{i, name})
		}
	}
	members := c.membersOf(resumen)
	if a.total < 0 && a.output >= 0 { // a generation may show the total under another name
		a.total = slices.IndexFunc(members, func(x field) bool { return x.from != nil && x.from.amount == a.output })
	}
	for i, x := range members {
		amount := x.types&(typeNumber|typeInteger) != 0
		if amount && !slices.Contains(known, x.name) && x.name != c.overlay.total {
			a.strange = append(a.strange, i)
		}
		if amount && !x.signed && !slices.Contains(signed, x.name) {
			a.unsigned = append(a.unsigned, i)
		}
	}
}

// equate makes the equations of resumen. Error: the overlay's total is not the amount paid.
func (a *arithmetic) equate(c *compiler, resumen int) error {
	find := func(names ...string) []int { return c.find(resumen, names...) }
	equate := func(total string, e equation) {
		e.total = c.member(resumen, total)
		if (e.total >= 0 || total == c.overlay.total && resumen >= 0) && len(e.plus) > 0 {
			a.equations = append(a.equations, e)
		}
	}
	off := find(discounts...)
	sold := find(slices.Concat(totalsSold, exported)...)
	equate("subTotalVentas", equation{balance: -1, plus: sold})
	gross := find("subTotalVentas")
	if gross == nil {
		gross = sold
	}
	equate("subTotal", equation{balance: -1, plus: gross, minus: off})
	if net := find("subTotal"); net != nil {
		gross, off = net, nil
	}
	net := slices.Concat(gross, find(carriage...))
	equate("montoTotalOperacion", equation{balance: -1, plus: net, minus: off, taxed: true,
		otherwise: [2][]int{find(perceived...), find(withheld...)}})
	paid := "totalPagar"
	if i := slices.IndexFunc(finals, func(name string) bool { return c.member(resumen, name) >= 0 }); i >= 0 &&
		c.overlay.total != "" && !strings.EqualFold(c.overlay.total, finals[i]) && (i < 2 ||
		c.overlay.total != paid && slices.Contains(known, c.overlay.total)) {
		return fmt.Errorf("overlay: total: is %q, but the amount paid is resumen.%s", c.overlay.total, finals[i])
	}
	if !a.summed(0, a.total) && c.overlay.total != "montoTotalOperacion" {
		paid = cmp.Or(c.overlay.total, paid)
	}
	equate(paid, equation{balance: c.member(resumen, "saldoFavor"), taxed: true,
		plus:  slices.Concat(net, find("totalNoGravado"), find(perceived...)),
		minus: slices.Concat(off, find("reteRenta"), find(withheld...))})
	return nil
}

// settle makes the equations of a body of one line: of a liquidation.
func (a *arithmetic) settle(c *compiler, body int) {
	settle := func(total string, plus, minus []int) {
		if i := c.member(body, total); (i >= 0 || total == "") && len(plus) > 0 {
			a.settled = append(a.settled, equation{total: i, balance: -1, plus: plus, minus: minus})
		}
	}
	value, off := c.find(body, "valorOperaciones"), c.find(body, "ivaPercibido", "comision", "ivaComision")
	settle("", value, off) // the amount paid
	settle("liquidoApagar", value, off)
	settle("subTotal", value, c.find(body, "montoSinPercepcion"))
	settle("subTotal", c.find(body, "iva", "montoSujetoPercepcion"), nil)
}

func (r *run) number(object *slot, position int) dte.Amount {
	if position < 0 || object.kind != dte.KindObject {
		return 0
	}
	if s := &r.slots[object.first+int32(position)]; s.kind == dte.KindNumber && s.exact {
		return s.num
	}
	return 0
}

// addUp notes a contradiction if the document's amounts do not add up, or differ from the amounts that the till gave.
func (r *run) addUp() {
	a := &r.filler.amounts
	root := &r.slots[0]
	if r.computed != nil {
		r.hasPlaces()
	}
	if root.kind != dte.KindObject {
		return
	}
	resumen := new(slot)
	if a.resumen >= 0 {
		resumen = &r.slots[root.first+int32(a.resumen)]
	}
	name := func(position int) string {
		return summaryName + "." + r.filler.fields[r.filler.fields[r.filler.fields[0].first+a.resumen].first+
			position].name
	}
	wrong := func(position int) {
		if position < 0 {
			r.contradict(summaryName+"."+r.filler.total, "is not the sum of its amounts")
			return
		}
		r.contradict(name(position), "is "+r.number(resumen, position).String()+", but its amounts do not add up to it")
	}
	if a.lines >= 0 {
		r.addLines(&r.slots[root.first+int32(a.lines)], resumen, wrong)
	}
	if resumen.kind != dte.KindObject {
		return
	}
	asGiven := func(i int, fact dte.Value) {
		if n := r.number(resumen, i); r.computed != nil && !isGiven(n, fact, 0, 0) {
			r.contradict(name(i), "is "+n.String()+", which the sale does not say")
		}
	}
	discount, summary, off := r.facts.Get("descuentoGlobal"), r.facts.Get(summaryName), dte.Amount(0)
	for i, fact := range a.discounts {
		asGiven(i, discount.Get(fact))
		off |= r.number(resumen, i)
	}
	if r.computed != nil && off == 0 && r.number(resumen, a.percent) != 0 {
		r.contradict(name(a.percent), "is of a discount that the sale does not say")
	}
	for _, g := range a.carriage {
		asGiven(g.position, summary.Get(g.fact))
	}
	for _, i := range a.unsigned {
		if r.computed != nil && r.number(resumen, i) < 0 {
			r.contradict(name(i), "is below 0")
		}
	}
	strange := r.strangeSums(resumen)
	all, counted := r.taxSums(resumen)
	for i := range a.equations {
		if e := &a.equations[i]; !r.holds(e, resumen, all, strange) && !r.holds(e, resumen, counted, strange) {
			wrong(e.total)
		}
	}
	if a.pagos >= 0 && a.paid >= 0 {
		var sum dte.Sum
		pagos := &r.slots[resumen.first+int32(a.pagos)]
		total, known := r.paid(resumen, a.total)
		if pagos.kind != dte.KindArray || pagos.count == 0 || !known {
			return
		}
		for i := range pagos.count {
			sum.Sub(r.number(&r.slots[pagos.first+i], a.paid))
		}
		if a.kind < 0 {
			sum.Add(total)
		} else {
			r.addMoney(&sum, &r.slots[root.first+int32(a.lines)])
		}
		if !sum.Within(sumTolerance) {
			r.contradict(name(a.pagos), "do not add up to what is paid")
		}
	}
}

// paid returns the total at a position of an object. For position -1 it returns the module's output of the amount paid;
// known is false if there is no such output.
func (r *run) paid(object *slot, position int) (total dte.Amount, known bool) {
	if output := r.filler.amounts.output; position >= 0 {
		return r.number(object, position), true
	} else if r.computed != nil && output >= 0 {
		return dte.Amount(r.computed.Summary[output]), true
	}
	return 0, false
}

// addMoney adds the amounts of a donation's lines of money (CAT-026) to sum. Donated goods and services are not paid.
func (r *run) addMoney(sum *dte.Sum, lines *slot) {
	a := &r.filler.amounts
	for i := range lines.count {
		line := &r.slots[lines.first+i]
		for _, position := range a.sold {
			if r.number(line, a.kind) == dte.Scale {
				sum.Add(r.number(line, position))
			}
		}
	}
}

// notCarried is the message of a till's amount for which the document's type has no use.
const notCarried = "Este documento no lo lleva"

// hasPlaces notes a contradiction if the layout has no place for an amount, a code or a document that the till gave. If
// the module does not take the amount either, the sale is at fault.
func (r *run) hasPlaces() {
	a := &r.filler.amounts
	lacks := func(facts dte.Value, names []string, at string) {
		members := facts.Members()
		for i := range members {
			m := &members[i]
			kind, exact, n, _ := m.Value.Scalar()
			switch {
			case kind <= dte.KindNull || exact && n == 0 || !slices.Contains(names, m.Name):
			case (kind == dte.KindNumber || Priced(m.Name)) && m.Name != "uniMedida" &&
				!slices.Contains(r.filler.out.Inputs, at+m.Name):
				r.report(dte.Fault{Path: expandPath(at+m.Name, r.index[:]), Code: dte.FaultCondition,
					Message: notCarried}, false)
			default:
				r.contradict(m.Name, "is given in the sale, and the layout has no place for it")
			}
		}
	}
	lacks(r.facts.Get("descuentoGlobal"), a.globalLacks, "descuentoGlobal.")
	lines := r.facts.Get(linesName)
	for i := range lines.Len() {
		r.index[0] = int32(i)
		lacks(lines.Index(i), a.lineLacks, linesName+"[].")
	}
}

var noStrange = []dte.Sum{{}}

// mostStrange is how many amounts outside all equations may differ from 0 in one document.
const mostStrange = 5

// strangeSums returns all possible sums of the amounts that occur in no equation: each is added, subtracted or left
// out. An equation may be off only by one of these sums.
func (r *run) strangeSums(resumen *slot) []dte.Sum {
	sums, known := append(r.strange[:0], dte.Sum{}), 0
	for _, i := range r.filler.amounts.strange {
		n := r.number(resumen, i)
		if n == 0 {
			continue
		}
		if known++; known > mostStrange {
			r.contradict(summaryName, "has more unknown amounts than can be added up")
			break
		}
		for _, s := range sums {
			with, without := s, s
			with.Add(n)
			without.Sub(n)
			sums = append(sums, with, without)
		}
	}
	r.strange = sums
	return sums
}

// holds reports whether an equation cannot be checked, or is true with the given taxes plus one of the sums in strange.
func (r *run) holds(e *equation, object *slot, taxes dte.Sum, strange []dte.Sum) bool {
	total, known := r.paid(object, e.total)
	if !known {
		return true
	}
	balance := r.number(object, e.balance)
	if balance > 0 || balance < 0 && total != 0 {
		return false
	}
	var sum dte.Sum
	if e.taxed {
		sum = taxes
	}
	for _, i := range e.plus {
		sum.Add(r.number(object, i))
	}
	for _, i := range e.minus {
		sum.Sub(r.number(object, i))
	}
	near := func() bool {
		return total == 0 && e.balance < 0 && sum.Negative() || slices.ContainsFunc(strange, func(s dte.Sum) bool {
			s.Merge(sum)
			s.Sub(total + balance) // total or balance is 0
			return s.Within(sumTolerance)
		})
	}
	if near() {
		return true
	}
	for _, i := range e.otherwise[0] {
		sum.Add(r.number(object, i))
	}
	for _, i := range e.otherwise[1] {
		sum.Sub(r.number(object, i))
	}
	return near()
}

func (r *run) taxSums(resumen *slot) (all, counted dte.Sum) {
	a := &r.filler.amounts
	if a.taxes < 0 || a.taxCode < 0 || a.taxValue < 0 {
		return all, counted
	}
	taxes := &r.slots[resumen.first+int32(a.taxes)]
	for i := range taxes.count {
		tax := &r.slots[taxes.first+i]
		all.Add(r.number(tax, a.taxValue))
		if tax.kind == dte.KindObject && !slices.Contains(informative, r.slots[tax.first+int32(a.taxCode)].text) {
			counted.Add(r.number(tax, a.taxValue))
		}
	}
	return all, counted
}

// addLines compares each line with its price and quantity, and the sums of the lines with the totals.
func (r *run) addLines(lines, resumen *slot, wrong func(total int)) {
	a := &r.filler.amounts
	var all []slot
	switch lines.kind {
	case dte.KindArray:
		all = r.slots[lines.first:][:lines.count]
	case dte.KindObject:
		all = []slot{*lines} // a body of one line
	}
	if a.quantity >= 0 && a.price >= 0 && len(a.sold) > 0 {
		var off dte.Sum // sum of the differences: a cent in each line, always in one direction, is not rounding
		for i := range all {
			r.priceLine(&all[i], i, &off)
		}
		if !off.Within(lineTolerance + dte.Amount(len(all))*cent/2) {
			r.contradict(linesName, "do not add up to their prices times their quantities, less their discounts")
		}
	}
	facts := r.facts.Get(linesName)
	for i := range all {
		if r.computed != nil {
			r.asGiven(&all[i], facts.Index(i), i)
		}
		for j := range a.settled {
			if !r.holds(&a.settled[j], &all[i], dte.Sum{}, noStrange) {
				r.contradict(linesName, "does not add up to what is settled")
			}
		}
	}
	for _, s := range a.sums {
		var sum dte.Sum
		for i := range all {
			sum.Add(r.number(&all[i], s[1]))
		}
		if sum.Sub(r.number(resumen, s[0])); !sum.Within(sumTolerance) {
			wrong(s[0])
		}
	}
	if a.totalDiscount >= 0 {
		var sum dte.Sum
		for i := range all {
			sum.Add(r.number(&all[i], a.discount))
		}
		for i := range a.discounts {
			sum.Add(r.number(resumen, i))
		}
		if sum.Sub(r.number(resumen, a.totalDiscount)); !sum.Within(sumTolerance) {
			wrong(a.totalDiscount)
		}
	}
}

// asGiven compares the module's outputs for a line with the till's facts. A module must not raise a price or a
// quantity, invent a discount or a charge, or withhold or settle an amount that the till did not give. In a return,
// each amount is the returned quantity's part of the origin's amount, to within a cent.
func (r *run) asGiven(line *slot, fact dte.Value, i int) {
	a := &r.filler.amounts
	returned := fact.Get("cantidadOrigen").Exists()
	check := func(position int, name string) {
		part, off := dte.Amount(0), dte.Amount(0)
		if returned && fact.Get(name+"Origen").Exists() {
			part, off = r.partOf(fact, name), cent
		}
		if n := r.number(line, position); !isGiven(n, fact.Get(name), part, off) {
			place := fmt.Sprintf("%s[%d].%s", linesName, i, name)
			if name == "psv" && n == 0 && !slices.Contains(r.filler.out.Inputs, linesName+"[]."+name) {
				// No amount depends on it: a module that does not take it computes the sale without it.
				r.report(dte.Fault{Path: place, Code: dte.FaultCondition, Message: notCarried}, false)
				return
			}
			r.contradict(place, "is "+n.String()+", which the sale does not say")
		}
	}
	for _, g := range a.said {
		check(g.position, g.fact)
	}
	if returned || a.price < 0 && !fact.Get("cantidad").Exists() {
		for _, position := range a.sold {
			check(position, r.filler.fields[a.line+position].name)
		}
	}
}

// partOf returns what a return gives back of an amount of the origin's line, in proportion to the returned quantity.
// The line's share of the origin's global discount is not given back: it counts as a discount of the line.
func (r *run) partOf(fact dte.Value, name string) dte.Amount {
	amount := func(v dte.Value, name string) dte.Amount {
		n, _ := v.Get(name).Amount()
		return n
	}
	part := func(name string) dte.Amount {
		return mulDiv(amount(fact, name+"Origen"), amount(fact, "cantidad"), amount(fact, "cantidadOrigen"))
	}
	n, origin := part(name), r.facts.Get("origen")
	for kind, sold := range soldAs {
		switch off := mulDiv(part(sold), amount(origin, discounts[kind]), amount(origin, totalsSold[kind])); name {
		case sold:
			n -= off
		case "montoDescu":
			n += off
		}
	}
	return n
}

// mulDiv returns a × b / by, at most dte.MaxAmount away from 0. A divisor of 0 or less counts as 1e-8.
func mulDiv(a, b, by dte.Amount) dte.Amount {
	by = max(1, by)
	n := dte.MaxAmount
	if high, low := bits.Mul64(uint64(max(a, -a)), uint64(max(b, -b))); high < uint64(by) {
		quotient, _ := bits.Div64(high, low, uint64(by))
		n = dte.Amount(min(quotient, uint64(n)))
	}
	if a < 0 != (b < 0) {
		return -n
	}
	return n
}

// isGiven reports whether n is the till's fact or, without a fact, at most off away from part; n < 0 needs part < 0.
func isGiven(n dte.Amount, fact dte.Value, part, off dte.Amount) bool {
	if known, err := fact.Amount(); err == nil {
		return n == known
	}
	return part-off <= n && n <= part+off && (n >= 0 || part < 0)
}

// priceLine compares a line's amount with price times quantity, less the discount. It adds the difference to off.
func (r *run) priceLine(line *slot, i int, off *dte.Sum) {
	a := &r.filler.amounts
	quantity, price := r.number(line, a.quantity), r.number(line, a.price)
	var sold dte.Amount
	for _, position := range a.sold {
		sold |= r.number(line, position)
	}
	if charge := r.number(line, a.charge); sold == 0 && charge != 0 && price == charge {
		return // MF2 p.47 shows the charge as the price too
	}
	amount := mulDiv(quantity, price, dte.Scale)
	var sum dte.Sum
	for _, s := range [...]*dte.Sum{&sum, off} {
		s.Add(amount)
		s.Sub(r.number(line, a.discount))
		for _, position := range a.sold {
			s.Sub(r.number(line, position))
		}
	}
	if !sum.Within(lineTolerance) {
		r.contradict(fmt.Sprintf("%s[%d]", linesName, i), "its amount is not its price times its quantity, less its "+
			"discount")
	}
}
