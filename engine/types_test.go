package engine_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
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

// drawn are the counters of the originals: notes that stand, credited, returns that stand, returned units and amount.
func drawn(b *enginetest.Box, o enginetest.Originals) [5]int64 {
	n := func(r *record.View, line uint32) int64 { return enginetest.Counter(b.T, b.Store, r, line) }
	const gravada = 2 // of amountsOfLine
	return [5]int64{n(o.Voucher, record.LineActive), n(o.Voucher, record.LineCredited), n(o.Invoice, record.LineActive),
		n(o.Invoice, 1), n(o.Invoice, record.LineReturned+gravada)}
}

// offline issues one document of each type while MH is away.
func offline(b *enginetest.Box, l layouts, o enginetest.Originals, key string) []*record.View {
	b.T.Helper()
	b.Cable.Set(enginetest.Refusing)
	var list []*record.View
	for _, document := range l.types() {
		r := enginetest.Issued(b.T, b.Engine, o.Request(document, key), record.EstadoContingency)
		if got := enginetest.Text(b.T, r, "identificacion", "version"); got != l[document] ||
			enginetest.Text(b.T, r, "identificacion",
				"tipoModelo") != "2" {
			b.T.Errorf("%s in contingency is version %s, want %s\n%s", document, got, l[document], r.JSON)
		}
		list = append(list, r)
	}
	return list
}

// forwarded demands that every document was sealed, sent once, and listed in the last event, which lists nothing else.
func forwarded(b *enginetest.Box, l layouts, list []*record.View) {
	b.T.Helper()
	var codes []string
	for _, was := range list {
		codes = append(codes, was.Code)
		r := b.Document(was.Code)
		a, _ := b.Sim.Document(was.Code)
		if r.Estado != record.EstadoProcessed || r.Sello == "" || a.Attempts != 1 ||
			string(r.JSON) != string(was.JSON) {
			b.T.Errorf("%s is %s %v, MH received it %d times\n%s", was.Tipo, r.Estado, r.Response, a.Attempts, r.JSON)
		}
	}
	events := b.Sim.Events()
	if len(events) == 0 {
		b.T.Fatal("MH received no event")
	}
	last := events[len(events)-1]
	slices.Sort(codes)
	slices.Sort(last.Documents)
	if !slices.Equal(codes, last.Documents) {
		b.T.Errorf("the event lists %v, want %v", last.Documents, codes)
	}
	layout(b, last.Code, l["contingencia"])
}

// layout demands that an event, as MH holds it, has a version.
func layout(b *enginetest.Box, event, version string) {
	b.T.Helper()
	a, _ := b.Sim.Document(event)
	if got := enginetest.Text(b.T, &record.View{JSON: a.Document}, "identificacion", "version"); got != version {
		b.T.Errorf("the event is version %s, want %s\n%s", got, version, a.Document)
	}
}

// everyType: every document issued in contingency is reported and forwarded. One that MH then refuses is set aside,
// gives back what it took from its original, and blocks nothing.
func everyType(b *enginetest.Box, l layouts) {
	b.Chaos(simulator.Chaos{})
	o := b.Originals("before")
	all := [5]int64{2, 100 * int64(dte.Scale), 0, 0, 0} // a debit note that MH has not accepted adds no room
	if l["18"] != "" {
		all = [5]int64{2, 100 * int64(dte.Scale), 1, 3 * int64(dte.Scale), int64(1695) * int64(dte.Scale) / 100}
	}

	list := offline(b, l, o, "refused")
	if got := drawn(b, o); got != all {
		b.T.Errorf("in contingency %v is drawn, want %v", got, all)
	}
	time.Sleep(time.Hour)
	b.Chaos(simulator.Chaos{Reject: len(list)})
	b.Cable.Set(enginetest.Plugged)
	time.Sleep(20 * time.Minute)
	var wanted []string
	for _, was := range list {
		r := b.Document(was.Code)
		if r.Estado != record.EstadoRejected || r.Sello != "" || r.Response == nil {
			b.T.Errorf("%s is %s, MH refused it: %+v", r.Tipo, r.Estado, r.Response)
		}
		// issued anew: the rest may be another's by then
		if was.Tipo != "NOTA_CREDITO" && was.Tipo != "NOTA_DEBITO" && was.Tipo != "RETORNO" {
			wanted = append(wanted, was.Code)
		}
	}
	if got := drawn(b, o); got != [5]int64{} {
		b.T.Errorf("refused documents hold %v", got)
	}
	refused, err := b.Store.Due(record.QueueCorrect, record.Whenever, 100)
	if err != nil {
		b.T.Fatal(err)
	}
	var listed []string
	for _, o := range refused {
		listed = append(listed, dte.Code(o.Code).String())
	}
	slices.Sort(listed)
	slices.Sort(wanted)
	if !slices.Equal(listed, wanted) {
		b.T.Errorf("for correction wait %v, want %v", listed, wanted)
	}

	// What they gave back can be drawn again, and nothing of them blocks it.
	list = offline(b, l, o, "taken")
	time.Sleep(time.Hour)
	b.Cable.Set(enginetest.Plugged)
	time.Sleep(20 * time.Minute)
	forwarded(b, l, list)
	all[1] -= 10 * int64(dte.Scale) // the debit note's
	if got := drawn(b, o); got != all {
		b.T.Errorf("once accepted %v is drawn, want %v", got, all)
	}
	takenBack(b, l, append(slices.Clone(list), o.Voucher, o.Invoice))
	if got := drawn(b, o); got != [5]int64{} {
		b.T.Errorf("invalidated documents hold %v", got)
	}
	if got, want := b.Sim.Received(), (simulator.Counts{Documents: len(list) + 2, Events: 2, Lots: 2,
		Invalidations: len(list) + 2}); got != want {
		b.T.Errorf("MH received %+v, want %+v", got, want)
	}
	b.Audit()
}

// takenBack invalidates the documents, notes and returns before their originals.
func takenBack(b *enginetest.Box, l layouts, list []*record.View) {
	b.T.Helper()
	for _, r := range list {
		got, err := b.Engine.Invalidate(context.Background(), enginetest.Invalidation(r, 2, ""))
		if err != nil || got.Estado != record.EstadoInvalidated {
			b.T.Fatalf("%s: %+v %v", r.Tipo, got, err)
		}
		layout(b, got.Invalidation.Code, l["invalidacion"])
	}
}

func TestContingency_EveryType(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) { everyType(b, dte2) })
}

// TestIssued: a branch shows the types that it may issue on the day, in order, each under its path.
func TestIssued(t *testing.T) {
	for begin, l := range map[time.Time]layouts{enginetest.Monday: dte2, enginetest.Monday.AddDate(-1, 0, 0): earlier} {
		enginetest.InBubbleFrom(t, begin, func(b *enginetest.Box) {
			b.Engine.Opts().Open = func(document string) bool { return document != "03" }
			want := slices.DeleteFunc(l.types(), func(document string) bool { return document == "03" })
			var got []string
			for _, issued := range b.Engine.Issued() {
				if l[issued.Document] != "" {
					got = append(got, issued.Document)
				}
				if at := b.Engine.TypeAt(issued.Path); at == nil || at.Document != issued.Document {
					t.Errorf("under %s is %+v", issued.Path, at)
				}
			}
			if !slices.Equal(got, want) || b.Engine.TypeAt("dte99") != nil {
				t.Errorf("issued on %s are %v, want %v", dte.Date(begin), got, want)
			}
		})
	}
}
