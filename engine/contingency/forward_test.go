package contingency

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/fairqueue"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/storage"
	"dtegate/storage/disktest"
)

// answers is an authority that gives one answer to queries: "seal", "none" (it does not hold the document) or
// "silence".
type answers string

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	var asked []byte
	if r.Body != nil {
		asked, _ = io.ReadAll(r.Body)
	}
	status, text := http.StatusNotFound, ""
	switch {
	case strings.HasSuffix(r.URL.Path, "/auth"):
		status, text = http.StatusOK, `{"status":"OK","body":{"token":"Bearer t"}}`
	case a == "silence":
		return nil, io.ErrUnexpectedEOF
	case a == "seal":
		code := asked[bytes.Index(asked, []byte(`"codigoGeneracion":"`))+20:][:36]
		status, text = http.StatusOK,
			fmt.Sprintf(`{"estado":"PROCESADO","codigoGeneracion":%q,"selloRecibido":"20219E9D4DC0292F4681AD759B0B0F5CA99DC23G"}`, code)
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text)), Header: http.Header{},
		Request: r}, nil
}

// moves records the moves of documents; methods that it does not override are not called.
type moves struct {
	Documents
	err     error // of every move
	to      storage.Change
	head    *record.Head
	adopted bool
}

func (m *moves) Move(_ context.Context, e storage.Entry, c storage.Change, h *record.Head) (storage.Entry, error) {
	m.to, m.head = c, h
	return e, m.err
}

func (m *moves) AdoptHeld(_ context.Context, e storage.Entry, _ *record.Head, _ *authority.Response,
	_ time.Duration) (storage.Entry, error) {
	m.adopted = true
	return e, m.err
}

// newContingency is a contingency without a store: it moves documents, and asks an authority.
func newContingency(t *testing.T, m *moves, way http.RoundTripper, now time.Time) *Contingency {
	t.Helper()
	book, err := rulestore.NewBook(nil, nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return now }
	client := authority.New(authority.Options{BaseURL: "http://mh", NIT: "06140101901019", Password: "secreto",
		Ambiente:  "00",
		UserAgent: "dtegate", Now: clock, Transport: way})
	c := &Contingency{metrics: newMetrics(), suspicion: fairqueue.NewBell(), branch: Branch{Documents: Documents{Move: m.Move, AdoptHeld: m.AdoptHeld},
		Now:    clock,
		SendID: func() int64 { return 1 },
		Rules:  func() *rulestore.Book { return book }, Logger: slog.New(slog.DiscardHandler),
		Sender: &authority.Sender{DoubtFor: 2 * time.Minute, Client: client, Now: clock, Away: func() bool { return false },
			Suspect: func() {}}}}
	c.branch.Issuer.Ambiente = "00"
	return c
}

// newStore is an empty store.
func newStore(t *testing.T, now time.Time) *storage.Store {
	t.Helper()
	o := storage.Options{Dir: "/data", MarkPath: "/mark", FS: disktest.New(disktest.Strict),
		Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler)}
	if err := storage.Create(o); err != nil {
		t.Fatal(err)
	}
	store, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// TestTimeToNext: the loop wakes when the first record of any of its queues is due.
func TestTimeToNext(t *testing.T) {
	at := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	for _, queue := range []string{record.QueueLot, record.QueueEvent, record.QueueReport, record.QueueForward} {
		w := newContingency(t, &moves{}, sending{}, at)
		w.branch.Store, w.branch.Every = newStore(t, at), time.Minute
		for _, wait := range []time.Duration{2 * time.Minute, 40 * time.Second, lotPoll / 2} {
			if _, err := w.branch.Store.Append(t.Context(), storage.Keys{Series: "00/x"}, storage.Draft{
				Code: storage.Code{byte(wait / time.Second)}, Due: &storage.Due{Queue: queue, At: at.Add(wait)}}); err != nil {
				t.Fatal(err)
			}
			want := max(min(wait, w.branch.Every), lotPoll)
			if got, err := w.timeToNext(); err != nil || got != want {
				t.Errorf("%s, due in %v: the loop waits %v, want %v: %v", queue, wait, got, want, err)
			}
		}
	}
}

