package contingency

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/record"
	"dtegate/engine/rulestore"
	"dtegate/rules"
	"dtegate/storage"
)

// answers is an authority that gives one answer to queries: "seal", "none" (it does not hold the document) or "silence".
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
		status, text = http.StatusOK, fmt.Sprintf(`{"estado":"PROCESADO","codigoGeneracion":%q,"selloRecibido":"20219E9D4DC0292F4681AD759B0B0F5CA99DC23G"}`, code)
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text)), Header: http.Header{}, Request: r}, nil
}

// moves records the moves of documents; what it does not override is not called.
type moves struct {
	Documents
	to      storage.Change
	head    *record.Head
	adopted bool
}

func (m *moves) Move(_ context.Context, e storage.Entry, c storage.Change, h *record.Head) (storage.Entry, error) {
	m.to, m.head = c, h
	return e, nil
}

func (m *moves) AdoptHeld(_ context.Context, e storage.Entry, _ *record.Head, _ *authority.Response, _ time.Duration) (storage.Entry, error) {
	m.adopted = true
	return e, nil
}

// TestRecordAnswer: what a document becomes by MH's answer and, where MH refuses it, by what MH says when it is asked whether it holds
// an earlier sending. Only what is certain decides it: else it stays in doubt, in the queue, with the time of its sending.
func TestRecordAnswer(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	none, err := rules.NewGeneration()
	if err != nil {
		t.Fatal(err)
	}
	book, err := rulestore.NewBook(none, nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const adopted, doubt = storage.State(250), storage.State(251)
	for name, c := range map[string]struct {
		kind  authority.Kind
		query answers
		ago   time.Duration // of an earlier sending without an answer; 0: none
		code  string        // MH's, of a refusal
		want  storage.State
	}{
		"accepted":          {kind: authority.Accepted, want: record.Accepted},
		"no answer":         {kind: authority.Unknown, want: doubt},
		"refused, and held": {kind: authority.Rejected, query: "seal", ago: time.Minute, want: adopted},
		"refused, and nobody says whether it is held":  {kind: authority.Rejected, query: "silence", ago: time.Hour, want: doubt},
		"refused at once, silence":                     {kind: authority.Rejected, query: "silence", want: doubt},
		"refused, not held, sent a minute ago":         {kind: authority.Rejected, query: "none", ago: time.Minute, want: doubt},
		"refused, not held, sent two minutes ago":      {kind: authority.Rejected, query: "none", ago: 2 * time.Minute, want: record.Rejected},
		"refused, not held, never sent before":         {kind: authority.Rejected, query: "none", want: record.Rejected},
		"refused for its number, of which MH has none": {kind: authority.Rejected, query: "none", code: authority.CodeRegistered, want: record.Rejected},
	} {
		t.Run(name, func(t *testing.T) {
			clock := func() time.Time { return now }
			m := &moves{}
			client := authority.New(authority.Options{BaseURL: "http://mh", NIT: "06140101901019", Password: "secreto", Ambiente: "00", UserAgent: "dtegate",
				Now: clock, Transport: c.query})
			taken := ""
			b := Branch{Documents: m, Rules: func() *rulestore.Book { return book }, Logger: slog.New(slog.DiscardHandler), Now: clock,
				Sender: authority.NewSender(&authority.Sender{Client: client, Now: clock, Away: func() bool { return false }, Suspect: func() {},
					Taken: func(code, _ string) { taken = code }})}
			w := &Contingency{branch: b, metrics: newMetrics()}
			w.branch.Issuer.Ambiente = "00"
			o := document{entry: storage.Entry{Code: storage.Code{1}, State: record.Reported}, head: &record.Head{Document: "01", CreatedAt: now.Add(-time.Hour), Doubtful: true}}
			if c.ago > 0 {
				o.head.Sent = now.Add(-c.ago)
			}
			w.sizes.shrink([]storage.Code{o.entry.Code})
			out := authority.Outcome{Kind: c.kind, Sent: true, Response: &authority.Response{CodigoMsg: c.code}}
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
				if m.to.To != record.Reported || m.to.Due == nil || *m.to.Due != (storage.Due{Queue: record.QueueForward, At: now.Add(2 * time.Minute)}) ||
					!m.head.Doubtful || !m.head.Sent.Equal(now) || !m.head.Forwarded.Equal(o.head.CreatedAt) || m.head.Response != nil {
					t.Errorf("not in doubt: %+v, %+v", m.to, m.head)
				}
				return
			}
			if m.adopted || m.to.To != c.want || !m.to.Announce || m.head.Doubtful || m.head.Response != out.Response || w.sizes.sizeFor(o.entry.Code, 9) != 9 {
				t.Errorf("%+v, %+v", m.to, m.head)
			}
			if c.want == record.Rejected {
				due := &storage.Due{Queue: record.QueueCorrect, At: now.Add(24 * time.Hour)}
				if c.code == authority.CodeRegistered {
					due = nil
				}
				if !m.head.Refused.Equal(now) || (m.to.Due == nil) != (due == nil) || due != nil && *m.to.Due != *due || (taken != "") != (due == nil) {
					t.Errorf("refused at %v, due %+v, number taken by %q", m.head.Refused, m.to.Due, taken)
				}
			}
		})
	}
}

