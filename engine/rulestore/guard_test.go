package rulestore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/engine"
	"dtegate/engine/authority"
	"dtegate/engine/contingency"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/recordmac"
	"dtegate/engine/rulestore"
	"dtegate/rules/bundletest"
	"dtegate/storage"
)

// at sells at a point of sale; the receiver may be a wrong one.
func at(w *enginetest.World, point, cents, lines int, receiver dte.Value) *record.View {
	w.T.Helper()
	r := enginetest.Sale("", cents)
	line := r.Facts.Get("cuerpoDocumento").Index(0)
	all := make([]dte.Value, lines)
	for i := range all {
		all[i] = line.With("numItem", dte.Int(int64(i+1)))
	}
	r.Facts = r.Facts.Set(
		enginetest.Member("receptor", receiver),
		enginetest.Member("cuerpoDocumento", dte.Arr(all...)),
	)
	r.Caller = enginetest.TestCaller(point)
	shown, err := w.Engine.Issue(w.T.Context(), r)
	if err != nil {
		w.T.Fatal(err)
	}
	return shown
}

// stranger is a customer whose activity MH does not know.
var stranger = dte.Obj(enginetest.Member("nombre", dte.Str("Ana")), enginetest.Member("codActividad", dte.Str("99999")),
	enginetest.Member("descActividad", dte.Str("Comercio")))

// restarted starts the shelf again from its store: no outcome of a bundle in force changes, no bundle has been
// forgiven in vain, and what MH decided before the start makes the branch leave no bundle.
func restarted(w *enginetest.World, s *rulestore.Store) *rulestore.Store {
	w.T.Helper()
	outcomes := func() map[string]dte.Outcomes {
		all := make(map[string]dte.Outcomes)
		for _, r := range s.List().Rules {
			// Without its rule a start does not know what a bundle that is off had made: the cause of a refusal.
			if r.State != rulestore.Retired {
				all[r.Name+" "+r.Version] = s.Guard().Outcomes(r.Digest, w.Now())
			}
		}
		return all
	}
	before := outcomes()
	s = w.Shelf(nil)
	if after := outcomes(); !maps.Equal(before, after) {
		w.T.Errorf("before a start MH's decisions were %v, after it %v", before, after)
	}
	if n := len(s.Guard().Wanted()); n != 0 {
		w.T.Errorf("a start asks for %d returns", n)
	}
	return s
}

// One till with a wrong customer does not undo a push, however often it sells to this customer.
func TestGuard_OneTill(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	w.Points = 2
	w.Change = func(o *engine.Options) { o.PassCodes = true } // else the counter refuses him
	s := w.Shelf(enginetest.Shipped(t))
	a := enginetest.Push(t, s, enginetest.Edition(t, "2.1.1"))
	for i := range 50 {
		if r := at(w, 1, 1130+i, 1+i%7, stranger); r.Estado != record.EstadoRejected ||
			!strings.Contains(r.TechnicalError, "receptor.codActividad") {
			t.Fatalf("%s %s", r.Estado, r.TechnicalError)
		}
	}
	// Other texts of MH about the customer, and about members that every document has.
	filler := s.Book().Compiled(a.Rule.Digest).Filler
	for _, text := range []string{"[receptor.numDocumento] NO CORRESPONDE A CONTRIBUYENTE",
		"[receptor.nrc] FORMATO NO VÁLIDO",
		"[identificacion.numeroControl] YA EXISTE UN REGISTRO CON ESE VALOR", "Firma no válida",
		"[documento] NO EXISTE UN REGISTRO CON ESTE DATO",
		"[emisor.nrc] NO CORRESPONDE A CONTRIBUYENTE", "el cliente [resumen.totalIva] CALCULO INCORRECTO",
		"[x.y] [resumen.totalIva]"} {
		r := &authority.Response{DescripcionMsg: text}
		if cause := rulestore.CauseOf(r, filler, enginetest.Sale("", 1).Facts); cause == rulestore.CauseRule {
			t.Errorf("%s is laid on the rule", text)
		}
	}
	if n := len(s.Guard().Wanted()); n != 0 {
		t.Errorf("%d returns were asked for", n)
	}
	// One till is enough for the alarm, and a restart does not end it.
	for range 2 {
		if got := metrictest.Values(t, s)["dte_rule_outcomes/01/document/other/2/2.1.1"]; got != 50 {
			t.Errorf("%v refusals of a request are counted", got)
		}
		if o := s.Guard().Outcomes(a.Rule.Digest, w.Now()); !o.Grave() ||
			o != (dte.Outcomes{Decided: 50, Refused: 50}) {
			t.Errorf("the alarm counts %+v", o)
		}
		s = restarted(w, s)
	}
}

