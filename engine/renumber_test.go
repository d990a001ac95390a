package engine

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"dtegate/engine/dte"
	"dtegate/engine/outbox"
	"dtegate/engine/record"
	"dtegate/storage"
)

// A store of before has letters in states whose numbers are those of rules by now: the ones that wait get the numbers of
// today at the start, and are sent or forgotten like any other.
func TestRenumberLetters(t *testing.T) {
	inBubble(t, func(b *box) {
		ctx := context.Background()
		about := b.issue(sale("a", 100))
		since := b.now().UTC()
		put := func(n byte, state storage.State, s record.Step, due *storage.Due) storage.Code {
			head, err := json.Marshal(outbox.Letter{Document: about.Code, To: "a@example.com", Step: s})
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.store.Append(ctx, storage.Keys{Series: "00/correo"}, storage.Draft{Code: storage.Code{n}, State: state, Head: head, Due: due})
			if err != nil {
				t.Fatal(err)
			}
			return storage.Code{n}
		}
		open := put(1, 64, record.Step{Since: since, Next: since}, &storage.Due{Queue: record.QueueDeliver, At: since})
		sent := put(2, 65, record.Step{Since: since, Result: record.StepDone}, nil)
		failed := put(3, 66, record.Step{Since: since, Result: record.StepFailed}, &storage.Due{Queue: record.QueueUndelivered, At: since})
		b.close()
		b.start()
		time.Sleep(time.Second)
		for code, want := range map[storage.Code]storage.State{open: record.LetterOpen, sent: 65, failed: record.LetterFailed} {
			if e, err := b.store.Get(code); err != nil || e.State != want {
				t.Errorf("letter %d is in state %d, want %d: %v", code[0], e.State, want, err)
			}
		}
		if u := b.undelivered(); u.Mail != 1 || u.GivenUp != 1 {
			t.Errorf("owed are %+v", u)
		}
		code, err := dte.ParseCode(about.Code)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := b.engine.outbox.Forget(ctx, code); n != 1 || err != nil {
			t.Errorf("forgot %d: %v", n, err)
		}
	})
}