// TestNoteFirst: only the first sending of a form sets its time; the correction that is the record has its own.
func TestNoteFirst(t *testing.T) {
	now := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	w := &Contingency{branch: Branch{Now: clock, Sender: &authority.Sender{Client: authority.New(authority.Options{BaseURL: "http://mh", Now: clock, Transport: answers("none")})}}}
	earlier := now.Add(-time.Hour)
	for name, c := range map[string]struct{ head, want record.Head }{
		"never sent": {record.Head{}, record.Head{Forwarded: now}},
		"sent":       {record.Head{Forwarded: earlier}, record.Head{Forwarded: earlier}},
		"corrected": {record.Head{Form: record.FormCorrection + "2", Forwarded: earlier, Corrections: []record.Correction{{Forwarded: earlier}, {}}},
			record.Head{Corrections: []record.Correction{{Forwarded: earlier}, {Forwarded: now}}, Forwarded: earlier}},
		"corrected and sent": {record.Head{Form: record.FormCorrection + "1", Corrections: []record.Correction{{Forwarded: earlier}}},
			record.Head{Corrections: []record.Correction{{Forwarded: earlier}}}},
	} {
		given := append([]record.Correction(nil), c.head.Corrections...)
		h := c.head
		w.noteFirst(&h)
		if !h.Forwarded.Equal(c.want.Forwarded) {
			t.Errorf("%s: %v", name, h.Forwarded)
		}
		for i, n := range h.Corrections {
			if !n.Forwarded.Equal(c.want.Corrections[i].Forwarded) || !c.head.Corrections[i].Forwarded.Equal(given[i].Forwarded) {
				t.Errorf("%s: correction %d was sent at %v", name, i+1, n.Forwarded)
			}
		}
	}
}

// TestLotSizes: the documents of a lot that MH refused go in halves of it, down to one, until MH has decided them; the others are as
// many as before.
func TestLotSizes(t *testing.T) {
	var l lotSizes
	codes := make([]storage.Code, 7)
	for i := range codes {
		codes[i] = storage.Code{byte(i + 1)}
	}
	for _, want := range []int{4, 2, 1, 1} {
		l.shrink(codes)
		for _, c := range codes {
			if got := l.sizeFor(c, 100); got != want {
				t.Fatalf("%d after a lot of %d", got, len(codes))
			}
		}
		codes = codes[:want]
	}
	if l.sizeFor(storage.Code{5}, 100) != 4 || l.sizeFor(storage.Code{5}, 3) != 3 || l.sizeFor(storage.Code{99}, 100) != 100 {
		t.Error("of a half that was not sent, of a smaller bound, of another document")
	}
	if l.forget(codes[0]); l.sizeFor(codes[0], 100) != 100 {
		t.Error("a decided document is remembered")
	}
}