// A rule that computes a wrong tax is left after few refusals; an operator may put it back, and then it stays.
func TestGuard_WrongRule(t *testing.T) {
	w := enginetest.NewWorld(t)
	w.Box = recordmac.New()
	defer w.Close()
	var told []rulestore.StepBack
	w.Points, w.Returned = 2, func(b rulestore.StepBack) { told = append(told, b) }
	s := w.Shelf(enginetest.Shipped(t))
	for i := range 2 * rulestore.EnoughBefore {
		at(w, 1+i%2, 1130, 1, dte.Null())
	}
	bad := enginetest.Push(
		t,
		s,
		enginetest.Edition(t, "2.1.1", bundletest.Param("ivaRate", "0.15"), bundletest.Refusals),
	)
	for i := range rulestore.MostRefused {
		if len(s.Guard().Wanted()) != 0 {
			t.Fatalf("a return after %d refusals", i)
		}
		if r := at(w, 1+i%2, 1130, 1, dte.Null()); r.Estado != record.EstadoRejected || r.Rule != bad.Rule {
			t.Fatalf("%s %s %+v", r.Estado, r.TechnicalError, r.Rule)
		}
	}
	if len(s.Guard().Wanted()) != 1 {
		t.Fatal("no return was asked for")
	}
	for name, want := range map[string]float64{"accepted": 0, "rule": rulestore.MostRefused, "other": 0} {
		if got := metrictest.Value(t, s, "dte_rule_outcomes/01/document/"+name+"/2/2.1.1"); got != want {
			t.Errorf("%v outcomes are counted as %s", got, name)
		}
	}
	// The appliance stops before the return: the next refusal asks for it.
	s = restarted(w, s)
	at(w, 1, 1130, 1, dte.Null())
	if len(s.Guard().Wanted()) != 1 {
		t.Fatal("after a start no return was asked for")
	}
	s.Return(t.Context(), <-s.Guard().Wanted())
	s = restarted(w, s)
	want := "MH refused 6 of its last 6 documents for what the rule made, at 2 points of sale; before it, 0 of 40"
	if got := s.List().Return; got == nil || got.To.Version != "2.1.0" || !strings.Contains(got.Reason, want) {
		t.Errorf("%+v", got)
	}
	if len(told) != 1 || told[0].Off[0] != bad.Rule {
		t.Errorf("the trail was told %+v", told)
	}
	if r := at(w, 1, 1130, 1, dte.Null()); r.Estado != record.EstadoProcessed || r.Rule.Version != "2.1.0" {
		t.Errorf("%s %+v", r.Estado, r.Rule)
	}

	target := rulestore.Target{Name: "dte01", Schema: 2, Version: "2.1.1"}
	for _, c := range []struct {
		t    rulestore.Target
		o    rulestore.Order
		says string
	}{
		{target, rulestore.Order{Who: "eva"}, "a reason is needed"},
		{rulestore.Target{Name: "dte01", Schema: 2, Version: "2.1.9"}, rulestore.Order{Who: "eva", Reason: "x"},
			"was never here"},
		{rulestore.Target{Name: "dte01", Schema: 2, Version: "2.1.0"}, rulestore.Order{Who: "eva", Reason: "x"},
			"was not taken off"},
	} {
		if _, err := s.Reinstate(t.Context(), c.t, c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.t, err)
		}
	}
	if back, err := s.Reinstate(t.Context(), target, rulestore.Order{Who: "eva",
		Reason: "MH's catalogue was wrong"}); err != nil || back.To != bad.Rule {
		t.Fatalf("%+v, %v", back, err)
	}
	for range 2 { // now, and after a restart
		if l := s.List(); l.Return != nil || s.Book().Active("00", "2026-11-21")["01"] != bad.Rule {
			t.Errorf("after it was reinstated: %+v", l.Return)
		}
		for i := range 3 * rulestore.AloneHarms {
			at(w, 1+i%2, 1130, 1+i%3, dte.Null())
		}
		if len(s.Guard().Wanted()) != 0 {
			t.Error("a bundle that an operator put back is left again")
		}
		s = restarted(w, s)
	}
	if _, err := s.Reinstate(t.Context(), target, rulestore.Order{Who: "eva", Reason: "again"}); err == nil {
		t.Error("a live bundle was reinstated")
	}
}

