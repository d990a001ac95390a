package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/rules/abi"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// Origin names the document that a note adjusts, or whose goods a return takes back.
type Origin struct {
	Code dte.Code
	// Document and Date (yyyy-mm-dd), if not empty, are claims of the request; a wrong claim is refused.
	Document, Date string
}

// origin is a stored document against which another document is issued.
type origin struct {
	entry    storage.Entry
	head     *record.Head
	facts    dte.Value // the till's values
	document dte.Value // the signed document
}

// creditableNames name, for messages, what a note takes from its original. They are in the order of the counters from
// record.LineCredited on: the amounts of bundle.CreditableNames, the note itself, its charges, its taxes besides VAT.
var creditableNames = [...]string{"Lo gravado de la nota", "Lo exento de la nota", "Lo no sujeto de la nota", "",
	"Los cargos de la nota", "Otros tributos de la nota", "El tributo 59 de la nota", "El tributo 71 de la nota",
	"El tributo D1 de la nota", "El tributo C8 de la nota", "El tributo D5 de la nota"}

type creditable [len(creditableNames)]dte.Amount

const (
	oneNote = len(bundle.CreditableNames) + iota // the number of credit notes, for exclusive: their amounts may be 0
	charges
	otherTaxes // taxes that creditableNames does not name

	halfCent = dte.Scale / 200
)

// taxed returns the index of a tax (CAT-015) in creditable, or -1 for VAT, which follows from the taxed amount.
func taxed(code string) int {
	if code == dte.VAT {
		return -1
	}
	return max(otherTaxes, slices.Index(creditableNames[:], "El tributo "+code+" de la nota"))
}

// findOrigin returns the origin of a request, or its refusal. The result is valid while the origin is locked.
func (e *Engine) findOrigin(ctx context.Context, d *draft) (*origin, error) {
	o := &origin{}
	var err error
	o.entry, err = e.documents.Settled(ctx, d.request.Origin.Code)
	if errors.Is(err, storage.ErrNotFound) || err == nil && !record.IsDocument(o.entry.State) {
		return nil, refusal.NotFound(d.request.Origin.Code)
	}
	if err == nil {
		o.head, err = record.DecodeHead(o.entry)
	}
	if err != nil {
		return nil, refusal.Internal(err)
	}
	if o.head.BranchID != d.request.Caller.Point.BranchID {
		return nil, refusal.NotFound(d.request.Origin.Code)
	}
	return o, e.eligible(d, o)
}

// eligible reads an origin, and refuses a request that the origin's type, state or age forbids (SPEC section 3).
func (e *Engine) eligible(d *draft, o *origin) error {
	isReturn := record.TypeOf(d.request.Document).Effect == bundle.TakesBack
	wrong := func(code, message string) error {
		return &refusal.Error{Code: code, Message: message, Faults: []dte.Fault{{Path: "origen", Code: code,
			Message: message}}}
	}
	// The rule may refuse further types.
	if !slices.Contains(record.TypeOf(d.request.Document).Origins, o.head.Document) {
		return wrong(refusal.CodeOriginType, "El documento de origen es "+record.TypeOf(o.head.Document).Name+
			", que no admite esta operación")
	}
	if p := record.TypeOf(o.head.Document).Permission; isReturn && !slices.Contains(d.request.Caller.Permissions, p) {
		return &refusal.Error{Code: refusal.CodePermission, Message: "El token no tiene el permiso " + p}
	}
	if o.entry.State != record.Accepted || o.head.Invalidation.Pending() {
		estado := record.Estado(o.entry.State)
		if o.head.Invalidation.Pending() {
			estado = "en invalidación"
		}
		if isReturn {
			return wrong(refusal.CodeOriginStatus, "Hacienda no ha aceptado el documento de origen: está "+estado)
		}
		return wrong(refusal.CodeNotProcessed, "Hacienda no ha aceptado el documento original: está "+estado)
	}
	if err := e.readOrigin(o); err != nil {
		return err
	}
	months := 3
	if isReturn && slices.Contains(slowReturns, o.document.Get("emisor").Get("codActividad").Text()) {
		months = 24
	}
	if last := dte.MonthsAfter(dte.Date(sealedAt(o.head)), months); dte.Date(d.dated) > last {
		return refusal.Of([]dte.Fault{{Path: "origen", Code: dte.FaultRange,
			Message: "El plazo para ajustar el documento de origen terminó el " + dte.FormatDay(last)}})
	}
	return nil
}