// TestRecordAnswer: the state of a document after MH's answer and, if MH refuses it, after MH's answer to a query about
// an earlier sending. Only a certain answer decides: otherwise the document stays in doubt, in the queue, with the time
// of its sending.
func TestRecordAnswer(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	const adopted, doubt = storage.State(250), storage.State(251)
	for name, c := range map[string]struct {
		kind  authority.Kind
		query answers
		ago   time.Duration // of an earlier sending without an answer; 0: none
		code  string        // MH's, of a refusal
		text  string        // MH's words
		want  storage.State
	}{
		"accepted":          {kind: authority.Accepted, want: record.Accepted},
		"no answer":         {kind: authority.Unknown, want: doubt},
		"refused, and held": {kind: authority.Rejected, query: "seal", ago: time.Minute, want: adopted},
		"refused, and nobody says whether it is held": {kind: authority.Rejected, query: "silence", ago: time.Hour,
			want: doubt},
		"refused at once, silence": {kind: authority.Rejected, query: "silence", want: doubt},
		"refused, not held, sent a minute ago": {kind: authority.Rejected, query: "none", ago: time.Minute,
			want: doubt},
		"refused, not held, sent two minutes ago": {kind: authority.Rejected, query: "none", ago: 2 * time.Minute,
			want: record.Rejected},
		"refused, not held, never sent before": {kind: authority.Rejected, query: "none",
			want: record.Rejected},
		"refused for its number, of which MH has none": {kind: authority.Rejected, query: "none",
			code: authority.CodeRegistered, text: "YA EXISTE UN REGISTRO CON ESE VALOR: [identificacion.numeroControl]",
			want: record.Rejected},
		"refused for its own code, which MH does not find": {kind: authority.Rejected, query: "none",
			code: authority.CodeRegistered, want: doubt,
			text: "YA EXISTE UN REGISTRO CON ESE VALOR: [identificacion.codigoGeneracion]"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &moves{}
			w := newContingency(t, m, c.query, now)
			taken := ""
			w.branch.Sender.Taken = func(code, _ string) { taken = code }
			o := document{entry: storage.Entry{Code: storage.Code{1}, State: record.Reported},
				head: &record.Head{Document: "01", CreatedAt: now.Add(-time.Hour), Doubtful: true}}
			if c.ago > 0 {
				o.head.Sent = now.Add(-c.ago)
			}
			w.sizes.shrink([]document{o})
			out := authority.Outcome{Kind: c.kind, Sent: true, Response: &authority.Response{CodigoMsg: c.code,
				DescripcionMsg: c.text}}
			if err := w.recordAnswer(t.Context(), o, out); err != nil {
				t.Fatal(err)
			}
			switch c.want {
			case adopted:
				if !m.adopted || m.head != nil {
					t.Errorf("%+v", m)
				}
				return
			case doubt:
				if m.to.To != record.Reported || m.to.Due == nil ||
					*m.to.Due != (storage.Due{Queue: record.QueueForward, At: now.Add(2 * time.Minute)}) ||
					!m.head.Doubtful || !m.head.Sent.Equal(now) || !m.head.Forwarded.Equal(o.head.CreatedAt) ||
					m.head.Response != nil || taken != "" {
					t.Errorf("not in doubt: %+v, %+v; number taken by %q", m.to, m.head, taken)
				}
				return
			}
			if m.adopted || m.to.To != c.want || !m.to.Announce || m.head.Doubtful || m.head.Response != out.Response ||
				w.sizes.sizeFor(o.entry.Code, 9) != 9 {
				t.Errorf("%+v, %+v", m.to, m.head)
			}
			if c.want == record.Rejected {
				due := &storage.Due{Queue: record.QueueCorrect, At: now.Add(24 * time.Hour)}
				if c.code == authority.CodeRegistered {
					due = nil
				}
				if !m.head.Refused.Equal(now) || (m.to.Due == nil) != (due == nil) || due != nil && *m.to.Due != *due ||
					(taken != "") != (due == nil) {
					t.Errorf("refused at %v, due %+v, number taken by %q", m.head.Refused, m.to.Due, taken)
				}
			}
		})
	}
}