// TestRecount: what a start counts of each kind of record, for the rule of the document and for the rule of its event;
// decisions of more than a week ago are not shown.
func TestRecount(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	w.Shelf(enginetest.Shipped(t))
	week := 7 * 24 * time.Hour
	none, accepted, refused := dte.Outcomes{}, dte.Outcomes{Decided: 1}, dte.Outcomes{Decided: 1, Refused: 1}
	type row struct {
		what        string
		state       storage.State
		invalidated string        // estado of its invalidation
		ago         time.Duration // the document's issue; MH decided its event at the same time
		document    dte.Outcomes
		event       dte.Outcomes
	}
	rows := []row{
		{"accepted", record.Accepted, "", 0, accepted, none},
		{"accepted a week ago", record.Accepted, "", week, accepted, none},
		{"accepted longer ago", record.Accepted, "", week + time.Second, none, none},
		{"refused", record.Rejected, "", 0, refused, none},
		{"refused longer ago", record.Rejected, "", week + time.Second, none, none},
		{"signed", record.Signed, "", 0, none, none},
		{"in contingency", record.Deferred, "", 0, none, none},
		{"reported", record.Reported, "", 0, none, none},
		{"invalidated", record.Invalidated, record.EstadoProcessed, 0, accepted, accepted},
		{"its invalidation refused", record.Accepted, record.EstadoRejected, 0, accepted, refused},
		{"its invalidation not decided", record.Accepted, record.EstadoPending, 0, accepted, none},
		{"invalidated longer ago", record.Invalidated, record.EstadoProcessed, week + time.Second, none, none},
		{"an event that is not sent", record.EventSigned, "", 0, none, none},
		{"an event, sealed", record.EventAccepted, "", 0, none, accepted},
		{"an event, sealed, and its documents moved", record.EventDone, "", 0, none, accepted},
		{"an event, refused", record.EventRejected, "", 0, none, refused},
		{"an event, refused longer ago", record.EventRejected, "", week + time.Second, none, none},
		{"a lot", record.LotDone, "", 0, none, none},
	}
	digest := func(what string, i int) string { return fmt.Sprint(what, i) }
	for i, r := range rows {
		at, event := w.Now().Add(-r.ago), record.RuleRef{Digest: digest("event", i)}
		var head any = &record.Head{Rule: record.RuleRef{Digest: digest("document", i)}, CreatedAt: at,
			Response: &authority.Response{}}
		if r.invalidated != "" {
			head.(*record.Head).Invalidation = &record.Invalidation{Estado: r.invalidated, Rule: event, At: at}
		}
		if !record.IsDocument(r.state) {
			head = &contingency.Event{Rule: event, Receipt: &authority.Receipt{At: at}}
		}
		data, err := json.Marshal(head)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Store.Append(t.Context(), storage.Keys{Series: "00/x"}, storage.Draft{Code: storage.Code{byte(i)},
			State: r.state, Head: data, Parts: []storage.Part{{Name: record.PartFacts, Data: []byte("{}")}}}); err != nil {
			t.Fatal(err)
		}
	}
	g := w.Shelf(nil).Guard()
	for i, r := range rows {
		document, event := g.Outcomes(digest("document", i), w.Now()), g.Outcomes(digest("event", i), w.Now())
		if document != r.document || event != r.event {
			t.Errorf("%s: %+v and %+v, want %+v and %+v", r.what, document, event, r.document, r.event)
		}
	}
}

