package documents

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/pdf"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/rules/bundle"
	"dtegate/storage"
)

// Closing sums up what one point of sale issued on one day. An X shows the day so far and is not stored. A Z closes the
// day: a record that never changes. Amounts are USD with two decimals. The API and the store use the same names.
type Closing struct {
	Kind          string           `json:"clase"`            // X or Z
	Number        uint64           `json:"numero,omitempty"` // a Z's number in its point of sale, from 1
	Date          string           `json:"fecha"`            // yyyy-mm-dd
	At            time.Time        `json:"creado"`
	Issuer        string           `json:"emisor"`
	Ambiente      string           `json:"ambiente"` // TEST or PROD
	PointID       int64            `json:"pointOfSaleId"`
	Establishment string           `json:"codEstable"`
	PointOfSale   string           `json:"codPuntoVenta"`
	Groups        []ClosingGroup   `json:"documentos"`
	Series        []ClosingSeries  `json:"series"`
	Payments      []ClosingPayment `json:"pagos"`
	Net           ClosingNet       `json:"neto"`
	// Unread counts the documents whose signed bytes or origin the store has lost. Their VAT and payments, or their
	// kind (see closingKind), are unknown.
	Unread int `json:"sinDetalle"`
	// Later counts the documents of the day that were issued after the Z. It is counted each time the Z is shown.
	Later int `json:"posteriores"`
}

// ClosingGroup sums the documents of one type in one state.
type ClosingGroup struct {
	Tipo     string `json:"tipo"`
	Document string `json:"tipoDte"`
	Estado   string `json:"estado"`
	Count    int    `json:"documentos"`
	Total    string `json:"total"`
	VAT      string `json:"iva"`
}

// ClosingSeries has the first and the last control number of a type on the day, in any state.
type ClosingSeries struct {
	Document string `json:"tipoDte"`
	Count    int    `json:"documentos"`
	First    string `json:"primero"`
	Last     string `json:"ultimo"`
}

// ClosingPayment has the amounts of a method of payment (CAT-017): received for sales, and paid for purchases (14).
type ClosingPayment struct {
	Method   string `json:"codigo"`
	Text     string `json:"descripcion"`
	Count    int    `json:"documentos"`
	Received string `json:"cobrado"`
	Paid     string `json:"pagado"`
}

// ClosingNet is the day without its refused and invalidated documents. Total and VAT are those of sales and debit
// notes, less credit notes and returns of sales. They omit Purchases (14, less their returns) and Withheld (07: VAT
// withheld from others).
type ClosingNet struct {
	Sales     string `json:"ventas"`
	Debits    string `json:"notasDebito"`
	Credits   string `json:"notasCredito"`
	Returns   string `json:"retornos"`
	Total     string `json:"total"`
	VAT       string `json:"iva"`
	Purchases string `json:"compras"`
	Withheld  string `json:"retenciones"`
}

const (
	closingX = "X"
	closingZ = "Z"
)

// closingKey returns the idempotency key of a Z: one for each point of sale and day.
func (r *Register) closingKey(point int64, date string) *storage.Idempotency {
	return &storage.Idempotency{Key: sha256.Sum256(fmt.Appendf(nil, "cierre/%s/%d/%s", r.issuer.Ambiente, point, date))}
}

// CloseDay closes a day of the caller's point of sale, once; later calls return the stored Z. Errors: *refusal.Error.
func (r *Register) CloseDay(ctx context.Context, date string, c record.Caller, now time.Time) (z *Closing, made bool,
	err error) {
	key := r.closingKey(c.Point.ID, date)
	release, err := r.codes.Acquire(ctx, string(key.Key[:]))
	if err != nil {
		return nil, false, refusal.Unavailable(err, "El mismo cierre aún se está preparando")
	}
	defer release()
	if z, err = r.kept(ctx, c.Point.ID, date, c); z != nil || err != nil {
		return z, false, err
	}
	if z, err = r.count(ctx, date, c.Point, now); err != nil {
		return nil, false, err
	}
	z.Kind = closingZ
	series := strings.Join([]string{r.issuer.Ambiente, "cierre", c.Point.Establishment, c.Point.PointOfSale}, "/")
	a, err := r.store.Begin(ctx, storage.Keys{Series: series, Idempotency: key})
	if err != nil {
		return nil, false, refusal.Unavailable(err, "El cierre no pudo guardarse")
	}
	defer a.Release()
	slot, err := a.Number()
	if err != nil {
		return nil, false, refusal.Unavailable(err, "El cierre no pudo guardarse")
	}
	z.Number = slot.Number
	head, err := json.Marshal(z)
	code, bad := dte.NewCode(rand.Reader)
	if err := errors.Join(err, bad); err != nil {
		return nil, false, refusal.Internal(err)
	}
	// A crash before the record is durable leaves the day open; after a later crash, the next call finds the Z.
	if _, err := a.Append(storage.Draft{Code: storage.Code(code), State: record.DayClosed, Head: head}); err != nil {
		return nil, false, refusal.Unavailable(err, "El cierre no pudo guardarse")
	}
	return z, true, nil
}