// TestNoteFirst: only the first sending of a form sets its time; the latest correction has its own.
func TestNoteFirst(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	w := &Contingency{branch: Branch{Now: clock,
		Sender: &authority.Sender{Client: authority.New(authority.Options{BaseURL: "http://mh", Now: clock,
			Transport: answers("none")})}}}
	earlier := now.Add(-time.Hour)
	for name, c := range map[string]struct{ head, want record.Head }{
		"never sent": {record.Head{}, record.Head{Forwarded: now}},
		"sent":       {record.Head{Forwarded: earlier}, record.Head{Forwarded: earlier}},
		"corrected": {record.Head{Form: record.FormCorrection + "2", Forwarded: earlier,
			Corrections: []record.Correction{{Forwarded: earlier}, {}}},
			record.Head{Corrections: []record.Correction{{Forwarded: earlier}, {Forwarded: now}}, Forwarded: earlier}},
		"corrected and sent": {record.Head{Form: record.FormCorrection + "1",
			Corrections: []record.Correction{{Forwarded: earlier}}},
			record.Head{Corrections: []record.Correction{{Forwarded: earlier}}}},
	} {
		given := append([]record.Correction(nil), c.head.Corrections...)
		h := c.head
		w.noteFirst(&h)
		if !h.Forwarded.Equal(c.want.Forwarded) {
			t.Errorf("%s: %v", name, h.Forwarded)
		}
		for i, n := range h.Corrections {
			if !n.Forwarded.Equal(c.want.Corrections[i].Forwarded) ||
				!c.head.Corrections[i].Forwarded.Equal(given[i].Forwarded) {
				t.Errorf("%s: correction %d was sent at %v", name, i+1, n.Forwarded)
			}
		}
	}
}

// TestMoves_Fail: an error of the store ends the work on a document, whatever MH answers.
func TestMoves_Fail(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	failed := errors.New("the disk is full")
	for name, do := range map[string]func(*Contingency, document) error{
		"spread": func(w *Contingency, o document) error { return w.spread(t.Context(), o, "e", &Event{}) },
		"disperse": func(w *Contingency, o document) error {
			return w.disperse(t.Context(), o, "e", &Event{Receipt: &authority.Receipt{}})
		},
		"accepted": func(w *Contingency, o document) error {
			return w.recordAnswer(t.Context(), o, authority.Outcome{Kind: authority.Accepted})
		},
		"refused": func(w *Contingency, o document) error {
			return w.recordAnswer(t.Context(), o, authority.Outcome{Kind: authority.Rejected, Response: &authority.Response{}})
		},
		"no answer":  func(w *Contingency, o document) error { return w.recordAnswer(t.Context(), o, authority.Outcome{}) },
		"forwardOne": func(w *Contingency, o document) error { return w.forwardOne(t.Context(), o) },
		"lookUp":     func(w *Contingency, o document) error { _, err := w.lookUp(t.Context(), o); return err },
		"undoubted": func(w *Contingency, o document) error {
			_, err := w.undoubted(t.Context(), []document{o}, make(map[string]bool))
			return err
		},
	} {
		for _, mh := range []answers{"seal", "none"} {
			if name == "lookUp" && mh == "none" {
				continue // nothing is moved
			}
			w := newContingency(t, &moves{err: failed}, mh, now)
			w.branch.Lost = record.NewLostRecords(nil, w.branch.Logger)
			o := document{head: &record.Head{Document: "01", Doubtful: true, Known: true, CreatedAt: now.Add(-time.Hour)},
				entry: storage.Entry{State: record.Reported, Due: &storage.Due{Queue: record.QueueForward, At: now}}}
			if err := do(w, o); !errors.Is(err, failed) {
				t.Errorf("%s, MH answers %s: %v", name, mh, err)
			}
		}
	}
}

