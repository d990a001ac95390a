package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"dtegate/engine/dte"
	"dtegate/engine/record"
	"dtegate/engine/refusal"
	"dtegate/storage"
)

// GivenUp lists at most limit messages and documents that were given up, the oldest first. Errors: the store's.
func (box *Outbox) GivenUp(limit int) ([]Failure, error) {
	_, list, err := box.failures(limit)
	if err != nil {
		return nil, refusal.Internal(err)
	}
	return list, nil
}

// Retry sends what was given up of a document again, as if it were new, and returns how many messages and files that are. With
// archive, the document's files are archived again if they are missing there, although the archive accepted them before.
// Errors: CodeNotFound, or the store's.
func (box *Outbox) Retry(ctx context.Context, code dte.Code, archive bool) (n int, err error) {
	now := box.now().UTC()
	anew := func(s *record.Step) *record.Step { n++; return &record.Step{Since: now, Next: now, Held: s.Held} }
	err = box.settleGivenUp(ctx, code, func(d *record.Delivery) {
		if d.Mail.Failed() {
			d.Mail = anew(d.Mail)
		}
		if d.Archive.Failed() || archive && d.Archive != nil && !d.Archive.Pending() {
			d.Archive = anew(d.Archive)
		}
	}, func(l *Letter) storage.Change {
		l.Step = *anew(&l.Step)
		return storage.Change{To: record.LetterOpen, Due: &storage.Due{Queue: record.QueueDeliver, At: now}}
	})
	box.delivery.bell.Ring()
	return n, err
}

// Forget removes what was given up of a document from the list, and returns how many messages and files that were. Errors:
// CodeNotFound, or the store's.
func (box *Outbox) Forget(ctx context.Context, code dte.Code) (n int, err error) {
	forgotten := func(s *record.Step) *record.Step {
		n++
		return &record.Step{Result: record.StepForgotten, Since: s.Since, Error: s.Error, Held: s.Held}
	}
	err = box.settleGivenUp(ctx, code, func(d *record.Delivery) {
		if d.Mail.Failed() {
			d.Mail = forgotten(d.Mail)
		}
		if d.Archive.Failed() {
			d.Archive = forgotten(d.Archive)
		}
	}, func(l *Letter) storage.Change {
		l.Step = *forgotten(&l.Step)
		return storage.Change{To: record.LetterFailed}
	})
	return n, err
}

// settleGivenUp changes what the record of a document knows of its delivery, and the letters about it that were given
// up: letter alters one and says where it goes.
func (box *Outbox) settleGivenUp(ctx context.Context, code dte.Code, document func(*record.Delivery), about func(*Letter) storage.Change) error {
	err := box.docs.ChangeDelivery(ctx, storage.Code(code), document)
	if errors.Is(err, storage.ErrNotFound) {
		return &refusal.Error{Code: refusal.CodeNotFound, Message: "There is no document " + code.String(), Operator: true}
	}
	if err != nil {
		return refusal.Internal(err)
	}
	failed, err := box.store.Due(record.QueueUndelivered, record.Whenever, record.MaxCounted)
	if err != nil {
		return refusal.Internal(fmt.Errorf("reading queue %s: %w", record.QueueUndelivered, err))
	}
	for _, entry := range failed {
		if record.IsDocument(entry.State) {
			continue
		}
		l, err := decodeLetter(entry)
		if err != nil {
			return refusal.Internal(err)
		}
		if l.Document != code.String() {
			continue
		}
		change := about(l)
		if change.Head, err = json.Marshal(l); err != nil {
			return refusal.Internal(err)
		}
		if _, err := record.Move(ctx, box.store, entry.Code, record.LetterFailed, change); err != nil {
			return refusal.Internal(err)
		}
	}
	return nil
}
