package engine_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dtegate/cmd/cmdtest/metrictest"
	"dtegate/cmd/dtesim/simulator"
	"dtegate/engine"
	"dtegate/engine/authority"
	"dtegate/engine/contingency"
	"dtegate/engine/dte"
	"dtegate/engine/enginetest"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/engine/rulestore"
	"dtegate/plugins/plugintest"
	"dtegate/rules"
	"dtegate/rules/bundle"
	"dtegate/rules/bundletest"
	"dtegate/storage"
)

// The tests of this file play two mechanisms against each other that share a record, a counter or a queue.

// eventBundle is an edition of the contingency events for a book.
func eventBundle(t *testing.T, version string, changes ...bundletest.Change) *rules.Rule {
	t.Helper()
	data := bundletest.Edition(t, "contingencia/v4", version, changes...)
	b, err := bundle.Keys{Pinned: []bundle.Key{plugintest.Key()}}.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	return &rules.Rule{Bundle: b}
}

// TestContingency_LayoutLacksType: documents of a type that the layout of the event does not take are set aside and
// shown, and go as soon as another layout takes them, without a restart.
func TestContingency_LayoutLacksType(t *testing.T) {
	was := enginetest.Common(t).Book
	narrow := eventBundle(t, "8.0.0", bundletest.In("2026-11-01", ""),
		func(parts map[string][]byte, _ *bundle.Manifest) {
			given, wanted := `"tipoDoc": {"type": "string"}`, `"tipoDoc": {"type": "string", "enum": ["03", "05"]}`
			if !bytes.Contains(parts["schema.json"], []byte(given)) {
				t.Fatal("the layout has another tipoDoc")
			}
			parts["schema.json"] = bytes.Replace(parts["schema.json"], []byte(given), []byte(wanted), 1)
		})
	book := bookWith(t, was, narrow, eventBundle(t, "9.0.0", bundletest.In("2026-11-03", "")))
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Close()
		b.Book = book
		b.Start()
		b.Cable.Set(enginetest.Refusing)
		lacking := enginetest.Issued(
			t,
			b.Engine,
			enginetest.Invoice("i", enginetest.Item(1, "1", "5")),
			record.EstadoContingency,
		)
		taken := enginetest.Issued(
			t,
			b.Engine,
			enginetest.Voucher("v", enginetest.Item(1, "1", "40")),
			record.EstadoContingency,
		)
		b.PlugIn()
		time.Sleep(30 * time.Minute)
		if got := b.Document(taken.Code).Estado; got != record.EstadoProcessed {
			t.Errorf("the type that the layout takes is %s", got)
		}
		o := b.Engine.CountBacklog()
		if got := metrictest.Values(t, b.Engine)["dte_lost_records"]; got != 1 || o.Lost != 1 ||
			o.LostRecords[0].Code != lacking.Code || !strings.Contains(o.LostRecords[0].Why, "detalleDTE[0].tipoDoc") {
			t.Errorf("%v are shown as set aside: %+v", got, o.LostRecords)
		}
		time.Sleep(16 * time.Hour) // the next day's layout takes every type
		if got := b.Document(lacking.Code).Estado; got != record.EstadoProcessed {
			t.Errorf("under another layout it is %s", got)
		}
		b.Audit()
	})
}

// TestContingency_LayoutTakesFewer: the layout of the event takes fewer documents than the law of its bundle says.
func TestContingency_LayoutTakesFewer(t *testing.T) {
	book := bookWith(t, enginetest.Common(t).Book, eventBundle(t, "8.0.0", bundletest.In("2026-11-01", ""),
		func(parts map[string][]byte, _ *bundle.Manifest) {
			parts["schema.json"] = regexp.MustCompile(`"maxItems": *\d+`).ReplaceAll(parts["schema.json"],
				[]byte(`"maxItems": 2`))
		}))
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Close()
		b.Book = book
		b.Start()
		b.Cable.Set(enginetest.Refusing)
		for _, key := range []string{"1", "2", "3", "4", "5"} {
			enginetest.Issued(t, b.Engine, enginetest.Sale(key, 100), record.EstadoContingency)
		}
		b.PlugIn()
		time.Sleep(30 * time.Minute)
		if got := b.Sim.Received(); got.Events != 3 {
			t.Errorf("MH received %+v", got)
		}
		b.Audit()
	})
}

