package contingency

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// reception is an authority that gives one answer to contingency events; "": none.
type reception string

func (a reception) RoundTrip(r *http.Request) (*http.Response, error) {
	text := `{"status":"OK","body":{"token":"Bearer t"}}`
	if !strings.HasSuffix(r.URL.Path, "/auth") {
		if text = string(a); text == "" {
			return nil, io.ErrUnexpectedEOF
		}
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text)), Header: http.Header{},
		Request: r}, nil
}

// TestEventFacts_Times: an event covers its documents to the second, and does not end after the moment of its sending.
func TestEventFacts_Times(t *testing.T) {
	c := &Contingency{branch: Branch{Issuer: record.Issuer{Ambiente: "00", Facts: dte.Obj()}}}
	began := time.Date(2026, 11, 30, 23, 59, 58, 999_000_000, dte.Zone)
	for _, s := range []struct {
		ended, now time.Duration // after the beginning
		want       string
	}{
		{time.Second, time.Minute, "2026-12-01 00:00:00"},             // 23:59:59.999
		{1001 * time.Millisecond, time.Minute, "2026-12-01 00:00:00"}, // 00:00:00 sharp
		{1002 * time.Millisecond, time.Minute, "2026-12-01 00:00:01"},
		{time.Hour, time.Minute, "2026-12-01 00:00:58"}, // a clock that was ahead
	} {
		v := c.eventFacts(&group{cause: 1}, &Event{Began: began, Ended: began.Add(s.ended)}, nil, dte.Code{},
			began.Add(s.now)).Get("motivo")
		if from, to := v.Get("fInicio").Text()+" "+v.Get("hInicio").Text(), v.Get("fFin").Text()+" "+
			v.Get("hFin").Text(); from != "2026-11-30 23:59:58" || to != s.want {
			t.Errorf("%v: from %s to %s, want %s", s, from, to, s.want)
		}
	}
}

// TestSendEvent: MH's answer to an event decides its state, the time of its documents, and what the event's bundle is
// judged by.
func TestSendEvent(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	due := now.Add(-time.Hour)
	const seal = `"selloRecibido":"20219E9D4DC0292F4681AD759B0B0F5CA99DC23G"`
	for name, c := range map[string]struct {
		answer reception
		state  storage.State
		sealed time.Time
		again  bool
		judged string
	}{
		"sealed": {`{"estado":"RECIBIDO",` + seal + `}`, record.EventAccepted, now, false, "[true]"},
		"refused": {`{"estado":"RECHAZADO","mensaje":"[motivo.fFin] NO VÁLIDO"}`,
			record.EventRejected, time.Time{}, false, "[false]"},
		"sealed before": {`{"estado":"RECHAZADO","mensaje":"YA EXISTE UN REGISTRO: [identificacion.codigoGeneracion]"}`,
			record.EventAccepted, due, true, "[true]"},
		"lists what MH has": {`{"estado":"RECHAZADO","mensaje":"YA EXISTE UN REGISTRO: [detalleDTE.codigoGeneracion]"}`,
			record.EventRejected, time.Time{}, false, "[false]"},
		"no answer": {"", record.EventSigned, time.Time{}, false, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newContingency(t, &moves{}, c.answer, now)
			w.branch.Store = newStore(t, now)
			var judged []bool
			w.branch.Documents.JudgeEvent = func(_ record.RuleRef, accepted bool) { judged = append(judged, accepted) }
			code, err := dte.NewCode(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			entry, err := w.appendRecord(t.Context(), "evento", code, record.EventSigned, &Event{Documents: 1},
				storage.Due{Queue: record.QueueEvent, At: due}, storage.Part{Name: partEvent, Data: []byte("jws")},
				codesPart(nil))
			if err != nil {
				t.Fatal(err)
			}
			h := &Event{Documents: 1}
			got, err := w.sendEvent(t.Context(), entry, h)
			if errors.Is(err, ErrAway) != (c.answer == "") || err != nil && c.answer != "" {
				t.Fatal(err)
			}
			limit := time.Time{}
			if !c.sealed.IsZero() {
				limit = c.sealed.Add(72 * time.Hour)
			}
			if got.State != c.state || !h.Sealed.Equal(c.sealed) || !h.Limit.Equal(limit) || h.Again != c.again ||
				fmt.Sprint(judged) != c.judged {
				t.Errorf("state %d, judged %v, %+v", got.State, judged, h)
			}
		})
	}
}