// slowReturns are the activities (CAT-019) of emisores who may issue returns for two years after the original's seal.
// All other returns, and all notes, may be issued for three months (art. 62 of the VAT law, NV2 Anexo IV 17,
// MF2 pp.26-27). MF2 and NV2 list different activities: this list has the activities of both.
var slowReturns = []string{"01282", "21001", "21008", "46482", "46484", "46491", "47721"}

func (o *origin) misnamed(said *Origin) (faults []dte.Fault) {
	if said.Document != "" && said.Document != o.head.Document {
		faults = append(faults, dte.Fault{Path: "documentoRelacionado.tipoDte", Code: dte.FaultCondition,
			Message: "El documento original es de tipo " + o.head.Document})
	}
	if said.Date != "" && said.Date != o.head.Date {
		faults = append(faults, dte.Fault{Path: "documentoRelacionado.fechaEmision", Code: dte.FaultCondition,
			Message: "El documento original se emitió el " + o.head.Date})
	}
	return faults
}

func (e *Engine) readOrigin(o *origin) error {
	signed, err := record.SignedBytes(e.store, o.entry.Code, o.head)
	facts, lost := record.Part(e.store, o.entry.Code, o.head.FactsPart())
	if err = cmp.Or(err, lost); err == nil {
		o.document, err = dte.Parse(signed)
	}
	if err == nil {
		o.facts, err = dte.ParseFacts(facts)
	}
	if errors.Is(err, record.ErrLost) {
		return &refusal.Error{Code: refusal.CodeInternal, Err: err, Message: "El equipo perdió los datos de " +
			o.head.ControlNumber + ": no admite notas, devoluciones ni invalidación en esta caja"}
	}
	return refusal.Internal(err)
}

func amount(v dte.Value, name string) dte.Amount {
	a, _ := v.Get(name).Amount()
	return a
}

// drawn adds a computed document's draws on its origin to d.draws. It refuses to credit more than is left.
func (e *Engine) drawn(d *draft, ev *rulestore.Evaluation) error {
	how, o := record.TypeOf(d.request.Document).Effect, d.from
	if err := e.exclusive(o, how); err != nil {
		return err
	}
	if how == bundle.TakesBack {
		d.givenBack(ev)
		return nil
	}
	var faults []dte.Fault
	left := o.creditable()
	for i, n := range takenBy(ev, how) {
		if n == 0 {
			continue
		}
		line := uint32(record.LineCredited + i)
		d.draws = append(d.draws, record.Draw{Line: line, Amount: int64(n)})
		if how == bundle.Debits {
			continue
		}
		credited, err := e.store.Counter(o.entry.Code, line)
		if err != nil {
			return refusal.Internal(err)
		}
		if rest := left[i] - dte.Amount(credited); n > rest {
			faults = append(faults, dte.Fault{Path: "cuerpoDocumento", Code: "CREDIT_ABOVE_ORIGINAL",
				Message: fmt.Sprintf("%s suma %s, y del documento original quedan %s", creditableNames[i], n.Fixed2(),
					max(0, rest).Fixed2())})
		}
	}
	if len(faults) > 0 {
		return refusal.Of(faults)
	}
	return nil
}

// takenBy returns the amounts that a note takes from its original. A tax counts half a cent less, because the rule
// rounds it to the cent, and every note of an original may round it up.
func takenBy(ev *rulestore.Evaluation, how bundle.Effect) (taken creditable) {
	d, c := ev.Rule.Description(), &ev.Computed
	for i, name := range d.Summary {
		if name == "totalNoGravado" {
			taken[charges] = max(0, dte.Amount(c.Summary[i]))
		} else if at := slices.Index(bundle.CreditableNames[:], name); at >= 0 {
			taken[at] = dte.Amount(c.Summary[i])
		}
	}
	if how == bundle.Credits {
		taken[oneNote] = 1
	}
	for _, tax := range c.Taxes {
		if at := taxed(d.Taxes[tax.Tax]); at >= 0 {
			taken[at] += max(0, tax.Amount-halfCent)
		}
	}
	return taken
}