// TestInvalidate_Contingency: a till that repeats an invalidation while MH is away stores nothing: nothing would ever
// delete what it stores.
func TestInvalidate_Contingency(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		r, other := enginetest.Issued(
			t,
			b.Engine,
			enginetest.Sale("sold", 100),
			record.EstadoProcessed,
		), b.Issue(
			enginetest.Sale("other", 200),
		)
		b.Cable.Set(enginetest.Refusing)
		for range 20 {
			_, err := b.Engine.Invalidate(context.Background(), enginetest.Invalidation(r, 2, ""))
			enginetest.Refused(t, err, refusal.CodeUnavailable, "")
			time.Sleep(time.Second)
		}
		parts, err := b.Store.Parts(storage.Code(enginetest.CodeOf(r)))
		if err != nil || len(parts) > 2+3 { // the facts and the sale, and until the branch has found that MH is away
			t.Errorf("the record has %d parts: %v", len(parts), err)
		}
		b.PlugIn()
		time.Sleep(5 * time.Minute) // a first event that may have reached MH is sent again
		if r, err := b.Engine.Invalidate(context.Background(), enginetest.Invalidation(other, 2, "")); err != nil ||
			r.Estado != record.EstadoInvalidated || r.Stored == 0 {
			t.Errorf("%+v %v", r, err)
		}
		b.Audit()
	})
}

// TestRecover_ClockWasAhead: a sale that a crash left without an outcome, by a clock that was ahead, does not wait until
// that time has come.
func TestRecover_ClockWasAhead(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Skew.Store(int64(72 * time.Hour))
		ctx, cancel := context.WithCancel(context.Background())
		b.At(func(string) { // the till's wait ends while the sale is on its way, surely before the answer
			cancel()
			time.Sleep(time.Millisecond)
		})
		if _, err := b.Engine.Issue(ctx, enginetest.Sale("k", 100)); err == nil {
			t.Fatal("the sale has an outcome")
		}
		b.At(nil)
		b.Skew.Store(0)
		time.Sleep(10 * time.Minute)
		if n := b.Engine.CountBacklog().Waiting[record.QueueSettle]; n != 0 {
			t.Errorf("%d documents wait", n)
		}
	})
}

// broken is a way to MH on which some requests are answered 500.
type broken struct {
	under http.RoundTripper
	is    func(path string, body []byte) bool
}

func (p *broken) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	if p.is(r.URL.Path, body) {
		return &http.Response{StatusCode: http.StatusInternalServerError, Body: io.NopCloser(strings.NewReader("no")),
			Header: http.Header{}, Request: r}, nil
	}
	next := r.Clone(r.Context())
	next.Body, next.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return p.under.RoundTrip(next)
}

// TestContingency_EventWithoutAnswer: an event to which MH never answers, although it answers everything else, delays
// no other event and no document: each has a legal deadline of its own.
func TestContingency_EventWithoutAnswer(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		var mu sync.Mutex
		var event []byte
		healed := false
		b.Wire.Under = &broken{b.Wire.Under, func(path string, body []byte) bool {
			mu.Lock()
			defer mu.Unlock()
			if path == "/fesv/contingencia" && event == nil {
				event = body
			}
			return event != nil && bytes.Equal(event, body) && !healed
		}}
		outage := func(key string) *record.View {
			b.Cable.Set(enginetest.Refusing)
			r := enginetest.Issued(t, b.Engine, enginetest.Sale(key, 100), record.EstadoContingency)
			time.Sleep(time.Hour)
			b.PlugIn()
			time.Sleep(time.Hour)
			return r
		}
		first, second := outage("first"), outage("second")
		if got := b.Document(second.Code).Estado; got != record.EstadoProcessed {
			t.Errorf("behind an event without an answer a document is %s", got)
		}
		if got := b.Document(first.Code).Estado; got != record.EstadoContingency {
			t.Errorf("the document of the event without an answer is %s", got)
		}
		mu.Lock()
		healed = true
		mu.Unlock()
		time.Sleep(10 * time.Minute)
		if got := b.Document(first.Code).Estado; got != record.EstadoProcessed {
			t.Errorf("after MH's answer the first is %s", got)
		}
		b.Audit()
	})
}

