package contingency

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dtegate/engine/authority"
	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/storage"
)

// TestBacklog_Deadlines: the deadline of a waiting document, by its state, its queue and the event that it waits for.
func TestBacklog_Deadlines(t *testing.T) {
	at := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		queue            string
		state            storage.State
		event, documents time.Time
		period           string
		open             *Period
	}{
		"no event yet":            {record.QueueReport, record.Deferred, at.Add(24 * time.Hour), time.Time{}, "", nil},
		"its event is sealed":     {record.QueueForward, record.Reported, time.Time{}, at.Add(time.Hour), "", nil},
		"refused":                 {record.QueueCorrect, record.Rejected, time.Time{}, time.Time{}, "", nil},
		"signed, nothing decided": {record.QueueSettle, record.Signed, time.Time{}, time.Time{}, "", nil},
		"deferred alone, and the contingency that followed goes on": {record.QueueReport, record.Deferred, time.Time{},
			time.Time{}, "", &Period{Began: at.Add(5 * time.Second)}},
		"deferred alone, two days before the contingency": {record.QueueReport, record.Deferred, at.Add(24 * time.Hour),
			time.Time{}, "", &Period{Began: at.Add(48 * time.Hour)}},
		"issued while the clock was ahead of its contingency's end": {record.QueueReport, record.Deferred,
			at.Add(24 * time.Hour), time.Time{}, "ended", nil},
	} {
		head, err := json.Marshal(&record.Head{Document: "01", CreatedAt: at, Until: at, Limit: at.Add(time.Hour),
			Period: c.period})
		if err != nil {
			t.Fatal(err)
		}
		n := count{owed: &Backlog{}, law: law{event: 24 * time.Hour, documents: 72 * time.Hour}, open: c.open,
			contingency: newContingency(t, &moves{}, sending{}, at),
			ends:        map[string]time.Time{"ended": at.Add(-240 * time.Hour)}}
		if err := n.add(c.queue, storage.Entry{State: c.state, Head: head}); err != nil {
			t.Fatal(err)
		}
		if !n.owed.EventDeadline.Equal(c.event) || !n.owed.DocumentDeadline.Equal(c.documents) {
			t.Errorf("%s: event by %v, document by %v", name, n.owed.EventDeadline, n.owed.DocumentDeadline)
		}
	}
}

// TestBacklog_First: of many waiting documents the first deadline of each kind is shown, and the oldest document, in
// whatever order the queues have them.
func TestBacklog_First(t *testing.T) {
	at := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	limits := law{event: 24 * time.Hour, documents: 72 * time.Hour, correction: 24 * time.Hour}
	ends := map[string]time.Time{"open": {}} // of the periods
	type waiting struct {
		queue string
		entry storage.Entry
	}
	var list []waiting
	store := newStore(t, at)
	lost, err := json.Marshal(&record.Head{Document: "01", CreatedAt: at.Add(time.Hour), Until: at.Add(time.Hour),
		Event: "00000000-0000-4000-8000-000000000000"}) // the store has lost the event
	if err != nil {
		t.Fatal(err)
	}
	list = append(list, waiting{record.QueueReport, storage.Entry{State: record.Deferred, Head: lost}})
	for i := range 6 {
		issued, period := at.Add(time.Duration(i)*time.Hour), fmt.Sprint("period ", i)
		event, err := dte.NewCode(rand.Reader) // MH refused it two hours after the issue
		if err != nil {
			t.Fatal(err)
		}
		refused, err := json.Marshal(&Event{Receipt: &authority.Receipt{At: issued.Add(2 * time.Hour),
			Mensaje: "no"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Append(t.Context(), storage.Keys{Series: "00/evento"}, storage.Draft{Code: storage.Code(event),
			State: record.EventRejected, Head: refused}); err != nil {
			t.Fatal(err)
		}
		ends[period] = issued.Add(40 * time.Hour)
		for _, c := range []struct {
			queue, period string
			state         storage.State
		}{{record.QueueReport, "", record.Deferred}, {record.QueueReport, period, record.Deferred},
			{record.QueueReport, "open", record.Deferred}, {record.QueueForward, period, record.Reported}} {
			head, err := json.Marshal(&record.Head{Document: "01", CreatedAt: issued, Period: c.period,
				Event: event.String(), Until: issued.Add(time.Minute), Limit: issued.Add(time.Duration(6-i) * 10 * time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, waiting{c.queue, storage.Entry{State: c.state, Head: head}})
		}
	}
	for _, periods := range []bool{false, true} { // otherwise documents that were deferred alone have the first deadline
		for range 2 {
			n := count{owed: &Backlog{At: at.Add(50 * time.Hour)}, law: limits, ends: ends,
				contingency: newContingency(t, &moves{}, sending{}, at)}
			n.contingency.branch.Store = store
			for _, w := range list {
				if h, err := record.DecodeHead(w.entry); err != nil {
					t.Fatal(err)
				} else if periods && h.Period == "" {
					continue
				}
				if err := n.add(w.queue, w.entry); err != nil {
					t.Fatal(err)
				}
			}
			event := at.Add(time.Minute + limits.event)
			if periods {
				event = at.Add(40*time.Hour + limits.event)
			}
			documents := at.Add(15 * time.Hour) // of the last one
			if o := n.owed; !o.EventDeadline.Equal(event) || !o.DocumentDeadline.Equal(documents) || !o.Oldest.Equal(at) {
				t.Errorf("event by %v, want %v; document by %v, want %v; oldest of %v, want %v", o.EventDeadline, event,
					o.DocumentDeadline, documents, o.Oldest, at)
			}
			if want := at.Add(2*time.Hour + limits.correction); !n.owed.CorrectionDeadline.Equal(want) ||
				!strings.Contains(n.owed.Refused, "no") {
				t.Errorf("correction by %v, want %v; MH said %q", n.owed.CorrectionDeadline, want, n.owed.Refused)
			}
			slices.Reverse(list)
		}
	}
}

// TestBacklog_Refused: of several refused documents that can be corrected, the first deadline is shown.
func TestBacklog_Refused(t *testing.T) {
	at := time.Date(2027, 3, 1, 14, 0, 0, 0, time.UTC)
	w := newContingency(t, &moves{}, sending{}, at)
	w.branch.Store = newStore(t, at)
	w.branch.Lost = record.NewLostRecords(w.branch.Store, w.branch.Logger)
	for i, hours := range []int{5, 3, 9} {
		if _, err := w.branch.Store.Append(t.Context(), storage.Keys{Series: "00/x"}, storage.Draft{
			Code: storage.Code{byte(i)}, State: record.Rejected, Head: []byte("{}"),
			Due: &storage.Due{Queue: record.QueueCorrect, At: at.Add(time.Duration(hours) * time.Hour)}}); err != nil {
			t.Fatal(err)
		}
	}
	o, err := w.CountBacklog()
	if err != nil || o.Waiting[record.QueueCorrect] != 3 || !o.RefusedDeadline.Equal(at.Add(3*time.Hour)) {
		t.Errorf("%+v: %v", o, err)
	}
}