// TestLeave: a period ends with the next whole second, so that no document of the period is later.
func TestLeave(t *testing.T) {
	for _, part := range []time.Duration{0, 1, 999_999_999} {
		now := time.Date(2027, 3, 1, 14, 0, 0, int(part), time.UTC)
		w := newContingency(t, &moves{}, answers("none"), now)
		w.branch.Store, w.branch.Rand = newStore(t, now), rand.Reader
		if err := w.enter(t.Context(), Period{Began: now.Add(-time.Hour), Cause: 1}); err != nil {
			t.Fatal(err)
		}
		if err := w.leave(t.Context()); err != nil || w.Current() != nil {
			t.Fatal(err)
		}
		list, err := w.periods()
		if want := now.Truncate(time.Second).Add(time.Second); err != nil || len(list) != 1 || !list[0].Ended.Equal(want) {
			t.Errorf("left at %v: %+v, %v", now, list, err)
		}
		for i, later := range []time.Duration{-time.Hour, time.Hour} { // neither resumes it: the clock was set back
			w.branch.Now = func() time.Time { return now.Add(later) }
			if err := w.enter(t.Context(), Period{Began: now.Add(later), Cause: 1}); err != nil ||
				w.Current().Resumed > 0 || w.leave(t.Context()) != nil {
				t.Errorf("entered %v later: %+v, %v", later, w.Current(), err)
			}
			if list, err := w.periods(); err != nil || len(list) != 2+i {
				t.Errorf("entered %v later: %+v, %v", later, list, err)
			}
		}
	}
}