// TestContingency_QueryWithoutAnswer: documents about which MH never answers delay the event of the others for half of the
// allowed time, and no longer, although one of them is always put off; a lot about which MH never answers is decided document by document.
func TestContingency_QueryWithoutAnswer(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		var mu sync.Mutex
		first, second := "no document yet", "no document yet"
		b.Wire.Under = &broken{b.Wire.Under, func(path string, body []byte) bool {
			mu.Lock()
			about := func(code string) bool {
				return strings.HasPrefix(path, "/fesv/recepcion/consultadte") && bytes.Contains(body, []byte(code))
			}
			fails, later := about(first) || strings.HasPrefix(path, "/fesv/recepcion/consultadtelote/"), about(second)
			mu.Unlock()
			if later {
				time.Sleep(6 * time.Second) // it is put off until later than the first one
			}
			return fails || later
		}}
		b.Issue(enginetest.Sale("before", 100))
		b.Chaos(simulator.Chaos{Silence: true})
		var doubtful [2]*record.View
		var sales sync.WaitGroup
		for i := range doubtful {
			sales.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				doubtful[i] = enginetest.Issued(t, b.Engine, enginetest.Sale(fmt.Sprint("in doubt ", i), 200),
					record.EstadoContingency)
			})
		}
		sales.Wait()
		mu.Lock()
		first, second = doubtful[0].Code, doubtful[1].Code
		mu.Unlock()
		var certain []*record.View
		for _, key := range []string{"1", "2", "3"} {
			certain = append(
				certain,
				enginetest.Issued(t, b.Engine, enginetest.Sale(key, 300), record.EstadoContingency),
			)
		}
		b.Chaos(simulator.Chaos{})
		b.PlugIn()
		time.Sleep(13 * time.Hour)
		for _, r := range certain {
			if got := b.Document(r.Code).Estado; got != record.EstadoProcessed {
				t.Errorf("beside documents without an answer another is %s", got)
			}
		}
		if got := b.Sim.Received(); got.Lots != 1 {
			t.Errorf("MH received %+v", got)
		}
		mu.Lock()
		first, second = "no document any more", "no document any more"
		mu.Unlock()
		time.Sleep(time.Hour)
		b.Audit()
	})
}

// TestContingency_NoEventCanBeMade: if the layout takes no event, for the branch's own data, the documents of events
// that MH has sealed go nevertheless.
func TestContingency_NoEventCanBeMade(t *testing.T) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		b.Cable.Set(enginetest.Refusing)
		sealed := enginetest.Issued(t, b.Engine, enginetest.Sale("sealed", 100), record.EstadoContingency)
		b.Chaos(simulator.Chaos{Poison: sealed.Code})
		b.PlugIn()
		time.Sleep(10 * time.Minute)
		if got := b.Sim.Received(); got.Events != 1 || b.Document(sealed.Code).Estado != record.EstadoContingency {
			t.Fatalf("MH received %+v", got)
		}
		good := b.Policy.Responsible
		b.Restart(func(o *contingency.Options) { o.Responsible.DocumentType = "no such type" })
		b.Cable.Set(enginetest.Refusing)
		later := enginetest.Issued(t, b.Engine, enginetest.Sale("later", 200), record.EstadoContingency)
		b.PlugIn()
		time.Sleep(10 * time.Minute) // the event is due
		b.Chaos(simulator.Chaos{})
		time.Sleep(time.Hour)
		if got := b.Document(sealed.Code).Estado; got != record.EstadoProcessed {
			t.Errorf("the document of a sealed event is %s", got)
		}
		if got := b.Document(later.Code).Estado; got != record.EstadoContingency {
			t.Errorf("the document without an event is %s", got)
		}
		b.Restart(func(o *contingency.Options) { o.Responsible = good })
		time.Sleep(time.Hour)
		b.Audit()
	})
}