// exclusive refuses a credit note of an origin with returns, and a return of an origin with credit notes. Notes and
// returns are counted separately: an origin with both could give the same goods back twice.
func (e *Engine) exclusive(o *origin, how bundle.Effect) error {
	other, both := map[bundle.Effect]uint32{bundle.Credits: record.LineReturned,
		bundle.TakesBack: record.LineCredited}[how]
	for k := uint32(0); both && k < uint32(len(amountsOfLine)); k++ {
		if n, err := e.store.Counter(o.entry.Code, other+k); err != nil {
			return refusal.Internal(err)
		} else if n > 0 {
			return refusal.Of([]dte.Fault{{Path: "cuerpoDocumento", Code: dte.FaultCondition,
				Message: "El documento original ya tiene devoluciones o notas de crédito: admite unas o las otras"}})
		}
	}
	return nil
}

// counters returns the origin's counters after a document is appended, as absolute values. The origin is locked.
func (e *Engine) counters(d *draft, o *origin) ([]storage.Counter, error) {
	changes := record.Effect(record.TypeOf(d.request.Document).Effect, 0, record.Signed, d.draws, o.entry.Code)
	for i, c := range changes {
		n, err := e.store.Counter(c.Origin, c.Line)
		if err != nil {
			return nil, refusal.Internal(err)
		}
		changes[i].Value += n
	}
	return changes, nil
}

// noteFacts completes a note from its original: the reference, the receptor fields that the till omits, and the flags.
// The flags must equal the original's (SPEC 4.4). It adds a fault for each value that contradicts the original.
func noteFacts(f dte.Value, o *origin, faults []dte.Fault) (dte.Value, []dte.Fault) {
	for _, flag := range [...]string{"isRetenIva", "isPerciIva"} {
		was := o.facts.Get(flag).Bool()
		if said := f.Get(flag); said.Exists() && said.Bool() != was {
			faults = append(faults, dte.Fault{Path: flag, Code: dte.FaultCondition, Message: "Debe ser " +
				strconv.FormatBool(was) + ", como en el documento original"})
		}
		f = f.With(flag, dte.Bool(was))
	}
	receptor, was := f.Get("receptor"), identified(o.receptor())
	if receptor.Present() {
		faults = append(faults, sameTaxpayer(receptor, o)...)
		receptor = completeReceptor(receptor, was)
	} else {
		receptor = was
	}
	code := dte.Str(dte.Code(o.entry.Code).String())
	lines := f.Get("cuerpoDocumento")
	items := make([]dte.Value, lines.Len())
	for i := range items {
		items[i] = lines.Index(i).With("numeroDocumento", code)
	}
	const electronic = 2 // CAT-007
	related := dte.Texts("tipoDocumento", o.head.Document).With("tipoGeneracion", dte.Int(electronic)).
		With("numeroDocumento", code).With("fechaEmision", dte.Str(o.head.Date))
	if receptor.Exists() {
		f = f.With("receptor", identified(receptor))
	}
	return f.With("cuerpoDocumento", dte.Arr(items...)).
		With("documentoRelacionado", dte.Arr(related)).
		With("origen", dte.Texts("tipoDte", o.head.Document)), faults
}

// completeReceptor adds the members that a note's receptor omits. It never mixes parts of an address or of an activity.
// It replaces numbers that differ from the original's by more than hyphens: the till could name the taxpayer by one
// number and add somebody else's number.
func completeReceptor(said, was dte.Value) dte.Value {
	if was.Get("nit").Present() || was.Get("numDocumento").Present() {
		for _, name := range [...]string{"nit", "tipoDocumento", "numDocumento", "nrc"} {
			if is := was.Get(name).Text(); record.Compact(said.Get(name).Text()) != record.Compact(is) {
				said = said.With(name, dte.Text(is))
			}
		}
	}
	activity := said.Get("codActividad").Present() || said.Get("descActividad").Present()
	for _, m := range was.Members() {
		if m.Value.Present() && !said.Get(m.Name).Present() && !(activity && strings.HasSuffix(m.Name, "Actividad")) {
			said = said.With(m.Name, m.Value)
		}
	}
	return said
}