// Closing returns a day's Z of a point of sale in the caller's branch; an X if the day is open or asX is set.
func (r *Register) Closing(ctx context.Context, date string, asX bool, point int64, c record.Caller,
	now time.Time) (*Closing, error) {
	if !asX {
		if z, err := r.kept(ctx, point, date, c); z != nil || err != nil {
			return z, err
		}
	}
	at := c.Point
	if point != at.ID {
		at = record.Point{ID: point, BranchID: at.BranchID}
	}
	return r.count(ctx, date, at, now)
}

// kept returns the stored Z of a day, or nil if the day is open.
func (r *Register) kept(ctx context.Context, point int64, date string, c record.Caller) (*Closing, error) {
	code, _, err := r.store.Lookup(r.closingKey(point, date).Key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	var z Closing
	if err == nil {
		var entry storage.Entry
		if entry, err = r.store.Get(code); err == nil {
			err = json.Unmarshal(entry.Head, &z)
		}
	}
	if err != nil {
		return nil, refusal.Internal(fmt.Errorf("reading the closing of %s: %w", date, err))
	}
	now, err := r.ledger.page(ctx, query{days: []string{date}, limit: 1,
		match: func(g group) bool { return g.branch == c.Point.BranchID && g.point == point }})
	if err != nil {
		return nil, refusal.Unavailable(err, "Las sumas de ese día aún se están preparando")
	}
	for _, t := range now.totals {
		z.Later += t.count
	}
	for _, g := range z.Groups {
		z.Later -= g.Count
	}
	return &z, nil
}

// tallyOf adds up the day's documents of one group, method of payment or kind.
type tallyOf struct {
	count    int
	sum, vat dte.Sum // for a payment: sum is the amount received, vat is the amount paid
}

type dayCount struct {
	groups   map[[2]string]*tallyOf // by type and public state
	payments map[string]*tallyOf
	series   map[string]*ClosingSeries
	net      map[string]*tallyOf // by kind: see closingKind
}

func of[K comparable](m map[K]*tallyOf, key K) *tallyOf {
	if m[key] == nil {
		m[key] = new(tallyOf)
	}
	return m[key]
}

// count sums a day of a point of sale. It lets sales go first, and waits for documents that are being settled.
func (r *Register) count(ctx context.Context, date string, at record.Point, now time.Time) (*Closing, error) {
	x := &Closing{Kind: closingX, Date: date, At: now.UTC().Truncate(time.Millisecond),
		Issuer: r.issuer.Facts.Get("nombre").Text(), Ambiente: record.AmbienteName(r.issuer.Ambiente), PointID: at.ID,
		Establishment: at.Establishment, PointOfSale: at.PointOfSale,
		Groups: []ClosingGroup{}, Series: []ClosingSeries{}, Payments: []ClosingPayment{}}
	d := dayCount{groups: make(map[[2]string]*tallyOf), payments: make(map[string]*tallyOf),
		series: make(map[string]*ClosingSeries), net: make(map[string]*tallyOf)}
	rest := r.rest()
	var err error
	for doc, bad := range record.OfDay(ctx, r.store, record.Day(date), 0) {
		if err = bad; err == nil {
			err = r.countIn(ctx, &d, x, doc, at)
		}
		if err != nil {
			break
		}
		rest()
	}
	if _, refused := errors.AsType[*refusal.Error](err); err != nil && ctx.Err() != nil && !refused {
		return nil, refusal.Unavailable(err, "El cierre de ese día aún se está preparando")
	}
	if err != nil {
		return nil, refusal.Internal(fmt.Errorf("counting %s: %w", date, err))
	}
	d.show(x, r.catalogue)
	return x, nil
}

func (r *Register) countIn(ctx context.Context, d *dayCount, x *Closing, doc record.Stored, at record.Point) error {
	entry, h := doc.Entry, doc.Head
	if h.Date != x.Date || h.PointID != at.ID || h.BranchID != at.BranchID {
		return nil
	}
	if entry.State == record.Signed {
		var err error
		if entry, err = r.Settled(ctx, dte.Code(entry.Code)); err != nil {
			return err
		}
		if h, err = record.DecodeHead(entry); err != nil {
			return err
		}
	}
	if x.Establishment == "" {
		x.Establishment, x.PointOfSale = record.EstablishmentOf(h, at)
	}
	total, err := dte.ParseAmount(h.Total)
	if err != nil {
		return fmt.Errorf("total of record %d: %w", entry.ID, err)
	}
	d.number(h)
	estado := record.Estado(entry.State)
	switch {
	case estado == "" && entry.Due != nil && entry.Due.Queue == record.QueueLost: // lost: the sale must be issued again
		estado = record.EstadoRejected
	case estado == "": // MH has not answered: counted as contingency
		estado = record.EstadoContingency
	}
	group := of(d.groups, [2]string{h.Document, estado})
	group.count++
	group.sum.Add(total)
	summary, err := r.summary(entry, h)
	lost := errors.Is(err, record.ErrLost)
	if lost {
		x.Unread++
	} else if err != nil {
		return err
	}
	vat := vatOf(summary)
	if record.TypeOf(h.Document).Closing == bundle.Withholding {
		vat = 0 // DTE 2.0 repeats here the VAT that the supplier charged
	}
	group.vat.Add(vat)
	if estado != record.EstadoProcessed && estado != record.EstadoContingency {
		return nil
	}
	kind, err := r.closingKind(h)
	switch {
	case err == nil || lost: // if lost, Unread already counts it
	case errors.Is(err, record.ErrLost), errors.Is(err, storage.ErrNotFound):
		x.Unread++
	default:
		return err
	}
	net := of(d.net, kind)
	net.sum.Add(total)
	net.vat.Add(vat)
	d.pay(summary, kind)
	return nil
}

// number updates a type's first and last control number. The numbers have the same length: they compare as text.
func (d *dayCount) number(h *record.Head) {
	s := d.series[h.Document]
	if s == nil {
		s = &ClosingSeries{Document: h.Document, First: h.ControlNumber}
		d.series[h.Document] = s
	}
	s.Count++
	s.First, s.Last = min(s.First, h.ControlNumber), max(s.Last, h.ControlNumber)
}

// pay adds the payments of a document. Returns and withholding vouchers have no payments.
func (d *dayCount) pay(summary dte.Value, kind string) {
	seen := make(map[string]bool)
	for _, p := range summary.Get("pagos").Items() {
		amount, err := p.Get("montoPago").Amount()
		if err != nil {
			continue // the schema of this generation leaves the amount out
		}
		method := p.Get("codigo").Text()
		t := of(d.payments, method)
		if !seen[method] {
			t.count, seen[method] = t.count+1, true
		}
		if kind == bundle.Purchase {
			t.vat.Add(amount)
		} else {
			t.sum.Add(amount)
		}
	}
}

// summary returns the member resumen of a document's signed bytes. ErrLost if the store lost the bytes.
func (r *Register) summary(entry storage.Entry, h *record.Head) (dte.Value, error) {
	body, err := record.SignedBytes(r.store, entry.Code, h)
	if err != nil {
		return dte.Value{}, err
	}
	v, err := dte.Parse(body)
	return v.Get("resumen"), err
}

// vatOf returns the VAT of a document: tax 20 of its list, or totalIva if prices include VAT.
func vatOf(summary dte.Value) dte.Amount {
	for _, tax := range summary.Get("tributos").Items() {
		if vat, err := tax.Get("valor").Amount(); err == nil && tax.Get("codigo").Text() == dte.VAT {
			return vat
		}
	}
	vat, _ := summary.Get("totalIva").Amount() // 0 without the member
	return vat
}

// Kinds under which a closing counts notes and returns. The kinds of other documents are in bundle.Type.
const (
	debit            = "debit"
	credit           = "credit"
	returned         = "return"
	returnedPurchase = "return of a purchase"
)

// closingKind returns the kind under which a closing counts a document, or "". For a note or a return the kind depends
// on the origin; if the origin is unreadable, the result is the kind for a sale, and an error.
func (r *Register) closingKind(h *record.Head) (string, error) {
	t := record.TypeOf(h.Document)
	kind := map[bundle.Effect]string{bundle.Credits: credit, bundle.Debits: debit, bundle.TakesBack: returned}[t.Effect]
	if kind == "" {
		return t.Closing, nil
	}
	var origin *record.Head
	code, err := dte.ParseCode(h.Origin)
	if err == nil {
		_, origin, err = record.Read(r.store, storage.Code(code))
	}
	if err != nil {
		return kind, fmt.Errorf("reading origin: %w", err)
	}
	switch closing := record.TypeOf(origin.Document).Closing; {
	case closing == bundle.Sale:
		return kind, nil
	case closing == bundle.Purchase && kind != debit:
		return returnedPurchase, nil
	}
	return "", nil
}

// show writes the sums into a closing, in a fixed order.
func (d *dayCount) show(x *Closing, catalogue Catalogue) {
	for key, t := range d.groups {
		x.Groups = append(x.Groups, ClosingGroup{Tipo: record.TypeOf(key[0]).Name, Document: key[0], Estado: key[1],
			Count: t.count,
			Total: t.sum.Fixed2(), VAT: t.vat.Fixed2()})
	}
	slices.SortFunc(x.Groups, func(a, b ClosingGroup) int {
		return strings.Compare(a.Document+a.Estado, b.Document+b.Estado)
	})
	for _, s := range d.series {
		x.Series = append(x.Series, *s)
	}
	slices.SortFunc(x.Series, func(a, b ClosingSeries) int { return strings.Compare(a.Document, b.Document) })
	for method, t := range d.payments {
		text, _ := catalogue("CAT-017", method)
		x.Payments = append(x.Payments, ClosingPayment{Method: method, Text: text, Count: t.count,
			Received: t.sum.Fixed2(),
			Paid:     t.vat.Fixed2()})
	}
	slices.SortFunc(x.Payments, func(a, b ClosingPayment) int { return strings.Compare(a.Method, b.Method) })
	var net, vat, sales, purchases dte.Sum
	sales.Merge(of(d.net, bundle.Sale).sum)
	for kind, back := range map[string]bool{bundle.Sale: false, debit: false, credit: true, returned: true} {
		t := of(d.net, kind)
		if back {
			net.Take(t.sum)
			vat.Take(t.vat)
			continue
		}
		net.Merge(t.sum)
		vat.Merge(t.vat)
	}
	purchases.Merge(of(d.net, bundle.Purchase).sum)
	purchases.Take(of(d.net, returnedPurchase).sum)
	x.Net = ClosingNet{Sales: sales.Fixed2(), Debits: of(d.net, debit).sum.Fixed2(),
		Credits: of(d.net, credit).sum.Fixed2(), Returns: of(d.net, returned).sum.Fixed2(), Total: net.Fixed2(),
		VAT: vat.Fixed2(), Purchases: purchases.Fixed2(), Withheld: of(d.net, bundle.Withholding).sum.Fixed2()}
}

// Slip returns the closing as a ticket.
func (x *Closing) Slip() pdf.Slip {
	title := "CORTE X"
	if x.Kind == closingZ {
		title = "CIERRE Z N.º " + strconv.FormatUint(x.Number, 10)
	}
	s := pdf.Slip{Title: title, Issuer: x.Issuer, Made: x.At, Trial: x.Ambiente == record.AmbienteName("00")}
	s.Head = pdf.Fields{{Label: "Día", Value: dte.FormatDay(x.Date)},
		{Label: "Establecimiento y punto de venta", Value: x.Establishment + " " + x.PointOfSale},
		{Label: "Preparado", Value: x.At.In(dte.Zone).Format("02/01/2006 15:04:05")}}
	var groups, series, payments pdf.Fields
	for _, g := range x.Groups {
		groups = append(groups, pdf.Field{Label: fmt.Sprintf("%s %s × %d", g.Document, g.Estado, g.Count), Value: "$" +
			g.Total})
	}
	for _, n := range x.Series {
		series = append(series, pdf.Field{Label: "Primero", Value: n.First}, pdf.Field{Label: "Último", Value: n.Last})
	}
	for _, p := range x.Payments {
		if p.Received != "0.00" {
			payments = append(payments, pdf.Field{Label: p.Method + " " + p.Text, Value: "$" + p.Received})
		}
		if p.Paid != "0.00" {
			payments = append(payments, pdf.Field{Label: p.Method + " " + p.Text + " (pagado)", Value: "-$" + p.Paid})
		}
	}
	net := pdf.Fields{
		{Label: "Ventas", Value: "$" + x.Net.Sales},
		{Label: "Notas de débito", Value: "$" + x.Net.Debits},
		{Label: "Notas de crédito", Value: "-$" + x.Net.Credits},
		{Label: "Retornos", Value: "-$" + x.Net.Returns},
		{Label: "IVA neto", Value: "$" + x.Net.VAT},
		{Label: "Compras a sujetos excluidos", Value: "$" + x.Net.Purchases},
		{Label: "IVA retenido a otros", Value: "$" + x.Net.Withheld},
	}
	s.Blocks = []pdf.Block{{Title: "Documentos", Rows: groups}, {Title: "Números de control", Rows: series},
		{Title: "Formas de pago", Rows: payments}, {Title: "Neto del día, sin rechazados ni invalidados", Rows: net}}
	s.Total = pdf.Field{Label: "TOTAL NETO", Value: "$" + x.Net.Total}
	if x.Later > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("Después del cierre se emitieron más documentos de este día: %d",
			x.Later))
	}
	if x.Unread > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("Documentos sin detalle de IVA ni de pagos: %d", x.Unread))
	}
	return s
}