// TestCorrect_LotStillOpen: a lot that is read a second time, after a crash, does not refuse what a till has corrected
// since: its answer was about the form before.
func TestCorrect_LotStillOpen(t *testing.T) {
	for _, turned := range []time.Duration{0, -2 * time.Hour} { // the box's clock, before the correction
		lotStillOpen(t, turned)
	}
}

func lotStillOpen(t *testing.T, turned time.Duration) {
	enginetest.InBubble(t, func(b *enginetest.Box) {
		list := enginetest.Late(b, 3)
		var lot storage.Entry
		if err := b.Store.Records(0, func(e storage.Entry) error {
			if e.State == record.LotDone {
				lot = e
			}
			return nil
		}); err != nil || lot.Head == nil {
			t.Fatalf("no lot: %v", err)
		}
		codes, err := b.Store.Part(lot.Code, "codes")
		if err != nil {
			t.Fatal(err)
		}
		b.Cable.Set(enginetest.Refusing)
		b.Skew.Store(int64(turned))
		b.Correct(list[0].Code, 900)
		code, err := dte.NewCode(b.Engine.Opts().Rand)
		if err == nil { // the lot as it was before its end was stored
			_, err = b.Store.Append(t.Context(), storage.Keys{Series: lot.Series}, storage.Draft{
				Code:  storage.Code(code),
				State: record.LotOpen, Head: lot.Head, Parts: []storage.Part{{Name: "codes", Data: codes}},
				Due: &storage.Due{Queue: record.QueueLot, At: b.Now()}})
		}
		if err != nil {
			t.Fatal(err)
		}
		b.PlugIn()
		time.Sleep(20 * time.Minute)
		if r := b.Document(list[0].Code); r.Estado != record.EstadoProcessed || r.Total != "9.00" {
			t.Errorf("the corrected document is %s %s: %+v", r.Estado, r.Total, r.Response)
		}
		b.Audit()
	})
}

