package outbox

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"dtegate/engine/record"
	"dtegate/storage"
)

// TestUndelivered_Many: more failures than a status lists are all counted; the waiting letters are counted with the
// oldest; a letter that cannot be read is left out of both.
func TestUndelivered_Many(t *testing.T) {
	w, began := newHookWorld(t), time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	defer w.store.Close()
	box := New(Options{Store: w.store, Now: func() time.Time { return began.Add(time.Hour) }})
	n := 0
	add := func(state storage.State, queue string, s record.Step) {
		t.Helper()
		n++
		head, err := json.Marshal(Mailing{Document: fmt.Sprintf("document %03d", n), To: "ana@example.com", TokenID: 7,
			Step: s})
		if s.Result == "unread" {
			head = []byte("{")
		}
		if err == nil {
			_, err = w.store.Append(t.Context(), storage.Keys{Series: "00/correo"}, storage.Draft{Head: head, State: state,
				Code: storage.Code{0: byte(n), 6: 0x40, 8: 0x80}, Due: &storage.Due{Queue: queue, At: s.Since}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxFailures + 2 {
		add(record.LetterFailed, record.QueueUndelivered, record.Step{Result: record.StepFailed, Error: "no such mailbox",
			Since: began.Add(time.Duration(i) * time.Second)})
	}
	for _, later := range []time.Duration{2, 1, 3} {
		add(record.LetterOpen, record.QueueDeliver, record.Step{Since: began.Add(later * time.Minute)})
	}
	add(record.LetterOpen, record.QueueDeliver, record.Step{Since: began, Result: "unread"})
	var u Undelivered
	if err := box.CountUndelivered(&u); err != nil || u.GivenUp != maxFailures+2 || len(u.Failures) != maxFailures ||
		u.Mail != 3 || !u.MailOldest.Equal(began.Add(time.Minute)) || u.Archive != 0 || !u.ArchiveOldest.IsZero() {
		t.Errorf("%d given up, %d listed, %d wait since %v, %d for the archive: %v", u.GivenUp, len(u.Failures), u.Mail,
			u.MailOldest, u.Archive, err)
	}
	for _, limit := range []int{1, maxFailures + 1, 1000} {
		list, err := box.GivenUp(limit)
		want := Failure{Code: "document 001", Step: "mail", To: "ana@example.com", Token: 7, Since: began,
			Error: "no such mailbox"}
		if err != nil || len(list) != min(limit, maxFailures+2) || list[0] != want {
			t.Errorf("%d of at most %d, first %+v: %v", len(list), limit, list[0], err)
		}
	}
}