// TestWaitingStretches: a contingency with documents that wait for their event is there, also days after its end; one
// that MH has the event of is not, unless it continues.
func TestWaitingStretches(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	w := newContingency(t, &moves{}, answers("none"), now)
	w.branch.Store = newStore(t, now)
	unreported := make(map[string]bool)
	var want []time.Time
	for i, c := range []struct {
		began, ended  time.Duration // ago
		queued, waits bool
	}{{300 * time.Hour, 290 * time.Hour, false, true}, {200 * time.Hour, 190 * time.Hour, false, false},
		{140 * time.Hour, 130 * time.Hour, true, false}, {60 * time.Hour, 50 * time.Hour, true, true},
		{20 * time.Hour, 0, true, false}} { // the last continues
		code, err := dte.NewCode(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		p := &Period{Began: now.Add(-c.began), Ended: now.Add(-c.ended), Cause: int64(i), code: code}
		if c.ended == 0 {
			p.Ended = time.Time{}
			want = append(want, p.Began)
		}
		entry, err := w.appendRecord(t.Context(), "contingencia", code, record.PeriodEnded, p,
			storage.Due{Queue: record.QueuePeriod, At: p.Began})
		if err == nil && !c.queued {
			_, err = w.moveRecord(t.Context(), entry, record.PeriodEnded, p, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		if c.waits {
			unreported[code.String()], want = true, append(want, p.Began)
		}
	}
	list, err := w.waitingStretches(unreported)
	var got []time.Time
	for _, s := range list {
		got = append(got, s.began)
	}
	if err != nil || !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("contingencies of %v, want %v: %v", got, want, err)
	}
}

// TestLotSizes: the documents of a lot that MH refused are sent in halves of it, down to one, until MH has decided
// them; other documents keep their lot size.
func TestLotSizes(t *testing.T) {
	var l lotSizes
	lot := make([]document, 7)
	for i := range lot {
		lot[i].entry.Code = storage.Code{byte(i + 1)}
	}
	for _, want := range []int{4, 2, 1, 1} {
		l.shrink(lot)
		for _, o := range lot {
			if got := l.sizeFor(o.entry.Code, 100); got != want {
				t.Fatalf("%d after a lot of %d", got, len(lot))
			}
		}
		lot = lot[:want]
	}
	if l.sizeFor(storage.Code{5}, 100) != 4 || l.sizeFor(storage.Code{5}, 3) != 3 || l.sizeFor(storage.Code{99},
		100) != 100 {
		t.Error("of a half that was not sent, of a smaller bound, of another document")
	}
	if l.Delete(lot[0].entry.Code); l.sizeFor(lot[0].entry.Code, 100) != 100 {
		t.Error("a decided document is remembered")
	}
}

// TestLotSizes_Next: a lot is too large for none of its documents, and could not be larger.
func TestLotSizes_Next(t *testing.T) {
	dice := mathrand.New(mathrand.NewPCG(2, 2))
	for range 2000 {
		var l lotSizes
		list, sizes, most := make([]document, 1+dice.IntN(12)), make([]int, 12), 1+dice.IntN(10)
		for i := range list {
			list[i].entry.Code = storage.Code{byte(i + 1)}
			if sizes[i] = most; dice.IntN(3) == 0 {
				sizes[i] = 1 + dice.IntN(12)
				l.Store(list[i].entry.Code, sizes[i])
			}
		}
		fits := func(n int) bool {
			return n <= min(most, len(list)) && (n == 0 || slices.Min(sizes[:n]) >= n)
		}
		want := 1
		for n := range most + 1 {
			if fits(n) {
				want = max(want, n)
			}
		}
		if n := l.next(list, most); n != want {
			t.Fatalf("%d of %d documents of sizes %v, at most %d: want %d", n, len(list), sizes[:len(list)], most, want)
		}
	}
}

// sending is an authority that also answers a sent document: "refusal", "noise" (which may be anybody's) or "cable" (it
// is cut).
type sending struct {
	sent  string
	query answers
}

func (a sending) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/recepciondte") {
		return a.query.RoundTrip(r)
	}
	status, text := http.StatusOK, "<html>"
	switch a.sent {
	case "cable":
		return nil, syscall.ECONNREFUSED
	case "refusal":
		status, text = http.StatusBadRequest, `{"estado":"RECHAZADO","codigoGeneracion":"01000000-0000-0000-0000-000000000000","selloRecibido":null,"codigoMsg":"096"}`
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text)), Header: http.Header{},
		Request: r}, nil
}

// TestForwardOne: that a document is sent is recorded before. A document that certainly did not reach
// MH is as before; a document that may have is in doubt, and MH is probed; a refusal of the only sending is final, even
// soon after the sending.
func TestForwardOne(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	for sent, c := range map[string]struct {
		want      storage.State
		due       *storage.Due
		suspicion bool
		err       error
	}{
		"cable": {want: record.Reported, due: &storage.Due{Queue: record.QueueForward, At: now.Add(-time.Minute)},
			err: ErrAway},
		"noise": {want: record.Reported, due: &storage.Due{Queue: record.QueueForward, At: now.Add(2 * time.Minute)},
			suspicion: true},
		"refusal": {want: record.Rejected, due: &storage.Due{Queue: record.QueueCorrect, At: now.Add(24 * time.Hour)}},
	} {
		m := &moves{}
		w := newContingency(t, m, watched{sending{sent, "none"}, func(asked []byte) {
			if h := m.head; m.to.To != record.Reported || m.to.Due.Queue != record.QueueForward || !h.Doubtful ||
				!h.Sent.Equal(now) || h.Forwarded.IsZero() {
				t.Errorf("before it is sent: %+v %+v", m.to, h)
			}
		}}, now)
		o := document{head: &record.Head{Document: "01", CreatedAt: now.Add(-time.Hour)},
			entry: storage.Entry{Code: storage.Code{1}, State: record.Reported,
				Due: &storage.Due{Queue: record.QueueForward, At: now.Add(-time.Minute)}}}
		if err := w.forwardOne(t.Context(), o); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", sent, err)
		}
		if m.to.To != c.want || m.to.Due == nil || *m.to.Due != *c.due || (len(w.suspicion) > 0) != c.suspicion {
			t.Errorf("%s: %+v due %+v, suspicion %v", sent, m.to, m.to.Due, len(w.suspicion) > 0)
		}
		if sent == "cable" && (m.head.Doubtful || !m.head.Sent.IsZero() || !m.head.Forwarded.IsZero()) {
			t.Errorf("what MH never got is taken for sent: %+v", m.head)
		}
	}
}

