package engine

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/dte"
	"dtegate/engine/record"
)

// layouts are the versions in force on a day: of each type that can be issued, and of the events.
type layouts map[string]string

var (
	dte2 = layouts{"01": "2", "03": "4", "05": "4", "06": "4", "07": "2", "14": "2", "18": "1", "contingencia": "4",
		"invalidacion": "3"}
	earlier = layouts{"01": "1", "03": "3", "05": "3", "06": "3", "14": "1", "contingencia": "3", "invalidacion": "2"}
)

// types are those that can be issued, in order.
func (l layouts) types() []string {
	types := slices.Sorted(maps.Keys(l))
	return slices.DeleteFunc(types, func(s string) bool { return record.TypeOf(s).Document == "" })
}

// named gives an invoice its customer: before DTE 2.0 an invalidation must name one.
func named(r Request) Request {
	r.Facts = r.Facts.With("receptor", taxpayer)
	return r
}

// originals are what notes and returns are issued against.
type originals struct{ invoice, voucher *record.View }

func (b *box) originals(key string) originals {
	b.t.Helper()
	return originals{issued(b.t, b.engine, named(invoice(key+" 01", item(1, "3", "5.65"))), record.EstadoProcessed),
		issued(b.t, b.engine, voucher(key+" 03", item(1, "1", "100")), record.EstadoProcessed)}
}

// request makes a request of one type. The credit note and the return take all that is left of their originals.
func (o originals) request(document, key string) Request {
	key += " " + document
	switch document {
	case "01":
		return named(invoice(key, item(1, "1", "5.65")))
	case "03":
		return voucher(key, item(1, "1", "40"))
	case "05":
		return noteOn("05", key, o.voucher, item(1, "1", "100"))
	case "06":
		return noteOn("06", key, o.voucher, item(1, "1", "10"))
	case "07":
		return request("07", key, member("receptor", taxpayer), onTerms(), member("cuerpoDocumento", dte.Arr(dte.Obj(
			member("numItem", dte.Int(1)), member("tipoDte", dte.Str("03")), member("tipoGeneracion", dte.Int(2)),
			member("numeroDocumento", dte.Str("5B0C2A6E-4D6F-4F3C-9C55-0A1B2C3D4E5F")), member("fechaEmision",
				dte.Str("2025-10-31")),
			member("montoSujetoGrav", decimal("500")), member("codigoRetencionMH", dte.Str("22")), member("ivaRetenido",
				decimal("5")),
			member("descripcion", dte.Str("Compra"))))))
	case "14":
		return request("14", key, member("receptor", taxpayer), member("applyrent", dte.Bool(true)),
			member("cuerpoDocumento", dte.Arr(item(1, "1", "20"))), cash())
	}
	return returnOf(key, o.invoice, back(1, "3"))
}

// drawn are the counters of the originals: notes that stand, credited, returns that stand, returned units and amount.
func (b *box) drawn(o originals) [5]int64 {
	n := func(r *record.View, line uint32) int64 { return counter(b.t, b.store, r, line) }
	const gravada = 2 // of amountsOfLine
	return [5]int64{n(o.voucher, record.LineActive), n(o.voucher, record.LineCredited), n(o.invoice, record.LineActive),
		n(o.invoice, 1), n(o.invoice, record.LineReturned+gravada)}
}

// offline issues one document of each type while MH is away.
func (b *box) offline(l layouts, o originals, key string) []*record.View {
	b.t.Helper()
	b.cable.set(refusing)
	var list []*record.View
	for _, document := range l.types() {
		r := issued(b.t, b.engine, o.request(document, key), record.EstadoContingency)
		if got := text(b.t, r, "identificacion", "version"); got != l[document] || text(b.t, r, "identificacion",
			"tipoModelo") != "2" {
			b.t.Errorf("%s in contingency is version %s, want %s\n%s", document, got, l[document], r.JSON)
		}
		list = append(list, r)
	}
	return list
}

// forwarded demands that every document was sealed, sent once, and listed in the last event, which lists nothing else.
func (b *box) forwarded(l layouts, list []*record.View) {
	b.t.Helper()
	var codes []string
	for _, was := range list {
		codes = append(codes, was.Code)
		r := b.document(was.Code)
		a, _ := b.sim.Document(was.Code)
		if r.Estado != record.EstadoProcessed || r.Sello == "" || a.Attempts != 1 ||
			string(r.JSON) != string(was.JSON) {
			b.t.Errorf("%s is %s %v, MH received it %d times\n%s", was.Tipo, r.Estado, r.Response, a.Attempts, r.JSON)
		}
	}
	events := b.sim.Events()
	if len(events) == 0 {
		b.t.Fatal("MH received no event")
	}
	last := events[len(events)-1]
	slices.Sort(codes)
	slices.Sort(last.Documents)
	if !slices.Equal(codes, last.Documents) {
		b.t.Errorf("the event lists %v, want %v", last.Documents, codes)
	}
	b.layout(last.Code, l["contingencia"])
}