// TestGuard_LateReturn: a return that was requested before another bundle took over changes nothing.
func TestGuard_LateReturn(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	s := w.Shelf(enginetest.Shipped(t))
	bad := enginetest.Push(t, s, enginetest.Edition(t, "2.1.1"))
	enginetest.Push(t, s, enginetest.Edition(t, "2.1.2"))
	s.Return(t.Context(), rulestore.Return{Digest: bad.Rule.Digest, Reason: "it did harm"})
	if l := s.List(); l.Return != nil || s.Book().Active("00", "2026-11-21")["01"].Version != "2.1.2" {
		t.Errorf("%+v is made", l.Return)
	}
}

// TestGuard_NotMade: a return that could not be recorded is requested again by the next failure.
func TestGuard_NotMade(t *testing.T) {
	w := enginetest.NewWorld(t)
	w.Points = 2
	s := w.Shelf(enginetest.Shipped(t))
	a := enginetest.Push(t, s, enginetest.Edition(t, "2.1.1"))
	bad := s.Book().Compiled(a.Rule.Digest)
	w.Close()
	for n := range 2 {
		for i := range 4 {
			s.Guard().Failed(bad, int64(1+i%2), rulestore.Shape{}, errors.New("a trap"), w.Now())
		}
		if got := len(s.Guard().Wanted()); got != 1 {
			t.Fatalf("after %d returns that were not made, %d are requested", n, got)
		}
		s.Return(t.Context(), <-s.Guard().Wanted()) // the store is closed
	}
}

// MH's texts show who made a field, in both generations.
func TestCauseOf(t *testing.T) {
	book := enginetest.Common(t).Book
	for _, c := range []struct {
		document, date string
		text           string
		notes          []string
		want           string
	}{
		{"01", "2026-12-02", "[resumen.totalIva] CALCULO INCORRECTO", nil, rulestore.CauseRule},
		{"01", "2026-12-02", "[resumen.tributos.codigo.D1] CALCULO INCORRECTO", nil, rulestore.CauseRule},
		{"01", "2026-12-02", "[resumen.totalLetras] FORMATO NO VÁLIDO", nil, rulestore.CauseRule},
		{"01", "2026-12-02", "[identificacion.version] VALOR NO ES PERMITIDO", nil, rulestore.CauseRule},
		{"01", "2026-12-02", "[cuerpoDocumento.2.ivaItem] CALCULO INCORRECTO", nil, rulestore.CauseRule},
		{"01", "2026-12-02", "DOCUMENTO NO CUMPLE ESQUEMA JSON",
			[]string{"Campo #/receptor/nrc no cumple el formato requerido",
				"Campo #/cuerpoDocumento/0/ventaGravada contiene un valor inválido"}, rulestore.CauseRule},
		{"01", "2026-12-02", "DOCUMENTO NO CUMPLE ESQUEMA JSON", []string{"Campo #/resumen/ivaPerci9 es requerido"},
			rulestore.CauseRule},
		{"01", "2026-12-02", "DOCUMENTO NO CUMPLE ESQUEMA JSON",
			[]string{"Campo #/receptor/nrc no cumple el formato requerido"}, rulestore.CauseRequest},
		{"01", "2026-12-02", "DOCUMENTO NO CUMPLE ESQUEMA JSON", nil, rulestore.CauseUnclear},
		{"01", "2026-12-02", "[cuerpoDocumento.descripcion] VALOR NO ES PERMITIDO", nil, rulestore.CauseRequest},
		{"01", "2026-12-02", "[resumen.pagos.codigo] VALOR NO ES PERMITIDO", nil, rulestore.CauseRequest},
		// of a sale without a customer
		{"01", "2026-12-02", "[resumen.pagos.montoPago] CALCULO INCORRECTO", nil, rulestore.CauseRule},
		{"01", "2026-12-02", "[emisor.nit] NO CORRESPONDE A CONTRIBUYENTE", nil, rulestore.CauseRequest},
		{"01", "2026-12-02", "[identificacion.codigoGeneracion] YA EXISTE UN REGISTRO CON ESE VALOR", nil,
			rulestore.CauseRequest},
		{"01", "2026-12-02", "[] X", nil, rulestore.CauseUnclear},
		{"01", "2026-12-02", "", []string{""}, rulestore.CauseUnclear},
		{"14", "2026-11-02", "[sujetoExcluido.numDocumento] FORMATO NO VÁLIDO", nil, rulestore.CauseRequest},
		{"14", "2026-11-02", "[resumen.reteRenta] CALCULO INCORRECTO", nil, rulestore.CauseRule},
	} {
		r, err := book.Pick(c.document, "01", c.date)
		if err != nil {
			t.Fatal(err)
		}
		facts := dte.Obj(
			enginetest.Member(
				"receptor",
				dte.Obj(enginetest.Member("tipoDocumento", dte.Str("13")), enginetest.Member("numDocumento",
					dte.Str("012345678"))),
			),
			enginetest.Member(
				"cuerpoDocumento",
				enginetest.Sale("", 1).Facts.Get("cuerpoDocumento"),
			),
			enginetest.Member("resumen",
				enginetest.Sale("", 1).Facts.Get("resumen")),
		)
		if got := rulestore.CauseOf(&authority.Response{DescripcionMsg: c.text, Observaciones: c.notes}, r.Filler,
			facts); got != c.want {
			t.Errorf("%s %v of %s %s: %s, want %s", c.text, c.notes, c.document, r.Ref.Version, got, c.want)
		}
	}
	facts := dte.Obj(
		enginetest.Member(
			"resumen",
			dte.Obj(enginetest.Member("pagos", dte.Arr(dte.Obj(enginetest.Member("montoPago", dte.Int(3)))))),
		),
	)
	r, _ := book.Pick("01", "01", "2026-12-02")
	if got := rulestore.CauseOf(&authority.Response{DescripcionMsg: "[resumen.pagos.montoPago] CALCULO INCORRECTO"},
		r.Filler, facts); got != rulestore.CauseRequest {
		t.Errorf("a payment that the till named: %s", got)
	}
}