// watched calls a function with each request that carries documents, before the authority gets it.
type watched struct {
	http.RoundTripper
	before func(asked []byte)
}

func (w watched) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "/recepcionlote") || strings.HasSuffix(r.URL.Path, "/recepciondte") {
		asked, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(asked))
		w.before(asked)
	}
	return w.RoundTripper.RoundTrip(r)
}

// lotReception is an authority that gives one answer to a lot; "": it refuses connections.
type lotReception string

func (a lotReception) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.Path, "/recepcionlote") {
		return answers("none").RoundTrip(r)
	} else if a == "" {
		return nil, syscall.ECONNREFUSED
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(a))),
		Header: http.Header{}, Request: r}, nil
}

// TestSendLot: the first sending of a form is recorded before its lot is sent. MH certainly has not received a lot: each
// document is as it was before, and none counts as sent. A refused lot is closed, and its documents go into smaller
// lots. A received lot, and a lot without an answer, stay open.
func TestSendLot(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		answer     lotReception
		err        error
		open       time.Duration // until the next query; 0: the lot is closed
		head       lotHead
		size       int // of the next lot with one of its documents
		undone     bool
		suspicious bool
	}{
		"not reached": {err: ErrAway, undone: true, size: 100},
		"received": {answer: `{"estado":"RECIBIDO","codigoLote":"L1"}`, open: lotPoll, size: 100,
			head: lotHead{Code: "L1", Sent: now, Documents: 3}},
		"refused": {answer: `{"estado":"RECHAZADO","codigoMsg":"096"}`, size: 2},
		"noise": {answer: "<html>", open: lotPatience, size: 100, suspicious: true,
			head: lotHead{Sent: now, Documents: 3, Doubtful: true}},
	} {
		var mu sync.Mutex
		heads := make(map[storage.Code]*record.Head) // as recorded last
		w := newContingency(t, &moves{}, watched{c.answer, func(asked []byte) {
			for _, jws := range []string{"one", "two", "three"} {
				if !bytes.Contains(asked, []byte(jws)) {
					t.Errorf("%s: the lot lacks %s", name, jws)
				}
			}
			if len(heads) != 2 || heads[storage.Code{2}].Forwarded.IsZero() ||
				heads[storage.Code{3}].Corrections[0].Forwarded.IsZero() {
				t.Errorf("%s: before the lot is sent: %+v", name, heads)
			}
		}}, now)
		w.branch.Store, w.branch.Rand = newStore(t, now), rand.Reader
		w.branch.Lost = record.NewLostRecords(w.branch.Store, w.branch.Logger)
		w.branch.Documents.Move = func(_ context.Context, e storage.Entry, c storage.Change, h *record.Head) (storage.Entry,
			error) {
			mu.Lock()
			defer mu.Unlock()
			if c.To != record.Reported || c.Due == nil || *c.Due != *e.Due {
				t.Errorf("%v moves to %+v", e.Code, c)
			}
			heads[e.Code] = h
			return e, nil
		}
		var list []document
		before := map[storage.Code]record.Head{
			{1}: {Document: "01", CreatedAt: now.Add(-time.Hour)},
			{2}: {Document: "01", CreatedAt: now.Add(-time.Hour), Sent: now.Add(-time.Hour)}, // in the normal form
			{3}: {Document: "01", CreatedAt: now.Add(-time.Hour), Form: record.FormCorrection + "1",
				Corrections: []record.Correction{{At: now}}},
		}
		for code, jws := range map[storage.Code]string{{1}: "one", {2}: "two", {3}: "three"} {
			h := before[code]
			list = append(list, document{head: &h, jws: []byte(jws), entry: storage.Entry{Code: code, State: record.Reported,
				Due: &storage.Due{Queue: record.QueueForward, At: now.Add(-time.Minute)}}})
		}
		if err := w.makeLot(t.Context(), list); !errors.Is(err, c.err) {
			t.Fatalf("%s: %v", name, err)
		}
		for code, h := range heads {
			got, err := json.Marshal(h)
			want, _ := json.Marshal(before[code])
			if err != nil || bytes.Equal(got, want) != c.undone {
				t.Errorf("%s: %s, it was %s", name, got, want)
			}
		}
		open, err := w.branch.Store.Due(record.QueueLot, record.Whenever, 9)
		if err != nil || (len(open) > 0) != (c.open > 0) {
			t.Fatalf("%s: open lots %+v, %v", name, open, err)
		}
		if len(open) > 0 {
			h, err := decode[lotHead](open[0])
			if err != nil || *h != c.head || !open[0].Due.At.Equal(now.Add(c.open)) {
				t.Errorf("%s: the open lot is %+v, due at %v, %v", name, h, open[0].Due.At, err)
			}
		}
		for _, o := range list {
			if size := w.sizes.sizeFor(o.entry.Code, 100); size != c.size {
				t.Errorf("%s: the next lot has %d documents, want %d", name, size, c.size)
			}
		}
		if (len(w.suspicion) > 0) != c.suspicious {
			t.Errorf("%s: suspicion %v", name, len(w.suspicion) > 0)
		}
	}
}