// TestCorrect_RuleOfAnEarlierDay: a document of a day whose rule ended days ago is corrected by that rule.
func TestCorrect_RuleOfAnEarlierDay(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	ctx := context.Background()
	s := w.Shelf(enginetest.Shipped(t))
	alone := enginetest.Sale("", 1130)
	alone.TestContingency = true
	sold := w.Issued(alone, record.EstadoContingency)
	if a := enginetest.Push(t, s, enginetest.Edition(t, "2.9.0", bundletest.In("2026-11-22", ""))); a.State != rulestore.Coming {
		t.Fatalf("%+v", a)
	}
	w.Clock.Set(enginetest.Start.AddDate(0, 0, 3))
	if err := s.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	entry, h, err := record.Read(w.Store, storage.Code(enginetest.CodeOf(sold)))
	if err == nil {
		entry, err = w.Engine.Move(ctx, entry, storage.Change{To: record.Reported,
			Due: &storage.Due{Queue: record.QueueForward, At: w.Now()}}, h)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.Refused, h.Response = w.Now(), &authority.Response{DescripcionMsg: "no"}
	if _, err = w.Engine.Move(ctx, entry, storage.Change{To: record.Rejected,
		Due: &storage.Due{Queue: record.QueueCorrect, At: w.Now().Add(24 * time.Hour)}}, h); err != nil {
		t.Fatal(err)
	}
	now, err := w.Engine.Correct(ctx, enginetest.CodeOf(sold), enginetest.Sale("", 1243))
	if err != nil {
		t.Fatal(err)
	}
	if now.Rule != sold.Rule || now.Total != "12.43" ||
		enginetest.Text(t, now, "identificacion", "fecEmi") != "2026-11-21" {
		t.Errorf("it was computed by %+v, was by %+v: %s", now.Rule, sold.Rule, now.JSON)
	}
}

// TestInvalidate_DebitPending: while the invalidation of a debit note waits for MH's answer, no credit note takes the
// room that it gave; after MH's refusal the room is there again.
func TestInvalidate_DebitPending(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	ctx := context.Background()
	original := w.Issued(enginetest.Voucher("v", enginetest.Item(1, "1", "100")), record.EstadoProcessed)
	debit := w.Issued(enginetest.NoteOn("06", "d", original, enginetest.Item(1, "1", "10")), record.EstadoProcessed)
	credit := func(key, amount string) error {
		_, err := w.Engine.Issue(ctx, enginetest.NoteOn("05", key, original, enginetest.Item(1, "1", amount)))
		return err
	}
	pending := func() {
		t.Helper()
		if err := w.Sim.Chaos(simulator.Chaos{LostRequests: 1, Only: "invalidations"}); err != nil {
			t.Fatal(err)
		}
		_, err := w.Engine.Invalidate(ctx, enginetest.Invalidation(debit, 2, ""))
		enginetest.Refused(t, err, refusal.CodeUnavailable, "")
		enginetest.Refused(t, credit("c", "100.01"), refusal.CodeValidation, "cuerpoDocumento")
	}
	resumed := func(chaos simulator.Chaos) {
		t.Helper()
		if err := w.Sim.Chaos(chaos); err != nil {
			t.Fatal(err)
		}
		if err := w.Engine.ResumeInvalidations(ctx, enginetest.Start.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	pending()
	resumed(simulator.Chaos{RejectEvents: 1})
	if err := credit("c1", "5"); err != nil {
		t.Fatal(err)
	}
	if got := w.Counter(original, record.LineCredited); got != -5*int64(dte.Scale) {
		t.Errorf("after MH's refusal %d are credited", got)
	}
	if got := w.Counter(original, record.LineActive); got != 2 {
		t.Errorf("%d notes are in force", got)
	}
	pending()
	resumed(simulator.Chaos{})
	if err := credit("c2", "95"); err != nil {
		t.Fatal(err)
	}
	if got := w.Counter(original, record.LineCredited); got != 100*int64(dte.Scale) {
		t.Errorf("%d are credited of 100.00", got)
	}
	if got := w.Counter(original, record.LineActive); got != 2 {
		t.Errorf("%d notes are in force", got)
	}
}

// interrupted is a source of randomness that calls a function before its next bytes, once.
type interrupted struct{ fn func() }

func (i *interrupted) Read(p []byte) (int, error) {
	if fn := i.fn; fn != nil {
		i.fn = nil
		fn()
	}
	return rand.Read(p)
}

// TestInvalidate_DebitRace: a credit note that takes the room of a debit note, after the invalidation of the debit note
// was checked and before its event is stored, stops the invalidation.
func TestInvalidate_DebitRace(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	ctx := context.Background()
	original := w.Issued(enginetest.Voucher("v", enginetest.Item(1, "1", "100")), record.EstadoProcessed)
	debit := w.Issued(enginetest.NoteOn("06", "d", original, enginetest.Item(1, "1", "10")), record.EstadoProcessed)
	w.Engine.Opts().Rand = &interrupted{func() {
		w.Issued(enginetest.NoteOn("05", "c", original, enginetest.Item(1, "1", "105")), record.EstadoProcessed)
	}}
	_, err := w.Engine.Invalidate(ctx, enginetest.Invalidation(debit, 2, ""))
	enginetest.Refused(t, err, refusal.CodeNotInvalidable, "")
	got, sent := w.Counter(original, record.LineCredited), w.Sim.Received()
	if got != 95*int64(dte.Scale) || sent.Invalidations != 0 {
		t.Errorf("%d are credited, MH received %+v", got, sent)
	}
	r, err := w.Engine.Documents().Document(ctx, enginetest.CodeOf(debit), enginetest.TestCaller(1))
	if err != nil || r.Invalidation != nil || r.Estado != record.EstadoProcessed {
		t.Errorf("the debit note: %+v, %v", r, err)
	}
}

// TestNotes_Room plays notes on one document, and their invalidations, at random, while MH refuses, loses and answers:
// the counters of the document are always what its notes make, and credit notes never take more than is theirs.
func TestNotes_Room(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	ctx := context.Background()
	r := mathrand.New(mathrand.NewPCG(1, 1))
	original := w.Issued(enginetest.Voucher("v", enginetest.Item(1, "1", "100")), record.EstadoProcessed)
	var notes []*record.View
	done := make(map[string]int)
	for range 150 {
		kind := []string{"", "documents", "invalidations"}[r.IntN(3)]
		chaos := []simulator.Chaos{{}, {}, {Reject: 1}, {RejectEvents: 1}, {LostRequests: 1 + r.IntN(8), Only: kind},
			{LostAnswers: 1, Only: kind}}[r.IntN(6)]
		if err := w.Sim.Chaos(chaos); err != nil {
			t.Fatal(err)
		}
		switch what := r.IntN(6); {
		case what < 3 || len(notes) == 0:
			document := []string{"05", "05", "06"}[r.IntN(3)]
			note, err := w.Engine.Issue(
				ctx,
				enginetest.NoteOn(document, "", original, enginetest.Item(1, "1", strconv.Itoa(1+r.IntN(60)))),
			)
			if err == nil {
				notes = append(notes, note)
				done[document+" "+note.Estado]++
			}
		case what < 5:
			req := enginetest.Invalidation(notes[r.IntN(len(notes))], 2, "")
			said, err := w.Engine.Appraise(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.Engine.Invalidate(ctx, req)
			var refused *refusal.Error
			held := errors.As(err, &refused) && refused.Code == refusal.CodeNotInvalidable
			if said.Verdict == engine.RecallPossible && held || said.Verdict == engine.RecallHeld && !held {
				t.Errorf("%s %s is appraised %s, and to invalidate it: %v", said.Document, said.Code, said.Verdict, err)
			}
			done["appraisal "+said.Verdict]++
			done["invalidation "+strconv.FormatBool(err == nil)]++
		default:
			if err := w.Engine.ResumeInvalidations(ctx, enginetest.Start.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		credited, active := dte.Amount(0), int64(0)
		for _, n := range notes {
			entry, h, err := record.Read(w.Store, storage.Code(enginetest.CodeOf(n)))
			if err != nil {
				t.Fatal(err)
			}
			v, err := dte.Parse(n.JSON)
			if err != nil {
				t.Fatal(err)
			}
			amount, standing := engine.AmountOf(v.Get("resumen"), "totalGravada"), entry.State != record.Rejected &&
				entry.State != record.Invalidated
			switch {
			case !standing:
			case n.Document == "05":
				credited += amount
			case entry.State == record.Accepted && !h.Invalidation.Pending():
				credited -= amount
			}
			if standing {
				active++
			}
		}
		if got := w.Counter(original, record.LineCredited); got != int64(credited) || credited > 100*dte.Scale {
			t.Fatalf("%s credited of 100, counted are %s", credited, dte.Amount(got))
		}
		if got := w.Counter(original, record.LineActive); got != active {
			t.Fatalf("%d notes are in force, counted are %d", active, got)
		}
	}
	for _, what := range []string{"05 PROCESSED", "06 PROCESSED", "05 REJECTED", "05 CONTINGENCIA", "06 CONTINGENCIA",
		"invalidation true", "invalidation false"} {
		if done[what] == 0 {
			t.Errorf("never: %s, of %v", what, done)
		}
	}
}

// TestReturn_CreditHiddenByDebit: a debit note does not hide a credit note from a return of the same document.
func TestReturn_CreditHiddenByDebit(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	if err := w.Sim.Chaos(simulator.Chaos{LaxOrigins: true}); err != nil {
		t.Fatal(err)
	}
	sold := w.Issued(enginetest.Invoice("i", enginetest.Item(1, "1", "113")), record.EstadoProcessed)
	note := func(document, amount string) {
		t.Helper()
		r := enginetest.NoteOn(document, document, sold, enginetest.Item(1, "1", amount))
		r.Facts = r.Facts.With("receptor", enginetest.Taxpayer)
		w.Issued(r, record.EstadoProcessed)
	}
	note("06", "50")
	note("05", "30")
	_, err := w.Engine.Issue(context.Background(), enginetest.ReturnOf("r", sold, enginetest.Back(1, "1")))
	enginetest.Refused(t, err, refusal.CodeValidation, "cuerpoDocumento")
}

// TestClosing_NoteOnWithholding: a closing shows a note on a withholding voucher or a debit note on a purchase, and no
// sum of the day's net includes it. Today's rules refuse such a note: its record is made of a note on a voucher.
func TestClosing_NoteOnWithholding(t *testing.T) {
	for origin, notes := range map[string][]string{"07": {"05", "06"}, "14": {"06"}} {
		t.Run(origin, func(t *testing.T) { closingNotes(t, origin, notes) })
	}
}

func closingNotes(t *testing.T, origin string, notes []string) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	withheld := w.Issued(enginetest.Originals{}.Request(origin, "w"), record.EstadoProcessed)
	sold := w.Issued(enginetest.Voucher("v", enginetest.Item(1, "1", "100")), record.EstadoProcessed)
	net := func(groups, credits int) string {
		t.Helper()
		x, err := w.Engine.Documents().
			Closing(t.Context(), dte.Date(enginetest.Start), true, 1, enginetest.TestCaller(1), w.Now())
		if err != nil {
			t.Fatal(err)
		}
		if len(x.Groups) != groups || groups == 3 && x.Groups[1].Count != credits || x.Unread != 0 {
			t.Errorf("%+v", x)
		}
		return asText(t, x.Net)
	}
	before := net(2, 0)
	for i, document := range notes {
		note := w.Issued(
			enginetest.NoteOn(document, document, sold, enginetest.Item(1, "1", "10")),
			record.EstadoProcessed,
		)
		entry, h, err := record.Read(w.Store, storage.Code(enginetest.CodeOf(note)))
		if err != nil {
			t.Fatal(err)
		}
		if got := net(3+i, 1); got == before {
			t.Errorf("a %s on a sale changes nothing: %s", document, got)
		}
		before = net(3+i, 1)
		h.Origin = withheld.Code
		code, err := dte.NewCode(w.Engine.Opts().Rand)
		if err != nil {
			t.Fatal(err)
		}
		draft := storage.Draft{Code: storage.Code(code), State: record.Accepted, Days: h.Days()}
		if draft.Head, err = h.Encode(); err == nil {
			draft.Parts, err = w.Store.Parts(entry.Code)
		}
		if err == nil {
			_, err = w.Store.Append(t.Context(), storage.Keys{Series: "00/" + document + "/M001/P001/2026"}, draft)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := net(3+i, 2); got != before {
			t.Errorf("a %s on a %s changes the net from %s to %s", document, origin, before, got)
		}
	}
}

// TestValidate_ClosedType: a type that the branch does not issue is refused when a sale is only tried, too.
func TestValidate_ClosedType(t *testing.T) {
	w := enginetest.NewWorld(t)
	defer w.Close()
	w.Engine.Opts().Open = func(document string) bool { return document != "03" }
	_, err := w.Engine.Validate(t.Context(), enginetest.Voucher("", enginetest.Item(1, "1", "1")))
	enginetest.Refused(t, err, refusal.CodeTypeClosed, "")
	if _, err := w.Engine.Validate(t.Context(), enginetest.Invoice("", enginetest.Item(1, "1", "1"))); err != nil {
		t.Errorf("a type that is open: %v", err)
	}
}