// layout demands that an event, as MH holds it, has a version.
func (b *box) layout(event, version string) {
	b.t.Helper()
	a, _ := b.sim.Document(event)
	if got := text(b.t, &record.View{JSON: a.Document}, "identificacion", "version"); got != version {
		b.t.Errorf("the event is version %s, want %s\n%s", got, version, a.Document)
	}
}

// everyType: every document issued in contingency is reported and forwarded. One that MH then refuses is set aside,
// gives back what it took from its original, and blocks nothing.
func everyType(b *box, l layouts) {
	b.chaos(simulator.Chaos{})
	o := b.originals("before")
	all := [5]int64{2, 100 * int64(dte.Scale), 0, 0, 0} // a debit note that MH has not accepted adds no room
	if l["18"] != "" {
		all = [5]int64{2, 100 * int64(dte.Scale), 1, 3 * int64(dte.Scale), int64(1695) * int64(dte.Scale) / 100}
	}

	list := b.offline(l, o, "refused")
	if got := b.drawn(o); got != all {
		b.t.Errorf("in contingency %v is drawn, want %v", got, all)
	}
	time.Sleep(time.Hour)
	b.chaos(simulator.Chaos{Reject: len(list)})
	b.cable.set(plugged)
	time.Sleep(20 * time.Minute)
	var wanted []string
	for _, was := range list {
		r := b.document(was.Code)
		if r.Estado != record.EstadoRejected || r.Sello != "" || r.Response == nil {
			b.t.Errorf("%s is %s, MH refused it: %+v", r.Tipo, r.Estado, r.Response)
		}
		// issued anew: the rest may be another's by then
		if was.Tipo != "NOTA_CREDITO" && was.Tipo != "NOTA_DEBITO" && was.Tipo != "RETORNO" {
			wanted = append(wanted, was.Code)
		}
	}
	if got := b.drawn(o); got != [5]int64{} {
		b.t.Errorf("refused documents hold %v", got)
	}
	refused, err := b.store.Due(record.QueueCorrect, record.Whenever, 100)
	if err != nil {
		b.t.Fatal(err)
	}
	var listed []string
	for _, o := range refused {
		listed = append(listed, dte.Code(o.Code).String())
	}
	slices.Sort(listed)
	slices.Sort(wanted)
	if !slices.Equal(listed, wanted) {
		b.t.Errorf("for correction wait %v, want %v", listed, wanted)
	}

	// What they gave back can be drawn again, and nothing of them blocks it.
	list = b.offline(l, o, "taken")
	time.Sleep(time.Hour)
	b.cable.set(plugged)
	time.Sleep(20 * time.Minute)
	b.forwarded(l, list)
	all[1] -= 10 * int64(dte.Scale) // the debit note's
	if got := b.drawn(o); got != all {
		b.t.Errorf("once accepted %v is drawn, want %v", got, all)
	}
	b.takenBack(l, append(slices.Clone(list), o.voucher, o.invoice))
	if got := b.drawn(o); got != [5]int64{} {
		b.t.Errorf("invalidated documents hold %v", got)
	}
	if got, want := b.sim.Received(), (simulator.Counts{Documents: len(list) + 2, Events: 2, Lots: 2,
		Invalidations: len(list) + 2}); got != want {
		b.t.Errorf("MH received %+v, want %+v", got, want)
	}
	b.audit()
}

// takenBack invalidates the documents, notes and returns before their originals.
func (b *box) takenBack(l layouts, list []*record.View) {
	b.t.Helper()
	for _, r := range list {
		got, err := b.engine.Invalidate(context.Background(), invalidation(r, 2, ""))
		if err != nil || got.Estado != record.EstadoInvalidated {
			b.t.Fatalf("%s: %+v %v", r.Tipo, got, err)
		}
		b.layout(got.Invalidation.Code, l["invalidacion"])
	}
}

func TestContingency_EveryType(t *testing.T) { inBubble(t, func(b *box) { everyType(b, dte2) }) }