// TestDisperse: after each refusal of its event a document waits twice as long for the next event, at most an hour. The
// first time that MH says it knows the document, MH is queried at once.
func TestDisperse(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	names := func(known bool) *Event {
		words := map[bool]string{true: "ya existe", false: "no"}[known]
		return &Event{Documents: 1, Receipt: &authority.Receipt{Mensaje: words}}
	}
	for refusals, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		for _, c := range []struct {
			before, known bool
			want          time.Duration
		}{{false, false, want}, {true, false, want}, {true, true, want}, {false, true, 0}} {
			m := &moves{}
			w := newContingency(t, m, answers("none"), now)
			o := document{head: &record.Head{Refusals: refusals, Known: c.before, Event: "earlier"}}
			if err := w.disperse(t.Context(), o, "refused", names(c.known)); err != nil {
				t.Fatal(err)
			}
			if at := now.Add(c.want * time.Minute); m.to.To != record.Deferred || m.to.Due == nil ||
				*m.to.Due != (storage.Due{Queue: record.QueueReport, At: at}) || m.head.Refusals != refusals+1 ||
				m.head.Known != c.known || !m.head.Doubtful || m.head.Event != "refused" {
				t.Errorf("%d refusals before, known %v: %+v %+v", refusals, c, m.to, m.head)
			}
			m.head = nil
			o.head.Event = "refused" // a crash came after the move
			if err := w.disperse(t.Context(), o, "refused", names(c.known)); err != nil || m.head != nil {
				t.Errorf("moved again: %+v %v", m.head, err)
			}
		}
	}
}

// TestSpread: the documents of a sealed event are forwarded until its limit. If MH had the event already, an earlier
// process may have sent them: they are in doubt.
func TestSpread(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	for _, again := range []bool{false, true} {
		m := &moves{}
		o := document{head: &record.Head{Refusals: 3, Known: true, Doubtful: !again, Event: "earlier"}}
		h := &Event{Again: again, Limit: now.Add(time.Hour)}
		if err := newContingency(t, m, answers("none"), now).spread(t.Context(), o, "sealed", h); err != nil {
			t.Fatal(err)
		}
		if m.to.To != record.Reported || *m.to.Due != (storage.Due{Queue: record.QueueForward, At: now}) ||
			m.head.Event != "sealed" || !m.head.Limit.Equal(h.Limit) || m.head.Doubtful != again || m.head.Known ||
			m.head.Refusals != 0 {
			t.Errorf("MH had the event %v: %+v %+v", again, m.to, m.head)
		}
	}
}

// TestUndoubted: before an event, MH is asked for the documents that it may have. What MH lacks is listed, what MH
// lists in an event that the box does not know is forwarded, and a period waits for what is not decided for at most half
// of the law's time.
func TestUndoubted(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	const listed, forwarded, taken, waits, later = "listed", "forwarded", "adopted", "waits", "waits, its period does not"
	for name, c := range map[string]struct {
		mh    answers
		head  record.Head
		until time.Duration // how long ago
		want  string
	}{
		"never sent":                   {"silence", record.Head{}, time.Hour, listed},
		"MH has it":                    {"seal", record.Head{Doubtful: true}, time.Hour, taken},
		"MH lacks it":                  {"none", record.Head{Doubtful: true}, time.Hour, listed},
		"MH lists it":                  {"none", record.Head{Doubtful: true, Known: true, Refusals: 2}, time.Hour, forwarded},
		"MH has and lists it":          {"seal", record.Head{Doubtful: true, Known: true}, time.Hour, taken},
		"sent just now":                {"none", record.Head{Doubtful: true, Sent: now}, time.Hour, waits},
		"sent just now, long deferred": {"none", record.Head{Doubtful: true, Sent: now}, 12 * time.Hour, later},
		"almost half of the time":      {"none", record.Head{Doubtful: true, Sent: now}, 12*time.Hour - 1, waits},
		"deferred alone":               {"none", record.Head{Doubtful: true, Sent: now}, time.Hour, later},
		"from before a restoration":    {"seal", record.Head{}, time.Hour, taken},
	} {
		m, unripe := &moves{}, make(map[string]bool)
		c.head.CreatedAt, c.head.Until, c.head.Document = now.Add(-13*time.Hour), now.Add(-c.until), "01"
		if name != "deferred alone" {
			c.head.Period = "p"
		}
		w := newContingency(t, m, c.mh, now)
		if name == "from before a restoration" {
			w.branch.Sender.Lost = []authority.Span{{To: now.Add(-time.Hour)}}
		}
		w.branch.Lost = record.NewLostRecords(nil, w.branch.Logger)
		o := document{head: &c.head, entry: storage.Entry{State: record.Deferred, Due: &storage.Due{Queue: record.QueueReport,
			At: now}}}
		list, err := w.undoubted(t.Context(), []document{o}, unripe)
		got := "nothing"
		switch {
		case len(list) == 1 && m.head == nil:
			got = listed
		case m.adopted && len(list) == 0 && m.head == nil:
			got = taken
		case m.head != nil && m.to.To == record.Reported:
			if got = forwarded; m.to.Due.Queue != record.QueueForward || m.head.Doubtful || m.head.Known ||
				m.head.Refusals != 0 || !m.head.Limit.Equal(c.head.Until.Add(72*time.Hour)) {
				t.Errorf("%s: %+v %+v", name, m.to, m.head)
			}
		case m.head != nil && unripe["p"]:
			got = waits
		case m.head != nil:
			got = later
		}
		if err != nil || got != c.want || len(unripe) != map[bool]int{true: 1}[got == waits] {
			t.Errorf("%s: %s, want %s; unripe %v, %v", name, got, c.want, unripe, err)
		}
	}
}