// TestPollLot: the results of a lot decide its documents, but not a document that was corrected since: they are about its
// earlier form. Until each document has a result the lot stays open, at most lotPatience; then the others are queried.
func TestPollLot(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	const earlier = record.FormCorrection + "1"
	heads := []record.Head{{}, {Form: earlier, Corrections: []record.Correction{{At: now}}},
		{Form: earlier, Corrections: []record.Correction{{At: now, Forwarded: now}}}, {}}
	for name, c := range map[string]struct {
		sent   time.Duration // ago
		status int
		query  answers
		want   [4]string // what becomes of each document
		open   bool
	}{
		"in part": {lotPatience, http.StatusOK, "seal", [4]string{"adopted", "", "adopted", ""}, true},
		"refused": {lotPatience + 1, http.StatusOK, "none", [4]string{"refused", "", "refused", ""}, false},
		"sealed":  {lotPatience + 1, http.StatusOK, "seal", [4]string{"adopted", "", "adopted", "adopted"}, false},
		"working": {lotPatience, http.StatusNoContent, "none", [4]string{}, true},
		"stuck":   {lotPatience + 1, http.StatusNoContent, "none", [4]string{}, false},
		"silent":  {lotPatience + 1, http.StatusNoContent, "seal", [4]string{"adopted", "", "adopted", "adopted"}, false},
	} {
		var codes []string
		w := newContingency(t, &moves{}, tripper(func(r *http.Request) (*http.Response, error) {
			if !strings.Contains(r.URL.Path, "/consultadtelote") {
				return c.query.RoundTrip(r)
			}
			var list []string
			for _, code := range codes[:3] { // the last has no result
				list = append(list, fmt.Sprintf(`{"estado":"RECHAZADO","codigoGeneracion":%q,"codigoMsg":"096"}`, code))
			}
			text := `{"procesados":[],"rechazados":[` + strings.Join(list, ",") + `]}`
			return &http.Response{StatusCode: c.status, Body: io.NopCloser(strings.NewReader(text)),
				Header: http.Header{}, Request: r}, nil
		}), now)
		w.branch.Store = newStore(t, now)
		w.branch.Lost = record.NewLostRecords(w.branch.Store, w.branch.Logger)
		var list []document
		for _, h := range heads {
			code, err := dte.NewCode(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			h.Document, h.CreatedAt = "01", now.Add(-time.Hour)
			head, err := json.Marshal(&h)
			if err != nil {
				t.Fatal(err)
			}
			due := storage.Due{Queue: record.QueueForward, At: now}
			if _, err := w.branch.Store.Append(t.Context(), storage.Keys{Series: "00/x"}, storage.Draft{
				Code: storage.Code(code), State: record.Reported, Head: head, Due: &due}); err != nil {
				t.Fatal(err)
			}
			codes = append(codes, code.String())
			list = append(list, document{entry: storage.Entry{Code: storage.Code(code)}})
		}
		var mu sync.Mutex
		got := make(map[string]string)
		note := func(e storage.Entry, what string) (storage.Entry, error) {
			mu.Lock()
			defer mu.Unlock()
			got[dte.Code(e.Code).String()] += what
			return e, nil
		}
		w.branch.Documents.Move = func(_ context.Context, e storage.Entry, c storage.Change, _ *record.Head) (storage.Entry,
			error) {
			return note(e, map[storage.State]string{record.Rejected: "refused"}[c.To])
		}
		w.branch.Documents.AdoptHeld = func(_ context.Context, e storage.Entry, _ *record.Head, _ *authority.Response,
			_ time.Duration) (storage.Entry, error) {
			return note(e, "adopted")
		}
		lot, err := w.appendRecord(t.Context(), "lote", dte.Code{9}, record.LotOpen, &lotHead{Code: "L1",
			Sent: now.Add(-c.sent), Documents: len(list)}, storage.Due{Queue: record.QueueLot, At: now}, codesPart(list))
		if err != nil {
			t.Fatal(err)
		}
		if done, err := w.pollLot(t.Context(), lot); err != nil || done == c.open {
			t.Errorf("%s: done %v, %v", name, done, err)
		}
		for i, want := range c.want {
			if got[codes[i]] != want {
				t.Errorf("%s: document %d is %q, want %q", name, i, got[codes[i]], want)
			}
		}
		if open, err := w.branch.Store.Due(record.QueueLot, record.Whenever, 9); err != nil || len(open) > 0 != c.open {
			t.Errorf("%s: open lots %+v, %v", name, open, err)
		}
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (fn tripper) RoundTrip(r *http.Request) (*http.Response, error) { return fn(r) }

// TestDocument_Unknown: documents of which MH may hold a form that the box does not know.
func TestDocument_Unknown(t *testing.T) {
	at := time.Unix(1e9, 0)
	sent, unsent := record.Correction{Forwarded: at}, record.Correction{}
	for name, c := range map[string]struct {
		head             record.Head
		turnUp, newForms bool
	}{
		"never sent":                   {record.Head{}, false, false},
		"sent in its normal form":      {record.Head{Sent: at}, true, false},
		"and in its form of the event": {record.Head{Sent: at, Forwarded: at}, false, false},
		"corrected": {record.Head{Form: record.FormCorrection + "1",
			Corrections: []record.Correction{unsent}}, false, true},
		"corrected and sent": {record.Head{Form: record.FormCorrection + "1",
			Corrections: []record.Correction{sent}}, false, false},
		"corrected again": {record.Head{Form: record.FormCorrection + "2",
			Corrections: []record.Correction{sent, unsent}}, false, true},
	} {
		o := document{head: &c.head}
		if o.mayTurnUp() != c.turnUp || o.newlyCorrected() != c.newForms {
			t.Errorf("%s: may turn up %v, newly corrected %v", name, o.mayTurnUp(), o.newlyCorrected())
		}
	}
}