// receptor returns the receptor of a document. If the document names the receptor by nit, tipoDocumento is 36 of
// CAT-022, whatever the till gave.
func (o *origin) receptor() dte.Value {
	r := o.facts.Get("receptor")
	if nit := o.document.Get("receptor").Get("nit"); nit.Present() {
		r = r.With("tipoDocumento", dte.Str("36")).With("numDocumento", nit)
	}
	return r
}

// identified gives a receptor both forms of its number: nit, and type 36 of CAT-022 with numDocumento. Generations of a
// schema differ in the form that they require.
func identified(r dte.Value) dte.Value {
	given := func(name string) bool { return r.Get(name).Present() }
	switch {
	case r.Kind() != dte.KindObject:
	case !given("nit") && r.Get("tipoDocumento").Text() == "36" && given("numDocumento"):
		return r.With("nit", r.Get("numDocumento"))
	case given("nit") && !given("numDocumento") && !given("tipoDocumento"):
		return r.With("tipoDocumento", dte.Str("36")).With("numDocumento", r.Get("nit"))
	}
	return r
}

// creditable returns what notes may take from an original: its totals, less global discounts and, if prices include
// VAT, less the VAT, because amounts of notes exclude VAT. The original's type lists these terms. The last elements are
// the original's charges and other taxes.
func (o *origin) creditable() (left creditable) {
	s, terms := o.document.Get("resumen"), record.TypeOf(o.head.Document).Creditable
	for i, name := range bundle.CreditableNames {
		for _, term := range terms[name] {
			if off, minus := strings.CutPrefix(term, "-"); minus {
				left[i] -= amount(s, off)
			} else {
				left[i] += amount(s, term)
			}
		}
	}
	left[oneNote] = dte.MaxAmount
	for _, tax := range s.Get("tributos").Items() {
		if at := taxed(tax.Get("codigo").Text()); at >= 0 {
			left[at] += amount(tax, "valor") + halfCent
		}
	}
	for _, line := range o.document.Get("cuerpoDocumento").Items() {
		left[charges] += max(0, amount(line, "noGravado"))
	}
	left[charges] = left[charges].Round2() // as the charges of a note are rounded
	return left
}

// takeBack makes the facts of a return event: the named lines of the origin, with the values from which the rule
// computes the exact amounts (SPEC 4.6). It checks the quantities: when a return is issued, the counters are locked.
func (e *Engine) takeBack(d *draft, o *origin) error {
	asked := d.facts.Get("cuerpoDocumento")
	sold := o.document.Get("cuerpoDocumento")
	code := dte.Str(dte.Code(o.entry.Code).String())
	var faults []dte.Fault
	reason := "" // the answer's code: the first fault's, or VALIDATION for a duplicate
	fault := func(kind, path, message string) {
		if reason = cmp.Or(reason, kind); reason == dte.FaultDuplicate {
			reason = refusal.CodeValidation
		}
		faults = append(faults, dte.Fault{Path: path, Code: kind, Message: message})
	}
	lines := make([]dte.Value, 0, asked.Len())
	before := sumsAbove(sold)
	seen := make(map[int64]bool)
	for i := range asked.Len() {
		at := fmt.Sprintf("cuerpoDocumento[%d].", i)
		number, _ := asked.Index(i).Get("numItem").Int()
		if number < 1 || number > int64(sold.Len()) { // lines are numbered from 1, in order
			fault(refusal.CodeItemNotFound, at+"numItem", fmt.Sprintf("El documento de origen no tiene el ítem %d",
				number))
			continue
		}
		if seen[number] {
			fault(dte.FaultDuplicate, at+"numItem", fmt.Sprintf("El ítem %d está dos veces", number))
			continue
		}
		seen[number] = true
		line := sold.Index(int(number - 1))
		back, err := e.store.Counter(o.entry.Code, uint32(number))
		if err != nil {
			return refusal.Internal(err)
		}
		quantity, had := amount(asked.Index(i), "cantidad"), amount(line, "cantidad")
		if rest := had - dte.Amount(back); quantity > rest {
			fault(refusal.CodeOverReturn, at+"cantidad", fmt.Sprintf("Del ítem %d quedan %s por devolver", number,
				rest))
			continue
		}
		d.draws = append(d.draws, record.Draw{Line: uint32(number), Amount: int64(quantity)})
		lines = append(lines, returned(line, int64(i+1), code, quantity, dte.Amount(back)).With("acumuladoOrigen",
			dte.Num(before[number-1])))
	}
	if len(faults) > 0 {
		return &refusal.Error{Code: reason, Message: faults[0].Message, Faults: faults}
	}
	return e.completeReturn(d, o, lines)
}