// TestMakeEvents_PutOff: an event waits for a document of its period that is put off again and again, for at most half of
// the law's time. It does not wait for a document of a refused event, nor for another period's.
func TestMakeEvents_PutOff(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		putOff record.Head // of the document that is put off
		made   bool
	}{ // the other document is of the period p, unless no period is
		"just deferred":           {record.Head{Period: "p", Until: now.Add(-time.Hour)}, false},
		"almost half of the time": {record.Head{Period: "p", Until: now.Add(-12*time.Hour + 1)}, false},
		"half of the time":        {record.Head{Period: "p", Until: now.Add(-12 * time.Hour)}, true},
		"of a refused event":      {record.Head{Period: "p", Until: now.Add(-time.Hour), Refusals: 1}, true},
		"of another period":       {record.Head{Period: "other", Until: now.Add(-time.Hour)}, true},
		"of no period":            {record.Head{Until: now.Add(-time.Hour)}, true},
		"dated in the future":     {record.Head{Period: "p", Until: now.Add(-time.Hour), CreatedAt: now.Add(time.Second)}, true},
	} {
		w := newContingency(t, &moves{}, answers("none"), now)
		w.branch.Store = newStore(t, now)
		w.branch.Lost = record.NewLostRecords(w.branch.Store, w.branch.Logger)
		due := record.Head{Period: "p", Until: now.Add(-time.Hour)}
		if c.putOff.Period == "" {
			due.Period = ""
		}
		for i, h := range []record.Head{due, c.putOff} {
			head, err := json.Marshal(&h)
			if err != nil {
				t.Fatal(err)
			}
			due := storage.Due{Queue: record.QueueReport, At: now.Add(time.Duration(i) * time.Hour)}
			if _, err := w.branch.Store.Append(t.Context(), storage.Keys{Series: "00/x"}, storage.Draft{
				Code: storage.Code{byte(i + 1)}, State: record.Deferred, Head: head, Due: &due}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := w.makeEvents(t.Context())
		if made := err != nil && strings.Contains(err.Error(), "no rule for contingency events"); made != c.made {
			t.Errorf("%s: an event is made: %v, want %v: %v", name, made, c.made, err)
		}
	}
}

// TestMakeEvents_Listed: a document that waits is not listed again while its event is to be sent or sealed: MH has it,
// or will. A refused event's documents are listed again.
func TestMakeEvents_Listed(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	for state, want := range map[storage.State]bool{record.EventSigned: false, record.EventAccepted: false,
		record.EventRejected: true} {
		w := newContingency(t, &moves{}, answers("none"), now)
		w.branch.Store = newStore(t, now)
		w.branch.Lost = record.NewLostRecords(w.branch.Store, w.branch.Logger)
		entry, err := w.branch.Store.Append(t.Context(), storage.Keys{Series: "00/x"}, storage.Draft{
			Code: storage.Code{1}, State: record.Deferred, Head: []byte("{}"),
			Due: &storage.Due{Queue: record.QueueReport, At: now}})
		if err == nil {
			_, err = w.appendRecord(t.Context(), "evento", dte.Code{2}, state, &Event{},
				storage.Due{Queue: record.QueueEvent, At: now}, codesPart([]document{{entry: entry}}))
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.makeEvents(t.Context())
		if made := err != nil && strings.Contains(err.Error(), "no rule for contingency events"); made != want {
			t.Errorf("beside an event in state %d another is made: %v, want %v: %v", state, made, want, err)
		}
	}
}

// TestDrain_Again: while a step has progressed, all steps run again at once; the backlog does not wait for the next look.
func TestDrain_Again(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	w := newContingency(t, &moves{}, answers("none"), now)
	w.branch.Store, w.branch.Every = newStore(t, now), time.Minute
	w.branch.Lost = record.NewLostRecords(w.branch.Store, w.branch.Logger)
	rounds := 0
	w.branch.Documents.ExpireCorrections = func(context.Context) (bool, error) { rounds++; return false, nil }
	if _, err := w.appendRecord(t.Context(), "evento", dte.Code{1}, record.EventAccepted, &Event{},
		storage.Due{Queue: record.QueueEvent, At: now}, codesPart(nil)); err != nil {
		t.Fatal(err)
	}
	if next, err := w.drain(t.Context()); rounds != 2 || next != time.Minute || err != nil {
		t.Errorf("%d rounds, the next in %v: %v", rounds, next, err)
	}
}

// TestSetAsideUnlistable: exactly the documents that the event's layout refuses are set aside; any other fault is an
// error.
func TestSetAsideUnlistable(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		paths []string
		aside []int
	}{{[]string{"detalleDTE[1].tipoDoc"}, []int{1}}, {[]string{"detalleDTE[0].tipoDoc", "motivo", "detalleDTE[2].noItem"},
		[]int{0, 2}}, {[]string{"motivo.fFin"}, nil}, {[]string{"detalleDTE[3].tipoDoc", "detalleDTE[-1]"}, nil}} {
		w := newContingency(t, &moves{}, answers("none"), now)
		w.branch.Store = newStore(t, now)
		w.branch.Lost = record.NewLostRecords(w.branch.Store, w.branch.Logger)
		g := &group{}
		for i := range 3 {
			entry, err := w.branch.Store.Append(t.Context(), storage.Keys{Series: "00/x"}, storage.Draft{
				Code: storage.Code{byte(i)}, State: record.Deferred, Head: []byte("{}"),
				Due: &storage.Due{Queue: record.QueueReport, At: now}})
			if err != nil {
				t.Fatal(err)
			}
			g.documents = append(g.documents, document{entry: entry, head: &record.Head{}})
		}
		var faults []dte.Fault
		for _, path := range c.paths {
			faults = append(faults, dte.Fault{Path: path, Code: dte.FaultEnum})
		}
		if err := w.setAsideUnlistable(t.Context(), g, faults); (err == nil) != (len(c.aside) > 0) {
			t.Errorf("%v: %v", c.paths, err)
		}
		lost, err := w.branch.Store.Due(record.QueueLost, record.Whenever, 9)
		var got []int
		for _, entry := range lost {
			got = append(got, int(entry.Code[0]))
		}
		if slices.Sort(got); err != nil || !slices.Equal(got, c.aside) {
			t.Errorf("%v: %v are set aside, want %v: %v", c.paths, got, c.aside, err)
		}
	}
}

// TestUnripePeriods: a period may resume shortly after its end; a period of a clock that was ahead ends now; a period
// that ended long ago leaves the queue.
func TestUnripePeriods(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		ended        time.Duration // ago
		open         bool
		unripe, gone bool
		now          bool // the period ends now
	}{
		{open: true, unripe: true},
		{ended: reportAfter - 1, unripe: true},
		{ended: reportAfter},
		{ended: -reportAfter, unripe: true},
		{ended: -reportAfter - 1, unripe: true, now: true},
		{ended: -24 * time.Hour, unripe: true, now: true},
		{ended: 48 * time.Hour},
		{ended: 48*time.Hour + 1, gone: true},
	} {
		w := newContingency(t, &moves{}, sending{}, now)
		w.branch.Store = newStore(t, now)
		p := &Period{Began: now.Add(-60 * time.Hour), code: dte.Code{1}}
		if !c.open {
			p.Ended = now.Add(-c.ended)
		}
		if _, err := w.appendRecord(t.Context(), "contingencia", p.code, record.PeriodEnded, p,
			storage.Due{Queue: record.QueuePeriod, At: p.Began}); err != nil {
			t.Fatal(err)
		}
		unripe, err := w.unripePeriods()
		if err != nil || unripe[p.Code()] != c.unripe || len(unripe) > 1 {
			t.Errorf("%+v: unripe %v, %v", c, unripe, err)
		}
		list, err := w.periods()
		if err != nil || len(list) == 1 == c.gone || !c.gone && list[0].Ended.Equal(now) != c.now {
			t.Errorf("%+v: afterwards %+v, %v", c, list, err)
		}
	}
}