// TestReinstate: a bundle that the branch left is put back only while no newer one has taken over; one that a person
// took off is put back by a rollback. From then on the branch leaves the bundle for no refusal, if this box recorded the
// order; a record that another box wrote, as in a backup, does not switch the guard off.
func TestReinstate(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer func() { w.Close() }()
	w.Box, w.Points = recordmac.New(), 2
	s := w.Shelf(enginetest.Shipped(t))
	why := rulestore.Order{Who: "eva", Reason: "MH was wrong"}
	target := func(version string) rulestore.Target {
		return rulestore.Target{Name: "dte01", Schema: 2, Version: version}
	}
	bad := enginetest.Push(t, s, enginetest.Edition(t, "2.1.1", bundletest.Param("ivaRate", "0.15"), bundletest.Refusals))
	leaves := func() bool {
		t.Helper()
		for i := range 2 * rulestore.MostRefused {
			at(w, 1+i%2, 1130, 1+i%3, dte.Null())
		}
		return len(s.Guard().Wanted()) > 0
	}
	s.Return(t.Context(), rulestore.Return{Digest: bad.Rule.Digest, Reason: "harm"})
	if _, err := s.Reinstate(t.Context(), target("2.1.1"), why); err != nil {
		t.Fatal(err)
	}
	if s, _ = w.Restart(); leaves() {
		t.Error("an operator's order is forgotten")
	}
	w.Box = recordmac.New()
	if s, _ = w.Restart(); !leaves() {
		t.Fatal("a record of another box switches the guard off")
	}
	s.Return(t.Context(), <-s.Guard().Wanted())
	enginetest.Push(t, s, enginetest.Edition(t, "2.1.2"))
	if _, err := s.Reinstate(t.Context(), target("2.1.1"), why); !errors.Is(err, rulestore.ErrNoSuchRule) ||
		!strings.Contains(err.Error(), "2.1.2 has taken over since") {
		t.Errorf("beside a newer bundle: %v", err)
	}
	if _, err := s.Rollback(t.Context(), target("2.1.0"), why); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reinstate(t.Context(), target("2.1.2"), why); !errors.Is(err, rulestore.ErrNoSuchRule) ||
		!strings.Contains(err.Error(), "taken off by eva") {
		t.Errorf("after a rollback: %v", err)
	}
}