func (e *Engine) completeReturn(d *draft, o *origin, lines []dte.Value) error {
	if receptor := o.facts.Get("receptor"); receptor.Exists() {
		d.facts = d.facts.With("receptor", receptor)
	}
	given, err := e.returnedBefore(o)
	if err != nil {
		return err
	}
	d.facts = d.facts.With("cuerpoDocumento", dte.Arr(lines...)).With("devuelto", given).With("emisor",
		o.emisorOf(d.facts.Get("emisor"))).
		With("isRetenIva", dte.Bool(o.facts.Get("isRetenIva").Bool())).
		With("applyrent", dte.Bool(o.facts.Get("applyrent").Bool())).
		With("origen", o.totals()).
		With("documentoRelacionado", dte.Arr(dte.Texts("tipoDocumento", o.head.Document, "codigoGeneracion",
			dte.Code(o.entry.Code).String(), "fechaEmision", o.head.Date)))
	return nil
}

// amountsOfLine are the members with a line's amount, in the order of the counters from record.LineReturned on.
var amountsOfLine = [...]string{"ventaNoSuj", "ventaExenta", "ventaGravada", "compra"}

// returnedBefore returns the amounts that earlier returns of an origin gave back, by kind of amount.
func (e *Engine) returnedBefore(o *origin) (dte.Value, error) {
	members := make([]dte.Member, len(amountsOfLine))
	for k, name := range amountsOfLine {
		n, err := e.store.Counter(o.entry.Code, uint32(record.LineReturned+k))
		if err != nil {
			return dte.Value{}, refusal.Internal(err)
		}
		members[k] = dte.Member{Name: name, Value: dte.Num(dte.Amount(n))}
	}
	return dte.Obj(members...), nil
}

func (d *draft) givenBack(ev *rulestore.Evaluation) {
	outputs := ev.Rule.Description().LineOutputs
	for k, name := range amountsOfLine {
		column, sum := slices.IndexFunc(outputs, func(f abi.Field) bool { return f.Name == name }), int64(0)
		for at := column; column >= 0 && at < ev.Computed.N*len(outputs); at += len(outputs) {
			sum += ev.Computed.Lines[at]
		}
		if sum != 0 {
			d.draws = append(d.draws, record.Draw{Line: uint32(record.LineReturned + k), Amount: sum})
		}
	}
}

// sumsAbove returns, for each line, the sum of the preceding lines of the same kind of amount.
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

// returned makes a line of the event from the origin's line: its quantity, and the amounts that the rule prorates.
func returned(line dte.Value, number int64, origin dte.Value, quantity, before dte.Amount) dte.Value {
	members := []dte.Member{
		{Name: "numItem", Value: dte.Int(number)}, {Name: "codigoGeneracion", Value: origin},
		{Name: "cantidad", Value: dte.Num(quantity)}, {Name: "cantidadDevuelta", Value: dte.Num(before)},
		{Name: "cantidadOrigen", Value: line.Get("cantidad")},
	}
	for _, name := range [...]string{"tipoItem", "descripcion", "codigo", "uniMedida", "codTributo", "tributos",
		"precioUni"} {
		if v := line.Get(name); v.Present() {
			members = append(members, dte.Member{Name: name, Value: v})
		}
	}
	for _, name := range [...]string{"montoDescu", "ventaNoSuj", "ventaExenta", "ventaGravada", "compra", "noGravado"} {
		members = append(members, dte.Member{Name: name + "Origen", Value: dte.Num(amount(line, name))})
	}
	return dte.Obj(members...)
}

// totals returns the amounts of an origin that concern all its lines.
func (o *origin) totals() dte.Value {
	members := []dte.Member{{Name: "tipoDte", Value: dte.Str(o.head.Document)}}
	for _, name := range [...]string{"totalNoSuj", "totalExenta", "totalGravada", "totalCompra", "descuNoSuj",
		"descuExenta", "descuGravada", "descu", "totalIva"} {
		members = append(members, dte.Member{Name: name, Value: dte.Num(amount(o.document.Get("resumen"), name))})
	}
	return dte.Obj(members...)
}