// TestPeriods_LostEnd: of the periods that have no end, only the one that was recorded last is open, whatever the clock
// said; the store has lost the end of each other, which ends when the next begins.
func TestPeriods_LostEnd(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	w := newContingency(t, &moves{}, sending{}, now)
	w.branch.Store = newStore(t, now)
	for i, p := range []Period{{Began: now.Add(-10 * time.Hour)},
		{Began: now.Add(-5 * time.Hour), Ended: now.Add(-4 * time.Hour)},
		{Began: now.Add(24 * time.Hour)}, {Began: now.Add(-time.Hour)}} {
		if _, err := w.appendRecord(t.Context(), "contingencia", dte.Code{byte(i + 1)}, record.PeriodOpen, &p,
			storage.Due{Queue: record.QueuePeriod, At: p.Began}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := w.periods()
	if err != nil || len(list) != 4 {
		t.Fatal(list, err)
	}
	for i, ended := range []time.Duration{-5, -4, -1} {
		if !list[i].Ended.Equal(now.Add(ended * time.Hour)) {
			t.Errorf("period %d ended at %v", i+1, list[i].Ended)
		}
	}
	c, err := New(w.branch, Options{})
	if err != nil || c.Current() == nil || c.Current().Code() != list[3].Code() || !list[3].Ended.IsZero() {
		t.Errorf("open is %+v: %v", c.Current(), err)
	}
}

// TestGroups: an event has documents of one period, cause, motive, establishment and number of refusals, in their
// order, each document once, and no more than its limit; after refusals a quarter of the limit, down to one.
func TestGroups(t *testing.T) {
	dice := mathrand.New(mathrand.NewPCG(1, 1))
	const limit = 20
	var list []document
	for i := range 4000 {
		pick := func(of ...string) string { return of[dice.IntN(len(of))] }
		list = append(list, document{entry: storage.Entry{ID: uint64(i)}, head: &record.Head{Period: pick("", "a", "b"),
			Motive: pick("", "luz"), Cause: int64(1 + dice.IntN(2)), Refusals: dice.IntN(4),
			ControlNumber: "DTE-01-" + pick("M001", "M002") + "P001-000000000000001"}})
	}
	type kind struct {
		period, motive, establishment string
		cause                         int64
		refusals                      int
	}
	seen, events, documents := 0, make(map[kind]int), make(map[kind]int)
	for _, g := range groups(list, limit) {
		var first *record.Head
		last := -1
		for _, o := range g.documents {
			if first == nil {
				first = o.head
			}
			where, _ := record.EstablishmentOf(o.head, record.Point{})
			if o.head.Period != g.period || o.head.Motive != g.motive || o.head.Cause != g.cause ||
				o.head.Refusals != first.Refusals || where != g.establishment || int(o.entry.ID) <= last {
				t.Fatalf("%+v in an event of %+v", o.head, g)
			}
			last = int(o.entry.ID)
			seen++
		}
		k := kind{g.period, g.motive, g.establishment, g.cause, first.Refusals}
		events[k]++
		documents[k] += len(g.documents)
		if most := []int{limit, limit, limit / 4, 1}[first.Refusals]; len(g.documents) > most {
			t.Errorf("%d documents after %d refusals", len(g.documents), first.Refusals)
		}
	}
	for kind, n := range documents {
		if most := []int{limit, limit, limit / 4, 1}[kind.refusals]; events[kind] != (n+most-1)/most {
			t.Errorf("%d documents after %d refusals are in %d events", n, kind.refusals, events[kind])
		}
	}
	if seen != len(list) {
		t.Errorf("%d of %d documents are in events", seen, len(list))
	}
}