// The checks below need data that layouts and rules lack: the day of issue, and another document's receptor.

// misnamedDocuments returns a fault for each document that a request names wrongly: dated after the day of issue, twice
// in documentoRelacionado, or in a line but not in documentoRelacionado (MF2 p.38).
func misnamedDocuments(d *draft) (faults []dte.Fault) {
	fault := func(list string, i int, name, code, message string) {
		faults = append(faults, dte.Fault{Path: fmt.Sprintf("%s[%d].%s", list, i, name), Code: code, Message: message})
	}
	today := d.facts.Get("identificacion").Get("fecEmi").Text()
	check := func(list string, names ...string) {
		for i := range d.facts.Get(list).Len() {
			for _, name := range names {
				if said := d.facts.Get(list).Index(i).Get(name).Text(); len(said) == len(today) && said > today {
					fault(list, i, name, dte.FaultRange, "El documento no puede tener fecha posterior a la de hoy")
				}
			}
		}
	}
	const related, number = "documentoRelacionado", "numeroDocumento"
	check(rulestore.LinesName, record.TypeOf(d.request.Document).NotLater...)
	check(related, "fechaEmision")
	var numbers []string
	for i, r := range d.facts.Get(related).Items() {
		n := r.Get(number).Text()
		if n != "" && slices.Contains(numbers, n) {
			fault(related, i, number, dte.FaultDuplicate, "El documento está dos veces")
		}
		numbers = append(numbers, n)
	}
	if numbers == nil {
		return faults
	}
	for i, line := range d.facts.Get(rulestore.LinesName).Items() {
		if n := line.Get(number); n.Present() && !slices.Contains(numbers, n.Text()) {
			fault(rulestore.LinesName, i, number, dte.FaultCondition, "No es ninguno de los documentos relacionados")
		}
	}
	return faults
}

// sameTaxpayer refuses a note whose receptor is not its original's taxpayer (MF2 p.31: adjusting a document keeps its
// "NIT (Receptor)"). An invoice may name no receptor.
func sameTaxpayer(receptor dte.Value, o *origin) (faults []dte.Fault) {
	was := o.facts.Get("receptor")
	nit, number := was.Get("nit").Text(), was.Get("numDocumento").Text()
	if nit == "" && number == "" {
		return nil
	}
	for _, name := range [...]string{"nit", "numDocumento"} {
		switch record.Compact(receptor.Get(name).Text()) {
		case "": // the note takes the original's number
		case record.Compact(nit), record.Compact(number):
			return nil
		default:
			faults = append(faults, dte.Fault{Path: "receptor." + name, Code: dte.FaultCondition,
				Message: "El documento original es de " + cmp.Or(nit, number) + ": la nota va al mismo contribuyente"})
		}
	}
	return faults
}

// emisorOf returns the issuer for an event against a document, with the name and codes in that document (MF2 p.8).
func (o *origin) emisorOf(now dte.Value) dte.Value {
	for _, name := range [...]string{"nombre", "codEstable", "codPuntoVenta"} {
		if was := o.facts.Get("emisor").Get(name); was.Exists() {
			now = now.With(name, was)
		}
	}
	return now
}

// nothingToPay is the warning on a document of 0.00. MH accepts such a document if its layout allows 0.00.
const nothingToPay = "El total del documento es 0.00"

// beyondAnnex warns of a total too large for the annexes of F-07; the books list it separately.
const beyondAnnex = "El total llega a 10000000000.00, y los anexos del F-07 admiten hasta 9999999999.99: el contador " +
	"lo declara a mano"

// annexLimit is the smallest amount that is too large for a column of an annex.
const annexLimit = 10_000_000_000 * dte.Scale

// notYet returns the refusal of a document type whose rules begin on a later day, or nil.
func (e *Engine) notYet(document string) *refusal.Error {
	from := e.rules().Begins(document, e.issuer.Ambiente)
	if from == "" {
		return nil
	}
	return &refusal.Error{Code: refusal.CodeNotYet,
		Message: fmt.Sprintf("El documento de tipo %s (%s) se emite desde el %s, con la siguiente generación de "+
			"Hacienda; antes no existe", document, record.TypeOf(document).Name, dte.FormatDay(from))}
}
